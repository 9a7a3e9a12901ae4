//! Peer access between devices and contexts.

use super::answer::{Answer, fail, fail_if, invalid, refuse};
use super::driver::Driver;
use cupeer_spec::abi::CUatomicOperation;
use cupeer_spec::results::Result as Code;
use std::collections::BTreeSet;

/// The highest `CUatomicOperation` that the driver accepts; cuda.h documents only those below it.
const LAST_OPERATION: i32 = 12;

/// Fails if one of the operations for `cuDeviceGetP2PAtomicCapabilities` is unknown.
pub(crate) fn check_operations(operations: &[CUatomicOperation]) -> Answer {
    match operations.iter().enumerate().find(|(_, op)| !(0..=LAST_OPERATION).contains(&op.0)) {
        Some((index, operation)) => {
            let text = format!("Invalid CUatomicOperation {} queried at index {index}!", operation.0);
            invalid(text)
        }
        None => Ok(()),
    }
}

impl Driver {
    /// `cuDeviceCanAccessPeer`. The answer is false for a device and itself.
    pub(crate) fn can_access_peer(&self, from: i32, to: i32) -> Answer<bool> {
        let from = self.check_named_ordinal("dev", from)?;
        let to = self.check_named_ordinal("peerDev", to)?;
        Ok(self.link(from, to).is_some_and(|link| link.can_access))
    }

    fn check_pair(&self, from: i32, to: i32) -> Answer<(usize, usize)> {
        let from = self.check_named_ordinal("srcDevice", from)?;
        let to = self.check_named_ordinal("dstDevice", to)?;
        if from == to {
            return refuse(Code::INVALID_DEVICE, format!("Same source and destination device: {from}"));
        }
        Ok((from, to))
    }

    /// `cuDeviceGetP2PAttribute`.
    pub(crate) fn p2p_attribute(&self, attribute: i32, from: i32, to: i32) -> Answer<i32> {
        let (from, to) = self.check_pair(from, to)?;
        let link = self.link(from, to).ok_or(Code::INVALID_DEVICE)?;
        Ok(match attribute {
            1 => link.performance_rank,
            2 => link.can_access.into(),
            3 => link.native_atomics.into(),
            4 => link.array_access.into(),
            5 => link.partial_atomics.into(),
            _ => return fail(Code::INVALID_VALUE),
        })
    }

    /// `cuDeviceGetP2PAtomicCapabilities`, after the check of its operations. As recorded, the answer is 0
    /// for every operation, even on links with native atomics, unless the topology says otherwise.
    pub(crate) fn atomic_capabilities(&self, operations: &[CUatomicOperation], from: i32, to: i32) -> Answer<Vec<u32>> {
        let (from, to) = self.check_pair(from, to)?;
        let known = self.link(from, to).ok_or(Code::INVALID_DEVICE)?.atomic_capabilities;
        let of = |operation: &CUatomicOperation| known.get(operation.0 as usize).copied().unwrap_or_default();
        Ok(operations.iter().map(of).collect())
    }

    /// `cuCtxEnablePeerAccess`.
    pub(crate) fn enable_peer(&mut self, peer: u64, flags: u32) -> Answer {
        let current = self.current_context_handle()?;
        fail_if(peer == 0, Code::INVALID_CONTEXT)?;
        fail_if(flags != 0, Code::INVALID_VALUE)?;
        let (from, to) = (self.context(current)?.device, self.context(peer)?.device);
        fail_if(!self.link(from, to).is_some_and(|link| link.can_access), Code::PEER_ACCESS_UNSUPPORTED)?;
        fail_if(self.context(current)?.peers.contains(&peer), Code::PEER_ACCESS_ALREADY_ENABLED)?;
        self.check_peer_room(from, self.visible[to])?;
        self.context_mut(current)?.peers.insert(peer);
        Ok(())
    }

    /// Fails if `device` already has the most peers that it can have, and `other` is not among them. A peer
    /// is a device to which a context of `device` enabled access, or whose memory it opened, in this process.
    pub(crate) fn check_peer_room(&self, device: usize, other: usize) -> Answer {
        let Some(most) = self.machine.most_peers else { return Ok(()) };
        let peers = self.peers_of(device);
        if peers.len() < most || peers.contains(&other) { Ok(()) } else { fail(Code::TOO_MANY_PEERS) }
    }

    /// Returns the peers of a device, by their indices in the machine.
    fn peers_of(&self, device: usize) -> BTreeSet<usize> {
        let enabled = self.contexts.of_device(device).flat_map(|context| &context.peers);
        let enabled = enabled.filter_map(|peer| self.context(*peer).ok()).map(|peer| self.visible[peer.device]);
        let here = self.visible[device];
        enabled.chain(self.memory.devices_of_imports(device)).filter(|home| *home != here).collect()
    }

    /// `cuCtxDisablePeerAccess`.
    pub(crate) fn disable_peer(&mut self, peer: u64) -> Answer {
        let current = self.current_context_handle()?;
        self.context(peer)?;
        if self.context_mut(current)?.peers.remove(&peer) { Ok(()) } else { fail(Code::PEER_ACCESS_NOT_ENABLED) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_topology::Topology;

    /// A context of each device of a machine, the first of which is current.
    fn contexts(machine: &str) -> (Driver, Vec<u64>) {
        let machine = Topology::parse(machine).unwrap();
        let count = machine.devices.len();
        let mut driver = Driver::new(machine, (0..count).collect());
        let contexts = (0..count).rev().map(|device| driver.create_context(device, 0).unwrap());
        let mut contexts: Vec<u64> = contexts.collect();
        contexts.reverse();
        (driver, contexts)
    }

    #[test]
    fn a_ninth_peer_has_no_room_until_another_has_gone() {
        let (mut driver, contexts) = contexts("pcie:10");
        for peer in &contexts[1..9] {
            driver.enable_peer(*peer, 0).unwrap();
        }
        assert_eq!(driver.enable_peer(contexts[9], 0), fail(Code::TOO_MANY_PEERS));
        assert_eq!(driver.enable_peer(contexts[8], 0), fail(Code::PEER_ACCESS_ALREADY_ENABLED));
        driver.disable_peer(contexts[3]).unwrap();
        driver.enable_peer(contexts[9], 0).unwrap();
        assert_eq!(driver.enable_peer(contexts[3], 0), fail(Code::TOO_MANY_PEERS));
        driver.destroy_context(contexts[5]).unwrap();
        driver.enable_peer(contexts[3], 0).unwrap();
    }

    #[test]
    fn another_context_of_a_peer_and_a_switch_need_no_room() {
        let (mut driver, contexts) = contexts("pcie:10");
        for peer in &contexts[1..9] {
            driver.enable_peer(*peer, 0).unwrap();
        }
        let second = driver.create_context(8, 0).unwrap();
        super::super::stack::pop_context();
        driver.enable_peer(second, 0).unwrap();
        let (mut driver, contexts) = self::contexts("nvlink:12");
        for peer in &contexts[1..] {
            driver.enable_peer(*peer, 0).unwrap();
        }
    }

    #[test]
    fn without_a_link_there_is_no_access() {
        let mut driver = Driver::new(Topology::parse("none:2").unwrap(), vec![0, 1]);
        let a = driver.create_context(0, 0).unwrap();
        driver.create_context(1, 0).unwrap();
        assert_eq!(driver.can_access_peer(0, 1), Ok(false));
        assert_eq!(driver.p2p_attribute(2, 0, 1), Ok(0));
        assert_eq!(driver.enable_peer(a, 0), fail(Code::PEER_ACCESS_UNSUPPORTED));
    }
}
