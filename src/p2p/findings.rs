//! All that was found.

use crate::fact::{self, Fact};
use crate::plan::{Count, Direction};
use crate::request::Device;

/// All that was found.
pub struct Findings {
    /// The devices.
    pub(crate) devices: Vec<Device>,
    /// What was found of each pair.
    pub(crate) pairs: Vec<Direction>,
    /// What the machine below says, where something is bad.
    pub system: Vec<Fact>,
}

impl Findings {
    /// What the system says that may explain what is bad between two devices.
    pub(crate) fn explains(&self, pair: &Direction) -> Vec<&Fact> {
        // As the kernel writes it.
        let address = |device: usize| self.devices[device].pci.to_lowercase();
        let is_bad = pair.ways.iter().any(|tested| tested.verdict.is_bad());
        let mut facts = fact::of_pair(&self.system, &address(pair.from), &address(pair.to));
        facts.retain(|fact| is_bad && matches!(fact.verdict, fact::Verdict::Bad | fact::Verdict::Unknown));
        facts
    }

    /// Whether something is bad, or all that could have been tested was not.
    pub fn is_bad(&self) -> bool {
        let Count { bad, good, untested } = Count::of(&self.pairs);
        bad > 0 || good == 0 && untested > 0
    }
}
