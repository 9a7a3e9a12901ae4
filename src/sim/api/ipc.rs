//! Memory and events of other processes. As recorded, pointers and flags are checked first, even before `cuInit`.

use super::memory::lock_when_memory_done;
use crate::engine::answer::{fail_if, invalid_if};
use crate::engine::process;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

/// CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS. As recorded, other bits are ignored.
const LAZY_ENABLE: u32 = 1;

entry! {
    fn cuIpcGetMemHandle(pHandle, dptr) {
        let out = pHandle.or_refuse("pHandle cannot be NULL")?;
        invalid_if(dptr == 0, "devPtr cannot be NULL")?;
        out.put(CUipcMemHandle { reserved: process::enter()?.export_memory(dptr)? });
        Ok(())
    }

    fn cuIpcOpenMemHandle | cuIpcOpenMemHandle_v2(pdptr, handle, Flags) {
        invalid_if(
            Flags.0 & LAZY_ENABLE == 0, "cuIpcOpenMemHandle must be called with Flags CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS set",
        )?;
        let out = pdptr.or_refuse("pdptr cannot be NULL")?;
        out.put(process::enter()?.import_memory(&handle.reserved)?);
        Ok(())
    }

    fn cuIpcCloseMemHandle(dptr) {
        lock_when_memory_done(dptr)?.close_import(dptr)
    }

    fn cuIpcGetEventHandle(pHandle, event) {
        let out = pHandle.required()?;
        fail_if(event == 0, Code::INVALID_VALUE)?;
        out.put(CUipcEventHandle { reserved: process::enter()?.export_event(event)? });
        Ok(())
    }

    fn cuIpcOpenEventHandle(phEvent, handle) {
        let out = phEvent.required()?;
        out.put(process::enter()?.import_event(&handle.reserved)?);
        Ok(())
    }
}
