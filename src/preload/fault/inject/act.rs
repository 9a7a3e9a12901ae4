//! Applies the actions of faults to a call: waits, signals, and exits before it, results and outputs after it.

use super::decide::{Fault, Fired, MOST};
use super::{excuses, handles, live, shared};
use crate::fault::deny;
use crate::log;
use crate::sys::aside::with_room;
use crate::sys::clock;
use crate::sys::errno::errno;
use crate::sys::guard::{Cancelling, with_cancellation_restored};
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use cupeer_spec::fault::{Delay, Stage, purpose};
use cupeer_spec::function::Direction;
use cupeer_spec::record::slot::hit::did;

impl Fault<'_> {
    /// What happens before the call. `tell` puts what was done into the record, for where it may not come back.
    pub fn before(&mut self, cancelling: Cancelling, tell: &dyn Fn(&Fault)) {
        let needs_outputs = self.acting().any(|fired| fired.rule.rule.action.stage == Stage::Undo);
        if needs_outputs && self.call.id.spec().undone_by().is_some() {
            self.save_outputs();
        }
        let mut is_lasting = false;
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
            for (_, bit) in acts.into_iter().filter(|(acts, _)| *acts) {
                fired.did |= bit;
                is_lasting = true;
            }
            self.fired[index] = Some(fired);
        }
        if !is_lasting {
            return;
        }
        // It may not come back to say so. What it will return is known where the call is not made.
        if self.denied.is_none() && self.instead.is_some() {
            self.mark_error(did::ERROR | did::NOT_CALLED);
        }
        with_room(&mut || tell(self));
        for index in 0..MOST {
            let Some(fired) = self.acting_at(index) else { continue };
            let (action, name) = (&fired.rule.rule.action, &fired.rule.rule.name);
            let function = self.call.id.spec().name();
            if let Some(label) = &action.hang {
                log::acts(format_args!("{name}: {function} hangs until '{label}' is released"));
                hang(&fired, label, cancelling);
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
        if let Some(instead) = self.instead {
            self.is_altered = true;
            if self.denied.is_none() {
                self.mark_error(did::ERROR | did::NOT_CALLED);
                excuses::failed(self.call.id, instead, false);
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
            with_room(&mut || handles::remember(self.call, Direction::Out));
        }
        // SAFETY: only this thread and its signal handlers use the block.
        unsafe { (*crate::sys::arch::thread()).result = 1 << 32 | u64::from(given as u32) };
        given
    }

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

/// Waits until a label is released, by this process or from outside, or the plan is disarmed.
fn hang(Fired { plan, rule, .. }: &Fired, label: &str, cancelling: Cancelling) {
    /// How often it looks, in nanoseconds.
    const LOOK: u64 = 10_000_000;
    let gate = shared::Gate::of(label);
    rule.hanging.fetch_add(1, Relaxed);
    let is_held = || plan.is_armed() && !rule.is_released.load(Acquire);
    while is_held() && !gate.as_ref().is_some_and(|gate| gate.is_open()) {
        sleep(LOOK, cancelling);
        // Whoever arms and disarms plans need not wait for the next call.
        live::look();
    }
    // What released it may be a change of the plans that came after the last look.
    live::look();
    rule.hanging.fetch_sub(1, Relaxed);
}
