//! The recording as a trace for ui.perfetto.dev, in Chrome's trace event format: a track for each thread, a slice for
//! each call, arrows from the export of a handle to its open and its close, across processes, and counters of memory.
//!
//! It reads the recording a second time, because an arrow begins at the place that the handle table found. Only open
//! objects are kept in memory.

mod arrows;
mod tracks;
mod writer;

use anyhow::{Context, Result};
use arrows::Arrows;
use cupeer_facts::first_pass::{FirstPass, HandleDomain};
use cupeer_record::{Call, Clock, Event, Hit, Job, Outcome, Process};
use cupeer_report::filter::Filter;
use cupeer_report::moments::number;
use cupeer_report::pending::PendingCalls;
use cupeer_report::places::Places;
use cupeer_report::symbols::Symbols;
use cupeer_report::terminal::Json;
use cupeer_report::{lives, results, values};
use cupeer_spec::uuid::Short;
use cupeer_views::form::{About, Cleaning, Form, Given};
use serde_json::{Map, Value};
use std::io::{self, ErrorKind::BrokenPipe, Write};
use tracks::Tracks;
use writer::Writer;

/// Approximate number of bytes that a call takes in the trace.
const EACH: u64 = 220;
/// Largest size in bytes of a trace that ui.perfetto.dev is known to open. The page reads the whole trace
/// into the browser's memory.
const MOST: u64 = 600_000_000;

/// Form `trace` of the report.
pub struct TraceForm;

impl Form for TraceForm {
    fn about(&self) -> About {
        let about = About::new("trace", "Trace events for ui.perfetto.dev");
        About { needs_calls: true, has_verdict: false, cleaning: Cleaning::Own, ..about }
    }

    fn render(&self, given: &mut Given, out: &mut dyn Write) -> Result<io::Result<()>> {
        let warn = given.warn;
        let (job, filter, symbols) = given.calls()?;
        // Warn before the trace is written, because viewers read a whole trace into their memory.
        let before = |events| too_large(events).iter().for_each(|sentence| warn(sentence));
        match write(job, filter, symbols, out, before) {
            // Reading and writing take turns here, and only this failure is surely one of writing.
            Err(error)
                if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == BrokenPipe) =>
            {
                Ok(Err(BrokenPipe.into()))
            }
            written => written.map(Ok),
        }
    }
}

/// Returns the warning about a trace of this many events, which few tools can open; `None` if the trace is
/// small enough.
pub fn too_large(events: u64) -> Option<String> {
    let bytes = events.saturating_mul(EACH);
    (bytes > MOST).then(|| {
        format!(
            "the trace of {} events takes about {} MB, and viewers may fail to open it; --since, --until, --rank and --function make it smaller",
            number(events),
            number(bytes / 1_000_000)
        )
    })
}

/// Writes the trace. `before` is called with the number of events before the first event is written.
pub fn write(
    job: &Job,
    filter: &Filter,
    symbols: &mut Symbols,
    out: impl Write,
    before: impl FnOnce(u64),
) -> Result<()> {
    let first = &FirstPass::read(job, filter)?;
    before(first.chosen());
    let began = lives::began(job);
    let mut trace = Trace {
        job,
        filter,
        first,
        ended: first.ended(),
        places: Places::new(&job.processes, symbols),
        tracks: Tracks::new(job),
        arrows: Arrows::default(),
        out: Writer::new(Json(out), began),
    };
    trace.write()
}

struct Trace<'a, W: Write> {
    job: &'a Job,
    filter: &'a Filter,
    first: &'a FirstPass<'a>,
    ended: u64,
    places: Places<'a>,
    tracks: Tracks,
    arrows: Arrows,
    out: Writer<Json<W>>,
}

struct Current<'a> {
    index: usize,
    process: &'a Process,
    clock: Clock,
    domain: HandleDomain,
}

impl<W: Write> Trace<'_, W> {
    fn write(&mut self) -> Result<()> {
        self.out.begin()?;
        for (index, process) in self.job.processes.iter().enumerate().filter(|(i, _)| self.filter.process(*i))
        {
            let current =
                Current { index, process, clock: self.job.clock(process), domain: self.first.domain(index) };
            self.tracks.process(index, process, &mut self.out)?;
            self.process(&current)?;
        }
        self.found()?;
        self.memory()?;
        Ok(self.out.end()?)
    }

    /// Writes the memory of each process on each device, by state, as counters.
    fn memory(&mut self) -> Result<()> {
        for device in self.first.memory(&mut self.places) {
            let name = format!("memory of GPU {}", Short(device.device.0));
            for (index, process) in
                self.job.processes.iter().enumerate().filter(|(i, _)| self.filter.process(*i))
            {
                let lines: Vec<_> = device.series.iter().filter(|line| *line.proc == *process.proc).collect();
                let mut last = Map::new();
                for (i, at) in device.times_ns.iter().enumerate().take_while(|(_, at)| **at <= self.ended) {
                    let mut sums: Map<String, Value> = Map::new();
                    for line in &lines {
                        let sum = sums.get(line.state).and_then(Value::as_u64).unwrap_or(0);
                        sums.insert(line.state.into(), sum.saturating_add(line.bytes[i]).into());
                    }
                    if sums != last {
                        self.out.counter(self.tracks.first(index), *at, &name, &sums)?;
                        last = sums;
                    }
                }
            }
        }
        Ok(())
    }

    fn process(&mut self, current: &Current) -> Result<()> {
        let mut pending = PendingCalls::default();
        self.arrows.begin();
        let events = current.process.events();
        for event in events.with_context(|| format!("failed to read {}", current.process.path.display()))? {
            if let Event::Mark { tid, time, text } = &event {
                let at = current.clock.realtime(*time);
                if self.filter.shows(None, false, at) {
                    let track = self.tracks.thread(current.index, *tid, &mut self.out)?;
                    self.out.mark(track, at, "mark", &String::from_utf8_lossy(text), None)?;
                }
            } else if let Some(call) = pending.completed(&event) {
                self.call(current, &call)?;
            }
        }
        pending.rest().iter().try_for_each(|call| self.call(current, call))
    }

    fn call(&mut self, current: &Current, call: &Call) -> Result<()> {
        let at = current.clock.realtime(call.start);
        if !self.filter.call(call, at) {
            return Ok(());
        }
        let track = self.tracks.thread(current.index, call.tid, &mut self.out)?;
        let name = current.process.function_name(call.number);
        let until = match call.outcome {
            Outcome::Pending => self.ended,
            _ => current.clock.realtime(call.end),
        };
        let args = self.args(current, call);
        self.out.slice(track, (name, call), (at, until), &args)?;
        for finding in &call.details.findings {
            let args = about(&finding.message, &finding.hint, finding.confidence.word());
            let name = format!("{} {}", finding.severity.word(), finding.rule);
            self.out.mark(track, at, "finding", &name, Some(&args))?;
        }
        for arrow in self.arrows.call(call, current.domain, at, self.first) {
            let (track, at, process, function) = match arrow.export {
                None => (track, at, current.index, None),
                Some((export, function)) => {
                    let track = self.tracks.thread(export.process, export.tid, &mut self.out)?;
                    (track, export.at, export.process, function)
                }
            };
            // An arrow must begin at a slice, so the filters decide.
            let is_shown = function.is_none() || self.filter.shows(function, false, at);
            if is_shown && self.filter.process(process) {
                self.out.arrow(track, at, arrow.phase, arrow.id)?;
            }
        }
        Ok(())
    }

    /// Writes the findings that the report added. Findings of the run itself are written with their calls.
    fn found(&mut self) -> Result<()> {
        for (process, finding) in self.first.found(&mut self.places) {
            let track = self.tracks.thread(process, finding.tid, &mut self.out)?;
            let args = about(&finding.message, &finding.hint, finding.confidence);
            let name = format!("{} {}", finding.severity, finding.rule);
            self.out.mark(track, finding.time_ns, "finding", &name, Some(&args))?;
        }
        Ok(())
    }

    /// Returns the arguments of a slice.
    fn args(&mut self, current: &Current, call: &Call) -> Map<String, Value> {
        let mut args = values::args(call);
        let result = match call.outcome {
            Outcome::Returned(result) => results::name(call.function, result).into(),
            Outcome::Unwound => "left by an exception, a cancellation, or a jump".into(),
            Outcome::Pending => Value::from("has not returned"),
        };
        args.insert("result".into(), result);
        if let Some(run) = call.details.run {
            let until = current.clock.realtime(run.end);
            args.insert("calls".into(), call.times().into());
            args.insert("calls_until_ns".into(), until.into());
            let total = current.clock.between(call.start, call.start.saturating_add(run.total));
            args.insert("calls_took_ns".into(), total.into());
        }
        if call.injected {
            args.insert("injected".into(), true.into());
        }
        if let Some(rule) = call.injected_by().or(call.stopped_by().map(|hit| &*hit.rule)) {
            args.insert("injected_by".into(), rule.into());
        }
        let fired = |hit: &Hit| format!("{}: {}", hit.rule, hit.words().collect::<Vec<_>>().join(", "));
        if !call.details.hits.is_empty() {
            args.insert("faults".into(), call.details.hits.iter().map(fired).collect());
        }
        if let Some(message) = &call.details.message {
            args.insert("driver_message".into(), String::from_utf8_lossy(message).into());
        }
        let (caller, stack) = self.places.of(current.index, call);
        args.insert("caller".into(), caller.long().into());
        if stack.len() > 1 {
            args.insert("stack".into(), stack.iter().map(|place| place.long()).collect());
        }
        args
    }
}

fn about(message: &str, hint: &str, confidence: &str) -> Map<String, Value> {
    let texts = [("message", message), ("hint", hint), ("confidence", confidence)];
    texts.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_few_could_open_is_announced() {
        assert_eq!(too_large(MOST / EACH), None);
        let sentence = too_large(10_000_000).unwrap();
        assert!(sentence.starts_with("the trace of 10,000,000 events takes about 2,200 MB, "), "{sentence}");
    }
}
