//! The functions as C calls them: an entry for each function that the simulated driver supports.
//!
//! An entry reads and writes through the caller's pointers, checks for null, and calls the engine. The behavior is in the
//! engine. `entry!` and `forward!` define entries: they convert the arguments to `boundary` types, and the answer to a
//! result code. Entries make their checks in the order in which a driver was seen to make them.

// Functions and arguments are named as in cuda.h.
#![allow(non_camel_case_types, non_snake_case)]

#[macro_use]
mod boundary;
mod arrays;
mod async_work;
mod contexts;
mod copies;
mod devices;
mod driver;
mod events;
mod exports;
mod fills;
mod graphs;
mod ipc;
mod ledger;
mod logs;
mod memory;
mod modules;
#[cfg(feature = "more-functions")]
mod more;
mod multicast;
mod peers;
mod pointers;
mod pools;
mod streams;
mod values;
mod vmm;

pub(crate) use arrays::*;
pub(crate) use async_work::*;
pub(crate) use contexts::*;
pub(crate) use copies::*;
pub(crate) use devices::*;
pub(crate) use driver::*;
pub(crate) use events::*;
pub(crate) use fills::*;
pub(crate) use graphs::*;
pub(crate) use ipc::*;
pub(crate) use logs::*;
pub(crate) use memory::*;
pub(crate) use modules::*;
#[cfg(feature = "more-functions")]
pub(crate) use more::*;
pub(crate) use multicast::*;
pub(crate) use peers::*;
pub(crate) use pointers::*;
pub(crate) use pools::*;
pub(crate) use streams::*;
pub(crate) use values::*;
pub(crate) use vmm::*;
