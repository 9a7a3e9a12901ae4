//! Variables that change which devices a process sees, or how libraries share memory. Each is listed with its
//! effect; none is bad by itself.

use super::{ExaminedSystem, Fact, plain_fact, with_name};

/// Names of variables, and their effects. A name that ends in `*` is a prefix.
const KNOWN_VARIABLES: [(&str, &str); 23] = [
    ("CUDA_VISIBLE_DEVICES", "CUDA shows only these devices, and numbers them so"),
    ("CUDA_DEVICE_ORDER", "the order of CUDA's numbers"),
    ("CUDA_MPS_PIPE_DIRECTORY", "contexts are those of an MPS server"),
    ("NVIDIA_VISIBLE_DEVICES", "the devices that the container was given"),
    ("NVIDIA_IMEX_CHANNELS", "the IMEX channels that the container was given"),
    ("NCCL_P2P_DISABLE", "1: NCCL uses no peer access"),
    ("NCCL_P2P_LEVEL", "between which devices NCCL uses peer access"),
    ("NCCL_P2P_DIRECT_DISABLE", "1: NCCL uses no pointers of the same process"),
    ("NCCL_IGNORE_DISABLED_P2P", "1: NCCL ignores that NVML says no"),
    ("NCCL_SHM_DISABLE", "1: NCCL uses no /dev/shm"),
    ("NCCL_CUMEM_ENABLE", "0: NCCL shares by legacy handles, 1: by descriptors"),
    ("NCCL_CUMEM_HOST_ENABLE", "whether NCCL's host memory is of cuMemCreate"),
    ("NCCL_HOSTID", "which processes NCCL takes for those of one host"),
    ("NCCL_MNNVL_ENABLE", "whether NCCL uses fabric handles"),
    ("NCCL_NVLS_ENABLE", "whether NCCL uses multicast"),
    ("NVSHMEM_DISABLE_P2P", "NVSHMEM uses no peer access"),
    ("NVSHMEM_DISABLE_CUDA_VMM", "NVSHMEM shares by legacy handles"),
    ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True shares by descriptors"),
    ("PYTORCH_ALLOC_CONF", "expandable_segments:True shares by descriptors"),
    ("UCX_TLS", "without cuda_ipc, UCX opens no handles"),
    ("UCX_CUDA_IPC_*", "how UCX uses handles"),
    ("VLLM_SKIP_P2P_CHECK", "1: vLLM believes the driver about peer access"),
    ("GGML_CUDA_P2P", "llama.cpp uses peer access"),
];

fn environment_fact(value: impl ToString) -> Fact {
    with_name("environment", Ok(plain_fact(value)))
}

pub fn facts(system: &ExaminedSystem) -> Vec<Fact> {
    let meaning = |name: &str| {
        KNOWN_VARIABLES
            .iter()
            .find(|(known, _)| known.strip_suffix('*').map_or(*known == name, |begin| name.starts_with(begin)))
    };
    let mut set: Vec<Fact> = system
        .environment
        .iter()
        .filter_map(|(name, value)| {
            let (_, meaning) = meaning(name)?;
            Some(environment_fact(format!("{name}={value} ({meaning})")))
        })
        .collect();
    set.sort_by(|one, other| one.value.cmp(&other.value));
    if set.is_empty() {
        set.push(environment_fact("nothing set that changes what is shared"));
    }
    set
}
