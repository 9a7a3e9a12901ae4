//! Facts about the world around a call, supplied by the code that requests a decision.

use crate::reason::{Ago, Device, EndKind, HadContext, Process, Ptrace, Site};
use crate::{Cache, Confidence};
use cupeer_model::{BareEntry, ObjectFamily, Pool, View};
use cupeer_spec::effect::Object;
use cupeer_spec::record::live::library_text;
use cupeer_spec::record::slot::finding::LIBRARY;
use cupeer_spec::value::EXPORTER;

/// Facts that are known when a call is judged. An unknown fact is `None`, or empty.
pub trait World {
    /// Reference to an object of a finding.
    type Object: Copy;

    /// Returns the pid of the calling process in its own namespace, and that namespace.
    fn pid_and_namespace(&self) -> (u32, u64);
    /// Returns the id of the calling thread.
    fn thread_id(&self) -> u32 {
        0
    }

    /// Returns the process that had initialized the driver before this process was forked from it, and the
    /// confidence in this. The pid is `None` if it is unknown.
    fn initializer_before_fork(&self) -> Option<(Option<u32>, Confidence)> {
        None
    }
    /// Returns the result of the query for the current context, and the context; 0 if none is current.
    fn current_context(&self) -> Option<(i32, u64)>;
    /// Returns the ordinal of the current context's device; -1 if no context is current, or the device is
    /// unknown.
    fn current_device(&self) -> i32;
    /// Returns true if the current context was destroyed.
    fn is_current_destroyed(&self) -> Option<bool> {
        None
    }
    /// Returns the contexts that the calling thread, which has no current context, or other threads had
    /// before.
    fn had_context(&self) -> HadContext {
        HadContext::Unknown
    }
    /// Returns the number of devices that the process sees.
    fn device_count(&self) -> Option<i32>;
    /// Returns the UUID of a device, by its ordinal in the process; zeros if unknown.
    fn uuid(&self, ordinal: i32) -> [u8; 16];
    /// Returns the ordinal of a device in the process; -1 if the process does not see the device.
    fn ordinal(&self, uuid: [u8; 16]) -> i32;
    /// Returns the ordinal of a peer context's device, for a call whose result shows that the pointer is a
    /// context; -1 if unknown.
    fn device_of_peer(&self, _context: u64) -> i32 {
        -1
    }
    /// Returns true if a device can access the memory of another one.
    fn can_access(&self, _from: i32, _to: i32) -> Option<bool> {
        None
    }
    /// Calls `work` with the path of a device's node in /dev, and whether the process may use the node; with
    /// `None` if the system has no such node.
    fn with_device_node(&self, _uuid: &[u8; 16], _work: &mut dyn FnMut(Option<DeviceNode>)) {}
    /// Returns the driver's attributes of a pointer.
    fn pointer_attributes(&self, _address: u64) -> Option<PointerAttributes> {
        None
    }
    /// Returns the driver's message about the failure; empty if there is none.
    fn driver_message(&self) -> &str {
        ""
    }
    /// Calls `work` with the value of an environment variable.
    fn with_variable(&self, name: &str, work: &mut dyn FnMut(Option<&str>));

    /// Returns true if cupeer knows every export of the job, so that a handle without a known export is a
    /// foreign one.
    fn has_all_exports(&self) -> bool;
    /// Returns the export of a handle.
    fn find_export(&self, _object: Object, _fingerprint: u64) -> Option<Export<Self::Object>> {
        None
    }
    /// Returns the export whose handle the opened bytes are a damaged copy of, and true if the bytes that the
    /// driver checks are equal.
    fn find_original(&self, _object: Object, _fingerprint: u64, _checked: u64) -> Option<(Export<Self::Object>, bool)> {
        None
    }
    /// Returns whether the exporter of a handle is running.
    fn exporter_life(&self, _export: &Export<Self::Object>) -> ProcessLife {
        ProcessLife::Unknown
    }
    /// Returns the confidence that the exporter crashed or was killed; `None` if it was not.
    fn death_confidence(&self, _export: &Export<Self::Object>) -> Option<Confidence> {
        None
    }
    /// Returns the confidence of a conclusion about an exporter, which is that of its state.
    fn exporter_confidence(&self, export: &Export<Self::Object>) -> Confidence {
        match self.exporter_life(export) {
            ProcessLife::Runs => Confidence::Certain,
            ProcessLife::Gone => Confidence::Stale,
            ProcessLife::Vanished | ProcessLife::Unknown => Confidence::Inferred,
        }
    }
    /// Returns the bytes of the handle that the call opens.
    fn handle_bytes(&self) -> Option<[u8; 64]> {
        None
    }
    /// Returns the pid in the bytes of the opened handle. In a memory handle, it is the exporter's.
    fn pid_in_handle(&self) -> Option<u32> {
        read_word(&self.handle_bytes()?, EXPORTER)
    }
    /// Returns a process of the job that has this pid and exported an object.
    fn exporter_with_pid(&self, _object: Object, _pid: u32) -> Option<Process> {
        None
    }
    /// Returns true if cupeer records a process of this pid in another recording.
    fn is_recorded_elsewhere(&self, _pid: u32) -> bool {
        false
    }
    /// Returns true if a process of this pid is running on this host.
    fn is_running(&self, _pid: u32) -> Option<bool> {
        None
    }
    /// Returns true if the driver knows an event that a call refused.
    fn is_event(&self, _event: u64) -> Option<bool> {
        None
    }
    /// Returns the ordinal of the device of a stream's context.
    fn device_of_stream(&self, _stream: u64) -> Option<i32> {
        None
    }
    /// Returns the devices on which the process has contexts: one bit per ordinal.
    fn devices_with_contexts(&self) -> u64 {
        0
    }
    /// Returns the open handle of this process at an address, or the one whose memory contains it.
    fn opening_at(&self, _object: Object, _address: u64) -> Option<Opening<Self::Object>> {
        None
    }
    /// Calls `work` with every open handle of this process for this kind of object.
    fn each_opening(&self, _object: Object, _work: &mut dyn FnMut(&Opening<Self::Object>)) {}
    /// Returns another process of the job that has an object open at this address of its own.
    fn opener_elsewhere(&self, _object: Object, _address: u64) -> Option<(Process, Self::Object)> {
        None
    }
    /// Returns the handle that this process closed at an address.
    fn closed_at(&self, _address: u64) -> Option<ClosedHandle> {
        None
    }
    /// Returns the time since access from one context to another was enabled, and the world's reference to
    /// the enabled access. `None` if no such access is known; the time is `None` if it is unknown.
    fn enabled_access(&self, _from: u64, _to: u64) -> Option<(Option<Ago>, Self::Object)> {
        None
    }
    /// Returns the processes of the job that enabled access from a device.
    fn peers(&self, _device: &Device) -> EnabledPeers<Self::Object> {
        EnabledPeers { known: 0, processes: 0, is_certain: true, first: None }
    }

    /// Queries the model of the process, if there is one.
    fn query_model<T>(&self, _ask: impl FnOnce(&dyn View) -> Option<T>) -> Option<T> {
        None
    }
    /// Returns true if all calls of the process about a family of objects are known.
    fn has_all_calls(&self, _family: ObjectFamily) -> bool {
        false
    }
    /// Returns true if a device supports multicast.
    fn has_multicast(&self, _device: i32) -> Option<bool> {
        None
    }
    /// Returns a pool, by its handle.
    fn pool(&self, handle: u64) -> Option<BareEntry<Pool>> {
        self.query_model(|model| model.pool(handle))
    }
    /// Returns true if the process may read an IMEX channel.
    fn has_fabric_channel(&self) -> Option<bool> {
        None
    }
    /// Returns true if a number is an open file descriptor of the process.
    fn is_descriptor(&self, _fd: i32) -> Option<bool> {
        None
    }
    /// Returns another process of the job that exported memory as a descriptor with this number.
    fn exporter_of_descriptor(&self, _object: Object, _fd: i32) -> Option<(Process, Self::Object)> {
        None
    }
    /// Returns the largest number of open files, if the process has reached it; `Some(None)` if the process
    /// can open more files.
    fn reached_file_limit(&self) -> Option<Option<u64>> {
        None
    }
    /// Returns the permissions that decide whether a process may take a descriptor from another one.
    fn ptrace(&self) -> Option<Ptrace> {
        None
    }

    /// Returns the allocation that the call is about: its start address, and its size in bytes.
    fn allocation_of_call(&self) -> Option<(u64, u64)> {
        None
    }
    /// Returns true if the call opened a handle that was already open. If different libraries opened the
    /// handle, calls `work` with the two.
    fn is_open_already(&self, _work: &mut dyn FnMut(OpenerLibraries<Self::Object>)) -> bool {
        false
    }
    /// Returns true if the call closed a handle that was open; also if that is unknown.
    fn has_closed_handle(&self) -> bool {
        true
    }
    /// Returns the export from which the handle came that the call closed at an address, if that was its last open there.
    fn export_of_closed_handle(&self, _object: Object, _address: u64) -> Option<Export<Self::Object>> {
        None
    }
    /// Returns the freed export that had the same address as the call's export, if others still have it open.
    /// `None` if the call repeats an export.
    fn find_freed_before(&self) -> Option<FreedExport<Self::Object>> {
        None
    }
    /// Returns memory in this range that ended before the call.
    fn ended_memory(&self, _start: u64, _bytes: u64) -> Option<EndedMemory<Self::Object>> {
        None
    }
    /// Returns the memory around an address, as the driver reports it: its start, and its size in bytes. For
    /// a mapping, these are the reservation's. `Some(None)` if the driver knows none there.
    fn memory_range_at(&self, _address: u64) -> Option<Option<(u64, u64)>> {
        None
    }
    /// Returns the access of a device to the mapping at an address, as the driver reports it:
    /// CUmemAccess_flags.
    fn access_of_device(&self, _address: u64, _device: i32) -> Option<u64> {
        None
    }
    /// Returns the ordinal of the device of a context that is known without asking the driver: of a primary
    /// context, or of a context that the process was seen to create.
    fn device_of_known_context(&self, _context: u64) -> Option<i32> {
        None
    }
    /// Calls `work` with each range that the copies of a batch use: the index of the argument that names the
    /// range, its start address, and its size in bytes.
    fn each_batch_range(&self, _work: &mut dyn FnMut(usize, u64, u64)) {}
    /// Calls `work` with each word in the parameters of the kernel that the call launches: the kernel's name,
    /// the index of the parameter, and the word.
    fn each_parameter(&self, _work: &mut dyn FnMut(&str, usize, u64)) {}
    /// Calls `work` with the memory that each node uses, for the graph that the call launches, creates, or
    /// changes.
    fn each_node(&self, _work: &mut dyn FnMut(&super::NodeUse)) {}
    /// Returns the object that the call ended while others had it open. For a context, also returns the
    /// number of such handles that ended with it.
    fn ended_while_open(&self) -> Option<super::EndedObject<Self::Object>> {
        None
    }
}

/// Node in /dev of a device.
#[derive(Clone, Copy)]
pub struct DeviceNode<'a> {
    /// Path of the node.
    pub path: &'a str,
    /// True if the process may read and write the node.
    pub is_usable: bool,
}

/// Export of a handle by a process of the job.
#[derive(Clone, Copy)]
pub struct Export<O> {
    /// Fingerprint of the handle.
    pub fingerprint: u64,
    /// Process that exported the handle.
    pub owner: Process,
    /// Number by which the world identifies the exporter.
    pub exporter_id: u64,
    /// Pid namespace of the exporter.
    pub pid_ns: u64,
    /// True if the calling process is the exporter.
    pub is_own: bool,
    /// Start address of the allocation, or the event.
    pub address: u64,
    /// Device of the object, with its ordinal in the exporter.
    pub device: Device,
    /// Offset of the exported pointer in the allocation, in bytes.
    pub pointer_offset: u64,
    /// Time from the export to the call.
    pub ago: Option<Ago>,
    /// End of the exported object; `None` if it exists.
    pub ended: Option<ObjectEnd>,
    /// The world's reference to the export.
    pub object: O,
}

/// Exported object that was freed while others had it open.
#[derive(Clone, Copy)]
pub struct FreedExport<O> {
    /// Export of the object.
    pub export: Export<O>,
    /// Processes that have the object open.
    pub importers: Importers<O>,
}

/// End of an exported object.
#[derive(Clone, Copy)]
pub struct ObjectEnd {
    /// True if the object ended before the call was made.
    pub is_before: bool,
    /// Time from the end to the call.
    pub ago: Option<Ago>,
    /// True if the object ended with its context.
    pub with_context: bool,
}

/// Handle that the calling process has open.
#[derive(Clone, Copy)]
pub struct Opening<O> {
    /// Fingerprint of the handle.
    pub fingerprint: u64,
    /// Address of the mapping, or the event.
    pub address: u64,
    /// Context in which the handle was opened; 0 if unknown.
    pub context: u64,
    /// Ordinal of this context's device.
    pub device: i32,
    /// The world's reference to the open handle.
    pub object: O,
}

/// Two libraries that have opened the same handle, by the names of their files.
#[derive(Clone, Copy)]
pub struct OpenerLibraries<'a, O> {
    /// First library that opened it.
    pub first: &'a str,
    /// Library that opened the handle again by this call.
    pub second: &'a str,
    /// Number of times that the handle is open.
    pub count: u32,
    /// The world's reference to the first open.
    pub opening: O,
}

/// Handle that the calling process has closed.
#[derive(Clone, Copy)]
pub struct ClosedHandle {
    /// Fingerprint of the handle.
    pub fingerprint: u64,
    /// Time from the close to the call.
    pub ago: Option<Ago>,
    /// True if the handle was closed because its context ended.
    pub with_context: bool,
    /// Call that closed the handle, or ended its context.
    pub by: Option<ClosedBy>,
}

/// Place of the call that closed a handle or ended memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClosedBy {
    /// Thread id of the caller.
    pub tid: u32,
    /// File name of the calling library, padded with zeros.
    pub library: [u8; LIBRARY],
    /// Offset of the call in the library.
    pub offset: u64,
}

impl ClosedBy {
    /// Returns the place in the form that reasons use.
    pub fn site(&self) -> Site<'_> {
        Site { tid: self.tid, library: library_text(&self.library), offset: self.offset }
    }
}

/// State of a process: running or ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessLife {
    /// The process is running.
    Runs,
    /// The process exited, or executed another program.
    Gone,
    /// The process disappeared without recording its end.
    Vanished,
    /// It is unknown whether the process is running.
    Unknown,
}

/// Attributes of a pointer, as the driver reports them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct PointerAttributes {
    /// True if the driver knows the memory.
    pub is_known: bool,
    /// True if it is device memory.
    pub is_device: bool,
    /// True if it is managed memory.
    pub is_managed: bool,
    /// True if it has a legacy IPC handle.
    pub is_exportable: bool,
    /// Handle of the pool that the memory is from; 0 if it is from none.
    pub pool: u64,
    /// Context that the memory belongs to; 0 if it belongs to none.
    pub context: u64,
    /// Handle types with which the memory can be exported, as bits.
    pub handle_types: u64,
}

/// Processes that enabled access from a device.
#[derive(Clone, Copy)]
pub struct EnabledPeers<O> {
    /// Number of known enabled accesses.
    pub known: u64,
    /// Number of processes that enabled these accesses.
    pub processes: u64,
    /// True if all of these processes are known to be running.
    pub is_certain: bool,
    /// The world's reference to the first of these accesses.
    pub first: Option<O>,
}

/// Returns the 4-byte number at an offset of a handle's bytes.
pub(super) fn read_word(bytes: &[u8; 64], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Other processes that have an object open.
#[derive(Clone, Copy)]
pub struct Importers<O> {
    /// Number of running processes.
    pub running: u64,
    /// Number of processes of which it is unknown whether they are running.
    pub unknown: u64,
    /// One of the processes, preferably a running one that is not a library's cache.
    pub first: (Process, O),
    /// Number of times that this process opened the object, and number of times that it closed it; zeros if
    /// unknown.
    pub opens_and_closes: (u64, u64),
    /// Cache that has the object open; `None` if other code has it open, too.
    pub cache: Option<Cache>,
}

/// Memory of the process that has ended.
#[derive(Clone, Copy)]
pub struct EndedMemory<O> {
    /// Kind of event that ended the memory.
    pub end_kind: EndKind,
    /// Process that ended the memory. If its owner freed it, this is the exporter.
    pub owner: Process,
    /// First address that the call uses in the memory.
    pub address: u64,
    /// Start address of the memory, and its size in bytes.
    pub range: (u64, u64),
    /// Fingerprint of the memory's handle; 0 if it has none.
    pub fingerprint: u64,
    /// Time from the end to the call.
    pub ago: Option<Ago>,
    /// Call that ended the memory.
    pub by: Option<ClosedBy>,
    /// True if the memory ended with its context.
    pub with_context: bool,
    /// The world's reference to the end.
    pub object: O,
}

/// Object that a call ended while others had it open.
#[derive(Clone, Copy)]
pub struct EndedObject<O> {
    /// Kind of the object.
    pub kind: Object,
    /// The export, or one of the exports that ended with a context.
    pub export: Export<O>,
    /// Size of the memory in bytes.
    pub bytes: u64,
    /// Number of handles whose objects ended.
    pub handles: u64,
    /// Processes that have the object open. If several handles ended, these are the processes of the handle
    /// that is open in the most processes.
    pub importers: Importers<O>,
    /// True if the object certainly ended; false if it may not have belonged to the context that ended.
    pub is_sure: bool,
}

/// Memory that a node of a graph uses.
#[derive(Clone, Copy)]
pub struct NodeUse<'a> {
    /// Name of the node. For a copy or a memset, also the name of its parameter.
    pub name: &'a str,
    /// For a kernel node: the name of the kernel, and the index of the parameter.
    pub kernel: Option<(&'a str, usize)>,
    /// Start address of the memory.
    pub address: u64,
    /// Size of the memory in bytes.
    pub bytes: u64,
}
