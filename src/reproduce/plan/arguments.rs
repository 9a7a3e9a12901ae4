//! The arguments of a call in C. An argument that goes out creates a variable, one that goes in names one.

use super::forms::{handle_type, has_uniform_forms, host_size, is_host_memory, object_size, object_stem};
use super::objects::VariableId;
use super::state::{JobState, PlannedCall};
use super::values::format_number;
use super::{stand_in, values};
use cupeer_record::Call;
use cupeer_report::values::{handle_fingerprints, shared_descriptor};
use cupeer_spec::function::{ArgSpec, Direction};
use cupeer_spec::record::slot::shape;
use cupeer_spec::value::CHECKED;

/// Types in C whose values are objects, and stay the same as long as the object exists.
const OBJECT_TYPES: [&str; 6] =
    ["CUdeviceptr", "CUcontext", "CUevent", "CUstream", "CUmemGenericAllocationHandle", "CUmemoryPool"];
/// Values of the type CUstream below this one name the default streams.
const DEFAULT_STREAMS: u64 = 3;
/// Largest distance from an object at which an address counts as one behind it.
const MOST_DISTANCE: u64 = 16 << 20;

impl JobState {
    /// Returns the call in C; `None` if an argument cannot be repeated.
    pub fn format_call(&mut self, planned: PlannedCall) -> Option<String> {
        let PlannedCall { function, call, .. } = planned;
        let text = match function.created_context() {
            // Its forms differ between versions of cuda.h.
            Some((by, device)) => {
                let argument = self.format_argument(planned, by).zip(call.argument_number(device));
                argument.map(|(argument, device)| format!("create_context({argument}, {device})"))
            }
            None => {
                let name = if has_uniform_forms(function) { function.lookup() } else { function.name() };
                let arguments = (0..function.args().len()).map(|index| self.format_argument(planned, index));
                arguments.collect::<Option<Vec<_>>>().map(|arguments| format!("{name}({})", arguments.join(", ")))
            }
        };
        if text.is_none() {
            self.before.clear();
            self.uses.clear();
        }
        text
    }

    /// Returns a copy or a memset of the memory that a call uses whose structures were not recorded: rows, batches, and graphs.
    pub fn format_stand_in(&mut self, planned: PlannedCall) -> Option<String> {
        let PlannedCall { function, call, .. } = planned;
        let mut sides = [true, false].map(|is_write| {
            let mut ranges =
                stand_in::used_ranges(function, call).into_iter().filter(|range| range.is_write == is_write);
            ranges.find_map(|range| Some((self.format_known_address(range.address, true)?, range.bytes)))
        });
        if let ([None, None], false) = (&sides, call.succeeded()) {
            // A rule named the memory at least.
            let mut objects = call.details.findings.iter().flat_map(|finding| &finding.objects);
            sides[0] = objects.find_map(|object| Some((self.format_known_address(object.what.address, true)?, 1)));
        }
        let stream = function.args().iter().position(ArgSpec::is_stream);
        let stream = stream.and_then(|index| self.format_object(planned, index, "CUstream"));
        let stream = stream.as_deref().unwrap_or("0");
        Some(match sides {
            [Some((to, written)), Some((from, read))] => {
                format!("cuMemcpyDtoDAsync({to}, {from}, {}, {stream})", format_number(written.min(read)))
            }
            [Some((to, bytes)), None] => format!("cuMemsetD8Async({to}, 7, {}, {stream})", format_number(bytes)),
            [None, Some((from, bytes))] => {
                format!("cuMemcpyDtoHAsync(host_memory({0}), {from}, {0}, {stream})", format_number(bytes))
            }
            [None, None] => return None,
        })
    }

    fn format_argument(&mut self, planned: PlannedCall, index: usize) -> Option<String> {
        let PlannedCall { function, shown, call, .. } = planned;
        let (arg, word) = (&function.args()[index], shown.args()[index].type_word());
        if call.slot.shape(index) == shape::NULL {
            return Some("NULL".to_owned());
        }
        let is_handle = arg.is_ipc_handle() || arg.handle_kind_argument().is_some() || word == "CUmemPoolPtrExportData";
        match arg.direction {
            Direction::Out | Direction::InOut if function.exports().is_some_and(|shared| shared.handle == index) => {
                Some(self.format_exported_handle(planned, index))
            }
            Direction::Out | Direction::InOut => Some(self.format_output(planned, index)),
            Direction::String => None,
            Direction::In if arg.count_argument().is_some() => {
                let elements = call.details.elements.iter().find(|(of, _)| usize::from(*of) == index);
                let initializer = values::format_array(&elements?.1, arg)?;
                Some(self.add_constant(&values::target_type(arg), "[]", &initializer))
            }
            Direction::In if is_handle => Some(self.format_opened_handle(planned, index)),
            Direction::In if OBJECT_TYPES.contains(&word) => self.format_object(planned, index, word),
            Direction::In if word == "HostAddress" => {
                is_host_memory(function, index).then(|| self.format_host_memory(planned))
            }
            Direction::In => {
                let bytes = call.argument(index)?;
                match values::format_structure(bytes, arg) {
                    Some(initializer) => {
                        Some(format!("&{}", self.add_constant(&values::target_type(arg), "", &initializer)))
                    }
                    None => values::format_literal(bytes, arg).filter(|text| !text.starts_with('{')),
                }
            }
        }
    }

    /// Returns an argument that receives a handle. If the process exported the handle before, it is the same variable.
    fn format_exported_handle(&mut self, PlannedCall { function, shown, call }: PlannedCall, index: usize) -> String {
        let (stem, c_type) = handle_type(function, call, &shown.args()[index]);
        let known = handle_fingerprints(call, index);
        let before = known.filter(|_| c_type != "int").and_then(|(whole, _)| self.handles.get(&whole).copied());
        let before = before.filter(|id| self.variables.get(*id).maker == self.process);
        let id = before.unwrap_or_else(|| self.add_variable(stem, c_type));
        if let Some((whole, checked)) = known {
            self.handles.insert(whole, id);
            self.checked_handles.insert(checked, id);
        }
        if let Some((fd, _)) = shared_descriptor(call, index) {
            self.bind_descriptor(fd, id);
        }
        self.note_use(id);
        format!("&{}", self.variable_name(id))
    }

    /// Returns an argument that receives an object or a value.
    fn format_output(&mut self, PlannedCall { function, shown, call }: PlannedCall, index: usize) -> String {
        let arg = &shown.args()[index];
        let (word, c_type) = (arg.type_word(), values::target_type(arg));
        if OBJECT_TYPES.contains(&word) {
            let id = self.add_variable(&object_stem(function, index), &c_type);
            if word != "CUcontext" {
                self.note_use(id);
            }
            if let Some(number) = call.argument_number(index).filter(|_| call.succeeded()) {
                self.bind_object(word, number, object_size(function, call, index), id);
            }
            return format!("&{}", self.variable_name(id));
        }
        // Nothing reads the values of queries, so those of one type share a variable.
        let count = arg.count_argument().and_then(|count| call.argument_number(count));
        let known = self.processes[self.process].query_values.get(&(c_type.clone(), count)).copied();
        let id = known.unwrap_or_else(|| self.add_variable("answer", &c_type));
        self.processes[self.process].query_values.insert((c_type, count), id);
        self.variables.set_elements(id, count);
        format!("{}{}", if count.is_some() { "" } else { "&" }, self.variable_name(id))
    }

    /// Returns an argument that names an object of the process.
    fn format_object(&mut self, planned: PlannedCall, index: usize, word: &'static str) -> Option<String> {
        let call = planned.call;
        let number = call.argument_number(index)?;
        if number == 0 || word == "CUstream" && number < DEFAULT_STREAMS {
            return Some(["0", "CU_STREAM_LEGACY", "CU_STREAM_PER_THREAD"][number as usize].to_owned());
        }
        if word == "CUdeviceptr" {
            return Some(self.format_address(planned, index, number));
        }
        let is_anew = call.succeeded() && self.processes[self.process].ended_objects.remove(&(word, number));
        let known = self.processes[self.process].objects.find_number(word, number).filter(|_| !is_anew);
        let id = known.or_else(|| self.create_missing(call, word, number));
        let Some(id) = id else { return Some(format!("({word}){number:#x}")) };
        if !["CUcontext", "CUstream"].contains(&word) {
            self.note_use(id);
        }
        Some(self.variable_name(id))
    }

    /// Returns an argument that is an address. Memory that existed before the call is allocated if the call shows its size.
    fn format_address(&mut self, planned: PlannedCall, index: usize, address: u64) -> String {
        let PlannedCall { function, call, .. } = planned;
        let state = &self.processes[self.process];
        let is_anew =
            |(start, _): &(u64, u64)| call.succeeded() && state.ended_objects.contains(&("CUdeviceptr", *start));
        if state.objects.find_address(address).is_none() || call.details.memory.is_some_and(|memory| is_anew(&memory)) {
            let is_inside =
                |(start, size): &(u64, u64)| address.checked_sub(*start).is_some_and(|offset| offset < *size);
            let used = function.touched_ranges().into_iter().flatten().find(|(by, ..)| *by == index);
            let used = used.filter(|_| call.succeeded() && !function.takes_any_address());
            let used = used.and_then(|(_, size, bytes, _)| Some((address, call.argument_number(size)? * bytes)));
            if let Some((start, size)) = call.details.memory.filter(is_inside).or(used) {
                self.allocate_missing(planned, start, size);
            }
        }
        self.format_known_address(address, !call.succeeded()).unwrap_or_else(|| match function.takes_any_address() {
            true => format!("(CUdeviceptr)host_memory({})", host_size(function, call)),
            false => format!("{address:#x}"),
        })
    }

    /// Returns an address as an object and an offset; with `is_behind`, also one that is behind the object.
    fn format_known_address(&mut self, address: u64, is_behind: bool) -> Option<String> {
        let objects = &self.processes[self.process].objects;
        let behind = || objects.find_address_before(address, MOST_DISTANCE).filter(|_| is_behind);
        let (id, offset) = objects.find_address(address).or_else(behind)?;
        self.note_use(id);
        let name = self.variable_name(id);
        Some(if offset == 0 { name } else { format!("{name} + {}", format_number(offset)) })
    }

    /// Returns an argument that is memory of the host. Contents that were equal are so again, and their copies stay in order.
    fn format_host_memory(&mut self, PlannedCall { function, call, .. }: PlannedCall) -> String {
        let size = host_size(function, call);
        let content = call.details.content.filter(|content| self.moved_contents.contains(&content.hash));
        let Some(content) = content else { return format!("host_memory({size})") };
        let known = self.contents.get(&content.hash).copied();
        let id = known.unwrap_or_else(|| self.add_variable("content", "unsigned"));
        self.contents.insert(content.hash, id);
        self.note_use(id);
        let is_read = function.touched_ranges().into_iter().flatten().any(|(.., is_write)| is_write);
        let step = if content.is_constant { 0 } else { 1 };
        if is_read { format!("host_pattern({size}, {}, {step})", id + 1) } else { format!("host_memory({size})") }
    }

    /// Returns an argument that is a handle, and opens an object.
    fn format_opened_handle(&mut self, planned: PlannedCall, index: usize) -> String {
        let PlannedCall { function, call, .. } = planned;
        let (stem, c_type) = handle_type(function, call, &function.args()[index]);
        let known = handle_fingerprints(call, index);
        let exact = known.and_then(|(whole, _)| self.handles.get(&whole).copied());
        let unchecked = known.and_then(|(_, checked)| self.checked_handles.get(&checked).copied());
        let mut found = call.details.findings.iter().flat_map(|finding| &finding.objects);
        let original = found.find_map(|object| self.handles.get(&object.what.fingerprint).copied());
        let id = match exact.or(unchecked).or(original) {
            Some(id) if exact.is_some() && self.variables.get(id).c_type == c_type => id,
            Some(id) if self.variables.get(id).c_type != "int" && c_type != "int" => {
                self.note_use(id);
                let copy = self.add_variable(stem, c_type);
                let (name, original) = (self.variable_name(copy), self.variable_name(id));
                self.before.push(format!("memcpy(&{name}, &{original}, sizeof {name});"));
                if exact.is_none() {
                    // The driver opens a handle even if one of the first bytes is damaged.
                    let byte = if unchecked.is_some() { 0 } else { CHECKED.start };
                    self.before.push(format!("((char *)&{name})[{byte}] ^= 1;"));
                }
                copy
            }
            _ => self.make_unknown_handle(call, index, stem, c_type),
        };
        if let Some((fd, _)) = shared_descriptor(call, index) {
            self.bind_descriptor(fd, id);
        }
        self.note_use(id);
        let name = self.variable_name(id);
        match c_type {
            "int" => format!("(void *)(intptr_t){name}"),
            "CUipcMemHandle" | "CUipcEventHandle" => name,
            _ => format!("&{name}"),
        }
    }

    /// Makes a handle that no recorded process exported.
    fn make_unknown_handle(&mut self, call: &Call, index: usize, stem: &str, c_type: &str) -> VariableId {
        let shared = shared_descriptor(call, index).filter(|_| c_type == "int");
        if let Some((fd, file)) = shared
            && let Some(id) = self.processes[self.process].descriptors.get(&fd).copied()
        {
            if file == 0 {
                self.before.push(format!("close({});", self.variable_name(id)));
            }
            return id;
        }
        let id = self.add_variable(stem, c_type);
        let name = self.variable_name(id);
        self.before.push(match c_type {
            "int" => format!("{name} = dup(2); /* no recorded process exported it */"),
            _ => format!("memset(&{name}, 0x5a, sizeof {name}); /* no recorded process exported it */"),
        });
        id
    }
}
