//! Reports the faults that acted on a call to the log, to the record, and to the code that tracks open objects.

use super::{Fault, shared};
use core::fmt;
use cupeer_spec::function::Group;
use cupeer_spec::record::slot::hit::{Hit, did};

/// The names of the rules that acted, separated by commas.
impl fmt::Display for Fault<'_> {
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

impl Fault<'_> {
    /// What the call did to what is open, as a result: the driver's, unless it was undone, or the program was not told what
    /// was opened or exported: it cannot answer for that. A call that gives something back and was made to fail counts as
    /// one that did: the program has done its part.
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

    /// What the driver may be asked about the call: its result, where it was made.
    pub fn result_for_driver(&self) -> i32 {
        if self.is_undone { -1 } else { self.driver_result.unwrap_or(-1) }
    }

    /// Goes through what was done that the record was not told: the hit and the name of the rule. That of a call that hangs
    /// is told before, and again where more came of it.
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
}
