//! The subscriber: makes a line of an event, and writes it.
//!
//! JSON has the fields as they come, in the order in which the event names them. Text arranges them for
//! people, as strace does.

use super::sink;
use crate::settings::LogForm;
use crate::sys::line::Line;
use core::fmt::{self, Debug, Write};
use cupeer_spec::duration::Duration;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Event, Metadata, Subscriber};

/// The subscriber of this library's own events.
pub struct Log {
    /// The form of its lines.
    pub form: LogForm,
}

impl Subscriber for Log {
    fn register_callsite(&self, _: &'static Metadata<'static>) -> Interest {
        Interest::always()
    }

    fn enabled(&self, _: &Metadata) -> bool {
        true
    }

    fn event(&self, event: &Event) {
        let mut writer = Writer { line: Line::new(), json: self.form == LogForm::Json, empty: true };
        // What does not fit is noticed at the end.
        let (begin, end) = if writer.json { ("{", "}\n") } else { ("", "\n") };
        let _ = writer.line.write_str(begin);
        event.record(&mut writer);
        let _ = writer.line.write_str(end);
        if !writer.line.has_overflowed() && sink::write(writer.line.bytes()) {
            // SAFETY: the block is this thread's alone.
            unsafe { (*crate::sys::arch::thread()).written += 1 };
        }
    }

    // This library makes no spans.
    fn new_span(&self, _: &Attributes) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Writer {
    line: Line,
    json: bool,
    empty: bool,
}

impl Writer {
    fn field(&mut self, name: &str, value: &dyn Debug) {
        // A line that is full refuses the rest, and is dropped at its end.
        let _ = if self.json { self.json(name, value) } else { self.text(name, value) };
    }

    fn json(&mut self, name: &str, value: &dyn Debug) -> fmt::Result {
        // Names of rules: nothing in them needs escaping.
        if name == "fault" {
            return Optional(value).write(&mut self.line, ",\"fault\":\"", "\"");
        }
        let comma = if core::mem::take(&mut self.empty) { "" } else { "," };
        write!(self.line, "{comma}\"{name}\":")?;
        if name == "args" { write!(self.line, "{{{value:?}}}") } else { write!(self.line, "{value:?}") }
    }

    fn text(&mut self, name: &str, value: &dyn Debug) -> fmt::Result {
        match name {
            "pid" => write!(self.line, "[{value:?}/"),
            "tid" => write!(self.line, "{value:?}] "),
            "args" => write!(self.line, "({value:?})"),
            "caller" => write!(self.line, " {}", Unquoted(value)),
            "fault" => Optional(value).write(&mut self.line, " (", ")"),
            "acts" => write!(self.line, "fault {}", Unquoted(value)),
            "mark" => write!(self.line, "mark {value:?}"),
            "escaped" => write!(self.line, "escaped {value:?}"),
            "finding" => write!(self.line, "{value:?}"),
            _ => Ok(()),
        }
    }
}

impl Visit for Writer {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.field(field.name(), value);
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        // Names of functions and results: nothing in them needs escaping.
        let _ = match (self.json, field.name()) {
            (true, name) => self.json(name, &value),
            (false, "result") => write!(self.line, " = {value}"),
            (false, _) => self.line.write_str(value),
        };
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match (self.json, field.name()) {
            (false, "ts_ns") => {
                let _ = write_time(&mut self.line, value);
            }
            (false, "duration_ns") => {
                let _ = write!(self.line, " <{}>", Duration(value));
            }
            (_, name) => self.field(name, &value),
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        // In a text, what the rules did says it.
        if self.json {
            self.field(field.name(), &value);
        }
    }
}

/// A text that may be empty, and then is left out.
struct Optional<'a>(&'a dyn Debug);

impl Optional<'_> {
    fn write(&self, line: &mut Line, before: &str, after: &str) -> fmt::Result {
        struct Late<'a>(&'a mut Line, &'a str);
        impl Write for Late<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                if !text.is_empty() {
                    self.0.write_str(core::mem::take(&mut self.1))?;
                }
                self.0.write_str(text)
            }
        }
        let mut late = Late(line, before);
        write!(late, "{:?}", self.0)?;
        if late.1.is_empty() { line.write_str(after) } else { Ok(()) }
    }
}

/// A quoted text without its quotes.
struct Unquoted<'a>(&'a dyn Debug);

impl fmt::Display for Unquoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        struct Strip<'a, 'b>(&'a mut fmt::Formatter<'b>);
        impl Write for Strip<'_, '_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                text.split('"').try_for_each(|part| self.0.write_str(part))
            }
        }
        write!(Strip(f), "{:?}", self.0)
    }
}

/// The time of day in UTC. Local time would need a lock of libc's.
fn write_time(line: &mut Line, ts_ns: u64) -> fmt::Result {
    let seconds = ts_ns / 1_000_000_000;
    let (hours, minutes, seconds) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    write!(line, "{hours:02}:{minutes:02}:{seconds:02}.{:06} ", ts_ns / 1000 % 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Line) -> fmt::Result) -> String {
        let mut line = Line::new();
        write(&mut line).unwrap();
        String::from_utf8(line.bytes().to_vec()).unwrap()
    }

    #[test]
    fn times_are_of_the_day() {
        let noon = (20_000 * 86_400 + 12 * 3600 + 34 * 60 + 56) * 1_000_000_000 + 7_008_999;
        assert_eq!(written(|line| write_time(line, noon)), "12:34:56.007008 ");
    }

    #[test]
    fn callers_lose_their_quotes_alone() {
        assert_eq!(Unquoted(&"a+0x1").to_string(), "a+0x1");
    }
}
