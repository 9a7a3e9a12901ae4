//! Records the status that the process passes to `exit`, `quick_exit`, or `_exit`.
//!
//! A process that is killed, or that calls the kernel directly to exit, never reaches this code.

use crate::check;
use crate::log::{self, status};
use crate::recorder::{self, outlived};
use crate::resolve::{escapes, loader};
use crate::settings;
use crate::sys::forks;
use crate::sys::guard::guarded;
use crate::sys::process::owner;
use core::ffi::{c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use cupeer_spec::record::end::End;

unsafe extern "C" {
    fn on_exit(told: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
    fn __cxa_at_quick_exit(told: extern "C" fn(*mut c_void), library: *mut c_void) -> c_int;
}

/// The next definitions of both names, found when we are loaded: they are called in signal handlers and in children of
/// vfork, where nothing may be looked up.
#[unsafe(link_section = ".data.start")]
static UNDERSCORE: AtomicUsize = AtomicUsize::new(0);
#[unsafe(link_section = ".data.start")]
static CAPITAL: AtomicUsize = AtomicUsize::new(0);

/// Finds them, and takes a place among those who are told of the end, where something is recorded. The program's destructors
/// and those of all libraries run before it is our turn, because we take our place before the program begins: who crashes in
/// one has not returned. Only what stdio has yet to write comes after us.
pub fn begin() {
    UNDERSCORE.store(loader::look_up(libc::RTLD_NEXT, c"_exit"), Relaxed);
    CAPITAL.store(loader::look_up(libc::RTLD_NEXT, c"_Exit"), Relaxed);
    if settings::get().record.is_some() {
        // SAFETY: both functions are ours, and this library is never unloaded.
        unsafe {
            on_exit(at_exit, ptr::null_mut());
            __cxa_at_quick_exit(at_quick_exit, ptr::null_mut());
        }
    }
}

extern "C" fn at_exit(status: c_int, _: *mut c_void) {
    outlived::ends(status as u8);
    recorder::ends(End::Returned(status as u8));
}

extern "C" fn at_quick_exit(_: *mut c_void) {
    name_escapes(escapes::may_be_any);
    status::ended();
    recorder::ends(End::ReturnedSomething);
}

/// The libc function, interposed.
///
/// # Safety
///
/// That of libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    leave(status, &UNDERSCORE)
}

/// The libc function, interposed.
///
/// # Safety
///
/// That of libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    leave(status, &CAPITAL)
}

/// Names what bypassed us, if there may be any. Nothing else depends on it, because many programs end without it.
pub fn name_escapes(may_be_any: impl FnOnce() -> bool) {
    let is_heard = log::is_on() || settings::get().record.is_some();
    if is_heard && may_be_any() {
        guarded(|| escapes::look_through_all(recorder::is_empty()));
    }
}

/// Whether a process that ends without destructors is to be looked at: not a child of vfork. Forked children end so, of
/// which there may be many, and find what their parent finds.
fn is_unseen_end() -> bool {
    let is_own = || owner() == std::process::id();
    escapes::has_unbound() || !forks::is_forked() && escapes::may_be_any() && is_own()
}

fn leave(status: c_int, next: &AtomicUsize) -> ! {
    check::say_held();
    outlived::ends(status as u8);
    name_escapes(is_unseen_end);
    status::ended();
    recorder::ends(End::Left(status as u8));
    let next = next.load(Relaxed);
    if next != 0 {
        // SAFETY: the address of a function of this name, which has this type.
        unsafe { core::mem::transmute::<usize, extern "C" fn(c_int) -> !>(next)(status) }
    }
    loop {
        // SAFETY: ends the process, as libc's function does.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}
