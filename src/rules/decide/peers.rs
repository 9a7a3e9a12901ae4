//! Rules about access between contexts in failed calls.

use super::{Judge, Verdict, World};
use crate::Confidence;
use crate::reason::{Device, Reason};
use cupeer_spec::record::slot::finding::role;
use cupeer_spec::results::Result;

impl<W: World> Judge<'_, W> {
    /// Returns the index of the argument that names the peer.
    pub(super) fn peer_argument(&self) -> Option<usize> {
        let spec = self.call.function.spec();
        self.expect_in_table(spec.enables().or(spec.disables())).map(|access| access.by)
    }

    /// Returns the current context and the peer context.
    pub(super) fn current_and_peer_contexts(&self) -> (u64, u64) {
        let current = self.world.current_context().map_or(0, |(_, context)| context);
        (current, self.peer_argument().map_or(0, |peer| self.call.number_at(peer)))
    }

    /// Returns the devices of the current context and of the peer context.
    pub(super) fn current_and_peer_devices(&self) -> (Device, Device) {
        let peer = self.world.device_of_peer(self.current_and_peer_contexts().1);
        (self.device_with_uuid(self.world.current_device()), self.device_with_uuid(peer))
    }

    pub(super) fn same_device(&mut self) -> Option<Verdict> {
        if let Some((from, to)) = self.queried_devices() {
            let (device, other) = (self.call.number_at(from) as i32, self.call.number_at(to) as i32);
            let reason =
                Reason::PeerSameDevice { device: self.device_with_uuid(device), context: None, is_current: false };
            return self.report_if(device == other, to, reason);
        }
        let ((current, peer), own) = (self.current_and_peer_contexts(), self.world.current_device());
        let is_current = current != 0 && current == peer;
        // Only these results prove that the pointer is a context. Querying the device of any other pointer
        // may crash.
        let is_context = self.call.has_returned(Result::PEER_ACCESS_UNSUPPORTED)
            || self.call.has_returned(Result::PEER_ACCESS_NOT_ENABLED);
        if !is_current && !is_context {
            return None;
        }
        let is_same = is_current || own >= 0 && self.world.device_of_peer(peer) == own;
        let reason = Reason::PeerSameDevice { device: self.device_with_uuid(own), context: Some(peer), is_current };
        self.report_if(is_same, self.peer_argument(), reason)
    }

    pub(super) fn peer_flags(&mut self) -> Option<Verdict> {
        self.check_flags(|flags| Reason::PeerFlags { flags })
    }

    /// Checks for a peer context that is not a context, or was destroyed.
    pub(super) fn peer_context_invalid(&mut self) -> Option<Verdict> {
        let (_, context) = self.current_and_peer_contexts();
        // Querying an invalid context may crash. If one of the two contexts was destroyed and the current one
        // was not, the destroyed one is the peer.
        let is_living = || self.world.is_current_destroyed() == Some(false);
        let is_known = context == 0 || self.call.has_returned(Result::CONTEXT_IS_DESTROYED) && is_living();
        is_known.then(|| self.report_if(true, self.peer_argument(), Reason::PeerContextInvalid { context }))?
    }

    pub(super) fn already_enabled(&mut self) -> Option<Verdict> {
        let ((from, to), (context, peer)) = (self.current_and_peer_devices(), self.current_and_peer_contexts());
        let known = self.world.enabled_access(context, peer);
        let ago = known.and_then(|(ago, _)| ago);
        let object = known.map(|(_, object)| (role::ENABLING, object));
        let reason = Reason::PeerAlreadyEnabled { from, to, ago };
        self.report_violation(reason, Confidence::Certain, self.peer_argument(), object.as_slice())
    }

    pub(super) fn not_enabled(&mut self) -> Option<Verdict> {
        let ((from, to), (context, peer)) = (self.current_and_peer_devices(), self.current_and_peer_contexts());
        let reverse = self.world.enabled_access(peer, context).is_some();
        self.report_if(true, self.peer_argument(), Reason::PeerNotEnabled { from, to, reverse })
    }

    pub(super) fn unreachable(&mut self) -> Option<Verdict> {
        let (from, to) = self.current_and_peer_devices();
        let reason = Reason::PeerUnreachable { from, to };
        match self.world.can_access(from.ordinal, to.ordinal) {
            Some(can) => self.report_if(!can, self.peer_argument(), reason),
            // The documentation of the result says so, but the result may have another cause.
            None if from.ordinal >= 0 && to.ordinal >= 0 => {
                self.report_violation(reason, Confidence::Inferred, self.peer_argument(), &[])
            }
            None => None,
        }
    }

    /// Checks for a device that already has its largest number of peers. The world knows which processes use
    /// them.
    pub(super) fn peer_limit(&mut self) -> Option<Verdict> {
        let device = self.device_with_uuid(self.world.current_device());
        let peers = self.world.peers(&device);
        let reason = Reason::PeerLimit { device, known: peers.known, processes: peers.processes };
        let confidence = Confidence::certain_if(peers.is_certain);
        let first = peers.first.map(|object| (role::ENABLING, object));
        self.report_violation(reason, confidence, None, first.as_slice())
    }
}
