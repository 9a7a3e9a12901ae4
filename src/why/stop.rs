//! The registers of a thread that runs: it is stopped for as long as a closure takes.
//!
//! A thread that waits is never stopped: Linux does not continue every system call that a stop interrupts, and when it ran last
//! tells since when it waits. A thread is stopped in a thread of ours that ends right afterwards:
//! whatever goes wrong, the kernel lets go of what that thread has traced.

use cupeer_stacks::unwind::Registers;
use cupeer_stacks::unwind::processor::{PLACE, STACK};
use std::ffi::c_void;
use std::io;
use std::time::{Duration, Instant};

/// A thread that uses more processor time than this without stopping is given up: it may stay in the kernel for any
/// time.
const MOST_USED: Duration = Duration::from_millis(100);
/// A thread that waits uninterruptibly for longer than this is given up.
const MOST_WAITED: Duration = Duration::from_secs(2);
/// Pause between two attempts to read the registers, at first.
const PAUSE: Duration = Duration::from_micros(20);
/// Pause between two later attempts.
const LONG_PAUSE: Duration = Duration::from_millis(1);
/// Number of attempts before the pauses become long.
const SHORT_PAUSES: u32 = 100;
/// Type of the note with a thread's general registers, for PTRACE_GETREGSET.
const NT_PRSTATUS: usize = 1;
/// Event of a stop that PTRACE_INTERRUPT requested (PTRACE_EVENT_STOP).
const EVENT_STOP: i32 = 128;

/// Calls `work` with the registers of each thread while the thread is stopped. Returns the results, each with the duration of the
/// stop; `None` for a thread that could not be stopped. All threads are asked to stop at once, because a thread stops when it
/// next gets a processor: one after the other, each stop could take a turn of all running threads.
pub fn with_stopped_threads<T: Send>(
    tids: &[i32],
    work: impl Fn(usize, Registers) -> T + Send,
) -> Vec<Option<(T, Duration)>> {
    let none = || tids.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let stopping = std::thread::Builder::new().name("cupeer-stop".into());
        let stopping = stopping.spawn_scoped(scope, || stop_and_read(tids, work));
        stopping.ok().and_then(|thread| thread.join().ok()).unwrap_or_else(none)
    })
}

fn stop_and_read<T>(tids: &[i32], work: impl Fn(usize, Registers) -> T) -> Vec<Option<(T, Duration)>> {
    let mut done: Vec<Option<(T, Duration)>> = tids.iter().map(|_| None).collect();
    let mut waiting: Vec<(usize, i32, StopTimeout, Instant)> = Vec::new();
    for (index, tid) in tids.iter().copied().enumerate() {
        if ptrace(libc::PTRACE_SEIZE, tid, 0, 0).is_ok() {
            let patience = StopTimeout::begin(tid);
            if ptrace(libc::PTRACE_INTERRUPT, tid, 0, 0).is_ok() {
                waiting.push((index, tid, patience, Instant::now()));
            }
        }
    }
    // If a thread is interrupted and then detached before its stop, its next system call would end with EINTR.
    let mut attempts = 0;
    while !waiting.is_empty() {
        waiting.retain_mut(|(index, tid, _, ran)| {
            let now = Instant::now();
            // This does not use waitpid: the launcher may wait for the same process in another thread, and would take the result.
            let Ok(own) = read_registers(*tid) else {
                *ran = now;
                return true;
            };
            done[*index] = Some((read_and_continue(*tid, own, |registers| work(*index, registers)), ran.elapsed()));
            false
        });
        attempts += 1;
        if attempts < SHORT_PAUSES {
            std::thread::sleep(PAUSE);
        } else {
            waiting.retain(|(_, _, patience, _)| !patience.is_over());
            std::thread::sleep(LONG_PAUSE);
        }
    }
    done
}

/// Reads a stopped thread, and continues it.
fn read_and_continue<T>(tid: i32, mut own: libc::user_regs_struct, work: impl FnOnce(Registers) -> T) -> T {
    let done = work(to_dwarf_registers(&own));
    if have_interrupted(&mut own) {
        let place = libc::iovec { iov_base: (&raw mut own).cast(), iov_len: size_of_val(&own) };
        let _ = ptrace(libc::PTRACE_SETREGSET, tid, NT_PRSTATUS, (&raw const place) as usize);
    }
    // A signal that arrived during the stop is delivered now.
    let _ = ptrace(libc::PTRACE_DETACH, tid, 0, pending_signal(tid));
    done
}

/// Decides when to give up on a thread: distinguishes threads that do not stop from those that had no chance to.
struct StopTimeout {
    tid: i32,
    began: Instant,
    used: Option<Duration>,
}

impl StopTimeout {
    fn begin(tid: i32) -> StopTimeout {
        StopTimeout { tid, began: Instant::now(), used: processor_time(tid) }
    }

    /// Returns true if the thread has ended, has run without stopping, or waits in the kernel in a way that cannot be
    /// interrupted.
    fn is_over(&self) -> bool {
        let state = procfs::process::Process::new(self.tid).and_then(|thread| thread.stat());
        match state.map(|stat| stat.state) {
            Err(_) | Ok('Z' | 'X') => true,
            Ok('D') => self.began.elapsed() > MOST_WAITED,
            Ok(_) => match processor_time(self.tid).zip(self.used) {
                Some((now, before)) => now.saturating_sub(before) > MOST_USED,
                // Without the scheduler's statistics, the time since the start decides.
                None => self.began.elapsed() > MOST_WAITED,
            },
        }
    }
}

/// Returns the processor time that a thread has used.
fn processor_time(tid: i32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    // A kernel without these statistics reports 0.
    let used = text.split_ascii_whitespace().next()?.parse().ok().filter(|used| *used > 0);
    used.map(Duration::from_nanos)
}

fn ptrace(what: u32, tid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the requests of this file take no pointers, or one to what their caller owns and the kernel fills.
    let done = unsafe { libc::ptrace(what, tid, address as *mut c_void, data as *mut c_void) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Returns the signal that a stopped thread is about to receive; 0 if cupeer's own request stopped the thread.
fn pending_signal(tid: i32) -> usize {
    // SAFETY: all-zero bytes are a siginfo.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    match ptrace(libc::PTRACE_GETSIGINFO, tid, 0, (&raw mut info) as usize) {
        Ok(()) if info.si_code >> 8 != EVENT_STOP => info.si_signo as usize,
        _ => 0,
    }
}

fn read_registers(tid: i32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: all-zero bytes are registers.
    let mut own: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let place = libc::iovec { iov_base: (&raw mut own).cast(), iov_len: size_of_val(&own) };
    ptrace(libc::PTRACE_GETREGSET, tid, NT_PRSTATUS, (&raw const place) as usize)?;
    Ok(own)
}

fn to_dwarf_registers(own: &libc::user_regs_struct) -> Registers {
    let mut registers = Registers::all_unknown();
    for (register, value) in numbered(own).into_iter().enumerate() {
        registers.set(register, Some(value as usize));
    }
    registers
}

/// Makes an interrupted system call continue. A running thread may have entered a system call when it was stopped. Linux
/// continues most calls by itself; the calls that it ends with EINTR, such as epoll_wait, are set to continue unless a signal
/// handler runs (the kernel's ERESTARTNOHAND). `close` is not repeated, because it closes the file even if interrupted. Returns
/// true if the registers were changed.
#[cfg(target_arch = "x86_64")]
fn have_interrupted(own: &mut libc::user_regs_struct) -> bool {
    const CONTINUE: i64 = -514;
    let call = own.orig_rax as i64;
    let is_interrupted = call >= 0 && call != libc::SYS_close && own.rax as i64 == -i64::from(libc::EINTR);
    if is_interrupted {
        own.rax = CONTINUE as u64;
    }
    is_interrupted
}

/// Does nothing: on this architecture, the kernel decides before a tracer sees the registers.
#[cfg(target_arch = "aarch64")]
fn have_interrupted(_: &mut libc::user_regs_struct) -> bool {
    false
}

/// Returns the registers in the order of their DWARF numbers.
#[cfg(target_arch = "x86_64")]
fn numbered(own: &libc::user_regs_struct) -> [u64; PLACE + 1] {
    let libc::user_regs_struct { rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, .. } = *own;
    let libc::user_regs_struct { r8, r9, r10, r11, r12, r13, r14, r15, rip, .. } = *own;
    [rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15, rip]
}

#[cfg(target_arch = "aarch64")]
fn numbered(own: &libc::user_regs_struct) -> [u64; PLACE + 1] {
    let mut all = [0; PLACE + 1];
    all[..31].copy_from_slice(&own.regs);
    (all[STACK], all[PLACE]) = (own.sp, own.pc);
    all
}

/// Returns the registers of a waiting thread, of which the kernel reports only two: the stack pointer and the instruction
/// pointer.
pub fn waiting_registers(stack: u64, place: u64) -> Registers {
    let mut registers = Registers::all_unknown();
    registers.set(STACK, Some(stack as usize));
    registers.set(PLACE, Some(place as usize));
    registers
}
