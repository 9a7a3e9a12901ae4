//! `cuGetProcAddress`: names and versions to functions.

use super::answer::{Answer, refuse};
use crate::exports;
use core::ffi::c_void;
use cupeer_spec::abi::{CUdriverProcAddressQueryResult as Status, ProcAddressFlags};
use cupeer_spec::results::Result as Code;

/// The version of CUDA that this driver speaks.
pub(crate) const DRIVER_VERSION: i32 = 13000;

const LEGACY_STREAM: u64 = 1;
const PER_THREAD_STREAM: u64 = 2;

/// What a look-up found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// The function.
    Function(*mut c_void),
    /// No function has that name.
    NoSuchName,
    /// There is one, but not for so old a version, or not in the form that was asked for.
    TooOld,
}

impl Found {
    /// The `symbolStatus` of it.
    pub(crate) fn status(self) -> Status {
        Status(match self {
            Found::Function(_) => 0,
            Found::NoSuchName => 1,
            Found::TooOld => 2,
        })
    }

    /// The pointer of it, null where nothing was found.
    pub(crate) fn pointer(self) -> *mut c_void {
        match self {
            Found::Function(pointer) => pointer,
            _ => core::ptr::null_mut(),
        }
    }
}

/// Finds the newest function of a name that `version` knows.
pub(crate) fn find(name: &[u8], version: i32, flags: ProcAddressFlags) -> Answer<Found> {
    if version > DRIVER_VERSION {
        let text = format!("cudaVersion argument ({version}) exceeds the driver version ({DRIVER_VERSION})");
        return refuse(Code::INVALID_VALUE, text);
    }
    if !matches!(flags.0, 0 | LEGACY_STREAM | PER_THREAD_STREAM) {
        return refuse(Code::INVALID_VALUE, format!("Invalid flags: {:#x}", flags.0));
    }
    let named = || exports::all().filter(|(f, _)| !f.lookup.is_empty() && f.lookup.as_bytes() == name);
    // A name that has per-thread forms at all is found in them alone.
    let per_thread = flags.0 == PER_THREAD_STREAM && named().any(|(f, _)| f.per_thread);
    // A negative version finds the newest, as recorded.
    let newest = named()
        .filter(|(f, _)| f.per_thread == per_thread && f.since <= version as u32)
        .max_by_key(|(f, _)| f.since);
    Ok(match newest {
        Some((_, address)) => Found::Function(address.get()),
        None if named().next().is_some() => Found::TooOld,
        None => Found::NoSuchName,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbol(name: &str, version: i32, flags: u64) -> String {
        match find(name.as_bytes(), version, ProcAddressFlags(flags)) {
            Ok(Found::Function(pointer)) => {
                exports::all().find(|(_, a)| a.get() == pointer).unwrap().0.symbol.into()
            }
            Ok(other) => format!("{}", other.status().0),
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
            ("cuInit", 13010, 0, "INVALID_VALUE"),
            ("cuInit", 13000, 3, "INVALID_VALUE"),
        ] {
            assert_eq!(symbol(name, version, flags), wanted, "{name} {version} {flags}");
        }
    }

    #[test]
    fn every_name_leads_back_to_itself() {
        for (f, address) in exports::all().filter(|(f, _)| !f.lookup.is_empty()) {
            let flags = if f.per_thread { 2 } else { 0 };
            assert_eq!(
                find(f.lookup.as_bytes(), f.since as i32, ProcAddressFlags(flags)),
                Ok(Found::Function(address.get())),
                "{}",
                f.symbol
            );
        }
    }
}
