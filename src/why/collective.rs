//! Waits for the device, or for all others: the libraries and functions in which they happen.

use super::document::{Frame, Process, Thread};

const PLACES: [&str; 9] =
    ["libcuda.so", "libcudart", "libnccl", "libgloo", "libmpi", "libnvshmem", "libucp", "c10d", "distributed_c10d.py"];

/// Returns true if a thread waits for the device or, in a collective operation, for all other processes.
pub fn is_collective(thread: &Thread) -> bool {
    let is_in = |text: &Option<String>| {
        let text = text.as_deref().unwrap_or_default();
        PLACES.iter().any(|known| text.contains(known))
    };
    let is_there = |frame: &Frame| is_in(&frame.library) || is_in(&frame.file) || is_in(&frame.function);
    thread.frames.iter().any(is_there)
}

/// Returns true if two processes are of one kind: both take part in the same operations.
pub fn are_alike(one: &Process, other: &Process) -> bool {
    let script = |process: &Process| process.arguments.iter().find(|word| word.ends_with(".py")).cloned();
    one.pid != other.pid
        && one.rank.is_some() == other.rank.is_some()
        && (one.program == other.program && script(one) == script(other)
            || one.rank.is_some() && !other.is_alive()
            || one.parent == other.parent && !other.is_alive())
}
