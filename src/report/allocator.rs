//! Whose memory something is: which allocator made it, as far as the record tells.
//!
//! What belongs here: what follows from the libraries that exported memory, from what kind it is of, and from the variables
//! of its process. What does not: what kinds of memory there are, which the driver says. Nothing is asked of symbols, so
//! that it is known for every handle, also of stripped libraries.
//!
//! A name is certain where the library that exported has no other memory of that kind to export, and probable where others
//! may have handed it the memory. Where neither holds, there is none.

use super::model::{Allocator, Certainty};
use cupeer_record::{Library, Process};
use cupeer_spec::effect::Object;

/// The variables by which PyTorch's allocator is chosen.
const OF_PYTORCH: [&str; 2] = ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"];

/// A library by its path, and what it is: whether its own allocator made what it exports.
struct Known {
    is_it: fn(&str) -> bool,
    /// The allocator of memory that legacy handles export, and of allocations of virtual memory; empty where it has none.
    memory: &'static str,
    allocation: &'static str,
    certainty: Certainty,
}

/// Those that export what their own allocator has made, the innermost first on a stack.
const KNOWN: [Known; 5] = [
    Known {
        // The caching allocator is all that it has.
        is_it: |path| file(path).starts_with("libc10_cuda."),
        memory: "PyTorch's native allocator",
        allocation: "PyTorch's expandable segments",
        certainty: Certainty::Certain,
    },
    Known {
        is_it: |path| file(path).starts_with("libtorch_cuda."),
        memory: "",
        allocation: "PyTorch's symmetric memory",
        certainty: Certainty::Probable,
    },
    Known {
        is_it: |path| path.contains("/cupy/") || path.contains("/cupy_backends/"),
        memory: "CuPy's pool",
        allocation: "",
        certainty: Certainty::Probable,
    },
    Known {
        is_it: |path| file(path).starts_with("librmm.") || path.contains("/rmm/"),
        memory: "RMM's pool",
        allocation: "",
        certainty: Certainty::Probable,
    },
    Known {
        is_it: |path| file(path).starts_with("libnccl."),
        memory: "NCCL's buffers",
        allocation: "NCCL's buffers",
        certainty: Certainty::Probable,
    },
];

/// The allocator of what a process exported, by the stack of that call.
pub fn of_export(process: &Process, kind: Object, frames: &[u64], ticks: u64) -> Option<Allocator> {
    let name = |known: &Known| match kind {
        Object::Memory => Some(known.memory),
        Object::Allocation => Some(known.allocation),
        _ => None,
    };
    let libraries = || frames.iter().filter_map(|frame| process.library_at(*frame, ticks));
    let known = libraries().find_map(|library| known(library));
    match (kind, known) {
        (Object::Pool | Object::Pointer, _) => {
            Some(Allocator { name: "a pool of the driver (cudaMallocAsync)", certainty: Certainty::Certain })
        }
        (_, Some(known)) => {
            let name = name(known).filter(|name| !name.is_empty())?;
            Some(Allocator { name, certainty: known.certainty })
        }
        // What no allocator can have made that is known, the driver's own has made.
        (Object::Memory, None) if !process.libraries.iter().any(|library| self::known(library).is_some()) => {
            Some(Allocator { name: "cudaMalloc", certainty: Certainty::Probable })
        }
        _ => None,
    }
}

/// The allocator of memory that could not be exported as a legacy handle, by what was said of it.
pub fn of_refused(process: &Process, is: Refused) -> Option<Allocator> {
    let variable = || OF_PYTORCH.iter().find_map(|name| process.variable(name));
    let says = |text: &str| variable().is_some_and(|value| value.contains(text));
    let probable = |name| Some(Allocator { name, certainty: Certainty::Probable });
    match is {
        Refused::Managed => Some(Allocator { name: "cudaMallocManaged", certainty: Certainty::Certain }),
        Refused::Virtual if says("expandable_segments:True") => probable("PyTorch's expandable segments"),
        Refused::Pool if says("backend:cudaMallocAsync") => probable("PyTorch's asynchronous allocator"),
        Refused::Pool => {
            Some(Allocator { name: "a pool of the driver (cudaMallocAsync)", certainty: Certainty::Certain })
        }
        Refused::Virtual => None,
    }
}

/// What memory is that has no legacy handle.
#[derive(Clone, Copy)]
pub enum Refused {
    /// Managed memory.
    Managed,
    /// Virtual memory.
    Virtual,
    /// Memory of a pool.
    Pool,
}

fn known(library: &Library) -> Option<&'static Known> {
    KNOWN.iter().find(|known| (known.is_it)(&library.path))
}

fn file(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
