//! The log: one line a call.
//!
//! The lines travel as `tracing` events to a subscriber of our own (`subscriber`), which formats each in
//! a buffer on the stack (`line`) and writes it at once (`sink`). tracing-subscriber's layer is not used
//! inside programs: it keeps a buffer in a thread-local with a destructor, and a lock.

pub mod message;
mod sink;
pub mod status;
mod subscriber;

use crate::settings::{self, LogForm, key};
use crate::sys::aside::with_room;
use crate::sys::caller::Caller;
use crate::sys::clock;
use crate::sys::line::Short;
use core::fmt::{self, Debug, Display, Write};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::function::FnId;
use cupeer_spec::value::{Format, quoted, quoted_inside};
use cupeer_spec::way::Way;

/// A call that is to be logged.
pub struct Call<'a> {
    /// The function.
    pub id: FnId,
    /// Who called.
    pub caller: Caller,
    /// When it was forwarded, in nanoseconds of [`clock::now`].
    pub started: u64,
    /// How long the real function took, in nanoseconds.
    pub duration: u64,
    /// What it returned.
    pub result: i32,
    /// Prints the arguments.
    pub print: &'a dyn Fn(&mut dyn Write, Format) -> fmt::Result,
    /// What rules of faults have done to it, where one fired.
    pub fault: Option<Acted<'a>>,
}

/// What rules of faults have done to a call.
pub struct Acted<'a> {
    /// Whether the program sees something else than the driver gave.
    pub is_altered: bool,
    /// In words.
    pub deed: &'static str,
    /// Their names.
    pub names: &'a dyn Display,
}

/// [`BEGUN`] and [`DONE`]: whether the subscriber is in place.
static STARTED: AtomicU32 = AtomicU32::new(0);
const BEGUN: u32 = 1;
const DONE: u32 = 2;

/// Whether there is a log. Who asks first, which is our constructor where no call comes before it, puts the subscriber in
/// place.
pub fn is_on() -> bool {
    let Some(form) = settings::get().log else { return false };
    if STARTED.compare_exchange(0, BEGUN, Acquire, Acquire).is_ok() {
        // Cannot fail: nobody else in this library sets one.
        let _ = tracing::dispatcher::set_global_default(tracing::Dispatch::new(subscriber::Log { form }));
        STARTED.store(DONE, Release);
    }
    // Another thread may be putting the subscriber in place this very moment. Bounded, because a child
    // that was forked in that moment would wait for nobody.
    for _ in 0..10_000 {
        if STARTED.load(Acquire) == DONE {
            return true;
        }
        // SAFETY: sched_yield has no preconditions.
        unsafe { libc::sched_yield() };
    }
    false
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
        // SAFETY: the block is this thread's alone, and the field atomic, because a signal handler of the
        // thread may log as well.
        let logged = unsafe { &(*crate::sys::arch::thread()).logged };
        // SAFETY: getpid and gettid have no preconditions. They are asked each time, because a child shares
        // our memory of them.
        let (pid, tid) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid)) };
        Stamp {
            ts_ns: clock::realtime().saturating_sub(ago),
            pid: pid as u32,
            tid: tid as u32,
            seq: logged.fetch_add(1, Relaxed) + 1,
        }
    }
}

/// Logs a call.
pub fn call(call: &Call) {
    let settings = settings::get();
    let fault = call.fault.as_ref();
    if settings.failed && call.result == 0 && fault.is_none() || !is_on() {
        return;
    }
    let stamp = Stamp::new(clock::now().saturating_sub(call.started));
    let format = Format { json: settings.log == Some(LogForm::Json), fingerprint: key::fingerprint };
    let args = Printed(|f| (call.print)(f, format));
    let caller = Printed(|f| print_caller(call.caller, f));
    let number = Short::<24>::new(format_args!("{}", call.result));
    let by = Printed(|f| match fault {
        Some(fault) if format.json => write!(f, "{}", fault.names),
        Some(fault) => write!(f, "{} {}", fault.deed, fault.names),
        None => Ok(()),
    });
    let result = call.id.spec().result_name(call.result).unwrap_or(number.text());
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
        injected = fault.is_some_and(|fault| fault.is_altered),
        fault = ?by,
    );
}

/// Logs a text of the program's. Says whether the line was written.
pub fn mark(text: &[u8]) -> bool {
    if !is_on() {
        return false;
    }
    let stamp = Stamp::new(0);
    let text = Printed(|f| quoted(text, 2048, f));
    // SAFETY: the block is this thread's alone.
    let written = || unsafe { (*crate::sys::arch::thread()).written };
    let before = written();
    tracing::info!(
        target: "cupeer::mark",
        ts_ns = stamp.ts_ns, pid = stamp.pid, tid = stamp.tid, seq = stamp.seq, mark = ?text,
    );
    written() != before
}

/// Logs what a rule of faults is about to do to a call that may not return, from wherever that is done.
pub fn acts(text: fmt::Arguments) {
    if is_on() {
        with_room(&mut || acting(text));
    }
}

fn acting(text: fmt::Arguments) {
    let stamp = Stamp::new(0);
    let text = Printed(|f| write!(f, "\"{text}\""));
    tracing::info!(
        target: "cupeer::fault",
        ts_ns = stamp.ts_ns, pid = stamp.pid, tid = stamp.tid, seq = stamp.seq, acts = ?text,
    );
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
            quoted(library, 2048, f)?;
            write!(f, ",\"way\":\"{}\"}}", way.name())
        } else {
            quoted(library, 2048, f)?;
            match way {
                Way::Unseen => f.write_str(": it was loaded, and no watched call was seen"),
                _ => write!(f, ", by {}: its calls of the driver are not seen", way.name()),
            }
        }
    });
    tracing::info!(
        target: "cupeer::escaped",
        ts_ns = stamp.ts_ns, pid = stamp.pid, tid = stamp.tid, seq = stamp.seq, escaped = ?escaped,
    );
}

/// Logs what a rule has found: an object in JSON, a paragraph in text.
pub fn finding(finding: &str) {
    if !is_on() {
        return;
    }
    let stamp = Stamp::new(0);
    let finding = Printed(|f| f.write_str(finding.trim_end()));
    tracing::info!(
        target: "cupeer::finding",
        ts_ns = stamp.ts_ns, pid = stamp.pid, tid = stamp.tid, seq = stamp.seq, finding = ?finding,
    );
}

/// `library+0xoffset`, as a quoted text.
fn print_caller(caller: Caller, f: &mut fmt::Formatter) -> fmt::Result {
    let library = if caller.library.is_empty() { b"unknown" } else { caller.library };
    let offset = Short::<24>::new(format_args!("+{:#x}", caller.offset));
    let offset = offset.text();
    f.write_str("\"")?;
    quoted_inside(library, 2048, f)?;
    write!(f, "{offset}\"")
}
