//! Reports the faults that acted on a call to the log, to the record, and to the code that tracks open objects.

use super::{CallFaults, shared};
use core::fmt;
use cupeer_spec::function::Group;
use cupeer_spec::record::slot::hit::{FiredFault, did};

/// The names of the faults that acted, separated by commas.
impl fmt::Display for CallFaults<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let mut separator = "";
        let mut result = Ok(());
        self.each(|_, _, name| {
            if result.is_ok() {
                result = write!(f, "{separator}{name}");
            }
            separator = ",";
        });
        result
    }
}

impl CallFaults<'_> {
    /// Returns the result that decides which objects are open after the call: the driver's. A call that was undone counts as
    /// failed; so does a call that opened or exported an object, if the program got a failure. A call that releases an object and
    /// was made to fail counts as a success: the program did its part.
    pub fn result_for_ledger(&self) -> i32 {
        let function = self.call.id.spec();
        let gives = function.opens().or(function.exports()).is_some();
        match self.driver_result {
            Some(0) if self.is_undone || gives && self.has_other_result => -1,
            Some(result) => result,
            None if function.is_in(Group::Release) && self.denied.is_none() => 0,
            None => -1,
        }
    }

    /// Returns the result that decides which driver queries are allowed after the call: the driver's result; -1 if the call was
    /// undone, or was not forwarded.
    pub fn result_for_queries(&self) -> i32 {
        if self.is_undone { -1 } else { self.driver_result.unwrap_or(-1) }
    }

    /// Hands over the hits (effects of faults and of the denial) that are not in the record yet, each with the name of its fault.
    /// The hit of a call that hangs is recorded before the call hangs, and again if the fault did more.
    pub fn each_unrecorded(&self, mut found: impl FnMut(&FiredFault, &str)) {
        self.each(|place, hit, name| {
            let mut recorded = self.recorded.get();
            if recorded[place] != hit.did {
                recorded[place] = hit.did;
                self.recorded.set(recorded);
                found(hit, name);
            }
        });
    }

    /// Hands over all hits. The first argument of `found` is 0 for the denial, and starts at 1 for the faults.
    fn each(&self, mut found: impl FnMut(usize, &FiredFault, &str)) {
        let common = FiredFault {
            process: self.process,
            driver_result: self.driver_result.unwrap_or(0),
            stack: self.stack,
            ..FiredFault::default()
        };
        if let Some(which) = self.denied {
            // A denied attempt is refused and not forwarded; a denied query is forwarded, and its answer is changed.
            let effect = if self.instead.is_some() { did::ERROR | did::NOT_CALLED } else { did::OUT };
            let hit = FiredFault { did: did::DENIED | effect, count: 1, ..common };
            found(0, &hit, shared::deny_name(which).text());
        }
        for (fired, place) in self.fired.iter().flatten().zip(1..) {
            let hit = FiredFault { did: fired.did, count: fired.firing.count, waited: fired.waited, ..common };
            found(place, &hit, &fired.rule.spec.name);
        }
    }

    /// Counts the denial of the call, if it was denied. For use once per call.
    pub fn count_denied(&self) {
        if let Some(which) = self.denied {
            shared::count_denied_call(which);
        }
    }

    /// Returns a word for the effect on the call, as strace does.
    pub fn verb(&self) -> &'static str {
        let did = self.acting_faults().fold(0, |did, fired| did | fired.did);
        if self.is_altered {
            "INJECTED by"
        } else if did & (did::DELAY | did::DELAY_AFTER | did::HANG) != 0 {
            "DELAYED by"
        } else if did & did::SIGNAL != 0 {
            "SIGNALLED by"
        } else if self.acting_faults().next().is_some() {
            // A call that the driver refuses has no outputs to change, and no success to replace.
            "let pass by"
        } else {
            "would be hit by"
        }
    }
}
