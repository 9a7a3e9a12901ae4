//! The ends of processes that were forked after their parent had initialized the driver, and made no recorded call: those that fail,
//! and those that outlive the process whose device files they have.

use super::forked::ENDED;
use super::{about, current, process};
use crate::driver::questions::has_device_of_parent;
use crate::settings;
use crate::sys::clock as system_clock;
use crate::sys::every_call::has_record;
use crate::sys::guard::guarded;
use crate::sys::line::Short;
use crate::sys::process::owner;
use crate::sys::{forks, life};
use core::sync::atomic::Ordering::{Acquire, Release};
use cupeer_spec::record::meta;

/// Begins a record of a process without one that ends, where there is something to tell: it was forked after the driver was
/// initialized, and fails, or has kept the device nodes open for longer than their owner ran.
pub fn ends(code: u8) {
    /// How children end that cannot execute a program: those of shells and of posix_spawn, and those of Python.
    const NOT_EXECUTED: [u8; 3] = [126, 127, 255];
    let own = std::process::id();
    if forks::has_initialized() {
        // SAFETY: a page that stays mapped, or null.
        let ended = unsafe { ENDED.load(Acquire).as_ref() };
        ended.into_iter().for_each(|ended| ended.store(system_clock::now(), Release));
    }
    let first = forks::initializer();
    let may_tell = forks::is_forked() && first != 0 && first != own && !has_record();
    if !may_tell || settings::get().record.is_none() || owner() != own {
        return;
    }
    guarded(|| {
        let outlived = outlived(first);
        let has_failed = code != 0 && !NOT_EXECUTED.contains(&code);
        if (has_failed || outlived.is_some()) && process::attach() {
            process::show();
            if let (Some(ago), Some(file)) = (outlived, current::current()) {
                let ago = Short::<24>::new(format_args!("{ago}"));
                about::text(file, meta::OUTLIVED, ago.text().as_bytes());
            }
        }
    });
}

/// How long ago the process ended that initialized the driver, 0 where that is unknown; `None` where it runs, or this one keeps
/// nothing of it.
fn outlived(first: u32) -> Option<u64> {
    let runs = life::look(first).map_or_else(|| life::exists(first), |seen| !seen.is_ending);
    if runs || !has_device_of_parent() {
        return None;
    }
    // SAFETY: a page that stays mapped, or null.
    let ended = unsafe { ENDED.load(Acquire).as_ref() }.map_or(0, |ended| ended.load(Acquire));
    let ago = if ended == 0 { 0 } else { system_clock::now().saturating_sub(ended) };
    (ended == 0 || ago >= meta::LEAST_OUTLIVED).then_some(ago)
}
