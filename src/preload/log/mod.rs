//! The log: one line a call.
//!
//! The lines travel as `tracing` events to a subscriber of our own (`subscriber`), which formats each in
//! a buffer on the stack (`line`) and writes it at once (`sink`). tracing-subscriber's layer is not used
//! inside programs: it keeps a buffer in a thread-local with a destructor, and a lock.

mod line;
pub mod sink;
mod subscriber;

pub use line::Line;

use crate::caller::Caller;
use crate::resolve::escapes::Way;
use crate::settings::{self, LogForm, Settings};
use core::fmt::{self, Debug, Write};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};
use cupeer_spec::function::FnId;
use cupeer_spec::results;
use cupeer_spec::value::{Format, quoted};

/// A call that is to be logged.
pub struct Call<'a> {
    /// The function.
    pub id: FnId,
    /// Who called.
    pub caller: Caller,
    /// When it was forwarded, in nanoseconds of [`now`].
    pub started: u64,
    /// How long the real function took, in nanoseconds.
    pub duration: u64,
    /// What it returned.
    pub result: i32,
    /// Prints the arguments.
    pub print: &'a dyn Fn(&mut dyn Write, Format) -> fmt::Result,
}

/// Set when the subscriber is in place.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// Puts the subscriber in place. Called once.
pub fn start(settings: &'static Settings) {
    if let Some(form) = settings.log {
        // Cannot fail: nobody else in this library sets one.
        let _ = tracing::dispatcher::set_global_default(tracing::Dispatch::new(subscriber::Log { form }));
    }
    STARTED.store(1, Release);
}

/// Whether there is a log.
pub fn is_on() -> bool {
    if settings::get().log.is_none() {
        return false;
    }
    // Another thread may be putting the subscriber in place this very moment. Bounded, because a child
    // that was forked in that moment would wait for nobody.
    for _ in 0..10_000 {
        if STARTED.load(Acquire) == 1 {
            return true;
        }
        // SAFETY: sched_yield has no preconditions.
        unsafe { libc::sched_yield() };
    }
    false
}

/// The time of the monotonic clock, in nanoseconds.
pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is writable.
    unsafe { libc::clock_gettime(id, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Prints through a closure where `tracing` wants a value.
struct Printed<F: Fn(&mut fmt::Formatter) -> fmt::Result>(F);

impl<F: Fn(&mut fmt::Formatter) -> fmt::Result> Debug for Printed<F> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        (self.0)(f)
    }
}

/// What stands on every line: when, and who.
struct Stamp {
    ts_ns: u64,
    pid: u32,
    tid: u32,
    seq: u64,
}

impl Stamp {
    /// The stamp of what happened `ago` nanoseconds ago.
    fn new(ago: u64) -> Self {
        let thread = crate::arch::thread();
        // SAFETY: the block is this thread's alone; getpid and gettid have no preconditions. They are
        // asked each time, because a child shares our memory of them.
        unsafe {
            (*thread).logged += 1;
            Stamp {
                ts_ns: clock(libc::CLOCK_REALTIME).saturating_sub(ago),
                pid: libc::getpid() as u32,
                tid: libc::syscall(libc::SYS_gettid) as u32,
                seq: (*thread).logged,
            }
        }
    }
}

/// Logs a call.
pub fn call(call: &Call) {
    let settings = settings::get();
    if settings.failed && call.result == 0 || !is_on() {
        return;
    }
    let stamp = Stamp::new(now().saturating_sub(call.started));
    let format = Format { json: settings.log == Some(LogForm::Json), fingerprint };
    let args = Printed(|f| (call.print)(f, format));
    let caller = Printed(|f| print_caller(call.caller, f));
    let mut number = Line::new();
    let result = match results::spec(call.result) {
        Some(spec) => spec.name(),
        None => {
            let _ = write!(number, "{}", call.result);
            core::str::from_utf8(number.bytes()).unwrap_or("")
        }
    };
    tracing::info!(
        target: "cupeer::call",
        ts_ns = stamp.ts_ns,
        pid = stamp.pid,
        tid = stamp.tid,
        seq = stamp.seq,
        function = call.id.spec().name,
        args = ?args,
        result,
        duration_ns = call.duration,
        caller = ?caller,
        injected = false,
    );
}

/// Logs a text of the program's. Says whether the line was written.
pub fn mark(text: &[u8]) -> bool {
    if !is_on() {
        return false;
    }
    let stamp = Stamp::new(0);
    let text = Printed(|f| quoted(&text[..text.len().min(1024)], text.len() > 1024, f));
    tracing::info!(
        target: "cupeer::mark",
        ts_ns = stamp.ts_ns, pid = stamp.pid, tid = stamp.tid, seq = stamp.seq, mark = ?text,
    );
    sink::is_working()
}

/// Logs that a library's calls go past us.
pub fn escaped(library: &[u8], way: Way) {
    if !is_on() {
        return;
    }
    let stamp = Stamp::new(0);
    let json = settings::get().log == Some(LogForm::Json);
    let escaped = Printed(|f| {
        if json {
            f.write_str("{\"library\":")?;
            quoted(library, false, f)?;
            write!(f, ",\"way\":\"{}\"}}", way.name())
        } else {
            quoted(library, false, f)?;
            write!(f, ", by {}: its calls of the driver are not seen", way.name())
        }
    });
    tracing::info!(
        target: "cupeer::escaped",
        ts_ns = stamp.ts_ns, pid = stamp.pid, tid = stamp.tid, seq = stamp.seq, escaped = ?escaped,
    );
}

/// `library+0xoffset`, as a quoted text.
fn print_caller(caller: Caller, f: &mut fmt::Formatter) -> fmt::Result {
    let mut text = Line::new();
    let library = &caller.library[..caller.library.len().min(1024)];
    let _ = if library.is_empty() { text.write_str("unknown") } else { text.push(library) };
    let _ = write!(text, "+{:#x}", caller.offset);
    quoted(text.bytes(), false, f)
}

/// Stands for the 64 bytes of an IPC handle.
fn fingerprint(handle: &[u8; 64]) -> u64 {
    siphasher::sip::SipHasher24::new_with_key(&settings::get().job).hash(handle)
}
