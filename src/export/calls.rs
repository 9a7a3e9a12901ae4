//! The rows of calls and marks: the part of an export that grows with the recording.
//!
//! Converts the events of a process to rows. It keeps calls that have not returned, and each stack once.

use crate::keys::table_time;
use crate::table::TablePart;
use crate::tables::{Call as Row, Calls, Mark, Marks};
use anyhow::{Context, Result};
use cupeer_record::{Call, Clock, Event, Outcome, Process};
use cupeer_report::model::Fingerprint;
use cupeer_report::pending::PendingCalls;
use cupeer_report::places::StackTable;
use cupeer_report::results::is_usual;
use cupeer_report::{expected, values};
use cupeer_spec::function::{FnId, Library};
use std::borrow::Cow;

/// Number of stacks per process that are exported. Later calls have only their caller. Programs have some
/// hundreds.
const MOST_STACKS: usize = 1 << 16;
/// Number of events between two progress reports.
const STEP: u64 = 1 << 14;

/// Results of reading the events of one process.
pub struct ReadResults {
    pub calls: u64,
    pub marks: u64,
    /// Problem with the file of the process: the rest of a sentence that begins with the path.
    pub problem: Option<String>,
    /// Stacks that the calls of the process name.
    pub stacks: StackTable,
    /// Number of calls without a stack, because the process had more than `MOST_STACKS` stacks.
    pub without_stack: u64,
}

/// Returns the number of a stack in the tables, by its number in its process.
pub fn global_stack_number(process: usize, stack: usize) -> i64 {
    (process as i64 + 1) << 32 | stack as i64
}

/// Reads a process, and adds its calls and marks. Reports the number of events read, and stops if the
/// callback says so.
pub fn read_process(
    index: usize,
    process: &Process,
    clock: Clock,
    calls: &mut TablePart<Calls>,
    marks: &mut TablePart<Marks>,
    went_on: &dyn Fn(u64) -> bool,
) -> Result<ReadResults> {
    let mut reading = ProcessReader {
        index,
        process,
        clock,
        arguments: (0..process.functions.len().max(1)).map(|_| None).collect(),
        read: ReadResults { calls: 0, marks: 0, problem: None, stacks: StackTable::default(), without_stack: 0 },
    };
    let mut pending = PendingCalls::default();
    let mut events = process.events().with_context(|| format!("failed to read {}", process.path.display()))?;
    let mut since = 0;
    // Take the event by reference, because moving an event costs as much as counting it.
    while let Some(event) = &events.next() {
        match event {
            Event::Mark { tid, time, text } => {
                let text = String::from_utf8_lossy(text);
                let time_ns = table_time(clock.realtime(*time));
                marks.push_row(index as u32, &Mark { time_ns, tid: *tid as i32, text: &text })?;
                reading.read.marks += 1;
            }
            _ => {
                if let Some(call) = pending.take_completed(event) {
                    reading.add_call(&call, calls)?;
                }
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
    pending.into_unfinished().iter().try_for_each(|call| reading.add_call(call, calls))?;
    reading.read.problem = events.first_error().map(|error| format!("cannot be read completely: {error}"));
    Ok(reading.read)
}

struct ProcessReader<'a> {
    index: usize,
    process: &'a Process,
    clock: Clock,
    /// Argument columns, by the functions' numbers in the recording.
    arguments: Vec<Option<ArgumentColumns>>,
    read: ReadResults,
}

/// Positions of a function's arguments that are columns of the table.
#[derive(Clone, Copy)]
struct ArgumentColumns {
    library: &'static str,
    name: &'static str,
    address: Option<usize>,
    handle: Option<usize>,
    size: Option<usize>,
}

impl ArgumentColumns {
    fn new(function: FnId) -> ArgumentColumns {
        let spec = function.spec();
        let shared = spec.exports().or(spec.opens());
        let named = shared.map(|shared| shared.by);
        let named = named.or(spec.closes().map(|closed| closed.by)).or(spec.makes().map(|made| made.by));
        ArgumentColumns {
            library: library_word(spec.library),
            name: spec.name(),
            address: named.or(spec.ends().map(|end| end.by)),
            handle: shared.map(|shared| shared.handle),
            size: spec.size_argument(),
        }
    }
}

fn library_word(library: Library) -> &'static str {
    match library {
        Library::Cuda => "cuda",
        Library::Nvml => "nvml",
        Library::Cudart => "cudart",
    }
}

impl ProcessReader<'_> {
    /// Adds the row of a call.
    fn add_call(&mut self, call: &Call, part: &mut TablePart<Calls>) -> Result<()> {
        let arguments = self.argument_columns(call);
        let details = &*call.details;
        let number = |argument: Option<usize>| call.argument_number(argument?).map(|number| number as i64);
        let result = result_name(call);
        let message = details.message.as_deref().map(String::from_utf8_lossy);
        let bytes = details.memory.map(|(_, bytes)| bytes as i64);
        let fingerprint = arguments
            .and_then(|arguments| values::handle_fingerprints(call, arguments.handle?))
            .map(|(fingerprint, _)| Fingerprint(fingerprint).to_string());
        let row = Row {
            time_ns: table_time(self.clock.realtime(call.start)),
            duration_ns: (call.outcome != Outcome::Pending)
                .then(|| table_time(self.clock.between(call.start, call.end))),
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
            result: result.as_deref(),
            injected: call.injected,
            injected_by: call.injecting_fault().or(call.stopping_fault().map(|hit| &*hit.fault_name)),
            fingerprint: fingerprint.as_deref(),
            address: number(arguments.and_then(|arguments| arguments.address)),
            bytes: bytes.or_else(|| number(arguments.and_then(|arguments| arguments.size))),
            device: details.devices.0,
            peer_device: details.devices.1,
            stack: self.stack_of_call(call),
            message: message.as_deref(),
            is_usual: matches!(call.outcome, Outcome::Returned(result) if result != 0
                && (is_usual(call.function, result) || expected::reason_expected(self.process, call).is_some())),
            calls: call.call_count() as i64,
            calls_until_ns: details.repeats.map(|run| table_time(self.clock.realtime(run.end))),
        };
        self.read.calls += 1;
        part.push_row(self.index as u32, &row)
    }

    /// Returns the argument columns of the function of a call; `None` for a function of a later version.
    fn argument_columns(&mut self, call: &Call) -> Option<ArgumentColumns> {
        let function = call.function?;
        Some(match self.arguments.get_mut(usize::from(call.number)) {
            Some(known) => *known.get_or_insert_with(|| ArgumentColumns::new(function)),
            None => ArgumentColumns::new(function),
        })
    }

    fn stack_of_call(&mut self, call: &Call) -> Option<i64> {
        if call.caller == 0 && call.details.frames.is_empty() {
            return None;
        }
        if self.read.stacks.len() >= MOST_STACKS {
            self.read.without_stack += 1;
            return None;
        }
        let stack = self.read.stacks.of(self.index, call);
        Some(global_stack_number(self.index, stack.index()))
    }
}

/// Returns the name of the result of a call, or its number; `None` if the call did not return.
fn result_name(call: &Call) -> Option<Cow<'static, str>> {
    let Outcome::Returned(result) = call.outcome else { return None };
    let library = call.function.map_or(Library::Cuda, |function| function.spec().library);
    // Most calls succeed, so their result needs no search in the table.
    if result == 0 && library == Library::Cuda {
        return Some("CUDA_SUCCESS".into());
    }
    let name = library.result(result).map(|spec| Cow::from(spec.name()));
    Some(name.unwrap_or_else(|| result.to_string().into()))
}
