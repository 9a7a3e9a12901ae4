//! Statements that make the state of a process as it was before a recorded call: the driver, the contexts, and objects that were
//! created by calls that are not recorded.

use super::contexts::{self, PriorContext};
use super::objects::VariableId;
use super::state::{JobState, PlannedCall};
use super::values;
use cupeer_record::{Call, Outcome};
use cupeer_spec::effect::{Effect, Object};
use cupeer_spec::results::Result as Code;

/// Number of a context that no call names.
const UNKNOWN_CONTEXT: u64 = u64::MAX;

impl JobState {
    /// Adds statements that make the state of the process as it was at a call: the driver, the contexts, the current one.
    pub fn restore_state(&mut self, planned: PlannedCall) {
        let call = planned.call;
        let result = if let Outcome::Returned(result) = call.outcome { result } else { 0 };
        let is_before_init = result == Code::NOT_INITIALIZED as i32;
        if !self.processes[self.process].is_initialized && !is_before_init {
            self.processes[self.process].is_initialized = true;
            self.add_unrecorded_call("cuInit(0)");
            for context in self.processes[self.process].contexts.clone() {
                let id = self.add_variable("context", "CUcontext");
                self.processes[self.process].objects.bind_number("CUcontext", context.number, id);
                let create = if context.is_primary { "cuDevicePrimaryCtxRetain" } else { "create_context" };
                self.add_unrecorded_call(&format!("{create}(&{}, {})", self.variable_name(id), context.device));
            }
        }
        let lacks_context =
            [Code::INVALID_CONTEXT, Code::CONTEXT_IS_DESTROYED].map(|code| code as i32).contains(&result);
        match contexts::current_context(call) {
            Some((context, _)) => self.make_context_current(context, lacks_context),
            None if self.processes[self.process].current_context.is_none() && !lacks_context && !is_before_init => {
                self.make_any_context_current();
            }
            None => {}
        }
        self.note_context_changes(planned);
    }

    /// Makes a context current for a call of which it is unknown.
    fn make_any_context_current(&mut self) {
        let state = &mut self.processes[self.process];
        let known = state.contexts.iter().find(|context| !state.ended_contexts.contains(&context.number));
        let number = known.map_or(UNKNOWN_CONTEXT, |context| context.number);
        if known.is_none() {
            state.contexts.push(PriorContext { number, device: 0, is_primary: true });
            state.ended_contexts.insert(number);
            let id = self.add_variable("context", "CUcontext");
            self.processes[self.process].objects.bind_number("CUcontext", number, id);
        }
        self.make_context_current(number, false);
    }

    /// Notes the contexts that a call creates or ends.
    fn note_context_changes(&mut self, PlannedCall { function, call, .. }: PlannedCall) {
        let state = &mut self.processes[self.process];
        for effect in function.effects().iter().filter(|_| call.succeeded()) {
            match effect {
                Effect::Makes(made) if made.object == Object::Context => state.current_context = None,
                Effect::Ends(end) if end.object.is_context() => {
                    let named = call.argument_number(end.by).filter(|_| end.object == Object::Context);
                    let ended = call.details.context.or(named);
                    state.ended_contexts.extend(ended);
                    if end.object == Object::Context && state.current_context == ended {
                        state.current_context = None;
                    }
                }
                _ => {}
            }
        }
    }

    /// Makes a context current. One that ended is created again, unless the call shows that it was not.
    fn make_context_current(&mut self, context: u64, lacks_context: bool) {
        let state = &mut self.processes[self.process];
        let has_ended = state.ended_contexts.contains(&context);
        if !state.is_initialized || state.current_context == Some(context) && (!has_ended || lacks_context) {
            return;
        }
        let Some(id) = state.objects.find_number("CUcontext", context) else {
            if context == 0 && state.current_context.replace(0).is_some() {
                self.add_unrecorded_call("cuCtxSetCurrent(NULL)");
            }
            return;
        };
        let device = state.contexts.iter().find(|it| it.number == context && it.is_primary).map(|it| it.device);
        state.current_context = Some(context);
        let name = self.variables.get(id).name.clone();
        if let Some(device) = device.filter(|_| state.ended_contexts.remove(&context) && !lacks_context) {
            self.add_unrecorded_call(&format!("cuDevicePrimaryCtxRetain(&{name}, {device})"));
        }
        self.add_unrecorded_call(&format!("cuCtxSetCurrent({name})"));
    }

    /// Creates an object that existed before the call; `None` if such objects cannot be created so.
    pub fn create_missing(&mut self, call: &Call, word: &'static str, number: u64) -> Option<VariableId> {
        let device = call.details.devices.0.unwrap_or_default();
        let (stem, create) = match word {
            "CUevent" if self.exported_events.contains(&(self.process, number)) => {
                ("event", "cuEventCreate(&NAME, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING)")
            }
            "CUevent" => ("event", "cuEventCreate(&NAME, CU_EVENT_DISABLE_TIMING)"),
            "CUstream" => ("stream", "cuStreamCreate(&NAME, CU_STREAM_NON_BLOCKING)"),
            "CUmemoryPool" => ("pool", "cuDeviceGetDefaultMemPool(&NAME, ORDINAL)"),
            _ => return None,
        };
        let id = self.add_variable(stem, word);
        self.processes[self.process].objects.bind_number(word, number, id);
        let create = create.replace("NAME", &self.variable_name(id)).replace("ORDINAL", &device.to_string());
        let is_of_other_context = uses_other_context(call);
        if is_of_other_context {
            let context = self.add_variable("context", "CUcontext");
            self.add_unrecorded_call(&format!("create_context(&{}, {device})", self.variable_name(context)));
        }
        self.add_unrecorded_call(&create);
        if is_of_other_context {
            let current = self.processes[self.process].current_context.take();
            self.make_context_current(current.unwrap_or(0), false);
        }
        Some(id)
    }

    /// Allocates memory that existed before the call.
    pub fn allocate_missing(&mut self, PlannedCall { function, .. }: PlannedCall, start: u64, size: u64) {
        let id = self.add_variable("memory", "CUdeviceptr");
        let (name, bytes) = (self.variable_name(id), values::format_number(size));
        let is_of_pool = function.exports().is_some_and(|shared| shared.object == Object::Pointer);
        self.add_unrecorded_call(&match is_of_pool {
            true => format!("cuMemAllocAsync(&{name}, {bytes}, 0)"),
            false => format!("cuMemAlloc(&{name}, {bytes})"),
        });
        self.bind_object("CUdeviceptr", start, size, id);
    }
}

/// Returns true if a call shows that its event, or its stream, belongs to another context than the current one.
fn uses_other_context(call: &Call) -> bool {
    let records = call.function.is_some_and(|function| function.spec().records().is_some());
    records && call.outcome == Outcome::Returned(Code::INVALID_HANDLE as i32)
}
