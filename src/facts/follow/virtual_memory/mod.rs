//! The table of virtual memory: the allocations of each process, their mappings, and the devices that may access them.
//!
//! [`space`] has the memory of one process, [`calls`] builds it from calls, [`join`] joins imports with their
//! allocations, [`team`] tracks a multicast object in one process and [`teams`] across processes, and [`rows`] builds
//! the rows with the words of [`flags`]. [`super::ledger`] tracks the handles of allocations, as of all shared objects.
//!
//! The memory is proportional to what processes have at one time, and to the number of allocations that were exported
//! or imported.

mod calls;
mod flags;
mod join;
mod rows;
mod space;
mod team;
mod teams;
#[cfg(test)]
mod tests;

use crate::follow::ledger::Realm;
pub use calls::{concerns, location_of};
use cupeer_report::model::{Uuid, Where};
pub use flags::{access, handle_types};
pub use join::{Imported, Origin, Until};
pub use rows::order;
pub use space::{Space, Sum};
pub use team::Waits;
pub use teams::Waiting;

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
