//! Books: what a process holds of virtual memory ([`Space`]) and of memory pools ([`Pools`]), as its own calls show.
//!
//! A book follows each [`Call`] by the effects that the table lists for its function. The library keeps books with a
//! fixed number of entries, and the report without a limit. Nothing here allocates, except where a `Vec` grows that the
//! report supplies.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `wanted`: the structures that say what a program asks for.
//! - `call`: the arguments of a call.
//! - `places`: the storage of a book.
//! - `space`, `pools`: the books.

mod call;
mod places;
mod pools;
mod space;
pub mod wanted;

pub use call::Call;
pub use places::Places;
pub use pools::{Imported, Origin, Pool, Pools};
pub use space::{Allocation, Mapping, Space, SpaceView, Team};
