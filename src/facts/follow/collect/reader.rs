//! Reads one process: passes each event to the modules that it concerns.
//!
//! It tracks which calls have ended. Only pending calls are stored, until their end is read.

use crate::follow::callers::ProcessCallers;
use crate::follow::collect::Collected;
use crate::follow::collect::stats::{HeldContexts, ProcessStats};
use crate::follow::faults::{self, FaultedCall};
use crate::follow::functions::{CallDurations, CallEnd, Number};
use crate::follow::judged::{self, JudgedCall, ProcessFacts};
use crate::follow::last_call::LastCall;
use crate::follow::ledger::follow::{self, CallFacts, HandleFollower};
use crate::follow::ledger::process_history::{self, ProcessHistory};
use crate::follow::ledger::{CallSite, Site};
use crate::follow::memory::{self, ProcessMemory, book};
use crate::follow::oom_calls::{self, MemoryLeft};
use crate::follow::peers;
use crate::follow::runtime::{OpenRuntimeCalls, TrackedRuntimeCall};
use anyhow::Result;
use cupeer_record::{Call, Clock, Event, Outcome, Process};
use cupeer_report::Keep;
use cupeer_report::expected::{self, Expectation, ProbeQuery};
use cupeer_report::filter::Filter;
use cupeer_report::judged::is_completed_anyway;
use cupeer_report::judged::is_runtime;
use cupeer_report::model::Uuid;
use cupeer_report::places::StackTable;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::hit::did;
use cupeer_spec::record::slot::used;
use cupeer_spec::record::{SLOTS, mode};
use std::collections::{HashMap, HashSet};

/// Number of event records of a process (calls of cuEventRecord) whose places are stored: the first ones.
const MOST_EVENT_RECORDS: usize = 4096;

pub struct ProcessReader<'a> {
    all: &'a mut Collected,
    filter: &'a Filter,
    chooses_all: bool,
    is_chosen: bool,
    index: usize,
    process: &'a Process,
    clock: Clock,
    follower: HandleFollower,
    history: ProcessHistory,
    memory: ProcessMemory,
    keeps_durations: bool,
    /// Sums by caller, if they are requested.
    callers: Option<ProcessCallers>,
    /// Numbers of the functions that are not in the table of functions, by their number in the record.
    unknown_functions: HashMap<u16, Number>,
    /// Calls that have not returned, by event stream and number.
    pending: HashMap<(u32, u64), Call>,
    runtime_calls: OpenRuntimeCalls,
    /// Questions of possible probes that no later call has answered yet.
    open_probes: HashSet<ProbeQuery>,
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
            chooses_all: filter.has_all_calls(),
            is_chosen: filter.has_process(index),
            index,
            process,
            clock,
            follower: HandleFollower::new(index, domain),
            history: ProcessHistory::default(),
            memory: ProcessMemory::new(domain, devices_by_ordinal(process)),
            keeps_durations: keep.durations,
            callers: keep.callers.then(ProcessCallers::default),
            unknown_functions: HashMap::new(),
            pending: HashMap::new(),
            runtime_calls: OpenRuntimeCalls::default(),
            open_probes: HashSet::new(),
            last_tick: 0,
            last_numbers: HashMap::new(),
            stats: ProcessStats::default(),
        }
    }

    pub fn read_events(&mut self) -> Result<()> {
        let ends = self.filter.until().is_some();
        let mut events = self.process.events()?;
        loop {
            // By reference: moving an event costs as much as counting it.
            let next = events.next();
            let Some(event) = &next else { break };
            if ends && !self.filter.is_before_end(self.clock.realtime(event.start())) {
                // Later events are only counted.
                self.stats.goes_on = true;
                self.stats.events += u64::from(matches!(event, Event::Call(_) | Event::Mark { .. }));
                continue;
            }
            match event {
                Event::Call(call) if call.outcome == Outcome::Pending => {
                    self.begin_call(call);
                    self.note_inner_call(call);
                    self.pending.insert((call.stream, call.seq), call.clone());
                }
                Event::Call(call) => {
                    self.begin_call(call);
                    self.end_call(call);
                }
                Event::Use(call) => self.store_recorded_use(call),
                Event::LateEnd { stream, seq, .. } => {
                    if let Some(mut call) = self.pending.remove(&(*stream, *seq))
                        && call.apply_late_end(event)
                    {
                        self.end_call(&call);
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
        self.stats.problem = events.first_error().map(|error| format!("cannot be read completely: {error}"));
        Ok(())
    }

    #[inline]
    fn begin_call(&mut self, call: &Call) {
        self.stats.events += 1;
        self.stats.repeated = self.stats.repeated.saturating_add(call.call_count() - 1);
        self.last_tick = self.last_tick.max(call.start);
        let number = self.function_number(call);
        LastCall::replace(&mut self.stats.last_call, number, call);
        if self.process.header.mode == mode::BOUNDED {
            self.last_numbers.insert(call.stream, call.seq);
        }
        if is_runtime(call.function) {
            self.runtime_calls.add_call(call).iter().for_each(|ended| self.count_runtime(ended));
        } else if call.function.is_none_or(|function| !function.spec().is_release()) {
            self.stats.steps.add(self.clock.realtime(call.start));
        }
    }

    #[inline]
    fn end_call(&mut self, call: &Call) {
        self.last_tick = self.last_tick.max(call.last_end());
        if is_runtime(call.function) {
            // Driver calls inside a runtime call are listed in its place, so it is counted only when no more of them can follow.
            if !self.runtime_calls.set_end(call) {
                self.count_runtime(&TrackedRuntimeCall { call: call.clone(), is_told: false });
            }
            return;
        }
        self.note_inner_call(call);
        if faults::is_hit_by_fault(call) {
            self.note_fault(call);
        }
        let (mut follows_fault, mut standing) = (false, Expectation::Unexpected);
        if let Some(function) = call.function {
            self.settle_probes(function, call);
            if !call.succeeded() {
                standing = Expectation::of(self.process, function, call);
                self.open_probes.extend(standing.open_query());
            }
            follows_fault = self.follow_call(function, call, standing);
            self.store_other_facts(function, call);
        }
        if self.is_chosen_call(call) {
            self.count_call(call, follows_fault, false, standing);
        }
    }

    /// Judges a call, and applies it to the state of its process. Returns true if the call failed because of an earlier fault.
    #[inline]
    fn follow_call(&mut self, function: FnId, call: &Call, standing: Expectation) -> bool {
        let is_judged = self.judge(function, call, standing);
        self.update_history(function, call);
        let changes_memory = memory::may_change_memory(function);
        if changes_memory {
            self.memory.apply_returned(call.start);
        }
        let is_kept = || function.spec().is_virtual_memory_call() && self.memory.keeps_reference(function, call);
        let is_followed = follow::may_change_handles(function) && !is_kept();
        let follows_fault = is_followed && self.follow_handles(function, call, is_judged);
        if changes_memory {
            let made = self.call_site(function, call);
            self.memory.apply_call(function, call, made);
        }
        if book::changes_memory(function) && call.succeeded() && !call.injected {
            self.store_allocation_change(function, call);
        }
        self.update_peer_access(function, call);
        follows_fault
    }

    /// Adds to the history of the process the objects that a call closed or ended, and the access that it enabled.
    #[inline]
    fn update_history(&mut self, function: FnId, call: &Call) {
        if self.history.concerns(function, call) {
            // The history reads the handles that are open before this call.
            self.follower.add_returned(&mut self.all.ledger, call.start);
            let at = self.start_time(call);
            self.history.note_call(&self.follower, &self.all.ledger, function, call, at);
        }
    }

    /// Adds a call that queried, changed, or used access between devices to the peer matrix.
    #[inline]
    fn update_peer_access(&mut self, function: FnId, call: &Call) {
        if peers::concerns(function) {
            let at = self.start_time(call);
            let uuid = |ordinal| device_uuid(self.process, ordinal);
            self.all.peers.add_call(self.index, function, call, at, uuid);
            let devices = call.details.devices;
            if let ((Some(from), Some(to)), true) = (devices, process_history::leaves_access_enabled(function, call)) {
                self.memory.add_peer_access(from, to);
            }
        }
    }

    /// Stores the facts of a call for findings about the whole process.
    #[inline]
    fn store_other_facts(&mut self, function: FnId, call: &Call) {
        if call.succeeded() && !call.injected {
            let (at, stacks) = (self.start_time(call), &mut self.all.stacks);
            let mut made = || CallSite { function, site: site_without_finding(stacks, self.index, call), at };
            if follow::may_change_handles(function) {
                self.stats.descriptors.note_call(function, call, &mut made);
            }
            self.stats.contexts.note_call(function, call, at, made);
        }
        if oom_calls::is_oom(function, call) {
            self.store_oom_call(function, call);
        } else if !self.stats.oom_calls.is_empty() && call.succeeded() && !call.injected {
            oom_calls::note_allocation(&mut self.stats.oom_calls, function, call);
        }
        if let Some(devices) = call.details.contexts
            && self.stats.most_contexts.is_none_or(|known| known.devices.count_ones() < devices.count_ones())
        {
            self.stats.most_contexts = Some(HeldContexts { devices, call: self.call_site(function, call) });
        }
        self.store_memory_use(function, call);
    }

    /// Stores the memory that a copy or a memset used. Such a call is recorded only because that memory is shared.
    fn store_recorded_use(&mut self, call: &Call) {
        let marks = if let Outcome::Returned(marks) = call.outcome { marks } else { 0 };
        if marks & used::RESUMED != 0 {
            self.stats.order.note_gap_end(self.clock.realtime(call.start));
        }
        if marks & used::LAST != 0 {
            self.stats.order.note_gap_from(self.clock.realtime(call.end));
            self.stats.uses.is_cut = true;
        }
        self.stats.steps.add(self.clock.realtime(call.start));
        if let Some(function) = call.function {
            self.memory.apply_returned(call.start);
            let call = Call { outcome: Outcome::Returned(0), ..call.clone() };
            self.store_memory_use(function, &call);
        }
    }

    /// Adds a successful call to the facts about uses of memory: the ranges that it read or wrote, its place in the order of
    /// work, and an event that it recorded or memory that it unmapped.
    fn store_memory_use(&mut self, function: FnId, call: &Call) {
        if call.succeeded() && !call.injected {
            let device = call.details.content.and_then(|it| device_uuid(self.process, Some(it.device)));
            // A call that only queued work is recorded before it returns, so its end is taken as later than its start.
            let (at, stacks) = (self.start_time(call), &mut self.all.stacks);
            let until = self.clock.realtime(call.end).max(at + 1);
            let mut made = || CallSite { function, site: site_without_finding(stacks, self.index, call), at };
            let ProcessStats { uses, order, event_records: records, .. } = &mut self.stats;
            order.add_call(function, call, (at, until), uses.all.len());
            if function.spec().records().is_some() && records.len() < MOST_EVENT_RECORDS {
                records.push(made());
            }
            order.add_unmapping(function, call, &mut made);
            uses.add_call(function, call, &self.memory, || {
                let stream = order.streams.stream_of_call(function, call);
                (made(), until, stream, device)
            });
        }
    }

    /// Stores the memory that a call allocated, freed, or exported.
    fn store_allocation_change(&mut self, function: FnId, call: &Call) {
        let uuid = |ordinal| device_uuid(self.process, ordinal);
        let location = oom_calls::requested_location(function, call, &self.memory, uuid);
        let at = (self.start_time(call), self.all.stacks.of(self.index, call));
        self.memory.state.keeper.book.apply_call(function, call, at, location);
    }

    /// Stores a call that failed because no memory or no addresses were left.
    fn store_oom_call(&mut self, function: FnId, call: &Call) {
        let [last, failed] = [call.last_end(), call.end].map(|ticks| self.clock.realtime(ticks));
        let made = self.call_site(function, call);
        let uuid = |ordinal| device_uuid(self.process, ordinal);
        let left = call.details.device_memory.map(|left| MemoryLeft {
            device: uuid(Some(left.device)),
            free: left.free,
            total: left.total,
            small: (left.counted_bytes, left.counted),
        });
        let location = oom_calls::requested_location(function, call, &self.memory, uuid);
        let times = if call.call_count() > 1 { (last, last) } else { (made.at, failed) };
        oom_calls::add_failed_call(&mut self.stats.oom_calls, call, made, times, location, &self.memory, left);
    }

    /// Returns the time at which a call began.
    fn start_time(&self, call: &Call) -> u64 {
        self.clock.realtime(call.start)
    }

    /// Returns the time at which the last repetition of a call began.
    fn last_repetition_time(&self, call: &Call) -> u64 {
        self.clock.realtime(if call.call_count() > 1 { call.last_end() } else { call.start })
    }

    /// Returns a call with its place and time.
    fn call_site(&mut self, function: FnId, call: &Call) -> CallSite {
        CallSite {
            function,
            site: site_without_finding(&mut self.all.stacks, self.index, call),
            at: self.start_time(call),
        }
    }

    /// Counts earlier failures as expected if a call shows that they were answers to a probe.
    #[inline]
    fn settle_probes(&mut self, function: FnId, call: &Call) {
        if self.open_probes.is_empty() {
            return;
        }
        let answered = expected::query_answered_by(function, call).filter(|question| self.open_probes.remove(question));
        if let Some(question) = answered {
            self.all.findings.remove_probe_findings(self.index, question);
            for (number, result, count) in self.all.failures.mark_as_expected(self.index, question) {
                self.all.functions.subtract_expected(number, result, count);
            }
        }
    }

    /// Adds a driver call to the runtime call inside which it was made, if any.
    #[inline]
    fn note_inner_call(&mut self, call: &Call) {
        if !self.runtime_calls.is_empty() {
            let is_shown = self.is_chosen_call(call);
            self.runtime_calls.note_call(self.index, self.process, call, is_shown, &mut self.all.made_by);
        }
    }

    fn count_runtime(&mut self, TrackedRuntimeCall { call, is_told }: &TrackedRuntimeCall) {
        // Pending calls are counted at the end, together.
        if call.outcome != Outcome::Pending && self.is_chosen_call(call) {
            self.count_call(call, false, *is_told, Expectation::Unexpected);
        }
    }

    /// Counts the faults that fired at a call or, in a dry run, would have fired.
    fn note_fault(&mut self, call: &Call) {
        self.stats.injected += u64::from(faults::has_fault_effect(call));
        let (at, number) = (self.start_time(call), self.function_number(call));
        let is_chosen = self.is_chosen_call(call);
        let function = self.all.functions.name(number);
        let (process, proc) = (self.index, self.process.proc.as_str());
        self.all.fired.count_hits(&FaultedCall { at, process, proc, function, call }, is_chosen);
        if is_completed_anyway(call) {
            self.all.findings.set_driver_knows_more(self.index);
        }
    }

    /// Stores the findings that the process recorded with a call, or finds what the call by itself shows. Returns
    /// true if there is a finding.
    #[inline]
    fn judge(&mut self, function: FnId, call: &Call, standing: Expectation) -> bool {
        if !judged::may_have_findings(function, call) {
            return false;
        }
        let at = self.clock.realtime(call.start);
        let (last, is_chosen) = (self.last_repetition_time(call), self.is_chosen && self.filter.has_call(call, at));
        let Collected { findings, stacks, ledger, .. } = &mut *self.all;
        self.follower.add_returned(ledger, call.start);
        // A failed call may have failed because of calls that returned before its own return.
        self.memory.apply_returned(if call.succeeded() { call.start } else { call.end });
        // The program did not cause the effects of a fault.
        let is_own = !self.follower.follows_fault(ledger, function, call);
        let facts = is_own.then_some(ProcessFacts {
            follower: &self.follower,
            history: &self.history,
            memory: &self.memory,
            ledger,
        });
        let (index, process) = (self.index, self.process);
        let made = JudgedCall { index, process, function, call, at, last, is_chosen, standing };
        findings.store_findings(&made, facts, stacks)
    }

    /// Adds a call to the handle table. Returns true if it failed because of an earlier fault.
    fn follow_handles(&mut self, function: FnId, call: &Call, is_judged: bool) -> bool {
        let at = self.clock.realtime(call.start);
        let (bytes, uuid) = match self.memory.exported_size_and_location(function, call) {
            Some((bytes, location)) => (bytes, location.device()),
            None => (
                None,
                device_uuid(
                    self.process,
                    self.memory.exported_pool_device(function, call).or(follow::object_or_current_device(call)),
                ),
            ),
        };
        let site = follow::is_place_stored(function, call)
            .then(|| Site::new(call, self.all.stacks.of(self.index, call), is_judged));
        let follows_fault = self.follower.follows_fault(&self.all.ledger, function, call);
        let (last, took) = (self.last_repetition_time(call), self.clock.between(call.start, call.end));
        let seen = CallFacts { at, last, took, uuid, bytes, site };
        self.follower.follow_call(&mut self.all.ledger, function, call, seen);
        follows_fault
    }

    /// Returns true if a call without a recorded end may have returned, because its end may be missing from the recording. A
    /// call that a fault stopped did not return.
    fn may_have_returned(&self, call: &Call) -> bool {
        // If signal handlers made this many calls inside the call, its end was in a later block, which may be overwritten.
        let last = self.last_numbers.get(&call.stream);
        let is_left_behind = last.is_some_and(|last| *last > call.seq.saturating_add(SLOTS as u64));
        (self.lacks_calls() || is_left_behind) && call.stopping_fault().is_none()
    }

    fn lacks_calls(&self) -> bool {
        self.process.has_losses() || self.stats.problem.is_some()
    }

    #[inline]
    fn is_chosen_call(&self, call: &Call) -> bool {
        self.is_chosen && (self.chooses_all || self.filter.has_call(call, self.clock.realtime(call.start)))
    }

    /// Counts a call and, unless `is_told`, its failure: then another call reports the failure already.
    #[inline]
    fn count_call(&mut self, call: &Call, follows_fault: bool, is_told: bool, standing: Expectation) {
        self.stats.chosen += 1;
        let number = self.function_number(call);
        let end = match call.outcome {
            Outcome::Pending if self.may_have_returned(call) => CallEnd::Unknown,
            Outcome::Pending => CallEnd::Pending,
            Outcome::Unwound => CallEnd::Unwound,
            Outcome::Returned(result) => CallEnd::Returned(result),
        };
        let times = self.call_durations(call);
        self.all.functions.count_call(number, self.index, end, times, call.injected, is_told);
        if let Some(callers) = &mut self.callers {
            callers.count_call(number, end, times, call.caller, call.start);
        }
        if let Outcome::Returned(result) = call.outcome
            && result != 0
            && !is_told
        {
            let Collected { failures, stacks, .. } = &mut *self.all;
            failures.add_failure(self.index, number, result, call, follows_fault, standing, &self.clock, stacks);
            if matches!(standing, Expectation::Expected(_)) && !follows_fault {
                self.all.functions.subtract_expected(number, result, call.call_count());
            }
        }
    }

    /// Returns the durations of a call and of its repetitions, if durations are requested.
    fn call_durations(&self, call: &Call) -> CallDurations {
        let is_timed = self.keeps_durations && matches!(call.outcome, Outcome::Returned(_));
        let between = |ticks: u64| self.clock.between(call.start, call.start.saturating_add(ticks));
        let run = call.details.repeats;
        CallDurations {
            ns: is_timed.then(|| self.clock.between(call.start, call.end)),
            repeats: run.map_or(0, |run| run.calls),
            repeated_ns: run.filter(|_| is_timed).map(|run| (between(run.total), between(run.longest))),
        }
    }

    #[inline]
    fn function_number(&mut self, call: &Call) -> Number {
        match call.function {
            Some(function) => function as usize,
            None => *self
                .unknown_functions
                .entry(call.number)
                .or_insert_with(|| self.all.functions.number_for(self.process.function_name(call.number))),
        }
    }

    pub fn finish(mut self) -> ProcessStats {
        let latest = std::mem::take(&mut self.runtime_calls).take_remaining();
        latest.iter().for_each(|runtime| self.count_runtime(runtime));
        self.follower.add_returned(&mut self.all.ledger, u64::MAX);
        self.memory.apply_returned(u64::MAX);
        self.memory.state.keeper.book.add_returned(u64::MAX);
        let lacks_calls = self.lacks_calls();
        for call in self.pending.values().filter(|call| !lacks_calls || call.stopping_fault().is_some()) {
            if let Some(function) = call.function.filter(|function| function.spec().binds().is_some()) {
                let (site, at) = (site_without_finding(&mut self.all.stacks, self.index, call), self.start_time(call));
                self.memory.note_waiting_bind(call, CallSite { function, site, at });
            }
        }
        let mut pending: Vec<Call> = std::mem::take(&mut self.pending).into_values().collect();
        pending.sort_by_key(|call| (call.start, call.stream, call.seq));
        pending.iter().filter(|call| faults::is_hit_by_fault(call)).for_each(|call| self.note_fault(call));
        let mut stops = pending.iter().filter_map(Call::stopping_fault);
        self.stats.is_ended_on_purpose = stops.any(|hit| hit.has_effect(did::SIGNAL | did::EXIT));
        pending.retain(|call| {
            let chosen = self.is_chosen_call(call);
            if let Some(function) = call.function {
                self.judge(function, call, Expectation::Unexpected);
            }
            if chosen {
                self.count_call(call, false, false, Expectation::Unexpected);
            }
            let is_unknown = self.may_have_returned(call);
            if chosen && is_unknown {
                let number = self.function_number(call);
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
            self.all.callers.add_process(self.index, self.process, callers);
        }
        self.stats.pending = pending.into_iter().map(|call| (self.function_number(&call), call)).collect();
        self.stats.unused_mappings = self.memory.take_unused_mappings();
        self.stats.uses.fill_in_handles(&self.memory);
        let realtime = |ticks| self.clock.realtime(ticks);
        self.stats.last_call.iter_mut().for_each(|last| last.at = realtime(last.ticks));
        self.stats.last_seen = (self.last_tick > 0).then(|| realtime(self.last_tick));
        self.all.memories.push(self.memory);
        self.stats
    }
}

/// Returns the place of a call without findings.
fn site_without_finding(stacks: &mut StackTable, process: usize, call: &Call) -> Site {
    Site::new(call, stacks.of(process, call), false)
}

/// Returns the devices of a process, by their ordinals. Ordinals above the limit come from a damaged file, and are ignored.
fn devices_by_ordinal(process: &Process) -> Vec<Option<Uuid>> {
    const MOST: i32 = 1024;
    let ordinals = process.devices.iter().map(|device| device.ordinal).filter(|ordinal| *ordinal < MOST);
    let count = ordinals.max().map_or(0, |last| last + 1);
    (0..count).map(|ordinal| device_uuid(process, Some(ordinal))).collect()
}

/// Returns the device of an ordinal in a process.
fn device_uuid(process: &Process, ordinal: Option<i32>) -> Option<Uuid> {
    process.device(ordinal?).map(|device| Uuid(device.uuid))
}
