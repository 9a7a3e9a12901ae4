//! The findings of a test.

use crate::fact::{self, Fact};
use crate::plan::{Direction, DirectionCounts};
use crate::request::Device;

/// The findings of a test of all links.
pub struct Findings {
    /// The devices that the driver shows.
    pub(crate) devices: Vec<Device>,
    /// The directions between two devices, with their verdicts.
    pub(crate) pairs: Vec<Direction>,
    /// Facts about the system; empty if no link is bad.
    pub system: Vec<Fact>,
}

impl Findings {
    /// Returns the facts about the system that may explain a bad verdict on a direction.
    pub(crate) fn explaining_facts(&self, pair: &Direction) -> Vec<&Fact> {
        // The kernel writes addresses in lower case.
        let address = |device: usize| self.devices[device].pci.to_lowercase();
        let is_bad = pair.ways.iter().any(|tested| tested.verdict.is_bad());
        let mut facts = fact::facts_about_pair(&self.system, &address(pair.from), &address(pair.to));
        facts.retain(|fact| is_bad && matches!(fact.verdict, fact::Verdict::Bad | fact::Verdict::Unknown));
        facts
    }

    /// Returns true if a direction is bad, or if no direction was tested although the driver offers peer
    /// access.
    pub fn is_bad(&self) -> bool {
        let DirectionCounts { bad, good, untested } = DirectionCounts::count(&self.pairs);
        bad > 0 || good == 0 && untested > 0
    }
}
