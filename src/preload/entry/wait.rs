//! Records the end of children that a signal killed: such a child cannot record its own end, but the process that
//! waits for it learns the signal.

use crate::job::ended_child;
use crate::resolve::loader::Next;
use crate::settings;
use crate::sys::guard::guarded;
use core::ffi::{c_int, c_void};
use core::ptr;
use libc::{id_t, idtype_t, pid_t, siginfo_t};

#[unsafe(link_section = ".data.start")]
static WAIT: Next = Next::new(c"wait");
#[unsafe(link_section = ".data.start")]
static WAITPID: Next = Next::new(c"waitpid");
#[unsafe(link_section = ".data.start")]
static WAIT3: Next = Next::new(c"wait3");
#[unsafe(link_section = ".data.start")]
static WAIT4: Next = Next::new(c"wait4");
#[unsafe(link_section = ".data.start")]
static WAITID: Next = Next::new(c"waitid");

/// Finds the next definitions of the functions that we interpose here.
pub fn begin() {
    [&WAIT, &WAITPID, &WAIT3, &WAIT4, &WAITID].into_iter().for_each(Next::find);
}

/// Returns the next definition of a function with its type; if there is none, fails with an error.
macro_rules! next {
    ($place:expr, $type:ty, $missing:expr) => {
        match $place.get() {
            0 => return $missing,
            // SAFETY: the address of a function of this name, which has this type.
            address => unsafe { core::mem::transmute::<usize, $type>(address) },
        }
    };
}

/// Calls `work` with a place for the status of a child: the program's own place if it passed one. If the status says that a
/// signal killed the child, notes that.
fn note_if_killed(status: *mut c_int, work: impl FnOnce(*mut c_int) -> pid_t) -> pid_t {
    let mut own = 0;
    let place = if status.is_null() { &raw mut own } else { status };
    let pid = work(place);
    if pid > 0 {
        // SAFETY: the call has written there.
        let status = unsafe { place.read_unaligned() };
        if libc::WIFSIGNALED(status) {
            note_if_recording(pid, libc::WTERMSIG(status));
        }
    }
    pid
}

#[cold]
fn note_if_recording(pid: pid_t, signal: c_int) {
    if settings::get().record.is_some() {
        guarded(|| ended_child::note_killed(pid as u32, signal as u8));
    }
}

/// Replaces libc's `wait`: notes the end of a child that a signal killed.
///
/// # Safety
///
/// As for libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn wait(status: *mut c_int) -> pid_t {
    let next = next!(WAIT, extern "C-unwind" fn(*mut c_int) -> pid_t, -1);
    note_if_killed(status, |status| next(status))
}

/// Replaces libc's `waitpid`: notes the end of a child that a signal killed.
///
/// # Safety
///
/// As for libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn waitpid(pid: pid_t, status: *mut c_int, options: c_int) -> pid_t {
    let next = next!(WAITPID, extern "C-unwind" fn(pid_t, *mut c_int, c_int) -> pid_t, -1);
    note_if_killed(status, |status| next(pid, status, options))
}

/// Replaces libc's `wait3`: notes the end of a child that a signal killed.
///
/// # Safety
///
/// As for libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn wait3(status: *mut c_int, options: c_int, usage: *mut c_void) -> pid_t {
    let next = next!(WAIT3, extern "C-unwind" fn(*mut c_int, c_int, *mut c_void) -> pid_t, -1);
    note_if_killed(status, |status| next(status, options, usage))
}

/// Replaces libc's `wait4`: notes the end of a child that a signal killed.
///
/// # Safety
///
/// As for libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn wait4(pid: pid_t, status: *mut c_int, options: c_int, usage: *mut c_void) -> pid_t {
    let next = next!(WAIT4, extern "C-unwind" fn(pid_t, *mut c_int, c_int, *mut c_void) -> pid_t, -1);
    note_if_killed(status, |status| next(pid, status, options, usage))
}

/// Replaces libc's `waitid`: notes the end of a child that a signal killed.
///
/// # Safety
///
/// As for libc's function.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn waitid(kind: idtype_t, id: id_t, about: *mut siginfo_t, options: c_int) -> c_int {
    let next = next!(WAITID, extern "C-unwind" fn(idtype_t, id_t, *mut siginfo_t, c_int) -> c_int, -1);
    let result = next(kind, id, about, options);
    // SAFETY: after success, what is not null has been filled.
    if let (0, Some(about)) = (result, unsafe { ptr::NonNull::new(about).map(|about| about.as_ref()) })
        && matches!(about.si_code, libc::CLD_KILLED | libc::CLD_DUMPED)
    {
        // SAFETY: of a child's end, both are filled.
        note_if_recording(unsafe { about.si_pid() }, unsafe { about.si_status() });
    }
    result
}
