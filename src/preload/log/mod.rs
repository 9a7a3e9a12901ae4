//! The log: one line per call.
//!
//! The lines are `tracing` events. Our own subscriber (`subscriber`) formats each into a buffer on the stack (`line`) and
//! writes it at once (`sink`). We do not use tracing-subscriber's layer inside programs, because it has a lock, and a
//! buffer in a thread-local with a destructor.

pub mod message;
mod sink;
pub mod status;
mod subscriber;

use crate::settings::{self, LogForm, key};
use crate::sys::aside::run_with_enough_stack;
use crate::sys::caller::Caller;
use crate::sys::clock;
use crate::sys::line::ShortText;
use crate::sys::process::tid;
use core::fmt::{self, Display, Write};
use core::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::bypass::Bypass;
use cupeer_spec::duration::Duration;
use cupeer_spec::function::{FUNCTION_COUNT, FnId};
use cupeer_spec::value::{Format, write_quoted, write_quoted_content};

/// Call that returned, with the values that its line in the log shows.
pub struct Call<'a> {
    pub id: FnId,
    /// Library that made the call, and the offset in the library.
    pub caller: Caller,
    /// Time at which the call was forwarded, in nanoseconds of [`clock::now`].
    pub started: u64,
    /// Duration of the call in the real function, in nanoseconds.
    pub duration: u64,
    pub result: i32,
    /// Prints the arguments.
    pub print: &'a dyn Fn(&mut dyn Write, Format) -> fmt::Result,
    /// Faults that were injected into the call; `None` for no faults.
    pub fault: Option<FaultSummary<'a>>,
}

/// The faults that were injected into a call.
pub struct FaultSummary<'a> {
    /// True if the program does not see the driver's results.
    pub is_altered: bool,
    /// Verb for the effect of the faults.
    pub verb: &'static str,
    pub names: &'a dyn Display,
}

/// State of the subscriber: 0 before it is set, then [`BEGUN`], then [`DONE`].
static STARTED: AtomicU32 = AtomicU32::new(0);
const BEGUN: u32 = 1;
const DONE: u32 = 2;

/// Returns true if there is a log. The first caller (our constructor, or a call before it) sets the subscriber.
pub fn is_on() -> bool {
    if settings::get().log.is_none() {
        return false;
    }
    if STARTED.compare_exchange(0, BEGUN, Acquire, Acquire).is_ok() {
        // Cannot fail: nobody else in this library sets one.
        let _ = tracing::dispatcher::set_global_default(tracing::Dispatch::new(subscriber::Log));
        STARTED.store(DONE, Release);
    }
    // Another thread may be setting the subscriber right now. The wait is bounded, because in a child that was forked at
    // that moment, that thread does not exist.
    for _ in 0..10_000 {
        if STARTED.load(Acquire) == DONE {
            return true;
        }
        // SAFETY: sched_yield has no preconditions.
        unsafe { libc::sched_yield() };
    }
    false
}

/// Writes a line about an event that happened `ago` nanoseconds ago: the time and the thread of the event, and then the text that
/// `write` adds, as members of a JSON object or as words. Does nothing if there is no log.
fn write_log_line(ago: u64, write: &dyn Fn(&mut fmt::Formatter, Format) -> fmt::Result) {
    if !is_on() {
        return;
    }
    let format = Format { json: settings::get().log == Some(LogForm::Json), fingerprint: key::fingerprint };
    // SAFETY: only this thread and its signal handlers use the block, and the field is atomic, because a signal handler of the
    // thread may log as well.
    let seq = unsafe { (*crate::sys::arch::thread()).logged.fetch_add(1, Relaxed) } + 1;
    // Both ids are read each time, because a child of vfork shares our memory.
    let (pid, tid) = (std::process::id(), tid());
    let ts_ns = clock::realtime().saturating_sub(ago);
    let line = fmt::from_fn(|f| {
        if format.json {
            write!(f, "{{\"ts_ns\":{ts_ns},\"pid\":{pid},\"tid\":{tid},\"seq\":{seq},")?;
            write(f, format)?;
            return f.write_str("}");
        }
        write_time(f, ts_ns)?;
        write!(f, "[{pid}/{tid}] ")?;
        write(f, format)
    });
    tracing::info!(target: "cupeer", "{line}");
}

/// Logs a call.
pub fn log_call(call: &Call) {
    let settings = settings::get();
    let fault = call.fault.as_ref();
    if settings.only_failed && call.result == 0 && fault.is_none() {
        return;
    }
    let number = ShortText::<24>::new(format_args!("{}", call.result));
    let name = call.id.spec().name();
    let result = call.id.spec().result_name(call.result).unwrap_or(number.text());
    write_log_line(clock::now().saturating_sub(call.started), &|f, format| {
        let args = fmt::from_fn(|f| (call.print)(f, format));
        let caller = fmt::from_fn(|f| print_caller(call.caller, f));
        if !format.json {
            write!(f, "{name}({args}) = {result} <{}> {caller}", Duration(call.duration))?;
            return fault.map_or(Ok(()), |fault| write!(f, " ({} {})", fault.verb, fault.names));
        }
        let (duration, injected) = (call.duration, fault.is_some_and(|fault| fault.is_altered));
        // Names of functions, results, and faults need no escaping.
        write!(f, "\"function\":\"{name}\",\"args\":{{{args}}},\"result\":\"{result}\",")?;
        write!(f, "\"duration_ns\":{duration},\"caller\":\"{caller}\",\"injected\":{injected}")?;
        fault.map_or(Ok(()), |fault| write!(f, ",\"fault\":\"{}\"", fault.names))
    });
}

/// Logs a mark that the program set. Returns true if the line was written.
pub fn log_mark(text: &[u8]) -> bool {
    // SAFETY: only this thread and its signal handlers use the block.
    let written = || unsafe { (*crate::sys::arch::thread()).written };
    let before = written();
    write_log_line(0, &|f, format| {
        f.write_str(if format.json { "\"mark\":" } else { "mark " })?;
        write_quoted(text, 2048, f)
    });
    written() != before
}

/// Logs the faults that are about to act on a call, which may not return.
pub fn log_fault(text: fmt::Arguments) {
    let write_fault = &|f: &mut fmt::Formatter, format: Format| match format.json {
        true => write!(f, "\"acts\":\"{text}\""),
        false => write!(f, "fault {text}"),
    };
    run_with_enough_stack(&mut || write_log_line(0, write_fault));
}

/// Logs that the calls of a library bypass cupeer.
pub fn log_bypass(library: &[u8], way: Bypass) {
    write_log_line(0, &|f, format| {
        f.write_str(if format.json { "\"escaped\":{\"library\":" } else { "escaped " })?;
        write_quoted(library, 2048, f)?;
        match way {
            _ if format.json => write!(f, ",\"way\":\"{}\"}}", way.name()),
            Bypass::Unseen => f.write_str(": it was loaded, but cupeer saw no call that it records"),
            _ => write!(f, ", by {}: its calls of the driver are not seen", way.name()),
        }
    });
}

/// Maximum number of patched functions that a line names, because a line is one write.
const MOST_NAMED: usize = 64;

/// Logs that a library patched entries of cupeer in place: `functions` is true for each patched function. `library` is empty if
/// it is unknown.
pub fn log_patched_functions(library: &[u8], functions: &[bool; FUNCTION_COUNT]) {
    write_log_line(0, &|f, format| {
        f.write_str(if format.json { "\"patched\":{\"library\":" } else { "patched by " })?;
        write_quoted(library, 2048, f)?;
        f.write_str(if format.json { ",\"functions\":[" } else { ":" })?;
        let mut separator = "";
        let mut write = |text: core::fmt::Arguments| {
            let (before, quote) = (separator, if format.json { "\"" } else { "" });
            separator = ",";
            write!(f, "{before}{}{quote}{text}{quote}", if format.json { "" } else { " " })
        };
        let mut all = FnId::all().filter(|id| functions[*id as usize]);
        for id in all.by_ref().take(MOST_NAMED) {
            write(format_args!("{}", id.spec().name()))?;
        }
        match all.count() {
            0 => {}
            more => write(format_args!("and {more} more"))?,
        }
        f.write_str(if format.json { "]}" } else { "" })
    });
}

/// Logs a finding: as a JSON object, or as a paragraph.
pub fn log_finding(finding: &str) {
    write_log_line(0, &|f, format| {
        f.write_str(if format.json { "\"finding\":" } else { "" })?;
        f.write_str(finding.trim_end())
    });
}

/// Writes a caller as `library+0xoffset`.
fn print_caller(caller: Caller, f: &mut fmt::Formatter) -> fmt::Result {
    let library = if caller.library.is_empty() { b"unknown" } else { caller.library };
    write_quoted_content(library, 2048, f)?;
    write!(f, "+{:#x}", caller.offset)
}

/// Writes the time of day in UTC, because local time would need a lock of the C library.
fn write_time(f: &mut impl Write, ts_ns: u64) -> fmt::Result {
    let seconds = ts_ns / 1_000_000_000;
    let (hours, minutes, seconds) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    write!(f, "{hours:02}:{minutes:02}:{seconds:02}.{:06} ", ts_ns / 1000 % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_of_the_day() {
        let noon = (20_000 * 86_400 + 12 * 3600 + 34 * 60 + 56) * 1_000_000_000 + 7_008_999;
        let mut text = String::new();
        write_time(&mut text, noon).unwrap();
        assert_eq!(text, "12:34:56.007008 ");
    }
}
