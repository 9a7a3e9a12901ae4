//! Initialization, versions, result codes, look-up, and functions that concern no object.

use super::boundary::OutPointer;
use super::exports;
use crate::abi::CUuuid;
use crate::engine::answer::{Answer, fail, fail_if};
use crate::engine::{lookup, names, process};
use core::ffi::{c_char, c_void};
use core::mem::offset_of;
use cupeer_spec::abi::*;
use cupeer_spec::env;
use cupeer_spec::results::Result as Code;
use cupeer_spec::status::{MAGIC, Status};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

/// The implementation of all functions that the simulated driver does not support.
pub(crate) unsafe extern "C" fn unsupported() -> CUresult {
    CUresult(Code::NOT_SUPPORTED as i32)
}

/// The table of functions that libcudart 11, 12, and 13 ask for first. Tools and tests ask for other tables, and continue
/// without them.
const RUNTIME_TABLE: [u8; 16] =
    [0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9];

/// Notes for the launcher, if there is one, that the CUDA runtime asked for a table of functions without
/// names. Without that table, the runtime does not continue.
fn report_nameless_request() {
    let at = |field: usize| field as u64;
    let told = || {
        let page = OpenOptions::new().read(true).write(true).open(std::env::var_os(env::STATUS)?).ok()?;
        let mut magic = [0; 4];
        page.read_exact_at(&mut magic, at(offset_of!(Status, magic))).ok()?;
        let is_page = u32::from_ne_bytes(magic) == MAGIC;
        is_page.then(|| page.write_all_at(&1u32.to_ne_bytes(), at(offset_of!(Status, nameless))))?.ok()
    };
    // If the note fails, the driver still works.
    let _: Option<()> = told();
}

fn write_error_text(error: i32, out: OutPointer<*const c_char>, name: bool) -> Answer {
    let out = out.required()?;
    let texts = names::result_texts(error);
    out.put(texts.map_or(core::ptr::null(), |(n, t)| if name { n.as_ptr() } else { t.as_ptr() }));
    if texts.is_some() { Ok(()) } else { fail(Code::INVALID_VALUE) }
}

forward! {
    cuGetErrorName(error: i32, pStr: *mut *const c_char) = write_error_text(error, pStr, true);
    cuGetErrorString(error: i32, pStr: *mut *const c_char) = write_error_text(error, pStr, false);
    /// These functions have no effect, because neither a profiler nor a cache is simulated.
    cuProfilerStart | cuProfilerStop | cuCtxResetPersistingL2Cache() = process::enter()?.current_context_handle().map(drop);
    cuFlushGPUDirectRDMAWrites(_target: i32, _scope: i32) = process::enter()?.current_context_handle().map(drop);
}

entry! {
    fn cuInit(Flags) {
        fail_if(Flags != 0, Code::INVALID_VALUE)?;
        process::initialize()
    }

    fn cuDriverGetVersion(driverVersion: *mut i32) {
        driverVersion.required()?.put(lookup::DRIVER_VERSION);
        Ok(())
    }

    /// Fails, because the simulated driver has no table of functions without names.
    fn cuGetExportTable(ppExportTable: *mut *const c_void, pExportTableId: *const CUuuid) {
        let out = ppExportTable.required()?;
        let id = pExportTableId.required()?;
        out.put(core::ptr::null::<c_void>());
        if id.bytes == RUNTIME_TABLE {
            report_nameless_request();
        }
        fail(Code::INVALID_VALUE)
    }

    fn cuGetProcAddress(symbol, pfn, cudaVersion, flags) {
        let (name, out) = (symbol.text()?, pfn.required()?);
        let (found, pointer) = lookup::find_function(exports::all_functions, name, cudaVersion, flags)?;
        fail_if(found != lookup::FOUND, Code::NOT_FOUND)?;
        out.put(FunctionPointer(pointer));
        Ok(())
    }

    fn cuGetProcAddress_v2(symbol, pfn, cudaVersion, flags, symbolStatus) {
        let (name, out) = (symbol.text()?, pfn.required()?);
        let (found, pointer) = lookup::find_function(exports::all_functions, name, cudaVersion, flags)?;
        out.put(FunctionPointer(pointer));
        symbolStatus.put(found);
        Ok(())
    }

    fn cuProfilerInitialize(_configFile: *const c_char, _outputFile: *const c_char, _outputMode: i32) {
        process::check_can_enter()?;
        fail(Code::NOT_SUPPORTED)
    }

    fn cuModuleGetLoadingMode(mode: *mut i32) {
        // CU_MODULE_LAZY_LOADING.
        mode.required()?.put(2);
        Ok(())
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut i32) {
        let old = mode.required()?.get().unwrap_or(0);
        process::check_can_enter()?;
        fail_if(!(0..=2).contains(&old), Code::INVALID_VALUE)?;
        // CU_STREAM_CAPTURE_MODE_GLOBAL. In every mode, a capture here allows all calls of other threads.
        mode.put(0);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_and_unknown_numbers_do_not() {
        let mut text = core::ptr::null();
        // SAFETY: the pointer is valid.
        unsafe {
            assert_eq!(cuGetErrorName::call(201, &mut text), CUresult(0));
            assert_eq!(core::ffi::CStr::from_ptr(text), c"CUDA_ERROR_INVALID_CONTEXT");
            assert_eq!(cuGetErrorString::call(123_456, &mut text), CUresult(1));
            assert_eq!(cuGetErrorName::call(0, core::ptr::null_mut()), CUresult(1));
        }
        assert!(text.is_null());
    }

    #[test]
    fn nothing_works_before_initialisation() {
        // SAFETY: no pointers are passed.
        unsafe {
            assert_eq!(super::super::cuCtxSetCurrent::call(CUcontext(core::ptr::null_mut())), CUresult(3));
            assert_eq!(cuInit::call(1), CUresult(1));
        }
    }
}
