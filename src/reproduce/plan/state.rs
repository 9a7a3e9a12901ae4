//! The state of all processes while their calls are planned: their objects, and the handles that they exported.

use super::contexts::PriorContext;
use super::objects::{ObjectTable, VariableId, Variables};
use super::values::variable_stem;
use cupeer_record::Call;
use cupeer_spec::effect::{Effect, End};
use cupeer_spec::function::FnSpec;
use std::collections::{BTreeSet, HashMap, HashSet};

/// State of a process.
#[derive(Default)]
pub struct ProcessState {
    pub objects: ObjectTable,
    /// Contexts that it had before the calls that use them.
    pub contexts: Vec<PriorContext>,
    /// Number of the current context, if known.
    pub current_context: Option<u64>,
    /// Contexts that calls ended.
    pub ended_contexts: HashSet<u64>,
    /// Objects that calls ended: type in C, and number. A call that succeeds with such a number has a new object.
    pub ended_objects: HashSet<(&'static str, u64)>,
    pub is_initialized: bool,
    /// The variables of descriptors, by their number.
    pub descriptors: HashMap<i32, VariableId>,
    pub variables: BTreeSet<VariableId>,
    /// Variables for values of queries, by their type and number of elements.
    pub query_values: HashMap<(String, Option<u64>), VariableId>,
}

/// A structure that calls read, or an array of structures.
#[derive(Clone)]
pub struct Constant {
    pub name: String,
    pub c_type: String,
    /// `[]` for an array.
    pub brackets: &'static str,
    pub initializer: String,
}

/// State of all processes, and the step that is being planned.
#[derive(Default)]
pub struct JobState {
    pub variables: Variables,
    pub processes: Vec<ProcessState>,
    /// Handles by their fingerprint, over all bytes.
    pub handles: HashMap<u64, VariableId>,
    /// Handles by their fingerprint over the bytes that the driver checks.
    pub checked_handles: HashMap<u64, VariableId>,
    /// Events that some call exports: process and number.
    pub exported_events: HashSet<(usize, u64)>,
    /// Hashes of contents that were copied by several functions: to the host, and from there.
    pub moved_contents: HashSet<u64>,
    /// Variables for the order of these copies, by the hash. Statements do not name them.
    pub contents: HashMap<u64, VariableId>,
    pub constants: Vec<Constant>,
    /// Process of the step.
    pub process: usize,
    /// Statements before the step.
    pub before: Vec<String>,
    /// Shared objects that the step uses.
    pub uses: Vec<VariableId>,
    /// Descriptors that the process closed before the step.
    pub closed_descriptors: Vec<VariableId>,
}

/// A call that is being planned.
#[derive(Clone, Copy)]
pub struct PlannedCall<'a> {
    pub function: &'static FnSpec,
    /// The form of the function that cuda.h declares.
    pub shown: &'static FnSpec,
    pub call: &'a Call,
}

impl JobState {
    pub fn add_variable(&mut self, stem: &str, c_type: &str) -> VariableId {
        let id = self.variables.add(stem, c_type, self.process);
        self.processes[self.process].variables.insert(id);
        id
    }

    pub fn variable_name(&self, id: VariableId) -> String {
        self.variables.get(id).name.clone()
    }

    /// Returns the name of a structure, or with `[]` of an array, that all processes have.
    pub fn add_constant(&mut self, c_type: &str, brackets: &'static str, initializer: &str) -> String {
        let is_it = |constant: &&Constant| {
            (&*constant.c_type, constant.brackets, &*constant.initializer) == (c_type, brackets, initializer)
        };
        if let Some(known) = self.constants.iter().find(is_it) {
            return known.name.clone();
        }
        let id = self.variables.add(&variable_stem(c_type), c_type, 0);
        let (name, c_type, initializer) = (self.variable_name(id), c_type.to_owned(), initializer.to_owned());
        self.constants.push(Constant { name: name.clone(), c_type, brackets, initializer });
        name
    }

    /// Adds a call that was not recorded.
    pub fn add_unrecorded_call(&mut self, call: &str) {
        self.before.push(format!("must({call});"));
    }

    /// Notes that the step uses a shared object, together with the others that it uses.
    pub fn note_use(&mut self, id: VariableId) {
        if let Some(first) = self.uses.first() {
            self.variables.join_objects(*first, id);
        }
        self.uses.push(id);
        self.processes[self.process].variables.insert(id);
    }

    /// Notes that an object has a number from now on. The order of calls on two objects with one address matters.
    pub fn bind_object(&mut self, word: &'static str, number: u64, size: u64, id: VariableId) {
        self.processes[self.process].ended_objects.remove(&(word, number));
        let objects = &mut self.processes[self.process].objects;
        match word {
            "CUdeviceptr" => {
                if let Some((before, _)) = objects.find_address(number) {
                    self.variables.join_objects(before, id);
                }
                objects.bind_address(number, size, id);
            }
            _ => objects.bind_number(word, number, id),
        }
    }

    /// Notes the objects that a call ended.
    pub fn note_ended_objects(&mut self, PlannedCall { function, shown, call }: PlannedCall) {
        for effect in function.effects().iter().filter(|_| call.succeeded()) {
            if let Effect::Ends(End { by, is_counted: false, size: None, .. }) = effect
                && let Some(number) = call.argument_number(*by)
            {
                self.processes[self.process].ended_objects.insert((shown.args()[*by].type_word(), number));
            }
        }
    }

    /// Notes that a descriptor has a number. If another one had it, that one was closed.
    pub fn bind_descriptor(&mut self, fd: i32, id: VariableId) {
        let before = self.processes[self.process].descriptors.insert(fd, id).filter(|before| *before != id);
        self.closed_descriptors.extend(before);
    }
}
