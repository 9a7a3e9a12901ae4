//! The allocator of memory, as far as the recording tells.
//!
//! It follows from the library that exported the memory and from the kind of the memory. No symbols are used, so it is
//! known for every handle, including those of stripped libraries.
//!
//! A name is certain if the library that exported has no other memory of that kind to export, and probable if other
//! code may have passed it the memory. Otherwise, there is no name.

use crate::follow::ledger::HandleEntry;
use cupeer_record::{Library, Process};
use cupeer_report::model::{Allocator, Certainty};
use cupeer_report::places::{StackNumber, StackTable};
use cupeer_spec::effect::Object;

/// A library that is known to export only memory that its own allocator made.
struct KnownLibrary {
    is_it: fn(&str) -> bool,
    /// Names of the library's allocators of legacy memory and of virtual memory; empty if the library has none.
    memory: &'static str,
    allocation: &'static str,
    certainty: Certainty,
}

/// The known libraries. The exporter of memory is the known library of the innermost frame on the stack of the exporting call.
const KNOWN_LIBRARIES: [KnownLibrary; 6] = [
    KnownLibrary {
        // The library contains only the caching allocator.
        is_it: |path| file_name(path).starts_with("libc10_cuda."),
        memory: "PyTorch's native allocator",
        allocation: "PyTorch's expandable segments",
        certainty: Certainty::Certain,
    },
    KnownLibrary {
        is_it: |path| file_name(path).starts_with("libtorch_cuda."),
        memory: "",
        allocation: "PyTorch's symmetric memory",
        certainty: Certainty::Probable,
    },
    KnownLibrary {
        is_it: |path| path.contains("/cupy/") || path.contains("/cupy_backends/"),
        memory: "CuPy's pool",
        allocation: "",
        certainty: Certainty::Probable,
    },
    KnownLibrary {
        is_it: |path| file_name(path).starts_with("librmm.") || path.contains("/rmm/"),
        memory: "RMM's pool",
        allocation: "",
        certainty: Certainty::Probable,
    },
    KnownLibrary {
        is_it: |path| file_name(path).starts_with("libnccl."),
        memory: "NCCL's buffers",
        allocation: "NCCL's buffers",
        certainty: Certainty::Probable,
    },
    KnownLibrary {
        is_it: |path| file_name(path).starts_with("libnvshmem"),
        memory: "NVSHMEM's symmetric heap",
        allocation: "NVSHMEM's symmetric heap",
        certainty: Certainty::Probable,
    },
];

/// Returns true if kernels of the library with this allocator wait for each other by flags in the memory.
pub fn has_kernels_that_wait(allocator: Allocator) -> bool {
    let names = [KNOWN_LIBRARIES[1].allocation, KNOWN_LIBRARIES[4].allocation, KNOWN_LIBRARIES[5].allocation];
    names.contains(&allocator.name)
}

/// The libraries that may have allocated the memory of a recording.
#[derive(Default)]
pub struct Allocators {
    /// For each process, true if it loaded a library of [`KNOWN_LIBRARIES`].
    has_known: Vec<bool>,
}

impl Allocators {
    pub fn new(processes: &[Process]) -> Allocators {
        let has_known = |process: &Process| process.libraries.iter().any(|library| known_library(library).is_some());
        Allocators { has_known: processes.iter().map(has_known).collect() }
    }

    /// Returns true if PyTorch's caching allocator made a call: this allocator keeps memory that programs free.
    pub fn is_from_pytorch_allocator(processes: &[Process], stacks: &StackTable, stack: StackNumber) -> bool {
        let (process, ticks, frames, _) = stacks.get(stack);
        let process = &processes[*process as usize];
        frames
            .iter()
            .any(|frame| process.library_at(*frame, *ticks).is_some_and(|it| (KNOWN_LIBRARIES[0].is_it)(&it.path)))
    }

    /// Returns the allocator of the memory of an exported handle; `None` if unknown.
    pub fn allocator_of(&self, entry: &HandleEntry, processes: &[Process], stacks: &StackTable) -> Option<Allocator> {
        let export = entry.export.as_deref()?;
        let process = processes.get(export.process)?;
        let (_, ticks, frames, _) = stacks.get(export.last.site.stack);
        let found = |name: &'static str, certainty| (!name.is_empty()).then_some(Allocator { name, certainty });
        let known = frames.iter().find_map(|frame| known_library(process.library_at(*frame, *ticks)?));
        match (entry.kind, known) {
            (Object::Memory, Some(known)) => found(known.memory, known.certainty),
            (Object::Allocation, Some(known)) => found(known.allocation, known.certainty),
            // No known library can have created it, so the driver's own allocator did.
            (Object::Memory, None) if !self.has_known[export.process] => found(Allocator::PLAIN, Certainty::Probable),
            (Object::Pool | Object::Pointer, _) => found("cudaMallocAsync", Certainty::Certain),
            _ => None,
        }
    }
}

fn known_library(library: &Library) -> Option<&'static KnownLibrary> {
    KNOWN_LIBRARIES.iter().find(|known| (known.is_it)(&library.path))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
