//! From a record to a report: reads the events of one process after the other.
//!
//! What belongs here: who is told of which event. What each makes of it stands in the files named after it.
//! Nothing here grows with the number of events.

use super::failures::Failures;
use super::filter::Filter;
use super::functions::{End, Functions, Number};
use super::ledger::follow::{self, Follower, Seen};
use super::ledger::live::{self, Live};
use super::ledger::settle::Fate;
use super::ledger::{Ledger, Realm};
use super::model::Uuid;
use super::peers::{self, Peers};
use super::places::Stacks;
use anyhow::{Context, Result};
use cupeer_record::{Call, Clock, Event, Job, Outcome, Process};
use cupeer_spec::record::live::kind;
use cupeer_spec::record::mode;
use std::collections::HashMap;

/// What has been read.
pub struct Collected {
    /// See [`super::functions`].
    pub functions: Functions,
    /// See [`super::failures`].
    pub failures: Failures,
    /// See [`super::ledger`].
    pub ledger: Ledger,
    /// See [`super::peers`].
    pub peers: Peers,
    /// See [`super::places`].
    pub stacks: Stacks,
    /// The processes, in the order of the job.
    pub tallies: Vec<Tally>,
    /// What is known of their ends.
    pub fates: Vec<Fate>,
}

/// What is known of the events of one process.
#[derive(Default)]
pub struct Tally {
    /// How many there are.
    pub events: u64,
    /// The latest moment that its events tell of.
    pub last_seen: Option<u64>,
    /// Its last call: function, thread, begin.
    pub last_call: Option<(Number, u32, u64)>,
    /// The calls that have not returned, the oldest first.
    pub pending: Vec<(Number, Call)>,
    /// What was wrong with its file: a sentence without a subject.
    pub problem: Option<String>,
    /// Whether there are events after the end of the time that is asked for.
    pub goes_on: bool,
}

/// Reads the whole record. Of single failures, `most_failures` are kept.
pub fn collect(job: &Job, filter: &Filter, most_failures: usize) -> Result<Collected> {
    let mut all = Collected {
        functions: Functions::new(),
        failures: Failures::new(most_failures),
        ledger: Ledger::default(),
        peers: Peers::default(),
        stacks: Stacks::default(),
        tallies: Vec::new(),
        fates: Vec::new(),
    };
    let realms = realms(job);
    for (index, process) in job.processes.iter().enumerate() {
        let mut reading = Reading::new(&mut all, filter, index, process, job.clock(process), realms[index]);
        reading.run().with_context(|| format!("failed to read {}", process.path.display()))?;
        let tally = reading.finish();
        all.tallies.push(tally);
    }
    for (index, (process, alive)) in job.processes.iter().zip(job.alive()).enumerate() {
        // The recorder looks at the clock from time to time, also where nothing is called.
        let [begun, later] = [process.header.first, process.header.last]
            .map(|moment| job.clock(process).realtime(moment.ticks));
        let tally = &all.tallies[index];
        // What is asked for may be a time at which it still ran.
        let goes_on = tally.goes_on || !filter.is_past(later);
        let later = filter.until().map_or(later, |until| later.min(until));
        all.fates.push(Fate {
            proc: process.proc.as_str().into(),
            alive: if goes_on { Some(true) } else { alive },
            last_seen: tally.last_seen.unwrap_or(begun).max(later),
            is_full: process.header.mode == mode::FULL,
            has_lost: process.header.lost > 0,
        });
    }
    if filter.until().is_none() {
        all.add_tables(job, &realms);
    }
    let Collected { peers, ledger, .. } = &mut all;
    peers.add_ipc(ledger);
    Ok(all)
}

/// Numbers for what fingerprints have in common: the boot of a host, and a key.
pub fn realms(job: &Job) -> Vec<Realm> {
    let mut known = HashMap::new();
    let mut number = |process: &Process| {
        let next = known.len() as Realm;
        *known.entry((process.header.boot_id, process.header.key_check)).or_insert(next)
    };
    job.processes.iter().map(&mut number).collect()
}

/// The devices of a process, by ordinal.
pub struct Devices(Vec<(i32, Uuid)>);

impl Devices {
    /// Those that the record names.
    pub fn of(process: &Process) -> Self {
        Devices(process.devices.iter().rev().map(|device| (device.ordinal, Uuid(device.uuid))).collect())
    }

    /// The device of an ordinal.
    pub fn uuid(&self, ordinal: Option<i32>) -> Option<Uuid> {
        let ordinal = ordinal?;
        self.0.iter().find(|(known, _)| *known == ordinal).map(|(_, uuid)| *uuid)
    }
}

/// The reading of one process.
struct Reading<'a> {
    all: &'a mut Collected,
    filter: &'a Filter,
    chooses_all: bool,
    is_chosen: bool,
    index: usize,
    process: &'a Process,
    clock: Clock,
    devices: Devices,
    follower: Option<Follower>,
    /// The functions that the table does not know, by their number in the record.
    others: HashMap<u16, Number>,
    /// Calls that have not returned, by stream and number.
    pending: HashMap<(u32, u64), Call>,
    events: u64,
    last_tick: u64,
    last_call: Option<(Number, u32, u64)>,
    problem: Option<String>,
    goes_on: bool,
}

impl<'a> Reading<'a> {
    fn new(
        all: &'a mut Collected,
        filter: &'a Filter,
        index: usize,
        process: &'a Process,
        clock: Clock,
        realm: Realm,
    ) -> Self {
        Reading {
            all,
            filter,
            chooses_all: filter.chooses_all_calls(),
            is_chosen: filter.process(index),
            index,
            process,
            clock,
            devices: Devices::of(process),
            follower: Some(Follower::new(index, realm)),
            others: HashMap::new(),
            pending: HashMap::new(),
            events: 0,
            last_tick: 0,
            last_call: None,
            problem: None,
            goes_on: false,
        }
    }

    fn run(&mut self) -> Result<()> {
        let ends = self.filter.until().is_some();
        let mut events = self.process.events()?;
        loop {
            // By reference: to move an event costs as much as to count it.
            let next = events.next();
            let Some(event) = &next else { break };
            if ends && !self.filter.is_past(self.clock.realtime(event.start())) {
                self.goes_on = true;
                break;
            }
            match event {
                Event::Call(call) if call.outcome == Outcome::Pending => {
                    self.begin(call);
                    self.pending.insert((call.stream, call.seq), call.clone());
                }
                Event::Call(call) => {
                    self.begin(call);
                    self.end(call);
                }
                Event::LateEnd { stream, seq, .. } => {
                    if let Some(mut call) = self.pending.remove(&(*stream, *seq))
                        && call.finish(event)
                    {
                        self.end(&call);
                    }
                }
                Event::Mark { time, .. } => {
                    self.events += 1;
                    self.last_tick = self.last_tick.max(*time);
                }
            }
        }
        self.problem = events.error().map(|error| format!("cannot be read wholly: {error}"));
        Ok(())
    }

    /// A call has begun.
    #[inline]
    fn begin(&mut self, call: &Call) {
        self.events += 1;
        self.last_tick = self.last_tick.max(call.start);
        self.last_call = Some((self.number(call), call.tid, call.start));
    }

    /// A call has ended.
    #[inline]
    fn end(&mut self, call: &Call) {
        self.last_tick = self.last_tick.max(call.end);
        if let Some(function) = call.function {
            if follow::concerns(function) {
                self.follow(function, call);
            }
            if peers::concerns(function) {
                let at = self.clock.realtime(call.start);
                let devices = &self.devices;
                self.all.peers.call(self.index, function, call, at, |ordinal| devices.uuid(ordinal));
            }
        }
        if self.chooses(call) {
            self.count(call);
        }
    }

    fn follow(&mut self, function: cupeer_spec::function::FnId, call: &Call) {
        let at = self.clock.realtime(call.start);
        let uuid = self.devices.uuid(call.details.devices.0);
        let keeps_stack = follow::opens(function) && call.succeeded();
        let stack = keeps_stack.then(|| self.all.stacks.of(self.index, call));
        if let Some(follower) = &mut self.follower {
            follower.call(&mut self.all.ledger, function, call, Seen { at, uuid, stack });
        }
    }

    #[inline]
    fn chooses(&self, call: &Call) -> bool {
        self.is_chosen && (self.chooses_all || self.filter.call(call, self.clock.realtime(call.start)))
    }

    #[inline]
    fn count(&mut self, call: &Call) {
        let number = self.number(call);
        let end = match call.outcome {
            Outcome::Pending => End::Pending,
            Outcome::Unwound => End::Unwound,
            Outcome::Returned(result) => End::Returned(result, self.clock.between(call.start, call.end)),
        };
        self.all.functions.count(number, self.index, end, call.injected);
        if let Outcome::Returned(result) = call.outcome
            && result != 0
        {
            let Collected { failures, stacks, .. } = &mut *self.all;
            failures.add(self.index, number, result, call, &self.clock, stacks);
        }
    }

    #[inline]
    fn number(&mut self, call: &Call) -> Number {
        match call.function {
            Some(function) => function as usize,
            None => *self
                .others
                .entry(call.number)
                .or_insert_with(|| self.all.functions.number(self.process.function_name(call.number))),
        }
    }

    /// There are no more events.
    fn finish(mut self) -> Tally {
        if let Some(follower) = self.follower.take() {
            follower.finish(&mut self.all.ledger);
        }
        let mut pending: Vec<Call> = std::mem::take(&mut self.pending).into_values().collect();
        pending.sort_by_key(|call| (call.start, call.stream, call.seq));
        pending.retain(|call| {
            let chosen = self.chooses(call);
            if chosen {
                self.count(call);
            }
            chosen
        });
        let pending = pending.into_iter().map(|call| (self.number(&call), call)).collect();
        let last_call = self.last_call.map(|(number, tid, ticks)| (number, tid, self.clock.realtime(ticks)));
        let last_seen = (self.last_tick > 0).then(|| self.clock.realtime(self.last_tick));
        Tally {
            events: self.events,
            last_seen,
            last_call,
            pending,
            problem: self.problem,
            goes_on: self.goes_on,
        }
    }
}

impl Collected {
    /// Adds what the tables of what is open say.
    fn add_tables(&mut self, job: &Job, realms: &[Realm]) {
        let identity = |process: &Process| {
            let header = &process.header;
            (header.boot_id, header.pid_ns, header.pid, header.started, header.image)
        };
        let processes: HashMap<_, usize> =
            job.processes.iter().enumerate().map(|(index, process)| (identity(process), index)).collect();
        for table in &job.tables {
            for (index, process) in job.processes.iter().enumerate() {
                // A table that was full does not know all.
                if process.header.boot_id == table.boot_id && !self.fates[index].is_full && table.refused == 0
                {
                    self.ledger.forget_open(index);
                }
            }
            for entry in &table.entries {
                let key = (table.boot_id, entry.pid_ns, entry.pid, entry.started, entry.image);
                let Some(index) = processes.get(&key).copied() else { continue };
                let at = job.clock(&job.processes[index]).realtime(entry.since);
                let is_full = self.fates[index].is_full;
                if entry.kind == kind::PEER {
                    if !is_full {
                        self.peers.live(index, live::uuid(entry.uuid), live::uuid(entry.peer_uuid), at);
                    }
                    continue;
                }
                let frames = &entry.frames[..(entry.frame_count as usize).min(entry.frames.len())];
                let stack = self.stacks.number(index, entry.since, frames);
                self.ledger.live(&Live { entry, process: index, realm: realms[index], at, stack, is_full });
            }
        }
    }
}
