//! The functions as C calls them: one for each name that the simulated driver does.
//!
//! What belongs here: reading and writing through the caller's pointers, null checks, and calling the
//! engine. What does not: behaviour.
//!
//! Each is written with `entry!`, which hands it its arguments as `boundary` types and turns its answer
//! into a result code. They check in the order in which the driver was seen to.

// Functions and arguments are named as in cuda.h.
#![allow(non_snake_case)]

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
