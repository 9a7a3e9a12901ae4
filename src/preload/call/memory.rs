//! Calls that allocate and free device memory. A small allocation and its free are only counted. A large allocation and its free take
//! the steps of recorded calls.

use super::untracked::{record_failure, stepless_target};
use super::{EntryState, Function, caller_behind_patch, is_nested_call, order, resolve_and_run_steps};
use crate::driver::counted::{self, known};
use crate::driver::places;
use crate::job::{ledger, live};
use crate::recorder::counted as counting;
use crate::resolve::needs::{self, HistoryCondition};
use crate::settings;
use crate::sys::arch::thread;
use crate::sys::program_memory::copy_value;
use core::sync::atomic::Ordering::Relaxed;
use cupeer_spec::argument::Direction;
use cupeer_spec::effect::{Made, Object};
use cupeer_spec::function::FUNCTIONS;

/// Returns the description of the memory that a function allocates. The default is never used: callers ask only about functions
/// that allocate.
const fn allocated_memory_spec<F: Function>() -> Made {
    match FUNCTIONS[F::ID as usize].allocated_memory() {
        Some(made) => made,
        None => Made { object: Object::Memory, by: 0, size: None, of: None, at: None },
    }
}

/// Returns true if a function stores the address of the memory that it allocates in 4 bytes.
const fn has_32_bit_address<F: Function>() -> bool {
    let (args, by) = (FUNCTIONS[F::ID as usize].args(), allocated_memory_spec::<F>().by);
    by < args.len() && args[by].stored_size() == 4
}

/// Returns the index of the argument that names the memory which a function frees. The default is never used: callers ask only
/// about functions that free.
const fn freed_argument<F: Function>() -> usize {
    match FUNCTIONS[F::ID as usize].freed_memory_argument() {
        Some(by) => by,
        None => 0,
    }
}

/// Runs a call that allocates or frees memory. Returns `None`, and does not run the call, for each other function.
///
/// # Safety
///
/// As for [`super::run`].
#[inline(always)]
pub unsafe fn run_memory_call<F: Function, const EXPORT: bool>(
    entry: EntryState,
    arguments: &impl Fn() -> F,
) -> Option<i32> {
    if const { FUNCTIONS[F::ID as usize].allocated_memory().is_some() } {
        // SAFETY: as promised.
        return Some(unsafe { run_allocation::<F, EXPORT>(entry, arguments) });
    }
    let frees = const { FUNCTIONS[F::ID as usize].freed_memory_argument().is_some() };
    // SAFETY: as promised.
    frees.then(|| unsafe { run_free::<F, EXPORT>(entry, arguments) })
}

/// Runs a call that allocates memory.
///
/// # Safety
///
/// As for [`super::run`].
#[inline(always)]
unsafe fn run_allocation<F: Function, const EXPORT: bool>(entry: EntryState, arguments: impl Fn() -> F) -> i32 {
    let passed = arguments();
    let Some((real, bytes)) = target_if_only_counted::<F, EXPORT>(entry, &passed) else {
        // SAFETY: as promised.
        return unsafe { run_allocation_by_steps::<F, EXPORT>(entry, &arguments()) };
    };
    // SAFETY: the address is this function's.
    let result = unsafe { passed.forward(real) };
    if result != 0 {
        record_failure(F::ID, real, entry.caller, &arguments(), result);
    } else {
        // SAFETY: the call succeeded, so the driver wrote the address, unless the pointer is null.
        let address = unsafe { allocated_address::<F>(&passed) };
        counting::count(caller_behind_patch(F::ID, entry.caller), address, bytes);
    }
    result
}

/// Returns the address of the allocated memory, which the call wrote to its output; 0 if the output is a null pointer.
///
/// # Safety
///
/// The call has succeeded.
#[inline(always)]
unsafe fn allocated_address<F: Function>(passed: &F) -> u64 {
    let by = const { allocated_memory_spec::<F>().by };
    let place = passed.word(by);
    match place {
        0 => 0,
        // SAFETY: an output of that size.
        _ if const { has_32_bit_address::<F>() } => unsafe { (place as *const u32).read_unaligned().into() },
        // SAFETY: an output of that size.
        _ => unsafe { (place as *const u64).read_unaligned() },
    }
}

/// Returns the address of the driver's function, and the size in bytes of the allocation, if the allocation is only
/// counted. `None` if the call must take its steps.
#[inline(always)]
fn target_if_only_counted<F: Function, const EXPORT: bool>(entry: EntryState, passed: &F) -> Option<(usize, u64)> {
    let Made { size: Some(size), at: None, of: None, .. } = (const { allocated_memory_spec::<F>() }) else {
        return None;
    };
    let bytes = passed.word(size);
    let real = stepless_target::<F, EXPORT>(entry).filter(|_| bytes < counting::LARGE)?;
    (!settings::get().records_all_allocations(F::ID)).then_some((real, bytes))
}

/// Runs the steps of a call while the thread's block contains `known`, the word of the allocation, for [`crate::recorder`].
///
/// # Safety
///
/// As for [`super::run`].
#[inline(always)]
unsafe fn with_allocation_word<F: Function, const EXPORT: bool>(entry: EntryState, arguments: &F, known: u64) -> i32 {
    let thread = thread();
    // SAFETY: only this thread and its signal handlers use the block, which restore it.
    let before = unsafe { core::mem::replace(&mut (*thread).memory, known) };
    // SAFETY: as promised.
    let result = unsafe { resolve_and_run_steps::<F, EXPORT>(entry, arguments) };
    // SAFETY: as above.
    unsafe { (*thread).memory = before };
    result
}

#[inline(never)]
unsafe fn run_allocation_by_steps<F: Function, const EXPORT: bool>(entry: EntryState, arguments: &F) -> i32 {
    let Made { object, size, at, of, .. } = const { allocated_memory_spec::<F>() };
    // In a call that allocates rows, the width is the argument before the height.
    let asked = match (at, size) {
        (Some(rows), _) => arguments.word(rows).saturating_mul(arguments.word(rows - 1)),
        (None, size) => size.map_or(0, |size| arguments.word(size)),
    };
    let is_again = is_nested_call(thread(), F::ID, entry.caller);
    let is_event = !is_again && counting::is_recorded(F::ID, asked, matches!(object, Object::Pointer));
    // SAFETY: as promised.
    let result =
        unsafe { with_allocation_word::<F, EXPORT>(entry, arguments, if is_event { known::EVENT } else { 0 }) };
    if result != 0 || is_again || !settings::get().is_recorded(F::ID) {
        return result;
    }
    // SAFETY: the call has succeeded.
    let address = unsafe { allocated_address::<F>(arguments) };
    if is_event {
        counting::note_recorded(address);
    } else if !(matches!(object, Object::Memory) && of.is_some()) && address != 0 {
        let bytes = match (at, size) {
            (Some(rows), Some(pitch)) => read_row_pitch::<F>(arguments, pitch).saturating_mul(arguments.word(rows)),
            _ => asked,
        };
        counting::count(caller_behind_patch(F::ID, entry.caller), address, bytes);
    }
    result
}

/// Returns the distance in bytes from a row to the next: an input of the call, or an output that the driver wrote.
fn read_row_pitch<F: Function>(arguments: &F, pitch: usize) -> u64 {
    let place = arguments.word(pitch);
    let argument = &F::ID.spec().args()[pitch];
    match argument.direction {
        Direction::In => place,
        _ if argument.stored_size() == 4 => copy_value(place as *const u32).map_or(0, u64::from),
        _ => copy_value(place as *const u64).unwrap_or(0),
    }
}

/// Runs a call that frees memory.
///
/// # Safety
///
/// As for [`super::run`].
#[inline(always)]
unsafe fn run_free<F: Function, const EXPORT: bool>(entry: EntryState, arguments: impl Fn() -> F) -> i32 {
    let passed = arguments();
    let address = passed.word(const { freed_argument::<F>() });
    let is_on = counted::is_counting();
    let real =
        stepless_target::<F, EXPORT>(entry).filter(|_| is_on && is_word_of_private_memory(counted::word_at(address)));
    let Some(real) = real else {
        // SAFETY: as promised.
        return unsafe { run_free_by_steps::<F, EXPORT>(entry, &arguments(), address, is_on) };
    };
    let known = counted::take_allocation(address);
    let began = if order::may_need_note(&passed) { order::quick_start_if_noted(&arguments()) } else { 0 };
    // SAFETY: the address is this function's.
    let result = unsafe { passed.forward(real) };
    if result != 0 {
        counted::put_back(address, known);
        record_failure(F::ID, real, entry.caller, &arguments(), result);
        return result;
    }
    if needs::has_met(HistoryCondition::Shared) {
        places::note_memory_change();
    }
    if began != 0 {
        order::note_call(F::ID, entry.caller, &arguments(), began, None);
    }
    result
}

/// Returns true if no other process can use an allocation, so that the free of the allocation does not matter to other processes.
#[inline(always)]
fn is_word_of_private_memory(known: u64) -> bool {
    let is_counted = known & (known::EVENT | known::SHARED) == 0;
    let shares_none = || ledger::shares_nothing() && !counted::HAS_LOST.load(Relaxed);
    is_counted && (known != 0 && (live::has_table() || ledger::shares_nothing()) || shares_none())
}

#[inline(never)]
unsafe fn run_free_by_steps<F: Function, const EXPORT: bool>(
    entry: EntryState,
    arguments: &F,
    address: u64,
    is_on: bool,
) -> i32 {
    let is_followed = is_on && !is_nested_call(thread(), F::ID, entry.caller);
    let mut known = if is_followed { counted::take_allocation(address) } else { 0 };
    if is_followed && known == 0 && counted::HAS_LOST.load(Relaxed) {
        known = known::EVENT;
    }
    // SAFETY: as promised.
    let result = unsafe { with_allocation_word::<F, EXPORT>(entry, arguments, known & known::EVENT) };
    if result != 0 && known & known::THERE != 0 {
        counted::put_back(address, known);
    }
    result
}
