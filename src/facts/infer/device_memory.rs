//! The rows about the memory of devices: at calls that failed for lack of memory, at the end, and over time.

use super::context::Context;
use super::shortage::{self, Shortage, stack};
use crate::follow::collect::Collected;
use crate::follow::holdings::{Holding, State};
use crate::follow::memory::book::Kind;
use cupeer_report::model::{
    Memory, MemoryFailure, MemoryOverTime, MemoryRow, MemorySeries, OtherProcess, Proc, Uuid, Word,
};
use cupeer_report::places::Places;

/// Largest number of failed calls for which the device memory is listed.
const MOST_CALLS: usize = 20;
/// Largest number of rows of memory for one failed call.
const MOST_ROWS: usize = 100;

/// Returns the memory at failed calls and at the end, and the memory over time.
pub fn rows(context: &Context, places: &mut Places) -> (Vec<Memory>, Vec<MemoryOverTime>) {
    let mut shortages = shortage::all(context);
    shortages.retain(|shortage| !shortage.is_guess);
    shortages.sort_by_key(|shortage| shortage.oom.failed_at);
    let mut memory: Vec<Memory> =
        shortages.iter().take(MOST_CALLS).map(|one| at_call(context, one, places)).collect();
    let mut all_over_time = Vec::new();
    // A simulated device has the same UUID on all hosts.
    let mut hosts: Vec<[u8; 16]> = Vec::new();
    for process in &context.job.processes {
        let host = process.header.boot_id;
        if hosts.contains(&host) {
            continue;
        }
        hosts.push(host);
        let is_here = |process: usize| context.job.processes[process].header.boot_id == host;
        for device in context.holdings().devices(is_here) {
            memory.extend(at_end(context, device, is_here, places));
            all_over_time.push(over_time(context, device, is_here, &shortages));
        }
    }
    (memory, all_over_time)
}

fn proc(all: &Collected, process: usize) -> Proc {
    all.fates[process].proc.clone()
}

fn at_call(context: &Context, shortage: &Shortage, places: &mut Places) -> Memory {
    let (all, oom) = (context.all, shortage.oom);
    let rows = named(context, &shortage.rows, places);
    let other = |(pid, name, bytes): &(u32, String, u64)| OtherProcess {
        pid: *pid,
        name: name.clone(),
        bytes: *bytes,
    };
    Memory {
        device: shortage.device,
        at_ns: Some(oom.failed_at),
        proc: Some(proc(all, shortage.process)),
        seq: Some(oom.seq),
        function: Some(oom.first.function.spec().name().into()),
        wanted: shortage.wanted,
        total: shortage.left.map(|(_, total)| total),
        free: shortage.left.map(|(free, _)| free),
        rows,
        other_processes: shortage.outside.iter().map(other).collect(),
        unaccounted: shortage.unaccounted(),
    }
}

fn at_end(
    context: &Context,
    device: Uuid,
    is_here: impl Fn(usize) -> bool,
    places: &mut Places,
) -> Option<Memory> {
    // Only running processes have memory at the end.
    let mut holding = context.holdings().at(device, u64::MAX - 1, is_here);
    holding.retain(|row| row.state != State::Pooled);
    let rows = named(context, &holding, places);
    (!rows.is_empty()).then(|| Memory {
        device,
        at_ns: None,
        proc: None,
        seq: None,
        function: None,
        wanted: None,
        total: None,
        free: None,
        rows,
        other_processes: Vec::new(),
        unaccounted: None,
    })
}

fn named(context: &Context, rows: &[Holding], places: &mut Places) -> Vec<MemoryRow> {
    let all = context.all;
    let row = |row: &Holding| {
        let (caller, frames) = stack(context, row, places);
        MemoryRow {
            proc: proc(all, row.process),
            caller: (!frames.is_empty()).then_some(caller),
            frames,
            kind: kind(row.kind),
            bytes: row.bytes,
            count: row.count,
            state: state(row.state),
            holders: row.holders.iter().map(|(holder, _)| proc(all, *holder)).collect(),
        }
    };
    rows.iter().take(MOST_ROWS).map(row).collect()
}

fn kind(kind: Kind) -> Word {
    match kind {
        Kind::Memory => "memory",
        Kind::Mapped | Kind::Unmapped => "virtual",
        Kind::Pool | Kind::Pooled => "pool",
        Kind::Small => "small",
    }
}

fn state(state: State) -> Word {
    match state {
        State::InUse => "in use",
        State::NeverImported => "exported, never imported",
        State::Unmapped => "unmapped",
        State::Pooled => "freed, perhaps kept by its pool",
        State::Kept => "freed, kept by importers",
    }
}

fn over_time(
    context: &Context,
    device: Uuid,
    is_here: impl Fn(usize) -> bool,
    shortages: &[Shortage],
) -> MemoryOverTime {
    let (all, series) = (context.all, context.holdings().over_time(device, &is_here));
    let line = |((process, its_kind, its_state), bytes)| MemorySeries {
        proc: proc(all, process),
        kind: kind(its_kind),
        state: state(its_state),
        bytes,
    };
    let failed = shortages.iter().filter(|it| it.device == device && is_here(it.process)).map(|shortage| {
        MemoryFailure {
            at_ns: shortage.oom.failed_at,
            proc: proc(all, shortage.process),
            seq: shortage.oom.seq,
        }
    });
    MemoryOverTime {
        device,
        times_ns: series.times,
        series: series.lines.into_iter().map(line).collect(),
        failures: failed.collect(),
    }
}
