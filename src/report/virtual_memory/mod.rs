//! The ledger of virtual memory: which allocations processes have, where they have mapped them, and which devices have
//! access.
//!
//! What belongs here: what one process has, in [`space`], as its calls say, in [`follow`]; whose allocations imports are,
//! and what they keep alive, in [`join`]; multicast objects, in [`teams`]; and how that is reported, in [`rows`]. What became of each handle is in
//! [`super::ledger`], for allocations as for all that is shared.
//!
//! It needs memory for what processes have at one time, and for each allocation that was exported or imported.

mod follow;
mod join;
mod rows;
mod space;
mod teams;
#[cfg(test)]
mod tests;

use super::ledger::Realm;
use super::model::{Uuid, Where};
pub use follow::concerns;
pub use rows::order;
pub use space::{Reach, Space};
pub use teams::{Waiting, Waits};

/// What all processes have, in the order of the job.
#[derive(Default)]
pub struct VirtualMemory {
    spaces: Vec<Space>,
}

impl VirtualMemory {
    /// Adds what the next process has, all of whose calls were read.
    pub fn add(&mut self, space: Space) {
        self.spaces.push(space);
    }
}

/// Where physical memory lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Debug)]
pub enum Location {
    /// On a device, where its UUID is known.
    Device(Uuid),
    /// In the memory of the host.
    Host,
    /// Nowhere: it is a multicast object.
    Multicast,
    /// The record does not say.
    #[default]
    Unknown,
}

impl Location {
    /// The device.
    pub fn device(self) -> Option<Uuid> {
        match self {
            Location::Device(uuid) => Some(uuid),
            Location::Host | Location::Multicast | Location::Unknown => None,
        }
    }

    /// As rows of the report have it.
    pub fn place(self) -> (Where, Option<Uuid>) {
        let place = match self {
            Location::Device(_) => Where::Device,
            Location::Host => Where::Host,
            Location::Multicast => Where::Multicast,
            Location::Unknown => Where::Unknown,
        };
        (place, self.device())
    }
}
