//! The state of one process, as its own calls show: allocations, mappings, reservations, pools, and pointers into pools.
//!
//! A [`Call`] that returned becomes [`Delta`]s, one per effect that the table lists for its function.
//! [`ProcessObjects::apply_delta`] applies a delta to the state. Every entry has an [`Id`] that is never reused. A
//! driver
//! number is a name, which one entry has at a time, and which the driver reuses. References between entries
//! are identities: a mapping keeps its allocation after the handle was released, even if another allocation
//! gets that handle later.
//!
//! A [`Keeper`] chooses the storage, and the facts beside the state. The library keeps a fixed number of
//! entries without further facts. The report keeps all entries, with the places and times of their calls.
//! Nothing here allocates, except the keeper's tables.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `alloc_props`: the structures by which programs ask for memory.
//! - `call`: the arguments of a call.
//! - `names`: the current holders of the driver's numbers.
//! - `table`: entries by identity and name.
//! - `state`: the kinds of entries.
//! - `delta`: one change, read from an effect.
//! - `process`: the state, and how deltas change it.

pub mod alloc_props;
mod call;
mod delta;
mod names;
mod process;
mod state;
mod table;
#[cfg(test)]
mod tests;

pub use call::Call;
pub use delta::Delta;
pub use names::NumberHolders;
pub use process::{Keeper, ObjectFamily, ProcessObjects, View};
pub use state::{Allocation, Mapping, MulticastDevices, ObjectOrigin, Pointer, Pool, Reservation};
pub use table::{BareEntry, Entry, EntryHistory, Id, IndexedTable, Slots, Table, TableEntry};
