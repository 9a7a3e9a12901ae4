//! Everything that a process has of the driver, as tables, and which context is current.
//!
//! What belongs here: what a table knows by itself. What does not: what a function of the driver does with several of them.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `stores`, `table`, `pools`, `vmm`, `advice`, `memory`, `arrays`: memory.
//! - `contexts`, `calls`, `late`, `streams`, `events`: contexts, and the order of their work.
//! - `graphs`, `modules`: what is launched.
//! - `ipc`: what processes have open of each other.

mod advice;
mod arrays;
mod calls;
mod contexts;
mod events;
mod graphs;
mod ipc;
mod late;
mod memory;
pub(crate) mod modules;
mod pools;
mod stores;
mod streams;
mod table;
mod vmm;

use super::answer::{Answer, fail, no_context, refuse};
use super::space::Space;
use super::stack;
use cupeer_spec::results::Result as Code;
use cupeer_topology::{Device, Link, Topology};

pub(crate) use advice::{Advice, device_of, place_of};
pub(crate) use arrays::{Array, Arrays, Descriptor};
pub(crate) use calls::{Call, IN_CALL, in_call};
pub(crate) use contexts::{Context, Contexts, check_flags};
pub(crate) use events::{Event, Events, INTERPROCESS, check_null};
pub(crate) use graphs::{End, Graphs, Kernel, Node, Parameters};
pub(crate) use ipc::{Exports, Imports};
pub(crate) use late::{Late, Piece, Remote, Seen, Use, Work};
#[cfg(test)]
pub(crate) use memory::HOST_PORTABLE;
pub(crate) use memory::{Allocation, HOST_DEVICE_MAP, Kind, Memory, Shared};
pub(crate) use modules::{Function, Module, Modules, Owner};
pub(crate) use pools::{Origin, Pool, Pools};
pub(crate) use stores::{Block, Ghost, Name, Store, Stored, Stores, padded};
pub(crate) use streams::{
    Attribute, CAME, DONE, LEGACY, MIND, NON_BLOCKING, PER_THREAD, PRIORITIES, Queue, Stream, Streams, Tail,
    Task, Waiting, lane,
};
pub(crate) use table::{Entry, Table};
pub(crate) use vmm::{
    ALL_HOSTS, ALL_WINDOWS, Behind, Bound, DESCRIPTOR, DEVICE, DEVICE_TYPES, FABRIC, HOST, HOST_NUMA, Handle,
    Mapping, PINNED, Rights, Vmm, WINDOWS, WINDOWS_KMT, may_access,
};

/// Everything that a process has of the driver.
pub(crate) struct Driver {
    /// The machine, with all its devices.
    pub machine: Topology,
    /// The physical index of each device that this process sees.
    pub visible: Vec<usize>,
    pub contexts: Contexts,
    pub space: Space,
    pub stores: Stores,
    pub memory: Memory,
    pub vmm: Vmm,
    pub arrays: Arrays,
    pub streams: Streams,
    pub queue: Queue,
    pub events: Events,
    pub exports: Exports,
    pub imports: Imports,
    pub modules: Modules,
    pub graphs: Graphs,
}

impl Driver {
    /// A driver for a machine of which these devices are seen.
    pub(crate) fn new(machine: Topology, visible: Vec<usize>) -> Driver {
        Driver {
            contexts: Contexts::new(visible.len()),
            space: Space::new(machine.reuses_early()),
            stores: Stores::new(visible.len()),
            memory: Memory::new(visible.len()),
            vmm: Vmm::default(),
            arrays: Arrays::default(),
            streams: Streams::default(),
            queue: Queue { late: machine.late().map(Late::new), ..Queue::default() },
            events: Events::default(),
            exports: Exports::default(),
            imports: Imports::default(),
            modules: Modules::default(),
            graphs: Graphs::default(),
            machine,
            visible,
        }
    }

    /// Checks an ordinal that is the parameter `dev`.
    pub(crate) fn ordinal(&self, device: i32) -> Answer<usize> {
        self.named_ordinal("dev", device)
    }

    /// Checks an ordinal; the driver's message has the name of its parameter.
    pub(crate) fn named_ordinal(&self, parameter: &str, device: i32) -> Answer<usize> {
        let count = self.visible.len();
        match usize::try_from(device) {
            Ok(ordinal) if ordinal < count => Ok(ordinal),
            _ => {
                let text = format!("Parameter {parameter} must be between 0 and {count}");
                refuse(Code::INVALID_DEVICE, text)
            }
        }
    }

    /// The device of an ordinal.
    pub(crate) fn device(&self, ordinal: usize) -> &Device {
        &self.machine.devices()[self.visible[ordinal]]
    }

    /// The ordinal of a device of the machine; `None` where the process does not see it.
    pub(crate) fn ordinal_of(&self, device: usize) -> Option<usize> {
        self.visible.iter().position(|visible| *visible == device)
    }

    /// The link from one ordinal to another; `None` for a device with itself.
    pub(crate) fn link(&self, from: usize, to: usize) -> Option<&Link> {
        self.machine.link(self.visible[from], self.visible[to])
    }

    /// The context behind a handle, which has to exist.
    pub(crate) fn context(&self, handle: u64) -> Answer<&Context> {
        match self.contexts.map.get(&handle) {
            Some(context) if context.alive => Ok(context),
            Some(_) => fail(Code::CONTEXT_IS_DESTROYED),
            None => fail(Code::INVALID_CONTEXT),
        }
    }

    /// The context behind a handle, which may be destroyed.
    pub(crate) fn known_context(&self, handle: u64) -> Answer<&Context> {
        self.contexts.map.get(&handle).ok_or_else(|| Code::INVALID_CONTEXT.into())
    }

    /// The same, to change it.
    pub(crate) fn context_mut(&mut self, handle: u64) -> Answer<&mut Context> {
        self.context(handle)?;
        self.contexts.map.get_mut(&handle).ok_or_else(|| Code::INVALID_CONTEXT.into())
    }

    /// The handle of the context that is current to the calling thread, which has to exist.
    pub(crate) fn current(&self) -> Answer<u64> {
        match stack::current() {
            0 => no_context(),
            handle => {
                self.context(handle)?;
                self.check_failed(handle)?;
                Ok(handle)
            }
        }
    }

    /// Fails if work of a context has failed.
    pub(crate) fn check_failed(&self, handle: u64) -> Answer {
        match self.contexts.map.get(&handle) {
            Some(Context { failed: Some(code), has_told, .. }) if has_told.replace(true) => {
                refuse(*code, "Sticky error detected")
            }
            Some(Context { failed: Some(code), .. }) => fail(*code),
            _ => Ok(()),
        }
    }

    /// Work of a context fails as the device carries it out. What was launched before does not show it.
    pub(crate) fn fail_context(&mut self, handle: u64, code: Code) {
        if let Ok(context) = self.context_mut(handle) {
            context.failed.get_or_insert(code);
        }
    }

    /// The handle given, or the current one where it is 0.
    pub(crate) fn context_or_current(&self, handle: u64) -> Answer<u64> {
        if handle == 0 { self.current() } else { self.context(handle).map(|_| handle) }
    }

    /// The ordinal of the current context's device, also where the context is destroyed.
    pub(crate) fn current_ordinal(&self) -> Answer<usize> {
        match stack::current() {
            0 => self.current().map(|_| 0),
            handle => Ok(self.known_context(handle)?.device),
        }
    }

    /// The current context, which has to exist.
    pub(crate) fn current_context(&self) -> Answer<&Context> {
        self.context(self.current()?)
    }

    /// The ordinal of the current context's device.
    pub(crate) fn current_device(&self) -> Answer<usize> {
        Ok(self.current_context()?.device)
    }
}
