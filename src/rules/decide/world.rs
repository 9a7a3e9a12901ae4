//! The facts about the world around a call, supplied by the caller that asks for a decision.

use crate::reason::{Ago, Device, HadContext, Process, Ptrace, Site, Went};
use crate::{Cache, Confidence};
use cupeer_model::{Bare, Family, Pool, View};
use cupeer_spec::effect::Object;
use cupeer_spec::record::live::library_text;
use cupeer_spec::record::slot::finding::LIBRARY;
use cupeer_spec::value::EXPORTER;

/// What is known when a call is judged. What a world does not say is not known: each answer is `None`, or empty.
pub trait World {
    /// What it calls the things that findings are about.
    type Object: Copy;

    /// The pid of the calling process, as it knows itself, and its pid namespace.
    fn process(&self) -> (u32, u64);
    /// The thread.
    fn thread(&self) -> u32 {
        0
    }

    /// The process that had initialised the driver before this one was forked, where it is known, and how sure that is.
    fn initialized_before_fork(&self) -> Option<(Option<u32>, Confidence)> {
        None
    }
    /// What the driver says about the current context, and that context: 0 where none is current.
    fn current(&self) -> Option<(i32, u64)>;
    /// The device of the current context; -1 where there is none, or it is not known.
    fn device(&self) -> i32;
    /// Whether the current context has been destroyed.
    fn is_current_destroyed(&self) -> Option<bool> {
        None
    }
    /// Where the calling thread, which has no current context, or others had one.
    fn had_context(&self) -> HadContext {
        HadContext::Unknown
    }
    /// How many devices the process sees.
    fn device_count(&self) -> Option<i32>;
    /// The UUID of a device, as the process numbers it; zero where it is not known.
    fn uuid(&self, ordinal: i32) -> [u8; 16];
    /// The number that the process has for a device; -1 where it does not see it.
    fn ordinal(&self, uuid: [u8; 16]) -> i32;
    /// The device of a peer context, which the driver took for one; -1 where it is not known.
    fn device_of(&self, _context: u64) -> i32 {
        -1
    }
    /// Whether a device can reach another one.
    fn can_access(&self, _from: i32, _to: i32) -> Option<bool> {
        None
    }
    /// Hands over the path of a device's node and whether the process may use it; nothing where the system was asked and does
    /// not list it.
    fn with_node(&self, _uuid: &[u8; 16], _work: &mut dyn FnMut(Option<Node>)) {}
    /// What the driver says of a pointer.
    fn pointer(&self, _address: u64) -> Option<Pointer> {
        None
    }
    /// The driver's own explanation of the failure; empty where it gave none.
    fn driver_message(&self) -> &str {
        ""
    }
    /// Hands over the value of a variable of the environment.
    fn with_variable(&self, name: &str, work: &mut dyn FnMut(Option<&str>));

    /// Whether it would know an export of any process of the job.
    fn knows_all(&self) -> bool;
    /// The export of a handle.
    fn export(&self, _object: Object, _fingerprint: u64) -> Option<Export<Self::Object>> {
        None
    }
    /// The export of which the opened bytes are a damaged copy, and whether those that the driver checks are the same.
    fn original(
        &self,
        _object: Object,
        _fingerprint: u64,
        _checked: u64,
    ) -> Option<(Export<Self::Object>, bool)> {
        None
    }
    /// Whether the exporter runs.
    fn life(&self, _export: &Export<Self::Object>) -> Life {
        Life::Unknown
    }
    /// How sure it is that the exporter was killed, or ended otherwise without returning; `None` where it did not.
    fn has_died(&self, _export: &Export<Self::Object>) -> Option<Confidence> {
        None
    }
    /// How sure it is what an exporter did: as sure as it is that it runs.
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
    /// The pid in the opened handle: its exporter's, where it is one of memory.
    fn named_pid(&self) -> Option<u32> {
        word(&self.bytes()?, EXPORTER)
    }
    /// A process of the job that has exported something under this pid.
    fn exporter(&self, _object: Object, _pid: u32) -> Option<Process> {
        None
    }
    /// Whether a process is recorded by cupeer, but not into this record.
    fn is_recorded_elsewhere(&self, _pid: u32) -> bool {
        false
    }
    /// Whether a process of this pid runs on this host.
    fn runs(&self, _pid: u32) -> Option<bool> {
        None
    }
    /// Whether the driver knows an event that it has refused in a call.
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
    /// What this process has open at an address, or of memory around it.
    fn opening(&self, _object: Object, _address: u64) -> Option<Opening<Self::Object>> {
        None
    }
    /// What of an object this process has open.
    fn each_opening(&self, _object: Object, _work: &mut dyn FnMut(&Opening<Self::Object>)) {}
    /// Another process of the job that has something open at an address of its own.
    fn open_elsewhere(&self, _object: Object, _address: u64) -> Option<(Process, Self::Object)> {
        None
    }
    /// What this process had open at an address, and has closed.
    fn closed(&self, _address: u64) -> Option<Closed> {
        None
    }
    /// Where access from one context to another was switched on: how long ago, where that is known.
    fn enabled(&self, _from: u64, _to: u64) -> Option<(Option<Ago>, Self::Object)> {
        None
    }
    /// Who of the job has access from a device switched on.
    fn peers(&self, _device: &Device) -> Peers<Self::Object> {
        Peers { known: 0, processes: 0, is_certain: true, first: None }
    }

    /// Asks the state of the process, where that is known.
    fn model<T>(&self, _ask: impl FnOnce(&dyn View) -> Option<T>) -> Option<T> {
        None
    }
    /// Whether all is known that the process has done with objects of a family.
    fn knows(&self, _family: Family) -> bool {
        false
    }
    /// Whether a device has multicast.
    fn has_multicast(&self, _device: i32) -> Option<bool> {
        None
    }
    /// The state of a pool, by its handle.
    fn pool(&self, handle: u64) -> Option<Bare<Pool>> {
        self.model(|model| model.pool(handle))
    }
    /// Whether the process may read an IMEX channel.
    fn has_fabric_channel(&self) -> Option<bool> {
        None
    }
    /// Whether a number is a descriptor of the process.
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
    /// Who may take a descriptor from another process.
    fn ptrace(&self) -> Option<Ptrace> {
        None
    }

    /// The allocation that the call is about, and its size.
    fn memory(&self) -> Option<(u64, u64)> {
        None
    }
    /// Whether the call opened what was open already. Hands over which two libraries have it open, where they differ.
    fn open_already(&self, _work: &mut dyn FnMut(Openers<Self::Object>)) -> bool {
        false
    }
    /// Whether the call closed something that was open, as far as is known.
    fn closed_something(&self) -> bool {
        true
    }
    /// The export of what the call has closed at an address, where it is now open there no more.
    fn closed_for_good(&self, _object: Object, _address: u64) -> Option<Export<Self::Object>> {
        None
    }
    /// What this process had exported before from the address that the call exports, and has freed since, where others still
    /// have it open; none where the call exports once more what is exported already.
    fn freed_before(&self) -> Option<FreedBefore<Self::Object>> {
        None
    }
    /// What was among so many bytes from an address and is gone, and was so before the call.
    fn gone(&self, _start: u64, _bytes: u64) -> Option<Gone<Self::Object>> {
        None
    }
    /// The memory around an address, as the driver says: where it begins, and how many bytes it has; of what is mapped, those are
    /// the reservation's. `Some(None)` if the driver knows none there.
    fn there(&self, _address: u64) -> Option<Option<(u64, u64)>> {
        None
    }
    /// The access that a device has to what is mapped at an address, as the driver says: CUmemAccess_flags.
    fn access(&self, _address: u64, _device: i32) -> Option<u64> {
        None
    }
    /// The device of a context that need not be one: of a primary context, or of one that the process was seen to create.
    fn known_device(&self, _context: u64) -> Option<i32> {
        None
    }
    /// Hands over the ranges that the copies of a batch use: the argument that names each, where it begins, and its bytes.
    fn each_range(&self, _work: &mut dyn FnMut(usize, u64, u64)) {}
    /// Hands over the words in the parameters of the kernel that the call launches: its name, the index of the parameter, and
    /// the word.
    fn each_parameter(&self, _work: &mut dyn FnMut(&str, usize, u64)) {}
    /// Hands over the memory that the nodes use of the graph that the call launches, makes, or changes.
    fn each_node(&self, _work: &mut dyn FnMut(&super::NodeUse)) {}
    /// What the call has ended that others have open; of a context, with how many such handles went.
    fn ending(&self) -> Option<super::Ending<Self::Object>> {
        None
    }
}

/// The node of a device.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    /// Its path.
    pub path: &'a str,
    /// Whether the process may read and write it.
    pub is_usable: bool,
}

/// A handle that a process has exported.
#[derive(Clone, Copy)]
pub struct Export<O> {
    /// The fingerprint of the handle.
    pub fingerprint: u64,
    /// Who exported it.
    pub owner: Process,
    /// A number that the exporter has for itself.
    pub who: u64,
    /// The pid namespace of the exporter.
    pub pid_ns: u64,
    /// Whether the calling process is the exporter.
    pub is_own: bool,
    /// The start of the allocation, or the event.
    pub address: u64,
    /// The device, as the exporter numbers it.
    pub device: Device,
    /// How far inside of the allocation the exported pointer lay.
    pub inside: u64,
    /// How long before the call it was exported.
    pub ago: Option<Ago>,
    /// How it has ended.
    pub ended: Option<Ended>,
    /// What the world calls it.
    pub object: O,
}

/// Something that was exported and has ended, and that others still have open.
#[derive(Clone, Copy)]
pub struct FreedBefore<O> {
    /// It.
    pub export: Export<O>,
    /// Who has it open.
    pub importers: Importers<O>,
}

/// How something that was exported has ended.
#[derive(Clone, Copy)]
pub struct Ended {
    /// Whether that was before the call was made.
    pub is_before: bool,
    /// How long before.
    pub ago: Option<Ago>,
    /// Whether it went with its context.
    pub with_context: bool,
}

/// Something that the calling process has open.
#[derive(Clone, Copy)]
pub struct Opening<O> {
    /// The fingerprint of its handle.
    pub fingerprint: u64,
    /// Where it is mapped, or the event.
    pub address: u64,
    /// The context that it was opened in; 0 where it is not known.
    pub context: u64,
    /// The device of that.
    pub device: i32,
    /// What the world calls it.
    pub object: O,
}

/// Two libraries that have opened the same handle, by the names of their files.
#[derive(Clone, Copy)]
pub struct Openers<'a, O> {
    /// The first.
    pub first: &'a str,
    /// The one that called.
    pub second: &'a str,
    /// How often it is open now.
    pub count: u32,
    /// The first opening.
    pub opening: O,
}

/// Something that the calling process has closed.
#[derive(Clone, Copy)]
pub struct Closed {
    /// The fingerprint of its handle.
    pub fingerprint: u64,
    /// How long before the call.
    pub ago: Option<Ago>,
    /// Whether it went with its context.
    pub with_context: bool,
    /// Who closed it, or ended its context.
    pub by: Option<ClosedBy>,
}

/// A call that has closed something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClosedBy {
    /// The thread.
    pub tid: u32,
    /// The file name of the library that called; zeros behind.
    pub library: [u8; LIBRARY],
    /// Where in it.
    pub offset: u64,
}

impl ClosedBy {
    /// The place, as reasons name it.
    pub fn site(&self) -> Site<'_> {
        Site { tid: self.tid, library: library_text(&self.library), offset: self.offset }
    }
}

/// Whether a process runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// It does.
    Runs,
    /// It does not, or runs another program now.
    Gone,
    /// It was not seen any more, and has ended since.
    Silent,
    /// Nobody tells.
    Unknown,
}

/// What the driver knows of a pointer.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Pointer {
    /// Whether it lies in anything that the driver knows.
    pub is_known: bool,
    /// Whether that is device memory.
    pub is_device: bool,
    /// Whether it is managed.
    pub is_managed: bool,
    /// Whether it has a legacy handle.
    pub is_exportable: bool,
    /// The pool that it came from, or 0.
    pub pool: u64,
    /// The context that it belongs to, or 0.
    pub context: u64,
    /// The handle types that it can be exported as.
    pub handle_types: u64,
}

/// Who has access from a device switched on.
#[derive(Clone, Copy)]
pub struct Peers<O> {
    /// How many accesses are known.
    pub known: u64,
    /// In how many processes.
    pub processes: u64,
    /// Whether all of these are known to run.
    pub is_certain: bool,
    /// The first.
    pub first: Option<O>,
}

/// A number among the bytes of a handle.
pub(super) fn word(bytes: &[u8; 64], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Who of the others has something open.
#[derive(Clone, Copy)]
pub struct Importers<O> {
    /// Those that run.
    pub running: u64,
    /// Those of which nobody tells whether they run.
    pub unknown: u64,
    /// One of them: one that is no cache, and one that runs, where there is any.
    pub first: (Process, O),
    /// How often that one has opened it and closed it; zeros where it is not known.
    pub uses: (u64, u64),
    /// The cache that has it open, where nobody else has.
    pub cache: Option<Cache>,
}

/// Memory that the process had and has no more.
#[derive(Clone, Copy)]
pub struct Gone<O> {
    /// How it ended.
    pub went: Went,
    /// The process that ended it, or exported what its owner freed.
    pub owner: Process,
    /// The first address of the call that was in it.
    pub address: u64,
    /// Where it began, and how many bytes it had.
    pub range: (u64, u64),
    /// The fingerprint of its handle; 0 where it has none.
    pub fingerprint: u64,
    /// How long before the call it ended.
    pub ago: Option<Ago>,
    /// Who ended it.
    pub by: Option<ClosedBy>,
    /// Whether it went with its context.
    pub with_context: bool,
    /// What the world calls the end.
    pub object: O,
}

/// What a call has ended while others had it open.
#[derive(Clone, Copy)]
pub struct Ending<O> {
    /// What kind of thing it is.
    pub kind: Object,
    /// It, or one of those that went with its context.
    pub export: Export<O>,
    /// The size of the memory.
    pub bytes: u64,
    /// How many handles went.
    pub handles: u64,
    /// Who has it open; of several handles, no more than one of them has.
    pub importers: Importers<O>,
    /// Whether it is known to have ended, and did not only perhaps belong to what ended.
    pub is_sure: bool,
}

/// Memory that a node of a graph uses.
#[derive(Clone, Copy)]
pub struct NodeUse<'a> {
    /// The node; of a copy or a memset, with the name of its parameter.
    pub name: &'a str,
    /// Of a kernel: its name, and the index of the parameter.
    pub kernel: Option<(&'a str, usize)>,
    /// Where the memory begins.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
}
