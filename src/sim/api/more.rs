//! Functions that no real driver has, from `src/spec/functions/more.rs`. Each behaves like the real function
//! of which it is a copy.

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
