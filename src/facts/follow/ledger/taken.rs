//! A handle that a call exported, or a mapping that it opened.

use super::{Current, Site, Time};
use cupeer_report::model::Uuid;
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;

/// It, before the ledger has it.
pub struct Taken {
    pub function: FnId,
    pub site: Site,
    /// Whether the address is not the driver's.
    pub is_injected: bool,
    pub kind: Object,
    pub handle: (u64, u64),
    pub address: u64,
    pub exported: bool,
    pub bytes: Option<u64>,
    pub at: u64,
    /// The duration of the call.
    pub took: u64,
    pub context: Option<u64>,
    pub device: Option<i32>,
    pub is_sure: bool,
    pub uuid: Option<Uuid>,
    /// Of what is exported: how far inside of the allocation the pointer lay.
    pub inside: u64,
}

impl Taken {
    /// The time that begins with it, in which it is open so often.
    pub fn time(&self, count: u64) -> Time {
        Time {
            opened: self.at,
            ended: None,
            kept: self.is_injected.then_some(self.at),
            function: self.function,
            site: self.site,
            times: count,
            last: self.at,
            count,
            closes: (0, 0),
            device: self.uuid,
            address: self.address,
            current: Current { context: self.context, device: self.device },
            again: Vec::new(),
        }
    }
}
