//! The calls of a process, as rows: the part of an export that grows with the record.
//!
//! Converts events to rows. It keeps the row group that is being filled, calls that have not returned, and
//! each stack once.

use crate::keys::moment;
use crate::table::Part;
use crate::tables::{Call as Row, Calls, Mark, Marks};
use anyhow::{Context, Result};
use cupeer_record::{Call, Clock, Event, Outcome, Process};
use cupeer_report::model::Fingerprint;
use cupeer_report::places::Stacks;
use cupeer_report::results::is_usual;
use cupeer_report::{expected, values};
use cupeer_spec::function::{FnId, Library};
use cupeer_spec::results::ResultSpec;
use std::collections::HashMap;

/// Number of stacks per process that are exported. Later calls have only their caller. Programs have some
/// hundreds.
const MOST_STACKS: usize = 1 << 16;
/// Number of events between two progress reports.
const STEP: u64 = 1 << 14;

/// Results of reading one process.
pub struct Read {
    pub calls: u64,
    pub marks: u64,
    /// Problem with its file: a sentence without a subject.
    pub problem: Option<String>,
    /// The stacks that its calls name.
    pub stacks: Stacks,
    /// Number of calls without a stack, because there were too many stacks.
    pub without_stack: u64,
}

/// The number of a stack in the tables, from that in its process.
pub fn stack_number(process: usize, stack: usize) -> i64 {
    (process as i64 + 1) << 32 | stack as i64
}

/// Reads a process, and adds its calls and marks. Reports the number of events read, and stops if the
/// callback says so.
pub fn read(
    index: usize,
    process: &Process,
    clock: Clock,
    calls: &mut Part<Calls>,
    marks: &mut Part<Marks>,
    went_on: &dyn Fn(u64) -> bool,
) -> Result<Read> {
    let mut reading = ProcessReader {
        index,
        process,
        clock,
        arguments: (0..process.functions.len().max(1)).map(|_| None).collect(),
        read: Read { calls: 0, marks: 0, problem: None, stacks: Stacks::default(), without_stack: 0 },
    };
    let mut pending: HashMap<(u32, u64), Call, foldhash::fast::RandomState> = HashMap::default();
    let failed = || format!("failed to read {}", process.path.display());
    let mut events = process.events().with_context(failed)?;
    let mut since = 0;
    loop {
        // By reference, because moving an event costs as much as counting it.
        let next = events.next();
        let Some(event) = &next else { break };
        match event {
            Event::Call(call) if call.outcome == Outcome::Pending => {
                pending.insert((call.stream, call.seq), call.clone());
            }
            Event::Call(call) => {
                reading.call(call, calls)?;
            }
            Event::LateEnd { stream, seq, .. } => {
                if let Some(mut call) = pending.remove(&(*stream, *seq))
                    && call.finish(event)
                {
                    reading.call(&call, calls)?;
                }
            }
            Event::Use(_) => {}
            Event::Mark { tid, time, text } => {
                let text = String::from_utf8_lossy(text);
                let time_ns = moment(clock.realtime(*time));
                marks.push(index as u32, Mark { time_ns, tid: *tid as i32, text: &text });
                marks.settle()?;
                reading.read.marks += 1;
            }
        }
        since += 1;
        if since == STEP {
            since = 0;
            if !went_on(STEP) {
                break;
            }
        }
    }
    went_on(since);
    let mut pending: Vec<Call> = pending.into_values().collect();
    pending.sort_by_key(|call| (call.start, call.stream, call.seq));
    for call in &pending {
        reading.call(call, calls)?;
    }
    reading.read.problem = events.error().map(|error| format!("cannot be read completely: {error}"));
    Ok(reading.read)
}

struct ProcessReader<'a> {
    index: usize,
    process: &'a Process,
    clock: Clock,
    /// Argument columns, by the functions' numbers in the recording.
    arguments: Vec<Option<Arguments>>,
    read: Read,
}

/// Positions of a function's arguments that are columns of the table.
#[derive(Clone, Copy)]
struct Arguments {
    library: &'static str,
    name: &'static str,
    address: Option<usize>,
    handle: Option<usize>,
    size: Option<usize>,
}

impl Arguments {
    fn of(function: FnId) -> Arguments {
        let spec = function.spec();
        let shared = spec.exports().or(spec.opens());
        let named = shared.map(|shared| shared.by);
        let named = named.or(spec.closes().map(|closed| closed.by)).or(spec.makes().map(|made| made.by));
        Arguments {
            library: word(spec.library),
            name: spec.name(),
            address: named.or(spec.ends().map(|end| end.by)),
            handle: shared.map(|shared| shared.handle),
            size: spec.sized_by(),
        }
    }
}

/// The word for a library.
pub fn word(library: Library) -> &'static str {
    match library {
        Library::Cuda => "cuda",
        Library::Nvml => "nvml",
        Library::Cudart => "cudart",
    }
}

impl ProcessReader<'_> {
    #[inline]
    fn call(&mut self, call: &Call, part: &mut Part<Calls>) -> Result<()> {
        let arguments = call.function.map(|function| {
            let place = self.arguments.get_mut(usize::from(call.number));
            match place {
                Some(place) => *place.get_or_insert_with(|| Arguments::of(function)),
                None => Arguments::of(function),
            }
        });
        let details = &*call.details;
        let number = |argument: Option<usize>| call.number(argument?).map(|number| number as i64);
        let result_name: String;
        let result = match call.outcome {
            Outcome::Returned(result) => match named(call.function, result) {
                Some(name) => Some(name),
                None => {
                    result_name = result.to_string();
                    Some(&*result_name)
                }
            },
            _ => None,
        };
        let stack = self.stack(call);
        let message = details.message.as_deref().map(String::from_utf8_lossy);
        let injected_by = call.injected_by().or(call.stopped_by().map(|hit| &*hit.rule));
        let bytes = details.memory.map(|(_, bytes)| bytes as i64);
        let fingerprint = arguments
            .and_then(|arguments| values::handle(call, arguments.handle?))
            .map(|(fingerprint, _)| Fingerprint(fingerprint).to_string());
        let row = Row {
            time_ns: moment(self.clock.realtime(call.start)),
            duration_ns: (call.outcome != Outcome::Pending)
                .then(|| moment(self.clock.between(call.start, call.end))),
            tid: call.tid as i32,
            stream: call.stream as i32,
            seq: call.seq as i64,
            library: arguments.map_or("cuda", |arguments| arguments.library),
            function: match arguments {
                Some(arguments) => arguments.name,
                None => self.process.function_name(call.number),
            },
            outcome: match call.outcome {
                Outcome::Returned(_) => "returned",
                Outcome::Pending => "pending",
                Outcome::Unwound => "unwound",
            },
            result,
            injected: call.injected,
            injected_by,
            fingerprint: fingerprint.as_deref(),
            address: number(arguments.and_then(|arguments| arguments.address)),
            bytes: bytes.or_else(|| number(arguments.and_then(|arguments| arguments.size))),
            device: details.devices.0,
            peer_device: details.devices.1,
            stack,
            message: message.as_deref(),
            is_usual: matches!(call.outcome, Outcome::Returned(result) if result != 0
                && (is_usual(call.function, result) || expected::why(self.process, call).is_some())),
            calls: call.times() as i64,
            calls_until_ns: details.run.map(|run| moment(self.clock.realtime(run.end))),
        };
        part.push(self.index as u32, row);
        self.read.calls += 1;
        part.settle()
    }

    #[inline]
    fn stack(&mut self, call: &Call) -> Option<i64> {
        if call.caller == 0 && call.details.frames.is_empty() {
            return None;
        }
        if self.read.stacks.len() >= MOST_STACKS {
            self.read.without_stack += 1;
            return None;
        }
        let stack = self.read.stacks.of(self.index, call);
        Some(stack_number(self.index, stack.index()))
    }
}

/// The name of a result, where it has one.
#[inline]
fn named(function: Option<FnId>, result: i32) -> Option<&'static str> {
    let library = function.map_or(Library::Cuda, |function| function.spec().library);
    if result == 0 && library == Library::Cuda {
        return Some("CUDA_SUCCESS");
    }
    library.result(result).map(ResultSpec::name)
}
