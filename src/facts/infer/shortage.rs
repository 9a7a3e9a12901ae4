//! Device memory at the time of a call that failed for lack of memory: the holders of the memory, and the probable cause among
//! them.

use super::context::Context;
use crate::follow::holdings::{Holding, State};
use crate::follow::judged::uuid;
use crate::follow::memory::Location;
use crate::follow::memory::book::Kind;
use crate::follow::oom_calls::OomCall;
use cupeer_report::model::{Place, Uuid};
use cupeer_report::places::Places;
use cupeer_spec::argument::ArgSpec;
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use std::cmp::Reverse;

/// Largest difference in nanoseconds between the clocks of a sample and of a call.
const SAMPLED: u64 = 1_000_000;

/// A call that found too little memory on a device, and the memory on it.
pub struct Shortage<'a> {
    pub process: usize,
    pub oom: &'a OomCall,
    pub device: Uuid,
    /// The memory of the job, the largest first.
    pub rows: Vec<Holding>,
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
pub struct Group<'s> {
    pub process: usize,
    pub state: State,
    pub rows: Vec<&'s Holding>,
    pub bytes: u64,
    pub count: u64,
}

/// Returns the shortages of a job.
pub fn all<'a>(context: &Context<'a>) -> Vec<Shortage<'a>> {
    let stats = context.all.stats.iter().enumerate();
    let oom = stats.flat_map(|(process, stats)| stats.oom.iter().map(move |one| (process, one)));
    oom.filter_map(|(process, oom)| Shortage::new(context, process, oom)).collect()
}

impl<'a> Shortage<'a> {
    /// Returns the memory on the device of which a call asked; `None` if that is not known.
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
        let guess = || holdings.most_kept(oom.failed_at).filter(|_| oom.location == Location::Unknown);
        let device = device.or_else(guess)?;
        let host = |process: usize| context.job.processes[process].header.boot_id;
        let mut rows = holdings.at(device, oom.failed_at, |other| host(other) == host(process));
        let left = known.map(|left| (left.free, left.total));
        let is_here =
            |other: usize| holdings.ran(other, oom.failed_at).is_some() && host(other) == host(process);
        for other in (0..context.job.processes.len()).filter(|other| is_here(*other)) {
            let told = oom.left.filter(|left| other == process && left.device == Some(device));
            rows.extend(small_allocations(context, other, device, told.map(|left| left.small)));
        }
        // The recording does not show when a pool returns memory to the device. Its free memory is at most the used memory
        // without other holder.
        let certain = rows.iter().filter(|row| row.state != State::Pooled).map(|row| row.bytes).sum::<u64>();
        let mut room = left.map_or(0, |(free, total)| total.saturating_sub(free)).saturating_sub(certain);
        for row in rows.iter_mut().filter(|row| row.state == State::Pooled) {
            row.bytes = row.bytes.min(room);
            (room, row.is_sure) = (room - row.bytes, false);
        }
        rows.retain(|row| row.bytes > 0 && (!is_guess || row.state == State::Kept));
        rows.sort_by_key(|row| Reverse(row.bytes));
        let outside = memory_outside(context, process, device, oom.failed_at);
        let wanted = oom.wanted.filter(|_| makes_memory(oom.first.function));
        Some(Shortage { process, oom, device, rows, wanted, outside, left, is_guess })
    }

    /// Returns the number of bytes that were missing for the call, if the recording shows it.
    pub fn lacking(&self) -> Option<u64> {
        let free = self.left.map_or(0, usable);
        self.wanted.map(|wanted| wanted.saturating_sub(free))
    }

    /// Returns the bytes that are in use and have no row; `None` if the recording does not show how much is free.
    pub fn unaccounted(&self) -> Option<u64> {
        let (free, total) = self.left?;
        let outside = self.outside.iter().map(|(.., bytes)| bytes).sum::<u64>();
        Some(total.saturating_sub(free).saturating_sub(self.named() + outside))
    }

    /// Returns the bytes of all rows.
    pub fn named(&self) -> u64 {
        self.rows.iter().map(|row| row.bytes).sum()
    }

    /// Returns true if the device had less free than the call asked for; of a call without a size, if it had next to nothing
    /// free.
    pub fn is_short(&self) -> bool {
        match (self.left, self.wanted) {
            (Some(left), Some(wanted)) => wanted > usable(left),
            (Some((free, total)), None) => free < total / 64,
            // Only memory and contexts cannot fail for another reason.
            (None, Some(_)) => true,
            (None, None) => self.oom.first.function.spec().args().iter().any(ArgSpec::is_device),
        }
    }

    /// Returns the memory in groups, the most probable cause first: memory that is of no use and would suffice, and then the
    /// largest group.
    pub fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group> = Vec::new();
        for row in &self.rows {
            let is_its = |group: &&mut Group| (group.process, group.state) == (row.process, row.state);
            let group = match groups.iter_mut().find(is_its) {
                Some(group) => group,
                None => {
                    let (process, state) = (row.process, row.state);
                    groups.push(Group { process, state, rows: Vec::new(), bytes: 0, count: 0 });
                    groups.last_mut().expect("it was just added")
                }
            };
            group.rows.push(row);
            group.bytes = group.bytes.saturating_add(row.bytes);
            group.count = group.count.saturating_add(row.count);
        }
        let (lacking, half) = (self.lacking().unwrap_or(u64::MAX), self.named() / 2);
        groups.sort_by_key(|group| {
            let is_of_no_use = group.state != State::InUse && (group.bytes >= lacking || group.bytes >= half);
            let is_own_kept = group.state == State::Kept && group.process == self.process;
            (!is_of_no_use, !is_own_kept, Reverse(group.bytes))
        });
        groups
    }
}

/// Returns the small allocations of a process on a device, which are only counted. They have places if their sum equals `told`,
/// the bytes and number at the failed call.
fn small_allocations(
    context: &Context,
    process: usize,
    device: Uuid,
    told: Option<(u64, u64)>,
) -> Vec<Holding> {
    let empty = || Holding::new(process, Kind::Small, State::InUse);
    let of = &context.job.processes[process];
    let is_there = |ordinal: Option<i32>| Some(device) == ordinal.map(|ordinal| Uuid(uuid(of, ordinal)));
    let counted = of.counted();
    let counted = counted.rows.iter().filter(|row| is_there(row.device) && row.live_bytes > 0);
    // The counts are those at the end of the process, which may differ from those at the call.
    let sum = counted.clone().map(|row| row.live_bytes).sum::<u64>();
    match told {
        Some((0, _)) if sum != 0 => Vec::new(),
        Some((bytes, count)) if bytes != sum => vec![Holding { bytes, count, ..empty() }],
        _ => {
            let rows = counted.map(|it| Holding {
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
    let samples =
        context.job.samples.iter().filter(|it| it.boot_id == header.boot_id && it.device == device.0);
    // The launcher takes a sample after the call has returned.
    let sample =
        samples.filter(|it| clock.realtime_of(it.at).saturating_add(SAMPLED) >= at).min_by_key(|it| it.at);
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
pub fn stack(context: &Context, row: &Holding, places: &mut Places) -> (Place, Vec<Place>) {
    match (row.stack, row.address) {
        (Some(stack), _) => places.stack(&context.all.stacks, stack),
        (None, Some(address)) => places.named(row.process, u64::MAX, &[address]),
        (None, None) => Default::default(),
    }
}

/// Returns true if a function allocates device memory.
fn makes_memory(function: FnId) -> bool {
    let made = function.spec().makes();
    made.is_some_and(|made| matches!(made.object, Object::Memory | Object::Pointer | Object::Allocation))
}

/// Returns the part of the free memory that a driver really allocates, in bytes: driver 580 refused 20 MiB when 22.9 MiB of 140
/// GiB were free.
fn usable((free, total): (u64, u64)) -> u64 {
    free.saturating_sub(total / 1024)
}
