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

/// Processor time that a thread may use before it stops, and the time that it may wait uninterruptibly: inside the kernel, both
/// have no limit.
const MOST_USED: Duration = Duration::from_millis(100);
const MOST_WAITED: Duration = Duration::from_secs(2);
/// The pauses between two attempts, and how many are of the short kind.
const PAUSE: Duration = Duration::from_micros(20);
const LONG_PAUSE: Duration = Duration::from_millis(1);
const SHORT_PAUSES: u32 = 100;
/// The note that has a thread's registers, and the stop that was asked for, as the kernel's headers name them.
const NT_PRSTATUS: usize = 1;
const EVENT_STOP: i32 = 128;

/// Calls `work` with the registers of each of several threads while that is stopped, and says for how long it was. `None` for a
/// thread that could not be stopped. All are asked to stop at once, because each gets to its stop when it is next on a processor:
/// one after the other, each would take a turn of all that run.
pub fn each<T: Send>(
    tids: &[i32],
    work: impl Fn(usize, Registers) -> T + Send,
) -> Vec<Option<(T, Duration)>> {
    let none = || tids.iter().map(|_| None).collect();
    std::thread::scope(|scope| {
        let stopping = std::thread::Builder::new().name("cupeer-stop".into());
        let stopping = stopping.spawn_scoped(scope, || stopped(tids, work));
        stopping.ok().and_then(|thread| thread.join().ok()).unwrap_or_else(none)
    })
}

fn stopped<T>(tids: &[i32], work: impl Fn(usize, Registers) -> T) -> Vec<Option<(T, Duration)>> {
    let mut done: Vec<Option<(T, Duration)>> = tids.iter().map(|_| None).collect();
    let mut waiting: Vec<(usize, i32, Patience, Instant)> = Vec::new();
    for (index, tid) in tids.iter().copied().enumerate() {
        if request(libc::PTRACE_SEIZE, tid, 0, 0).is_ok() {
            let patience = Patience::begin(tid);
            if request(libc::PTRACE_INTERRUPT, tid, 0, 0).is_ok() {
                waiting.push((index, tid, patience, Instant::now()));
            }
        }
    }
    // A thread that was interrupted and is let go of before its stop would have its next system call end with EINTR.
    let mut attempts = 0;
    while !waiting.is_empty() {
        waiting.retain_mut(|(index, tid, _, ran)| {
            let now = Instant::now();
            // Not by waitpid: the launcher waits for the same process in another thread, and may get the answer.
            let Ok(own) = registers(*tid) else {
                *ran = now;
                return true;
            };
            done[*index] = Some((read(*tid, own, |registers| work(*index, registers)), ran.elapsed()));
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

/// Reads a thread that has stopped, and lets it run.
fn read<T>(tid: i32, mut own: libc::user_regs_struct, work: impl FnOnce(Registers) -> T) -> T {
    let done = work(as_numbered(&own));
    if have_interrupted(&mut own) {
        let place = libc::iovec { iov_base: (&raw mut own).cast(), iov_len: size_of_val(&own) };
        let _ = request(libc::PTRACE_SETREGSET, tid, NT_PRSTATUS, (&raw const place) as usize);
    }
    // The signal that stopped it meanwhile is delivered.
    let _ = request(libc::PTRACE_DETACH, tid, 0, signal(tid));
    done
}

/// Tells a thread that does not stop from one that has not had the chance to.
struct Patience {
    tid: i32,
    began: Instant,
    used: Option<Duration>,
}

impl Patience {
    fn begin(tid: i32) -> Patience {
        Patience { tid, began: Instant::now(), used: used(tid) }
    }

    /// Returns true if the thread has ended, has run without coming to its stop, or waits for what nothing interrupts.
    fn is_over(&self) -> bool {
        let state = procfs::process::Process::new(self.tid).and_then(|thread| thread.stat());
        match state.map(|stat| stat.state) {
            Err(_) | Ok('Z' | 'X') => true,
            Ok('D') => self.began.elapsed() > MOST_WAITED,
            Ok(_) => match used(self.tid).zip(self.used) {
                Some((now, before)) => now.saturating_sub(before) > MOST_USED,
                // Without the scheduler's numbers, time has to do.
                None => self.began.elapsed() > MOST_WAITED,
            },
        }
    }
}

/// The time of the processor that a thread has used.
fn used(tid: i32) -> Option<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    // A kernel without these numbers says 0.
    let used = text.split_ascii_whitespace().next()?.parse().ok().filter(|used| *used > 0);
    used.map(Duration::from_nanos)
}

fn request(what: u32, tid: i32, address: usize, data: usize) -> io::Result<()> {
    // SAFETY: the requests of this file take no pointers, or one to what their caller owns and the kernel fills.
    let done = unsafe { libc::ptrace(what, tid, address as *mut c_void, data as *mut c_void) };
    if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The signal that a stopped thread is about to get; 0 where it was stopped because we asked.
fn signal(tid: i32) -> usize {
    // SAFETY: all-zero bytes are a siginfo.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    match request(libc::PTRACE_GETSIGINFO, tid, 0, (&raw mut info) as usize) {
        Ok(()) if info.si_code >> 8 != EVENT_STOP => info.si_signo as usize,
        _ => 0,
    }
}

fn registers(tid: i32) -> io::Result<libc::user_regs_struct> {
    // SAFETY: all-zero bytes are registers.
    let mut own: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    let place = libc::iovec { iov_base: (&raw mut own).cast(), iov_len: size_of_val(&own) };
    request(libc::PTRACE_GETREGSET, tid, NT_PRSTATUS, (&raw const place) as usize)?;
    Ok(own)
}

fn as_numbered(own: &libc::user_regs_struct) -> Registers {
    let mut registers = Registers::none();
    for (register, value) in numbered(own).into_iter().enumerate() {
        registers.set(register, Some(value as usize));
    }
    registers
}

/// A thread that ran may have come to a system call when it was stopped. Linux continues most of those by itself. Those that it
/// ends with EINTR, as epoll_wait, are made to be continued, unless a handler runs (ERESTARTNOHAND of the kernel). Returns
/// true if the registers were changed. A file is closed even if that was interrupted, so that is not done again.
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

/// On this processor, the kernel has decided that before a tracer sees it.
#[cfg(target_arch = "aarch64")]
fn have_interrupted(_: &mut libc::user_regs_struct) -> bool {
    false
}

/// The registers in the order of their numbers in DWARF.
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

/// The registers of a thread that waits, of which the kernel tells two.
pub fn waiting(stack: u64, place: u64) -> Registers {
    let mut registers = Registers::none();
    registers.set(STACK, Some(stack as usize));
    registers.set(PLACE, Some(place as usize));
    registers
}
