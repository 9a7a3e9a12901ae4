//! Device nodes, and the right of this process to use them. The kernel returns EACCES for modes and owners, and
//! EPERM if the cgroup of a container does not list the device (Documentation/admin-guide/cgroup-v1/devices.rst;
//! with cgroup v2, a BPF program decides, which cannot be read).

use super::tree::Tree;
use super::{Fact, System, Verdict, bad, good, named, plain};
use std::os::unix::fs::{FileTypeExt, MetadataExt};

const HINT: &str = "Give the container its devices (docker run --gpus all, or the NVIDIA Container Toolkit's runtime or CDI); on the host, run nvidia-modprobe -c 0 -u.";

pub fn facts(system: &System) -> Vec<Fact> {
    let tree = &system.tree;
    let numbered =
        |name: &String| name.strip_prefix("nvidia").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let mut gpus: Vec<String> = tree.names("/dev").unwrap_or_default().into_iter().filter(numbered).collect();
    gpus.sort_by_key(|name| name["nvidia".len()..].parse::<u32>().unwrap_or(u32::MAX));
    let facts = if gpus.is_empty() && !tree.exists("/dev/nvidiactl") {
        vec![none(tree)]
    } else {
        let mut facts = vec![
            node(tree, "nvidiactl", "all CUDA calls: cuInit finds no device"),
            node(tree, "nvidia-uvm", "all CUDA calls: cuInit fails, or no context can be created"),
        ];
        let breaks = "this GPU: CUDA does not show it to this process";
        facts.extend(gpus.iter().map(|name| node(tree, name, breaks)));
        if gpus.is_empty() {
            facts.push(bad("there is no /dev/nvidia0", "all CUDA calls: no GPU is there", HINT));
        }
        merged(facts)
    };
    facts.into_iter().map(|fact| named("device nodes", Ok(fact))).collect()
}

fn none(tree: &Tree) -> Fact {
    if tree.exists("/dev/dxg") {
        return plain("/dev/dxg of WSL 2");
    }
    if tree.exists("/dev/nvmap") {
        return plain("/dev/nvmap of a Jetson");
    }
    if tree.exists("/proc/driver/nvidia/version") {
        return bad("there is no /dev/nvidiactl", "all CUDA calls: cuInit finds no device", HINT);
    }
    // Without a kernel module, no GPU lacks device nodes.
    plain("there is no /dev/nvidiactl, and no module of NVIDIA's")
}

fn node(tree: &Tree, name: &str, breaks: &str) -> Fact {
    let path = format!("/dev/{name}");
    match tree.may_use(&path) {
        Ok(()) => good(path),
        Err(withheld) if withheld.is_absent() => bad(withheld, breaks, HINT),
        Err(withheld) if withheld.errno() == Some(libc::EPERM) => {
            bad(format!("{path}: the cgroup of this container does not list it"), breaks, HINT)
        }
        Err(_) => {
            let mode = tree.at(&path).metadata().map(|data| {
                let kind = if data.file_type().is_char_device() { "" } else { "no device, " };
                format!("{kind}mode {:o}, owner {}:{}", data.mode() & 0o7777, data.uid(), data.gid())
            });
            let mode = mode.unwrap_or_default();
            bad(
                format!("{path}: this user may not use it ({mode})"),
                breaks,
                "Set NVreg_DeviceFileMode=0666 of the nvidia module, or join the group that owns the node.",
            )
        }
    }
}

/// Merges the facts about usable nodes into one, and returns it with the other facts.
fn merged(facts: Vec<Fact>) -> Vec<Fact> {
    let (usable, mut others): (Vec<Fact>, Vec<Fact>) =
        facts.into_iter().partition(|fact| fact.verdict == Verdict::Good);
    let paths: Vec<String> = usable.into_iter().map(|fact| fact.value).collect();
    if !paths.is_empty() {
        others.insert(0, good(format!("{} may be used", paths.join(", "))));
    }
    others
}
