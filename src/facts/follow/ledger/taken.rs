//! A handle that a call exported or opened, before its place in the handle table.

use super::{CallSite, CurrentContext, OpenPeriod};
use cupeer_report::model::Uuid;
use cupeer_spec::effect::Object;

/// An exported or opened handle that is not in the handle table yet, because its call had not returned.
pub struct WaitingHandle {
    pub call: CallSite,
    /// True if a fault plan invented the address.
    pub is_injected: bool,
    pub kind: Object,
    pub handle: (u64, u64),
    pub address: u64,
    pub exported: bool,
    pub bytes: Option<u64>,
    /// The duration of the call in nanoseconds.
    pub took: u64,
    /// The context and the device of the object.
    pub current: CurrentContext,
    pub is_sure: bool,
    pub uuid: Option<Uuid>,
    /// The offset of an exported pointer in its allocation, in bytes.
    pub inside: u64,
}

impl WaitingHandle {
    /// Returns a new time that begins with this open, with `count` opens.
    pub fn new_period(&self, count: u64) -> OpenPeriod {
        OpenPeriod {
            opened: self.call.at,
            ended: None,
            close_prevented_since: self.is_injected.then_some(self.call.at),
            function: self.call.function,
            site: self.call.site,
            times: count,
            last: self.call.at,
            count,
            closes: (0, 0),
            device: self.uuid,
            address: self.address,
            current: self.current,
            opens_elsewhere: Vec::new(),
        }
    }
}
