//! The table of virtual memory: the allocations of all processes, their mappings, and the devices that may access them.
//!
//! [`super::memory`] has the memory of each process. [`join`] joins imports with their allocations, [`teams`] has multicast
//! objects across processes, and [`rows`] builds the rows with the words of [`flags`]. [`super::ledger`] tracks the
//! handles of allocations, as of all shared objects.
//!
//! The memory is proportional to what processes have at one time, and to the number of allocations that were exported
//! or imported.

mod flags;
mod join;
mod rows;
mod teams;
#[cfg(test)]
mod tests;

use crate::follow::memory::Memory;
pub use flags::{access, handle_types};
pub use join::{Imported, Joined, Origin, Until};
pub use rows::order;
pub use teams::Waiting;

/// The memory of all processes, in the order of the job.
#[derive(Default)]
pub struct VirtualMemory {
    processes: Vec<Memory>,
}

impl VirtualMemory {
    /// The memory of each process.
    pub fn processes(&self) -> &[Memory] {
        &self.processes
    }

    /// Adds the memory of the next process, all of whose calls were read.
    pub fn add(&mut self, memory: Memory) {
        self.processes.push(memory);
    }
}
