//! Tracks the IPC handles that this process exported or received, for faults that replace one with another. They are
//! kept only if such a fault is armed, and only in memory.

use super::arming::PlansInUse;
use crate::fault::forward::ForwardedCall;
use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::function::{ArgSpec, Direction};

/// Last handles of one kind. Each handle is written word by word. If two threads write a handle at the same time, the result is a
/// damaged handle, which serves the fault as well.
struct LastHandles {
    handles: [[AtomicU64; 8]; 16],
    next: AtomicUsize,
}

/// Remembered handles: those of memory at index 0, those of events at index 1.
static KEPT: [LastHandles; 2] =
    [const { LastHandles { handles: [const { [const { AtomicU64::new(0) }; 8] }; 16], next: AtomicUsize::new(0) } }; 2];

/// Returns the last handles of the same kind as an argument.
fn of_kind(arg: &ArgSpec) -> &'static LastHandles {
    &KEPT[usize::from(arg.type_word() == "CUipcEventHandle")]
}

fn keep(arg: &ArgSpec, bytes: &[u8; 64]) {
    if !PlansInUse::mark_in_use().is_some_and(|armed| armed.plans.iter().any(|plan| plan.keeps_handles)) {
        return;
    }
    let LastHandles { handles, next } = of_kind(arg);
    if handles.iter().any(|kept| read(kept) == *bytes) {
        return;
    }
    let kept = &handles[next.fetch_add(1, Relaxed) % handles.len()];
    for (word, bytes) in kept.iter().zip(bytes.chunks_exact(8)) {
        word.store(bytes.try_into().map_or(0, u64::from_le_bytes), Release);
    }
}

fn read(kept: &[AtomicU64; 8]) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (place, word) in bytes.chunks_exact_mut(8).zip(kept) {
        place.copy_from_slice(&word.load(Acquire).to_le_bytes());
    }
    bytes
}

/// Remembers the handles that a call takes (`Direction::In`), or that it returned (`Direction::Out`).
pub fn remember(call: &ForwardedCall, direction: Direction) {
    let args = call.id.spec().args().iter().zip(call.words);
    for (arg, word) in args.filter(|(arg, word)| arg.is_ipc_handle() && arg.direction == direction && **word != 0) {
        // SAFETY: a handle by value, or one that the driver just wrote: its 64 bytes are there.
        keep(arg, unsafe { &*(*word as *const [u8; 64]) });
    }
}

/// Returns a remembered handle of the same kind as an argument, and with other bytes than `than`; `None` if there is none.
pub fn other_handle(arg: &ArgSpec, than: &[u8]) -> Option<[u8; 64]> {
    let all = of_kind(arg).handles.iter().map(read);
    all.into_iter().find(|kept| kept[..] != *than && kept.iter().any(|byte| *byte != 0))
}
