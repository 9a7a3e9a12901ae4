//! The part of one process in a multicast object: the devices that it added, the memory that it bound, and the call that
//! waits.

use crate::follow::ledger::Site;
use cupeer_report::model::Uuid;
use cupeer_spec::function::FnId;

/// What one process has done with a multicast object.
#[derive(Default)]
pub struct TeamHistory {
    /// How many devices it was made for, where this process made it.
    pub wanted: Option<u32>,
    /// The devices that this process has added, and when.
    pub added: Vec<(Option<Uuid>, u64)>,
    /// The memory that it has bound and not unbound.
    pub bound: Vec<Bound>,
    /// How often it bound memory, and unbound it.
    pub binds: u64,
    pub unbinds: u64,
    /// The call that binds memory and has not returned.
    pub waits: Option<Waits>,
}

/// A call that waits for devices.
#[derive(Clone, Copy)]
pub struct Waits {
    pub function: FnId,
    pub site: Site,
    pub at: u64,
}

/// Memory that is bound to a multicast object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    pub device: Option<Uuid>,
    /// Where in the object.
    pub at: u64,
    pub bytes: u64,
}

impl TeamHistory {
    pub(super) fn binds(&mut self, bound: Bound) {
        self.binds += 1;
        self.bound.push(bound);
    }

    /// Unbinds what a device has bound at a place; where it is not known for which device that was, what is there.
    pub(super) fn unbinds(&mut self, device: Option<Uuid>, at: u64) {
        self.unbinds += 1;
        let is_it = |bound: &Bound| bound.at == at && (bound.device == device || bound.device.is_none());
        if let Some(index) = self.bound.iter().position(is_it) {
            self.bound.swap_remove(index);
        }
    }
}
