//! Probes: calls that programs make to find out something, and that fail if the answer is no.
//!
//! The failure of a probe is expected: reports count it under "Expected failures", and it appears nowhere else. Each
//! entry has the purpose of the probe, the callers that may use it, and the source code that does.
//! `cuPointerGetAttribute` and `cuPointerGetAttributes` of host memory are probes too (UCX,
//! src/uct/cuda/cuda_copy/cuda_copy_md.c), but such calls are never recorded.

use crate::is_from;
use cupeer_model::Call;
use cupeer_spec::function::FnId::{self, *};
use cupeer_spec::results::Result::{self, *};
use cupeer_spec::value::Shareable;
use cupeer_spec::{fields, lists, texts};

/// Index of a probe.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Probe(u8);

/// A probe in the declarations below.
struct Declared {
    functions: &'static [FnId],
    results: &'static [Result],
    /// True if only an allocation with a FABRIC handle is such a probe.
    wants_fabric: bool,
    /// Libraries that send the probe, in the form of [`is_from`], separated by spaces. Empty if any library
    /// may.
    callers: &'static str,
    follow_up: Option<FollowUp>,
    why: &'static str,
    sources: &'static [&'static str],
}

lists!(static FUNCTIONS: FnId = DECLARED.functions);
lists!(static RESULTS: Result = DECLARED.results);
static WANT_FABRIC: [bool; DECLARED.len()] = fields!(DECLARED.wants_fabric: bool = false);
texts!(static CALLERS = DECLARED.callers);
static FOLLOW_UPS: [Option<FollowUp>; DECLARED.len()] = fields!(DECLARED.follow_up: Option<FollowUp> = None);
texts!(static WHYS = DECLARED.why);
/// A table of its own, so that the preload library does not contain it.
static SOURCES: [&[&str]; DECLARED.len()] = fields!(DECLARED.sources: &'static [&'static str] = &[]);

/// Call by which a thread shows, after a negative answer, that it only probed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FollowUp {
    /// Creating memory with another handle type.
    OtherHandleType,
    /// Importing another pointer into the same pool.
    SamePool,
}

/// A probe without a follow-up precedes those with one.
const DECLARED: &[Declared] = &[
    Declared {
        functions: &[cuMemRetainAllocationHandle],
        results: &[INVALID_VALUE],
        why: "asks whether memory is virtual: memory of cuMemAlloc and of the host has no allocation handle",
        sources: &[
            "UCX src/uct/cuda/cuda_copy/cuda_copy_md.c uct_cuda_copy_detect_vmm",
            "UCX src/uct/cuda/cuda_ipc/cuda_ipc_md.c",
            "NCCL src/transport/p2p.cc ipcRegisterBuffer",
            "NIXL nixlCudaMemCtxImpl::queryVmm",
            "MSCCL++ src/core/gpu_ipc_mem.cc",
        ],
        ..PROBE
    },
    Declared {
        functions: &[cuMemCreate],
        results: &[NOT_PERMITTED, NOT_SUPPORTED],
        wants_fabric: true,
        callers: "libuct_cuda libc10_cuda libtorch_cuda",
        why: "asks whether fabric handles work: the library goes on without them",
        sources: &[
            "UCX src/uct/cuda/cuda_copy/cuda_copy_md.c uct_cuda_copy_mem_alloc_fabric",
            "PyTorch c10/cuda/PeerToPeerAccess.cpp isFabricSupported",
        ],
        ..PROBE
    },
    Declared {
        functions: &[cuMemCreate],
        results: &[NOT_PERMITTED, NOT_SUPPORTED],
        wants_fabric: true,
        follow_up: Some(FollowUp::OtherHandleType),
        why: "asks whether fabric handles work: the thread then used another handle type",
        sources: &["NCCL src/allocator.cc ncclMemAlloc"],
        ..PROBE
    },
    Declared {
        functions: &[cuCtxEnablePeerAccess],
        results: &[PEER_ACCESS_ALREADY_ENABLED],
        callers: "libnccl libc10_cuda libtorch_cuda cupy_backends/",
        why: "makes sure that access is enabled, no matter which library enabled it",
        sources: &[
            "NCCL src/transport/p2p.cc p2pMap",
            "NCCL src/transport/net.cc sendConnect",
            "PyTorch c10/cuda/CUDACachingAllocator.cpp enablePeerAccess",
            "PyTorch torch/csrc/cuda/CUDAPluggableAllocator.cpp enablePeerAccess",
            "CuPy cupy_backends/cuda/api/runtime.pyx _deviceEnsurePeerAccess",
        ],
        ..PROBE
    },
    Declared {
        functions: &[cuMemPoolImportPointer],
        results: &[INVALID_VALUE],
        follow_up: Some(FollowUp::SamePool),
        why: "asks whether a pointer is of this pool: the thread then imported one that is",
        sources: &[
            "cuda-samples Samples/2_Concepts_and_Techniques/streamOrderedAllocationIPC/streamOrderedAllocationIPC.cu childProcess",
        ],
        ..PROBE
    },
];

/// Defaults of an entry.
const PROBE: Declared = Declared {
    functions: &[],
    results: &[],
    wants_fabric: false,
    callers: "",
    follow_up: None,
    why: "",
    sources: &[],
};

impl Probe {
    /// All probes.
    pub fn all() -> impl Iterator<Item = Probe> {
        (0..DECLARED.len() as u8).map(Probe)
    }

    /// Returns the probe that a failed call may be; `None` if it is not a probe. `library` returns the path
    /// of the calling library, and is called only if that matters.
    pub fn of<'a>(call: &Call, library: impl Fn() -> &'a [u8]) -> Option<Probe> {
        let mut probes = Probe::all().filter(|probe| probe.is_asked(call));
        probes.find(|probe| {
            probe.callers().next().is_none() || probe.callers().any(|name| is_from(library(), name))
        })
    }

    /// The functions.
    pub fn functions(self) -> &'static [FnId] {
        FUNCTIONS.get(self.0.into())
    }

    /// Returns the results that mean no.
    pub fn results(self) -> &'static [Result] {
        RESULTS.get(self.0.into())
    }

    /// Returns the libraries that send the probe, in the form of [`is_from`]; empty if any library may.
    pub fn callers(self) -> impl Iterator<Item = &'static str> {
        CALLERS.get(self.0.into()).split(' ').filter(|name| !name.is_empty())
    }

    /// Returns the later call that proves the probe; `None` if none is needed.
    pub fn follow_up(self) -> Option<FollowUp> {
        FOLLOW_UPS[usize::from(self.0)]
    }

    /// Returns a clause that says what the probe asks.
    pub fn why(self) -> &'static str {
        WHYS.get(self.0.into())
    }

    /// Returns the sources: project, file, and function of each.
    pub fn sources(self) -> &'static [&'static str] {
        SOURCES[usize::from(self.0)]
    }

    /// Returns true if the call is this probe, without regard to its caller.
    fn is_asked(self, call: &Call) -> bool {
        self.functions().contains(&call.function)
            && self.results().iter().any(|known| *known as i32 == call.result)
            && (!WANT_FABRIC[usize::from(self.0)]
                || call.wanted().is_some_and(|it| it.types & Shareable::FABRIC != 0))
    }
}

impl FollowUp {
    /// Returns the subject of the probe. Probes of one thread with the same subject have one follow-up.
    pub fn about(self, call: &Call) -> u64 {
        match self {
            FollowUp::OtherHandleType => 0,
            FollowUp::SamePool => {
                let pool = call.function.spec().opens().and_then(|shared| shared.of);
                pool.map_or(0, |pool| call.at(pool))
            }
        }
    }

    /// The follow-up that a call is, if any.
    pub fn of(call: &Call) -> Option<FollowUp> {
        match call.function {
            cuMemCreate => {
                let types = call.wanted()?.types;
                let is_other = types != 0 && types & Shareable::FABRIC == 0;
                is_other.then_some(FollowUp::OtherHandleType)
            }
            cuMemPoolImportPointer => (call.result == 0).then_some(FollowUp::SamePool),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::record::slot::MOST_ARGS;

    fn of(function: FnId, result: Result, types: i32, library: &str) -> Option<Probe> {
        let mut args = [0; MOST_ARGS];
        if let Some(index) = function.spec().describes() {
            let place = &mut args[function.spec().place(index)];
            place[4..8].copy_from_slice(&types.to_le_bytes());
        }
        let call = Call { function, result: result as i32, args: &args, shape: !0, elements: &[] };
        Probe::of(&call, || library.as_bytes())
    }

    #[test]
    fn each_has_its_words_and_its_sources() {
        for probe in Probe::all() {
            assert!(
                !probe.functions().is_empty() && !probe.results().is_empty() && !probe.sources().is_empty()
            );
            assert!(!probe.why().is_empty() && !probe.why().ends_with('.'), "{}", probe.why());
            assert!(probe.sources().iter().all(|source| source.contains(' ') || source.contains("::")));
            assert!(!probe.results().contains(&SUCCESS));
        }
    }

    #[test]
    fn some_are_anybodys_and_some_are_of_a_library() {
        assert!(of(cuMemRetainAllocationHandle, INVALID_VALUE, 0, "/bin/app").is_some());
        let enabled = |library| of(cuCtxEnablePeerAccess, PEER_ACCESS_ALREADY_ENABLED, 0, library);
        let cupy = "/lib/python3/cupy_backends/cuda/api/runtime.cpython-312-x86_64-linux-gnu.so";
        for library in ["/usr/lib/libnccl.so.2", "/x/libc10_cuda.so", "libtorch_cuda.so", cupy] {
            assert!(enabled(library).is_some(), "{library}");
        }
        for library in
            ["/bin/app", "", "/x/libnotnccl.so", "/cupy_backends_of_mine/x.so", "/bin/cupy_backends"]
        {
            assert!(enabled(library).is_none(), "{library}");
        }
    }

    #[test]
    fn the_same_code_of_another_function_and_another_code_of_the_same_are_none() {
        assert!(of(cuMemMap, INVALID_VALUE, 0, "/bin/app").is_none());
        assert!(of(cuMemRetainAllocationHandle, NOT_INITIALIZED, 0, "/bin/app").is_none());
        assert!(of(cuIpcOpenMemHandle_v2, INVALID_VALUE, 0, "libuct_cuda.so.0").is_none());
    }

    #[test]
    fn fabric_handles_are_asked_for_by_name_and_need_a_follow_up_else() {
        let follow_up = |types, library| of(cuMemCreate, NOT_PERMITTED, types, library).map(Probe::follow_up);
        let (fabric, fd) = (Shareable::FABRIC, Shareable::DESCRIPTOR);
        assert_eq!(follow_up(fabric, "libuct_cuda.so.0"), Some(None));
        assert_eq!(follow_up(fabric | fd, "libnccl.so.2"), Some(Some(FollowUp::OtherHandleType)));
        assert_eq!(follow_up(fabric, "/bin/app"), Some(Some(FollowUp::OtherHandleType)));
        assert_eq!(follow_up(fd, "/bin/app"), None);
        assert_eq!(follow_up(fd, "libuct_cuda.so.0"), None);
    }
}
