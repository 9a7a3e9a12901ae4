//! The record of this process, once `process` has made it.

use super::file::File;
use crate::sys::every_call::has_record;
use crate::sys::process::owner;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU32,
    Ordering::{Acquire, Relaxed},
};

/// The record of this process, or of the one that it was forked from.
pub static FILE: AtomicPtr<File> = AtomicPtr::new(ptr::null_mut());

/// Returns the record if this process has one.
pub fn current() -> Option<&'static File> {
    // SAFETY: files are never freed.
    has_record().then(|| unsafe { FILE.load(Acquire).as_ref() }).flatten()
}

/// The pid of the process whose record began anew with a name.
pub static BEGAN_ANEW: AtomicU32 = AtomicU32::new(0);

/// Returns true if the record of this process began anew: see `process::show_before_call`.
pub fn has_begun_anew() -> bool {
    BEGAN_ANEW.load(Relaxed) == owner()
}
