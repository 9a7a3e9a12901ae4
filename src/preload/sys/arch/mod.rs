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
    BEHIND_DESCRIPTION, COUNTER, FIRST_VERSION, INTACT, LARGEST_PAGE, MARK, SAVED_NUMBERS, Saved, add_uninterrupted,
    asynchronous, forward_asynchronously, jump_target, on_stack, page_size, relocation_of, resolve_indirect,
    saved_registers, stack_height, thread, thread_description, thread_pointer, ticks, valgrind,
};
pub(crate) use own::{common_asm, deciding_entry, noting_entry, unwinder_function};

/// Our data about a thread. It is all zeros at the start of a thread, and has no destructor, because a thread can still make
/// calls after its destructors ran.
#[repr(C)]
pub struct Thread {
    /// Return address of the last call that entered one of our traced entries.
    pub caller: usize,
    /// Number of the function of that call, plus 1.
    pub entered: u32,
    /// A bit for each function that has a run in this thread, at the function's number modulo 32: see `recorder::repeats`.
    pub runs: u32,
    /// Number of the function whose call is being forwarded, plus 1, in the low half. In the high half: the low half of the
    /// number of the call's slot, 0 if it has none.
    pub inside: u64,
    /// Address on the stack of the saved `inside` word while the call is being forwarded.
    pub inside_at: usize,
    /// Address of the function to which the call is being forwarded.
    pub inside_real: usize,
    /// Messages that the driver logs about the current call; null if they are not kept. See `driver::log`.
    pub driver_messages: *mut c_void,
    /// Address of the next slot of the thread's stream; at or behind `window_end` if the window is full. See `recorder::stream`.
    pub next_slot: usize,
    pub window_end: usize,
    /// The number of the slot at address A in its stream is A / 64 plus this.
    pub slot_bias: usize,
    /// Epoch of the record that the thread's window belongs to; 0 before it has one.
    pub epoch: u64,
    pub window: *mut BlockHeader,
    /// Start and length in bytes of the library that the last recorded call came from, which the record describes.
    pub known: (usize, usize),
    /// Nonzero while a call is about to write to the window: its stack height, above a byte of `turn`. A signal
    /// handler's call that interrupts it restores the value that it found. See `recorder::stream`.
    pub filling: usize,
    /// Number of times that the thread left a window while a call was about to write to it.
    pub turn: usize,
    /// Value of `libraries_generation` when `known` was set.
    pub known_generation: u32,
    /// Number of lines of this thread that were written to the log.
    pub written: u64,
    /// Number of lines that this thread has logged, written or not.
    pub logged: AtomicU64,
    /// Result of the last call that was tested for a fault, below a bit that is set if there was such a call; and the number of
    /// the thread: see `fault::inject`.
    pub result: u64,
    pub number: u64,
    /// Address of the window that the thread left while a call was about to write to it, plus 1 when no call writes there any
    /// more; 0 without such a window.
    pub kept: usize,
    /// Pointer to the `memory::Region` that provides memory for our collections while the thread creates some; otherwise null.
    pub region: *mut c_void,
    /// Nonzero while the thread iterates over the objects of the process: see `elf`.
    pub iterating: usize,
    /// Address of the next function that a thread forwards to if it can be cancelled at any instruction: see [`asynchronous`].
    pub target: usize,
    /// Address range of the thread's own stack: see `stack`.
    pub stack: (usize, usize),
    /// Start address of the other stack that the thread runs on, else 0, and the height at which it left its own stack. See
    /// `aside`.
    pub aside: (usize, usize),
    /// The context that was current at the last query, and the record at that time: see `driver::queries`.
    pub context: (u64, u64),
    /// Address of the thread's counters of allocations; 0 before the first allocation, 1 if threads share counters: see
    /// `recorder::counted`.
    pub cells: usize,
    /// Facts about the memory that a call allocates or frees, while it is forwarded: see `call::memory`.
    pub memory: u64,
    /// Number of pauses at the last noted use of shared memory, and the number of uses that the thread noted since then: see
    /// `recorder::used`.
    pub noted: (u32, u32),
    /// Pointer to the thread's memory of repeated calls, a `repeats::Repeats`: see `recorder::repeats`.
    pub repeats: *mut c_void,
    /// Text that `dlerror` returns in place of our marker: see `resolve::dlerror`.
    pub dlerror: [c_char; 800],
}

/// Offset of [`Thread::entered`] in bytes, for the entries below.
pub const ENTERED_OFFSET: usize = core::mem::offset_of!(Thread, entered);
/// Bit of [`Thread::entered`] that is set if the call came through [`asynchronous`].
pub const ASYNCHRONOUS: u32 = 1 << 31;
const _: () = assert!(core::mem::offset_of!(Thread, caller) == 0 && size_of::<Thread>() == 1072);

// Rust's own thread locals cost a call of __tls_get_addr and may allocate on first use. This block is part of the thread's
// initial memory, because the library is preloaded. A recorded call touches two of its cache lines.
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

/// Offset, from the thread pointer, of the byte in which the C library keeps the cancellation type of a thread. The two lowest
/// bits are set if the thread can be cancelled at any instruction; other bits may disable cancellation. Before the byte is found,
/// the offset is 0, and those bits are never set in the byte at the thread pointer.
#[unsafe(link_section = ".data.start")]
pub static CANCEL_TYPE: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C-unwind" {
    pub fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
}

/// Cancellation type of a thread that can be cancelled only in functions that are cancellation points.
pub const DEFERRED: c_int = 0;
/// Cancellation type of a thread that can be cancelled at any instruction.
const AT_ANY_INSTRUCTION: c_int = 1;

/// Finds [`CANCEL_TYPE`]: the offset of the byte that the C library changes when the type is set. Called by our constructor.
#[inline(never)]
#[unsafe(link_section = ".text.startup")]
pub fn find_cancel_type() {
    /// End of the search, in words. No C library's description of a thread is shorter.
    const END: usize = 128;
    const FROM: usize = 8;
    let own = thread_description();
    // SAFETY: these words are the C library's, of this thread, aligned, and readable.
    let words = || core::array::from_fn::<u64, END, _>(|i| unsafe { (own as *const u64).add(i).read_volatile() });
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
        // Index of the one byte that has changed.
        let byte = (deferred[place] ^ at_any[place]).trailing_zeros() / 8;
        let [deferred, at_any] = [deferred, at_any].map(|words| words[place] >> (8 * byte));
        if deferred & 3 == 0 && at_any & 3 != 0 && deferred >> 8 == at_any >> 8 {
            let place = own.wrapping_add(8 * place + byte as usize);
            CANCEL_TYPE.store(place.wrapping_sub(thread_pointer()), Relaxed);
        }
    }
}

/// Number of bytes of arguments on the stack that are passed on, which is more than any function of the table has.
const STACKED: usize = 128;

/// The value that a relocation makes the loader store.
#[derive(Clone, Copy, PartialEq)]
pub enum Relocation {
    /// The address of the relocation's symbol.
    Address,
    /// A copy of the data at the symbol.
    Copy,
}

/// The result of `decide` in a deciding entry: two words, which are returned in registers.
#[repr(C)]
pub struct Decision {
    /// Address to jump to; 0 to return `value` instead.
    pub jump: usize,
    /// Value that the entry returns if `jump` is 0.
    pub value: usize,
}
