//! The behavior of a driver: devices, contexts, memory, copies, streams, events, and sharing between processes.
//!
//! It is ordinary Rust with unit tests, and pointers of the caller are numbers. C types and their checks are in `crate::api`.
//!
//! One lock guards all state ([`process::enter`]). It is released before bytes move, and before functions of the program are
//! called.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `answer`: a value, or a failure.
//! - `limits`, `stack`, `pages`, `holes`, `space`: the host, the calling thread, and addresses.
//! - `names`, `lookup`, `visible`, `images`: names of functions and results, the visible devices, and images of modules.
//! - `backing`, `records`, `job_memory`, `channel`, `handle`, `namespaces`, `descriptors`, `multicasts`: files that processes share.
//! - `forks`, `log`: children by fork, and the driver's log.
//! - `places`, `damage`, `transfers`: the places of bytes, and their moves.
//! - `driver`: the tables of a process. The modules below, except `process`, are functions of it.
//! - `process`: the one driver of this process, and its lock.
//! - `store`, `pools`, `memory`, `managed`, `arrays`: memory of devices and of the host.
//! - `peers`, `vmm`, `pointers`, `copies`: access to memory.
//! - `streams`, `late`, `queue`, `events`, `graphs`, `values`: work, and its order.
//! - `ipc`: legacy IPC.
//! - `modules`, `kernels`, `attributes`: kernels, and attributes of devices.
//! - `contexts`: the end of a context, which ends its objects.

pub(crate) mod answer;
pub(crate) mod arrays;
pub(crate) mod attributes;
pub(crate) mod backing;
pub(crate) mod channel;
pub(crate) mod contexts;
pub(crate) mod copies;
pub(crate) mod damage;
pub(crate) mod descriptors;
pub(crate) mod driver;
pub(crate) mod events;
pub(crate) mod forks;
pub(crate) mod graphs;
pub(crate) mod handle;
pub(crate) mod holes;
pub(crate) mod images;
pub(crate) mod ipc;
pub(crate) mod job_memory;
pub(crate) mod kernels;
pub(crate) mod late;
pub(crate) mod limits;
pub(crate) mod log;
pub(crate) mod lookup;
pub(crate) mod managed;
pub(crate) mod memory;
pub(crate) mod modules;
pub(crate) mod multicasts;
pub(crate) mod names;
mod namespaces;
pub(crate) mod pages;
pub(crate) mod peers;
pub(crate) mod places;
pub(crate) mod pointers;
pub(crate) mod pools;
pub(crate) mod process;
pub(crate) mod queue;
pub(crate) mod records;
pub(crate) mod space;
pub(crate) mod stack;
pub(crate) mod store;
pub(crate) mod streams;
pub(crate) mod transfers;
pub(crate) mod values;
pub(crate) mod visible;
pub(crate) mod vmm;
