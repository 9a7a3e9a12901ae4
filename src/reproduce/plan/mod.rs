//! The plan of the C file: the steps of all processes, with their objects as variables.
//!
//! All knowledge about functions comes from the table: an argument that goes out creates a variable, one that goes in names one, and
//! the effects say what is shared, and how large it is. [`crate::order`] adds the waits between processes.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `values`: values as C.
//! - `objects`: objects as variables.
//! - `contexts`: the contexts that existed before the first call.
//! - `forms`: functions as cuda.h has them.
//! - `stand_in`: the memory of calls that cannot be repeated.
//! - `step`: a step.
//! - `state`: the state of all processes.
//! - `setup`: statements for what was not recorded.
//! - `arguments`: the arguments of a call.

mod arguments;
mod contexts;
mod forms;
pub mod objects;
mod setup;
mod stand_in;
mod state;
pub mod step;
mod values;

use crate::calls::RecordedCall;
use cupeer_record::Outcome;
use cupeer_spec::effect::{Object, Shared};
use cupeer_spec::function::{Group, Library};
use cupeer_spec::results::Result as Code;
use objects::{VariableId, Variables};
pub use state::Constant;
use state::{JobState, PlannedCall, ProcessState};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use step::{ExpectedOutcome, Step};

/// Result of a call that came after the driver had shut down.
const SHUT_DOWN: i32 = Code::DEINITIALIZED as i32;
/// Largest number of repetitions of a call that fails again and again.
const MOST_TIMES: u64 = 1000;

/// The plan.
#[derive(Clone)]
pub struct Plan {
    /// Steps in the order of the recording.
    pub steps: Vec<Step>,
    /// Number of calls that the file does not repeat, by function.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Number of calls whose result came from a fault plan.
    pub injected: u64,
    pub variables: Variables,
    /// Variables of each process.
    pub variables_by_process: Vec<BTreeSet<VariableId>>,
    /// Structures that calls read.
    pub constants: Vec<Constant>,
}

impl Plan {
    /// Returns the number of calls.
    pub fn call_count(&self) -> usize {
        self.steps.iter().filter(|step| step.expected != ExpectedOutcome::ProcessEnd).count()
    }

    /// Returns the plan with these processes alone, numbered anew.
    pub fn with_processes(&self, kept: &[usize]) -> Plan {
        let number = |process: usize| kept.iter().position(|kept| *kept == process).unwrap_or(usize::MAX);
        let mut plan = self.clone();
        plan.steps.iter_mut().for_each(|step| step.process = number(step.process));
        plan.variables.renumber_makers(number);
        plan.variables_by_process = kept.iter().map(|process| self.variables_by_process[*process].clone()).collect();
        plan
    }
}

/// Makes the plan, call by call.
#[derive(Default)]
pub struct Planner {
    steps: Vec<Step>,
    left_out: BTreeMap<&'static str, u64>,
    injected: u64,
    state: JobState,
    /// Calls of each process that never returned: the process makes them last.
    pending: Vec<Vec<Step>>,
}

impl Planner {
    /// Begins a plan for these calls. `forked` has true for each process that was forked after its parent initialized the driver.
    pub fn new(calls: &[RecordedCall], forked: &[bool]) -> Planner {
        let mut plan = Planner::default();
        for (process, is_initialized) in forked.iter().copied().enumerate() {
            let own = calls.iter().filter(|recorded| recorded.process == process).map(|recorded| &recorded.call);
            let contexts = contexts::find_prior_contexts(own);
            plan.state.processes.push(ProcessState { contexts, is_initialized, ..ProcessState::default() });
            plan.pending.push(Vec::new());
        }
        let mut copies = HashMap::new();
        for RecordedCall { process, call, .. } in calls {
            if let Some(content) = call.details.content
                && *copies.entry(content.hash).or_insert(call.function) != call.function
            {
                plan.state.moved_contents.insert(content.hash);
            }
            let exports = call.function.and_then(|function| function.spec().exports());
            let is_event = |shared: &Shared| shared.object == Object::Event && call.succeeded();
            let number = exports.filter(is_event).and_then(|shared| call.argument_number(shared.by));
            plan.state.exported_events.extend(number.map(|number| (*process, number)));
        }
        plan
    }

    /// Adds a call.
    pub fn add_call(&mut self, RecordedCall { process, call, is_use, .. }: &RecordedCall) {
        let Some(function) = call.function.map(|function| function.spec()) else { return };
        if function.library != Library::Cuda || function.is_in(Group::Lookup) {
            return;
        }
        let expected = match call.outcome {
            _ if call.injected || call.stopping_fault().is_some() => return self.injected += 1,
            Outcome::Unwound | Outcome::Returned(SHUT_DOWN) => {
                return *self.left_out.entry(function.name()).or_default() += 1;
            }
            Outcome::Pending => ExpectedOutcome::NoReturn,
            Outcome::Returned(_) if *is_use => ExpectedOutcome::Result("CUDA_SUCCESS".to_owned()),
            Outcome::Returned(result) => ExpectedOutcome::Result(
                function.result_name(result).map_or_else(|| result.to_string(), ToOwned::to_owned),
            ),
        };
        let planned = PlannedCall { function, shown: forms::newest_form(function), call };
        let state = &mut self.state;
        state.process = *process;
        state.restore_state(planned);
        let setup = std::mem::take(&mut state.before);
        let written = state.format_call(planned).or_else(|| {
            *self.left_out.entry(function.name()).or_default() += 1;
            state.format_stand_in(planned)
        });
        state.note_ended_objects(planned);
        // These calls concern all objects of the process.
        if function.ended_context().is_some() || function.is_in(Group::Order) {
            state.uses.extend(&state.processes[*process].variables);
        }
        let (before, uses) = (std::mem::take(&mut state.before), std::mem::take(&mut state.uses));
        let Some(written) = written else { return };
        let opens = function.opens().is_some() || function.closes().is_some();
        let step = Step {
            process: *process,
            setup,
            before,
            call: written,
            times: call.call_count().min(MOST_TIMES),
            uses,
            is_unordered: opens && call.succeeded(),
            expected,
            call_site: call.caller,
            ..Step::default()
        };
        for id in std::mem::take(&mut self.state.closed_descriptors) {
            let mut own = self.steps.iter_mut().rev().filter(|step| step.process == *process);
            if let Some(last) = own.find(|step| step.uses.contains(&id)) {
                last.after.push(format!("close({});", self.state.variable_name(id)));
            }
        }
        match step.expected {
            ExpectedOutcome::NoReturn => self.pending[*process].push(step),
            _ => self.steps.push(step),
        }
    }

    /// Adds the end of a process.
    pub fn add_end(&mut self, process: usize, statement: &str) {
        self.steps.append(&mut self.pending[process]);
        let uses = self.state.processes[process].variables.iter().copied().collect();
        self.steps.push(Step { process, call: statement.to_owned(), uses, is_unordered: true, ..Step::default() });
    }

    /// Ends the planning.
    pub fn finish(self) -> Plan {
        let Planner { steps, left_out, injected, state, .. } = self;
        let variables_by_process = state.processes.into_iter().map(|process| process.variables).collect();
        Plan { steps, left_out, injected, variables: state.variables, variables_by_process, constants: state.constants }
    }
}
