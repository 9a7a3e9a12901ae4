//! The part of the process layer that depends on the processor's calling convention: our block of thread-local words,
//! and code that must leave every argument register and the stack as the caller set them.
//!
//! This file has the part that is the same on all processors; each processor has its own file with the same names. A
//! port to another processor adds three files: here, in `unwind`, and in `entry::arch`.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
mod own;

use core::arch::global_asm;
use core::ffi::{c_char, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use cupeer_spec::record::BlockHeader;

pub use own::{
    BEHIND_DESCRIPTION, COUNTER, FIRST_VERSION, INTACT, LARGEST_PAGE, MARK, SAVED_NUMBERS, Saved, add,
    asynchronous, by_resolver, forward_asynchronously, jump_target, kept_by, on_stack, page_size,
    saved_registers, stack_height, thread, thread_description, thread_pointer, ticks, valgrind,
};
pub(crate) use own::{common_asm, deciding_entry, noting_entry, unwinder_function};

/// What each thread keeps. Zero at the start of a thread, no destructor: calls come also after a thread's
/// destructors have run.
#[repr(C)]
pub struct Thread {
    /// The return address of the call that entered last.
    pub caller: usize,
    /// The function that it entered, plus 1.
    pub entered: u32,
    /// A bit for each function that has a run, by its number modulo 32: see `recorder::repeats`.
    pub runs: u32,
    /// The function whose call we are forwarding, plus 1; above it the low half of the number of the call's slot, 0 where it has
    /// none.
    pub inside: u64,
    /// Where that word lies on the stack for as long as the call is being forwarded.
    pub inside_at: usize,
    /// The function that we forward to.
    pub inside_real: usize,
    /// Where what the driver logs about the call that it is in is kept; null where it is not. See `driver::log`.
    pub driver_messages: *mut c_void,
    /// Where the next slot of its stream lies; at or behind `window_end` where there is no room. See `record`.
    pub next_slot: usize,
    pub window_end: usize,
    /// The number of the slot at address A in its stream is A / 64 plus this.
    pub slot_bias: usize,
    /// The process's record that the window belongs to.
    pub epoch: u64,
    pub window: *mut BlockHeader,
    /// The library that the last recorded call came from, which the record knows.
    pub known: (usize, usize),
    /// Who is about to write to the window, while somebody is: where the stack stands, above a byte of `turn`; else 0. A
    /// signal handler's call that comes in between puts back what it has found. See `recorder::stream`.
    pub filling: usize,
    /// How often the thread has left a window that it was about to write to.
    pub turn: usize,
    /// The state of the libraries then.
    pub known_generation: u32,
    /// Lines that this thread has written.
    pub written: u64,
    /// Lines that this thread has logged.
    pub logged: AtomicU64,
    /// What the last call that was looked at for a rule of faults returned, behind a bit that says that there was one, and
    /// the number of the thread: see `fault::inject`.
    pub result: u64,
    pub number: u64,
    /// The window that it had to leave so at last, and 1 added where that is over; 0 where there was none.
    pub kept: usize,
    /// The `memory::Region` where its collections lie while it makes some.
    pub region: *mut c_void,
    /// Whether the thread is going through the objects of the process: see `elf`.
    pub iterating: usize,
    /// What a thread that can be cancelled at any instruction forwards to next: see [`asynchronous`].
    pub target: usize,
    /// Where its own stack lies: see `stack`.
    pub stack: (usize, usize),
    /// The start of the other stack that it is on, else 0; and where it stood on the one before. See `aside`.
    pub aside: (usize, usize),
    /// The last context that was seen current, and the record in which it was: see `driver::questions`.
    pub context: (u64, u64),
    /// Where it counts allocations; 0 before it does, 1 where threads do together: see `recorder::counted`.
    pub cells: usize,
    /// What is known of the memory that a call allocates or frees, while it is forwarded: see `call::memory`.
    pub memory: u64,
    /// How many calls it has noted that used shared memory, and behind how many pauses: see `recorder::used`.
    pub noted: (u32, u32),
    /// What it does again and again, a `repeats::Repeats`: see `recorder::repeats`.
    pub repeats: *mut c_void,
    /// What `dlerror` shall say in place of our marker: see `resolve::dlerror`.
    pub dlerror: [c_char; 800],
}

/// Offset of [`Thread::entered`], for the entries below.
pub const ENTERED_OFFSET: usize = core::mem::offset_of!(Thread, entered);
/// The bit of [`Thread::entered`] that says that the call came through [`asynchronous`].
pub const ASYNCHRONOUS: u32 = 1 << 31;
const _: () = assert!(core::mem::offset_of!(Thread, caller) == 0 && size_of::<Thread>() == 1072);

// Rust's own thread locals cost a call of __tls_get_addr and may allocate on first use; this block is part
// of the thread's initial memory, because the library is preloaded. A recorded call touches two of its cache lines.
global_asm!(
    ".section .tbss.cupeer_thread,\"awT\",@nobits",
    ".globl cupeer_thread",
    ".hidden cupeer_thread",
    ".type cupeer_thread,@object",
    ".balign 64",
    "cupeer_thread:",
    ".zero 1072",
    ".size cupeer_thread, 1072",
    ".text",
);

/// Where, from the thread pointer on, the C library keeps whether this thread can be cancelled at any instruction: in the
/// two lowest bits of a byte, which may also say that it cannot be cancelled at all. 0 before it is found: that byte of
/// the thread pointer itself never has them.
#[unsafe(link_section = ".data.start")]
pub static CANCEL_TYPE: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C-unwind" {
    pub fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
}

/// Can be cancelled where it calls what may be a cancellation point.
pub const DEFERRED: c_int = 0;
/// Can be cancelled at any instruction.
const AT_ANY_INSTRUCTION: c_int = 1;

/// Finds [`CANCEL_TYPE`], by what the C library changes when it is told so. Called by our constructor.
#[inline(never)]
#[unsafe(link_section = ".text.startup")]
pub fn find_cancel_type() {
    /// No C library describes a thread in fewer words.
    const END: usize = 128;
    const FROM: usize = 8;
    let own = thread_description();
    // SAFETY: these words are the C library's, of this thread, aligned, and readable.
    let words =
        || core::array::from_fn::<u64, END, _>(|i| unsafe { (own as *const u64).add(i).read_volatile() });
    let mut before = 0;
    // SAFETY: `before` is writable. Nobody cancels the thread that runs the constructors.
    let (deferred, at_any, again) = unsafe {
        pthread_setcanceltype(DEFERRED, &mut before);
        let deferred = words();
        pthread_setcanceltype(AT_ANY_INSTRUCTION, ptr::null_mut());
        let at_any = words();
        pthread_setcanceltype(DEFERRED, ptr::null_mut());
        let again = words();
        pthread_setcanceltype(before, ptr::null_mut());
        (deferred, at_any, again)
    };
    let mut changed = (FROM..END).filter(|i| deferred[*i] != at_any[*i]);
    if let (Some(place), None) = (changed.next(), changed.next())
        && deferred == again
    {
        // The one byte that has changed.
        let byte = (deferred[place] ^ at_any[place]).trailing_zeros() / 8;
        let [deferred, at_any] = [deferred, at_any].map(|words| words[place] >> (8 * byte));
        if deferred & 3 == 0 && at_any & 3 != 0 && deferred >> 8 == at_any >> 8 {
            let place = own.wrapping_add(8 * place + byte as usize);
            CANCEL_TYPE.store(place.wrapping_sub(thread_pointer()), Relaxed);
        }
    }
}

/// The bytes of arguments on the stack that are passed on: more than any function of the table has.
const STACKED: usize = 128;

/// What a relocation has the loader keep at a place.
#[derive(Clone, Copy, PartialEq)]
pub enum Relocation {
    /// The address of its symbol.
    Address,
    /// A copy of what lies there.
    Copy,
}

/// What a deciding entry does next. Two words, returned in registers.
#[repr(C)]
pub struct Decision {
    /// Where to jump to, or 0.
    pub jump: usize,
    /// What to return otherwise.
    pub value: usize,
}
