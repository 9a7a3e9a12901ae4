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
use cupeer_record::{Call, Clock, Event, FiredFault, Job, Outcome, Process};
use cupeer_report::filter::Filter;
use cupeer_report::moments::number;
use cupeer_report::pending::PendingCalls;
use cupeer_report::places::PlaceTable;
use cupeer_report::symbols::Symbols;
use cupeer_report::terminal::EscapingJsonWriter;
use cupeer_report::{lives, results, values};
use cupeer_spec::uuid::ShortUuid;
use cupeer_views::form::{Cleaning, FormInput, FormProperties, ReportForm};
use serde_json::{Map, Value};
use std::io::{self, ErrorKind::BrokenPipe, Write};
use tracks::Tracks;
use writer::TraceEventWriter;

/// Approximate number of bytes that a call takes in the trace.
const BYTES_PER_CALL: u64 = 220;
/// Largest size in bytes of a trace that ui.perfetto.dev is known to open: the page reads the whole trace
/// into the browser's memory. If a trace is larger, a warning is printed.
const MOST_BYTES: u64 = 600_000_000;

/// Form `trace` of the report.
pub struct TraceForm;

impl ReportForm for TraceForm {
    fn properties(&self) -> FormProperties {
        let about = FormProperties::new("trace", "Trace events for ui.perfetto.dev");
        FormProperties { needs_calls: true, has_verdict: false, cleaning: Cleaning::Own, ..about }
    }

    fn render(&self, given: &mut FormInput, out: &mut dyn Write) -> Result<io::Result<()>> {
        let warn = given.warn;
        let (job, filter, symbols) = given.recording()?;
        // Warn before the trace is written, because viewers read a whole trace into their memory.
        let before = |events| size_warning(events).iter().for_each(|sentence| warn(sentence));
        match write_trace(job, filter, symbols, out, before) {
            // Reading and writing take turns here, and only this failure is surely one of writing.
            Err(error) if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == BrokenPipe) => {
                Ok(Err(BrokenPipe.into()))
            }
            written => written.map(Ok),
        }
    }
}

/// Returns the warning about a trace of this many events, which few tools can open; `None` if the trace is
/// small enough.
pub fn size_warning(events: u64) -> Option<String> {
    let bytes = events.saturating_mul(BYTES_PER_CALL);
    (bytes > MOST_BYTES).then(|| {
        format!(
            "the trace of {} events takes about {} MB, and viewers may fail to open it; --since, --until, --rank and --function make it smaller",
            number(events),
            number(bytes / 1_000_000)
        )
    })
}

/// Writes the trace. `before` is called with the number of events before the first event is written.
pub fn write_trace(
    job: &Job,
    filter: &Filter,
    symbols: &mut Symbols,
    out: impl Write,
    before: impl FnOnce(u64),
) -> Result<()> {
    let first = &FirstPass::read(job, filter)?;
    before(first.count_chosen_events());
    let began = lives::recording_start(job);
    let mut trace = TraceExport {
        job,
        filter,
        first,
        ended: first.end_time(),
        places: PlaceTable::new(&job.processes, symbols),
        tracks: Tracks::new(job),
        arrows: Arrows::default(),
        out: TraceEventWriter::new(EscapingJsonWriter(out), began),
    };
    trace.write_all()
}

struct TraceExport<'a, W: Write> {
    job: &'a Job,
    filter: &'a Filter,
    first: &'a FirstPass<'a>,
    ended: u64,
    places: PlaceTable<'a>,
    tracks: Tracks,
    arrows: Arrows,
    out: TraceEventWriter<EscapingJsonWriter<W>>,
}

struct CurrentProcess<'a> {
    index: usize,
    process: &'a Process,
    clock: Clock,
    domain: HandleDomain,
}

impl<W: Write> TraceExport<'_, W> {
    fn write_all(&mut self) -> Result<()> {
        self.out.write_begin()?;
        for (index, process) in self.job.processes.iter().enumerate().filter(|(i, _)| self.filter.has_process(*i)) {
            let current = CurrentProcess {
                index,
                process,
                clock: self.job.clock(process),
                domain: self.first.handle_domain(index),
            };
            self.tracks.write_process_name(index, process, &mut self.out)?;
            self.write_process(&current)?;
        }
        self.write_findings()?;
        self.write_memory()?;
        Ok(self.out.write_end()?)
    }

    /// Writes the memory of each process on each device, by state, as counters.
    fn write_memory(&mut self) -> Result<()> {
        for device in self.first.memory_over_time(&mut self.places) {
            let name = format!("memory of GPU {}", ShortUuid(device.device.0));
            for (index, process) in self.job.processes.iter().enumerate().filter(|(i, _)| self.filter.has_process(*i)) {
                let lines: Vec<_> = device.series.iter().filter(|line| *line.proc == *process.proc).collect();
                let mut last = Map::new();
                for (i, at) in device.times_ns.iter().enumerate().take_while(|(_, at)| **at <= self.ended) {
                    let mut sums: Map<String, Value> = Map::new();
                    for line in &lines {
                        let sum = sums.get(line.state).and_then(Value::as_u64).unwrap_or(0);
                        sums.insert(line.state.into(), sum.saturating_add(line.bytes[i]).into());
                    }
                    if sums != last {
                        self.out.write_counter(self.tracks.process_track(index), *at, &name, &sums)?;
                        last = sums;
                    }
                }
            }
        }
        Ok(())
    }

    fn write_process(&mut self, current: &CurrentProcess) -> Result<()> {
        let mut pending = PendingCalls::default();
        self.arrows.begin_process();
        let events = current.process.events();
        for event in events.with_context(|| format!("failed to read {}", current.process.path.display()))? {
            if let Event::Mark { tid, time, text } = &event {
                let at = current.clock.realtime(*time);
                if self.filter.has_call_of(None, false, at) {
                    let track = self.tracks.thread_track(current.index, *tid, &mut self.out)?;
                    self.out.write_instant(track, at, "mark", &String::from_utf8_lossy(text), None)?;
                }
            } else if let Some(call) = pending.take_completed(&event) {
                self.write_call(current, &call)?;
            }
        }
        pending.into_unfinished().iter().try_for_each(|call| self.write_call(current, call))
    }

    fn write_call(&mut self, current: &CurrentProcess, call: &Call) -> Result<()> {
        let at = current.clock.realtime(call.start);
        if !self.filter.has_call(call, at) {
            return Ok(());
        }
        let track = self.tracks.thread_track(current.index, call.tid, &mut self.out)?;
        let name = current.process.function_name(call.number);
        let until = match call.outcome {
            Outcome::Pending => self.ended,
            _ => current.clock.realtime(call.end),
        };
        let args = self.slice_arguments(current, call);
        self.out.write_slice(track, (name, call), (at, until), &args)?;
        for finding in &call.details.findings {
            let args = finding_arguments(&finding.message, &finding.hint, finding.confidence.word());
            let name = format!("{} {}", finding.severity.word(), finding.rule);
            self.out.write_instant(track, at, "finding", &name, Some(&args))?;
        }
        for arrow in self.arrows.arrows_of_call(call, current.domain, at, self.first) {
            let (track, at, process, function) = match arrow.export {
                None => (track, at, current.index, None),
                Some((export, function)) => {
                    let track = self.tracks.thread_track(export.process, export.tid, &mut self.out)?;
                    (track, export.at, export.process, function)
                }
            };
            // An arrow must begin at a slice, so the filters decide.
            let is_shown = function.is_none() || self.filter.has_call_of(function, false, at);
            if is_shown && self.filter.has_process(process) {
                self.out.write_arrow_end(track, at, arrow.phase, arrow.id)?;
            }
        }
        Ok(())
    }

    /// Writes the findings that the report added. Findings of the run itself are written with their calls.
    fn write_findings(&mut self) -> Result<()> {
        for (process, finding) in self.first.inferred_findings(&mut self.places) {
            let track = self.tracks.thread_track(process, finding.tid, &mut self.out)?;
            let args = finding_arguments(&finding.message, &finding.hint, finding.confidence);
            let name = format!("{} {}", finding.severity, finding.rule);
            self.out.write_instant(track, finding.time_ns, "finding", &name, Some(&args))?;
        }
        Ok(())
    }

    /// Returns the arguments of a slice.
    fn slice_arguments(&mut self, current: &CurrentProcess, call: &Call) -> Map<String, Value> {
        let mut args = values::args(call);
        let result = match call.outcome {
            Outcome::Returned(result) => results::result_name(call.function, result).into(),
            Outcome::Unwound => "left by an exception, a cancellation, or a jump".into(),
            Outcome::Pending => Value::from("has not returned"),
        };
        args.insert("result".into(), result);
        if let Some(run) = call.details.repeats {
            let until = current.clock.realtime(run.end);
            args.insert("calls".into(), call.call_count().into());
            args.insert("calls_until_ns".into(), until.into());
            let total = current.clock.between(call.start, call.start.saturating_add(run.total));
            args.insert("calls_took_ns".into(), total.into());
        }
        if call.injected {
            args.insert("injected".into(), true.into());
        }
        if let Some(rule) = call.injecting_fault().or(call.stopping_fault().map(|hit| &*hit.fault_name)) {
            args.insert("injected_by".into(), rule.into());
        }
        let fired =
            |hit: &FiredFault| format!("{}: {}", hit.fault_name, hit.effect_words().collect::<Vec<_>>().join(", "));
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

fn finding_arguments(message: &str, hint: &str, confidence: &str) -> Map<String, Value> {
    let texts = [("message", message), ("hint", hint), ("confidence", confidence)];
    texts.into_iter().map(|(name, text)| (name.to_owned(), text.into())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_few_could_open_is_announced() {
        assert_eq!(size_warning(MOST_BYTES / BYTES_PER_CALL), None);
        let sentence = size_warning(10_000_000).unwrap();
        assert!(sentence.starts_with("the trace of 10,000,000 events takes about 2,200 MB, "), "{sentence}");
    }
}
