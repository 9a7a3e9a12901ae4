//! Reads which faults of a plan acted on a call from the items of its details.

use cupeer_spec::record::slot::hit::{self as spec, did};

/// Largest number of hits that are read per call.
pub(crate) const MOST: usize = 16;

/// Fault that fired at a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hit {
    /// Effects of the fault.
    pub what: spec::Hit,
    /// Name of the fault.
    pub rule: String,
}

impl Hit {
    /// Reads the bytes of a [`cupeer_spec::record::slot::detail::HIT`].
    pub(crate) fn read(bytes: &[u8]) -> Option<Hit> {
        let (what, rule) = spec::Hit::read(bytes)?;
        (!rule.is_empty()).then(|| Hit { what, rule: rule.to_owned() })
    }

    /// Returns true if the fault had one of these effects: bits of [`did`].
    pub fn has(&self, what: u16) -> bool {
        self.what.did & what != 0
    }

    /// Returns the effects of the fault, in words.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        deeds(self.what.did)
    }

    /// Returns true if the driver completed a call that failed for the program: the call was made, succeeded, and was
    /// not undone.
    pub fn is_done_all_the_same(&self) -> bool {
        self.has(did::ERROR)
            && !self.has(did::NOT_CALLED | did::UNDONE | did::DRY)
            && self.what.driver_result == 0
    }
}

/// Returns effects in words, from bits of [`did`].
pub fn deeds(did: u16) -> impl Iterator<Item = &'static str> {
    did::WORDS.into_iter().enumerate().filter(move |(bit, _)| did >> bit & 1 != 0).map(|(_, word)| word)
}
