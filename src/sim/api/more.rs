//! Functions that no driver has: `src/spec/functions/more.rs`. They answer as those that they are copies of.

use crate::engine::process;
use cupeer_spec::abi::*;

entry! {
    fn cuCupeerExport(_flags: u32, address: CUdeviceptr, shared: *mut CUipcMemHandle) {
        shared.required()?.put(CUipcMemHandle { reserved: process::enter()?.export_memory(address)? });
        Ok(())
    }

    fn cuCupeerOpen(shared: CUipcMemHandle, _flags: u32, address: *mut CUdeviceptr) {
        address.required()?.put(process::enter()?.import_memory(&shared.reserved)?);
        Ok(())
    }
}
