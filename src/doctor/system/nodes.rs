//! Device nodes, and the right of this process to use them. The kernel returns EACCES for modes and owners, and
//! EPERM if the cgroup of a container does not list the device (Documentation/admin-guide/cgroup-v1/devices.rst;
//! with cgroup v2, a BPF program decides, which cannot be read).

use super::tree::KernelFileTree;
use super::{ExaminedSystem, Fact, Verdict, bad_fact, good_fact, plain_fact, with_name};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

const HINT: &str = "Give the container its devices (docker run --gpus all, or the NVIDIA Container Toolkit's runtime or CDI); on the host, run nvidia-modprobe -c 0 -u.";

pub fn facts(system: &ExaminedSystem) -> Vec<Fact> {
    let tree = &system.tree;
    let numbered = |name: &String| name.strip_prefix("nvidia").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let mut gpus: Vec<String> = tree.list_directory("/dev").unwrap_or_default().into_iter().filter(numbered).collect();
    gpus.sort_by_key(|name| name["nvidia".len()..].parse::<u32>().unwrap_or(u32::MAX));
    let facts = if gpus.is_empty() && !tree.exists("/dev/nvidiactl") {
        vec![judge_missing_nodes(tree)]
    } else {
        let mut facts = vec![
            judge_device_node(tree, "nvidiactl", "all CUDA calls: cuInit finds no device"),
            judge_device_node(tree, "nvidia-uvm", "all CUDA calls: cuInit fails, or no context can be created"),
        ];
        let breaks = "this GPU: CUDA does not show it to this process";
        facts.extend(gpus.iter().map(|name| judge_device_node(tree, name, breaks)));
        if gpus.is_empty() {
            facts.push(bad_fact("there is no /dev/nvidia0", "all CUDA calls: no GPU is there", HINT));
        }
        merge_usable_nodes(facts)
    };
    facts.into_iter().map(|fact| with_name("device nodes", Ok(fact))).collect()
}

fn judge_missing_nodes(tree: &KernelFileTree) -> Fact {
    if tree.exists("/dev/dxg") {
        return plain_fact("/dev/dxg of WSL 2");
    }
    if tree.exists("/dev/nvmap") {
        return plain_fact("/dev/nvmap of a Jetson");
    }
    if tree.exists("/proc/driver/nvidia/version") {
        return bad_fact("there is no /dev/nvidiactl", "all CUDA calls: cuInit finds no device", HINT);
    }
    // Without NVIDIA's kernel module, missing device nodes are not a problem.
    plain_fact("there is no /dev/nvidiactl, and no module of NVIDIA's")
}

fn judge_device_node(tree: &KernelFileTree, name: &str, breaks: &str) -> Fact {
    let path = format!("/dev/{name}");
    match tree.check_access(&path) {
        Ok(()) => good_fact(path),
        Err(withheld) if withheld.is_not_found() => bad_fact(withheld, breaks, HINT),
        Err(withheld) if withheld.errno() == Some(libc::EPERM) => {
            bad_fact(format!("{path}: the cgroup of this container does not list it"), breaks, HINT)
        }
        Err(_) => {
            let mode = tree.full_path(&path).metadata().map(|data| {
                let kind = if data.file_type().is_char_device() { "" } else { "no device, " };
                format!("{kind}mode {:o}, owner {}:{}", data.mode() & 0o7777, data.uid(), data.gid())
            });
            let mode = mode.unwrap_or_default();
            bad_fact(
                format!("{path}: this user may not use it ({mode})"),
                breaks,
                "Set NVreg_DeviceFileMode=0666 of the nvidia module, or join the group that owns the node.",
            )
        }
    }
}

/// Merges the facts about usable nodes into one, and returns it with the other facts.
fn merge_usable_nodes(facts: Vec<Fact>) -> Vec<Fact> {
    let (usable, mut others): (Vec<Fact>, Vec<Fact>) =
        facts.into_iter().partition(|fact| fact.verdict == Verdict::Good);
    let paths: Vec<String> = usable.into_iter().map(|fact| fact.value).collect();
    if !paths.is_empty() {
        others.insert(0, good_fact(format!("{} may be used", paths.join(", "))));
    }
    others
}
