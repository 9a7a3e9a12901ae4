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
    asynchronous, forward_asynchronously, jump_target, on_stack, page_size, relocation_of, resolve_indirect,
    saved_registers, stack_height, thread, thread_description, thread_pointer, ticks, valgrind,
};
pub(crate) use own::{common_asm, deciding_entry, noting_entry, unwinder_function};

/// Data of each thread. All zero at the start of a thread, and without a destructor, because calls also come after a
/// thread's destructors ran.
#[repr(C)]
pub struct Thread {
    /// The return address of the call that entered last.
    pub caller: usize,
    /// The function that it entered, plus 1.
    pub entered: u32,
    /// A bit for each function that has a run, by its number modulo 32: see `recorder::repeats`.
    pub runs: u32,
    /// The function whose call is being forwarded, plus 1. Above it: the low half of the number of the call's slot, 0
    /// if it has none.
    pub inside: u64,
    /// Address of that word on the stack while the call is being forwarded.
    pub inside_at: usize,
    /// The function that we forward to.
    pub inside_real: usize,
    /// Messages that the driver logs about the current call; null if they are not kept. See `driver::log`.
    pub driver_messages: *mut c_void,
    /// Address of the next slot of its stream; at or behind `window_end` if the window is full. See `record`.
    pub next_slot: usize,
    pub window_end: usize,
    /// The number of the slot at address A in its stream is A / 64 plus this.
    pub slot_bias: usize,
    /// The process's record that the window belongs to.
    pub epoch: u64,
    pub window: *mut BlockHeader,
    /// The library that the last recorded call came from, which the record knows.
    pub known: (usize, usize),
    /// Nonzero while a call is about to write to the window: its stack height, above a byte of `turn`. A signal
    /// handler's call that interrupts it restores the value that it found. See `recorder::stream`.
    pub filling: usize,
    /// Number of times that the thread left a window while a call was about to write to it.
    pub turn: usize,
    /// The state of the libraries then.
    pub known_generation: u32,
    /// Lines that this thread has written.
    pub written: u64,
    /// Lines that this thread has logged.
    pub logged: AtomicU64,
    /// Result of the last call that was tested for a fault, behind a bit that is set if there was one; and the number
    /// of the thread: see `fault::inject`.
    pub result: u64,
    pub number: u64,
    /// The window that it last left so, plus 1 once that is over; 0 if there was none.
    pub kept: usize,
    /// The `memory::Region` where its collections lie while it makes some.
    pub region: *mut c_void,
    /// Nonzero while the thread iterates over the objects of the process: see `elf`.
    pub iterating: usize,
    /// Next function that a thread forwards to if it can be cancelled at any instruction: see [`asynchronous`].
    pub target: usize,
    /// Range of its own stack: see `stack`.
    pub stack: (usize, usize),
    /// The start of the other stack that it is on, else 0, and its height on the stack before. See `aside`.
    pub aside: (usize, usize),
    /// The last context that was seen current, and the record in which it was: see `driver::queries`.
    pub context: (u64, u64),
    /// Address of its counts of allocations; 0 before the first, 1 if threads count together: see
    /// `recorder::counted`.
    pub cells: usize,
    /// Facts about the memory that a call allocates or frees, while it is forwarded: see `call::memory`.
    pub memory: u64,
    /// Number of noted calls that used shared memory, and the number of pauses before: see `recorder::used`.
    pub noted: (u32, u32),
    /// Repeated calls of the thread, a `repeats::Repeats`: see `recorder::repeats`.
    pub repeats: *mut c_void,
    /// Text for `dlerror` in place of our marker: see `resolve::dlerror`.
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

/// Offset, from the thread pointer, of the byte in which the C library keeps the cancellation type of a thread: the
/// two lowest bits are set if the thread can be cancelled at any instruction, and may say that it cannot be cancelled
/// at all. 0 before it is found: that byte of the thread pointer itself never has those bits.
#[unsafe(link_section = ".data.start")]
pub static CANCEL_TYPE: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C-unwind" {
    pub fn pthread_setcanceltype(kind: c_int, old: *mut c_int) -> c_int;
}

/// The thread can be cancelled in functions that are cancellation points.
pub const DEFERRED: c_int = 0;
/// The thread can be cancelled at any instruction.
const AT_ANY_INSTRUCTION: c_int = 1;

/// Finds [`CANCEL_TYPE`]: the byte that the C library changes when the type is set. Called by our constructor.
#[inline(never)]
#[unsafe(link_section = ".text.startup")]
pub fn find_cancel_type() {
    /// Words to search. No C library's description of a thread is shorter.
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

/// Value that a relocation makes the loader store.
#[derive(Clone, Copy, PartialEq)]
pub enum Relocation {
    /// The address of its symbol.
    Address,
    /// A copy of what lies there.
    Copy,
}

/// Next step of a deciding entry. Two words, returned in registers.
#[repr(C)]
pub struct Decision {
    /// Address to jump to, or 0.
    pub jump: usize,
    /// Value to return otherwise.
    pub value: usize,
}
