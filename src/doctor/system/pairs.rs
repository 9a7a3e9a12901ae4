//! Peer access between two devices, as NVML and as CUDA report it. Programs query one or the other: NCCL queries
//! NVML; PyTorch and llama.cpp query CUDA.

use super::{ExaminedSystem, Fact, bad_fact, good_fact, unknown_fact, with_name};
use cupeer_nvidia::nvml::machine::NvmlDevicePair;
use cupeer_spec::abi::nvmlGpuP2PStatus_t;

const BREAKS: &str =
    "peer access between them: copies go through the host, and handles of one device cannot be opened on the other";

pub fn facts(system: &ExaminedSystem) -> Vec<Fact> {
    let Ok(nvml) = &system.queried.nvml else { return Vec::new() };
    nvml.pairs
        .iter()
        .filter_map(|pair| {
            let (from, to) = (&nvml.devices.get(pair.from)?.pci, &nvml.devices.get(pair.to)?.pci);
            let fact = judge_pair(pair, cuda_peer_access(system, from, to));
            Some(with_name("peer access", Ok(fact)).with_devices(&[from, to]))
        })
        .collect()
}

/// Returns true if CUDA reports peer access for a pair; `None` if the query failed, and `Err` if CUDA does not
/// show both devices.
fn cuda_peer_access(system: &ExaminedSystem, from: &str, to: &str) -> Result<Option<bool>, String> {
    let cuda = system.queried.cuda.as_ref().map_err(|why| format!("the driver: {why}"))?;
    let place = |pci: &str| {
        cuda.devices
            .iter()
            .position(|device| device.pci == pci)
            .ok_or("CUDA does not show both to this process".to_owned())
    };
    let (from, to) = (place(from)?, place(to)?);
    Ok(cuda.pairs.iter().find(|pair| (pair.from, pair.to) == (from, to)).and_then(|pair| pair.reaches))
}

fn judge_pair(pair: &NvmlDevicePair, cuda: Result<Option<bool>, String>) -> Fact {
    let (Some(read), Some(write)) = (pair.read, pair.write) else {
        return unknown_fact("NVML does not say");
    };
    let worst = if read == 0 { write } else { read };
    let status = nvmlGpuP2PStatus_t(worst);
    let status = status.name().map_or(worst.to_string(), |name| name.trim_start_matches("NVML_P2P_STATUS_").to_owned());
    let link = if pair.nvlink == Some(0) { "NVLink" } else { "PCIe" };
    match (worst == 0, cuda) {
        (true, Ok(Some(true))) => good_fact(format!("by {link}, for NVML and for CUDA")),
        (false, Ok(Some(true))) => bad_fact(
            format!("CUDA says yes, NVML says {status}"),
            "programs decide apart: those that ask CUDA (PyTorch, vLLM, llama.cpp) use peer access, those that ask NVML (NCCL) do not",
            "Test the pair with data before you trust CUDA's answer; NCCL_IGNORE_DISABLED_P2P=1 makes NCCL ignore what NVML says.",
        ),
        (true, Ok(Some(false))) => bad_fact(
            format!("NVML says OK by {link}, CUDA says no"),
            BREAKS,
            "Look at MIG, and at what is between the devices (nvidia-smi topo -m); virtual machines and some chipsets forbid it.",
        ),
        (false, Ok(Some(false))) => bad_fact(format!("none: {status}"), BREAKS, p2p_status_hint(&status)),
        (_, Ok(None)) => unknown_fact(format!("NVML says {status}; cuDeviceCanAccessPeer failed")),
        (_, Err(why)) => unknown_fact(format!("NVML says {status}; {why}")),
    }
}

/// Returns a hint for a status of NVML's (`nvmlGpuP2PStatus_t`), by the end of its name.
fn p2p_status_hint(status: &str) -> &'static str {
    match status {
        "CHIPSET_NOT_SUPPORTED" => {
            "The driver does not trust this chipset; in a virtual machine, its host must show the devices as belonging together (QEMU: x-nv-gpudirect-clique)."
        }
        "DISABLED_BY_REGKEY" => "Take the key out of NVreg_RegistryDwords (/etc/modprobe.d).",
        "IOH_TOPOLOGY_NOT_SUPPORTED" => {
            "The devices hang on two processors between which the driver does not allow it: use devices of one."
        }
        _ => "These devices do not support it; programs must copy through the host.",
    }
}
