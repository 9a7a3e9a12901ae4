//! Methods of sharing device memory between two processes, and the conditions of each. If neither documentation nor
//! a measurement decides, the result is unknown.
//!
//! | way | needs | by |
//! | --- | --- | --- |
//! | legacy handle | one host; the exporter's device may be used by the importer; different pids | practice (NCCL#324, NCCL#1647); measured with driver 580: pid namespaces do not matter while the pids differ in number (LMCache#4551 found the same), users and ipc, mnt, net and uts namespaces do not matter |
//! | CUDA event | the same, one file system at /dev/shm, and one user | LMCache#4550, LMCache#4551: the handles resolve only where both share /dev/shm; measured with driver 580: the file there has the user in its name (`cuda.shm.UID.PID.N`, mode 0600), and cuIpcOpenEventHandle returns CUDA_ERROR_MAP_FAILED to another user, also to root |
//! | descriptor by SCM_RIGHTS | one host; a socket that both reach | unix(7); network_namespaces(7): abstract sockets are of a network namespace, those in directories are not |
//! | descriptor by pidfd_getfd | one host; the exporter's pid means it in the importer's pid namespace; the right to trace it | pidfd_open(2), pidfd_getfd(2), ptrace(2) "Ptrace access mode checking", Yama.rst |
//! | fabric handle | an IMEX channel that both may use; across hosts, one clique of one cluster | cuMemCreate; IMEX guide |
//! | /dev/shm | one host; one file system there | NCCL compares its device number (NCCL#248) |

use crate::queries::Descriptor;
use crate::system::Process;
use crate::system::process::Device;
use serde::Serialize;

/// Answer to whether a method works.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Feasibility {
    Yes,
    Unknown,
    No,
}

impl Feasibility {
    pub fn word(self) -> &'static str {
        match self {
            Feasibility::Yes => "possible",
            Feasibility::Unknown => "unknown",
            Feasibility::No => "impossible",
        }
    }
}

/// A method of sharing device memory between two processes, with the verdict.
#[derive(Serialize, Debug)]
pub struct MethodVerdict {
    pub way: &'static str,
    pub possible: Feasibility,
    pub because: Vec<VerdictReason>,
}

/// Reason for a verdict.
#[derive(Serialize, Clone, Debug)]
pub struct VerdictReason {
    pub possible: Feasibility,
    pub says: String,
    pub hint: Option<String>,
}

/// Hint for processes in different pid namespaces.
const PIDS: &str = "Share one pid namespace: docker run --pid=container:NAME or --pid=host; hostPID, or shareProcessNamespace within a pod.";

/// Reasons that result from checking a condition; none if the condition is met and needs no explanation.
type Reasons = Vec<VerdictReason>;

fn reason_against(says: impl Into<String>, hint: &str) -> Reasons {
    vec![VerdictReason { possible: Feasibility::No, says: says.into(), hint: Some(hint.to_owned()) }]
}

fn unknown_reason(says: impl Into<String>, hint: &str) -> Reasons {
    let hint = (!hint.is_empty()).then(|| hint.to_owned());
    vec![VerdictReason { possible: Feasibility::Unknown, says: says.into(), hint }]
}

/// Returns the reasons that result from a condition: none if the condition is met, `otherwise` if not, and "unknown" for `None`.
fn reasons_unless_met(is_met: Option<bool>, otherwise: Reasons, what: &str) -> Reasons {
    match is_met {
        Some(true) => Vec::new(),
        Some(false) => otherwise,
        None => unknown_reason(format!("the {what} of one of them is not known"), ""),
    }
}

fn reason_in_favor(says: impl Into<String>) -> Reasons {
    vec![VerdictReason { possible: Feasibility::Yes, says: says.into(), hint: None }]
}

/// Returns the verdicts on all methods between two processes.
pub fn judge_methods(one: &Process, other: &Process) -> Vec<MethodVerdict> {
    let host = || compare_hosts(one, other);
    let driver = || [compare_devices(one, other), compare_driver_versions(one, other)].concat();
    vec![
        judge_method("legacy handle (cuIpcOpenMemHandle)", host(), || {
            [driver(), compare_pid_namespaces(one, other)].concat()
        }),
        judge_method("CUDA event (cuIpcOpenEventHandle)", host(), || {
            [compare_shm_mounts(one, other), compare_users(one, other), driver(), compare_pid_namespaces(one, other)]
                .concat()
        }),
        judge_method("descriptor by SCM_RIGHTS", host(), || {
            [compare_socket_namespaces(one, other), compare_devices(one, other), compare_driver_versions(one, other)]
                .concat()
        }),
        judge_method("descriptor by pidfd_getfd", host(), || {
            [check_pidfd_getfd(one, other), compare_devices(one, other), compare_driver_versions(one, other)].concat()
        }),
        judge_method("fabric handle (IMEX)", Vec::new(), || compare_imex_channels(one, other)),
        judge_method("host memory in /dev/shm", host(), || {
            [compare_shm_mounts(one, other), compare_shm_users(one, other)].concat()
        }),
    ]
}

/// Returns the verdict on a method: judged by its first condition and, if that is met, by the other conditions.
fn judge_method(way: &'static str, first: Reasons, then: impl Fn() -> Reasons) -> MethodVerdict {
    let mut because = first;
    if because.iter().all(|reason| reason.possible != Feasibility::No) {
        because.extend(then());
    }
    let possible = because.iter().map(|reason| reason.possible).max().unwrap_or(Feasibility::Yes);
    // Keep only the deciding reasons. If nothing prevents the method, the remaining reasons limit it.
    because.retain(|reason| reason.possible == possible);
    if because.is_empty() {
        because = reason_in_favor("nothing is in the way");
    }
    MethodVerdict { way, possible, because }
}

fn compare_hosts(one: &Process, other: &Process) -> Reasons {
    match (&one.boot_id, &other.boot_id) {
        (Some(here), Some(there)) if here == there => Vec::new(),
        (Some(_), Some(_)) => reason_against(
            "they run on two hosts, or under two kernels",
            "Between hosts, only fabric handles share device memory (NVLink across nodes, with IMEX); else use a network.",
        ),
        _ => unknown_reason(
            "it is not known whether they run on one host: /proc/sys/kernel/random/boot_id is withheld",
            "",
        ),
    }
}

/// Compares the devices. If a container or a job does not have the exporter's device, the import fails; CUDA_VISIBLE_DEVICES does
/// not have this effect.
fn compare_devices(one: &Process, other: &Process) -> Reasons {
    const HINT: &str = "Give both all GPUs (docker run --gpus all; NVIDIA_VISIBLE_DEVICES=all; srun --gpus-per-node with --gpu-bind=none), and choose with CUDA_VISIBLE_DEVICES.";
    let (Some(here), Some(there)) = (&one.devices, &other.devices) else {
        return unknown_reason(
            "the GPUs of one of them are not known",
            "Run 'cupeer doctor -o FILE' where the driver can be loaded.",
        );
    };
    let common: Vec<&Device> =
        here.iter().filter(|device| there.iter().any(|other| other.uuid == device.uuid)).collect();
    if here.is_empty() || there.is_empty() {
        return reason_against("one of them may use no GPU", HINT);
    }
    if common.is_empty() {
        return reason_against("no GPU is given to both, and an importer must be allowed to use the exporter's", HINT);
    }
    if common.iter().all(|device| device.mig == Some(true)) {
        return reason_against(
            "the GPUs that both may use are divided (MIG), which supports no such sharing between instances",
            "nvidia-smi -i GPU -mig 0",
        );
    }
    if common.len() < here.len().max(there.len()) {
        let names: Vec<&str> = common.iter().map(|device| device.uuid.as_str()).collect();
        return reason_in_favor(format!("only for memory of GPUs that both may use: {}", names.join(", ")));
    }
    Vec::new()
}

/// Compares the effective users outside of all user namespaces, which is how the kernel module sees them.
fn compare_users(one: &Process, other: &Process) -> Reasons {
    let differ = reason_against(
        format!("{}, and the driver names an event's file in /dev/shm by its user", describe_users(one, other)),
        "Run both as one user, or let them wait for each other by a flag in shared device memory.",
    );
    reasons_unless_met(same_user(one, other), differ, "user")
}

/// Compares the users, because objects in /dev/shm have owners, and programs set their modes to 0600.
fn compare_shm_users(one: &Process, other: &Process) -> Reasons {
    let says = format!("{}: it depends on the modes of the files", describe_users(one, other));
    reasons_unless_met(same_user(one, other), unknown_reason(says, "Run both as one user."), "user")
}

fn same_user(one: &Process, other: &Process) -> Option<bool> {
    Some(one.host_user? == other.host_user?)
}

fn describe_users(one: &Process, other: &Process) -> String {
    let [here, there] = [one, other].map(|process| process.host_user.unwrap_or_default());
    format!("they run as users {here} and {there} (as the host counts)")
}

fn compare_driver_versions(one: &Process, other: &Process) -> Reasons {
    match (&one.libraries, &other.libraries) {
        (Some(here), Some(there)) if here != there => unknown_reason(
            format!("they use libraries of driver {here} and {there}, and handles between versions are not documented"),
            "Let the NVIDIA Container Toolkit mount the host's libraries into both.",
        ),
        _ => Vec::new(),
    }
}

/// Compares the pid namespaces. A handle contains the exporter's pid in its own namespace; an importer that has the same pid in
/// another namespace would take the handle for its own.
fn compare_pid_namespaces(one: &Process, other: &Process) -> Reasons {
    let differ = unknown_reason(
        "their pid namespaces differ: it works while the pids of the two programs are different numbers, and containers often start theirs as pid 1; UCX refuses it",
        PIDS,
    );
    reasons_unless_met(same_namespace(one, other, "pid"), differ, "pid namespace")
}

fn compare_shm_mounts(one: &Process, other: &Process) -> Reasons {
    match (&one.shm, &other.shm) {
        (Some(here), Some(there)) if here == there => Vec::new(),
        (Some(_), Some(_)) => reason_against(
            "they have different file systems at /dev/shm",
            "Share /dev/shm: docker run --ipc=container:NAME or --ipc=host; in Kubernetes hostIPC, or within a pod one emptyDir of medium Memory at /dev/shm.",
        ),
        _ => reason_against("one of them has no /dev/shm", "Mount one tmpfs at /dev/shm for both."),
    }
}

fn compare_socket_namespaces(one: &Process, other: &Process) -> Reasons {
    let (net, mnt) = (same_namespace(one, other, "net"), same_namespace(one, other, "mnt"));
    match (net, mnt) {
        (Some(true), _) | (_, Some(true)) => Vec::new(),
        (Some(false), _) => unknown_reason(
            "their network and mount namespaces differ: it needs a socket in a directory that both mount, because abstract ones do not cross",
            "Share the network (docker run --network=container:NAME or host; one pod), or mount one directory into both for the socket.",
        ),
        (None, _) => unknown_reason("the network namespace of one of them is not known", ""),
    }
}

/// Checks `pidfd_getfd` in both directions, because either process may be the importer.
fn check_pidfd_getfd(one: &Process, other: &Process) -> Reasons {
    let differ = reason_against(
        "their pid namespaces differ: the pid that an exporter sends means another process there, or none",
        PIDS,
    );
    let reasons = reasons_unless_met(same_namespace(one, other, "pid"), differ, "pid namespace");
    if !reasons.is_empty() {
        return reasons;
    }
    [obstacles_to_tracing(one, other), obstacles_to_tracing(other, one)].concat()
}

/// Decides whether `importer` may take a file descriptor of `exporter`: its own test must have succeeded, and the
/// exporter must not have another user or more capabilities, unless CAP_SYS_PTRACE holds in the exporter's user
/// namespace.
fn obstacles_to_tracing(importer: &Process, exporter: &Process) -> Reasons {
    const HINT: &str = "Set kernel.yama.ptrace_scope=0, call prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY) in the exporter, or give CAP_SYS_PTRACE (docker run --cap-add=SYS_PTRACE; capabilities.add in Kubernetes).";
    match importer.descriptor {
        Some(Descriptor::Taken) => {}
        Some(_) => {
            return reason_against(
                "one of them may take no descriptor of a process that is not its child (ptrace_scope, seccomp, or the kernel)",
                HINT,
            );
        }
        None => return unknown_reason("one of them has not tried pidfd_getfd", ""),
    }
    let same_space = same_namespace(importer, exporter, "user");
    if same_space == Some(true) && importer.has_ptrace_capability() == Some(true) {
        return Vec::new();
    }
    // CAP_SYS_PTRACE must hold in the namespace of the traced process, and of two namespaces at most one is inside the
    // other.
    let differ = reason_against(
        "their user namespaces differ, so that one of them at least may not trace the other",
        "Run both in one user namespace, or send descriptors by SCM_RIGHTS.",
    );
    let reasons = reasons_unless_met(same_space, differ, "user namespace");
    if !reasons.is_empty() {
        return reasons;
    }
    for (kind, mine, theirs) in [("user", &importer.user, &exporter.user), ("group", &importer.group, &exporter.group)]
    {
        let (Some(mine), Some(theirs)) = (mine, theirs) else {
            return unknown_reason(format!("the {kind} of one of them is not known"), "");
        };
        if [theirs.real, theirs.effective, theirs.saved].iter().any(|id| *id != mine.real) {
            return reason_against(
                format!("{kind} {} may not trace a process of {kind} {}", mine.real, theirs.real),
                "Run both as one user and group, or give the importer CAP_SYS_PTRACE.",
            );
        }
    }
    match (permitted_capabilities(importer), permitted_capabilities(exporter)) {
        (Some(mine), Some(theirs)) if theirs & !mine == 0 => Vec::new(),
        (Some(_), Some(_)) => reason_against(
            "the exporter has capabilities that the importer has not",
            "Start both with the same capabilities, or give the importer CAP_SYS_PTRACE.",
        ),
        _ => unknown_reason("the capabilities of one of them are not known", ""),
    }
}

fn compare_imex_channels(one: &Process, other: &Process) -> Reasons {
    const HINT: &str = "Make the channel's node for both: /dev/nvidia-caps-imex-channels/channel0 (mknod, or NVreg_CreateImexChannel0=1), and give it to the containers (NVIDIA_IMEX_CHANNELS=0, or a ComputeDomain in Kubernetes).";
    let (Some(here), Some(there)) = (&one.imex, &other.imex) else {
        return unknown_reason("the IMEX channels of one of them are not known", "");
    };
    match (here.is_empty(), there.is_empty()) {
        (false, false) => {}
        (true, true) => return reason_against("neither may use an IMEX channel", HINT),
        _ => return reason_against("one of them may use no IMEX channel", HINT),
    }
    if !here.iter().any(|channel| there.contains(channel)) {
        return reason_against("they may use no IMEX channel in common", HINT);
    }
    let (Some(mine), Some(theirs)) = (&one.devices, &other.devices) else {
        return unknown_reason("the GPUs of one of them are not known", "");
    };
    if [mine, theirs].iter().any(|devices| devices.iter().all(|device| device.fabric == Some(false))) {
        return reason_against(
            "one of them has no GPU that supports fabric handles",
            "Share by descriptors on one host.",
        );
    }
    if one.boot_id.is_some() && one.boot_id == other.boot_id {
        return compare_driver_versions(one, other);
    }
    let reach = |clique: &Option<String>| clique.is_some() && theirs.iter().any(|device| device.clique == *clique);
    match mine.iter().any(|device| reach(&device.clique)) {
        true => compare_driver_versions(one, other),
        false if [mine, theirs].iter().all(|all| all.iter().any(|device| device.clique.is_some())) => reason_against(
            "their GPUs are in different cliques of the fabric, or in different fabrics",
            "Start both on nodes of one NVLink domain and clique.",
        ),
        false => unknown_reason("it is not known whether their GPUs are in one NVLink fabric", ""),
    }
}

fn permitted_capabilities(process: &Process) -> Option<u64> {
    u64::from_str_radix(process.permitted.as_deref()?, 16).ok()
}

fn same_namespace(one: &Process, other: &Process, kind: &str) -> Option<bool> {
    Some(one.namespaces.get(kind)? == other.namespaces.get(kind)?)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
