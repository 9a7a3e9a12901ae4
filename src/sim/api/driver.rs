//! Initialisation, versions, result codes, look-up, and what concerns no object.

use super::boundary::Out;
use super::exports;
use crate::abi::CUuuid;
use crate::engine::answer::{Answer, fail};
use crate::engine::{lookup, names, process};
use core::ffi::{c_char, c_void};
use core::mem::offset_of;
use cupeer_spec::abi::*;
use cupeer_spec::env;
use cupeer_spec::results::Result as Code;
use cupeer_spec::status::{MAGIC, Status};
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

/// What stands behind the names that the simulated driver does not do.
pub(crate) unsafe extern "C" fn unsupported() -> CUresult {
    CUresult(Code::NOT_SUPPORTED as i32)
}

/// The table of functions that libcudart asks for, linked or within a program, before all else: that of 11, 12 and 13 does.
/// Nobody else knows it, while tools and tests ask for other tables, and get on without.
const RUNTIME_TABLE: [u8; 16] =
    [0x6b, 0xd5, 0xfb, 0x6c, 0x5b, 0xf4, 0xe7, 0x4a, 0x89, 0x87, 0xd9, 0x39, 0x12, 0xfd, 0x9d, 0xf9];

/// Tells the launcher, where there is one, that the CUDA runtime asked for functions that have no names: it goes no further
/// without.
fn tell_launcher() {
    let at = |field: usize| field as u64;
    let told = || {
        let page = OpenOptions::new().read(true).write(true).open(std::env::var_os(env::STATUS)?).ok()?;
        let mut magic = [0; 4];
        page.read_exact_at(&mut magic, at(offset_of!(Status, magic))).ok()?;
        let is_page = u32::from_ne_bytes(magic) == MAGIC;
        is_page.then(|| page.write_all_at(&1u32.to_ne_bytes(), at(offset_of!(Status, nameless))))?.ok()
    };
    // Nobody depends on it.
    let _: Option<()> = told();
}

fn error_text(error: i32, out: Out<*const c_char>, name: bool) -> Answer {
    let out = out.required()?;
    let texts = names::texts(error);
    out.put(texts.map_or(core::ptr::null(), |(n, t)| if name { n.as_ptr() } else { t.as_ptr() }));
    if texts.is_some() { Ok(()) } else { fail(Code::INVALID_VALUE) }
}

entry! {
    fn cuInit(Flags: u32) {
        if Flags != 0 {
            return fail(Code::INVALID_VALUE);
        }
        process::initialize()
    }

    fn cuDriverGetVersion(driverVersion: *mut i32) {
        driverVersion.required()?.put(lookup::DRIVER_VERSION);
        Ok(())
    }

    fn cuGetErrorName(error: i32, pStr: *mut *const c_char) {
        error_text(error, pStr, true)
    }

    fn cuGetErrorString(error: i32, pStr: *mut *const c_char) {
        error_text(error, pStr, false)
    }

    /// Tables of functions without a name: this driver has none.
    fn cuGetExportTable(ppExportTable: *mut *const c_void, pExportTableId: *const CUuuid) {
        let out = ppExportTable.required()?;
        let id = pExportTableId.required()?;
        out.put(core::ptr::null::<c_void>());
        if id.bytes == RUNTIME_TABLE {
            tell_launcher();
        }
        fail(Code::INVALID_VALUE)
    }

    fn cuGetProcAddress(
        symbol: *const c_char,
        pfn: *mut FunctionPointer,
        cudaVersion: i32,
        flags: ProcAddressFlags,
    ) {
        let (name, out) = (symbol.text()?, pfn.required()?);
        let (found, pointer) = lookup::find(exports::all, name, cudaVersion, flags)?;
        if found != lookup::FOUND {
            return fail(Code::NOT_FOUND);
        }
        out.put(FunctionPointer(pointer));
        Ok(())
    }

    fn cuGetProcAddress_v2(
        symbol: *const c_char,
        pfn: *mut FunctionPointer,
        cudaVersion: i32,
        flags: ProcAddressFlags,
        symbolStatus: *mut CUdriverProcAddressQueryResult,
    ) {
        let (name, out) = (symbol.text()?, pfn.required()?);
        let (found, pointer) = lookup::find(exports::all, name, cudaVersion, flags)?;
        out.put(FunctionPointer(pointer));
        symbolStatus.put(found);
        Ok(())
    }

    /// There is nothing to profile, and no cache.
    fn cuProfilerStart | cuProfilerStop | cuCtxResetPersistingL2Cache() {
        process::enter()?.current().map(drop)
    }

    fn cuProfilerInitialize(_configFile: *const c_char, _outputFile: *const c_char, _outputMode: i32) {
        process::check()?;
        fail(Code::NOT_SUPPORTED)
    }

    fn cuModuleGetLoadingMode(mode: *mut i32) {
        // CU_MODULE_LAZY_LOADING.
        mode.required()?.put(2);
        Ok(())
    }

    fn cuFlushGPUDirectRDMAWrites(_target: i32, _scope: i32) {
        process::enter()?.current().map(drop)
    }

    fn cuThreadExchangeStreamCaptureMode(mode: *mut i32) {
        let old = mode.required()?.get().unwrap_or(0);
        process::check()?;
        if !(0..=2).contains(&old) {
            return fail(Code::INVALID_VALUE);
        }
        // CU_STREAM_CAPTURE_MODE_GLOBAL: a capture refuses no call of others, whatever the mode.
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
            assert_eq!(cuGetErrorName(201, &mut text), CUresult(0));
            assert_eq!(core::ffi::CStr::from_ptr(text), c"CUDA_ERROR_INVALID_CONTEXT");
            assert_eq!(cuGetErrorString(123_456, &mut text), CUresult(1));
            assert_eq!(cuGetErrorName(0, core::ptr::null_mut()), CUresult(1));
        }
        assert!(text.is_null());
    }

    #[test]
    fn nothing_works_before_initialisation() {
        // SAFETY: no pointers are passed.
        unsafe {
            assert_eq!(super::super::cuCtxSetCurrent(CUcontext(core::ptr::null_mut())), CUresult(3));
            assert_eq!(cuInit(1), CUresult(1));
        }
    }
}
