//! Arms and disarms the plans that the program itself passes through `cupeer.h`.

use super::arming::{arm_loaded, loaded, with_loaded};
use super::live::{self, NO_MEMORY};
use crate::settings::inject::memory_of;
use crate::sys::memory;
use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use cupeer_spec::fault::{CounterScope, FaultPlan};

/// Arms a plan of the program, and also in the program's descendants if processes share a directory. Returns the number of the
/// plan, or the reason why the plan was not armed.
fn arm(text: &str) -> Result<u32, String> {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    let plan = FaultPlan::parse("armed", text).map_err(|error| {
        let line = if text.contains('\n') { format!("line {}, ", error.line) } else { String::new() };
        format!("{line}{error}")
    })?;
    if plan.rules.is_empty() {
        return Err("the plan contains no fault".into());
    }
    let plan: &'static FaultPlan = Box::leak(Box::new(plan));
    if let Some(armed) = live::arm_for_descendants(plan) {
        return armed;
    }
    if let Some(rule) = plan.rules.iter().find(|rule| matches!(rule.per, CounterScope::Job | CounterScope::Rank)) {
        let why = "per=job and per=rank need a directory that processes share: a recording, or CUPEER_FAULTS";
        return Err(format!("fault {}: {why}", rule.name));
    }
    let id = NEXT.fetch_add(1, Relaxed);
    arm_loaded(id, plan, None, false).ok_or(NO_MEMORY)?;
    Ok(id)
}

/// Disarms a plan of the program, and releases the calls that hang because of the plan. Returns the number of calls that faults
/// of the plan matched, and the number of calls at which they fired; `None` if no such plan is armed.
pub fn disarm(id: u32) -> Option<(u64, u64)> {
    loaded(id).filter(|plan| plan.is_armed_by_program()).and_then(live::disarm)
}

/// Returns the number of calls that faults of a plan of the program matched, and the number of calls at which they fired.
pub fn counts(id: u32) -> Option<(u64, u64)> {
    with_loaded(id, |plan| plan.is_armed_by_program().then(|| plan.total_counts())).flatten()
}

/// Implements `cupeer_arm`.
///
/// # Safety
///
/// `plan` is null or ends in NUL; `message` is null or has `size` writable bytes.
pub unsafe fn arm_c(plan: *const c_char, message: *mut c_char, size: usize) -> c_int {
    let refuse = |reason: &str| {
        if !message.is_null() && size > 0 {
            let length = reason.floor_char_boundary(size - 1);
            // SAFETY: that many bytes and one more are writable.
            unsafe {
                core::ptr::copy_nonoverlapping(reason.as_ptr(), message.cast(), length);
                message.add(length).write(0);
            }
        }
        0
    };
    if plan.is_null() {
        return refuse("the plan is NULL");
    }
    // SAFETY: not null, and the caller's text ends in NUL.
    let Ok(text) = unsafe { CStr::from_ptr(plan) }.to_str() else {
        return refuse("the plan is not UTF-8");
    };
    let armed = memory::run_with_reserved_memory(memory_of(text.len()), || match arm(text) {
        Ok(number) => (number.try_into().unwrap_or(c_int::MAX), true),
        Err(reason) => (refuse(&reason), false),
    });
    armed.unwrap_or_else(|| refuse(NO_MEMORY))
}

/// Writes the counts of a plan, `done`, to the program's variables. Returns 1, or 0 if there is no such plan.
///
/// # Safety
///
/// Both places are null or writable.
pub unsafe fn write_counts(done: Option<(u64, u64)>, matched: *mut u64, fired: *mut u64) -> c_int {
    let Some(done) = done else { return 0 };
    for (place, number) in [(matched, done.0), (fired, done.1)] {
        if !place.is_null() {
            // SAFETY: not null, and writable.
            unsafe { place.write_unaligned(number) };
        }
    }
    1
}
