//! Memory and events of other processes. Pointers and flags are checked before anything else, also before
//! `cuInit`, as recorded.

use super::memory::settled;
use crate::engine::answer::{fail, refuse};
use crate::engine::process;
use cupeer_spec::abi::*;
use cupeer_spec::results::Result as Code;

/// CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS: other bits are not looked at, as recorded.
const LAZY_ENABLE: u32 = 1;

entry! {
    fn cuIpcGetMemHandle(pHandle: *mut CUipcMemHandle, dptr: CUdeviceptr) {
        let out = pHandle.or_say("pHandle cannot be NULL")?;
        if dptr == 0 {
            return refuse(Code::INVALID_VALUE, "devPtr cannot be NULL");
        }
        out.put(CUipcMemHandle { reserved: process::enter()?.export_memory(dptr)? });
        Ok(())
    }

    fn cuIpcOpenMemHandle | cuIpcOpenMemHandle_v2(
        pdptr: *mut CUdeviceptr,
        handle: CUipcMemHandle,
        Flags: IpcMemFlags,
    ) {
        if Flags.0 & LAZY_ENABLE == 0 {
            let text = "cuIpcOpenMemHandle must be called with Flags CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS set";
            return refuse(Code::INVALID_VALUE, text);
        }
        let out = pdptr.or_say("pdptr cannot be NULL")?;
        out.put(process::enter()?.import_memory(&handle.reserved)?);
        Ok(())
    }

    fn cuIpcCloseMemHandle(dptr: CUdeviceptr) {
        settled(dptr)?.close_import(dptr)
    }

    fn cuIpcGetEventHandle(pHandle: *mut CUipcEventHandle, event: CUevent) {
        let out = pHandle.required()?;
        if event == 0 {
            return fail(Code::INVALID_VALUE);
        }
        out.put(CUipcEventHandle { reserved: process::enter()?.export_event(event)? });
        Ok(())
    }

    fn cuIpcOpenEventHandle(phEvent: *mut CUevent, handle: CUipcEventHandle) {
        let out = phEvent.required()?;
        out.put(process::enter()?.import_event(&handle.reserved)?);
        Ok(())
    }
}
