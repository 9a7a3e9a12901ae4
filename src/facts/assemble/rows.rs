//! Builds the rows about the recording, its processes, and its devices, and puts all other rows in their places. Facts
//! about all processes together follow from these in [`super::part`].

use crate::assemble::part::JobPart;
use crate::assemble::part::directory::{bypassing_processes, read_hangs, started_row, unrecorded_processes};
use crate::follow::collect::Collected;
use crate::follow::collect::ProcessStats;
use crate::follow::functions::{FunctionCounts, Number};
use crate::follow::{faults, pools};
use crate::infer::{self, leaks};
use cupeer_record::{self as record, Call, Job};
use cupeer_report::filter::Filter;
use cupeer_report::lives::{end_and_executed_program, process_start, recording_start};
use cupeer_report::model::{
    Device, Escaped, Exit, ExitKind, LastCall, Ordinal, Pending, Process, Record, Unknown, Uuid, Word,
};
use cupeer_report::names::counted;
use cupeer_report::places::{FunctionFinder, NoSymbols, PlaceTable};
use cupeer_report::values;
use cupeer_spec::function::{FnId, Group};
use cupeer_spec::record::{meta, mode};
use std::collections::BTreeMap;
use std::time::SystemTime;

/// Builds the data of one recording. If it `is_part` of a job, the data includes facts that only matter together with those
/// of other parts.
pub fn build_part(
    job: &Job,
    filter: &Filter,
    mut all: Collected,
    names: &mut dyn FunctionFinder,
    is_part: bool,
) -> JobPart {
    let began = recording_start(job);
    let ended = end_of_recording(&all, filter, began);
    let mut places = PlaceTable::new(&job.processes, names);
    let context = infer::Context::new(job, &all, filter, is_part);
    let found = infer::find_all(&context, &mut places);
    let clues = infer::clues(&context, &mut places);
    let accesses = infer::handle_accesses(&context, &all.fates);
    let (memory, memory_over_time) = infer::device_memory(&context, &mut places);
    let allocations = context.imports().rows(&all.fates, ended);
    let groups = all.failures.group_rows(&all.functions, &all.fates, &all.stacks, &all.made_by, &mut places);
    let Collected { failures, functions: names, fates, stacks, made_by, .. } = &mut all;
    let (failures, failures_more) = failures.rows(names, fates, stacks, made_by, &mut places);
    let processes = process_rows(job, filter, &all, &mut places, ended);
    let leaks = leaks::rows(&all, job, &mut places, filter, ended);
    let pools = pools::rows(&all.memories, &all.fates);
    let record = record_row(job, &all, filter, began, ended);
    // There may be very many callers, and symbol look-ups are slow, so callers have only a library and an offset.
    let mut nameless = NoSymbols;
    let mut unnamed = PlaceTable::new(&job.processes, &mut nameless);
    let (callers, callers_more) = std::mem::take(&mut all.callers).resolve_names(&all.functions, &mut unnamed);
    let fired = std::mem::take(&mut all.fired);
    let (marks, marks_more) = std::mem::take(&mut all.marks).rows(&all.fates);
    JobPart {
        record,
        keys: job.processes.iter().map(|process| process.header.key_check).collect(),
        processes,
        devices: device_rows(job),
        functions: all.functions.take_sums(),
        callers,
        callers_more,
        found,
        faults: faults::rows(job, fired),
        handles: all
            .ledger
            .rows(&all.fates, accesses, |entry| all.allocators.allocator_of(entry, &job.processes, &all.stacks)),
        handles_more: 0,
        handles_more_bytes: 0,
        allocations,
        memory,
        memory_over_time,
        pools,
        leaks,
        peers: all.peers.rows(&all.fates),
        failures,
        failures_more,
        failure_groups: groups,
        clues,
        marks,
        marks_more,
        escaped: bypass_rows(job),
        unnamed: Vec::new(),
    }
}

/// Returns the end of the recording: the last event, the last end of a process, or now if a process runs; at most the end of the
/// filter's time range.
pub fn end_of_recording(all: &Collected, filter: &Filter, began: u64) -> u64 {
    let ends = all.fates.iter().map(|fate| fate.last_seen.max(fate.ended_by.unwrap_or(0)));
    let mut ended = ends.max().unwrap_or(began);
    if all.fates.iter().any(|fate| fate.alive == Some(true))
        && let Ok(now) = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)
    {
        ended = ended.max(now.as_nanos() as u64);
    }
    filter.until().map_or(ended, |until| ended.min(until)).max(began)
}

fn mode_word(process: &record::Process) -> &'static str {
    if process.header.mode == mode::FULL { "full" } else { "ring" }
}

fn record_row(job: &Job, all: &Collected, filter: &Filter, began_ns: u64, ended_ns: u64) -> Record {
    let mut modes: Vec<&str> = job.processes.iter().map(mode_word).collect();
    modes.sort_unstable();
    modes.dedup();
    let mut problems: Vec<String> = job.problems.iter().map(ToString::to_string).collect();
    for (process, stats) in job.processes.iter().zip(&all.stats) {
        let path = process.path.display();
        problems.extend(stats.problem.iter().map(|problem| format!("{path} {problem}")));
        problems.extend(process.text(meta::MISSING).map(|missing| format!("{path}: {missing}")));
        problems.extend(process.reason_for_early_end().map(|how| format!("{path} {how}")));
        problems.extend(describe_unknown_ends(stats, &all.functions).map(|which| format!("{path} {which}")));
    }
    for table in job.tables.iter().filter(|table| table.refused > 0) {
        let text = "had no room for some of what was open";
        problems.push(format!("{} {text} ({})", table.path.display(), table.refused));
    }
    let mut record = Record {
        path: job.dir.display().to_string(),
        began_ns,
        ended_ns,
        running: all.fates.iter().any(|fate| fate.alive == Some(true)),
        mode: match modes[..] {
            [mode] => mode,
            // A recording without process files is reported as a ring.
            [] => "ring",
            _ => "mixed",
        },
        dropped: job.processes.iter().any(record::Process::has_overwritten),
        hosts: Vec::new(),
        events: all.stats.iter().map(|stats| stats.events).sum(),
        repeated: all.stats.iter().fold(0, |all, stats| all.saturating_add(stats.repeated)),
        lost: job.processes.iter().fold(0, |all, process| all.saturating_add(process.header.lost)),
        commands: job.commands.clone(),
        started: job.started.iter().map(started_row).collect(),
        forked: infer::forks::forked_after_init(job, all).filter(|late| late.has_failed).count() as u64,
        hangs: read_hangs(&job.hangs),
        quiet: Vec::new(),
        problems,
        matching: (!filter.given_options.is_empty()).then(|| all.stats.iter().map(|stats| stats.chosen).sum()),
        filters: filter.given_options.clone(),
        in_part: !filter.has_all_calls(),
    };
    record.add_quiet(unrecorded_processes(job));
    record
}

/// Returns a sentence without a subject about calls whose end may be missing; `None` if there are none.
fn describe_unknown_ends(stats: &ProcessStats, functions: &FunctionCounts) -> Option<String> {
    let (number, tid) = stats.unknown_ends.first()?;
    let calls = counted(stats.unknown_ends.len() as u64, "call");
    let first = functions.name(*number);
    Some(format!("does not show whether {calls} returned, the first of them {first} in thread {tid}"))
}

fn format_boot_id(id: &[u8; 16]) -> String {
    Uuid(*id).to_string().split_off(4)
}

/// Returns the driver functions that a process called although its complete recording has no call of them. Look-ups of
/// functions and the initialization of the driver are left out.
fn unrecorded_functions(process: &record::Process, index: usize, functions: &FunctionCounts) -> Vec<Word> {
    let is_recorded =
        |name: &str| functions.calls_by_process_of(name).and_then(|all| all.get(index)).is_some_and(|calls| *calls > 0);
    let is_other = |id: &FnId| id.spec().hands_out().is_none() && !id.spec().is_in(Group::Init);
    process.called_functions().filter(is_other).map(|id| id.spec().name()).filter(|name| !is_recorded(name)).collect()
}

fn process_rows(job: &Job, filter: &Filter, all: &Collected, places: &mut PlaceTable, ended: u64) -> Vec<Process> {
    let ordinal = |device: &record::Device| Ordinal { ordinal: device.ordinal, uuid: Uuid(device.uuid) };
    let own_boot = record::host::boot_id();
    let are_others = job.have_executed_another();
    let rows = job.processes.iter().zip(&all.stats).enumerate().map(|(index, (process, stats))| {
        let header = &process.header;
        let (end, became) = end_and_executed_program(process, stats.last_seen, job.clock(process));
        let exit = Exit::of(all.fates[index].alive, end, are_others[index]);
        let unknown = unknown_fields(process, exit.kind, own_boot == Some(header.boot_id));
        // The filter may end at a time at which the process was still running.
        let has_ended = exit.has_ended() && !stats.goes_on;
        let ended_by_ns = all.fates[index].ended_by.filter(|_| has_ended);
        Process {
            proc: all.fates[index].proc.clone(),
            pid: header.pid,
            ppid: header.parent,
            host: process.host().to_owned(),
            boot_id: format_boot_id(&header.boot_id),
            pid_ns: header.pid_ns,
            rank: process.rank(),
            program: process.program().to_owned(),
            arguments: process.arguments.clone(),
            started_by: process.text(meta::STARTED_BY).filter(|by| !by.is_empty()).map(str::to_owned),
            variables: public_variables(process),
            mode: mode_word(process),
            reached_limit: process.reached_limit(),
            events: stats.events,
            repeated: stats.repeated,
            injected: stats.injected,
            lost: header.lost,
            exit,
            ran_until_ns: has_ended.then_some(all.fates[index].ran_until),
            ended_by_ns,
            asked: all.fates[index].ending_signal.clone().filter(|_| has_ended),
            became,
            began_ns: process_start(job, process),
            last_call: stats.last_call.as_ref().map(|last| LastCall {
                function: all.functions.name(last.function),
                tid: last.tid,
                at_ns: last.at,
                caller: matches!(exit.kind, ExitKind::Signal | ExitKind::Died)
                    .then(|| places.place_by_frames(index, last.ticks, &last.frames, &last.python).0),
            }),
            pending: pending_rows(job, index, stats, all, places, ended),
            unrecorded: match filter.has_all_calls() && !process.has_overwritten() {
                true => unrecorded_functions(process, index, &all.functions),
                false => Vec::new(),
            },
            devices: process.devices.iter().map(ordinal).collect(),
            unknown,
        }
    });
    rows.collect()
}

/// Returns the unknown fields of a process, each with the reason.
fn unknown_fields(process: &record::Process, exit: ExitKind, is_here: bool) -> Unknown {
    let unseen = match is_here {
        true => "processes of its pid namespace or user cannot be seen from here",
        false => "it ran on another host, or before this host was started",
    };
    let gone = "its record does not say how it ended: an older cupeer made it";
    let no_device = "the driver had not named any when events were recorded";
    let all = [
        ("rank", process.rank().is_none(), "no variable of a launcher sets one"),
        ("rank", process.text(meta::MISSING).is_some(), "its variables are missing"),
        ("devices", process.devices.is_empty(), no_device),
        ("host", process.host().is_empty(), "its record does not say"),
        ("program", process.program().is_empty(), "its record does not say"),
        ("exit", exit == ExitKind::Unseen, unseen),
        ("exit", exit == ExitKind::Gone, gone),
    ];
    all.into_iter().filter(|(_, is_unknown, _)| *is_unknown).map(|(name, _, why)| (name, why)).collect()
}

/// Returns the recorded environment variables of a process, without possible secrets.
fn public_variables(process: &record::Process) -> BTreeMap<String, String> {
    let is_told = |(name, _): &&(String, String)| !meta::is_secret_variable(name.as_bytes());
    process.variables.iter().filter(is_told).cloned().collect()
}

fn pending_rows(
    job: &Job,
    index: usize,
    stats: &ProcessStats,
    all: &Collected,
    places: &mut PlaceTable,
    ended: u64,
) -> Vec<Pending> {
    let clock = job.clock(&job.processes[index]);
    let rules = job.merged_faults();
    let row = |(number, call): &(Number, Call)| {
        let since_ns = clock.realtime(call.start);
        let (caller, stack) = places.of(index, call);
        Pending {
            function: all.functions.name(*number),
            tid: call.tid,
            seq: call.seq,
            since_ns,
            age_ns: ended.saturating_sub(since_ns),
            injected_by: call.stopping_fault().map(|hit| hit.fault_name.clone()),
            release: call.stopping_fault().and_then(|hit| faults::release_label(hit, &rules)),
            args: values::args(call),
            runtime: all.made_by.parent_of(index, call.tid, call.seq),
            caller,
            stack,
        }
    };
    stats.pending.iter().map(row).collect()
}

/// Returns the devices of all processes.
fn device_rows(job: &Job) -> Vec<Device> {
    let all = job.processes.iter().flat_map(|process| &process.devices);
    all.map(|device| Device {
        uuid: Uuid(device.uuid),
        // The number follows from all processes of the job, when the report is built.
        number: None,
        pci: device.pci.clone(),
        name: device.name.clone(),
    })
    .collect()
}

fn bypass_rows(job: &Job) -> Vec<Escaped> {
    let all =
        job.processes.iter().flat_map(|process| process.bypassing_libraries.iter().map(move |one| (process, one)));
    all.map(|(process, (way, library))| Escaped {
        proc: process.proc.as_str().into(),
        library: library.clone(),
        way: way.clone(),
    })
    .chain(bypassing_processes(job))
    .collect()
}
