//! Applies the actions of faults to a call: waits, signals, and exits before it, results and outputs after it.

use super::decide::{CallFaults, FiredFault};
use super::{excuses, handles, live, outputs, shared};
use crate::fault::deny;
use crate::log;
use crate::sys::aside::run_with_enough_stack;
use crate::sys::clock;
use crate::sys::errno::errno;
use crate::sys::guard::{CancellationState, with_cancellation_restored};
use core::sync::atomic::Ordering::{Acquire, Relaxed};
use cupeer_spec::fault::{FaultDelay, RealCallTreatment, purpose};
use cupeer_spec::function::{Direction, FnId};
use cupeer_spec::record::slot::hit::did;

impl CallFaults<'_> {
    /// Applies the actions of faults before the call. `tell` puts the actions into the record, because the call may not return.
    pub fn apply_before_call(&mut self, cancelling: CancellationState, tell: &dyn Fn(&CallFaults)) {
        let needs_outputs = self.acting_faults().any(|fired| fired.rule.spec.action.stage == RealCallTreatment::Undo);
        if needs_outputs && self.call.id.spec().undone_by().is_some() {
            self.save_outputs();
        }
        let (id, rank) = (self.call.id, self.rank);
        let mut may_not_return = false;
        for fired in self.acting_mut() {
            let action = &fired.rule.spec.action;
            if let Some(delay) = action.delay {
                fired.wait(id, rank, delay, purpose::JITTER, cancelling);
                fired.did |= did::DELAY;
            }
            let acts = [
                (action.hang.is_some(), did::HANG),
                (action.signal.is_some(), did::SIGNAL),
                (action.exit.is_some(), did::EXIT),
            ];
            for (_, bit) in acts.into_iter().filter(|(acts, _)| *acts) {
                fired.did |= bit;
                may_not_return = true;
            }
        }
        if !may_not_return {
            return;
        }
        // The result of a call that is not forwarded is known already.
        if self.denied.is_none() && self.instead.is_some() {
            self.add_effects_of_error(did::ERROR | did::NOT_CALLED);
        }
        run_with_enough_stack(&mut || tell(self));
        for fired in self.acting_faults() {
            let (action, name) = (&fired.rule.spec.action, &fired.rule.spec.name);
            let function = id.spec().name();
            if let Some(label) = &action.hang {
                log::log_fault(format_args!("{name}: {function} hangs until '{label}' is released"));
                hang(fired, label, cancelling);
            }
            if let Some(code) = action.exit {
                log::log_fault(format_args!("{name}: {function} ends the process with status {code}"));
                // SAFETY: ends the process, as the fault demands.
                unsafe { libc::_exit(code) };
            }
            if let Some(signal) = action.signal {
                log::log_fault(format_args!("{name}: {function} gets signal {signal}"));
                // SAFETY: sends this thread a signal, as the fault demands.
                with_cancellation_restored(cancelling, || unsafe {
                    let tid = libc::syscall(libc::SYS_gettid);
                    libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal);
                });
            }
        }
    }

    fn acting_mut(&mut self) -> impl Iterator<Item = &mut FiredFault> {
        self.fired.iter_mut().flatten().filter(|fired| fired.is_acting())
    }

    /// Marks the fault whose result the program gets with `bits` of its effects.
    fn add_effects_of_error(&mut self, bits: u16) {
        if let Some(fired) = self.acting_mut().find(|fired| fired.rule.spec.action.error.is_some()) {
            fired.did |= bits;
        }
    }

    /// Applies the actions of faults after the call, which returned `result`, or was not forwarded. Returns the result that the
    /// program gets.
    pub fn apply_after_call(&mut self, cancelling: CancellationState, result: i32) -> i32 {
        let mut given = result;
        if let Some(instead) = self.instead {
            self.is_altered = true;
            if self.denied.is_none() {
                self.add_effects_of_error(did::ERROR | did::NOT_CALLED);
                excuses::note_failure(self.call.id, instead, false);
            }
        } else {
            self.driver_result = Some(result);
            if result == 0 {
                run_with_enough_stack(&mut || given = self.after_success());
            }
        }
        let (id, rank) = (self.call.id, self.rank);
        for fired in self.acting_mut() {
            if let Some(delay) = fired.rule.spec.action.delay_after {
                fired.wait(id, rank, delay, purpose::JITTER_AFTER, cancelling);
                fired.did |= did::DELAY_AFTER;
            }
            if fired.did == 0 {
                fired.firing.take_back();
            }
        }
        if given == 0 {
            run_with_enough_stack(&mut || handles::remember(self.call, Direction::Out));
        }
        // SAFETY: only this thread and its signal handlers use the block.
        unsafe { (*crate::sys::arch::thread()).result = 1 << 32 | u64::from(given as u32) };
        given
    }

    fn after_success(&mut self) -> i32 {
        if self.may_be_denied
            && let Some(which) = deny::change_outputs_after_call(self.call)
        {
            self.denied = Some(which);
            (self.is_altered, self.has_other_output) = (true, true);
        }
        if let Some((fired, error)) = self.first_error() {
            let code = self.code(&fired, error);
            (self.is_altered, self.has_other_result) = (true, true);
            let mut bits = did::ERROR;
            if fired.rule.spec.action.stage == RealCallTreatment::Undo && self.undo() {
                self.is_undone = true;
                bits |= did::UNDONE;
            }
            self.add_effects_of_error(bits);
            excuses::note_failure(self.call.id, code, !self.is_undone);
            return code;
        }
        let (call, mut is_changed) = (self.call, false);
        for fired in self.acting_mut() {
            for out in &fired.rule.spec.action.outs {
                if outputs::write_output(call, out) {
                    fired.did |= did::OUT;
                    is_changed = true;
                }
            }
        }
        self.is_altered |= is_changed;
        self.has_other_output |= is_changed;
        0
    }
}

impl FiredFault {
    /// Delays the call, and adds the delay to `waited`, in nanoseconds.
    fn wait(&mut self, id: FnId, rank: u32, delay: FaultDelay, purpose: u64, cancelling: CancellationState) {
        let mut time = delay.time;
        if delay.jitter > 0 {
            let random = self.random(id, rank, purpose) % (2 * delay.jitter + 1);
            time = (time + random).saturating_sub(delay.jitter);
        }
        sleep(time, cancelling);
        self.waited += time;
    }
}

/// Sleeps for a time; signals do not end the sleep.
fn sleep(nanoseconds: u64, cancelling: CancellationState) {
    const SECOND: u64 = 1_000_000_000;
    let until = clock::now().saturating_add(nanoseconds);
    let time = libc::timespec { tv_sec: (until / SECOND) as libc::time_t, tv_nsec: (until % SECOND) as libc::c_long };
    if nanoseconds > 0 {
        // The system call itself, because a cancellation would end libc's function.
        // SAFETY: the time is readable, and the kernel writes no remaining time.
        with_cancellation_restored(cancelling, || unsafe {
            let (call, clock) = (libc::SYS_clock_nanosleep, libc::CLOCK_MONOTONIC);
            while libc::syscall(call, clock, libc::TIMER_ABSTIME, &time, 0usize) == -1 && errno() == libc::EINTR {}
        });
    }
}

/// Waits until a label is released, by this process or from outside, or until the plan is disarmed.
fn hang(FiredFault { plan, rule, .. }: &FiredFault, label: &str, cancelling: CancellationState) {
    /// Interval of polling, in nanoseconds.
    const INTERVAL: u64 = 10_000_000;
    let gate = shared::ReleaseFile::new(label);
    rule.hanging.fetch_add(1, Relaxed);
    let is_held = || plan.is_armed() && !rule.is_released.load(Acquire);
    while is_held() && !gate.as_ref().is_some_and(|gate| gate.exists()) {
        sleep(INTERVAL, cancelling);
        // A plan that is armed or disarmed meanwhile takes effect without waiting for the next call.
        live::poll();
    }
    // The release may be a change of the plans after the last poll.
    live::poll();
    rule.hanging.fetch_sub(1, Relaxed);
}
