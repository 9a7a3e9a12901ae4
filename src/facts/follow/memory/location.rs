//! The location of physical memory.

use cupeer_model::alloc_props::AllocProps;
use cupeer_record::Call;
use cupeer_report::model::{Uuid, Where};

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

    /// The location that properties ask for.
    pub fn of(device: Option<i32>, uuid: impl Fn(Option<i32>) -> Option<Uuid>) -> Location {
        let on_device = |_| uuid(device).map_or(Location::Unknown, Location::Device);
        device.map_or(Location::Host, on_device)
    }

    /// The location that a call which creates an allocation asks for. `None` if the call has no properties of one.
    pub fn wanted_by(call: &Call, uuid: impl Fn(Option<i32>) -> Option<Uuid>) -> Option<Location> {
        let wanted = AllocProps::of(call.argument(call.function?.spec().describes()?)?)?;
        Some(Location::of(wanted.device, uuid))
    }
}
