//! Names of the CUDA runtime, which users know, and the driver functions and results that each stands for.
//!
//! A runtime function stands for all versions of the driver functions that it calls. A result
//! ([`crate::results::runtime`]) has the driver's number from CUDA 10.1 on. Runtime functions about sharing
//! are also in the table.

use crate::function::{FUNCTIONS, FnId, FnSpec, Library};
use crate::results::ResultSpec;
use crate::results::runtime::RESULTS;

/// Function of the CUDA runtime.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeFn {
    /// Name of the function.
    pub name: &'static str,
    /// One version of the driver function that does the work.
    calls: FnId,
}

macro_rules! functions {
    ($($name:ident: $calls:ident,)*) => {
        /// Table of the runtime's functions.
        static RUNTIME: &[RuntimeFn] = &[$(RuntimeFn { name: stringify!($name), calls: FnId::$calls }),*];
    };
}
functions! {
    cudaDeviceCanAccessPeer: cuDeviceCanAccessPeer,
    cudaDeviceGetP2PAttribute: cuDeviceGetP2PAttribute,
    cudaDeviceGetP2PAtomicCapabilities: cuDeviceGetP2PAtomicCapabilities,
    cudaDeviceEnablePeerAccess: cuCtxEnablePeerAccess,
    cudaDeviceDisablePeerAccess: cuCtxDisablePeerAccess,
    cudaIpcGetMemHandle: cuIpcGetMemHandle,
    cudaIpcOpenMemHandle: cuIpcOpenMemHandle,
    cudaIpcCloseMemHandle: cuIpcCloseMemHandle,
    cudaIpcGetEventHandle: cuIpcGetEventHandle,
    cudaIpcOpenEventHandle: cuIpcOpenEventHandle,
    cudaFree: cuMemFree,
    cudaFreeAsync: cuMemFreeAsync,
    cudaEventDestroy: cuEventDestroy,
    cudaDeviceReset: cuDevicePrimaryCtxReset,
    cudaDeviceGetAttribute: cuDeviceGetAttribute,
    cudaDeviceGetDefaultMemPool: cuDeviceGetDefaultMemPool,
    cudaMemPoolCreate: cuMemPoolCreate,
    cudaMemPoolDestroy: cuMemPoolDestroy,
    cudaMemPoolSetAccess: cuMemPoolSetAccess,
    cudaMemPoolGetAccess: cuMemPoolGetAccess,
    cudaMemPoolExportToShareableHandle: cuMemPoolExportToShareableHandle,
    cudaMemPoolImportFromShareableHandle: cuMemPoolImportFromShareableHandle,
    cudaMemPoolExportPointer: cuMemPoolExportPointer,
    cudaMemPoolImportPointer: cuMemPoolImportPointer,
    cudaMallocFromPoolAsync: cuMemAllocFromPoolAsync,
    cudaMalloc: cuMemAlloc,
    cudaMallocPitch: cuMemAllocPitch,
    cudaMallocManaged: cuMemAllocManaged,
    cudaMallocAsync: cuMemAllocAsync,
}

/// Returns true if a path is that of the runtime library, by its file name: `libcudart.so.12`.
pub fn is_runtime_library(path: &[u8]) -> bool {
    let wanted = b"libcudart";
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    file.len() >= wanted.len() && file.iter().zip(wanted).all(|(byte, wanted)| byte == wanted)
}

/// Prefix of all names of the runtime. No name of the driver has it.
const PREFIX: &str = "cuda";

impl RuntimeFn {
    /// Returns true if the runtime function calls this function of the table, in any version.
    pub fn calls_function(&self, function: &FnSpec) -> bool {
        function.lookup() == self.calls.spec().lookup()
    }

    /// Returns the functions of the table that the runtime function stands for.
    pub fn driver_functions(&self) -> impl Iterator<Item = &'static FnSpec> {
        FUNCTIONS.iter().filter(|function| self.calls_function(function))
    }

    /// Returns one line with the driver functions that the runtime function stands for.
    pub fn explanation(&self) -> String {
        let names: Vec<&str> = self.driver_functions().map(|function| function.name()).collect();
        let names = match names.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
            _ => names.concat(),
        };
        format!("{} is a function of the runtime, and stands for {names} of the driver", self.name)
    }
}

/// Returns the runtime's name of a function in the table, if it has one.
pub fn runtime_name_of(function: &FnSpec) -> Option<&'static str> {
    RUNTIME.iter().find(|known| known.calls_function(function)).map(|known| known.name)
}

/// Returns the runtime function with a name, in upper or lower case.
pub fn find_function(name: &str) -> Option<&'static RuntimeFn> {
    RUNTIME.iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

/// Returns the runtime functions that match a pattern. The pattern must begin with the runtime's prefix:
/// `*Device*` means the driver's functions.
pub fn find_matching(pattern: &str) -> impl Iterator<Item = &'static RuntimeFn> {
    let pattern = if pattern.starts_with(PREFIX) { pattern } else { "" };
    RUNTIME.iter().filter(move |known| crate::names::matches_pattern(pattern.as_bytes(), known.name.as_bytes()))
}

/// Returns the result with a name of the runtime, in upper or lower case.
pub fn find_result(name: &str) -> Option<&'static ResultSpec> {
    let known = RESULTS.iter().find(|known| known.name().eq_ignore_ascii_case(name))?;
    Library::Cuda.result(known.number)
}

/// Returns the runtime's name of a driver result, if this list has it.
pub fn runtime_result_name(result: &ResultSpec) -> Option<&'static str> {
    Some(Library::Cudart.result(result.number)?.name()).filter(|_| result.library == Library::Cuda)
}

/// Returns the names of all functions of the runtime.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    RUNTIME.iter().map(|known| known.name)
}

/// Returns all names of the runtime, for suggestions.
pub fn all_names() -> impl Iterator<Item = &'static str> {
    function_names().chain(RESULTS.iter().map(ResultSpec::name))
}

/// Returns the meanings of runtime names in a user's text, such as a set of functions or a plan, one per
/// line.
pub fn explain_names_in(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_*?".contains(c);
    let mut said = Vec::new();
    for word in text.split(|c| !is_part(c)).filter(|word| word.starts_with(PREFIX)) {
        said.extend(find_matching(word).map(RuntimeFn::explanation));
        said.extend(find_result(word).map(explain_result));
    }
    let mut seen = std::collections::BTreeSet::new();
    said.retain(|line| seen.insert(line.clone()));
    said
}

/// Returns one line with the driver result that a runtime result stands for.
pub fn explain_result(result: &ResultSpec) -> String {
    let name = runtime_result_name(result).unwrap_or_default();
    format!("{name} is the runtime's name of {} ({}), as of CUDA 10.1", result.name(), result.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_stands_for_all_versions_of_one_of_the_drivers() {
        for known in RUNTIME {
            assert!(known.name.starts_with(PREFIX) && known.driver_functions().count() > 0, "{}", known.name);
            assert!(known.driver_functions().all(|function| function.library == Library::Cuda), "{}", known.name);
            assert!(
                known.driver_functions().all(|function| runtime_name_of(function) == Some(known.name)),
                "{}",
                known.name
            );
        }
        let open = find_function("CUDAIPCOPENMEMHANDLE").expect("it is known");
        assert_eq!(
            open.explanation(),
            "cudaIpcOpenMemHandle is a function of the runtime, and stands for cuIpcOpenMemHandle and \
             cuIpcOpenMemHandle_v2 of the driver"
        );
    }

    #[test]
    fn names_are_unique_and_no_names_of_the_driver() {
        let mut all: Vec<&str> = all_names().collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
        for own in FUNCTIONS.iter().filter(|function| function.name().starts_with(PREFIX)) {
            assert!(own.library == Library::Cudart && find_function(own.name()).is_some(), "{}", own.name());
        }
    }

    #[test]
    fn results_have_the_drivers_numbers() {
        for (name, number) in [
            ("cudaErrorPeerAccessUnsupported", 217),
            ("cudaerrorinvalidresourcehandle", 400),
            ("cudaErrorMapBufferObjectFailed", 205),
            ("cudaErrorTooManyPeers", 711),
        ] {
            assert_eq!(find_result(name).map(|result| result.number), Some(number), "{name}");
        }
        assert_eq!(find_result("cudaErrorMapFailed"), None);
    }

    #[test]
    fn names_in_a_text_are_explained_once() {
        assert_eq!(explain_names_in("@ipc,cuIpcOpenMemHandle:error=MAP_FAILED"), Vec::<String>::new());
        let said = explain_names_in("cudaIpcCloseMemHandle,^cudaIpcCloseMemHandle:force:error=cudaErrorInvalidValue");
        assert_eq!(
            said,
            [
                "cudaIpcCloseMemHandle is a function of the runtime, and stands for cuIpcCloseMemHandle of the driver",
                "cudaErrorInvalidValue is the runtime's name of CUDA_ERROR_INVALID_VALUE (1), as of CUDA 10.1",
            ]
        );
        assert_eq!(explain_names_in("cudaIpcOpen*").len(), 2);
    }
}
