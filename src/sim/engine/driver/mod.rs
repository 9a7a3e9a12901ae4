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

pub(crate) use advice::{Advice, device_of_location, location_of_device};
pub(crate) use arrays::{Array, ArrayDescriptor, Arrays};
pub(crate) use calls::{IN_CALL, ProgramCall, is_in_program_call};
pub(crate) use contexts::{Context, Contexts, check_flags};
pub(crate) use events::{Event, Events, INTERPROCESS, check_event_not_null};
pub(crate) use graphs::{Graphs, KernelNode, Node, RowEnd, TransferParameters};
pub(crate) use ipc::{Imports, ProcessExports};
pub(crate) use late::{ByteUse, LateWork, Remote, Visibility, Work, WorkPiece};
#[cfg(test)]
pub(crate) use memory::HOST_PORTABLE;
pub(crate) use memory::{Allocation, AllocationKind, AllocationTable, HOST_DEVICE_MAP, PoolSharing};
pub(crate) use modules::{Module, ModuleFunction, ModuleOwner, Modules};
pub(crate) use pools::{Pool, PoolOrigin, Pools};
pub(crate) use stores::{DeviceStore, ExportName, MemoryBlock, RetainedMemory, StorePosition, Stores, padded_size};
pub(crate) use streams::{
    Attribute, LATE_CHANGED, LEGACY, LaneTail, NON_BLOCKING, PER_THREAD, PRIORITIES, QueuedTask, Stream, Streams,
    TASK_ADDED, TASK_DONE, TaskQueue, lane_of,
};
pub(crate) use table::{PointerEntry, PointerTable};
pub(crate) use vmm::{
    ALL_HOSTS, ALL_WINDOWS, AccessRights, AllocationHandle, BoundMemory, DESCRIPTOR, DEVICE, DEVICE_TYPES, FABRIC,
    HOST, HOST_NUMA, HandleTarget, Mapping, PINNED, VmmState, WINDOWS, WINDOWS_KMT, rights_of,
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
    pub memory: AllocationTable,
    pub vmm: VmmState,
    pub arrays: Arrays,
    pub streams: Streams,
    pub queue: TaskQueue,
    pub events: Events,
    pub exports: ProcessExports,
    pub imports: Imports,
    pub modules: Modules,
    pub graphs: Graphs,
}

/// Returns the keys of the values that meet a condition.
pub(crate) fn keys_of<'a, V: 'a>(all: impl IntoIterator<Item = (&'a u64, &'a V)>, is: impl Fn(&V) -> bool) -> Vec<u64> {
    all.into_iter().filter(|(_, value)| is(value)).map(|(key, _)| *key).collect()
}

impl Driver {
    /// Returns the driver for a machine with these visible devices.
    pub(crate) fn new(machine: Topology, visible: Vec<usize>) -> Driver {
        Driver {
            contexts: Contexts::new(visible.len()),
            space: Space::new(machine.reuses_early),
            stores: Stores::new(visible.len()),
            memory: AllocationTable::new(visible.len()),
            vmm: VmmState::default(),
            arrays: Arrays::default(),
            streams: Streams::default(),
            queue: TaskQueue { late: machine.late.map(LateWork::new), ..TaskQueue::default() },
            events: Events::default(),
            exports: ProcessExports::default(),
            imports: Imports::default(),
            modules: Modules::default(),
            graphs: Graphs::default(),
            machine,
            visible,
        }
    }

    /// Checks an ordinal of a device. In the driver's message about a wrong one, the parameter is `dev`.
    pub(crate) fn check_ordinal(&self, device: i32) -> Answer<usize> {
        self.check_named_ordinal("dev", device)
    }

    /// Checks an ordinal; the driver's message has the name of its parameter.
    pub(crate) fn check_named_ordinal(&self, parameter: &str, device: i32) -> Answer<usize> {
        let count = self.visible.len();
        match usize::try_from(device) {
            Ok(ordinal) if ordinal < count => Ok(ordinal),
            _ => {
                let text = format!("Parameter {parameter} must be between 0 and {count}");
                refuse(Code::INVALID_DEVICE, text)
            }
        }
    }

    /// Returns the device with an ordinal.
    pub(crate) fn device(&self, ordinal: usize) -> &Device {
        &self.machine.devices[self.visible[ordinal]]
    }

    /// Returns the ordinal of a device of the machine, or `None` if the process does not see it.
    pub(crate) fn ordinal_of(&self, device: usize) -> Option<usize> {
        self.visible.iter().position(|visible| *visible == device)
    }

    /// Returns the link from one device to another, by their ordinals; `None` if both are the same device.
    pub(crate) fn link(&self, from: usize, to: usize) -> Option<&Link> {
        self.machine.link(self.visible[from], self.visible[to])
    }

    /// Returns true if one device of the machine can reach the memory of another one, or if both are the same device.
    pub(crate) fn has_path(&self, from: usize, to: usize) -> bool {
        from == to || self.machine.link(from, to).is_some_and(|link| link.can_access)
    }

    /// Returns the context with a handle. Fails if the context was destroyed.
    pub(crate) fn context(&self, handle: u64) -> Answer<&Context> {
        match self.contexts.map.get(&handle) {
            Some(context) if context.alive => Ok(context),
            Some(_) => fail(Code::CONTEXT_IS_DESTROYED),
            None => fail(Code::INVALID_CONTEXT),
        }
    }

    /// Returns the context with a handle, even if the context was destroyed.
    pub(crate) fn context_even_destroyed(&self, handle: u64) -> Answer<&Context> {
        self.contexts.map.get(&handle).ok_or_else(|| Code::INVALID_CONTEXT.into())
    }

    /// Returns the context with a handle, to change it. Fails if the context was destroyed.
    pub(crate) fn context_mut(&mut self, handle: u64) -> Answer<&mut Context> {
        self.context(handle)?;
        self.contexts.map.get_mut(&handle).ok_or_else(|| Code::INVALID_CONTEXT.into())
    }

    /// Returns the handle of the calling thread's current context. Fails if the context was destroyed, or if its work
    /// failed.
    pub(crate) fn current_context_handle(&self) -> Answer<u64> {
        match stack::current_context() {
            0 => no_context(),
            handle => {
                self.context(handle)?;
                self.check_context_not_failed(handle)?;
                Ok(handle)
            }
        }
    }

    /// Fails if work of a context has failed.
    pub(crate) fn check_context_not_failed(&self, handle: u64) -> Answer {
        match self.contexts.map.get(&handle) {
            Some(Context { failed: Some(code), has_told, .. }) if has_told.replace(true) => {
                refuse(*code, "Sticky error detected")
            }
            Some(Context { failed: Some(code), .. }) => fail(*code),
            _ => Ok(()),
        }
    }

    /// Records that work of a context failed on the device. Calls that launched the work have returned already.
    pub(crate) fn mark_context_failed(&mut self, handle: u64, code: Code) {
        if let Ok(context) = self.context_mut(handle) {
            context.failed.get_or_insert(code);
        }
    }

    /// Returns the handle of a context, or the current context's handle for 0. Fails if the context was destroyed.
    pub(crate) fn context_or_current(&self, handle: u64) -> Answer<u64> {
        if handle == 0 { self.current_context_handle() } else { self.context(handle).map(|_| handle) }
    }

    /// Returns the ordinal of the current context's device, even if the context was destroyed.
    pub(crate) fn current_ordinal(&self) -> Answer<usize> {
        match stack::current_context() {
            0 => self.current_context_handle().map(|_| 0),
            handle => Ok(self.context_even_destroyed(handle)?.device),
        }
    }

    /// Returns the current context. Fails if the context was destroyed.
    pub(crate) fn current_context(&self) -> Answer<&Context> {
        self.context(self.current_context_handle()?)
    }

    /// Returns the ordinal of the current context's device.
    pub(crate) fn current_device(&self) -> Answer<usize> {
        Ok(self.current_context()?.device)
    }
}
