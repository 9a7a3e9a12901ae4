//! Libraries that cache mappings: they keep memory open until its address comes again.
//!
//! The documentation wants memory closed before its exporter frees it. These libraries close later by design, and do
//! not use freed memory that they have open. A finding with only that cause is a note that names the setting that
//! turns the cache off. The same behavior in any other code has the full severity of the rule.

use crate::rule::{RuleSpec, is_library_named};
use cupeer_spec::record::slot::finding::Severity;

/// Cache of mappings in a library.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cache {
    /// Libraries that open handles for the cache, in the form of [`is_library_named`].
    pub libraries: &'static [&'static str],
    /// Clause that says when the cache closes the handles that it opened.
    pub why: &'static str,
    /// Advice: that nothing needs to be done, or the setting that turns the cache off.
    pub hint: &'static str,
    /// Source of this knowledge: project, file, function, or variable.
    pub source: &'static str,
}

/// All caches.
pub static CACHES: &[Cache] = &[
    Cache {
        libraries: &["libuct_cuda"],
        why: "UCX's cache closes it when its address is exported anew, or when the cache ends",
        hint: "Nothing to do: UCX closes late by design. UCX_CUDA_IPC_CACHE=n turns its cache off.",
        source: "UCX src/uct/cuda/cuda_ipc/cuda_ipc_cache.c uct_cuda_ipc_cache_put_region; cuda_ipc_md.c CACHE",
    },
    Cache {
        libraries: &["libnccl"],
        why: "NCCL closes it when the buffer is deregistered, or its graph or communicator is destroyed",
        hint: "Nothing to do: NCCL closes late by design. NCCL_LEGACY_CUDA_REGISTER=0, the default since NCCL 2.24, keeps it from opening buffers of cudaMalloc.",
        source: "NCCL src/transport/p2p.cc p2pDeregisterMemHandle; docs/userguide/source/env.rst NCCL_LEGACY_CUDA_REGISTER",
    },
    Cache {
        libraries: &["libmpi.so.12", "libmpich"],
        why: "MPICH's cache closes it when its address is exported anew, or at MPI_Finalize",
        hint: "Nothing to do: MPICH closes late by design. MPIR_CVAR_CH4_IPC_GPU_HANDLE_CACHE=disabled (MPICH 4.3 and 5.0) turns its cache off.",
        source: "MPICH src/mpid/ch4/shm/ipc/gpu/gpu_post.c MPIR_CVAR_CH4_IPC_GPU_HANDLE_CACHE; src/mpl/src/gpu/mpl_gpu_cuda.c",
    },
    Cache {
        libraries: &["libopen-pal", "libmca_common_cuda", "mca_accelerator_cuda"],
        why: "Open MPI's cache closes it when its address is exported anew, or at MPI_Finalize",
        hint: "Nothing to do: Open MPI closes late by design. OMPI_MCA_rcache_rgpusm_leave_pinned=0 turns its cache off.",
        source: "Open MPI opal/mca/rcache/rgpusm/rcache_rgpusm_module.c mca_rcache_rgpusm_register; rcache_rgpusm_component.c leave_pinned",
    },
];

impl Cache {
    /// Returns the cache for which a library opens handles; `None` if there is none. `library` is the
    /// library's path or file name.
    pub fn of(library: &[u8]) -> Option<Cache> {
        CACHES.iter().find(|cache| cache.libraries.iter().any(|name| is_library_named(library, name))).copied()
    }
}

impl RuleSpec {
    /// Returns the severity of a finding in a call of a library, by the path of the library. A finding is a
    /// note if the library breaks the rule on purpose or harmlessly, or if only a cache has the object of the
    /// finding open.
    pub fn severity_in(&self, library: &[u8], cache: Option<Cache>) -> Severity {
        let is_by_design = cache.is_some() || self.exemption_for(library).is_some();
        if is_by_design { Severity::Note } else { self.severity }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_is_known_by_the_library_that_opens() {
        let why = |library: &str| Cache::of(library.as_bytes()).map_or("", |cache| cache.why);
        assert!(why("/opt/ucx/lib/ucx/libuct_cuda.so.0.0.0").starts_with("UCX"));
        assert!(why("libuct_cuda-65f2dd08.so.0.0.0").starts_with("UCX"), "the name in a wheel");
        assert!(why("libmpi.so.12").starts_with("MPICH") && why("libopen-pal.so.80").starts_with("Open MPI"));
        for library in ["/bin/app", "", "libuct.so.0", "libmpi.so.40", "libmyuct_cuda.so"] {
            assert_eq!(why(library), "", "{library}");
        }
    }

    #[test]
    fn each_has_a_hint_and_a_source() {
        for cache in CACHES {
            assert!(cache.hint.ends_with('.') && cache.hint.contains('='), "{}", cache.hint);
            assert!(!cache.why.ends_with('.') && !cache.source.is_empty(), "{}", cache.why);
        }
    }
}
