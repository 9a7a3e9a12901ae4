//! Multicast objects.

use crate::engine::answer::{Answer, fail};
use crate::engine::vmm::{Memory, Part};
use crate::engine::{driver::Driver, process};
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;
use std::sync::MutexGuard;
use std::time::Duration;

/// The driver, once all devices have been added to a multicast object, by whatever process: it waits for that, as
/// documented. Of another allocation, at once.
pub(super) fn gathered(handle: u64) -> Answer<MutexGuard<'static, Driver>> {
    loop {
        let driver = process::enter()?;
        if driver.is_gathered(handle)? {
            return Ok(driver);
        }
        drop(driver);
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn bind(team: u64, part: Part, memory: Memory, flags: u64) -> Answer {
    if flags != 0 {
        return fail(Code::INVALID_VALUE);
    }
    gathered(team)?.bind(team, part, memory)
}

entry! {
    /// It asks no device: all have one granularity, and both are the same.
    fn cuMulticastGetGranularity(
        granularity: *mut usize,
        prop: *const CUmulticastObjectProp,
        option: CUmulticastGranularity_flags,
    ) {
        process::check()?;
        let out = granularity.required()?;
        prop.required()?;
        if option.name().is_none() {
            return fail(Code::INVALID_VALUE);
        }
        out.put(crate::engine::tickets::GRANULARITY);
        Ok(())
    }

    fn cuMulticastCreate(mcHandle: *mut CUmemGenericAllocationHandle, prop: *const CUmulticastObjectProp) {
        let mut driver = process::enter()?;
        let out = mcHandle.required()?;
        out.put(driver.create_team(&prop.required()?)?);
        Ok(())
    }

    fn cuMulticastAddDevice(mcHandle: CUmemGenericAllocationHandle, dev: CUdevice) {
        process::enter()?.join_team(mcHandle, dev.0)
    }

    fn cuMulticastBindMem(
        mcHandle: CUmemGenericAllocationHandle,
        mcOffset: usize,
        memHandle: CUmemGenericAllocationHandle,
        memOffset: usize,
        size: usize,
        flags: u64,
    ) {
        let part = Part { device: None, at: mcOffset as u64, size: size as u64 };
        bind(mcHandle, part, Memory::Handle(memHandle, memOffset as u64), flags)
    }

    fn cuMulticastBindMem_v2(
        mcHandle: CUmemGenericAllocationHandle,
        dev: CUdevice,
        mcOffset: usize,
        memHandle: CUmemGenericAllocationHandle,
        memOffset: usize,
        size: usize,
        flags: u64,
    ) {
        let part = Part { device: Some(dev.0), at: mcOffset as u64, size: size as u64 };
        bind(mcHandle, part, Memory::Handle(memHandle, memOffset as u64), flags)
    }

    fn cuMulticastBindAddr(
        mcHandle: CUmemGenericAllocationHandle,
        mcOffset: usize,
        memptr: CUdeviceptr,
        size: usize,
        flags: u64,
    ) {
        let part = Part { device: None, at: mcOffset as u64, size: size as u64 };
        bind(mcHandle, part, Memory::Address(memptr), flags)
    }

    fn cuMulticastBindAddr_v2(
        mcHandle: CUmemGenericAllocationHandle,
        dev: CUdevice,
        mcOffset: usize,
        memptr: CUdeviceptr,
        size: usize,
        flags: u64,
    ) {
        let part = Part { device: Some(dev.0), at: mcOffset as u64, size: size as u64 };
        bind(mcHandle, part, Memory::Address(memptr), flags)
    }

    fn cuMulticastUnbind(mcHandle: CUmemGenericAllocationHandle, dev: CUdevice, mcOffset: usize, size: usize) {
        let part = Part { device: Some(dev.0), at: mcOffset as u64, size: size as u64 };
        process::enter()?.unbind(mcHandle, part)
    }
}
