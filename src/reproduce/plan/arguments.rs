//! The arguments of a call in C. An argument that goes out creates a variable, one that goes in names one.

use super::forms::{all_forms, handle_type, host, is_host, size_of, stem};
use super::objects::Id;
use super::world::{Site, World};
use super::{stand_in, values};
use cupeer_report::values::{handle_fingerprints, shared_descriptor};
use cupeer_spec::function::{ArgSpec, Direction};
use cupeer_spec::record::slot::shape;
use cupeer_spec::value::CHECKED;

/// Types in C whose values are objects, and stay the same as long as the object exists.
const OBJECTS: [&str; 6] =
    ["CUdeviceptr", "CUcontext", "CUevent", "CUstream", "CUmemGenericAllocationHandle", "CUmemoryPool"];
/// Values of the type CUstream below this one name the default streams.
const STREAMS: u64 = 3;
/// Largest distance from an object at which an address counts as one behind it.
const BEHIND: u64 = 16 << 20;

impl World {
    /// Returns the call in C; `None` if an argument cannot be repeated.
    pub fn written(&mut self, site: Site) -> Option<String> {
        let Site { function, call, .. } = site;
        let (before, uses) = (self.before.len(), self.uses.len());
        let name = if all_forms(function) { function.lookup() } else { function.name() };
        let arguments: Option<Vec<String>> = match function.created_context() {
            Some((by, _)) => self.argument(site, by).map(|argument| vec![argument]),
            None => (0..function.args().len()).map(|index| self.argument(site, index)).collect(),
        };
        if arguments.is_none() {
            self.before.truncate(before);
            self.uses.truncate(uses);
        }
        let arguments = arguments?.join(", ");
        Some(match function.created_context() {
            // Its forms differ between versions of cuda.h.
            Some((_, device)) => format!("create_context({arguments}, {})", call.argument_number(device)?),
            None => format!("{name}({arguments})"),
        })
    }

    /// Returns a copy or a memset of the memory that a call uses whose structures were not recorded: rows, batches, and graphs.
    pub fn stand_in(&mut self, site: Site) -> Option<String> {
        let Site { process, function, call, .. } = site;
        let mut sides = [true, false].map(|is_write| {
            let mut ranges = stand_in::ranges(function, call).filter(|range| range.is_write == is_write);
            ranges.find_map(|range| Some((self.known_address(process, range.address, true)?, range.bytes)))
        });
        if let ([None, None], false) = (&sides, call.succeeded()) {
            // A rule named the memory at least.
            let mut objects = call.details.findings.iter().flat_map(|finding| &finding.objects);
            sides[0] = objects.find_map(|object| Some((self.known_address(process, object.what.address, true)?, 1)));
        }
        let stream = function.args().iter().position(ArgSpec::is_stream);
        let stream = stream.and_then(|index| self.object(site, index, "CUstream"));
        let stream = stream.as_deref().unwrap_or("0");
        let size = |bytes: u64| values::number(bytes);
        Some(match sides {
            [Some((to, written)), Some((from, read))] => {
                format!("cuMemcpyDtoDAsync({to}, {from}, {}, {stream})", size(written.min(read)))
            }
            [Some((to, bytes)), None] => format!("cuMemsetD8Async({to}, 7, {}, {stream})", size(bytes)),
            [None, Some((from, bytes))] => {
                format!("cuMemcpyDtoHAsync(host_memory({0}), {from}, {0}, {stream})", size(bytes))
            }
            [None, None] => return None,
        })
    }

    fn argument(&mut self, site: Site, index: usize) -> Option<String> {
        let Site { function, shown, call, .. } = site;
        let (arg, word) = (&function.args()[index], shown.args()[index].type_word());
        if call.slot.shape(index) == shape::NULL {
            return Some("NULL".to_owned());
        }
        let is_handle = arg.is_ipc_handle() || arg.handle_kind_argument().is_some() || word == "CUmemPoolPtrExportData";
        match arg.direction {
            Direction::Out | Direction::InOut if function.exports().is_some_and(|shared| shared.handle == index) => {
                Some(self.exported(site, index))
            }
            Direction::Out | Direction::InOut => Some(self.output(site, index)),
            Direction::String => None,
            Direction::In if arg.count_argument().is_some() => {
                let elements = call.details.elements.iter().find(|(of, _)| usize::from(*of) == index);
                let initializer = values::array(&elements?.1, arg)?;
                Some(self.constant(&values::target(arg), "[]", &initializer))
            }
            Direction::In if is_handle => Some(self.handle(site, index)),
            Direction::In if OBJECTS.contains(&word) => self.object(site, index, word),
            Direction::In if word == "HostAddress" => is_host(function, index).then(|| host(function, call)),
            Direction::In => {
                let bytes = call.argument(index)?;
                match values::structure(bytes, arg) {
                    Some(initializer) => Some(format!("&{}", self.constant(&values::target(arg), "", &initializer))),
                    None => values::literal(bytes, arg).filter(|text| !text.starts_with('{')),
                }
            }
        }
    }

    /// Returns an argument that receives a handle. If the process exported the handle before, it is the same variable.
    fn exported(&mut self, Site { process, function, shown, call }: Site, index: usize) -> String {
        let (stem, c_type) = handle_type(function, call, &shown.args()[index]);
        let known = handle_fingerprints(call, index);
        let before = known.filter(|_| c_type != "int").and_then(|(whole, _)| self.handles.get(&whole).copied());
        let before = before.filter(|id| self.variables.get(*id).maker == process);
        let id = before.unwrap_or_else(|| self.variable(process, stem, c_type));
        if let Some((whole, checked)) = known {
            self.handles.insert(whole, id);
            self.checked.insert(checked, id);
        }
        if let Some((fd, _)) = shared_descriptor(call, index) {
            self.take_descriptor(process, fd, id);
        }
        self.touch(process, id);
        format!("&{}", self.name(id))
    }

    /// Returns an argument that receives an object or a value.
    fn output(&mut self, Site { process, function, shown, call }: Site, index: usize) -> String {
        let arg = &shown.args()[index];
        let (word, c_type) = (arg.type_word(), values::target(arg));
        if OBJECTS.contains(&word) {
            let id = self.variable(process, &stem(function, index), &c_type);
            if word != "CUcontext" {
                self.touch(process, id);
            }
            if let Some(number) = call.argument_number(index).filter(|_| call.succeeded()) {
                self.bind(process, word, number, size_of(function, call, index), id);
            }
            return format!("&{}", self.name(id));
        }
        // Nothing reads the values of queries, so those of one type share a variable.
        let count = arg.count_argument().and_then(|count| call.argument_number(count));
        let known = self.states[process].answers.get(&(c_type.clone(), count)).copied();
        let id = known.unwrap_or_else(|| self.variable(process, "answer", &c_type));
        self.states[process].answers.insert((c_type, count), id);
        self.variables.set_elements(id, count);
        format!("{}{}", if count.is_some() { "" } else { "&" }, self.name(id))
    }

    /// Returns an argument that names an object of the process.
    fn object(&mut self, site: Site, index: usize, word: &'static str) -> Option<String> {
        let Site { process, call, .. } = site;
        let number = call.argument_number(index)?;
        if number == 0 || word == "CUstream" && number < STREAMS {
            return Some(["0", "CU_STREAM_LEGACY", "CU_STREAM_PER_THREAD"][number as usize].to_owned());
        }
        if word == "CUdeviceptr" {
            return Some(self.address(site, index, number));
        }
        let is_anew = call.succeeded() && self.states[process].gone.remove(&(word, number));
        let known = self.states[process].objects.find(word, number).filter(|_| !is_anew);
        let id = known.or_else(|| self.missing(site, word, number));
        let Some(id) = id else { return Some(format!("({word}){number:#x}")) };
        if !["CUcontext", "CUstream"].contains(&word) {
            self.touch(process, id);
        }
        Some(self.name(id))
    }

    /// Returns an argument that is an address. Memory that existed before the call is allocated if the call shows its size.
    fn address(&mut self, site: Site, index: usize, address: u64) -> String {
        let Site { process, function, call, .. } = site;
        let state = &self.states[process];
        let is_anew = |(start, _): &(u64, u64)| call.succeeded() && state.gone.contains(&("CUdeviceptr", *start));
        if state.objects.at(address).is_none() || call.details.memory.is_some_and(|memory| is_anew(&memory)) {
            let is_inside =
                |(start, size): &(u64, u64)| address.checked_sub(*start).is_some_and(|offset| offset < *size);
            let used = function.touched_ranges().into_iter().flatten().find(|(by, ..)| *by == index);
            let used = used.filter(|_| call.succeeded() && !function.takes_any_address());
            let used = used.and_then(|(_, size, bytes, _)| Some((address, call.argument_number(size)? * bytes)));
            if let Some((start, size)) = call.details.memory.filter(is_inside).or(used) {
                self.allocate(site, start, size);
            }
        }
        self.known_address(process, address, !call.succeeded()).unwrap_or_else(|| match function.takes_any_address() {
            true => format!("(CUdeviceptr){}", host(function, call)),
            false => format!("{address:#x}"),
        })
    }

    /// Returns an address as an object and an offset; with `is_behind`, also one that is behind the object.
    fn known_address(&mut self, process: usize, address: u64, is_behind: bool) -> Option<String> {
        let objects = &self.states[process].objects;
        let behind = || objects.behind(address, BEHIND).filter(|_| is_behind);
        let (id, offset) = objects.at(address).or_else(behind)?;
        self.touch(process, id);
        let name = self.name(id);
        Some(if offset == 0 { name } else { format!("{name} + {}", values::number(offset)) })
    }

    /// Returns an argument that is a handle, and opens an object.
    fn handle(&mut self, site: Site, index: usize) -> String {
        let Site { process, function, call, .. } = site;
        let (stem, c_type) = handle_type(function, call, &function.args()[index]);
        let known = handle_fingerprints(call, index);
        let exact = known.and_then(|(whole, _)| self.handles.get(&whole).copied());
        let unchecked = known.and_then(|(_, checked)| self.checked.get(&checked).copied());
        let mut found = call.details.findings.iter().flat_map(|finding| &finding.objects);
        let original = found.find_map(|object| self.handles.get(&object.what.fingerprint).copied());
        let id = match exact.or(unchecked).or(original) {
            Some(id) if exact.is_some() && self.variables.get(id).c_type == c_type => id,
            Some(id) if self.variables.get(id).c_type != "int" && c_type != "int" => {
                self.touch(process, id);
                let copy = self.variable(process, stem, c_type);
                let (name, original) = (self.name(copy), self.name(id));
                self.before.push(format!("memcpy(&{name}, &{original}, sizeof {name});"));
                if exact.is_none() {
                    // The driver opens a handle even if one of the first bytes is damaged.
                    let byte = if unchecked.is_some() { 0 } else { CHECKED.start };
                    self.before.push(format!("((char *)&{name})[{byte}] ^= 1;"));
                }
                copy
            }
            _ => self.unknown_handle(site, index, stem, c_type),
        };
        if let Some((fd, _)) = shared_descriptor(call, index) {
            self.take_descriptor(process, fd, id);
        }
        self.touch(process, id);
        let name = self.name(id);
        match c_type {
            "int" => format!("(void *)(intptr_t){name}"),
            "CUipcMemHandle" | "CUipcEventHandle" => name,
            _ => format!("&{name}"),
        }
    }

    /// Makes a handle that no recorded process exported.
    fn unknown_handle(&mut self, Site { process, call, .. }: Site, index: usize, stem: &str, c_type: &str) -> Id {
        let known = shared_descriptor(call, index)
            .filter(|_| c_type == "int")
            .and_then(|(fd, file)| Some((self.states[process].descriptors.get(&fd).copied()?, file != 0)));
        if let Some((id, is_open)) = known {
            if !is_open {
                self.before.push(format!("close({});", self.name(id)));
            }
            return id;
        }
        let id = self.variable(process, stem, c_type);
        let name = self.name(id);
        self.before.push(match c_type {
            "int" => format!("{name} = dup(2); /* no recorded process exported it */"),
            _ => format!("memset(&{name}, 0x5a, sizeof {name}); /* no recorded process exported it */"),
        });
        id
    }
}
