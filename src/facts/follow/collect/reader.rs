//! Reads one process: passes each event to the modules that it concerns.
//!
//! It tracks which calls have ended. Only pending calls are stored, until their end is read.

use crate::follow::callers::OwnCallers;
use crate::follow::collect::Collected;
use crate::follow::collect::stats::{Holding, ProcessStats};
use crate::follow::faults::{self, FaultedCall};
use crate::follow::functions::{End, Number, Times};
use crate::follow::judged::{self, MadeCall, ProcessFacts};
use crate::follow::last_call::LastCall;
use crate::follow::ledger::follow::{self, CallFacts, Follower};
use crate::follow::ledger::process_history::{self, ProcessHistory};
use crate::follow::ledger::{CallSite, Site};
use crate::follow::memory::{self, Memory, book};
use crate::follow::oom_calls::{self, MemoryLeft};
use crate::follow::peers;
use crate::follow::runtime::{Latest, Runtime};
use anyhow::Result;
use cupeer_record::{Call, Clock, Event, Outcome, Process};
use cupeer_report::Keep;
use cupeer_report::expected::{self, Question, Standing};
use cupeer_report::filter::Filter;
use cupeer_report::judged::is_done_all_the_same;
use cupeer_report::judged::is_runtime;
use cupeer_report::model::Uuid;
use cupeer_report::places::Stacks;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::hit::did;
use cupeer_spec::record::slot::used;
use cupeer_spec::record::{SLOTS, mode};
use std::collections::{HashMap, HashSet};

/// Largest number of calls of a process that record CUDA events and are stored with their places.
const MOST_EVENT_RECORDS: usize = 4096;

pub struct ProcessReader<'a> {
    all: &'a mut Collected,
    filter: &'a Filter,
    chooses_all: bool,
    is_chosen: bool,
    index: usize,
    process: &'a Process,
    clock: Clock,
    follower: Follower,
    history: ProcessHistory,
    memory: Memory,
    keeps_durations: bool,
    /// Sums by caller, if they are requested.
    callers: Option<OwnCallers>,
    /// Numbers of the functions that are not in the table of functions, by their number in the record.
    others: HashMap<u16, Number>,
    /// Calls that have not returned, by event stream and number.
    pending: HashMap<(u32, u64), Call>,
    latest: Latest,
    /// Questions of possible probes that no later call has answered yet.
    asked: HashSet<Question>,
    last_tick: u64,
    /// The number of the last call in each event stream, for a recording that reached its size limit.
    last_numbers: HashMap<u32, u64>,
    stats: ProcessStats,
}

impl<'a> ProcessReader<'a> {
    pub fn new(
        all: &'a mut Collected,
        filter: &'a Filter,
        index: usize,
        process: &'a Process,
        clock: Clock,
        keep: Keep,
    ) -> Self {
        let domain = all.domains[index];
        ProcessReader {
            all,
            filter,
            chooses_all: filter.chooses_all_calls(),
            is_chosen: filter.process(index),
            index,
            process,
            clock,
            follower: Follower::new(index, domain),
            history: ProcessHistory::default(),
            memory: Memory::new(domain, devices(process)),
            keeps_durations: keep.durations,
            callers: keep.callers.then(OwnCallers::default),
            others: HashMap::new(),
            pending: HashMap::new(),
            latest: Latest::default(),
            asked: HashSet::new(),
            last_tick: 0,
            last_numbers: HashMap::new(),
            stats: ProcessStats::default(),
        }
    }

    pub fn run(&mut self) -> Result<()> {
        let ends = self.filter.until().is_some();
        let mut events = self.process.events()?;
        loop {
            // EarlierCall reference: to move an event costs as much as to count it.
            let next = events.next();
            let Some(event) = &next else { break };
            if ends && !self.filter.is_past(self.clock.realtime(event.start())) {
                // Later events are only counted.
                self.stats.goes_on = true;
                self.stats.events += u64::from(matches!(event, Event::Call(_) | Event::Mark { .. }));
                continue;
            }
            match event {
                Event::Call(call) if call.outcome == Outcome::Pending => {
                    self.begin(call);
                    self.made(call);
                    self.pending.insert((call.stream, call.seq), call.clone());
                }
                Event::Call(call) => {
                    self.begin(call);
                    self.end(call);
                }
                Event::Use(call) => self.used(call),
                Event::LateEnd { stream, seq, .. } => {
                    if let Some(mut call) = self.pending.remove(&(*stream, *seq))
                        && call.finish(event)
                    {
                        self.end(&call);
                    }
                }
                Event::Mark { tid, time, text } => {
                    self.stats.events += 1;
                    self.last_tick = self.last_tick.max(*time);
                    let at = self.clock.realtime(*time);
                    if self.is_chosen && self.filter.is_in_time(at) {
                        self.all.marks.add(self.index, *tid, at, text);
                    }
                }
            }
        }
        self.stats.problem = events.error().map(|error| format!("cannot be read completely: {error}"));
        Ok(())
    }

    #[inline]
    fn begin(&mut self, call: &Call) {
        self.stats.events += 1;
        self.stats.repeated = self.stats.repeated.saturating_add(call.times() - 1);
        self.last_tick = self.last_tick.max(call.start);
        let number = self.number(call);
        LastCall::set(&mut self.stats.last_call, number, call);
        if self.process.header.mode == mode::BOUNDED {
            self.last_numbers.insert(call.stream, call.seq);
        }
        if is_runtime(call.function) {
            self.latest.begin(call).iter().for_each(|ended| self.count_runtime(ended));
        } else if call.function.is_none_or(|function| !function.spec().gives_back()) {
            self.stats.steps.add(self.clock.realtime(call.start));
        }
    }

    #[inline]
    fn end(&mut self, call: &Call) {
        self.last_tick = self.last_tick.max(call.last_end());
        if is_runtime(call.function) {
            // Driver calls inside a runtime call are listed in its place, so it is counted only when no more of them can follow.
            if !self.latest.end(call) {
                self.count_runtime(&Runtime { call: call.clone(), is_told: false });
            }
            return;
        }
        self.made(call);
        if faults::is_touched(call) {
            self.note_fault(call);
        }
        let (mut follows_fault, mut standing) = (false, Standing::Unexpected);
        if let Some(function) = call.function {
            self.answer_probes(function, call);
            if !call.succeeded() {
                standing = Standing::of(self.process, function, call);
                self.asked.extend(standing.question());
            }
            follows_fault = self.follow_call(function, call, standing);
            self.keep_rest(function, call);
        }
        if self.chooses(call) {
            self.count(call, follows_fault, false, standing);
        }
    }

    /// Judges a call, and applies it to the state of its process. Returns true if the call failed because of an earlier fault.
    #[inline]
    fn follow_call(&mut self, function: FnId, call: &Call, standing: Standing) -> bool {
        let is_judged = self.judge(function, call, standing);
        self.follow_own(function, call);
        let changes_memory = memory::concerns(function);
        if changes_memory {
            self.memory.settle(call.start);
        }
        let is_kept = || function.spec().is_virtual() && self.memory.keeps_reference(function, call);
        let is_followed = follow::concerns(function) && !is_kept();
        let follows_fault = is_followed && self.follow_handles(function, call, is_judged);
        if changes_memory {
            let made = self.call_site(function, call);
            self.memory.call(function, call, made);
        }
        if book::concerns(function) && call.succeeded() && !call.injected {
            self.keep_book(function, call);
        }
        self.follow_access(function, call);
        follows_fault
    }

    /// Notes the objects that a call closed or ended, and the access that it enabled.
    #[inline]
    fn follow_own(&mut self, function: FnId, call: &Call) {
        if self.history.concerns(function, call) {
            // The history reads the handles that are open before this call.
            self.follower.settle(&mut self.all.ledger, call.start);
            let at = self.at(call);
            self.history.call(&self.follower, &self.all.ledger, function, call, at);
        }
    }

    /// Notes the access between devices that a call queried, changed, or used.
    #[inline]
    fn follow_access(&mut self, function: FnId, call: &Call) {
        if peers::concerns(function) {
            let at = self.at(call);
            let uuid = |ordinal| uuid_of(self.process, ordinal);
            self.all.peers.call(self.index, function, call, at, uuid);
            let devices = call.details.devices;
            if let ((Some(from), Some(to)), true) = (devices, process_history::is_enabled(function, call)) {
                self.memory.enabled(from, to);
            }
        }
    }

    /// Stores the facts of a call for findings about the whole process.
    #[inline]
    fn keep_rest(&mut self, function: FnId, call: &Call) {
        if call.succeeded() && !call.injected {
            let (at, stacks) = (self.at(call), &mut self.all.stacks);
            let mut made = || CallSite { function, site: site(stacks, self.index, call), at };
            if follow::concerns(function) {
                self.stats.descriptors.call(function, call, &mut made);
            }
            self.stats.contexts.call(function, call, at, made);
        }
        if oom_calls::concerns(function, call) {
            self.keep_oom_call(function, call);
        } else if !self.stats.oom.is_empty() && call.succeeded() && !call.injected {
            oom_calls::succeeded(&mut self.stats.oom, function, call);
        }
        if let Some(devices) = call.details.contexts
            && self.stats.holding.is_none_or(|known| known.devices.count_ones() < devices.count_ones())
        {
            self.stats.holding = Some(Holding { devices, call: self.call_site(function, call) });
        }
        self.use_memory(function, call);
    }

    /// Notes a copy or a memset that is recorded only because it used shared memory.
    fn used(&mut self, call: &Call) {
        let marks = if let Outcome::Returned(marks) = call.outcome { marks } else { 0 };
        if marks & used::RESUMED != 0 {
            self.stats.order.resumes(self.clock.realtime(call.start));
        }
        if marks & used::LAST != 0 {
            self.stats.order.is_cut(self.clock.realtime(call.end));
            self.stats.uses.is_cut = true;
        }
        self.stats.steps.add(self.clock.realtime(call.start));
        if let Some(function) = call.function {
            self.memory.settle(call.start);
            let call = Call { outcome: Outcome::Returned(0), ..call.clone() };
            self.use_memory(function, &call);
        }
    }

    /// Stores the device memory that a successful call read or wrote.
    fn use_memory(&mut self, function: FnId, call: &Call) {
        if call.succeeded() && !call.injected {
            let device = call.details.content.and_then(|it| uuid_of(self.process, Some(it.device)));
            // A call that only queued work is recorded before it returns, so its end is taken as later than its start.
            let (at, stacks) = (self.at(call), &mut self.all.stacks);
            let until = self.clock.realtime(call.end).max(at + 1);
            let mut made = || CallSite { function, site: site(stacks, self.index, call), at };
            let ProcessStats { uses, order, records, .. } = &mut self.stats;
            order.call(function, call, (at, until), uses.all.len());
            if function.spec().records().is_some() && records.len() < MOST_EVENT_RECORDS {
                records.push(made());
            }
            order.unmaps(function, call, &mut made);
            uses.call(function, call, &self.memory, || {
                let stream = order.streams.of_call(function, call);
                (made(), until, stream, device)
            });
        }
    }

    /// Stores the memory that a call allocated, freed, or exported.
    fn keep_book(&mut self, function: FnId, call: &Call) {
        let uuid = |ordinal| uuid_of(self.process, ordinal);
        let location = oom_calls::location_of(function, call, &self.memory, uuid);
        let at = (self.at(call), self.all.stacks.of(self.index, call));
        self.memory.state.keeper.book.call(function, call, at, location);
    }

    /// Stores a call that failed because no memory or no addresses were left.
    fn keep_oom_call(&mut self, function: FnId, call: &Call) {
        let [last, failed] = [call.last_end(), call.end].map(|ticks| self.clock.realtime(ticks));
        let made = self.call_site(function, call);
        let uuid = |ordinal| uuid_of(self.process, ordinal);
        let left = call.details.left.map(|left| MemoryLeft {
            device: uuid(Some(left.device)),
            free: left.free,
            total: left.total,
            small: (left.counted_bytes, left.counted),
        });
        let location = oom_calls::location_of(function, call, &self.memory, uuid);
        let times = if call.times() > 1 { (last, last) } else { (made.at, failed) };
        oom_calls::add(&mut self.stats.oom, call, made, times, location, &self.memory, left);
    }

    /// Returns the time at which a call began.
    fn at(&self, call: &Call) -> u64 {
        self.clock.realtime(call.start)
    }

    /// Returns the time at which the last repetition of a call began.
    fn last(&self, call: &Call) -> u64 {
        self.clock.realtime(if call.times() > 1 { call.last_end() } else { call.start })
    }

    /// Returns a call with its place and time.
    fn call_site(&mut self, function: FnId, call: &Call) -> CallSite {
        CallSite { function, site: site(&mut self.all.stacks, self.index, call), at: self.at(call) }
    }

    /// Notes that a call may show that earlier failures were expected answers to a probe.
    #[inline]
    fn answer_probes(&mut self, function: FnId, call: &Call) {
        if self.asked.is_empty() {
            return;
        }
        let answered = expected::answered(function, call).filter(|question| self.asked.remove(question));
        if let Some(question) = answered {
            self.all.findings.answered(self.index, question);
            for (number, result, count) in self.all.failures.answered(self.index, question) {
                self.all.functions.expected(number, result, count);
            }
        }
    }

    /// Notes a call that may have been made inside a runtime call.
    #[inline]
    fn made(&mut self, call: &Call) {
        if !self.latest.is_empty() {
            let is_shown = self.chooses(call);
            self.latest.made(self.index, self.process, call, is_shown, &mut self.all.made_by);
        }
    }

    fn count_runtime(&mut self, Runtime { call, is_told }: &Runtime) {
        // Pending calls are counted at the end, together.
        if call.outcome != Outcome::Pending && self.chooses(call) {
            self.count(call, false, *is_told, Standing::Unexpected);
        }
    }

    /// Notes a call at which a fault fired or, in a dry run, would have fired.
    fn note_fault(&mut self, call: &Call) {
        self.stats.injected += u64::from(faults::has_changed(call));
        let (at, number) = (self.at(call), self.number(call));
        let is_chosen = self.chooses(call);
        let function = self.all.functions.name(number);
        let (process, proc) = (self.index, self.process.proc.as_str());
        self.all.fired.add(&FaultedCall { at, process, proc, function, call }, is_chosen);
        if is_done_all_the_same(call) {
            self.all.findings.driver_knows_more(self.index);
        }
    }

    /// Stores the findings that the process recorded with a call, or finds what the call by itself shows. Returns
    /// true if there is a finding.
    #[inline]
    fn judge(&mut self, function: FnId, call: &Call, standing: Standing) -> bool {
        if !judged::concerns(function, call) {
            return false;
        }
        let at = self.clock.realtime(call.start);
        let (last, is_chosen) = (self.last(call), self.is_chosen && self.filter.call(call, at));
        let Collected { findings, stacks, ledger, .. } = &mut *self.all;
        self.follower.settle(ledger, call.start);
        // A failed call may have failed because of calls that returned before its own return.
        self.memory.settle(if call.succeeded() { call.start } else { call.end });
        // The program did not cause the effects of a fault.
        let is_own = !self.follower.follows_fault(ledger, function, call);
        let facts = is_own.then_some(ProcessFacts {
            follower: &self.follower,
            history: &self.history,
            memory: &self.memory,
            ledger,
        });
        let (index, process) = (self.index, self.process);
        let made = MadeCall { index, process, function, call, at, last, is_chosen, standing };
        findings.call(&made, facts, stacks)
    }

    /// Adds a call to the handle table. Returns true if it failed because of an earlier fault.
    fn follow_handles(&mut self, function: FnId, call: &Call, is_judged: bool) -> bool {
        let at = self.clock.realtime(call.start);
        let (bytes, uuid) = match self.memory.exported(function, call) {
            Some((bytes, location)) => (bytes, location.device()),
            None => (
                None,
                uuid_of(self.process, self.memory.exported_pool(function, call).or(follow::device_of(call))),
            ),
        };
        let site = follow::keeps_stack(function, call)
            .then(|| Site::new(call, self.all.stacks.of(self.index, call), is_judged));
        let follows_fault = self.follower.follows_fault(&self.all.ledger, function, call);
        let (last, took) = (self.last(call), self.clock.between(call.start, call.end));
        let seen = CallFacts { at, last, took, uuid, bytes, site };
        self.follower.call(&mut self.all.ledger, function, call, seen);
        follows_fault
    }

    /// Returns true if a call without a recorded end may have returned, because its end may be missing from the recording. A
    /// call that a fault stopped did not return.
    fn may_have_returned(&self, call: &Call) -> bool {
        // If signal handlers made this many calls inside the call, its end was in a later block, which may be overwritten.
        let last = self.last_numbers.get(&call.stream);
        let is_left_behind = last.is_some_and(|last| *last > call.seq.saturating_add(SLOTS as u64));
        (self.lacks_calls() || is_left_behind) && call.stopped_by().is_none()
    }

    fn lacks_calls(&self) -> bool {
        self.process.has_losses() || self.stats.problem.is_some()
    }

    #[inline]
    fn chooses(&self, call: &Call) -> bool {
        self.is_chosen && (self.chooses_all || self.filter.call(call, self.clock.realtime(call.start)))
    }

    /// Counts a call and, unless `is_told`, its failure: then another call reports the failure already.
    #[inline]
    fn count(&mut self, call: &Call, follows_fault: bool, is_told: bool, standing: Standing) {
        self.stats.chosen += 1;
        let number = self.number(call);
        let end = match call.outcome {
            Outcome::Pending if self.may_have_returned(call) => End::Unknown,
            Outcome::Pending => End::Pending,
            Outcome::Unwound => End::Unwound,
            Outcome::Returned(result) => End::Returned(result),
        };
        let times = self.times(call);
        self.all.functions.count(number, self.index, end, times, call.injected, is_told);
        if let Some(callers) = &mut self.callers {
            callers.count(number, end, times, call.caller, call.start);
        }
        if let Outcome::Returned(result) = call.outcome
            && result != 0
            && !is_told
        {
            let Collected { failures, stacks, .. } = &mut *self.all;
            failures.add(self.index, number, result, call, follows_fault, standing, &self.clock, stacks);
            if matches!(standing, Standing::Expected(_)) && !follows_fault {
                self.all.functions.expected(number, result, call.times());
            }
        }
    }

    /// Returns the durations of a call and of its repetitions, if durations are requested.
    fn times(&self, call: &Call) -> Times {
        let is_timed = self.keeps_durations && matches!(call.outcome, Outcome::Returned(_));
        let between = |ticks: u64| self.clock.between(call.start, call.start.saturating_add(ticks));
        let run = call.details.run;
        Times {
            ns: is_timed.then(|| self.clock.between(call.start, call.end)),
            repeats: run.map_or(0, |run| run.calls),
            repeated_ns: run.filter(|_| is_timed).map(|run| (between(run.total), between(run.longest))),
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

    pub fn finish(mut self) -> ProcessStats {
        let latest = std::mem::take(&mut self.latest).finish();
        latest.iter().for_each(|runtime| self.count_runtime(runtime));
        self.follower.settle(&mut self.all.ledger, u64::MAX);
        self.memory.settle(u64::MAX);
        self.memory.state.keeper.book.settle(u64::MAX);
        let lacks_calls = self.lacks_calls();
        for call in self.pending.values().filter(|call| !lacks_calls || call.stopped_by().is_some()) {
            if let Some(function) = call.function.filter(|function| function.spec().binds().is_some()) {
                let (site, at) = (site(&mut self.all.stacks, self.index, call), self.at(call));
                self.memory.never_returns(call, CallSite { function, site, at });
            }
        }
        let mut pending: Vec<Call> = std::mem::take(&mut self.pending).into_values().collect();
        pending.sort_by_key(|call| (call.start, call.stream, call.seq));
        pending.iter().filter(|call| faults::is_touched(call)).for_each(|call| self.note_fault(call));
        let mut stops = pending.iter().filter_map(Call::stopped_by);
        self.stats.is_ended_on_purpose = stops.any(|hit| hit.has(did::SIGNAL | did::EXIT));
        pending.retain(|call| {
            let chosen = self.chooses(call);
            if let Some(function) = call.function {
                self.judge(function, call, Standing::Unexpected);
            }
            if chosen {
                self.count(call, false, false, Standing::Unexpected);
            }
            let is_unknown = self.may_have_returned(call);
            if chosen && is_unknown {
                let number = self.number(call);
                self.stats.unknown_ends.push((number, call.tid));
            }
            chosen && !is_unknown
        });
        // If the runtime call waits inside a driver call, the driver call is listed instead.
        let is_told = |call: &Call| {
            let mut told = latest.iter().filter(|runtime| runtime.is_told).map(|runtime| &runtime.call);
            told.any(|told| (told.stream, told.seq) == (call.stream, call.seq))
        };
        pending.retain(|call| !is_told(call));
        if let Some(callers) = self.callers.take() {
            self.all.callers.add(self.index, self.process, callers);
        }
        self.stats.pending = pending.into_iter().map(|call| (self.number(&call), call)).collect();
        self.stats.unused = self.memory.unused();
        self.stats.uses.settle(&self.memory);
        let realtime = |ticks| self.clock.realtime(ticks);
        self.stats.last_call.iter_mut().for_each(|last| last.at = realtime(last.ticks));
        self.stats.last_seen = (self.last_tick > 0).then(|| realtime(self.last_tick));
        self.all.memories.push(self.memory);
        self.stats
    }
}

/// Returns the place of a call without findings.
fn site(stacks: &mut Stacks, process: usize, call: &Call) -> Site {
    Site::new(call, stacks.of(process, call), false)
}

/// Returns the devices of a process, by their ordinals. Ordinals above the limit come from a damaged file, and are ignored.
fn devices(process: &Process) -> Vec<Option<Uuid>> {
    const MOST: i32 = 1024;
    let ordinals = process.devices.iter().map(|device| device.ordinal).filter(|ordinal| *ordinal < MOST);
    let count = ordinals.max().map_or(0, |last| last + 1);
    (0..count).map(|ordinal| uuid_of(process, Some(ordinal))).collect()
}

/// Returns the device of an ordinal in a process.
fn uuid_of(process: &Process, ordinal: Option<i32>) -> Option<Uuid> {
    process.device(ordinal?).map(|device| Uuid(device.uuid))
}
