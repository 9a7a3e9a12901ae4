//! Reads which faults of a plan acted on a call from the items of its details.

use cupeer_spec::record::slot::hit::{self as spec, did};

/// Largest number of hits that are read per call.
pub(crate) const MOST: usize = 16;

/// Fault that fired at a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FiredFault {
    /// Effects of the fault.
    pub what: spec::FiredFault,
    /// Name of the fault.
    pub fault_name: String,
}

impl FiredFault {
    /// Reads the bytes of a [`cupeer_spec::record::slot::detail::HIT`].
    pub(crate) fn parse(bytes: &[u8]) -> Option<FiredFault> {
        let (what, rule) = spec::FiredFault::read(bytes)?;
        (!rule.is_empty()).then(|| FiredFault { what, fault_name: rule.to_owned() })
    }

    /// Returns true if the fault had one of these effects: bits of [`did`].
    pub fn has_effect(&self, what: u16) -> bool {
        self.what.did & what != 0
    }

    /// Returns the effects of the fault, in words.
    pub fn effect_words(&self) -> impl Iterator<Item = &'static str> {
        effect_words_of(self.what.did)
    }

    /// Returns true if the driver completed a call that failed for the program: the call was made, succeeded, and was
    /// not undone.
    pub fn is_completed_anyway(&self) -> bool {
        self.has_effect(did::ERROR)
            && !self.has_effect(did::NOT_CALLED | did::UNDONE | did::DRY)
            && self.what.driver_result == 0
    }
}

/// Returns effects in words, from bits of [`did`].
pub fn effect_words_of(did: u16) -> impl Iterator<Item = &'static str> {
    did::WORDS.into_iter().enumerate().filter(move |(bit, _)| did >> bit & 1 != 0).map(|(_, word)| word)
}
