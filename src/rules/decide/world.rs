//! Facts about the world around a call, supplied by the code that requests a decision.

use crate::reason::{Ago, Device, EndKind, HadContext, Process, Ptrace, Site};
use crate::{Cache, Confidence};
use cupeer_model::{Bare, Family, Pool, View};
use cupeer_spec::effect::Object;
use cupeer_spec::record::live::library_text;
use cupeer_spec::record::slot::finding::LIBRARY;
use cupeer_spec::value::EXPORTER;

/// Facts that are known when a call is judged. An unknown fact is `None`, or empty.
pub trait World {
    /// Reference to an object of a finding.
    type Object: Copy;

    /// Returns the pid of the calling process in its own namespace, and that namespace.
    fn process(&self) -> (u32, u64);
    /// Returns the id of the calling thread.
    fn thread(&self) -> u32 {
        0
    }

    /// Returns the process that had initialized the driver before this one was forked, if known, and the
    /// confidence.
    fn initialized_before_fork(&self) -> Option<(Option<u32>, Confidence)> {
        None
    }
    /// Returns the device of the current context, and the context; 0 if none is current.
    fn current(&self) -> Option<(i32, u64)>;
    /// The device of the current context; -1 if there is none, or it is not known.
    fn device(&self) -> i32;
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
    /// The UUID of a device, as the process numbers it; zero if unknown.
    fn uuid(&self, ordinal: i32) -> [u8; 16];
    /// Returns the number that the process has for a device; -1 if the process does not see it.
    fn ordinal(&self, uuid: [u8; 16]) -> i32;
    /// The device of a peer context, which the driver took for one; -1 if unknown.
    fn device_of(&self, _context: u64) -> i32 {
        -1
    }
    /// Returns true if a device can access the memory of another one.
    fn can_access(&self, _from: i32, _to: i32) -> Option<bool> {
        None
    }
    /// Passes on the path of a device's node, and whether the process may use it; `None` if the system has no
    /// such node.
    fn with_node(&self, _uuid: &[u8; 16], _work: &mut dyn FnMut(Option<Node>)) {}
    /// Returns the driver's attributes of a pointer.
    fn pointer(&self, _address: u64) -> Option<Pointer> {
        None
    }
    /// Returns the driver's message about the failure; empty if there is none.
    fn driver_message(&self) -> &str {
        ""
    }
    /// Passes on the value of an environment variable.
    fn with_variable(&self, name: &str, work: &mut dyn FnMut(Option<&str>));

    /// Returns true if every export of the job would be known.
    fn knows_all(&self) -> bool;
    /// Returns the export of a handle.
    fn export(&self, _object: Object, _fingerprint: u64) -> Option<Export<Self::Object>> {
        None
    }
    /// Returns the export whose handle the opened bytes are a damaged copy of, and true if the bytes that the
    /// driver checks are equal.
    fn original(
        &self,
        _object: Object,
        _fingerprint: u64,
        _checked: u64,
    ) -> Option<(Export<Self::Object>, bool)> {
        None
    }
    /// Returns the state of the exporter.
    fn life(&self, _export: &Export<Self::Object>) -> Life {
        Life::Unknown
    }
    /// Returns the confidence that the exporter crashed or was killed; `None` if it was not.
    fn has_died(&self, _export: &Export<Self::Object>) -> Option<Confidence> {
        None
    }
    /// Returns the confidence of a conclusion about an exporter, which is that of its state.
    fn trust(&self, export: &Export<Self::Object>) -> Confidence {
        match self.life(export) {
            Life::Runs => Confidence::Certain,
            Life::Gone => Confidence::Stale,
            Life::Silent | Life::Unknown => Confidence::Inferred,
        }
    }
    /// The bytes of the opened handle.
    fn bytes(&self) -> Option<[u8; 64]> {
        None
    }
    /// Returns the pid in the opened handle, which is its exporter's for a memory handle.
    fn named_pid(&self) -> Option<u32> {
        word(&self.bytes()?, EXPORTER)
    }
    /// A process of the job that has exported something under this pid.
    fn exporter(&self, _object: Object, _pid: u32) -> Option<Process> {
        None
    }
    /// Returns true if cupeer records a process of this pid in another recording.
    fn is_recorded_elsewhere(&self, _pid: u32) -> bool {
        false
    }
    /// Returns true if a process of this pid is running on this host.
    fn runs(&self, _pid: u32) -> Option<bool> {
        None
    }
    /// Returns true if the driver knows an event that a call refused.
    fn is_event(&self, _event: u64) -> Option<bool> {
        None
    }
    /// The device of the context of a stream.
    fn device_of_stream(&self, _stream: u64) -> Option<i32> {
        None
    }
    /// The devices on which the process has contexts, as bits.
    fn devices_with_contexts(&self) -> u64 {
        0
    }
    /// Returns the open handle of this process at an address, or the one whose memory contains it.
    fn opening(&self, _object: Object, _address: u64) -> Option<Opening<Self::Object>> {
        None
    }
    /// Passes on every open handle of this process for this kind of object.
    fn each_opening(&self, _object: Object, _work: &mut dyn FnMut(&Opening<Self::Object>)) {}
    /// Another process of the job that has something open at an address of its own.
    fn open_elsewhere(&self, _object: Object, _address: u64) -> Option<(Process, Self::Object)> {
        None
    }
    /// Returns the handle that this process closed at an address.
    fn closed(&self, _address: u64) -> Option<Closed> {
        None
    }
    /// Returns the time since access from one context to another was enabled, if known.
    fn enabled(&self, _from: u64, _to: u64) -> Option<(Option<Ago>, Self::Object)> {
        None
    }
    /// Returns the processes of the job that enabled access from a device.
    fn peers(&self, _device: &Device) -> Peers<Self::Object> {
        Peers { known: 0, processes: 0, is_certain: true, first: None }
    }

    /// Queries the model of the process, if there is one.
    fn model<T>(&self, _ask: impl FnOnce(&dyn View) -> Option<T>) -> Option<T> {
        None
    }
    /// Returns true if all calls of the process about a family of objects are known.
    fn knows(&self, _family: Family) -> bool {
        false
    }
    /// Returns true if a device supports multicast.
    fn has_multicast(&self, _device: i32) -> Option<bool> {
        None
    }
    /// The state of a pool, by its handle.
    fn pool(&self, handle: u64) -> Option<Bare<Pool>> {
        self.model(|model| model.pool(handle))
    }
    /// Returns true if the process may read an IMEX channel.
    fn has_fabric_channel(&self) -> Option<bool> {
        None
    }
    /// Returns true if a number is an open file descriptor of the process.
    fn is_descriptor(&self, _fd: i32) -> Option<bool> {
        None
    }
    /// Another process of the job that exported memory as a descriptor of this number.
    fn exporter_of_descriptor(&self, _object: Object, _fd: i32) -> Option<(Process, Self::Object)> {
        None
    }
    /// The limit of open files, if the process has reached it; `Some(None)` if it can open more.
    fn reached_limit(&self) -> Option<Option<u64>> {
        None
    }
    /// Returns the permissions that decide whether a process may take a descriptor from another one.
    fn ptrace(&self) -> Option<Ptrace> {
        None
    }

    /// The allocation that the call is about, and its size.
    fn memory(&self) -> Option<(u64, u64)> {
        None
    }
    /// Returns true if the call opened a handle that was open already. Passes on the two libraries that have
    /// it open if they differ.
    fn open_already(&self, _work: &mut dyn FnMut(Openers<Self::Object>)) -> bool {
        false
    }
    /// Returns true if the call closed a handle that was open, as far as is known.
    fn closed_something(&self) -> bool {
        true
    }
    /// Returns the export of the handle that the call closed at an address, if this was its last open there.
    fn closed_for_good(&self, _object: Object, _address: u64) -> Option<Export<Self::Object>> {
        None
    }
    /// Returns the freed export that had the same address as the call's export, if others still have it open.
    /// `None` if the call repeats an export.
    fn freed_before(&self) -> Option<FreedBefore<Self::Object>> {
        None
    }
    /// Returns memory in this range that ended before the call.
    fn gone(&self, _start: u64, _bytes: u64) -> Option<Gone<Self::Object>> {
        None
    }
    /// Returns the memory around an address, as the driver reports it: its start, and its size in bytes. For
    /// a mapping, these are the reservation's. `Some(None)` if the driver knows none there.
    fn there(&self, _address: u64) -> Option<Option<(u64, u64)>> {
        None
    }
    /// Returns the access of a device to the mapping at an address, as the driver reports it:
    /// CUmemAccess_flags.
    fn access(&self, _address: u64, _device: i32) -> Option<u64> {
        None
    }
    /// The device of a context that need not be one: of a primary context, or of one that the process was seen to create.
    fn known_device(&self, _context: u64) -> Option<i32> {
        None
    }
    /// Passes on the ranges that the copies of a batch use: the argument that names each, its start, and its
    /// size in bytes.
    fn each_range(&self, _work: &mut dyn FnMut(usize, u64, u64)) {}
    /// Passes on the words in the parameters of the kernel that the call launches: its name, the index of the
    /// parameter, and the word.
    fn each_parameter(&self, _work: &mut dyn FnMut(&str, usize, u64)) {}
    /// Passes on the memory that nodes use, of the graph that the call launches, creates, or changes.
    fn each_node(&self, _work: &mut dyn FnMut(&super::NodeUse)) {}
    /// Returns the object that the call ended while others had it open. For a context, also returns the
    /// number of such handles that ended with it.
    fn ending(&self) -> Option<super::Ending<Self::Object>> {
        None
    }
}

/// The node of a device.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    /// Path.
    pub path: &'a str,
    /// True if the process may read and write it.
    pub is_usable: bool,
}

/// A handle that a process has exported.
#[derive(Clone, Copy)]
pub struct Export<O> {
    /// The fingerprint of the handle.
    pub fingerprint: u64,
    /// Exporter.
    pub owner: Process,
    /// A number that the exporter has for itself.
    pub who: u64,
    /// The pid namespace of the exporter.
    pub pid_ns: u64,
    /// True if the calling process is the exporter.
    pub is_own: bool,
    /// The start of the allocation, or the event.
    pub address: u64,
    /// The device, as the exporter numbers it.
    pub device: Device,
    /// Offset of the exported pointer in the allocation, in bytes.
    pub inside: u64,
    /// Time from the export to the call.
    pub ago: Option<Ago>,
    /// End of the exported object.
    pub ended: Option<Ended>,
    /// The world's reference to the export.
    pub object: O,
}

/// Something that was exported and has ended, and that others still have open.
#[derive(Clone, Copy)]
pub struct FreedBefore<O> {
    /// The export.
    pub export: Export<O>,
    /// Processes that have it open.
    pub importers: Importers<O>,
}

/// End of an exported object.
#[derive(Clone, Copy)]
pub struct Ended {
    /// True if it ended before the call was made.
    pub is_before: bool,
    /// Time from the end to the call.
    pub ago: Option<Ago>,
    /// True if it ended with its context.
    pub with_context: bool,
}

/// Something that the calling process has open.
#[derive(Clone, Copy)]
pub struct Opening<O> {
    /// The fingerprint of its handle.
    pub fingerprint: u64,
    /// Address of the mapping, or the event.
    pub address: u64,
    /// The context that it was opened in; 0 if unknown.
    pub context: u64,
    /// The device of that.
    pub device: i32,
    /// The world's reference to the open handle.
    pub object: O,
}

/// Two libraries that have opened the same handle, by the names of their files.
#[derive(Clone, Copy)]
pub struct Openers<'a, O> {
    /// First library that opened it.
    pub first: &'a str,
    /// Library that made the call.
    pub second: &'a str,
    /// Number of times that it is open.
    pub count: u32,
    /// The first opening.
    pub opening: O,
}

/// Something that the calling process has closed.
#[derive(Clone, Copy)]
pub struct Closed {
    /// The fingerprint of its handle.
    pub fingerprint: u64,
    /// Time from the close to the call.
    pub ago: Option<Ago>,
    /// True if it was closed with its context.
    pub with_context: bool,
    /// Call that closed it, or ended its context.
    pub by: Option<ClosedBy>,
}

/// A call that has closed something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClosedBy {
    /// The thread.
    pub tid: u32,
    /// File name of the calling library; zeros behind.
    pub library: [u8; LIBRARY],
    /// Offset in the library.
    pub offset: u64,
}

impl ClosedBy {
    /// The place, as reasons name it.
    pub fn site(&self) -> Site<'_> {
        Site { tid: self.tid, library: library_text(&self.library), offset: self.offset }
    }
}

/// State of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// It is running.
    Runs,
    /// It exited, or executed another program.
    Gone,
    /// It disappeared, and has exited since.
    Silent,
    /// Unknown.
    Unknown,
}

/// Attributes of a pointer, as the driver reports them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Pointer {
    /// True if the driver knows the memory.
    pub is_known: bool,
    /// True if it is device memory.
    pub is_device: bool,
    /// True if it is managed memory.
    pub is_managed: bool,
    /// True if it has a legacy IPC handle.
    pub is_exportable: bool,
    /// The pool that it came from, or 0.
    pub pool: u64,
    /// The context that it belongs to, or 0.
    pub context: u64,
    /// The handle types that it can be exported as.
    pub handle_types: u64,
}

/// Processes that enabled access from a device.
#[derive(Clone, Copy)]
pub struct Peers<O> {
    /// Number of enabled accesses that are known.
    pub known: u64,
    /// Number of processes.
    pub processes: u64,
    /// True if all of these processes are known to be running.
    pub is_certain: bool,
    /// First of these accesses.
    pub first: Option<O>,
}

/// A number among the bytes of a handle.
pub(super) fn word(bytes: &[u8; 64], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Other processes that have something open.
#[derive(Clone, Copy)]
pub struct Importers<O> {
    /// Number of running processes.
    pub running: u64,
    /// Number of processes of which it is unknown whether they are running.
    pub unknown: u64,
    /// One of them, preferably not a cache, and running.
    pub first: (Process, O),
    /// Number of times that this process opened it, and closed it; zeros if unknown.
    pub uses: (u64, u64),
    /// The cache that has it open, if nothing else has.
    pub cache: Option<Cache>,
}

/// Memory that the process had, and that ended.
#[derive(Clone, Copy)]
pub struct Gone<O> {
    /// Kind of end.
    pub went: EndKind,
    /// The process that ended it or, if its owner freed it, the exporter.
    pub owner: Process,
    /// The first address of the call that was in it.
    pub address: u64,
    /// Start address, and size in bytes.
    pub range: (u64, u64),
    /// The fingerprint of its handle; 0 if it has none.
    pub fingerprint: u64,
    /// Time from the end to the call.
    pub ago: Option<Ago>,
    /// Call that ended it.
    pub by: Option<ClosedBy>,
    /// True if it ended with its context.
    pub with_context: bool,
    /// The world's reference to the end.
    pub object: O,
}

/// Object that a call ended while others had it open.
#[derive(Clone, Copy)]
pub struct Ending<O> {
    /// Kind of object.
    pub kind: Object,
    /// The export, or one of the exports that ended with a context.
    pub export: Export<O>,
    /// The size of the memory.
    pub bytes: u64,
    /// Number of handles that ended.
    pub handles: u64,
    /// Processes that have it open. If several handles ended, these are the ones of the handle that most
    /// processes have open.
    pub importers: Importers<O>,
    /// True if it certainly ended. False if it may not have belonged to the object that ended.
    pub is_sure: bool,
}

/// Memory that a node of a graph uses.
#[derive(Clone, Copy)]
pub struct NodeUse<'a> {
    /// The node; of a copy or a memset, with the name of its parameter.
    pub name: &'a str,
    /// In a kernel node: the kernel's name, and the index of the parameter.
    pub kernel: Option<(&'a str, usize)>,
    /// Start address.
    pub address: u64,
    /// Size in bytes.
    pub bytes: u64,
}
