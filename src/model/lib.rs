//! The state of one process, as its own calls show: allocations, mappings, reservations, pools, and pointers into pools.
//!
//! A [`Call`] that has returned makes [`Delta`]s, one for each effect that the table lists for its function.
//! [`Process::apply`] changes the state by a delta. Every entry has an [`Id`] that no other entry ever gets; a number of
//! the driver is a name, which the driver gives out again, and which one entry has at a time. So references between
//! entries are identities: a mapping keeps its allocation after its handle was released, whatever has that handle later.
//!
//! A [`Keeper`] chooses the storage and what is known beside the state. The library keeps a fixed number of entries and
//! nothing beside them. The report keeps all, each with the places and times of its calls. Nothing here allocates, except
//! where the keeper's tables do.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `wanted`: the structures by which programs ask for memory.
//! - `call`: the arguments of a call.
//! - `names`: the bearers of the driver's numbers.
//! - `table`: entries by identity and name.
//! - `state`: the kinds of entries.
//! - `delta`: one change, read from an effect.
//! - `process`: the state, and how deltas change it.

mod call;
mod delta;
mod names;
mod process;
mod state;
mod table;
#[cfg(test)]
mod tests;
pub mod wanted;

pub use call::Call;
pub use delta::Delta;
pub use names::Names;
pub use process::{Family, Keeper, Process, View};
pub use state::{Allocation, Mapping, Origin, Pointer, Pool, Reservation, Team};
pub use table::{Bare, Entry, History, Id, Indexed, Known, Slots, Table};
