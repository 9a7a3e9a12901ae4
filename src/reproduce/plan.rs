//! The plan of the C file: the steps of all processes, with their objects as variables.
//!
//! All knowledge about functions comes from the table: an argument that goes out creates a variable, one that goes in names one, and
//! the effects say what is shared, and how large it is. [`crate::order`] adds the waits between processes.

use crate::calls::Recorded;
use crate::contexts::{self, Context};
use crate::objects::{Id, Objects, Variables};
use crate::stand_in;
use crate::values;
use cupeer_record::{Call, Outcome};
use cupeer_report::values::{descriptor, handle};
use cupeer_spec::effect::{Effect, Object, OtherArgs, Shared, Used};
use cupeer_spec::function::{ArgSpec, Direction, FnId, FnSpec, Group, Library};
use cupeer_spec::record::slot::shape;
use cupeer_spec::results::Result as Code;
use cupeer_spec::value::{CHECKED, Shareable};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Types in C whose values are objects, and stay the same as long as the object exists.
const OBJECTS: [&str; 6] =
    ["CUdeviceptr", "CUcontext", "CUevent", "CUstream", "CUmemGenericAllocationHandle", "CUmemoryPool"];
/// Values of the type CUstream below this one name the default streams.
const STREAMS: u64 = 3;
/// Result of a call that an older form of the program cannot make: the driver had shut down.
const SHUT_DOWN: i32 = Code::DEINITIALIZED as i32;
/// Number of a context that no call names.
const UNKNOWN: u64 = u64::MAX;
/// Largest distance from an object at which an address counts as one behind it.
const BEHIND: u64 = 16 << 20;
/// Most repetitions of a call that fails again and again.
const MOST_TIMES: u64 = 1000;

/// Recorded end of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Expected {
    /// The call returned the result of this name, or number.
    Result(String),
    /// The call did not return.
    Never,
    /// The process ended: not a call.
    End,
}

/// A call, or the end of a process.
pub struct Step {
    pub process: usize,
    /// Statements for objects that were created without a recorded call.
    pub before: Vec<String>,
    /// The call, or the statement that ends the process.
    pub call: String,
    pub expected: Expected,
    /// Number of calls with this result.
    pub times: u64,
    /// Shared objects that it uses, and handles that it makes or reads.
    pub uses: Vec<Id>,
    /// True if the order of two of these steps in processes that did not create the object does not matter.
    pub is_plain: bool,
}

/// State of a process while its calls are read.
#[derive(Default)]
struct State {
    objects: Objects,
    contexts: Vec<Context>,
    current: Option<u64>,
    /// Contexts that calls ended.
    ended: HashSet<u64>,
    is_initialized: bool,
    /// The variables of descriptors, by their number.
    descriptors: HashMap<i32, Id>,
    variables: BTreeSet<Id>,
    /// Calls that never returned: the process makes them last.
    pending: Vec<Step>,
}

/// The plan, and the state that only planning needs.
#[derive(Default)]
pub struct Plan {
    pub variables: Variables,
    /// Steps in the order of the recording.
    pub steps: Vec<Step>,
    /// Variables of each process.
    pub local: Vec<BTreeSet<Id>>,
    /// Number of calls that the file does not repeat, by function.
    pub left_out: BTreeMap<String, u64>,
    /// Number of calls whose result came from a fault plan.
    pub injected: u64,
    states: Vec<State>,
    /// Handles by their fingerprints, of all bytes and of those that the driver checks.
    handles: HashMap<u64, Id>,
    checked: HashMap<u64, Id>,
    /// Events that some call exports: process and number.
    exported: HashSet<(usize, u64)>,
    /// Statements and objects of the step that is being planned.
    before: Vec<String>,
    uses: Vec<Id>,
}

impl Plan {
    /// Begins a plan for these calls. `forked` has true for each process that was forked after its parent initialized the driver.
    pub fn new(calls: &[Recorded], forked: &[bool]) -> Plan {
        let mut plan = Plan::default();
        for (process, is_initialized) in forked.iter().copied().enumerate() {
            let own =
                calls.iter().filter(|recorded| recorded.process == process).map(|recorded| &recorded.call);
            let contexts = contexts::found(own);
            plan.states.push(State { contexts, is_initialized, ..State::default() });
        }
        for Recorded { process, call, .. } in calls {
            let exports = call.function.and_then(|function| function.spec().exports());
            let is_event = |shared: &Shared| shared.object == Object::Event && call.succeeded();
            let number = exports.filter(is_event).and_then(|shared| call.number(shared.by));
            plan.exported.extend(number.map(|number| (*process, number)));
        }
        plan
    }

    /// Adds a call.
    pub fn call(&mut self, Recorded { process, call, is_use, .. }: &Recorded) {
        let Some(function) = call.function.map(|function| function.spec()) else { return };
        if function.library != Library::Cuda || function.is_in(Group::Lookup) {
            return;
        }
        let expected = match call.outcome {
            _ if call.injected || call.stopped_by().is_some() => {
                self.injected += 1;
                return;
            }
            Outcome::Unwound | Outcome::Returned(SHUT_DOWN) => return self.leave_out(function),
            Outcome::Pending => Expected::Never,
            Outcome::Returned(_) if *is_use => Expected::Result("CUDA_SUCCESS".to_owned()),
            Outcome::Returned(result) => Expected::Result(
                function.result_name(result).map_or_else(|| result.to_string(), ToOwned::to_owned),
            ),
        };
        (self.before, self.uses) = (Vec::new(), Vec::new());
        self.prepare(*process, function, call);
        let before = (self.before.len(), self.uses.len());
        let written = self.written(*process, function, call).or_else(|| {
            self.before.truncate(before.0);
            self.uses.truncate(before.1);
            *self.left_out.entry(function.name().to_owned()).or_default() += 1;
            self.stand_in(*process, function, call)
        });
        let Some(call_text) = written else { return };
        // These calls concern all objects of the process.
        if function.ends_context().is_some() || function.is_in(Group::Order) {
            self.uses.extend(&self.states[*process].variables);
        }
        let is_plain = function.opens().is_some() || function.closes().is_some() && call.succeeded();
        let step = Step {
            process: *process,
            before: std::mem::take(&mut self.before),
            call: call_text,
            times: call.times().min(MOST_TIMES),
            uses: std::mem::take(&mut self.uses),
            is_plain: is_plain && call.succeeded(),
            expected,
        };
        match step.expected {
            Expected::Never => self.states[*process].pending.push(step),
            _ => self.steps.push(step),
        }
    }

    /// Adds the end of a process.
    pub fn end(&mut self, process: usize, statement: &str) {
        self.local.resize_with(self.states.len(), BTreeSet::new);
        let state = &mut self.states[process];
        self.steps.append(&mut state.pending);
        self.steps.push(Step {
            process,
            before: Vec::new(),
            call: statement.to_owned(),
            expected: Expected::End,
            times: 1,
            uses: state.variables.iter().copied().collect(),
            is_plain: true,
        });
        self.local[process] = std::mem::take(&mut state.variables);
    }

    fn leave_out(&mut self, function: &FnSpec) {
        *self.left_out.entry(function.name().to_owned()).or_default() += 1;
    }

    /// Adds statements that make the state of the process as it was at a call: the driver, the contexts, the current one.
    fn prepare(&mut self, process: usize, function: &FnSpec, call: &Call) {
        let result = if let Outcome::Returned(result) = call.outcome { result } else { 0 };
        let is_before_init = result == Code::NOT_INITIALIZED as i32;
        if !self.states[process].is_initialized && !is_before_init {
            self.states[process].is_initialized = true;
            self.before.push("must(cuInit(0));".to_owned());
            for context in self.states[process].contexts.clone() {
                let id = self.variable(process, "context", "CUcontext");
                self.states[process].objects.bind("CUcontext", context.number, id);
                let create = if context.is_primary { "cuDevicePrimaryCtxRetain" } else { "create_context" };
                self.before.push(format!("must({create}(&{}, {}));", self.name(id), context.device));
            }
        }
        let lacks_context =
            [Code::INVALID_CONTEXT, Code::CONTEXT_IS_DESTROYED].map(|code| code as i32).contains(&result);
        match contexts::current(call) {
            Some((context, _)) => self.make_current(process, context, lacks_context),
            None if self.states[process].current.is_none() && !lacks_context && !is_before_init => {
                self.make_some_current(process);
            }
            None => {}
        }
        self.note_contexts(process, function, call);
    }

    /// Makes a context current for a call of which it is unknown.
    fn make_some_current(&mut self, process: usize) {
        let state = &mut self.states[process];
        let known = state.contexts.iter().find(|context| !state.ended.contains(&context.number));
        let number = known.map_or(UNKNOWN, |context| context.number);
        if known.is_none() {
            state.contexts.push(Context { number, device: 0, is_primary: true });
            state.ended.insert(number);
            let id = self.variable(process, "context", "CUcontext");
            self.states[process].objects.bind("CUcontext", number, id);
        }
        self.make_current(process, number, false);
    }

    /// Notes the contexts that a call creates or ends.
    fn note_contexts(&mut self, process: usize, function: &FnSpec, call: &Call) {
        let state = &mut self.states[process];
        for effect in function.effects().iter().filter(|_| call.succeeded()) {
            match effect {
                Effect::Makes(made) if made.object == Object::Context => state.current = None,
                Effect::Ends(end) if end.object.is_context() => {
                    let named = call.number(end.by).filter(|_| end.object == Object::Context);
                    let ended = call.details.context.or(named);
                    state.ended.extend(ended);
                    if end.object == Object::Context && state.current == ended {
                        state.current = None;
                    }
                }
                _ => {}
            }
        }
    }

    /// Makes a context current. One that ended is created again, unless the call shows that it was not.
    fn make_current(&mut self, process: usize, context: u64, lacks_context: bool) {
        let state = &mut self.states[process];
        let has_ended = state.ended.contains(&context);
        if !state.is_initialized || state.current == Some(context) && (!has_ended || lacks_context) {
            return;
        }
        let Some(id) = state.objects.find("CUcontext", context) else {
            if context == 0 && state.current.replace(0).is_some() {
                self.before.push("must(cuCtxSetCurrent(NULL));".to_owned());
            }
            return;
        };
        let device =
            state.contexts.iter().find(|it| it.number == context && it.is_primary).map(|it| it.device);
        state.current = Some(context);
        let name = self.variables.get(id).name.clone();
        if let Some(device) = device.filter(|_| state.ended.remove(&context) && !lacks_context) {
            self.before.push(format!("must(cuDevicePrimaryCtxRetain(&{name}, {device}));"));
        }
        self.before.push(format!("must(cuCtxSetCurrent({name}));"));
    }

    /// Returns the call in C; `None` if an argument cannot be repeated.
    fn written(&mut self, process: usize, function: &'static FnSpec, call: &Call) -> Option<String> {
        let shown = newest(function);
        if let Some((by, device)) = function.creates_context() {
            let context = self.argument(process, function, shown, call, by)?;
            return Some(format!("create_context({context}, {})", call.number(device)?));
        }
        let arguments = (0..function.args().len())
            .map(|index| self.argument(process, function, shown, call, index))
            .collect::<Option<Vec<_>>>()?;
        let name = if all_forms(function) { function.lookup() } else { function.name() };
        Some(format!("{name}({})", arguments.join(", ")))
    }

    /// Returns a copy or a memset of the memory that a call uses whose structures were not recorded: rows, batches, and graphs. It uses
    /// the last range that it writes, or else reads.
    fn stand_in(&mut self, process: usize, function: &'static FnSpec, call: &Call) -> Option<String> {
        let (address, bytes, is_write) =
            stand_in::ranges(function, call).max_by_key(|(.., is_write)| *is_write)?;
        let id = self.states[process].objects.at(address);
        let (id, offset) = id.or_else(|| self.states[process].objects.behind(address, BEHIND))?;
        self.touch(process, id);
        let at = format!("{} + {}", self.name(id), values::number(offset)).replace(" + 0", "");
        let stream = function.args().iter().position(ArgSpec::is_stream);
        let stream = stream.and_then(|index| self.object(process, function, call, index, "CUstream"));
        let (bytes, stream) = (values::number(bytes), stream.as_deref().unwrap_or("0"));
        Some(match is_write {
            true => format!("cuMemsetD8Async({at}, 7, {bytes}, {stream})"),
            false => format!("cuMemcpyDtoHAsync(host_memory({bytes}), {at}, {bytes}, {stream})"),
        })
    }

    fn argument(
        &mut self,
        process: usize,
        function: &'static FnSpec,
        shown: &'static FnSpec,
        call: &Call,
        index: usize,
    ) -> Option<String> {
        let (arg, word) = (&function.args()[index], shown.args()[index].type_word());
        if call.slot.shape(index) == shape::NULL {
            return Some("NULL".to_owned());
        }
        let is_handle = arg.is_handle() || arg.kind().is_some() || word == "CUmemPoolPtrExportData";
        match arg.direction {
            Direction::Out | Direction::InOut => {
                self.output(process, function, &shown.args()[index], call, index)
            }
            Direction::String => None,
            Direction::In if arg.count().is_some() => {
                let elements = call.details.elements.iter().find(|(of, _)| usize::from(*of) == index);
                values::array(&elements?.1, arg)
            }
            Direction::In if is_handle => self.handle(process, function, call, index),
            Direction::In if OBJECTS.contains(&word) => self.object(process, function, call, index, word),
            Direction::In if word == "HostAddress" => {
                let is_host = |effect: &Effect| match effect {
                    Effect::Uses(Used {
                        others: OtherArgs::ToHost(by) | OtherArgs::FromHost(by), ..
                    }) => *by == index,
                    _ => false,
                };
                function.effects().iter().any(is_host).then(|| host(function, call))
            }
            Direction::In => values::literal(call.argument(index)?, arg),
        }
    }

    /// Returns an argument that receives an object, a handle, or a value.
    fn output(
        &mut self,
        process: usize,
        function: &'static FnSpec,
        arg: &ArgSpec,
        call: &Call,
        index: usize,
    ) -> Option<String> {
        let shared = function.exports().filter(|shared| shared.handle == index);
        if shared.is_some() {
            let (stem, c_type) = handle_type(function, call, arg);
            let known = handle(call, index).filter(|_| c_type != "int");
            let own = |id: &Id| self.variables.get(*id).maker == process;
            let before = known.and_then(|(whole, _)| self.handles.get(&whole).copied()).filter(own);
            let id = before.unwrap_or_else(|| self.variable(process, stem, c_type));
            if let Some((whole, checked)) = handle(call, index) {
                self.handles.insert(whole, id);
                self.checked.insert(checked, id);
            }
            if let Some((fd, _)) = descriptor(call, index) {
                self.take_descriptor(process, fd, id);
            }
            self.touch(process, id);
            return Some(format!("&{}", self.name(id)));
        }
        let word = arg.type_word();
        let c_type = values::target(arg);
        if OBJECTS.contains(&word) {
            let id = self.variable(process, &stem(function, index), &c_type);
            self.touch(process, id);
            if let Some(number) = call.number(index).filter(|_| call.succeeded()) {
                self.bind(process, word, number, size_of(function, call, index), id);
            }
            return Some(format!("&{}", self.name(id)));
        }
        let count = arg.count().and_then(|count| call.number(count));
        let id = self.variable(process, "answer", &c_type);
        match count {
            Some(count) => {
                self.variables.set_elements(id, count);
                Some(self.name(id))
            }
            None => Some(format!("&{}", self.name(id))),
        }
    }

    /// Returns an argument that names an object of the process.
    fn object(
        &mut self,
        process: usize,
        function: &'static FnSpec,
        call: &Call,
        index: usize,
        word: &'static str,
    ) -> Option<String> {
        let number = call.number(index)?;
        if number == 0 || word == "CUstream" && number < STREAMS {
            return Some(["0", "CU_STREAM_LEGACY", "CU_STREAM_PER_THREAD"][number as usize].to_owned());
        }
        if word == "CUdeviceptr" {
            return Some(self.address(process, function, call, index, number));
        }
        let known = self.states[process].objects.find(word, number);
        let id = known.or_else(|| self.missing(process, call, word, number));
        let Some(id) = id else { return Some(format!("({word}){number:#x}")) };
        if !["CUcontext", "CUstream"].contains(&word) {
            self.touch(process, id);
        }
        Some(self.name(id))
    }

    /// Creates an object that existed before the call.
    fn missing(&mut self, process: usize, call: &Call, word: &'static str, number: u64) -> Option<Id> {
        let device = call.details.devices.0.unwrap_or_default();
        let (stem, create) = match word {
            "CUevent" if self.exported.contains(&(process, number)) => {
                ("event", "cuEventCreate(&NAME, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)".to_owned())
            }
            "CUevent" => ("event", "cuEventCreate(&NAME, CU_EVENT_DISABLE_TIMING)".to_owned()),
            "CUstream" => ("stream", "cuStreamCreate(&NAME, CU_STREAM_NON_BLOCKING)".to_owned()),
            "CUmemoryPool" => ("pool", format!("cuDeviceGetDefaultMemPool(&NAME, {device})")),
            _ => return None,
        };
        let id = self.variable(process, stem, word);
        self.before.push(format!("must({});", create.replace("NAME", &self.name(id))));
        self.states[process].objects.bind(word, number, id);
        Some(id)
    }

    fn address(
        &mut self,
        process: usize,
        function: &'static FnSpec,
        call: &Call,
        index: usize,
        address: u64,
    ) -> String {
        let found = self.states[process].objects.at(address).or_else(|| {
            let (start, size) = call.details.memory?;
            let is_inside = address.checked_sub(start).is_some_and(|offset| offset < size);
            is_inside.then(|| self.allocate(process, function, start, size))?;
            self.states[process].objects.at(address)
        });
        let used = function.touches().into_iter().flatten().find(|(by, ..)| *by == index);
        let found = found.or_else(|| {
            let (_, size, bytes, _) = used.filter(|_| call.succeeded() && !function.takes_any_address())?;
            self.allocate(process, function, address, call.number(size)? * bytes);
            self.states[process].objects.at(address)
        });
        let found = found
            .or_else(|| self.states[process].objects.behind(address, BEHIND).filter(|_| !call.succeeded()));
        match found {
            Some((id, offset)) => {
                self.touch(process, id);
                let name = self.name(id);
                if offset == 0 { name } else { format!("{name} + {}", values::number(offset)) }
            }
            None if function.takes_any_address() => format!("(CUdeviceptr){}", host(function, call)),
            None => format!("{address:#x}"),
        }
    }

    /// Allocates memory that existed before the call.
    fn allocate(&mut self, process: usize, function: &'static FnSpec, start: u64, size: u64) {
        let id = self.variable(process, "memory", "CUdeviceptr");
        let (name, bytes) = (self.name(id), values::number(size));
        let of_pool = function.exports().is_some_and(|shared| shared.object == Object::Pointer);
        self.before.push(match of_pool {
            true => format!("must(cuMemAllocAsync(&{name}, {bytes}, 0));"),
            false => format!("must(cuMemAlloc(&{name}, {bytes}));"),
        });
        self.states[process].objects.bind_range(start, size, id);
    }

    /// Returns an argument that is a handle, and opens an object.
    fn handle(
        &mut self,
        process: usize,
        function: &'static FnSpec,
        call: &Call,
        index: usize,
    ) -> Option<String> {
        let (stem, c_type) = handle_type(function, call, &function.args()[index]);
        let known = handle(call, index);
        let exact = known.and_then(|(whole, _)| self.handles.get(&whole).copied());
        let unchecked = known.and_then(|(_, checked)| self.checked.get(&checked).copied());
        let found = call.details.findings.iter().flat_map(|finding| &finding.objects);
        let original = found.filter_map(|object| self.handles.get(&object.what.fingerprint).copied()).next();
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
            _ => self.unknown_handle(process, call, index, stem, c_type),
        };
        if let Some((fd, _)) = descriptor(call, index) {
            self.take_descriptor(process, fd, id);
        }
        self.touch(process, id);
        let name = self.name(id);
        Some(match c_type {
            "int" => format!("(void *)(intptr_t){name}"),
            "CUipcMemHandle" | "CUipcEventHandle" => name,
            _ => format!("&{name}"),
        })
    }

    /// Makes a handle that no recorded process exported.
    fn unknown_handle(&mut self, process: usize, call: &Call, index: usize, stem: &str, c_type: &str) -> Id {
        let known =
            descriptor(call, index).and_then(|(fd, _)| self.states[process].descriptors.get(&fd).copied());
        if let Some(id) = known.filter(|_| c_type == "int") {
            let is_open = descriptor(call, index).is_some_and(|(_, file)| file != 0);
            if !is_open {
                self.before.push(format!("close({});", self.name(id)));
            }
            return id;
        }
        let id = self.variable(process, stem, c_type);
        let name = self.name(id);
        self.before.push(match c_type {
            "int" => format!("{name} = dup(2); /* not a descriptor that a recorded process exported */"),
            _ => format!(
                "memset(&{name}, 0x5a, sizeof {name}); /* not a handle that a recorded process exported */"
            ),
        });
        id
    }

    /// Notes that a descriptor has a number. If another one had it, that one was closed.
    fn take_descriptor(&mut self, process: usize, fd: i32, id: Id) {
        let before = self.states[process].descriptors.insert(fd, id).filter(|before| *before != id);
        if let Some(before) = before {
            self.before.push(format!("close({});", self.name(before)));
        }
    }

    fn bind(&mut self, process: usize, word: &'static str, number: u64, size: u64, id: Id) {
        let objects = &mut self.states[process].objects;
        match word {
            "CUdeviceptr" => objects.bind_range(number, size, id),
            _ => objects.bind(word, number, id),
        }
    }

    fn variable(&mut self, process: usize, stem: &str, c_type: &str) -> Id {
        let id = self.variables.add(stem, c_type, process);
        self.states[process].variables.insert(id);
        id
    }

    /// Notes that the step uses a shared object, together with the others that it uses.
    fn touch(&mut self, process: usize, id: Id) {
        if let Some(first) = self.uses.first() {
            self.variables.join(*first, id);
        }
        self.uses.push(id);
        self.states[process].variables.insert(id);
    }

    fn name(&self, id: Id) -> String {
        self.variables.get(id).name.clone()
    }
}

/// Returns the forms of a function that `cuGetProcAddress` finds by the same name.
fn forms(function: &'static FnSpec) -> impl Iterator<Item = &'static FnSpec> {
    let is_form = |other: &&FnSpec| other.lookup() == function.lookup();
    FnId::all().map(FnId::spec).filter(is_form)
}

/// Returns true if all forms of a function take as many arguments, so that cuda.h has one of them by the common name.
fn all_forms(function: &'static FnSpec) -> bool {
    forms(function).all(|other| other.args().len() == function.args().len())
}

/// Returns the form of a function that cuda.h declares.
fn newest(function: &'static FnSpec) -> &'static FnSpec {
    let newest = forms(function).max_by_key(|other| other.since).filter(|_| all_forms(function));
    newest.unwrap_or(function)
}

/// Returns the first part of the name of an object that a call creates or opens.
fn stem(function: &FnSpec, index: usize) -> String {
    let of = |effect: &Effect| match *effect {
        Effect::Opens(Shared { object, by, .. }) if by == index => Some(format!("opened {}", object.word())),
        Effect::Gathers(team) if team.team == index => Some("multicast".to_owned()),
        Effect::Makes(made) if made.by == index => Some(made.object.word().to_owned()),
        Effect::Retains(named) if named.by == index => Some(format!("retained {}", named.object.word())),
        _ => None,
    };
    // The last effect is the most specific one.
    let found = function.effects().iter().rev().find_map(of);
    found.map_or_else(|| "object".to_owned(), |words| words.replace("pool pointer", "pool memory"))
}

/// Returns the first part of the name of a handle, and its type in C.
fn handle_type(function: &FnSpec, call: &Call, arg: &ArgSpec) -> (&'static str, &'static str) {
    let kind = function.handle_kind().and_then(|kind| call.number(kind)).map(|kind| kind as i32);
    match (arg.type_word(), kind) {
        ("CUipcMemHandle", _) => ("handle", "CUipcMemHandle"),
        ("CUipcEventHandle", _) => ("event_handle", "CUipcEventHandle"),
        ("CUmemPoolPtrExportData", _) => ("pointer_data", "CUmemPoolPtrExportData"),
        (_, Some(Shareable::FABRIC)) => ("fabric_handle", "CUmemFabricHandle"),
        _ => ("descriptor", "int"),
    }
}

/// Returns the size in bytes of an object that a call creates or opens; 0 if unknown.
fn size_of(function: &FnSpec, call: &Call, index: usize) -> u64 {
    let made = function.makes().filter(|made| made.by == index).and_then(|made| call.number(made.size?));
    let opened = call.details.memory.zip(call.number(index));
    let rest = opened.map(|((start, size), address)| start.saturating_add(size).saturating_sub(address));
    made.or(rest).unwrap_or(0)
}

/// Returns memory of the host that is large enough for a call.
fn host(function: &FnSpec, call: &Call) -> String {
    let sizes = function.args().iter().enumerate().filter(|(_, arg)| arg.type_word() == "usize");
    let most = sizes.filter_map(|(index, _)| call.number(index)).max();
    format!("host_memory({})", values::number(most.unwrap_or(0)))
}
