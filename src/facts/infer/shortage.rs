//! Device memory at the time of a call that failed for lack of memory: the holders of the memory, and the probable cause among
//! them.

use super::context::Context;
use crate::follow::holdings::{MemoryHolding, MemoryState};
use crate::follow::judged::uuid_of_ordinal;
use crate::follow::memory::Location;
use crate::follow::memory::book::MemoryKind;
use crate::follow::oom_calls::OomCall;
use cupeer_report::model::{Place, Uuid};
use cupeer_report::places::PlaceTable;
use cupeer_spec::argument::ArgSpec;
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use std::cmp::Reverse;

/// A sample may seem to be taken this many nanoseconds before the call, because their clocks differ.
const CLOCK_DIFFERENCE: u64 = 1_000_000;

/// A call that found too little memory on a device, and the memory on it.
pub struct MemoryShortage<'a> {
    pub process: usize,
    pub oom: &'a OomCall,
    pub device: Uuid,
    /// The memory of the job, the largest first.
    pub rows: Vec<MemoryHolding>,
    /// Bytes of device memory that the call asked for; `None` if it has no size.
    pub wanted: Option<u64>,
    /// Processes outside of the job: pid, name, and bytes.
    pub outside: Vec<(u32, String, u64)>,
    /// Free memory and total memory of the device, in bytes.
    pub left: Option<(u64, u64)>,
    /// True if the recording does not show the device of the call: then it is the device on which importers keep the most memory.
    pub is_guess: bool,
}

/// Memory of one process in one state.
pub struct MemoryGroup<'s> {
    pub process: usize,
    pub state: MemoryState,
    pub rows: Vec<&'s MemoryHolding>,
    pub bytes: u64,
    pub count: u64,
}

/// Returns the shortages of a job.
pub fn find_shortages<'a>(context: &Context<'a>) -> Vec<MemoryShortage<'a>> {
    let stats = context.all.stats.iter().enumerate();
    let oom = stats.flat_map(|(process, stats)| stats.oom_calls.iter().map(move |one| (process, one)));
    oom.filter_map(|(process, oom)| MemoryShortage::new(context, process, oom)).collect()
}

impl<'a> MemoryShortage<'a> {
    /// Returns the shortage at a failed call, with the memory on the device; `None` if the device is not known.
    fn new(context: &Context<'a>, process: usize, oom: &'a OomCall) -> Option<Self> {
        let holdings = context.holdings();
        let known = oom.left.filter(|left| {
            // The snapshot is about the device of the current context.
            left.total > 0
                && left.device.is_some()
                && (oom.location == Location::Unknown || left.device == oom.location.device())
        });
        let device = oom.location.device().or(known.and_then(|left| left.device));
        let is_guess = device.is_none();
        let guess = || holdings.device_with_most_kept(oom.failed_at).filter(|_| oom.location == Location::Unknown);
        let device = device.or_else(guess)?;
        let host = |process: usize| context.job.processes[process].header.boot_id;
        let mut rows = holdings.memory_at(device, oom.failed_at, |other| host(other) == host(process));
        let left = known.map(|left| (left.free, left.total));
        let is_here =
            |other: usize| holdings.was_running(other, oom.failed_at).is_some() && host(other) == host(process);
        for other in (0..context.job.processes.len()).filter(|other| is_here(*other)) {
            let told = oom.left.filter(|left| other == process && left.device == Some(device));
            rows.extend(small_allocations(context, other, device, told.map(|left| left.small)));
        }
        // The recording does not show when a pool returns memory to the device. Its free memory is at most the used memory
        // without other holder.
        let certain = rows.iter().filter(|row| row.state != MemoryState::Pooled).map(|row| row.bytes).sum::<u64>();
        let mut room = left.map_or(0, |(free, total)| total.saturating_sub(free)).saturating_sub(certain);
        for row in rows.iter_mut().filter(|row| row.state == MemoryState::Pooled) {
            row.bytes = row.bytes.min(room);
            (room, row.is_sure) = (room - row.bytes, false);
        }
        rows.retain(|row| row.bytes > 0 && (!is_guess || row.state == MemoryState::Kept));
        rows.sort_by_key(|row| Reverse(row.bytes));
        let outside = memory_outside(context, process, device, oom.failed_at);
        let wanted = oom.wanted.filter(|_| allocates_memory(oom.first.function));
        Some(MemoryShortage { process, oom, device, rows, wanted, outside, left, is_guess })
    }

    /// Returns the number of bytes that were missing for the call, if the recording shows it.
    pub fn lacking_bytes(&self) -> Option<u64> {
        let free = self.left.map_or(0, usable_bytes);
        self.wanted.map(|wanted| wanted.saturating_sub(free))
    }

    /// Returns the bytes that are in use and have no row; `None` if the recording does not show how much is free.
    pub fn unaccounted_bytes(&self) -> Option<u64> {
        let (free, total) = self.left?;
        let outside = self.outside.iter().map(|(.., bytes)| bytes).sum::<u64>();
        Some(total.saturating_sub(free).saturating_sub(self.listed_bytes() + outside))
    }

    /// Returns the bytes of all rows.
    pub fn listed_bytes(&self) -> u64 {
        self.rows.iter().map(|row| row.bytes).sum()
    }

    /// Returns true if the device had less free memory than the call asked for or, for a call without a size, next to
    /// no free memory.
    pub fn is_short(&self) -> bool {
        match (self.left, self.wanted) {
            (Some(left), Some(wanted)) => wanted > usable_bytes(left),
            (Some((free, total)), None) => free < total / 64,
            // Only memory and contexts cannot fail for another reason.
            (None, Some(_)) => true,
            (None, None) => self.oom.first.function.spec().args().iter().any(ArgSpec::is_device),
        }
    }

    /// Returns the memory in groups, the most probable cause first: memory that is of no use and would suffice, and then the
    /// largest group.
    pub fn groups_by_cause(&self) -> Vec<MemoryGroup<'_>> {
        let mut groups: Vec<MemoryGroup> = Vec::new();
        for row in &self.rows {
            let is_its = |group: &&mut MemoryGroup| (group.process, group.state) == (row.process, row.state);
            let group = match groups.iter_mut().find(is_its) {
                Some(group) => group,
                None => {
                    let (process, state) = (row.process, row.state);
                    groups.push(MemoryGroup { process, state, rows: Vec::new(), bytes: 0, count: 0 });
                    groups.last_mut().expect("it was just added")
                }
            };
            group.rows.push(row);
            group.bytes = group.bytes.saturating_add(row.bytes);
            group.count = group.count.saturating_add(row.count);
        }
        let (lacking, half) = (self.lacking_bytes().unwrap_or(u64::MAX), self.listed_bytes() / 2);
        groups.sort_by_key(|group| {
            let is_of_no_use = group.state != MemoryState::InUse && (group.bytes >= lacking || group.bytes >= half);
            let is_own_kept = group.state == MemoryState::Kept && group.process == self.process;
            (!is_of_no_use, !is_own_kept, Reverse(group.bytes))
        });
        groups
    }
}

/// Returns the small allocations of a process on a device, which are only counted. They have places if their sum equals `told`,
/// the bytes and number at the failed call.
fn small_allocations(context: &Context, process: usize, device: Uuid, told: Option<(u64, u64)>) -> Vec<MemoryHolding> {
    let empty = || MemoryHolding::new(process, MemoryKind::Small, MemoryState::InUse);
    let of = &context.job.processes[process];
    let is_there = |ordinal: Option<i32>| Some(device) == ordinal.map(|ordinal| Uuid(uuid_of_ordinal(of, ordinal)));
    let counted = of.counted_memory();
    let counted = counted.rows.iter().filter(|row| is_there(row.device) && row.live_bytes > 0);
    // The counts are those at the end of the process, which may differ from those at the call.
    let sum = counted.clone().map(|row| row.live_bytes).sum::<u64>();
    match told {
        Some((0, _)) if sum != 0 => Vec::new(),
        Some((bytes, count)) if bytes != sum => vec![MemoryHolding { bytes, count, ..empty() }],
        _ => {
            let rows = counted.map(|it| MemoryHolding {
                address: (it.address != 0).then_some(it.address),
                bytes: it.live_bytes,
                count: it.live,
                made: told.map(|_| it.made),
                is_sure: told.is_some(),
                ..empty()
            });
            rows.collect()
        }
    }
}

/// Returns the memory on a device of processes outside of the job, as the launcher's first sample after a time has it.
fn memory_outside(context: &Context, process: usize, device: Uuid, at: u64) -> Vec<(u32, String, u64)> {
    let header = &context.job.processes[process].header;
    let clock = context.job.clock(&context.job.processes[process]);
    let samples = context.job.memory_samples.iter().filter(|it| it.boot_id == header.boot_id && it.device == device.0);
    // The launcher takes a sample after the call has returned.
    let sample =
        samples.filter(|it| clock.realtime_of(it.at).saturating_add(CLOCK_DIFFERENCE) >= at).min_by_key(|it| it.at);
    let holders = sample.iter().filter_map(|sample| sample.holders.as_ref()).flatten();
    let is_of_job = |pid: Option<(u32, u64)>| {
        let is_it = |(pid, started): (u32, u64)| {
            context.job.processes.iter().any(|it| {
                let own = &it.header;
                (own.boot_id, own.pid, own.started) == (header.boot_id, pid, started)
            })
        };
        pid.is_some_and(is_it)
    };
    let outside = holders.filter(|it| it.process.is_some() && !is_of_job(it.process));
    outside.filter_map(|it| Some((it.pid, it.name.clone(), it.bytes?))).collect()
}

/// Returns the place that made memory, and its call stack; empty if it is not known.
pub fn allocating_stack(context: &Context, row: &MemoryHolding, places: &mut PlaceTable) -> (Place, Vec<Place>) {
    match (row.stack, row.address) {
        (Some(stack), _) => places.place_and_stack(&context.all.stacks, stack),
        (None, Some(address)) => places.place_by_addresses(row.process, u64::MAX, &[address]),
        (None, None) => Default::default(),
    }
}

/// Returns true if a function allocates device memory.
fn allocates_memory(function: FnId) -> bool {
    let made = function.spec().makes();
    made.is_some_and(|made| matches!(made.object, Object::Memory | Object::Pointer | Object::Allocation))
}

/// Returns the part of the free memory that a driver really allocates, in bytes: driver 580 refused 20 MiB when 22.9 MiB of 140
/// GiB were free.
fn usable_bytes((free, total): (u64, u64)) -> u64 {
    free.saturating_sub(total / 1024)
}
