//! Records the status that the process passes to `exit`, `quick_exit`, or `_exit`.
//!
//! A process that is killed, or that calls the kernel directly to exit, never reaches this code.

use crate::check;
use crate::log::{self, status};
use crate::recorder::{self, outlived};
use crate::resolve::bypasses;
use crate::resolve::loader::Next;
use crate::settings;
use crate::sys::forks;
use crate::sys::guard::guarded;
use crate::sys::process::recording_owner_pid;
use core::ffi::{c_int, c_void};
use core::ptr;
use cupeer_spec::record::end::RecordedEnd;

unsafe extern "C" {
    fn on_exit(told: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    fn __cxa_at_quick_exit(told: extern "C" fn(*mut c_void), library: *mut c_void) -> c_int;
}

#[unsafe(link_section = ".data.start")]
static UNDERSCORE: Next = Next::new(c"_exit");
#[unsafe(link_section = ".data.start")]
static CAPITAL: Next = Next::new(c"_Exit");

/// Finds the next definitions and, if the process is recorded, registers functions that run at its end. They are registered
/// before the program begins, so the destructors of the program and of all libraries run first: a process that crashes in one of
/// them has not returned. Only stdio flushes its buffers later.
pub fn begin() {
    UNDERSCORE.find();
    CAPITAL.find();
    if settings::get().record.is_some() {
        // SAFETY: both functions are ours, and this library is never unloaded.
        unsafe {
            on_exit(at_exit, ptr::null_mut());
            __cxa_at_quick_exit(at_quick_exit, ptr::null_mut());
        }
    }
}

extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    outlived::note_end(status as u8);
    recorder::note_end(RecordedEnd::Returned(status as u8));
}

extern "C" fn at_quick_exit(_: *mut c_void) {
    report_bypasses(bypasses::may_find_bypass);
    status::report_exit();
    recorder::note_end(RecordedEnd::ReturnedSomething);
}

/// Replaces libc's `_exit`: records the end of the process, and continues to the next definition.
///
/// # Safety
///
/// As for libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    record_end_and_exit(status, &UNDERSCORE)
}

/// Replaces libc's `_Exit`: records the end of the process, and continues to the next definition.
///
/// # Safety
///
/// As for libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    record_end_and_exit(status, &CAPITAL)
}

/// Reports libraries whose calls bypassed us, if `may_be_any` returns true. Many programs end without reaching this code, so
/// nothing else depends on it.
pub fn report_bypasses(may_be_any: impl FnOnce() -> bool) {
    let is_heard = log::is_on() || settings::get().record.is_some();
    if is_heard && may_be_any() {
        guarded(|| bypasses::look_through_all(recorder::has_no_calls()));
    }
}

/// Returns true if a process that ends without destructors must be searched for bypasses. A child of vfork is not searched.
/// Forked children usually end without destructors; there may be many, and they have the bypasses of their parent.
fn is_search_needed_at_end() -> bool {
    let is_own = || recording_owner_pid() == std::process::id();
    bypasses::has_unbound() || !forks::is_forked() && bypasses::may_find_bypass() && is_own()
}

fn record_end_and_exit(status: c_int, next: &Next) -> ! {
    check::print_deferred();
    outlived::note_end(status as u8);
    report_bypasses(is_search_needed_at_end);
    status::report_exit();
    recorder::note_end(RecordedEnd::Left(status as u8));
    let next = next.get();
    if next != 0 {
        // SAFETY: the address of a function of this name, which has this type.
        unsafe { core::mem::transmute::<usize, extern "C" fn(c_int) -> !>(next)(status) }
    }
    loop {
        // SAFETY: ends the process, as libc's function does.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}
