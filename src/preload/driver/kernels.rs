//! Tracks the handles by which kernels are launched: the kind of each, and where the parameters of its kernel are.
//!
//! A launch takes a `CUfunction`, or a `CUkernel` in its place, and the driver has a query for each kind. No documentation says that
//! a driver refuses the other kind: it may follow what it takes for a pointer. So the driver is asked about a handle only if the
//! call that made the handle was seen, and in the way of its kind. A handle is forgotten before what it is of can end, and the call
//! that made it last decides its kind.
//!
//! Each launch of a process in which shared memory ended looks up its kernel here. So readers take no lock and write nothing. The
//! driver is asked once per kernel.

use super::questions::{self, Parameter};
use crate::sys::guard::guarded;
use crate::sys::handles::{Blank, Handles};
use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::effect::{Code, Effect, End, Launchable, LookedUp, Object};
use cupeer_spec::function::{FnId, MOST_ARGUMENTS};

/// So many handles are known at once.
const MOST: usize = 1 << 14;
/// So many parameters are known of all kernels together, with a word more for each kernel.
const MOST_PARAMETERS: usize = 1 << 16;
/// So many parameters of one kernel are known.
const MOST_OF_ONE: usize = 256;
/// After so many launches with an address in memory that is gone, a kernel is not looked at any more: it passes what it does not
/// use, or all is said, and each such launch takes microseconds.
const MOST_FOUND: u32 = 100;

/// The arguments of a call.
type Words = [u64; MOST_ARGUMENTS];

/// What is known of a handle.
struct Place {
    /// The module, library, or kernel that it was found in.
    of: AtomicU64,
    /// The lowest bit is set for a `CUkernel`. The others: where its parameters are, plus one; 0 if the driver was not asked yet,
    /// and [`UNKNOWN`] if there is no room for them.
    about: AtomicU64,
    /// How many launches passed an address in memory that is gone.
    found: AtomicU32,
}

impl Blank for Place {
    #[allow(clippy::declare_interior_mutable_const, reason = "each use makes another one")]
    const BLANK: Place = Place { of: AtomicU64::new(0), about: AtomicU64::new(0), found: AtomicU32::new(0) };
}

const UNKNOWN: u64 = u64::MAX >> 1;

static HANDLES: Handles<Place, MOST> = Handles::new();

/// For each kernel: how many parameters it has, and a word for each of them.
static PARAMETERS: [AtomicU32; MOST_PARAMETERS] = [const { AtomicU32::new(0) }; MOST_PARAMETERS];
static USED: AtomicUsize = AtomicUsize::new(0);

/// The offset and the size of a parameter, as its word has them.
pub fn offset_and_size(word: &AtomicU32) -> (usize, usize) {
    let word = word.load(Relaxed) as usize;
    (word >> 16, word & 0xffff)
}

fn kind_of(about: u64) -> Launchable {
    if about & 1 != 0 { Launchable::Kernel } else { Launchable::Function }
}

/// Whether any handle is known.
pub fn has_any() -> bool {
    HANDLES.has_any()
}

/// The kind of a handle, if the call that made it was seen.
pub fn kind(handle: u64) -> Option<Launchable> {
    HANDLES.find(handle).map(|place| kind_of(place.about.load(Acquire)))
}

/// A word for each parameter of a kernel; `None` if the call that made its handle was not seen, or the driver does not say.
#[inline]
pub fn parameters(handle: u64) -> Option<&'static [AtomicU32]> {
    let place = HANDLES.find(handle)?;
    let mut about = place.about.load(Acquire);
    if about >> 1 == 0 {
        about = ask(place, handle, about)?;
    }
    let at = (about >> 1) as usize - 1;
    let count = PARAMETERS.get(at)?.load(Relaxed) as usize;
    PARAMETERS.get(at + 1..at + 1 + count)
}

/// Notes that a launch of a kernel passes an address in memory that is gone. Returns false if that was said often enough.
pub fn note_found(handle: u64) -> bool {
    let Some(place) = HANDLES.find(handle) else { return false };
    let is_new = place.found.fetch_add(1, Relaxed) < MOST_FOUND;
    if !is_new {
        place.about.fetch_or(UNKNOWN << 1, Release);
    }
    is_new
}

/// Asks the driver for the parameters of a kernel that is about to be launched: so its handle is valid.
#[cold]
#[inline(never)]
fn ask(place: &Place, handle: u64, before: u64) -> Option<u64> {
    let mut words = [0; MOST_OF_ONE];
    let mut count = None;
    guarded(|| count = questions::relaxed(|| read(handle, kind_of(before), &mut words)));
    let words = &words[..count?];
    let at = USED.fetch_add(words.len() + 1, Relaxed);
    let position = match PARAMETERS.get(at..=at + words.len()) {
        Some(room) => {
            room[0].store(words.len() as u32, Relaxed);
            room[1..].iter().zip(words).for_each(|(place, word)| place.store(*word, Relaxed));
            at as u64 + 1
        }
        None => {
            USED.store(MOST_PARAMETERS, Relaxed);
            UNKNOWN
        }
    };
    let about = before & 1 | position << 1;
    // If the handle was made again since, it may be of another kernel.
    place.about.compare_exchange(before, about, Release, Relaxed).ok()?;
    Some(about)
}

fn read(handle: u64, kind: Launchable, words: &mut [u32; MOST_OF_ONE]) -> Option<usize> {
    for (index, word) in words.iter_mut().enumerate() {
        *word = match questions::parameter(handle, kind, index) {
            // One with a larger offset or size is not looked at.
            Parameter::At(offset, size) if offset.max(size) > 0xffff => 0,
            Parameter::At(offset, size) => (offset as u32) << 16 | size as u32,
            Parameter::None => return Some(index),
            Parameter::Unknown => return None,
        };
    }
    Some(MOST_OF_ONE)
}

fn note(handle: u64, kind: Launchable, of: u64) {
    HANDLES.note(handle, |place| {
        place.of.store(of, Relaxed);
        place.found.store(0, Relaxed);
        place.about.store(u64::from(kind == Launchable::Kernel), Release);
    });
}

/// Forgets handles, by their kind and what they are of.
fn forget(is_over: impl Fn(Launchable, u64) -> bool) {
    HANDLES.forget_all(|place| is_over(kind_of(place.about.load(Relaxed)), place.of.load(Relaxed)));
}

/// Forgets what a call is about to end. For use in `guarded`.
pub fn before(id: FnId, words: &Words) {
    for effect in id.spec().effects() {
        match *effect {
            Effect::Unloads(Code::Module, by) => forget(|_, of| of == words[by]),
            // A module of the library, which has functions as well, need not be known.
            Effect::Unloads(Code::Library, by) => {
                forget(|kind, of| kind == Launchable::Function || of == words[by]);
            }
            Effect::Ends(End { object, is_counted: false, .. }) if object.is_context() => end_functions(),
            _ => {}
        }
    }
}

/// Notes what a call has found that succeeded, and forgets what it has ended. If a fault plan looks at the function, nothing is
/// noted: it may have put its own result in place of the driver's. For use in `guarded`.
pub fn after(id: FnId, words: &Words, is_planned: bool) {
    for effect in id.spec().effects() {
        match *effect {
            Effect::Finds(found) if !is_planned => found_by(found, words),
            Effect::Ends(end) if has_any() && is_over(end, words) => end_functions(),
            _ => {}
        }
    }
}

/// Whether a call that gave up a reference to a context was the last one: others may hold it.
pub fn is_over(End { object, by, is_counted, .. }: End, words: &Words) -> bool {
    let is_active = || object == Object::Primary && questions::is_primary_active(words[by] as i32);
    is_counted && object.is_context() && !is_active()
}

/// Whether what a call has found is known already, with the same kind and origin. NCCL looks up its function before each launch.
pub fn is_noted(LookedUp { kind, by, of, .. }: LookedUp, words: &Words) -> bool {
    let handle = words[by] as *const u64;
    // SAFETY: after success, the driver has written a handle there, unless the caller passed null.
    let place = (!handle.is_null()).then(|| HANDLES.find(unsafe { handle.read_unaligned() })).flatten();
    place.is_some_and(|place| {
        place.of.load(Relaxed) == words[of] && kind_of(place.about.load(Acquire)) == kind
    })
}

fn end_functions() {
    forget(|kind, _| kind == Launchable::Function);
}

fn found_by(LookedUp { kind, by, of, room }: LookedUp, words: &Words) {
    let count = match room {
        // There may be fewer than there is room for, and nobody has written what follows.
        Some(room) => {
            let all = questions::relaxed(|| questions::kernel_count(words[of], kind)).unwrap_or(0);
            (words[room] as u32).min(all)
        }
        None => 1,
    };
    let handles = words[by] as *const u64;
    if handles.is_null() {
        return;
    }
    for index in 0..count as usize {
        // SAFETY: after success, the driver has written so many handles there.
        note(unsafe { handles.add(index).read_unaligned() }, kind, words[of]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_of_the_kind_that_made_it_last_until_what_it_is_of_ends() {
        let (function, kernel, module, library) = (0x5000_1000, 0x5000_2000, 0x10, 0x20);
        assert_eq!(kind(function), None);
        note(function, Launchable::Function, module);
        note(kernel, Launchable::Kernel, library);
        assert_eq!([kind(function), kind(kernel)], [Some(Launchable::Function), Some(Launchable::Kernel)]);
        let call = |id, words: &[u64]| {
            let mut all = [0; MOST_ARGUMENTS];
            all[..words.len()].copy_from_slice(words);
            before(id, &all);
        };
        call(FnId::cuModuleUnload, &[module + 1]);
        assert!(kind(function).is_some());
        call(FnId::cuModuleUnload, &[module]);
        assert_eq!([kind(function), kind(kernel)], [None, Some(Launchable::Kernel)]);
        note(function, Launchable::Kernel, library);
        assert_eq!(kind(function), Some(Launchable::Kernel));
        note(function, Launchable::Function, module);
        call(FnId::cuLibraryUnload, &[library]);
        assert_eq!([kind(function), kind(kernel)], [None, None]);
        note(function, Launchable::Function, module);
        note(kernel, Launchable::Kernel, library);
        call(FnId::cuCtxDestroy_v2, &[0x30]);
        assert_eq!([kind(function), kind(kernel)], [None, Some(Launchable::Kernel)]);
        // What is noted is not noted again, and so the driver is not asked about it again.
        let found = FnId::cuKernelGetFunction.spec().finds_of_kernel().expect("it finds one");
        let mut words = [0; MOST_ARGUMENTS];
        (words[found.by], words[found.of]) = (&raw const function as u64, kernel);
        let others = [FnId::cuModuleGetFunction, FnId::cuLibraryGetKernel, FnId::cuModuleEnumerateFunctions];
        assert!(others.iter().all(|id| id.spec().finds_of_kernel().is_none()));
        assert!(!is_noted(found, &words));
        after(FnId::cuKernelGetFunction, &words, false);
        assert!(is_noted(found, &words));
        words[found.of] += 64;
        assert!(!is_noted(found, &words), "it is of another kernel");
        words[found.of] -= 64;
        words[found.by] = 0;
        assert!(!is_noted(found, &words));
        words[found.by] = &raw const function as u64;
        note(function, Launchable::Kernel, kernel);
        assert!(!is_noted(found, &words), "it is of another kind");
        end_functions();
        assert!(!is_noted(found, &words));
        // Of more than there is room for, some are known, and none with another kind.
        for number in 0..2 * MOST as u64 {
            note(
                0x7000_0000 + 64 * number,
                [Launchable::Function, Launchable::Kernel][number as usize % 2],
                1,
            );
        }
        let known = |number: &u64| match kind(0x7000_0000 + 64 * number) {
            None => false,
            Some(kind) => {
                assert_eq!(kind == Launchable::Kernel, number % 2 == 1, "{number}");
                true
            }
        };
        let known = (0..2 * MOST as u64).filter(known).count();
        assert!(known > MOST / 2 && known <= MOST, "{known}");
    }
}
