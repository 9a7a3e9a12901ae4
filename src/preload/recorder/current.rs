//! Holds the record of this process, after `process` has created it.

use super::file::File;
use crate::sys::every_call::has_record;
use crate::sys::process::recording_owner_pid;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{Acquire, Relaxed},
};

/// The record of this process, or of the process that this one was forked from; null before there is one.
pub static FILE: AtomicPtr<File> = AtomicPtr::new(ptr::null_mut());

/// Returns the record of this process; `None` if it has none.
pub fn current() -> Option<&'static File> {
    // SAFETY: files are never freed.
    has_record().then(|| unsafe { FILE.load(Acquire).as_ref() }).flatten()
}

/// Pid of the process that gave up a record without a name and began a new one; 0 if none did.
pub static BEGAN_ANEW: AtomicU32 = AtomicU32::new(0);

/// Returns true if this process gave up a record without a name and began a new one: see
/// `process::give_name_before_call`.
pub fn has_begun_anew() -> bool {
    BEGAN_ANEW.load(Relaxed) == recording_owner_pid()
}
