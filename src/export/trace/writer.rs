//! Writes trace events, one per line, as soon as they are known.
//!
//! Times are microseconds since the start of the recording, with three digits for the nanoseconds, so that a viewer
//! that reads them as floating-point numbers loses none.

use cupeer_facts::faults;
use cupeer_record::{Call, Outcome};
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// A process and a thread, as the trace numbers them.
#[derive(Clone, Copy)]
pub struct Track {
    pub pid: u32,
    pub tid: u32,
}

/// Duration in nanoseconds of the shortest slice that an arrow can point into.
const SHORTEST: u64 = 2;

/// The name of the color of calls that a fault plan changed, in viewers that know it.
const ON_PURPOSE: &str = "terrible";

pub struct TraceEventWriter<W> {
    out: W,
    began: u64,
    is_first: bool,
}

impl<W: Write> TraceEventWriter<W> {
    pub fn new(out: W, began: u64) -> Self {
        TraceEventWriter { out, began, is_first: true }
    }

    pub fn write_begin(&mut self) -> io::Result<()> {
        let other = json!({"producer": "cupeer report", "began_ns": self.began.to_string()});
        write!(self.out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{other},\"traceEvents\":[")
    }

    pub fn write_end(&mut self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }

    pub fn write_name(&mut self, track: Track, what: &str, name: &Value) -> io::Result<()> {
        self.write_separator()?;
        let key = if name.is_number() { "sort_index" } else { "name" };
        let Track { pid, tid } = track;
        write!(
            self.out,
            "{{\"ph\":\"M\",\"name\":\"{what}\",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"{key}\":{name}}}}}"
        )
    }

    /// Writes a call as a slice, from its start to its return; to the end of the recording if the call has
    /// not returned.
    pub fn write_slice(
        &mut self,
        track: Track,
        (name, call): (&str, &Call),
        (at, until): (u64, u64),
        args: &Map<String, Value>,
    ) -> io::Result<()> {
        self.write_separator()?;
        let is_hung = call.outcome == Outcome::Pending;
        let name = if is_hung { Value::from(format!("{name} (has not returned)")) } else { name.into() };
        let groups =
            call.function.map_or(Vec::new(), |function| function.spec().groups().map(|group| group.name()).collect());
        let groups = if groups.is_empty() { "unknown".to_owned() } else { groups.join(",") };
        let ns = until.saturating_sub(at).max(SHORTEST);
        write!(self.out, "{{\"ph\":\"X\",\"name\":{name},\"cat\":\"{groups}\",")?;
        if faults::has_fault_effect(call) {
            write!(self.out, "\"cname\":\"{ON_PURPOSE}\",")?;
        }
        self.write_place_and_time(track, at)?;
        write!(self.out, ",\"dur\":{}.{:03},\"args\":", ns / 1000, ns % 1000)?;
        serde_json::to_writer(&mut self.out, args)?;
        self.out.write_all(b"}")
    }

    /// Writes an instant event: a mark of the program, or a finding of a rule.
    pub fn write_instant(
        &mut self,
        track: Track,
        at: u64,
        category: &str,
        name: &str,
        args: Option<&Map<String, Value>>,
    ) -> io::Result<()> {
        self.write_separator()?;
        let name = Value::from(name);
        write!(self.out, "{{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"{category}\",\"name\":{name},")?;
        self.write_place_and_time(track, at)?;
        if let Some(args) = args {
            self.out.write_all(b",\"args\":")?;
            serde_json::to_writer(&mut self.out, args)?;
        }
        self.out.write_all(b"}")
    }

    /// Writes the values of a counter, which are valid from a time on.
    pub fn write_counter(&mut self, track: Track, at: u64, name: &str, values: &Map<String, Value>) -> io::Result<()> {
        self.write_separator()?;
        write!(self.out, "{{\"ph\":\"C\",\"name\":{},", Value::from(name))?;
        self.write_place_and_time(track, at)?;
        write!(self.out, ",\"args\":{}}}", Value::from(values.clone()))
    }

    /// Writes one end of an arrow. The end is inside of the slice that begins at this time, so the order of
    /// the two events does not matter.
    pub fn write_arrow_end(&mut self, track: Track, at: u64, phase: char, id: u64) -> io::Result<()> {
        self.write_separator()?;
        let bind = if phase == 'f' { "\"bp\":\"e\"," } else { "" };
        write!(self.out, "{{\"ph\":\"{phase}\",{bind}\"name\":\"handle\",\"cat\":\"handle\",\"id\":\"{id:#018x}\",")?;
        self.write_place_and_time(track, at.saturating_add(1))?;
        self.out.write_all(b"}")
    }

    fn write_place_and_time(&mut self, track: Track, at: u64) -> io::Result<()> {
        let ns = at.saturating_sub(self.began);
        let Track { pid, tid } = track;
        write!(self.out, "\"pid\":{pid},\"tid\":{tid},\"ts\":{}.{:03}", ns / 1000, ns % 1000)
    }

    fn write_separator(&mut self) -> io::Result<()> {
        let before: &[u8] = if self.is_first { b"\n" } else { b",\n" };
        self.is_first = false;
        self.out.write_all(before)
    }
}
