//! A handle that a call exported, or a mapping that it opened.

use super::{CallSite, Current, Time};
use cupeer_report::model::Uuid;
use cupeer_spec::effect::Object;

/// An exported handle, or an opened mapping, before it is in the handle table.
pub struct Taken {
    pub call: CallSite,
    /// True if a fault plan invented the address.
    pub is_injected: bool,
    pub kind: Object,
    pub handle: (u64, u64),
    pub address: u64,
    pub exported: bool,
    pub bytes: Option<u64>,
    /// The duration of the call.
    pub took: u64,
    /// The context and the device that it belongs to.
    pub current: Current,
    pub is_sure: bool,
    pub uuid: Option<Uuid>,
    /// The offset of an exported pointer in its allocation.
    pub inside: u64,
}

impl Taken {
    /// The time that begins with it, in which it is open so often.
    pub fn time(&self, count: u64) -> Time {
        Time {
            opened: self.call.at,
            ended: None,
            kept: self.is_injected.then_some(self.call.at),
            function: self.call.function,
            site: self.call.site,
            times: count,
            last: self.call.at,
            count,
            closes: (0, 0),
            device: self.uuid,
            address: self.address,
            current: self.current,
            again: Vec::new(),
        }
    }
}
