//! Keeps the stacks of calls, each once however many calls have it.

use cupeer_record::Call;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::PythonLine;
use std::collections::HashMap;
use std::hash::BuildHasher;

/// Number of a stack in [`StackTable`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct StackNumber(u32);

impl StackNumber {
    /// Returns the number. Numbers begin at 0, in the order in which the stacks were seen.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Stacks of calls, each of one process at the time when the stack was first seen.
pub struct StackTable {
    /// Numbers of the stacks, by the hash of their contents.
    numbers: HashMap<u64, StackNumber, foldhash::fast::RandomState>,
    hasher: foldhash::fast::RandomState,
    all: Vec<StoredStack>,
    /// Functions that were called with each stack, by its number.
    called: Vec<Vec<FnId>>,
    /// Most recent stacks of a single frame: process, caller, and number of the stack.
    recent: [Option<(u32, u64, StackNumber)>; RECENT],
}

/// Stack: the index of its process, a time in ticks at which it was seen, its return addresses, and the Python frames
/// among them.
pub type StoredStack = (u32, u64, Box<[u64]>, Box<[PythonLine]>);

/// Number of recent stacks that can be found without hashing.
const RECENT: usize = 64;

impl Default for StackTable {
    fn default() -> Self {
        let hasher = foldhash::fast::RandomState::default();
        StackTable { numbers: HashMap::default(), hasher, all: Vec::new(), called: Vec::new(), recent: [None; RECENT] }
    }
}

impl StackTable {
    /// Returns the stack of a call; if no frames were recorded, only its caller.
    pub fn of(&mut self, process: usize, call: &Call) -> StackNumber {
        if !call.details.frames.is_empty() {
            let stack = self.find_or_add(process, call.start, &call.details.frames, &call.details.python);
            let called = &mut self.called[stack.index()];
            if let Some(function) = call.function.filter(|function| !called.contains(function)) {
                called.push(function);
            }
            return stack;
        }
        let place = (call.caller ^ call.caller >> 6) as usize % RECENT;
        match self.recent[place] {
            Some((known, caller, stack)) if (known, caller) == (process as u32, call.caller) => stack,
            _ => {
                let stack = self.find_or_add(process, call.start, &[call.caller], &[]);
                self.recent[place] = Some((process as u32, call.caller, stack));
                stack
            }
        }
    }

    /// Returns the number of the stack with these frames; adds the stack if it is new.
    pub fn find_or_add(&mut self, process: usize, ticks: u64, frames: &[u64], python: &[PythonLine]) -> StackNumber {
        let process = process as u32;
        let mut hash = self.hasher.hash_one((process, frames, python));
        while let Some(known) = self.numbers.get(&hash) {
            let (other, _, others, lines) = &self.all[known.0 as usize];
            if (*other, &**others, &**lines) == (process, frames, python) {
                return *known;
            }
            hash = hash.wrapping_add(1);
        }
        let stack = StackNumber(self.all.len() as u32);
        self.all.push((process, ticks, frames.into(), python.into()));
        self.called.push(Vec::new());
        self.numbers.insert(hash, stack);
        stack
    }

    /// Returns the number of stacks.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns true if there are no stacks.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns all stacks, in the order of their numbers.
    pub fn numbers(&self) -> impl Iterator<Item = StackNumber> + use<> {
        (0..self.all.len() as u32).map(StackNumber)
    }

    /// Returns the contents of a stack.
    pub fn get(&self, stack: StackNumber) -> &StoredStack {
        &self.all[stack.0 as usize]
    }
    /// Returns the functions that were called with a stack.
    pub fn called_functions(&self, stack: StackNumber) -> &[FnId] {
        &self.called[stack.index()]
    }
}
