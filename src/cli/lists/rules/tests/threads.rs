//! Links to the threads in which users met a violation of a rule.

/// The repositories of the projects whose threads the rules name.
const REPOSITORIES: &[(&str, &str)] = &[
    ("CUDA.jl", "JuliaGPU/CUDA.jl"),
    ("DALI", "NVIDIA/DALI"),
    ("DeepEP", "deepseek-ai/DeepEP"),
    ("Fuser", "NVIDIA/Fuser"),
    ("HAMi", "Project-HAMi/HAMi"),
    ("LMCache", "LMCache/LMCache"),
    ("Mooncake", "kvcache-ai/Mooncake"),
    ("NCCL", "NVIDIA/nccl"),
    ("TensorRT-LLM", "NVIDIA/TensorRT-LLM"),
    ("UCX", "openucx/ucx"),
    ("Vox-Fusion", "zju3dv/Vox-Fusion"),
    ("aiter", "ROCm/aiter"),
    ("alpaka", "alpaka-group/alpaka"),
    ("candle", "huggingface/candle"),
    ("cuda-api-wrappers", "eyalroz/cuda-api-wrappers"),
    ("cuda-python", "NVIDIA/cuda-python"),
    ("cudarc", "coreylowman/cudarc"),
    ("cupy", "cupy/cupy"),
    ("cutorch", "torch/cutorch"),
    ("dask-cuda", "rapidsai/dask-cuda"),
    ("flashinfer", "flashinfer-ai/flashinfer"),
    ("hip", "ROCm/hip"),
    ("horovod", "horovod/horovod"),
    ("jaxmg", "flatironinstitute/jaxmg"),
    ("llama.cpp", "ggml-org/llama.cpp"),
    ("mpich", "pmodels/mpich"),
    ("mscclpp", "microsoft/mscclpp"),
    ("ms-swift", "modelscope/ms-swift"),
    ("mstar", "mstar-project/mstar"),
    ("nixl", "ai-dynamo/nixl"),
    ("numba-cuda", "NVIDIA/numba-cuda"),
    ("nvshmem", "NVIDIA/nvshmem"),
    ("ompi", "open-mpi/ompi"),
    ("owl", "owl-project/owl"),
    ("pycuda", "inducer/pycuda"),
    ("pytorch", "pytorch/pytorch"),
    ("quda", "lattice/quda"),
    ("ray", "ray-project/ray"),
    ("ray_lightning", "ray-project/ray_lightning"),
    ("rmm", "rapidsai/rmm"),
    ("sglang", "sgl-project/sglang"),
    ("tensorflow", "tensorflow/tensorflow"),
    ("tensorpipe", "pytorch/tensorpipe"),
    ("tesseract-core", "pasteurlabs/tesseract-core"),
    ("torchcomms", "meta-pytorch/torchcomms"),
    ("triton", "triton-inference-server/server"),
    ("ucx-py", "rapidsai/ucx-py"),
    ("video-stitcher", "reco-project/video-stitcher"),
    ("vllm", "vllm-project/vllm"),
    ("xla", "openxla/xla"),
    ("ros2_cuda_ipc", "dskkato/ros2_cuda_ipc"),
    ("rosidl_buffer_backends", "ros2/rosidl_buffer_backends"),
    ("torch_memory_saver", "fzyzcjy/torch_memory_saver"),
    ("verl", "verl-project/verl"),
    ("vime", "vllm-project/vime"),
];

/// Returns the address of a thread such as `NCCL#360`, or of a file such as `vllm:setup.py`; `None` if it is neither, or of an
/// unknown project.
pub fn url(seen: &str) -> Option<String> {
    let (project, place) = seen.split_once(['#', ':'])?;
    let (_, repository) = REPOSITORIES.iter().find(|(name, _)| *name == project)?;
    let url = format!("https://github.com/{repository}");
    if seen[project.len()..].starts_with(':') {
        return Some(format!("{url}/blob/main/{place}"));
    }
    place.parse::<u32>().ok().map(|number| format!("{url}/issues/{number}"))
}

#[test]
fn all_that_was_seen_of_a_rule_has_an_address() {
    for rule in cupeer_rules::RULES {
        for seen in super::super::observed_threads(rule) {
            assert!(url(seen).is_some(), "{}: {seen}", rule.name());
        }
    }
    assert_eq!(url("vllm:a/b.py").unwrap(), "https://github.com/vllm-project/vllm/blob/main/a/b.py");
    assert_eq!(url("NCCL#360").unwrap(), "https://github.com/NVIDIA/nccl/issues/360");
    assert!(url("NCCL").is_none() && url("nobody#1").is_none() && url("NCCL#x").is_none());
}
