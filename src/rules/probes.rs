//! Probes: calls that programs make to find out something, and that fail if the answer is no.
//!
//! The failure of a probe is expected: reports count it under "Expected failures", and it appears nowhere else. Each
//! entry has the purpose of the probe, the callers that may use it, and the source code that does.
//! `cuPointerGetAttribute` and `cuPointerGetAttributes` of host memory are probes too (UCX,
//! src/uct/cuda/cuda_copy/cuda_copy_md.c), but such calls are never recorded.

use crate::is_library_named;
use cupeer_model::Call;
use cupeer_spec::function::FnId::{self, *};
use cupeer_spec::results::Result::{self, *};
use cupeer_spec::value::Shareable;

/// Probe: a call by which programs find out something, with the results that mean no.
#[derive(PartialEq, Eq, Hash, Debug)]
pub struct Probe {
    /// Functions that the probe calls.
    pub functions: &'static [FnId],
    /// Results that mean no.
    pub results: &'static [Result],
    /// True if only an allocation with a FABRIC handle counts as this probe.
    wants_fabric: bool,
    /// Libraries that send the probe, in the form of [`is_library_named`]. Empty if any library may.
    pub callers: &'static [&'static str],
    /// Later call of the thread that proves the call to be a probe; `None` if no such call is needed.
    pub follow_up: Option<FollowUp>,
    /// Clause that says what the probe asks.
    pub why: &'static str,
    /// Sources: project, file, and function of each.
    pub sources: &'static [&'static str],
}

/// Call by which a thread shows, after a negative answer, that it only probed.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FollowUp {
    /// Creating memory with another handle type.
    OtherHandleType,
    /// Importing another pointer into the same pool.
    SamePool,
}

/// All probes. One without a follow-up precedes those with one.
pub static PROBES: &[Probe] = &[
    Probe {
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
    Probe {
        functions: &[cuMemCreate],
        results: &[NOT_PERMITTED, NOT_SUPPORTED],
        wants_fabric: true,
        callers: &["libuct_cuda", "libc10_cuda", "libtorch_cuda"],
        why: "asks whether fabric handles work: the library goes on without them",
        sources: &[
            "UCX src/uct/cuda/cuda_copy/cuda_copy_md.c uct_cuda_copy_mem_alloc_fabric",
            "PyTorch c10/cuda/PeerToPeerAccess.cpp isFabricSupported",
        ],
        ..PROBE
    },
    Probe {
        functions: &[cuMemCreate],
        results: &[NOT_PERMITTED, NOT_SUPPORTED],
        wants_fabric: true,
        follow_up: Some(FollowUp::OtherHandleType),
        why: "asks whether fabric handles work: the thread then used another handle type",
        sources: &["NCCL src/allocator.cc ncclMemAlloc"],
        ..PROBE
    },
    Probe {
        functions: &[cuCtxEnablePeerAccess],
        results: &[PEER_ACCESS_ALREADY_ENABLED],
        callers: &["libnccl", "libc10_cuda", "libtorch_cuda", "cupy_backends/"],
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
    Probe {
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

/// Default values of the fields of an entry.
const PROBE: Probe =
    Probe { functions: &[], results: &[], wants_fabric: false, callers: &[], follow_up: None, why: "", sources: &[] };

impl Probe {
    /// Returns the probe that a failed call may be; `None` if the call is not a probe. `library` returns the
    /// path of the calling library, and is called only for a probe that some libraries make.
    pub fn of<'a>(call: &Call, library: impl Fn() -> &'a [u8]) -> Option<&'static Probe> {
        let is_from_caller = |probe: &&Probe| {
            probe.callers.is_empty() || probe.callers.iter().any(|name| is_library_named(library(), name))
        };
        PROBES.iter().filter(|probe| probe.is_probe_call(call)).find(is_from_caller)
    }

    /// Returns true if the call is this probe, whatever library made it.
    fn is_probe_call(&self, call: &Call) -> bool {
        self.functions.contains(&call.function)
            && self.results.iter().any(|known| *known as i32 == call.result)
            && (!self.wants_fabric || call.allocation_props().is_some_and(|it| it.types & Shareable::FABRIC != 0))
    }
}

impl FollowUp {
    /// Returns the subject of the probe. Probes of one thread with the same subject have one follow-up.
    pub fn subject(self, call: &Call) -> u64 {
        match self {
            FollowUp::OtherHandleType => 0,
            FollowUp::SamePool => {
                let pool = call.function.spec().opens().and_then(|shared| shared.of);
                pool.map_or(0, |pool| call.number_at(pool))
            }
        }
    }

    /// Returns the kind of follow-up that a call is; `None` if it is none.
    pub fn of(call: &Call) -> Option<FollowUp> {
        match call.function {
            cuMemCreate => {
                let types = call.allocation_props()?.types;
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

    fn of(function: FnId, result: Result, types: i32, library: &str) -> Option<&'static Probe> {
        let mut args = [0; MOST_ARGS];
        if let Some(index) = function.spec().properties_argument() {
            let place = &mut args[function.spec().argument_byte_range(index)];
            place[4..8].copy_from_slice(&types.to_le_bytes());
        }
        let call = Call { function, result: result as i32, args: &args, shape: !0, elements: &[] };
        Probe::of(&call, || library.as_bytes())
    }

    #[test]
    fn each_has_its_words_and_its_sources() {
        for probe in PROBES {
            assert!(!probe.functions.is_empty() && !probe.results.is_empty() && !probe.sources.is_empty());
            assert!(!probe.why.is_empty() && !probe.why.ends_with('.'), "{}", probe.why);
            assert!(probe.sources.iter().all(|source| source.contains(' ') || source.contains("::")));
            assert!(!probe.results.contains(&SUCCESS));
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
        for library in ["/bin/app", "", "/x/libnotnccl.so", "/cupy_backends_of_mine/x.so", "/bin/cupy_backends"] {
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
        let follow_up = |types, library| of(cuMemCreate, NOT_PERMITTED, types, library).map(|probe| probe.follow_up);
        let (fabric, fd) = (Shareable::FABRIC, Shareable::DESCRIPTOR);
        assert_eq!(follow_up(fabric, "libuct_cuda.so.0"), Some(None));
        assert_eq!(follow_up(fabric | fd, "libnccl.so.2"), Some(Some(FollowUp::OtherHandleType)));
        assert_eq!(follow_up(fabric, "/bin/app"), Some(Some(FollowUp::OtherHandleType)));
        assert_eq!(follow_up(fd, "/bin/app"), None);
        assert_eq!(follow_up(fd, "libuct_cuda.so.0"), None);
    }
}
