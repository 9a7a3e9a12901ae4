//! Reads which faults of a plan acted on a call from the items of its details.

use cupeer_spec::record::slot::hit::{self as spec, did};

/// The most hits of a call.
pub(crate) const MOST: usize = 16;

/// A rule that fired at a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hit {
    /// What it did.
    pub what: spec::Hit,
    /// The name of the rule.
    pub rule: String,
}

impl Hit {
    /// Reads the bytes of a [`cupeer_spec::record::slot::detail::HIT`].
    pub(crate) fn read(bytes: &[u8]) -> Option<Hit> {
        let (what, rule) = spec::Hit::read(bytes)?;
        (!rule.is_empty()).then(|| Hit { what, rule: rule.to_owned() })
    }

    /// Whether it did one of these: bits of [`did`].
    pub fn has(&self, what: u16) -> bool {
        self.what.did & what != 0
    }

    /// What it did, in words.
    pub fn words(&self) -> impl Iterator<Item = &'static str> {
        deeds(self.what.did)
    }

    /// Whether the driver did what the program was told had failed: the call was made, succeeded, and was not undone.
    pub fn is_done_all_the_same(&self) -> bool {
        self.has(did::ERROR)
            && !self.has(did::NOT_CALLED | did::UNDONE | did::DRY)
            && self.what.driver_result == 0
    }
}

/// What a rule did, in words: bits of [`did`].
pub fn deeds(did: u16) -> impl Iterator<Item = &'static str> {
    did::WORDS.into_iter().enumerate().filter(move |(bit, _)| did >> bit & 1 != 0).map(|(_, word)| word)
}
