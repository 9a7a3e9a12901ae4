//! Records the ends of processes that were forked after their parent had initialized the driver, and that made no recorded call: those
//! that fail, and those that outlive the process whose device files they inherited.

use super::forked::ENDED;
use super::{about, current, process};
use crate::driver::queries::has_device_of_parent;
use crate::settings;
use crate::sys::clock as system_clock;
use crate::sys::every_call::has_record;
use crate::sys::guard::guarded;
use crate::sys::process::recording_owner_pid;
use crate::sys::{forks, life};
use core::sync::atomic::Ordering::{Acquire, Release};
use cupeer_spec::record::meta;

/// Begins a record as the process ends, if it was forked after the driver was initialized and has no record yet. The process must
/// also fail (with exit code `code`), or have kept the device files open after the process that had opened them ended.
pub fn note_end(code: u8) {
    /// Exit codes of children that cannot execute a program: those of shells, of posix_spawn, and of Python.
    const NOT_EXECUTED: [u8; 3] = [126, 127, 255];
    let own = std::process::id();
    if forks::has_initialized() {
        // SAFETY: a page that stays mapped, or null.
        let ended = unsafe { ENDED.load(Acquire).as_ref() };
        ended.into_iter().for_each(|ended| ended.store(system_clock::now(), Release));
    }
    let first = forks::initializer();
    let may_begin = forks::is_forked() && first != 0 && first != own && !has_record();
    if !may_begin || settings::get().record.is_none() || recording_owner_pid() != own {
        return;
    }
    guarded(|| {
        let outlived = ended_ago(first);
        let has_failed = code != 0 && !NOT_EXECUTED.contains(&code);
        if (has_failed || outlived.is_some()) && process::join_or_begin_record() {
            process::give_record_name();
            if let (Some(ago), Some(file)) = (outlived, current::current()) {
                about::add_number(file, meta::OUTLIVED, ago);
            }
        }
    });
}

/// Returns how long ago the process that initialized the driver (pid `first`) ended, in nanoseconds; 0 if the time is unknown.
/// Returns `None` if that process still runs, or if this process has none of its device files open.
fn ended_ago(first: u32) -> Option<u64> {
    let runs = life::read_state(first).map_or_else(|| life::exists(first), |seen| !seen.is_ending);
    if runs || !has_device_of_parent() {
        return None;
    }
    // SAFETY: a page that stays mapped, or null.
    let ended = unsafe { ENDED.load(Acquire).as_ref() }.map_or(0, |ended| ended.load(Acquire));
    let ago = if ended == 0 { 0 } else { system_clock::now().saturating_sub(ended) };
    (ended == 0 || ago >= meta::LEAST_OUTLIVED).then_some(ago)
}
