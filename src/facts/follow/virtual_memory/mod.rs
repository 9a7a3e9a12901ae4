//! The table of virtual memory: the allocations of all processes, their mappings, and the devices that may access them.
//!
//! [`super::memory`] has the memory of each process. [`join`] joins imports with their allocations, [`teams`] has multicast
//! objects across processes, and [`rows`] builds the rows. [`super::ledger`] tracks the
//! handles of allocations, as of all shared objects.
//!
//! The memory is proportional to what processes have at one time, and to the number of allocations that were exported
//! or imported.

mod join;
mod rows;
mod teams;
#[cfg(test)]
mod tests;

pub use join::{AllocationImport, AllocationOrigin, ImportGraph, RetentionEnd};
pub use rows::{access_rows, handle_type_names, sort_and_truncate};
pub use teams::WaitingBind;
