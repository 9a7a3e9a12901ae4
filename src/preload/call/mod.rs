//! One call on its way through us: enter, inject, forward, substitute, log.
//!
//! What belongs here: the order of the steps, the boundary that keeps our panics from the program, and
//! the guard against re-entry. What does not: how any step is done.

use crate::driver::log::{Ear, Words};
use crate::fault::inject::{self, CallWords, Fault, Forward};
use crate::log::{self, Call};
use crate::record::{self, Recorded, Returned};
use crate::resolve::{driver, handed_out, linked};
use crate::settings;
use crate::sys::arch::{
    ASYNCHRONOUS, DEFERRED, Thread, forward_asynchronously, pthread_setcanceltype, stack_height, thread,
};
use crate::sys::aside::with_room;
use crate::sys::caller::Caller;
use crate::sys::elf;
use crate::sys::object::Object;
use core::ffi::{c_char, c_int, c_void};
use core::fmt::{self, Write};
use core::ptr;
use cupeer_spec::abi::{CUresult, FunctionPointer, nvmlReturn_t};
use cupeer_spec::function::FnId;
use cupeer_spec::value::{Format, MOST_TEXT};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What is known when a call enters.
pub struct Entered {
    /// The address of the next function: the one that runs without us.
    pub real: usize,
    /// What to call in its place: that, or what can be cancelled at any instruction meanwhile.
    pub through: usize,
    /// Where the call will return to in the program; 0 where a signal handler's call hid it.
    caller: usize,
    /// Whether this call comes out of our own forwarding of the same function: a wrapper behind us that
    /// looked the function up. It is the same call of the program, so it is not seen again.
    again: bool,
}

/// A type of results, of which one says that there is no such library.
pub trait ResultCode: Copy {
    /// The code as a number.
    fn number(self) -> i32;

    /// The code of a number.
    fn of(number: i32) -> Self;
}

impl ResultCode for CUresult {
    fn number(self) -> i32 {
        self.0
    }

    fn of(number: i32) -> Self {
        CUresult(number)
    }
}

impl ResultCode for i32 {
    fn number(self) -> i32 {
        self
    }

    fn of(number: i32) -> Self {
        number
    }
}

impl ResultCode for nvmlReturn_t {
    fn number(self) -> i32 {
        self.0
    }

    fn of(number: i32) -> Self {
        nvmlReturn_t(number)
    }
}

/// Takes up a call that came through a traced entry: the export's, or that of look-ups.
#[inline(always)]
pub fn enter<const EXPORT: bool>(id: FnId) -> Entered {
    let thread = thread();
    // SAFETY: the block is this thread's alone.
    let Thread { caller, entered, inside, inside_at, inside_real, .. } = unsafe { &*thread };
    // A signal handler that called between the entry's note and this line has left its own.
    let is_plain = *entered == id as u32 + 1;
    let is_asynchronous = !is_plain && *entered == (id as u32 + 1) | ASYNCHRONOUS;
    let caller = if is_plain || is_asynchronous { *caller } else { 0 };
    let real = if EXPORT { linked::real(id, caller) } else { driver::real(id) };
    let mut through = real;
    if is_asynchronous {
        // SAFETY: as above.
        unsafe { (*thread).target = real };
        through = forward_asynchronously as *const () as usize;
    }
    // The same function, from the library that our own forwarding of it has called, or from a tool behind that. A frame that
    // was left by longjmp, and a callback of the program, do not count.
    let again =
        *inside == id as u32 + 1 && stack_height() < *inside_at && is_forwarding(id, caller, *inside_real);
    Entered { real, through, caller, again }
}

/// Whether a call of a function comes from who forwards it: the library that we have called for it, or another that has a
/// function of this name itself, or gives its own out by a dlsym of its own.
#[cold]
#[inline(never)]
fn is_forwarding(id: FnId, caller: usize, called: usize) -> bool {
    let is_tool = |object: &Object| {
        let has = |name| object.symbol(name).is_some_and(|symbol| !symbol.is_data);
        !elf::is_ours(object) && (has(driver::name_of(id as usize)) || has(c"dlsym"))
    };
    elf::is_same_object(caller, called) || elf::containing(caller).as_ref().is_some_and(is_tool)
}

/// Marks the function that this thread is forwarding, until dropped; also where an exception or a
/// cancellation of the program passes through.
struct Inside {
    before: (u32, usize, usize, *mut Words),
}

impl Inside {
    /// `words` takes what the driver says meanwhile, where it is not null.
    #[inline(always)]
    fn enter(id: FnId, real: usize, words: *mut Words) -> Self {
        // SAFETY: the block is this thread's alone.
        let thread = unsafe { &mut *thread() };
        let before = (thread.inside, thread.inside_at, thread.inside_real, thread.words);
        (thread.inside, thread.inside_at, thread.inside_real) = (id as u32 + 1, stack_height(), real);
        thread.words = words;
        Inside { before }
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the block is this thread's alone.
        let thread = unsafe { &mut *thread() };
        (thread.inside, thread.inside_at, thread.inside_real, thread.words) = self.before;
    }
}

/// What is done with the arguments of a call.
pub struct Arguments<P, S, M, W> {
    /// Prints them.
    pub print: P,
    /// Puts them into the record; is told whether the call has succeeded.
    pub store: S,
    /// Adds what of them does not fit there.
    pub more: M,
    /// Gives them to the rules of faults.
    pub words: W,
}

/// Runs the steps of a call. `forward` calls the real function, and `pointer` is the output that holds a function,
/// where there is one.
#[inline(always)]
pub fn run<R: ResultCode>(
    id: FnId,
    entered: Entered,
    forward: impl Fn() -> R,
    arguments: Arguments<
        impl Fn(bool, &mut dyn Write, Format) -> fmt::Result,
        impl Fn(&mut record::Arguments, bool),
        impl Fn(&mut record::Detail, bool),
        impl Fn(&mut CallWords),
    >,
    pointer: Option<*mut FunctionPointer>,
) -> R {
    if entered.again {
        return forward();
    }
    if inject::may_concern(id, &arguments.words) {
        let Arguments { print, store, more, words } = &arguments;
        let arguments: Looked = Arguments { print, store, more, words };
        return R::of(concerned(id, entered, &|| forward().number(), &arguments, pointer));
    }
    let settings = settings::get();
    if !settings.is_logged(id) && !settings.is_recorded(id) && pointer.is_none() {
        // It came here because a rule of faults names the function, and that was all.
        return forward();
    }
    steps(id, entered, forward, &arguments, pointer, None)
}

/// The arguments of a call that rules of faults look at.
type Looked<'a> = Arguments<
    &'a dyn Fn(bool, &mut dyn Write, Format) -> fmt::Result,
    &'a dyn Fn(&mut record::Arguments, bool),
    &'a dyn Fn(&mut record::Detail, bool),
    &'a dyn Fn(&mut CallWords),
>;

/// The same for a call that a rule of faults may concern: once for all functions.
#[cold]
#[inline(never)]
fn concerned(
    id: FnId,
    entered: Entered,
    forward: &dyn Fn() -> i32,
    arguments: &Looked,
    pointer: Option<*mut FunctionPointer>,
) -> i32 {
    let mut words = [0; 8];
    (arguments.words)(&mut words);
    let call = Forward { id, words: &words, caller: entered.caller };
    let mut fault = None;
    quietly(|| fault = Fault::of(&call));
    steps(id, entered, forward, arguments, pointer, fault.as_mut())
}

#[inline(always)]
fn steps<R: ResultCode>(
    id: FnId,
    entered: Entered,
    forward: impl Fn() -> R,
    arguments: &Arguments<
        impl Fn(bool, &mut dyn Write, Format) -> fmt::Result,
        impl Fn(&mut record::Arguments, bool),
        impl Fn(&mut record::Detail, bool),
        impl Fn(&mut CallWords),
    >,
    pointer: Option<*mut FunctionPointer>,
    mut fault: Option<&mut Fault>,
) -> R {
    let Entered { caller, .. } = entered;
    let settings = settings::get();
    let is_hit = fault.as_ref().is_some_and(|fault| fault.is_hit());
    let mut logged = settings.is_logged(id) || is_hit && settings.log.is_some();
    let mut record = Recorded::new(id, &arguments.store);
    if settings.is_recorded(id) || is_hit && settings.record.is_some() {
        record.begin(caller, is_hit);
    }
    // What is not in the record is not judged, either: freeing what nobody shares.
    let is_heard = settings.check.is_some() && record.has_begun();
    let ear = if is_heard { Ear::new() } else { Ear::deaf() };
    let started = if logged { log::now() } else { 0 };
    let instead = fault.as_mut().and_then(|fault| act_before(fault, &|fault| record.tell(fault)));
    let mut result = match instead {
        Some(instead) => R::of(instead),
        None => {
            let _inside = Inside::enter(id, entered.real, ear.words());
            forward()
        }
    };
    if let Some(fault) = &mut fault {
        let (given, is_altered) = act_after(fault, result.number());
        result = R::of(given);
        logged |= fault.is_hit() && settings.log.is_some();
        if is_altered {
            record.mark_injected();
        }
    }
    let duration = if logged { log::now().saturating_sub(started) } else { 0 };
    let succeeded = result.number() == 0;
    let has_more = record.finish(result.number(), succeeded);
    let fault = fault.map(|fault| &*fault);
    if !logged && !has_more && pointer.is_none() && fault.is_none() {
        return result;
    }
    quietly(|| {
        if let (Some(pointer), true) = (pointer, succeeded) {
            // SAFETY: after success the driver has written the pointer, unless the caller passed null,
            // which is checked there.
            unsafe { handed_out::substitute(pointer) };
        }
        if let Some(fault) = fault {
            fault.count_denied();
        }
        if has_more || fault.is_some_and(|fault| fault.is_hit() && record.was_kept()) {
            let returned = Returned {
                caller,
                result: result.number(),
                words: ear.text(),
                print: &|out, format| (arguments.print)(succeeded, out, format),
                fault,
            };
            record.explain(&returned, |detail| (arguments.more)(detail, succeeded));
        }
        if logged {
            log::call(&Call {
                id,
                caller: Caller::of(caller, id, succeeded),
                started: if started == 0 { log::now() } else { started },
                duration,
                result: result.number(),
                print: &|out, format| (arguments.print)(succeeded, out, format),
                fault,
            });
        }
    });
    result
}

/// What rules of faults do before a call: the result in place of it, where there is one.
#[cold]
#[inline(never)]
fn act_before(fault: &mut Fault, tell: &dyn Fn(&Fault)) -> Option<i32> {
    quietly_knowing(|cancelling| fault.before(cancelling, tell));
    fault.instead()
}

/// What they do after it: the result that the program gets, and whether that or an output is another than the driver's.
#[cold]
#[inline(never)]
fn act_after(fault: &mut Fault, result: i32) -> (i32, bool) {
    let mut given = result;
    quietly_knowing(|cancelling| given = fault.after(cancelling, result));
    (given, fault.is_hit() && fault.is_altered())
}

/// Runs work of ours that must leave no trace in the program: its panic is dropped, `errno` is kept, and a
/// cancellation of the thread waits until it is done. It has as much stack as it needs.
pub fn quietly(work: impl FnOnce()) {
    /// Once for all that is done so.
    #[inline(never)]
    fn done(work: &mut dyn FnMut()) {
        let before = begin_quietly();
        // A panic here is a fault of ours, and the program gets its answer all the same.
        let _ = catch_unwind(AssertUnwindSafe(|| with_room(work)));
        end_quietly(before);
    }
    let mut work = Some(work);
    done(&mut || work.take().into_iter().for_each(|work| work()));
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// Whether a thread of the program can be cancelled: see [`left_by_jump`].
#[derive(Clone, Copy)]
pub struct Cancelling(c_int);

/// Does what a handler of the program may leave by siglongjmp, within `quietly_knowing`: then the thread can be cancelled
/// as before. Nothing may be done here that a cancellation ends.
pub fn left_by_jump(Cancelling(before): Cancelling, work: impl FnOnce()) {
    let (mut kind, mut state) = (0, 0);
    // SAFETY: both are writable. Of the deferred type, nothing ends the thread before it calls something that may.
    unsafe {
        pthread_setcanceltype(DEFERRED, &mut kind);
        pthread_setcancelstate(before, &mut state);
    }
    work();
    // SAFETY: as above.
    unsafe {
        pthread_setcancelstate(state, ptr::null_mut());
        pthread_setcanceltype(kind, ptr::null_mut());
    }
}

/// The same as [`quietly`] for work that waits, which is told how the thread can be cancelled.
fn quietly_knowing(work: impl FnOnce(Cancelling)) {
    let before = begin_quietly();
    let _ = catch_unwind(AssertUnwindSafe(|| work(before.0)));
    end_quietly(before);
}

/// How the thread can be cancelled, and `errno`. By itself, because the stack may be small.
fn begin_quietly() -> (Cancelling, c_int) {
    let mut cancelling = 0;
    // SAFETY: __errno_location gives this thread's errno, always valid; `cancelling` is writable.
    unsafe {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut cancelling);
        (Cancelling(cancelling), *libc::__errno_location())
    }
}

fn end_quietly((Cancelling(cancelling), errno): (Cancelling, c_int)) {
    // SAFETY: as above.
    unsafe {
        *libc::__errno_location() = errno;
        pthread_setcancelstate(cancelling, ptr::null_mut());
    }
}

/// Prints the name of an argument.
pub fn print_name(separator: &str, name: &str, out: &mut dyn Write, format: Format) -> fmt::Result {
    if format.json { write!(out, "{separator}\"{name}\":") } else { write!(out, "{separator}{name}=") }
}

/// Copies memory of the program, found out without the risk of a fault. Gives how many bytes could be read.
pub fn copy_memory(address: usize, place: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: place.as_mut_ptr().cast(), iov_len: place.len() };
    let remote = libc::iovec { iov_base: address as *mut c_void, iov_len: place.len() };
    // SAFETY: the kernel reads from this process on our behalf, and answers an error where it cannot.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) };
    if read > 0 {
        return read as usize;
    }
    // Not one byte where the range leaves the mapped memory in its first page; up to the end of that page it
    // may be there.
    const PAGE: usize = 4096;
    let to_end = PAGE - address % PAGE;
    if to_end < place.len() { copy_memory(address, &mut place[..to_end]) } else { 0 }
}

/// Whether memory of the program can be read, found out without the risk of a fault.
pub fn is_readable<T>(pointer: *const T, count: usize) -> bool {
    let mut scratch = [0u8; 1024];
    let size = count.saturating_mul(size_of::<T>());
    match scratch.get_mut(..size) {
        Some(place) if !pointer.is_null() => copy_memory(pointer as usize, place) == size,
        _ => false,
    }
}

/// A copy of a text of the program, as much of it as is printed. `None` where it cannot be read.
pub fn copy_text(text: *const c_char) -> Option<[c_char; MOST_TEXT + 2]> {
    let mut copy = [0u8; MOST_TEXT + 2];
    if text.is_null() || copy_memory(text as usize, &mut copy[..=MOST_TEXT]) == 0 {
        return None;
    }
    Some(copy.map(|byte| byte as c_char))
}
