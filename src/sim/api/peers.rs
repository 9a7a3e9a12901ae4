//! Peer access.

use super::boundary::write_result;
use crate::engine::answer::invalid_if;
use crate::engine::peers::check_operations;
use crate::engine::process;

forward! {
    cuDeviceCanAccessPeer(canAccessPeer, dev, peerDev) =
        write_result(canAccessPeer, |driver| driver.can_access_peer(dev.0, peerDev.0).map(i32::from));
    cuDeviceGetP2PAttribute(value, attrib, srcDevice, dstDevice) =
        write_result(value, |driver| driver.p2p_attribute(attrib.0, srcDevice.0, dstDevice.0));
    cuCtxEnablePeerAccess(peerContext, Flags) = process::enter()?.enable_peer(peerContext, Flags);
    cuCtxDisablePeerAccess(peerContext) = process::enter()?.disable_peer(peerContext);
}

entry! {
    /// As recorded, the capabilities are zeroed before the operations are checked.
    fn cuDeviceGetP2PAtomicCapabilities(capabilities, operations, count, srcDevice, dstDevice) {
        let driver = process::enter()?;
        invalid_if(count == 0, "count is 0")?;
        let out = capabilities.or_refuse("capabilities pointer is NULL.")?;
        invalid_if(operations.is_null(), "operations pointer is NULL")?;
        let operations = operations.elements(count as usize)?;
        let known = driver.atomic_capabilities(&operations, srcDevice.0, dstDevice.0)?;
        known.into_iter().enumerate().for_each(|(i, capability)| out.put_at(i, capability));
        check_operations(&operations)
    }
}
