use super::*;
use crate::sys::program_memory;
use core::ffi::{c_int, c_void};
use core::hint::black_box;
use cupeer_stacks::unwind::UnwindRow;
use cupeer_stacks::unwind::processor::REGISTERS;
use std::sync::Mutex;
use std::sync::atomic::{
    AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};

const MOST: usize = 24;
type Frames = ([usize; MOST], usize);

unsafe extern "C" {
    fn _Unwind_Backtrace(step: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int, walk: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
}

/// The frames that the compiler's own unwinder sees.
#[inline(never)]
fn theirs() -> Frames {
    unsafe extern "C" fn step(context: *mut c_void, walk: *mut c_void) -> c_int {
        // SAFETY: both are valid for this call.
        let (address, (frames, count)) = unsafe { (_Unwind_GetIP(context), &mut *walk.cast::<Frames>()) };
        if *count == MOST || address == 0 {
            return 4;
        }
        (frames[*count], *count) = (address, *count + 1);
        0
    }
    let mut frames = ([0; MOST], 0);
    // SAFETY: the walk takes the frames.
    unsafe { _Unwind_Backtrace(step, (&raw mut frames).cast()) };
    frames
}

/// Ours, from a return address on.
fn ours(caller: usize, most: usize) -> Frames {
    let mut frames = ([0; MOST], 0);
    each_frame(caller, most, |address| {
        (frames.0[frames.1], frames.1) = (address, frames.1 + 1);
        true
    });
    frames
}

/// Compares from the second common frame on: the unwinders are called at two places in the first.
#[inline(never)]
fn assert_same() -> usize {
    let (theirs, count) = theirs();
    let (ours, found) = ours(theirs[2], count - 2);
    assert_eq!(ours[..found], theirs[2..count]);
    found
}

#[inline(never)]
fn deep(depth: usize) -> usize {
    if depth == 0 {
        return assert_same();
    }
    let mut room = [depth; 3000];
    black_box(&mut room);
    deep(depth - 1) + usize::from(room[depth] == 0)
}

#[test]
fn frames_are_those_that_the_compilers_own_unwinder_sees() {
    assert!(deep(7) > 8);
    // Once more, as remembered.
    assert!(deep(7) > 8);
}

/// One test at a time uses the signals of the process.
pub static SIGNALS: Mutex<()> = Mutex::new(());
pub static SEEN: AtomicUsize = AtomicUsize::new(0);
pub static WRONG: AtomicUsize = AtomicUsize::new(0);

type Handler = extern "C" fn(c_int, *mut c_void, *mut libc::ucontext_t);

/// Both unwinders unwind the interrupted code from here.
extern "C" fn unwind_here(_: c_int, _: *mut c_void, _: *mut libc::ucontext_t) {
    unwind_in_handler();
}

/// Unwinds in a handler of another file.
#[inline(always)]
pub fn unwind_in_handler() {
    let (theirs, count) = theirs();
    let (ours, found) = ours(theirs[2], count - 2);
    SEEN.fetch_add(1, Relaxed);
    if ours[..found] != theirs[2..count] || found < 2 {
        WRONG.fetch_add(1, Relaxed);
    }
}

pub fn handle(signal: c_int, handler: Handler, flags: c_int) {
    // SAFETY: an action for a signal that nobody else uses; zero bytes are one.
    unsafe {
        let mut action: libc::sigaction = core::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = flags | libc::SA_SIGINFO;
        assert_eq!(libc::sigaction(signal, &action, core::ptr::null_mut()), 0);
    }
}

#[test]
fn frames_go_on_behind_a_signal_handler_on_a_stack_of_its_own() {
    let _alone = SIGNALS.lock();
    let mut stack = vec![0u8; 1 << 17];
    let alternate = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
    let mut before = libc::stack_t { ss_sp: core::ptr::null_mut(), ss_flags: 0, ss_size: 0 };
    handle(libc::SIGUSR1, unwind_here, libc::SA_ONSTACK);
    let seen = SEEN.load(SeqCst);
    // SAFETY: the stack stays until the one before is back.
    unsafe {
        assert_eq!(libc::sigaltstack(&alternate, &mut before), 0);
        libc::raise(libc::SIGUSR1);
        assert_eq!(libc::sigaltstack(&before, core::ptr::null_mut()), 0);
    }
    assert_eq!((SEEN.load(SeqCst) - seen, WRONG.load(SeqCst)), (1, 0));
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize
    }
}

/// A copy of our own tables, at the same distances from each other; and how far it was moved.
fn copied_tables() -> (Vec<u8>, usize, Vec<usize>) {
    let start = elf::unwind_table(elf::own_address()).expect("our own tables");
    let end = elf::containing(elf::own_address()).expect("ourselves").high;
    let mut copy = vec![0; (end - start).min(1 << 23)];
    let length = program_memory::copy(start, &mut copy);
    copy.truncate(length);
    let moved = (copy.as_ptr() as usize).wrapping_sub(start);
    let addresses = [deep as *const () as usize, assert_same as *const () as usize];
    let own = theirs();
    let addresses = addresses.into_iter().chain(own.0[..4].iter().copied());
    (copy, moved, addresses.filter(|address| elf::unwind_table(*address) == Some(start)).collect())
}

#[test]
fn damaged_tables_give_something_or_nothing_and_never_a_fault() {
    let (mut copy, moved, addresses) = copied_tables();
    let start = copy.as_ptr() as usize;
    let rules = |row: &UnwindRow| format!("{:?} {:?}", row.rules.cfa(), row.rules.registers().collect::<Vec<_>>());
    let row = |address: usize| Tables::at(start, OwnMemory).find_row(address.wrapping_add(moved));
    let right: Vec<_> = addresses.iter().map(|address| row(*address).as_ref().map(rules)).collect();
    let plain: Vec<_> =
        addresses.iter().map(|address| tables(*address)?.find_row(*address).as_ref().map(rules)).collect();
    assert!(right == plain && right.iter().all(Option::is_some) && right.len() > 3);
    let registers = Registers { words: [start; REGISTERS], known: (1 << REGISTERS) - 1 };
    let mut random = Random(11);
    let (mut others, mut none) = (0, 0);
    for round in 0..4000 {
        // In the header, or near what leads to the addresses: no other byte is read.
        let index = round % addresses.len();
        let entry = Tables::at(start, OwnMemory).search_entry(addresses[index].wrapping_add(moved)).expect("an entry");
        let damaged = if round % 4 == 0 { random.next() % 64 } else { entry - start + random.next() % 48 };
        let old = core::mem::replace(&mut copy[damaged], random.next() as u8);
        let damaged_row = row(addresses[index]);
        if let Some(row) = &damaged_row {
            let _ = row.caller_registers(
                &registers,
                &Tables::at(start, OwnMemory).whole_memory_section(),
                &mut MemoryWindow::new(OwnMemory),
            );
        }
        others += usize::from(damaged_row.as_ref().map(rules) != right[index]);
        none += usize::from(damaged_row.is_none());
        copy[damaged] = old;
    }
    assert!(others > none && none > 400, "{others} others, {none} none");
}

/// The tables of an object with one function, which begins where they do and has 4096 bytes.
fn tables_of_one_function(instructions: &[u8]) -> Vec<u8> {
    const CIE: usize = 20;
    let usual = [0x0c, STACK as u8, 8, 0x80 | RETURN as u8, 1];
    // Version 1, pointers relative to themselves; factors of 1 and -8.
    let mut cie = vec![0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, RETURN as u8, 1, 0x1b];
    cie.extend(usual);
    let fde = CIE + 4 + cie.len();
    let mut bytes = vec![1, 0x1b, 3, 0x3b];
    for word in [0, 1, 0, fde, cie.len()] {
        bytes.extend((word as u32).to_le_bytes());
    }
    bytes.extend(cie);
    for word in [13 + instructions.len(), fde + 4 - CIE, (fde + 8).wrapping_neg(), 4096] {
        bytes.extend((word as u32).to_le_bytes());
    }
    bytes.push(0);
    bytes.extend(instructions);
    bytes
}

#[test]
fn random_instructions_and_expressions_end() {
    let mut random = Random(5);
    let registers = Registers { words: [deep as *const () as usize; REGISTERS], known: u64::MAX };
    let (mut found, mut applied) = (0, 0);
    for round in 0..20_000 {
        let mut instructions = [0u8; 64];
        instructions.fill_with(|| random.next() as u8);
        let length = 5 + random.next() % 59;
        if round % 2 == 0 {
            // The value of the frame pointer is that of an expression.
            instructions[..3].copy_from_slice(&[0x16, FRAME as u8, length as u8 - 4]);
        }
        let bytes = tables_of_one_function(&instructions[..length]);
        let start = bytes.as_ptr() as usize;
        let tables = Tables::at(start, OwnMemory);
        if let Some(row) = tables.find_row(start + random.next() % 4096) {
            found += 1;
            applied += usize::from(
                row.caller_registers(&registers, &tables.whole_memory_section(), &mut MemoryWindow::new(OwnMemory))
                    .is_some(),
            );
        }
    }
    assert!(found > 1000 && applied > 100, "{found} {applied}");
}

#[test]
fn memory_that_is_not_there_is_not_read() {
    let mut window = MemoryWindow::<64, _>::new(OwnMemory);
    assert!(window.read_bytes(8, 8).is_none() && window.read_bytes(usize::MAX - 3, 8).is_none());
    assert!(window.read_words::<2>(usize::MAX - 15).is_none());
    let there = [1usize, 2];
    assert_eq!(window.read_words(there.as_ptr() as usize), Some(there));
}
