//! Functions that no driver has: `src/spec/functions/more.rs`. They behave as the functions of which they are copies.

use crate::engine::process;
use cupeer_spec::abi::*;

entry! {
    fn cuCupeerExport(_flags, address, shared) {
        shared.required()?.put(CUipcMemHandle { reserved: process::enter()?.export_memory(address)? });
        Ok(())
    }

    fn cuCupeerOpen(shared, _flags, address) {
        address.required()?.put(process::enter()?.import_memory(&shared.reserved)?);
        Ok(())
    }
}
