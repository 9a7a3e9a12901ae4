//! Peer access.

use super::boundary::get;
use crate::engine::answer::refuse;
use crate::engine::peers::check_operations;
use crate::engine::process;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

entry! {
    fn cuDeviceCanAccessPeer(canAccessPeer: *mut i32, dev: CUdevice, peerDev: CUdevice) {
        get(canAccessPeer, |driver| driver.can_access_peer(dev.0, peerDev.0).map(i32::from))
    }

    fn cuDeviceGetP2PAttribute(
        value: *mut i32,
        attrib: CUdevice_P2PAttribute,
        srcDevice: CUdevice,
        dstDevice: CUdevice,
    ) {
        get(value, |driver| driver.p2p_attribute(attrib.0, srcDevice.0, dstDevice.0))
    }

    /// The capabilities are zeroed before the operations are looked at, as recorded.
    fn cuDeviceGetP2PAtomicCapabilities(
        capabilities: *mut u32,
        operations: *const CUatomicOperation,
        count: u32,
        srcDevice: CUdevice,
        dstDevice: CUdevice,
    ) {
        let driver = process::enter()?;
        if count == 0 {
            return refuse(Code::INVALID_VALUE, "count is 0");
        }
        let out = capabilities.or_say("capabilities pointer is NULL.")?;
        if operations.is_null() {
            return refuse(Code::INVALID_VALUE, "operations pointer is NULL");
        }
        let operations = operations.elements(count as usize)?;
        let known = driver.atomic_capabilities(&operations, srcDevice.0, dstDevice.0)?;
        known.into_iter().enumerate().for_each(|(i, capability)| out.put_at(i, capability));
        check_operations(&operations)
    }

    fn cuCtxEnablePeerAccess(peerContext: CUcontext, Flags: u32) {
        process::enter()?.enable_peer(peerContext, Flags)
    }

    fn cuCtxDisablePeerAccess(peerContext: CUcontext) {
        process::enter()?.disable_peer(peerContext)
    }
}
