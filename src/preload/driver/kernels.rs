//! Tracks the handles by which kernels are launched: the kind of each handle, and the locations of the parameters of its kernel.
//!
//! A launch takes a `CUfunction`, or a `CUkernel` in its place, and the driver has a query for each kind. No documentation says that a driver
//! refuses the other kind: it may follow the handle as a pointer. So cupeer queries a handle only if it saw the call that returned the handle,
//! and only with the query for its kind. A handle is forgotten before its module, library, or context can end, and the last call that returned
//! the handle decides its kind.
//!
//! Each launch of a process in which shared memory ended looks up its kernel here. So readers take no lock and write nothing. The driver is
//! queried once per kernel.

use super::queries::{self, Parameter};
use crate::sys::guard::guarded;
use crate::sys::handles::{Blank, Handles};
use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::effect::{Code, Effect, End, Launchable, LookedUp, Object};
use cupeer_spec::function::{FnId, MOST_ARGUMENTS};

/// Number of entries for handles. A handle for which no entry is free is not known.
const MOST: usize = 1 << 14;
/// Number of words for all kernels together: one word for each parameter, and one more for each kernel.
const MOST_PARAMETERS: usize = 1 << 16;
/// Number of parameters of a kernel that are read: the first ones.
const MOST_PER_KERNEL: usize = 256;
/// Number of launches with an address in memory that is gone after which a kernel is no longer examined: either the
/// kernel does not use the address, or its findings were reported often enough, and the examination of each launch
/// takes microseconds.
const MOST_FOUND: u32 = 100;

/// Words of the arguments of a call.
type Words = [u64; MOST_ARGUMENTS];

/// Handle of a kernel that a call returned to the program.
struct KnownHandle {
    /// Handle of the module, library, or kernel from which the program got the handle.
    source: AtomicU64,
    /// Kind of the handle and location of its parameters. The lowest bit is set for a `CUkernel`. The other bits are the index of
    /// the parameters in [`PARAMETERS`], plus one; 0 if they were not queried yet, and [`UNKNOWN`] if there is no room for them.
    about: AtomicU64,
    /// Number of launches that passed an address in memory that is gone.
    found: AtomicU32,
}

impl Blank for KnownHandle {
    #[allow(clippy::declare_interior_mutable_const, reason = "each use makes another one")]
    const BLANK: KnownHandle =
        KnownHandle { source: AtomicU64::new(0), about: AtomicU64::new(0), found: AtomicU32::new(0) };
}

const UNKNOWN: u64 = u64::MAX >> 1;

static HANDLES: Handles<KnownHandle, MOST> = Handles::new();

/// Parameters of all kernels. For each kernel, the number of its parameters, and then a word with the offset and size of each
/// parameter.
static PARAMETERS: [AtomicU32; MOST_PARAMETERS] = [const { AtomicU32::new(0) }; MOST_PARAMETERS];
/// Number of words of [`PARAMETERS`] that are taken.
static WORDS_TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Returns the offset and the size in bytes of a parameter from its word in [`PARAMETERS`].
pub fn offset_and_size(word: &AtomicU32) -> (usize, usize) {
    let word = word.load(Relaxed) as usize;
    (word >> 16, word & 0xffff)
}

fn kind_of(about: u64) -> Launchable {
    if about & 1 != 0 { Launchable::Kernel } else { Launchable::Function }
}

/// Returns true if any handle of a kernel is known.
pub fn has_any() -> bool {
    HANDLES.has_any()
}

/// Returns the kind of a handle, if cupeer saw the call that returned it.
pub fn kind_of_handle(handle: u64) -> Option<Launchable> {
    HANDLES.find(handle).map(|place| kind_of(place.about.load(Acquire)))
}

/// Returns a word for each parameter of a kernel, which [`offset_and_size`] unpacks; `None` if cupeer did not see the call that
/// returned the handle, or the query fails.
#[inline]
pub fn parameters(handle: u64) -> Option<&'static [AtomicU32]> {
    let place = HANDLES.find(handle)?;
    let mut about = place.about.load(Acquire);
    if about >> 1 == 0 {
        about = query(place, handle, about)?;
    }
    let at = (about >> 1) as usize - 1;
    let count = PARAMETERS.get(at)?.load(Relaxed) as usize;
    PARAMETERS.get(at + 1..at + 1 + count)
}

/// Counts a launch of a kernel that passes an address in memory that is gone. Returns false if such launches were
/// reported often enough.
pub fn note_launch_with_gone_memory(handle: u64) -> bool {
    let Some(place) = HANDLES.find(handle) else { return false };
    let is_new = place.found.fetch_add(1, Relaxed) < MOST_FOUND;
    if !is_new {
        place.about.fetch_or(UNKNOWN << 1, Release);
    }
    is_new
}

/// Queries the locations of the parameters of a kernel that is about to be launched, so that its handle is valid.
#[cold]
#[inline(never)]
fn query(place: &KnownHandle, handle: u64, before: u64) -> Option<u64> {
    let mut words = [0; MOST_PER_KERNEL];
    let mut count = None;
    guarded(|| count = queries::run_in_relaxed_mode(|| read(handle, kind_of(before), &mut words)));
    let words = &words[..count?];
    let at = WORDS_TAKEN.fetch_add(words.len() + 1, Relaxed);
    let position = match PARAMETERS.get(at..=at + words.len()) {
        Some(room) => {
            room[0].store(words.len() as u32, Relaxed);
            room[1..].iter().zip(words).for_each(|(place, word)| place.store(*word, Relaxed));
            at as u64 + 1
        }
        None => {
            WORDS_TAKEN.store(MOST_PARAMETERS, Relaxed);
            UNKNOWN
        }
    };
    let about = before & 1 | position << 1;
    // If another call returned the same handle since, the handle may be of another kernel.
    place.about.compare_exchange(before, about, Release, Relaxed).ok()?;
    Some(about)
}

fn read(handle: u64, kind: Launchable, words: &mut [u32; MOST_PER_KERNEL]) -> Option<usize> {
    for (index, word) in words.iter_mut().enumerate() {
        *word = match queries::parameter(handle, kind, index) {
            // A parameter with a larger offset or size is not examined.
            Parameter::At(offset, size) if offset.max(size) > 0xffff => 0,
            Parameter::At(offset, size) => (offset as u32) << 16 | size as u32,
            Parameter::None => return Some(index),
            Parameter::Unknown => return None,
        };
    }
    Some(MOST_PER_KERNEL)
}

fn note(handle: u64, kind: Launchable, of: u64) {
    HANDLES.note(handle, |place| {
        place.source.store(of, Relaxed);
        place.found.store(0, Relaxed);
        place.about.store(u64::from(kind == Launchable::Kernel), Release);
    });
}

/// Forgets the handles for which `is_over` returns true. It gets the kind and the origin of a handle.
fn forget(is_over: impl Fn(Launchable, u64) -> bool) {
    HANDLES.forget_all(|place| is_over(kind_of(place.about.load(Relaxed)), place.source.load(Relaxed)));
}

/// Forgets the kernel handles that a call is about to end. For use in `guarded`.
pub fn forget_before_call(id: FnId, words: &Words) {
    for effect in id.spec().effects() {
        match *effect {
            Effect::Unloads(Code::Module, by) => forget(|_, of| of == words[by]),
            // Functions may be of a module of this library that cupeer does not know.
            Effect::Unloads(Code::Library, by) => {
                forget(|kind, of| kind == Launchable::Function || of == words[by]);
            }
            Effect::Ends(End { object, is_counted: false, .. }) if object.is_context() => forget_functions(),
            _ => {}
        }
    }
}

/// Stores the kernel handles that a call returned, and forgets those that the call ended. If a fault plan names the
/// function, stores nothing: the plan may have replaced the result of the driver. For use in `guarded`.
pub fn note_after_call(id: FnId, words: &Words, is_planned: bool) {
    for effect in id.spec().effects() {
        match *effect {
            Effect::Finds(found) if !is_planned => note_looked_up(found, words),
            Effect::Ends(end) if has_any() && released_last(end, words) => forget_functions(),
            _ => {}
        }
    }
}

/// Returns true if a call released the last reference to a context.
pub fn released_last(End { object, by, is_counted, .. }: End, words: &Words) -> bool {
    let is_active = || object == Object::Primary && queries::is_primary_active(words[by] as i32);
    is_counted && object.is_context() && !is_active()
}

/// Returns true if the handle that a call returned is already known, with the same kind and origin. NCCL looks up its function
/// before each launch.
pub fn is_handle_known(LookedUp { kind, by, of, .. }: LookedUp, words: &Words) -> bool {
    let handle = words[by] as *const u64;
    // SAFETY: after success, the driver wrote a handle there, unless the caller passed null.
    let place = (!handle.is_null()).then(|| HANDLES.find(unsafe { handle.read_unaligned() })).flatten();
    place.is_some_and(|place| place.source.load(Relaxed) == words[of] && kind_of(place.about.load(Acquire)) == kind)
}

fn forget_functions() {
    forget(|kind, _| kind == Launchable::Function);
}

fn note_looked_up(LookedUp { kind, by, of, room }: LookedUp, words: &Words) {
    let count = match room {
        // There may be fewer handles than there is room for. The rest of the array is not written.
        Some(room) => {
            let all = queries::run_in_relaxed_mode(|| queries::kernel_count(words[of], kind)).unwrap_or(0);
            (words[room] as u32).min(all)
        }
        None => 1,
    };
    let handles = words[by] as *const u64;
    if handles.is_null() {
        return;
    }
    for index in 0..count as usize {
        // SAFETY: after success, the driver wrote that many handles there.
        note(unsafe { handles.add(index).read_unaligned() }, kind, words[of]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(all: &[u64]) -> Words {
        let mut words = [0; MOST_ARGUMENTS];
        words[..all.len()].copy_from_slice(all);
        words
    }

    /// One test, because all of them use the same table.
    #[test]
    fn a_handle_has_the_kind_of_the_last_call_until_its_origin_ends() {
        let (function, kernel, module, library) = (0x5000_1000, 0x5000_2000, 0x10, 0x20);
        assert_eq!(kind_of_handle(function), None);
        note(function, Launchable::Function, module);
        note(kernel, Launchable::Kernel, library);
        assert_eq!(
            [kind_of_handle(function), kind_of_handle(kernel)],
            [Some(Launchable::Function), Some(Launchable::Kernel)]
        );
        forget_before_call(FnId::cuModuleUnload, &words(&[module + 1]));
        assert!(kind_of_handle(function).is_some());
        forget_before_call(FnId::cuModuleUnload, &words(&[module]));
        assert_eq!([kind_of_handle(function), kind_of_handle(kernel)], [None, Some(Launchable::Kernel)]);
        note(function, Launchable::Kernel, library);
        assert_eq!(kind_of_handle(function), Some(Launchable::Kernel));
        note(function, Launchable::Function, module);
        forget_before_call(FnId::cuLibraryUnload, &words(&[library]));
        assert_eq!([kind_of_handle(function), kind_of_handle(kernel)], [None, None]);
        note(function, Launchable::Function, module);
        note(kernel, Launchable::Kernel, library);
        forget_before_call(FnId::cuCtxDestroy_v2, &words(&[0x30]));
        assert_eq!([kind_of_handle(function), kind_of_handle(kernel)], [None, Some(Launchable::Kernel)]);
        a_known_handle_is_not_noted_again(function, kernel);
        a_full_table_knows_some_handles_and_their_kinds();
    }

    fn a_known_handle_is_not_noted_again(function: u64, kernel: u64) {
        let found = FnId::cuKernelGetFunction.spec().found_kernel_function().expect("it finds one");
        let mut words = words(&[]);
        (words[found.by], words[found.of]) = (&raw const function as u64, kernel);
        let others = [FnId::cuModuleGetFunction, FnId::cuLibraryGetKernel, FnId::cuModuleEnumerateFunctions];
        assert!(others.iter().all(|id| id.spec().found_kernel_function().is_none()));
        assert!(!is_handle_known(found, &words));
        note_after_call(FnId::cuKernelGetFunction, &words, false);
        assert!(is_handle_known(found, &words));
        words[found.of] += 64;
        assert!(!is_handle_known(found, &words), "it is of another kernel");
        words[found.of] -= 64;
        words[found.by] = 0;
        assert!(!is_handle_known(found, &words));
        words[found.by] = &raw const function as u64;
        note(function, Launchable::Kernel, kernel);
        assert!(!is_handle_known(found, &words), "it is of another kind");
        forget_functions();
        assert!(!is_handle_known(found, &words));
    }

    fn a_full_table_knows_some_handles_and_their_kinds() {
        let kinds = [Launchable::Function, Launchable::Kernel];
        let handles = || (0..2 * MOST as u64).map(|number| (0x7000_0000 + 64 * number, kinds[number as usize % 2]));
        handles().for_each(|(handle, kind)| note(handle, kind, 1));
        let known = handles().filter(|(handle, expected)| {
            kind_of_handle(*handle).is_some_and(|kind| {
                assert_eq!(kind, *expected, "{handle:#x}");
                true
            })
        });
        let known = known.count();
        assert!(known > MOST / 2 && known <= MOST, "{known}");
    }
}
