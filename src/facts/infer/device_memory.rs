//! The rows about the memory of devices: at calls that failed for lack of memory, at the end, and over time.

use super::context::Context;
use super::shortage::{self, MemoryShortage, allocating_stack};
use crate::follow::collect::Collected;
use crate::follow::holdings::{MemoryHolding, MemoryState};
use crate::follow::memory::book::MemoryKind;
use cupeer_report::model::{
    Memory, MemoryFailure, MemoryOverTime, MemoryRow, MemorySeries, OtherProcess, Proc, Uuid, Word,
};
use cupeer_report::places::PlaceTable;

/// Number of failed calls for which the device memory is listed: the first ones.
const MOST_CALLS: usize = 20;
/// Number of rows of memory for one device at one time: the largest ones.
const MOST_ROWS: usize = 100;

/// Returns the memory at failed calls and at the end, and the memory over time.
pub fn rows(context: &Context, places: &mut PlaceTable) -> (Vec<Memory>, Vec<MemoryOverTime>) {
    let mut shortages = shortage::find_shortages(context);
    shortages.retain(|shortage| !shortage.is_guess);
    shortages.sort_by_key(|shortage| shortage.oom.failed_at);
    let mut memory: Vec<Memory> =
        shortages.iter().take(MOST_CALLS).map(|one| memory_at_call(context, one, places)).collect();
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
            memory.extend(memory_at_end(context, device, is_here, places));
            all_over_time.push(memory_over_time(context, device, is_here, &shortages));
        }
    }
    (memory, all_over_time)
}

fn proc_of(all: &Collected, process: usize) -> Proc {
    all.fates[process].proc.clone()
}

fn memory_at_call(context: &Context, shortage: &MemoryShortage, places: &mut PlaceTable) -> Memory {
    let (all, oom) = (context.all, shortage.oom);
    let rows = memory_rows(context, &shortage.rows, places);
    let other = |(pid, name, bytes): &(u32, String, u64)| OtherProcess { pid: *pid, name: name.clone(), bytes: *bytes };
    Memory {
        device: shortage.device,
        at_ns: Some(oom.failed_at),
        proc: Some(proc_of(all, shortage.process)),
        seq: Some(oom.seq),
        function: Some(oom.first.function.spec().name().into()),
        wanted: shortage.wanted,
        total: shortage.left.map(|(_, total)| total),
        free: shortage.left.map(|(free, _)| free),
        rows,
        other_processes: shortage.outside.iter().map(other).collect(),
        unaccounted: shortage.unaccounted_bytes(),
    }
}

fn memory_at_end(
    context: &Context,
    device: Uuid,
    is_here: impl Fn(usize) -> bool,
    places: &mut PlaceTable,
) -> Option<Memory> {
    // Only running processes have memory at the end.
    let mut holding = context.holdings().memory_at(device, u64::MAX - 1, is_here);
    holding.retain(|row| row.state != MemoryState::Pooled);
    let rows = memory_rows(context, &holding, places);
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

fn memory_rows(context: &Context, rows: &[MemoryHolding], places: &mut PlaceTable) -> Vec<MemoryRow> {
    let all = context.all;
    let row = |row: &MemoryHolding| {
        let (caller, frames) = allocating_stack(context, row, places);
        MemoryRow {
            proc: proc_of(all, row.process),
            caller: (!frames.is_empty()).then_some(caller),
            frames,
            kind: kind_word(row.kind),
            bytes: row.bytes,
            count: row.count,
            state: state_word(row.state),
            holders: row.holders.iter().map(|(holder, _)| proc_of(all, *holder)).collect(),
        }
    };
    rows.iter().take(MOST_ROWS).map(row).collect()
}

fn kind_word(kind: MemoryKind) -> Word {
    match kind {
        MemoryKind::Memory => "memory",
        MemoryKind::Mapped | MemoryKind::Unmapped => "virtual",
        MemoryKind::Pool | MemoryKind::Pooled => "pool",
        MemoryKind::Small => "small",
    }
}

fn state_word(state: MemoryState) -> Word {
    match state {
        MemoryState::InUse => "in use",
        MemoryState::NeverImported => "exported, never imported",
        MemoryState::Unmapped => "unmapped",
        MemoryState::Pooled => "freed, perhaps kept by its pool",
        MemoryState::Kept => "freed, kept by importers",
    }
}

fn memory_over_time(
    context: &Context,
    device: Uuid,
    is_here: impl Fn(usize) -> bool,
    shortages: &[MemoryShortage],
) -> MemoryOverTime {
    let (all, series) = (context.all, context.holdings().series_of_device(device, &is_here));
    let line = |((process, its_kind, its_state), bytes)| MemorySeries {
        proc: proc_of(all, process),
        kind: kind_word(its_kind),
        state: state_word(its_state),
        bytes,
    };
    let failed = shortages.iter().filter(|it| it.device == device && is_here(it.process)).map(|shortage| {
        MemoryFailure { at_ns: shortage.oom.failed_at, proc: proc_of(all, shortage.process), seq: shortage.oom.seq }
    });
    MemoryOverTime {
        device,
        times_ns: series.times,
        series: series.lines.into_iter().map(line).collect(),
        failures: failed.collect(),
    }
}
