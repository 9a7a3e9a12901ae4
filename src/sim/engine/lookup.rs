//! `cuGetProcAddress`: names and versions to functions.

use super::answer::{Answer, refuse};
use crate::exports;
use core::ffi::c_void;
use core::ptr::null_mut;
use cupeer_spec::abi::{CUdriverProcAddressQueryResult as Status, ProcAddressFlags};
use cupeer_spec::results::Result as Code;

/// The version of CUDA that this driver speaks.
pub(crate) const DRIVER_VERSION: i32 = 13000;

/// The flag for the form whose stream 0 is the calling thread's own; the flags below it change nothing.
const PER_THREAD_STREAM: u64 = 2;

/// Why a look-up found nothing: CU_GET_PROC_ADDRESS_*.
pub(crate) const FOUND: Status = Status(0);
const NO_SUCH_NAME: Status = Status(1);
const TOO_OLD: Status = Status(2);

/// Finds the newest function of a name that `version` knows, in the form that was asked for; null where there is none.
pub(crate) fn find(name: &[u8], version: i32, flags: ProcAddressFlags) -> Answer<(Status, *mut c_void)> {
    if version > DRIVER_VERSION {
        let text = format!("cudaVersion argument ({version}) exceeds the driver version ({DRIVER_VERSION})");
        return refuse(Code::INVALID_VALUE, text);
    }
    if flags.0 > PER_THREAD_STREAM {
        return refuse(Code::INVALID_VALUE, format!("Invalid flags: {:#x}", flags.0));
    }
    let named = || exports::all().filter(|(f, _)| !f.lookup.is_empty() && f.lookup.as_bytes() == name);
    // A name that has per-thread forms at all is found in them alone.
    let per_thread = flags.0 == PER_THREAD_STREAM && named().any(|(f, _)| f.is_per_thread());
    // A negative version finds the newest, as recorded.
    let newest = named()
        .filter(|(f, _)| {
            f.is_per_thread() == per_thread && f.since <= (version as u32).min(DRIVER_VERSION as u32)
        })
        .max_by_key(|(f, _)| f.since);
    Ok(match newest {
        Some((_, address)) => (FOUND, address.get()),
        None if named().next().is_some() => (TOO_OLD, null_mut()),
        None => (NO_SUCH_NAME, null_mut()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::others::OtherFn;

    fn symbol(name: &str, version: i32, flags: u64) -> String {
        match find(name.as_bytes(), version, ProcAddressFlags(flags)) {
            Ok((FOUND, pointer)) => exports::all().find(|(_, a)| a.get() == pointer).unwrap().0.symbol.into(),
            Ok((status, _)) => status.0.to_string(),
            Err(failure) => format!("{:?}", failure.code),
        }
    }

    #[test]
    fn versions_and_forms() {
        for (name, version, flags, wanted) in [
            ("cuMemcpyDtoH", 3010, 0, "cuMemcpyDtoH"),
            ("cuMemcpyDtoH", 13000, 0, "cuMemcpyDtoH_v2"),
            ("cuMemcpyDtoH", 13000, 1, "cuMemcpyDtoH_v2"),
            ("cuMemcpyDtoH", 6050, 2, "2"),
            ("cuMemcpyDtoH", 7000, 2, "cuMemcpyDtoH_v2_ptds"),
            ("cuIpcOpenMemHandle", 10020, 0, "cuIpcOpenMemHandle"),
            ("cuIpcOpenMemHandle", 11000, 2, "cuIpcOpenMemHandle_v2"),
            ("cuIpcOpenMemHandle_v2", 13000, 0, "1"),
            ("cuCtxCreate", 12000, 0, "cuCtxCreate_v3"),
            ("", 13000, 0, "1"),
            ("cuMemAlloc", -1, 0, "cuMemAlloc_v2"),
            ("cuMulticastBindMem", -1, 0, "cuMulticastBindMem"),
            ("cuInit", 13010, 0, "INVALID_VALUE"),
            ("cuInit", 13000, 3, "INVALID_VALUE"),
        ] {
            assert_eq!(symbol(name, version, flags), wanted, "{name} {version} {flags}");
        }
    }

    #[test]
    fn every_name_leads_back_to_itself() {
        let is_known = |f: &OtherFn| !f.lookup.is_empty() && f.since <= DRIVER_VERSION as u32;
        for (f, address) in exports::all().filter(|(f, _)| is_known(f)) {
            let flags = if f.is_per_thread() { 2 } else { 0 };
            let found = find(f.lookup.as_bytes(), f.since as i32, ProcAddressFlags(flags));
            assert_eq!(found, Ok((FOUND, address.get())), "{}", f.symbol);
        }
    }
}
