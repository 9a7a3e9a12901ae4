//! What a driver does: devices, contexts, memory, copies, streams, events, sharing between processes.
//!
//! What belongs here: behaviour, as ordinary Rust with unit tests; pointers of the caller are numbers. What
//! does not: C types and their checks (`crate::api`).
//!
//! One lock guards all of it ([`process::enter`]). Bytes are moved, and functions of the caller are called,
//! after it is given back.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `answer`: a value, or why there is none.
//! - `limits`, `stack`, `holes`, `space`: the host, the calling thread, and addresses.
//! - `names`, `lookup`, `visible`, `images`: what programs and the environment say.
//! - `backing`, `records`, `room`, `channel`, `handle`, `namespaces`, `tickets`, `teams`: files that processes share, and finding them.
//! - `forks`, `log`: whose process it is, and what is said.
//! - `places`, `wires`, `transfers`: where bytes lie, and moving them.
//! - `driver`: the tables of a process. All that follows, but for `process`, is functions of it.
//! - `process`: the one driver of this process, and its lock.
//! - `store`, `pools`, `memory`, `managed`, `arrays`: memory of devices and of the host.
//! - `peers`, `vmm`, `pointers`, `copies`: who reaches which memory.
//! - `streams`, `late`, `queue`, `events`, `graphs`, `values`: work, and its order.
//! - `ipc`: what processes open of each other.
//! - `modules`, `kernels`, `attributes`: what a device is and executes.
//! - `contexts`: what ends takes all of that with it.

pub(crate) mod answer;
pub(crate) mod arrays;
pub(crate) mod attributes;
pub(crate) mod backing;
pub(crate) mod channel;
pub(crate) mod contexts;
pub(crate) mod copies;
pub(crate) mod driver;
pub(crate) mod events;
pub(crate) mod forks;
pub(crate) mod graphs;
pub(crate) mod handle;
pub(crate) mod holes;
pub(crate) mod images;
pub(crate) mod ipc;
pub(crate) mod kernels;
pub(crate) mod late;
pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod lookup;
pub(crate) mod managed;
pub(crate) mod memory;
pub(crate) mod modules;
pub(crate) mod names;
mod namespaces;
pub(crate) mod peers;
pub(crate) mod places;
pub(crate) mod pointers;
pub(crate) mod pools;
pub(crate) mod process;
pub(crate) mod queue;
pub(crate) mod records;
pub(crate) mod room;
pub(crate) mod space;
pub(crate) mod stack;
pub(crate) mod store;
pub(crate) mod streams;
pub(crate) mod teams;
pub(crate) mod tickets;
pub(crate) mod transfers;
pub(crate) mod values;
pub(crate) mod visible;
pub(crate) mod vmm;
pub(crate) mod wires;
