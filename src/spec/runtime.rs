//! Names of the CUDA runtime, which users know, and what of the driver each stands for: functions and results.
//!
//! A function stands for all versions of the driver's that its calls end in; a result ([`crate::results::runtime`]) has the
//! driver's number, from CUDA 10.1 on. What belongs here: which of them the driver's are. Of the runtime's functions themselves
//! those are in the table that are about sharing.

use crate::function::{FUNCTIONS, FnId, FnSpec, Library};
use crate::results::ResultSpec;
use crate::results::runtime::RESULTS;

/// A function of the runtime.
#[derive(Clone, Copy, Debug)]
pub struct RuntimeFn {
    /// Its index.
    index: u8,
    /// The driver's function that does its work, in one of its versions.
    calls: FnId,
}

macro_rules! functions {
    ($($name:ident: $calls:ident,)*) => {
        const CALLS: &[FnId] = &[$(FnId::$calls),*];

        crate::texts!(static NAMES = &[$(stringify!($name)),*]);
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

/// The functions.
static RUNTIME: [RuntimeFn; CALLS.len()] = {
    let mut all = [RuntimeFn { index: 0, calls: CALLS[0] }; CALLS.len()];
    let mut index = 0;
    while index < CALLS.len() {
        all[index] = RuntimeFn { index: index as u8, calls: CALLS[index] };
        index += 1;
    }
    all
};

/// Whether a path is that of the runtime's library, by its file name: `libcudart.so.12`.
pub fn is_library(path: &[u8]) -> bool {
    let wanted = b"libcudart";
    let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    file.len() >= wanted.len() && file.iter().zip(wanted).all(|(byte, wanted)| byte == wanted)
}

/// What all names of the runtime begin with, and none of the driver's.
const PREFIX: &str = "cuda";

impl RuntimeFn {
    /// Its name.
    pub fn name(&self) -> &'static str {
        NAMES.get(self.index.into())
    }

    /// Whether it stands for a function of the table: its calls end in that, in whatever version.
    pub fn is(&self, function: &FnSpec) -> bool {
        function.lookup() == self.calls.spec().lookup()
    }

    /// The functions of the table that it stands for.
    pub fn functions(&self) -> impl Iterator<Item = &'static FnSpec> {
        FUNCTIONS.iter().filter(|function| self.is(function))
    }

    /// What it stands for, in one line.
    pub fn sentence(&self) -> String {
        let names: Vec<&str> = self.functions().map(|function| function.name()).collect();
        let names = match names.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
            _ => names.concat(),
        };
        format!("{} is a function of the runtime, and stands for {names} of the driver", self.name())
    }
}

/// The runtime's name of a function of the table, where it has one.
pub fn name_of(function: &FnSpec) -> Option<&'static str> {
    RUNTIME.iter().find(|known| known.is(function)).map(RuntimeFn::name)
}

/// The function of the runtime that a name means, in whatever case.
pub fn function(name: &str) -> Option<&'static RuntimeFn> {
    RUNTIME.iter().find(|known| known.name().eq_ignore_ascii_case(name))
}

/// Those that a pattern means. Only what begins as all of them do is one: `*Device*` means the driver's functions.
pub fn matching(pattern: &str) -> impl Iterator<Item = &'static RuntimeFn> {
    let pattern = if pattern.starts_with(PREFIX) { pattern } else { "" };
    RUNTIME.iter().filter(move |known| crate::names::matches(pattern.as_bytes(), known.name().as_bytes()))
}

/// The result that a name of the runtime's means, in whatever case.
pub fn result(name: &str) -> Option<&'static ResultSpec> {
    let known = RESULTS.iter().find(|known| known.name().eq_ignore_ascii_case(name))?;
    Library::Cuda.result(known.number)
}

/// The runtime's name of a result of the driver's, where it has one here.
pub fn result_name(result: &ResultSpec) -> Option<&'static str> {
    Some(Library::Cudart.result(result.number)?.name()).filter(|_| result.library == Library::Cuda)
}

/// The names of its functions.
pub fn functions() -> impl Iterator<Item = &'static str> {
    NAMES.all()
}

/// All its names, for hints.
pub fn names() -> impl Iterator<Item = &'static str> {
    functions().chain(RESULTS.iter().map(ResultSpec::name))
}

/// What the names of the runtime in a text of the user's stand for, a line each: in a set of functions, a plan.
pub fn meant(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_*?".contains(c);
    let mut said = Vec::new();
    for word in text.split(|c| !is_part(c)).filter(|word| word.starts_with(PREFIX)) {
        said.extend(matching(word).map(RuntimeFn::sentence));
        said.extend(result(word).map(result_sentence));
    }
    let mut seen = std::collections::BTreeSet::new();
    said.retain(|line| seen.insert(line.clone()));
    said
}

/// What a result's name of the runtime stands for, in one line.
pub fn result_sentence(result: &ResultSpec) -> String {
    let name = result_name(result).unwrap_or_default();
    format!("{name} is the runtime's name of {} ({}), as of CUDA 10.1", result.name(), result.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_function_stands_for_all_versions_of_one_of_the_drivers() {
        for known in &RUNTIME {
            assert!(known.name().starts_with(PREFIX) && known.functions().count() > 0, "{}", known.name());
            assert!(known.functions().all(|function| function.library == Library::Cuda), "{}", known.name());
            assert!(
                known.functions().all(|function| name_of(function) == Some(known.name())),
                "{}",
                known.name()
            );
        }
        let open = function("CUDAIPCOPENMEMHANDLE").expect("it is known");
        assert_eq!(
            open.sentence(),
            "cudaIpcOpenMemHandle is a function of the runtime, and stands for cuIpcOpenMemHandle and \
             cuIpcOpenMemHandle_v2 of the driver"
        );
    }

    #[test]
    fn names_are_unique_and_no_names_of_the_driver() {
        let mut all: Vec<&str> = names().collect();
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]));
        for own in FUNCTIONS.iter().filter(|function| function.name().starts_with(PREFIX)) {
            assert!(own.library == Library::Cudart && function(own.name()).is_some(), "{}", own.name());
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
            assert_eq!(result(name).map(|result| result.number), Some(number), "{name}");
        }
        assert_eq!(result("cudaErrorMapFailed"), None);
    }

    #[test]
    fn what_a_text_names_is_said_once() {
        assert_eq!(meant("@ipc,cuIpcOpenMemHandle:error=MAP_FAILED"), Vec::<String>::new());
        let said = meant("cudaIpcCloseMemHandle,^cudaIpcCloseMemHandle:force:error=cudaErrorInvalidValue");
        assert_eq!(
            said,
            [
                "cudaIpcCloseMemHandle is a function of the runtime, and stands for cuIpcCloseMemHandle of the driver",
                "cudaErrorInvalidValue is the runtime's name of CUDA_ERROR_INVALID_VALUE (1), as of CUDA 10.1",
            ]
        );
        assert_eq!(meant("cudaIpcOpen*").len(), 2);
    }
}
