//! Calls that allocate and free device memory. A small allocation and its free are only counted, at once; a large one takes the steps of
//! a call that is recorded, and so does its free.

use super::unseen::has_failed;
use super::{Function, Noted, behind_patch, is_again, order, take_steps};
use crate::driver::counted::{self, known};
use crate::driver::places;
use crate::job::{ledger, live};
use crate::recorder::counted as counting;
use crate::resolve::needs::{self, Needs};
use crate::resolve::{driver, linked};
use crate::settings;
use crate::sys::arch::thread;
use crate::sys::program_memory::copy_value;
use core::sync::atomic::Ordering::Relaxed;
use cupeer_spec::argument::Direction;
use cupeer_spec::effect::{Made, Object};
use cupeer_spec::function::FUNCTIONS;

/// The memory that a function allocates. All that are run here allocate some; a compiler may ask for others.
const fn made<F: Function>() -> Made {
    match FUNCTIONS[F::ID as usize].allocates() {
        Some(made) => made,
        None => Made { object: Object::Memory, by: 0, size: None, of: None, at: None },
    }
}

/// Whether its address has 4 bytes.
const fn is_narrow<F: Function>() -> bool {
    let (args, by) = (FUNCTIONS[F::ID as usize].args(), made::<F>().by);
    by < args.len() && args[by].stored() == 4
}

/// The argument that names the memory which a function frees. The same.
const fn freed<F: Function>() -> usize {
    match FUNCTIONS[F::ID as usize].frees() {
        Some(by) => by,
        None => 0,
    }
}

/// Runs a call that allocates or frees memory. `None` for another function.
///
/// # Safety
///
/// As for [`super::run`].
#[inline(always)]
pub unsafe fn run<F: Function, const EXPORT: bool>(noted: Noted, arguments: &impl Fn() -> F) -> Option<i32> {
    if const { FUNCTIONS[F::ID as usize].allocates().is_some() } {
        // SAFETY: as promised.
        return Some(unsafe { allocate::<F, EXPORT>(noted, arguments) });
    }
    let frees = const { FUNCTIONS[F::ID as usize].frees().is_some() };
    // SAFETY: as promised.
    frees.then(|| unsafe { free::<F, EXPORT>(noted, arguments) })
}

/// Runs a call that allocates memory.
///
/// # Safety
///
/// As for [`super::run`].
#[inline(always)]
unsafe fn allocate<F: Function, const EXPORT: bool>(noted: Noted, arguments: impl Fn() -> F) -> i32 {
    let passed = arguments();
    let Some((real, bytes)) = small::<F, EXPORT>(noted, &passed) else {
        // SAFETY: as promised.
        return unsafe { allocate_by_steps::<F, EXPORT>(noted, &arguments()) };
    };
    // SAFETY: the address is this function's.
    let result = unsafe { passed.forward(real) };
    if result != 0 {
        has_failed(F::ID, noted.caller, &arguments(), result);
    } else {
        // SAFETY: the call has succeeded, so that the driver has written the address there, if it is not null.
        let address = unsafe { output::<F>(&passed) };
        counting::made(behind_patch(F::ID, noted.caller), address, bytes);
    }
    result
}

/// The address that a call has written; 0 if there is none.
///
/// # Safety
///
/// The call has succeeded.
#[inline(always)]
unsafe fn output<F: Function>(passed: &F) -> u64 {
    let by = const { made::<F>().by };
    let place = passed.word(by);
    match place {
        0 => 0,
        // SAFETY: an output of that size.
        _ if const { is_narrow::<F>() } => unsafe { (place as *const u32).read_unaligned().into() },
        // SAFETY: an output of that size.
        _ => unsafe { (place as *const u64).read_unaligned() },
    }
}

/// The driver's function, and the size of an allocation that is only counted. `None` if it takes its steps.
#[inline(always)]
fn small<F: Function, const EXPORT: bool>(noted: Noted, passed: &F) -> Option<(usize, u64)> {
    let Made { size: Some(size), at: None, of: None, .. } = (const { made::<F>() }) else { return None };
    let bytes = passed.word(size);
    let real = straight::<F, EXPORT>(noted).filter(|_| bytes < counting::LARGE)?;
    (!settings::get().asks_for_allocations(F::ID)).then_some((real, bytes))
}

/// The driver's function, where nobody else has to do with the call. `None` if it takes its steps.
#[inline(always)]
pub fn straight<F: Function, const EXPORT: bool>(noted: Noted) -> Option<usize> {
    // SAFETY: the block belongs to this thread and its signal handlers, which leave the word as they have found it.
    let is_inside = unsafe { (*thread()).inside } as u32 == F::ID as u32 + 1;
    if noted.entered != F::ID as u32 + 1 || is_inside || !needs::is_only_awake(F::ID) {
        return None;
    }
    let real = driver::real(F::ID);
    // A tool behind us may call the same function: the steps know that it is the same call.
    (!EXPORT || linked::known(F::ID, noted.caller) == Some(real)).then_some(real)
}

/// Runs its steps, with what is known of the memory for [`crate::recorder`].
///
/// # Safety
///
/// As for [`super::run`].
#[inline(always)]
unsafe fn with_known<F: Function, const EXPORT: bool>(noted: Noted, arguments: &F, known: u64) -> i32 {
    let thread = thread();
    // SAFETY: only this thread and its signal handlers use the block, and these put back what they have found.
    let before = unsafe { core::mem::replace(&mut (*thread).memory, known) };
    // SAFETY: as promised.
    let result = unsafe { take_steps::<F, EXPORT>(noted, arguments) };
    // SAFETY: as above.
    unsafe { (*thread).memory = before };
    result
}

#[inline(never)]
unsafe fn allocate_by_steps<F: Function, const EXPORT: bool>(noted: Noted, arguments: &F) -> i32 {
    let Made { object, size, at, of, .. } = const { made::<F>() };
    // Of rows, their width comes before their height.
    let asked = match (at, size) {
        (Some(rows), _) => arguments.word(rows).saturating_mul(arguments.word(rows - 1)),
        (None, size) => size.map_or(0, |size| arguments.word(size)),
    };
    let is_again = is_again(thread(), F::ID, noted.caller);
    let is_event = !is_again && counting::is_event(F::ID, asked, matches!(object, Object::Pointer));
    // SAFETY: as promised.
    let result =
        unsafe { with_known::<F, EXPORT>(noted, arguments, if is_event { known::EVENT } else { 0 }) };
    if result != 0 || is_again || !settings::get().is_recorded(F::ID) {
        return result;
    }
    // SAFETY: the call has succeeded.
    let address = unsafe { output::<F>(arguments) };
    if is_event {
        counting::made_event(address);
    } else if !(matches!(object, Object::Memory) && of.is_some()) && address != 0 {
        let bytes = match (at, size) {
            (Some(rows), Some(pitch)) => pitch_of::<F>(arguments, pitch).saturating_mul(arguments.word(rows)),
            _ => asked,
        };
        counting::made(behind_patch(F::ID, noted.caller), address, bytes);
    }
    result
}

/// The pitch that a call has written.
fn pitch_of<F: Function>(arguments: &F, pitch: usize) -> u64 {
    let place = arguments.word(pitch);
    let argument = &F::ID.spec().args()[pitch];
    match argument.direction {
        Direction::In => place,
        _ if argument.stored() == 4 => copy_value(place as *const u32).map_or(0, u64::from),
        _ => copy_value(place as *const u64).unwrap_or(0),
    }
}

/// Runs a call that frees memory.
///
/// # Safety
///
/// As for [`super::run`].
#[inline(always)]
unsafe fn free<F: Function, const EXPORT: bool>(noted: Noted, arguments: impl Fn() -> F) -> i32 {
    let passed = arguments();
    let address = passed.word(const { freed::<F>() });
    let is_on = counted::is_on();
    let real = straight::<F, EXPORT>(noted).filter(|_| is_on && is_own(counted::at(address)));
    let Some(real) = real else {
        // SAFETY: as promised.
        return unsafe { free_by_steps::<F, EXPORT>(noted, &arguments(), address, is_on) };
    };
    let known = counted::take(address);
    let began = if order::may_concern(&passed) { order::begins(&arguments()) } else { 0 };
    // SAFETY: the address is this function's.
    let result = unsafe { passed.forward(real) };
    if result != 0 {
        counted::put_back(address, known);
        has_failed(F::ID, noted.caller, &arguments(), result);
        return result;
    }
    if needs::has_done(Needs::Shared) {
        places::have_changed();
    }
    if began != 0 {
        order::note(F::ID, noted.caller, &arguments(), began, None);
    }
    result
}

/// Whether memory is this process's own and nobody else's, by what is known of it, so that its free does not matter.
#[inline(always)]
fn is_own(known: u64) -> bool {
    let is_counted = known & (known::EVENT | known::SHARED) == 0;
    let is_nobodys = || ledger::shares_nothing() && !counted::HAS_LOST.load(Relaxed);
    is_counted && (known != 0 && (live::is_on() || ledger::shares_nothing()) || is_nobodys())
}

#[inline(never)]
unsafe fn free_by_steps<F: Function, const EXPORT: bool>(
    noted: Noted,
    arguments: &F,
    address: u64,
    is_on: bool,
) -> i32 {
    let is_followed = is_on && !is_again(thread(), F::ID, noted.caller);
    let mut known = if is_followed { counted::take(address) } else { 0 };
    if is_followed && known == 0 && counted::HAS_LOST.load(Relaxed) {
        known = known::EVENT;
    }
    // SAFETY: as promised.
    let result = unsafe { with_known::<F, EXPORT>(noted, arguments, known & known::EVENT) };
    if result != 0 && known & known::THERE != 0 {
        counted::put_back(address, known);
    }
    result
}
