//! Reads one process: passes each event to the modules that it concerns.
//!
//! It tracks which calls have ended. Only calls that have not returned are remembered, until their end comes.

use crate::follow::callers::OwnCallers;
use crate::follow::collect::Collected;
use crate::follow::collect::tally::{Holding, Tally};
use crate::follow::exhausted_calls::{self, Left};
use crate::follow::fault_hits::At;
use crate::follow::faults;
use crate::follow::functions::{End, Number};
use crate::follow::judged::{self, MadeCall, Sight};
use crate::follow::last_stack::LastStack;
use crate::follow::ledger::descriptors::Made;
use crate::follow::ledger::follow::{self, CallFacts, Follower};
use crate::follow::ledger::own::{self, Own};
use crate::follow::ledger::{Realm, Site};
use crate::follow::memory::{self, Memory, Waits, book};
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
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::hit::did;
use cupeer_spec::record::slot::used;
use cupeer_spec::record::{SLOTS, mode};
use std::collections::{HashMap, HashSet};

/// The most calls of a process that record events, and are kept with their places.
const MOST_RECORDS: usize = 4096;

pub struct Reading<'a> {
    all: &'a mut Collected,
    filter: &'a Filter,
    chooses_all: bool,
    is_chosen: bool,
    index: usize,
    process: &'a Process,
    clock: Clock,
    follower: Follower,
    own: Own,
    memory: Memory,
    keeps_durations: bool,
    /// Where callers are told apart.
    callers: Option<OwnCallers>,
    /// The functions that the table does not know, by their number in the record.
    others: HashMap<u16, Number>,
    /// Calls that have not returned, by stream and number.
    pending: HashMap<(u32, u64), Call>,
    latest: Latest,
    /// What probes have asked that nothing has answered yet.
    asked: HashSet<Question>,
    last_tick: u64,
    /// The last call: function, thread, begin.
    last_call: Option<(Number, u32, u64)>,
    last_stack: LastStack,
    /// Of a record that has reached its limit: the number of the last call in each stream.
    last_numbers: HashMap<u32, u64>,
    tally: Tally,
}

impl<'a> Reading<'a> {
    pub fn new(
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
            follower: Follower::new(index, realm),
            own: Own::default(),
            memory: Memory::new(realm, devices(process)),
            keeps_durations: false,
            callers: None,
            others: HashMap::new(),
            pending: HashMap::new(),
            latest: Latest::default(),
            asked: HashSet::new(),
            last_tick: 0,
            last_call: None,
            last_stack: LastStack::default(),
            last_numbers: HashMap::new(),
            tally: Tally::default(),
        }
    }

    /// Chooses what is known of calls beside sums.
    pub fn keep(&mut self, keep: Keep) {
        self.keeps_durations = keep.durations;
        self.callers = keep.callers.then(OwnCallers::default);
    }

    pub fn run(&mut self) -> Result<()> {
        let ends = self.filter.until().is_some();
        let mut events = self.process.events()?;
        loop {
            // By reference: to move an event costs as much as to count it.
            let next = events.next();
            let Some(event) = &next else { break };
            if ends && !self.filter.is_past(self.clock.realtime(event.start())) {
                // From here on they are only counted.
                self.tally.goes_on = true;
                self.tally.events += u64::from(matches!(event, Event::Call(_) | Event::Mark { .. }));
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
                    self.tally.events += 1;
                    self.last_tick = self.last_tick.max(*time);
                    let at = self.clock.realtime(*time);
                    if self.is_chosen && self.filter.is_in_time(at) {
                        self.all.marks.add(self.index, *tid, at, text);
                    }
                }
            }
        }
        self.tally.problem = events.error().map(|error| format!("cannot be read completely: {error}"));
        Ok(())
    }

    #[inline]
    fn begin(&mut self, call: &Call) {
        self.tally.events += 1;
        self.tally.repeated = self.tally.repeated.saturating_add(call.times() - 1);
        self.last_tick = self.last_tick.max(call.start);
        self.last_call = Some((self.number(call), call.tid, call.start));
        self.last_stack.set(call);
        if self.process.header.mode == mode::BOUNDED {
            self.last_numbers.insert(call.stream, call.seq);
        }
        if is_runtime(call.function) {
            self.latest.begin(call).iter().for_each(|ended| self.count_runtime(ended));
        } else if call.function.is_none_or(|function| !function.spec().gives_back()) {
            self.tally.steps.add(self.clock.realtime(call.start));
        }
    }

    #[inline]
    fn end(&mut self, call: &Call) {
        self.last_tick = self.last_tick.max(call.last_end());
        if is_runtime(call.function) {
            // What happens in it, the driver's calls tell. While those may come, it is not counted.
            if !self.latest.end(call) {
                self.count_runtime(&Runtime { call: call.clone(), is_told: false });
            }
            return;
        }
        self.made(call);
        if faults::is_touched(call) {
            self.touched(call);
        }
        let (mut follows_fault, mut standing) = (false, Standing::Unexpected);
        if let Some(function) = call.function {
            self.answer(function, call);
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

    /// Judges a call, and changes the state of its process. Returns whether it failed because of what a fault plan had changed.
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
        let follows_fault = is_followed && self.follow(function, call, is_judged);
        if changes_memory {
            let at = memory::At { time: self.at(call), function, site: self.site(call) };
            self.memory.call(function, call, at);
        }
        if book::concerns(function) && call.succeeded() && !call.injected {
            self.keep_book(function, call);
        }
        self.follow_access(function, call);
        follows_fault
    }

    /// Notes what a process closed, ended, or enabled by a call.
    #[inline]
    fn follow_own(&mut self, function: FnId, call: &Call) {
        if self.own.concerns(function, call) {
            // What it has open now.
            self.follower.settle(&mut self.all.ledger, call.start);
            let at = self.at(call);
            self.own.call(&self.follower, &self.all.ledger, function, call, at);
        }
    }

    /// Notes the access between devices that a call asked for, changed, or used.
    #[inline]
    fn follow_access(&mut self, function: FnId, call: &Call) {
        if peers::concerns(function) {
            let at = self.at(call);
            let uuid = |ordinal| uuid_of(self.process, ordinal);
            self.all.peers.call(self.index, function, call, at, uuid);
            let devices = call.details.devices;
            if let ((Some(from), Some(to)), true) = (devices, own::is_enabled(function, call)) {
                self.memory.enabled(from, to);
            }
        }
    }

    /// Keeps what findings about the whole process need of a call.
    #[inline]
    fn keep_rest(&mut self, function: FnId, call: &Call) {
        if call.succeeded() && !call.injected && follow::concerns(function) {
            let (at, stacks) = (self.at(call), &mut self.all.stacks);
            let made = || Made { function, site: Site::of(call, stacks.of(self.index, call), false), at };
            self.tally.descriptors.call(function, call, self.memory.realm, made);
        }
        if call.succeeded() && !call.injected {
            let (time, stacks) = (self.at(call), &mut self.all.stacks);
            let mut site = || Site::of(call, stacks.of(self.index, call), false);
            self.tally.contexts.call(function, call, time, || memory::At { time, function, site: site() });
        }
        if exhausted_calls::concerns(function, call) {
            self.keep_scarce(function, call);
        } else if !self.tally.scarce.is_empty() && call.succeeded() && !call.injected {
            exhausted_calls::succeeded(&mut self.tally.scarce, function, call);
        }
        if let Some(devices) = call.details.contexts
            && self.tally.holding.is_none_or(|known| known.devices.count_ones() < devices.count_ones())
        {
            let (site, at) = (self.site(call), self.at(call));
            self.tally.holding = Some(Holding { devices, function, site, at });
        }
        self.use_memory(function, call);
    }

    /// Notes a copy or a memset that is recorded only because it used shared memory.
    fn used(&mut self, call: &Call) {
        let marks = if let Outcome::Returned(marks) = call.outcome { marks } else { 0 };
        if marks & used::RESUMED != 0 {
            self.tally.order.resumes(self.clock.realtime(call.start));
        }
        if marks & used::LAST != 0 {
            self.tally.order.is_cut(self.clock.realtime(call.end));
            self.tally.uses.is_cut = true;
        }
        self.tally.steps.add(self.clock.realtime(call.start));
        if let Some(function) = call.function {
            self.memory.settle(call.start);
            let call = Call { outcome: Outcome::Returned(0), ..call.clone() };
            self.use_memory(function, &call);
        }
    }

    /// Keeps which device memory a call read or wrote that succeeded.
    fn use_memory(&mut self, function: FnId, call: &Call) {
        if call.succeeded() && !call.injected {
            let device = call.details.content.and_then(|it| uuid_of(self.process, Some(it.device)));
            // One that only gave work to a stream returned later than its record says: behind its own start in any case.
            let start = self.at(call);
            let (at, stacks) = ((start, self.clock.realtime(call.end).max(start + 1)), &mut self.all.stacks);
            let Tally { uses, order, records, .. } = &mut self.tally;
            order.call(function, call, at, uses.all.len());
            if function.spec().records().is_some() && records.len() < MOST_RECORDS {
                records.push((at.0, function, Site::of(call, stacks.of(self.index, call), false)));
            }
            order.unmaps(function, call, at.0, || Site::of(call, stacks.of(self.index, call), false));
            let made = || {
                let stream = order.streams.of(function, call);
                (Site::of(call, stacks.of(self.index, call), false), at, stream, device)
            };
            uses.call(function, call, &self.memory, made);
        }
    }

    /// Keeps memory that a call made, freed, or exported.
    fn keep_book(&mut self, function: FnId, call: &Call) {
        let uuid = |ordinal| uuid_of(self.process, ordinal);
        let location = exhausted_calls::location_of(function, call, &self.memory, uuid);
        let at = (self.at(call), self.site(call).stack);
        self.memory.state.keeper.book.call(function, call, at, location);
    }

    /// Keeps a call that found no memory or addresses left.
    fn keep_scarce(&mut self, function: FnId, call: &Call) {
        let [at, last, failed] =
            [call.start, call.last_end(), call.end].map(|ticks| self.clock.realtime(ticks));
        let site = self.site(call);
        let uuid = |ordinal| uuid_of(self.process, ordinal);
        let left = call.details.left.map(|left| Left {
            device: uuid(Some(left.device)),
            free: left.free,
            total: left.total,
            small: (left.counted_bytes, left.counted),
        });
        let location = exhausted_calls::location_of(function, call, &self.memory, uuid);
        let times = if call.times() > 1 { (at, last, last) } else { (at, at, failed) };
        exhausted_calls::add(
            &mut self.tally.scarce,
            (function, call, site),
            times,
            location,
            &self.memory,
            left,
        );
    }

    /// The time of a call.
    fn at(&self, call: &Call) -> u64 {
        self.clock.realtime(call.start)
    }

    /// The place of a call.
    fn site(&mut self, call: &Call) -> Site {
        Site::of(call, self.all.stacks.of(self.index, call), false)
    }

    /// A call may show that failures before it were answers to probes.
    #[inline]
    fn answer(&mut self, function: FnId, call: &Call) {
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

    /// Notes a call that may have been made in one of the runtime's.
    #[inline]
    fn made(&mut self, call: &Call) {
        if !self.latest.is_empty() {
            let is_shown = self.chooses(call);
            self.latest.made(self.index, self.process, call, is_shown, &mut self.all.made_by);
        }
    }

    fn count_runtime(&mut self, Runtime { call, is_told }: &Runtime) {
        // What has not returned is counted with all of these.
        if call.outcome != Outcome::Pending && self.chooses(call) {
            self.count(call, false, *is_told, Standing::Unexpected);
        }
    }

    /// A fault plan has done something to a call, or would have.
    fn touched(&mut self, call: &Call) {
        self.tally.injected += u64::from(faults::has_changed(call));
        let (at, number) = (self.clock.realtime(call.start), self.number(call));
        let is_chosen = self.chooses(call);
        self.all.fired.add(&At { at, process: self.index, number, call }, is_chosen);
        if is_done_all_the_same(call) {
            self.all.findings.driver_knows_more(self.index);
        }
    }

    /// Notes what rules have found in a call, or looks for what the call by itself shows. Returns whether
    /// there is anything.
    #[inline]
    fn judge(&mut self, function: FnId, call: &Call, standing: Standing) -> bool {
        if !judged::concerns(function, call) {
            return false;
        }
        let at = self.clock.realtime(call.start);
        let is_chosen = self.is_chosen && self.filter.call(call, at);
        let Collected { findings, stacks, ledger, .. } = &mut *self.all;
        self.follower.settle(ledger, call.start);
        // A call that failed saw what others took before it returned.
        self.memory.settle(if call.succeeded() { call.start } else { call.end });
        // What a fault plan has changed is not the program's fault.
        let is_own = !self.follower.follows_fault(ledger, function, call);
        let sight = is_own.then_some(Sight {
            follower: &self.follower,
            own: &self.own,
            memory: &self.memory,
            ledger,
        });
        let last = if call.times() > 1 { self.clock.realtime(call.last_end()) } else { at };
        let made = MadeCall {
            index: self.index,
            process: self.process,
            function,
            call,
            at,
            last,
            is_chosen,
            standing,
        };
        findings.call(&made, sight, stacks)
    }

    /// Tells the ledger of a call. Returns whether it failed because of what a fault plan had changed.
    fn follow(&mut self, function: FnId, call: &Call, is_judged: bool) -> bool {
        let at = self.clock.realtime(call.start);
        let (bytes, uuid) = match self.memory.exported(function, call) {
            Some((bytes, location)) => (bytes, location.device()),
            None => (
                None,
                uuid_of(self.process, self.memory.exported_pool(function, call).or(follow::device_of(call))),
            ),
        };
        let stack = follow::keeps_stack(function, call).then(|| self.all.stacks.of(self.index, call));
        let follows_fault = self.follower.follows_fault(&self.all.ledger, function, call);
        let last = if call.times() > 1 { self.clock.realtime(call.last_end()) } else { at };
        self.follower.call(
            &mut self.all.ledger,
            function,
            call,
            CallFacts {
                at,
                last,
                took: self.clock.between(call.start, call.end),
                uuid,
                bytes,
                stack,
                is_judged,
            },
        );
        follows_fault
    }

    /// Whether the end of a call that has none may be missing. What a fault plan has stopped did not return.
    fn may_have_returned(&self, call: &Call) -> bool {
        // Where handlers made so many calls within it, its end is in a later block, which may be overwritten.
        let last = self.last_numbers.get(&call.stream);
        let is_left_behind = last.is_some_and(|last| *last > call.seq.saturating_add(SLOTS as u64));
        (self.lacks_calls() || is_left_behind) && call.stopped_by().is_none()
    }

    fn lacks_calls(&self) -> bool {
        self.process.has_losses() || self.tally.problem.is_some()
    }

    #[inline]
    fn chooses(&self, call: &Call) -> bool {
        self.is_chosen && (self.chooses_all || self.filter.call(call, self.clock.realtime(call.start)))
    }

    /// Counts a call, and where it failed and that is not told of already, its failure.
    #[inline]
    fn count(&mut self, call: &Call, follows_fault: bool, is_told: bool, standing: Standing) {
        self.tally.chosen += 1;
        let number = self.number(call);
        let end = match call.outcome {
            Outcome::Pending if self.may_have_returned(call) => End::Unknown,
            Outcome::Pending => End::Pending,
            Outcome::Unwound => End::Unwound,
            Outcome::Returned(result) => {
                let took = || self.clock.between(call.start, call.end);
                End::Returned(result, self.keeps_durations.then(took))
            }
        };
        self.all.functions.count(number, self.index, end, call.injected, is_told);
        if let Some(callers) = &mut self.callers {
            callers.count(number, end, call.caller, call.start);
        }
        if let (Some(run), Outcome::Returned(result)) = (call.details.run, call.outcome) {
            let between = |ticks: u64| self.clock.between(call.start, call.start.saturating_add(ticks));
            let took = self.keeps_durations.then(|| (between(run.total), between(run.longest)));
            self.all.functions.repeat(number, self.index, result, run.calls, took, is_told);
            if let Some(callers) = &mut self.callers {
                callers.repeat(number, result, call.caller, run.calls, took);
            }
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

    pub fn finish(mut self) -> Tally {
        let latest = std::mem::take(&mut self.latest).finish();
        latest.iter().for_each(|runtime| self.count_runtime(runtime));
        self.follower.settle(&mut self.all.ledger, u64::MAX);
        self.memory.settle(u64::MAX);
        self.memory.state.keeper.book.settle(u64::MAX);
        let lacks_calls = self.lacks_calls();
        for call in self.pending.values().filter(|call| !lacks_calls || call.stopped_by().is_some()) {
            if let Some(function) = call.function.filter(|function| function.spec().binds().is_some()) {
                let site = Site::of(call, self.all.stacks.of(self.index, call), false);
                let at = self.clock.realtime(call.start);
                self.memory.never_returns(call, Waits { function, site, at });
            }
        }
        let mut pending: Vec<Call> = std::mem::take(&mut self.pending).into_values().collect();
        pending.sort_by_key(|call| (call.start, call.stream, call.seq));
        pending.iter().filter(|call| faults::is_touched(call)).for_each(|call| self.touched(call));
        let mut stops = pending.iter().filter_map(Call::stopped_by);
        self.tally.is_ended_on_purpose = stops.any(|hit| hit.has(did::SIGNAL | did::EXIT));
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
                self.tally.unknown_ends.push((number, call.tid));
            }
            chosen && !is_unknown
        });
        // What waits in a call of the driver is told of there.
        let is_told = |call: &Call| {
            let mut told = latest.iter().filter(|runtime| runtime.is_told).map(|runtime| &runtime.call);
            told.any(|told| (told.stream, told.seq) == (call.stream, call.seq))
        };
        pending.retain(|call| !is_told(call));
        if let Some(callers) = self.callers.take() {
            self.all.callers.add(self.index, self.process, callers);
        }
        self.tally.pending = pending.into_iter().map(|call| (self.number(&call), call)).collect();
        self.tally.unused = self.memory.unused();
        self.tally.uses.settle(&self.memory);
        let realtime = |ticks| self.clock.realtime(ticks);
        self.tally.last_call = self.last_call.map(|(number, tid, ticks)| (number, tid, realtime(ticks)));
        self.tally.last_stack = self.last_stack;
        self.tally.last_seen = (self.last_tick > 0).then(|| realtime(self.last_tick));
        self.all.virtual_memory.add(self.memory);
        self.tally
    }
}

/// The devices of a process, by their ordinals. Larger ordinals than any driver has are damage.
fn devices(process: &Process) -> Vec<Option<Uuid>> {
    const MOST: i32 = 1024;
    let ordinals = process.devices.iter().map(|device| device.ordinal).filter(|ordinal| *ordinal < MOST);
    let count = ordinals.max().map_or(0, |last| last + 1);
    (0..count).map(|ordinal| uuid_of(process, Some(ordinal))).collect()
}

/// The device of an ordinal, as a process numbers it.
fn uuid_of(process: &Process, ordinal: Option<i32>) -> Option<Uuid> {
    process.device(ordinal?).map(|device| Uuid(device.uuid))
}
