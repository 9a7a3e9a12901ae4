//! The order of steps in different processes: which process waits for which.
//!
//! A handle travels from the step that exported it to the first step that opens it, which is an edge by itself. Other edges follow
//! from the times of the recording: a step waits for the last steps of other processes that used the same shared object, unless it
//! knows already that they are done. Two processes that only open and close what a third one shared do not wait for each other. A
//! process that exports again waits for those that opened its earlier handles, as a program does that answers requests.

use crate::plan::objects::{VariableId, Variables};
use crate::plan::step::{ExpectedOutcome, Step};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Statements that surround a step.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct StepWaits {
    pub before: Vec<String>,
    pub after: Vec<String>,
}

/// Something that a process sends after one of its steps, and another one reads before one of its own.
struct Message {
    after: usize,
    before: usize,
    /// The handle; `None` for a byte that says that the step is done.
    handle: Option<VariableId>,
}

/// The last steps of a process that used an object: of all, and of those whose order always matters.
#[derive(Clone, Copy, Default)]
struct LastUses {
    any: Option<usize>,
    ordered: Option<usize>,
}

struct WaitPlanner<'a> {
    steps: &'a [Step],
    variables: &'a Variables,
    /// Number of steps of each process that each process knows to be done.
    known: Vec<Vec<usize>>,
    /// That knowledge after each step.
    after: Vec<Vec<usize>>,
    /// Number of each step in its process, from 1 on.
    ordinals: Vec<usize>,
    /// Messages by sender and reader.
    messages: BTreeMap<(usize, usize), Vec<Message>>,
    around: Vec<StepWaits>,
}

/// Returns the statements that keep the steps in order.
pub fn plan_waits(steps: &[Step], variables: &Variables, processes: usize) -> Vec<StepWaits> {
    let mut planner = WaitPlanner {
        steps,
        variables,
        known: vec![vec![0; processes]; processes],
        after: Vec::new(),
        ordinals: Vec::new(),
        messages: BTreeMap::new(),
        around: vec![StepWaits::default(); steps.len()],
    };
    let mut exported: HashMap<VariableId, usize> = HashMap::new();
    let mut received = HashSet::new();
    let mut importers: HashMap<usize, BTreeSet<usize>> = HashMap::new();
    let mut uses: HashMap<VariableId, BTreeMap<usize, LastUses>> = HashMap::new();
    let mut last: BTreeMap<usize, LastUses> = BTreeMap::new();
    for (index, step) in steps.iter().enumerate() {
        for id in step.uses.iter().filter(|_| step.expected != ExpectedOutcome::ProcessEnd) {
            let is_handle = variables.is_handle(*id);
            if variables.get(*id).maker == step.process {
                if is_handle && exported.insert(*id, exported.get(id).copied().unwrap_or(index)).is_none() {
                    let readers = importers.get(&step.process).into_iter().flatten();
                    readers.for_each(|reader| planner.add_wait(last.get(reader).and_then(|last| last.any), index));
                }
            } else if let Some(from) = exported.get(id)
                && received.insert((step.process, *id))
            {
                planner.add_message(*from, index, Some(*id));
                importers.entry(variables.get(*id).maker).or_default().insert(step.process);
            }
        }
        let roots: BTreeSet<VariableId> = step.uses.iter().map(|id| variables.object_root(*id)).collect();
        for root in &roots {
            let owner = variables.get(*root).maker;
            for (process, last) in uses.get(root).into_iter().flatten() {
                let matters = !step.is_unordered || [*process, step.process].contains(&owner);
                planner.add_wait(if matters { last.any } else { last.ordered }, index);
            }
        }
        // Memory of a device belongs to all processes.
        if step.expected == ExpectedOutcome::Result("CUDA_ERROR_OUT_OF_MEMORY".to_owned()) {
            last.values().for_each(|last| planner.add_wait(last.any, index));
        }
        planner.note_step_done(index);
        let note = |last: &mut LastUses| {
            *last = LastUses { any: Some(index), ordered: if step.is_unordered { last.ordered } else { Some(index) } };
        };
        note(last.entry(step.process).or_default());
        for root in roots {
            note(uses.entry(root).or_default().entry(step.process).or_default());
        }
    }
    planner.write_messages();
    planner.around
}

impl WaitPlanner<'_> {
    /// Has a step wait for another one, unless its process knows that that one is done.
    fn add_wait(&mut self, from: Option<usize>, index: usize) {
        let Some(from) = from else { return };
        let (sender, reader) = (self.steps[from].process, self.steps[index].process);
        if sender == reader || self.known[reader][sender] >= self.ordinals[from] {
            return;
        }
        match self.steps[from].expected {
            // A process that ends waits for the calls of others, and not for their ends.
            ExpectedOutcome::ProcessEnd if self.steps[index].expected == ExpectedOutcome::ProcessEnd => {
                let last = (0..from).rev().find(|step| self.steps[*step].process == sender);
                self.add_wait(last, index);
            }
            ExpectedOutcome::ProcessEnd => {
                self.around[index].before.push(format!("wait_for_end({sender});"));
                self.merge_knowledge(from, reader);
            }
            // Nobody waits for a call that did not return.
            ExpectedOutcome::NoReturn => {}
            ExpectedOutcome::Result(_) => self.add_message(from, index, None),
        }
    }

    fn add_message(&mut self, from: usize, index: usize, handle: Option<VariableId>) {
        let (sender, reader) = (self.steps[from].process, self.steps[index].process);
        let message = Message { after: from, before: index, handle };
        self.messages.entry((sender, reader)).or_default().push(message);
        self.merge_knowledge(from, reader);
    }

    fn merge_knowledge(&mut self, from: usize, reader: usize) {
        let known = self.known[reader].iter_mut().zip(&self.after[from]);
        known.for_each(|(known, more)| *known = (*known).max(*more));
    }

    /// Notes that a step is done.
    fn note_step_done(&mut self, index: usize) {
        let process = self.steps[index].process;
        self.known[process][process] += 1;
        self.ordinals.push(self.known[process][process]);
        self.after.push(self.known[process].clone());
    }

    /// Writes the messages. A process reads those of another one in the order in which they were sent.
    fn write_messages(&mut self) {
        for ((sender, reader), mut messages) in std::mem::take(&mut self.messages) {
            messages.sort_by_key(|message| message.after);
            let mut before = usize::MAX;
            for message in messages.iter_mut().rev() {
                before = before.min(message.before);
                message.before = before;
            }
            for Message { after, before, handle } in messages {
                let variable = handle.map(|id| self.variables.get(id));
                let (sent, read) = match variable.map(|variable| (&variable.name, &*variable.c_type)) {
                    None => (format!("tell({reader});"), format!("wait_for({sender});")),
                    Some((name, "int")) => (
                        format!("send_descriptor({reader}, {name});"),
                        format!("{name} = receive_descriptor({sender});"),
                    ),
                    Some((name, _)) => (
                        format!("send_bytes({reader}, &{name}, sizeof {name});"),
                        format!("receive_bytes({sender}, &{name}, sizeof {name});"),
                    ),
                };
                self.around[after].after.push(sent);
                self.around[before].before.push(read);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(process: usize, uses: &[VariableId], is_unordered: bool, expected: ExpectedOutcome) -> Step {
        Step { process, uses: uses.to_vec(), is_unordered, expected, times: 1, ..Step::default() }
    }

    fn success() -> ExpectedOutcome {
        ExpectedOutcome::Result("CUDA_SUCCESS".to_owned())
    }

    #[test]
    fn importers_wait_for_the_handle_and_the_owner_for_their_closes() {
        let mut variables = Variables::default();
        let memory = variables.add("memory", "CUdeviceptr", 0);
        let handle = variables.add("handle", "CUipcMemHandle", 0);
        variables.join_objects(memory, handle);
        let steps = [
            step(0, &[memory, handle], false, success()),
            step(1, &[handle], true, success()),
            step(2, &[handle], true, success()),
            step(1, &[handle], true, success()),
            step(0, &[memory], false, success()),
            step(0, &[memory], true, ExpectedOutcome::ProcessEnd),
            step(2, &[handle], true, success()),
        ];
        let around = plan_waits(&steps, &variables, 3);
        let after: Vec<String> = around.iter().map(|around| around.after.join(" ")).collect();
        let before: Vec<String> = around.iter().map(|around| around.before.join(" ")).collect();
        let sends = "send_bytes(1, &handle1, sizeof handle1); send_bytes(2, &handle1, sizeof handle1);";
        assert_eq!(after, [sends, "", "tell(0);", "tell(0);", "", "", ""]);
        let receives = "receive_bytes(0, &handle1, sizeof handle1);";
        assert_eq!(before, ["", receives, receives, "", "wait_for(1); wait_for(2);", "", "wait_for_end(0);"]);
    }

    #[test]
    fn messages_are_read_in_the_order_in_which_they_were_sent() {
        let mut variables = Variables::default();
        let handles = [0, 1].map(|_| variables.add("handle", "CUipcMemHandle", 0));
        let steps = [
            step(0, &[handles[0]], false, success()),
            step(0, &[handles[1]], false, success()),
            step(1, &[handles[1]], true, success()),
            step(1, &[handles[0]], true, success()),
        ];
        let around = plan_waits(&steps, &variables, 2);
        assert_eq!((around[2].before.len(), around[3].before.len()), (2, 0));
        assert!(around[2].before[0].contains("handle1"), "{around:?}");
    }
}
