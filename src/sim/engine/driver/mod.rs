//! The state of the driver in a process, as tables. Operations on one table are here; functions that need several tables are in
//! the modules above.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `stores`, `table`, `pools`, `vmm`, `advice`, `memory`, `arrays`: memory.
//! - `contexts`, `calls`, `late`, `streams`, `events`: contexts, and the order of their work.
//! - `graphs`, `modules`: graphs and kernels.
//! - `ipc`: imports and exports of legacy IPC.

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
pub(crate) use late::{Late, Piece, Remote, Use, Visibility, Work};
#[cfg(test)]
pub(crate) use memory::HOST_PORTABLE;
pub(crate) use memory::{Allocation, HOST_DEVICE_MAP, Kind, Memory, Shared};
pub(crate) use modules::{Function, Module, Modules, Owner};
pub(crate) use pools::{Origin, Pool, Pools};
pub(crate) use stores::{Block, Name, Retained, Store, Stored, Stores, padded};
pub(crate) use streams::{
    Attribute, LATE_CHANGED, LEGACY, NON_BLOCKING, PER_THREAD, PRIORITIES, Queue, Stream, Streams,
    TASK_ADDED, TASK_DONE, Tail, Waiting, lane,
};
pub(crate) use table::{Entry, Table};
pub(crate) use vmm::{
    ALL_HOSTS, ALL_WINDOWS, Behind, Bound, DESCRIPTOR, DEVICE, DEVICE_TYPES, FABRIC, HOST, HOST_NUMA, Handle,
    Mapping, PINNED, Rights, Vmm, WINDOWS, WINDOWS_KMT, may_access,
};

/// The state of the driver in a process.
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

/// Returns the keys of the values that meet a condition.
pub(crate) fn keys_of<'a, V: 'a>(
    all: impl IntoIterator<Item = (&'a u64, &'a V)>,
    is: impl Fn(&V) -> bool,
) -> Vec<u64> {
    all.into_iter().filter(|(_, value)| is(value)).map(|(key, _)| *key).collect()
}

impl Driver {
    /// Returns the driver for a machine with these visible devices.
    pub(crate) fn new(machine: Topology, visible: Vec<usize>) -> Driver {
        Driver {
            contexts: Contexts::new(visible.len()),
            space: Space::new(machine.reuses_early),
            stores: Stores::new(visible.len()),
            memory: Memory::new(visible.len()),
            vmm: Vmm::default(),
            arrays: Arrays::default(),
            streams: Streams::default(),
            queue: Queue { late: machine.late.map(Late::new), ..Queue::default() },
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
        &self.machine.devices[self.visible[ordinal]]
    }

    /// Returns the ordinal of a device of the machine, or `None` if the process does not see it.
    pub(crate) fn ordinal_of(&self, device: usize) -> Option<usize> {
        self.visible.iter().position(|visible| *visible == device)
    }

    /// Returns the link from one ordinal to another, or `None` for one device.
    pub(crate) fn link(&self, from: usize, to: usize) -> Option<&Link> {
        self.machine.link(self.visible[from], self.visible[to])
    }

    /// Returns true if one device of the machine can reach the memory of another, or they are the same.
    pub(crate) fn has_path(&self, from: usize, to: usize) -> bool {
        from == to || self.machine.link(from, to).is_some_and(|link| link.can_access)
    }

    /// Returns the context of a handle. Fails if it was destroyed.
    pub(crate) fn context(&self, handle: u64) -> Answer<&Context> {
        match self.contexts.map.get(&handle) {
            Some(context) if context.alive => Ok(context),
            Some(_) => fail(Code::CONTEXT_IS_DESTROYED),
            None => fail(Code::INVALID_CONTEXT),
        }
    }

    /// Returns the context of a handle, even if it was destroyed.
    pub(crate) fn known_context(&self, handle: u64) -> Answer<&Context> {
        self.contexts.map.get(&handle).ok_or_else(|| Code::INVALID_CONTEXT.into())
    }

    /// Returns the context of a handle, to change it. Fails if it was destroyed.
    pub(crate) fn context_mut(&mut self, handle: u64) -> Answer<&mut Context> {
        self.context(handle)?;
        self.contexts.map.get_mut(&handle).ok_or_else(|| Code::INVALID_CONTEXT.into())
    }

    /// Returns the handle of the calling thread's current context. Fails if it was destroyed, or if its work failed.
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

    /// Records that work of a context failed on the device. Calls that launched the work have returned already.
    pub(crate) fn fail_context(&mut self, handle: u64, code: Code) {
        if let Ok(context) = self.context_mut(handle) {
            context.failed.get_or_insert(code);
        }
    }

    /// Returns a context's handle, or the current context for 0. Fails if it was destroyed.
    pub(crate) fn context_or_current(&self, handle: u64) -> Answer<u64> {
        if handle == 0 { self.current() } else { self.context(handle).map(|_| handle) }
    }

    /// Returns the ordinal of the current context's device, even if the context was destroyed.
    pub(crate) fn current_ordinal(&self) -> Answer<usize> {
        match stack::current() {
            0 => self.current().map(|_| 0),
            handle => Ok(self.known_context(handle)?.device),
        }
    }

    /// Returns the current context. Fails if it was destroyed.
    pub(crate) fn current_context(&self) -> Answer<&Context> {
        self.context(self.current()?)
    }

    /// The ordinal of the current context's device.
    pub(crate) fn current_device(&self) -> Answer<usize> {
        Ok(self.current_context()?.device)
    }
}
