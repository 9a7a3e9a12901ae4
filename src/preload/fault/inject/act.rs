//! What happens to a call at which a rule fires, or of which a pair of devices is denied.

use super::arming::{LoadedRule, Using};
use super::counts::{self, Firing, Whose};
use super::facts::{self, Facts};
use super::{Forward, excuses, handles, shared, told};
use crate::fault::deny;
use crate::log;
use crate::resolve::driver;
use crate::sys::aside::with_room;
use crate::sys::clock;
use crate::sys::environment;
use crate::sys::files::errno;
use crate::sys::guard::{Cancelling, with_cancellation_restored};
use crate::sys::program_memory;
use core::cell::Cell;
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use cupeer_spec::fault::{Delay, Error, Out, OutValue, Per, Stage, purpose};
use cupeer_spec::function::{ArgSpec, Direction, FnId, Group};
use cupeer_spec::record::slot::hit::{Hit, did};

/// The most rules that act at one call.
const MOST: usize = 8;

/// No bits of [`did`].
const NEVER: u16 = u16::MAX;

/// A rule that fired.
#[derive(Clone, Copy)]
pub struct Fired {
    /// The rule.
    pub rule: &'static LoadedRule,
    /// That it did.
    firing: Firing<'static>,
    /// What it did: [`did`].
    pub did: u16,
    /// What it waited, in nanoseconds.
    pub waited: u64,
}

/// What becomes of one call.
pub struct Fault<'a> {
    call: &'a Forward<'a>,
    fired: [Option<Fired>; MOST],
    /// Which pair, or the limit, denies it.
    denied: Option<usize>,
    /// Whether one may, once it is made.
    may_be_denied: bool,
    /// The number of the process in the job.
    process: u16,
    /// The call stack.
    stack: u64,
    rank: u32,
    /// The result in place of the call.
    instead: Option<i32>,
    /// What the real call returned, where it was made.
    driver_result: Option<i32>,
    /// Whether the program sees another result or output than the driver's.
    is_altered: bool,
    /// Whether it gets a failure in place of the driver's success.
    has_other_result: bool,
    /// Whether an output is not the driver's.
    has_other_output: bool,
    /// Whether what the real call did was undone.
    is_undone: bool,
    /// What stood where the outputs go, for a call that may be undone.
    outputs: [Option<u64>; 2],
    /// What the record was told that the denial and the rules did; [`NEVER`] where it was not.
    told: Cell<[u16; 1 + MOST]>,
    /// Keeps the plans.
    _using: Using,
}

impl<'a> Fault<'a> {
    /// Finds out what becomes of a call. `None` where nothing does.
    pub fn of(call: &'a Forward<'a>) -> Option<Fault<'a>> {
        let using = Using::now()?;
        facts::prepare(&using);
        handles::given(call);
        let facts = Facts::of(call);
        let rank = environment::rank();
        let mut fired = [None; MOST];
        let mut count = 0;
        for member in using.index(call.id).map_or(&[][..], |index| &index.rules) {
            if count == MOST || !member.plan.is_armed() || !facts.meet(member.plan, member.rule) {
                continue;
            }
            let context = if member.rule.rule.per == Per::Ctx { facts.context() } else { 0 };
            let whose = Whose { id: call.id, rank, context };
            if let Some(firing) = counts::fires(member.plan, member.rule, &whose) {
                let did = if member.plan.is_dry { did::DRY } else { 0 };
                fired[count] = Some(Fired { rule: member.rule, firing, did, waited: 0 });
                count += 1;
            }
        }
        let may_be_denied = deny::concerns(call.id);
        let denied = if may_be_denied { deny::before(call) } else { None };
        let is_remembered = using.plans.iter().any(|plan| plan.follows || plan.keeps_handles);
        if count == 0 && !may_be_denied && !is_remembered {
            return None;
        }
        let stack = if count > 0 || denied.is_some() { facts.stack() } else { 0 };
        let mut fault = Fault {
            call,
            fired,
            denied: denied.map(|denied| denied.which),
            may_be_denied,
            process: facts::process_number().min(u64::from(u16::MAX)) as u16,
            stack,
            rank,
            instead: denied.map(|denied| denied.result),
            driver_result: None,
            is_altered: false,
            has_other_result: false,
            has_other_output: false,
            is_undone: false,
            outputs: [None; 2],
            told: Cell::new([NEVER; 1 + MOST]),
            _using: using,
        };
        fault.decide();
        Some(fault)
    }

    /// Which of the results stands in place of the call: that of a denied pair, or of the first rule that has one.
    fn decide(&mut self) {
        let Some((fired, error)) = self.first_error() else { return };
        if self.denied.is_none() && fired.rule.rule.action.stage == Stage::Instead {
            self.instead = Some(self.code(&fired, error));
        }
    }

    /// The first rule that has a result.
    fn first_error(&self) -> Option<(Fired, Error)> {
        let acting = self.acting().filter_map(|fired| Some((*fired, fired.rule.rule.action.error?)));
        acting.into_iter().next()
    }

    /// A rule that fired and is not only tried.
    fn acting_at(&self, index: usize) -> Option<Fired> {
        self.fired[index].filter(|fired| fired.did & did::DRY == 0)
    }

    /// All of these.
    fn acting(&self) -> impl Iterator<Item = &Fired> {
        self.fired.iter().flatten().filter(|fired| fired.did & did::DRY == 0)
    }

    fn thrown(&self, fired: &Fired, purpose: u64) -> u64 {
        fired.rule.rule.thrown(self.rank, self.call.id.spec().name, fired.firing.count, purpose)
    }

    /// The number of a rule's result.
    fn code(&self, fired: &Fired, error: Error) -> i32 {
        match error {
            Error::Code(code) => code,
            Error::Any => {
                let codes = || self.call.id.spec().documented().filter(|code| *code != 0);
                let count = codes().count().max(1);
                let chosen = self.thrown(fired, purpose::ANY) as usize % count;
                codes().nth(chosen).unwrap_or(999)
            }
        }
    }

    /// Whether anything fired, or was denied so far.
    pub fn is_hit(&self) -> bool {
        self.denied.is_some() || self.fired[0].is_some()
    }

    /// The result in place of the call.
    pub fn instead(&self) -> Option<i32> {
        self.instead
    }

    /// What happens before the call. `tell` puts what was done into the record, for where it may not come back.
    pub fn before(&mut self, cancelling: Cancelling, tell: &dyn Fn(&Fault)) {
        let needs_outputs = self.acting().any(|fired| fired.rule.rule.action.stage == Stage::Undo);
        if needs_outputs && self.call.id.spec().undone_by().is_some() {
            self.save_outputs();
        }
        let is_lasting = |fired: &Fired| {
            let action = &fired.rule.rule.action;
            action.hang.is_some() || action.signal.is_some() || action.exit.is_some()
        };
        for index in 0..MOST {
            let Some(mut fired) = self.acting_at(index) else { continue };
            let action = &fired.rule.rule.action;
            if let Some(delay) = action.delay {
                fired.waited += self.wait(&fired, delay, purpose::JITTER, cancelling);
                fired.did |= did::DELAY;
            }
            let acts = [
                (action.hang.is_some(), did::HANG),
                (action.signal.is_some(), did::SIGNAL),
                (action.exit.is_some(), did::EXIT),
            ];
            fired.did |= acts.into_iter().filter(|(acts, _)| *acts).fold(0, |all, (_, bit)| all | bit);
            self.fired[index] = Some(fired);
        }
        if !self.acting().any(is_lasting) {
            return;
        }
        // It may not come back to say so. What it will return is known where the call is not made.
        self.note_error();
        with_room(&mut || tell(self));
        for index in 0..MOST {
            let Some(fired) = self.acting_at(index) else { continue };
            let (action, name) = (&fired.rule.rule.action, &fired.rule.rule.name);
            let function = self.call.id.spec().name;
            if let Some(label) = &action.hang {
                log::acts(format_args!("{name}: {function} hangs until '{label}' is released"));
                hang(fired.rule, label, cancelling);
            }
            if let Some(code) = action.exit {
                log::acts(format_args!("{name}: {function} ends the process with status {code}"));
                // SAFETY: ends the process, as the rule demands.
                unsafe { libc::_exit(code) };
            }
            if let Some(signal) = action.signal {
                log::acts(format_args!("{name}: {function} gets signal {signal}"));
                // SAFETY: sends this thread a signal, as the rule demands.
                with_cancellation_restored(cancelling, || unsafe {
                    let tid = libc::syscall(libc::SYS_gettid);
                    libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal);
                });
            }
        }
    }

    /// Marks the rule whose result the program gets.
    fn note_error(&mut self) {
        if self.denied.is_none() && self.instead.is_some() {
            self.mark_error(did::ERROR | did::NOT_CALLED);
        }
    }

    fn mark_error(&mut self, bits: u16) {
        let is_first =
            |fired: &&mut Fired| fired.did & did::DRY == 0 && fired.rule.rule.action.error.is_some();
        if let Some(fired) = self.fired.iter_mut().flatten().find(is_first) {
            fired.did |= bits;
        }
    }

    fn wait(&self, fired: &Fired, delay: Delay, purpose: u64, cancelling: Cancelling) -> u64 {
        let mut time = delay.time;
        if delay.jitter > 0 {
            let thrown = self.thrown(fired, purpose) % (2 * delay.jitter + 1);
            time = (time + thrown).saturating_sub(delay.jitter);
        }
        sleep(time, cancelling);
        time
    }

    /// What happens after the call, which has returned `result`, or was not made. Gives what the program gets.
    pub fn after(&mut self, cancelling: Cancelling, result: i32) -> i32 {
        let mut given = result;
        if self.instead.is_some() {
            self.is_altered = true;
            self.note_error();
            if self.denied.is_none() {
                excuses::failed(self.call.id, self.instead.unwrap_or(0), false);
            }
        } else {
            self.driver_result = Some(result);
            if result == 0 {
                with_room(&mut || given = self.after_success());
            }
        }
        for index in 0..MOST {
            let Some(mut fired) = self.acting_at(index) else { continue };
            if let Some(delay) = fired.rule.rule.action.delay_after {
                fired.waited += self.wait(&fired, delay, purpose::JITTER_AFTER, cancelling);
                fired.did |= did::DELAY_AFTER;
                self.fired[index] = Some(fired);
            }
            if fired.did == 0 {
                fired.firing.take_back();
            }
        }
        if given == 0 {
            with_room(&mut || handles::made(self.call));
        }
        // SAFETY: the block is this thread's alone.
        unsafe { (*crate::sys::arch::thread()).result = 1 << 32 | u64::from(given as u32) };
        given
    }

    /// The real call has succeeded.
    fn after_success(&mut self) -> i32 {
        if self.may_be_denied
            && let Some(which) = deny::after(self.call)
        {
            self.denied = Some(which);
            (self.is_altered, self.has_other_output) = (true, true);
        }
        if let Some((fired, error)) = self.first_error() {
            let code = self.code(&fired, error);
            (self.is_altered, self.has_other_result) = (true, true);
            let mut bits = did::ERROR;
            if fired.rule.rule.action.stage == Stage::Undo && self.undo() {
                self.is_undone = true;
                bits |= did::UNDONE;
            }
            self.mark_error(bits);
            excuses::failed(self.call.id, code, !self.is_undone);
            return code;
        }
        for index in 0..MOST {
            let Some(mut fired) = self.acting_at(index) else { continue };
            for out in &fired.rule.rule.action.outs {
                if self.put(out) {
                    fired.did |= did::OUT;
                    self.is_altered = true;
                    self.has_other_output = true;
                }
            }
            self.fired[index] = Some(fired);
        }
        0
    }

    /// An output, where it goes, and how many bytes of it there are: see [`Out`].
    fn place(&self, argument: &str) -> Option<(&'static ArgSpec, usize, usize)> {
        let function = self.call.id.spec();
        let (index, arg) = function.argument(argument)?;
        let address = *self.call.words.get(index)? as usize;
        let count = match arg.count {
            Some(count) => *self.call.words.get(function.argument(count)?.0)? as usize,
            None => 1,
        };
        let is_output = matches!(arg.direction, Direction::Out | Direction::InOut) && address != 0;
        is_output.then_some((arg, address, arg.output_size() * count))
    }

    /// Puts a value into an output. Says whether there was one.
    fn put(&self, out: &Out) -> bool {
        let Some((arg, address, size)) = self.place(out.argument) else { return false };
        let (step, is_handle) = (arg.output_size(), arg.is_handle());
        // SAFETY: after success the driver has written so many bytes there.
        let bytes = unsafe { core::slice::from_raw_parts_mut(address as *mut u8, size) };
        match out.value {
            OutValue::Zero => bytes.fill(0),
            OutValue::Number(number) => {
                let number = number.to_le_bytes();
                for element in bytes.chunks_mut(step.max(1)) {
                    let length = element.len().min(number.len());
                    element[..length].copy_from_slice(&number[..length]);
                }
            }
            OutValue::Flip(at) => match bytes.get_mut(usize::from(at)) {
                Some(byte) => *byte = !*byte,
                None => return false,
            },
            OutValue::Other => match handles::other(arg, bytes) {
                Some(other) => bytes.copy_from_slice(&other),
                None => return false,
            },
        }
        if is_handle {
            if !matches!(out.value, OutValue::Other) {
                // SAFETY: a handle's 64 bytes lie there.
                shared::add_damaged(unsafe { facts::fingerprint_at(address as u64) });
            }
        } else {
            let mut word = [0; 8];
            let length = bytes.len().min(8);
            word[..length].copy_from_slice(&bytes[..length]);
            excuses::gave(self.call.id, u64::from_le_bytes(word));
        }
        true
    }

    /// Reads what stands where the outputs go. The program may have passed anything.
    fn save_outputs(&mut self) {
        let args = self.call.id.spec().args.iter().enumerate();
        let outputs = args.filter(|(_, arg)| matches!(arg.direction, Direction::Out));
        for (place, (index, arg)) in self.outputs.iter_mut().zip(outputs) {
            let mut word = [0; 8];
            let address = self.call.words.get(index).copied().unwrap_or(0) as usize;
            let size = arg.output_size().min(8);
            if address != 0 && program_memory::copy(address, &mut word[..size]) == size {
                *place = Some(u64::from_le_bytes(word));
            }
        }
    }

    fn restore_outputs(&self) {
        let args = self.call.id.spec().args.iter().enumerate();
        let outputs = args.filter(|(_, arg)| matches!(arg.direction, Direction::Out));
        for (saved, (index, arg)) in self.outputs.iter().zip(outputs) {
            let address = self.call.words.get(index).copied().unwrap_or(0);
            if let Some(saved) = saved {
                let size = arg.output_size().min(8);
                // SAFETY: the driver has just written so many bytes there.
                unsafe {
                    core::ptr::copy_nonoverlapping(saved.to_le_bytes().as_ptr(), address as *mut u8, size)
                };
            }
        }
    }

    /// Undoes what the real call did. Says whether that worked.
    fn undo(&self) -> bool {
        let function = self.call.id.spec();
        let Some((inverse, index)) = function.undone_by() else { return false };
        let arg = &function.args[index];
        let word = self.call.words.get(index).copied().unwrap_or(0);
        let value = if matches!(arg.direction, Direction::In) {
            word
        } else if word == 0 {
            return false;
        } else {
            // SAFETY: after success the driver has written there; it is not null.
            unsafe { (word as *const u64).read_unaligned() }
        };
        if !call_driver(inverse, value) {
            return false;
        }
        self.restore_outputs();
        true
    }

    /// Whether the program sees another result or output than the driver's.
    pub fn is_altered(&self) -> bool {
        self.is_altered
    }

    /// What the call did to what is open, as a result: the driver's, unless it was undone, or the program was not told what
    /// was opened or exported: it cannot answer for that. A call that gives something back and was made to fail counts as
    /// one that did: the program has done its part.
    pub fn effect(&self) -> i32 {
        let function = self.call.id.spec();
        let gives = function.opens().or(function.exports()).is_some();
        match self.driver_result {
            Some(0) if self.is_undone || gives && self.has_other_result => -1,
            Some(result) => result,
            None if function.is_in(Group::Release) && self.denied.is_none() => 0,
            None => -1,
        }
    }

    /// What the driver may be asked about the call: its result, where it was made.
    pub fn asked(&self) -> i32 {
        if self.is_undone { -1 } else { self.driver_result.unwrap_or(-1) }
    }

    /// Whether the live table can take the call's outputs for what is open.
    pub fn has_other_output(&self) -> bool {
        self.has_other_output
    }

    /// Goes through what was done: the hit and the name of the rule.
    pub fn each_hit(&self, mut found: impl FnMut(&Hit, &str)) {
        self.each(|_, hit, name| found(hit, name));
    }

    /// The same for what the record was not told. That of a call that hangs is told before, and again where more came of
    /// it.
    pub fn each_news(&self, mut found: impl FnMut(&Hit, &str)) {
        self.each(|place, hit, name| {
            let mut told = self.told.get();
            if told[place] != hit.did {
                told[place] = hit.did;
                self.told.set(told);
                found(hit, name);
            }
        });
    }

    /// The number is 0 for what was denied, and that of the rule, from 1.
    fn each(&self, mut found: impl FnMut(usize, &Hit, &str)) {
        let common = Hit {
            process: self.process,
            driver_result: self.driver_result.unwrap_or(0),
            stack: self.stack,
            ..Hit::default()
        };
        if let Some(which) = self.denied {
            // An attempt is refused in its place; an answer is changed after the call.
            let what = if self.instead.is_some() { did::ERROR | did::NOT_CALLED } else { did::OUT };
            let hit = Hit { did: did::DENIED | what, count: 1, ..common };
            found(0, &hit, shared::deny_name(which).text());
        }
        for (fired, place) in self.fired.iter().flatten().zip(1..) {
            let hit = Hit { did: fired.did, count: fired.firing.count, waited: fired.waited, ..common };
            found(place, &hit, &fired.rule.rule.name);
        }
    }

    /// Counts what was denied. Once for a call.
    pub fn count_denied(&self) {
        if let Some(which) = self.denied {
            shared::denied(which);
        }
    }

    /// What they did, in a word as strace has it.
    pub fn deed(&self) -> &'static str {
        let did = self.acting().fold(0, |did, fired| did | fired.did);
        if self.is_altered {
            "INJECTED by"
        } else if did & (did::DELAY | did::DELAY_AFTER | did::HANG) != 0 {
            "DELAYED by"
        } else if did & did::SIGNAL != 0 {
            "SIGNALLED by"
        } else if self.acting().next().is_some() {
            // What the driver refuses has no outputs to change, and no success to replace.
            "let pass by"
        } else {
            "would be hit by"
        }
    }

    /// The names of the rules that acted, separated by commas.
    pub fn names(&self) -> told::Names<'_> {
        told::Names(self)
    }
}

/// Calls the driver's function that undoes something.
fn call_driver(id: FnId, value: u64) -> bool {
    let address = driver::real(id);
    if address == 0 {
        return false;
    }
    // SAFETY: the functions that undo something take one word and return a result: a test walks the table.
    let function = unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(u64) -> i32>(address) };
    // SAFETY: gives back what the driver has just handed out, which nobody has seen.
    unsafe { function(value) == 0 }
}

/// Waits, whatever signals come.
fn sleep(nanoseconds: u64, cancelling: Cancelling) {
    const SECOND: u64 = 1_000_000_000;
    let until = clock::now().saturating_add(nanoseconds);
    let time = libc::timespec {
        tv_sec: (until / SECOND) as libc::time_t,
        tv_nsec: (until % SECOND) as libc::c_long,
    };
    if nanoseconds > 0 {
        // By the system call itself: a cancellation would end libc's function.
        // SAFETY: the time is readable, and what is left of it is not asked for.
        with_cancellation_restored(cancelling, || unsafe {
            let (call, clock) = (libc::SYS_clock_nanosleep, libc::CLOCK_MONOTONIC);
            while libc::syscall(call, clock, libc::TIMER_ABSTIME, &time, 0usize) == -1
                && errno() == libc::EINTR
            {}
        });
    }
}

/// Waits until a label is released, by this process or from outside.
fn hang(rule: &LoadedRule, label: &str, cancelling: Cancelling) {
    /// How often it looks, in nanoseconds.
    const LOOK: u64 = 10_000_000;
    let gate = shared::Gate::of(label);
    rule.hanging.fetch_add(1, Relaxed);
    while !rule.is_released.load(Acquire) && !gate.as_ref().is_some_and(|gate| gate.is_open()) {
        sleep(LOOK, cancelling);
    }
    rule.hanging.fetch_sub(1, Relaxed);
}
