//! Multicast objects.

use super::boundary::write_result;
use crate::engine::answer::{Answer, fail_if};
use crate::engine::vmm::{MemoryToBind, MulticastPart};
use crate::engine::{driver::Driver, process};
use cupeer_spec::abi::CUdevice;
use cupeer_spec::results::Result as Code;
use std::sync::MutexGuard;
use std::time::Duration;

/// Locks the driver once all devices joined a multicast object. As documented, it waits for devices that
/// other processes add. For the handle of another allocation, it does not wait.
pub(super) fn lock_when_devices_joined(handle: u64) -> Answer<MutexGuard<'static, Driver>> {
    loop {
        let driver = process::enter()?;
        if driver.has_all_devices(handle)? {
            return Ok(driver);
        }
        drop(driver);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn bind_memory(object: u64, part: MulticastPart, memory: MemoryToBind, flags: u64) -> Answer {
    fail_if(flags != 0, Code::INVALID_VALUE)?;
    lock_when_devices_joined(object)?.bind_multicast(object, part, memory)
}

/// Returns a part of a multicast object. If `device` is `None`, the bound memory determines the device.
fn multicast_part(device: Option<CUdevice>, at: usize, size: usize) -> MulticastPart {
    MulticastPart { device: device.map(|device| device.0), offset: at as u64, size: size as u64 }
}

forward! {
    cuMulticastCreate(mcHandle, prop) = write_result(mcHandle, |driver| driver.create_multicast(&prop.required()?));
    cuMulticastAddDevice(mcHandle, dev) = process::enter()?.join_multicast(mcHandle, dev.0);
    cuMulticastBindMem(mcHandle, mcOffset, memHandle, memOffset, size, flags) =
        bind_memory(mcHandle, multicast_part(None, mcOffset, size), MemoryToBind::Handle(memHandle, memOffset as u64), flags);
    cuMulticastBindMem_v2(mcHandle, dev, mcOffset, memHandle, memOffset, size, flags) =
        bind_memory(mcHandle, multicast_part(Some(dev), mcOffset, size), MemoryToBind::Handle(memHandle, memOffset as u64), flags);
    cuMulticastBindAddr(mcHandle, mcOffset, memptr, size, flags) =
        bind_memory(mcHandle, multicast_part(None, mcOffset, size), MemoryToBind::Address(memptr), flags);
    cuMulticastBindAddr_v2(mcHandle, dev, mcOffset, memptr, size, flags) =
        bind_memory(mcHandle, multicast_part(Some(dev), mcOffset, size), MemoryToBind::Address(memptr), flags);
    cuMulticastUnbind(mcHandle, dev, mcOffset, size) =
        process::enter()?.unbind_multicast(mcHandle, multicast_part(Some(dev), mcOffset, size));
}

entry! {
    /// The answer does not depend on the device: all devices have the same granularity, which is both the
    /// minimum and the recommended granularity.
    fn cuMulticastGetGranularity(granularity, prop, option) {
        process::check_can_enter()?;
        let out = granularity.required()?;
        prop.required()?;
        fail_if(option.name().is_none(), Code::INVALID_VALUE)?;
        out.put(crate::engine::descriptors::GRANULARITY);
        Ok(())
    }
}
