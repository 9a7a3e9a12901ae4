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
pub enum Possible {
    Yes,
    Unknown,
    No,
}

impl Possible {
    pub fn word(self) -> &'static str {
        match self {
            Possible::Yes => "possible",
            Possible::Unknown => "unknown",
            Possible::No => "impossible",
        }
    }
}

/// A method of sharing device memory between two processes, with the verdict.
#[derive(Serialize, Debug)]
pub struct Method {
    pub way: &'static str,
    pub possible: Possible,
    pub because: Vec<Reason>,
}

/// Reason for a verdict.
#[derive(Serialize, Clone, Debug)]
pub struct Reason {
    pub possible: Possible,
    pub says: String,
    pub hint: Option<String>,
}

/// Hint for processes in different pid namespaces.
const PIDS: &str = "Share one pid namespace: docker run --pid=container:NAME or --pid=host; hostPID, or shareProcessNamespace within a pod.";

/// Reasons that result from checking a condition; none if the condition is met and needs no explanation.
type Reasons = Vec<Reason>;

fn no(says: impl Into<String>, hint: &str) -> Reasons {
    vec![Reason { possible: Possible::No, says: says.into(), hint: Some(hint.to_owned()) }]
}

fn unknown(says: impl Into<String>, hint: &str) -> Reasons {
    let hint = (!hint.is_empty()).then(|| hint.to_owned());
    vec![Reason { possible: Possible::Unknown, says: says.into(), hint }]
}

/// Returns the reasons that result from a condition: none if the condition is met, `otherwise` if not, and "unknown" for `None`.
fn require(is_met: Option<bool>, otherwise: Reasons, what: &str) -> Reasons {
    match is_met {
        Some(true) => Vec::new(),
        Some(false) => otherwise,
        None => unknown(format!("the {what} of one of them is not known"), ""),
    }
}

fn yes(says: impl Into<String>) -> Reasons {
    vec![Reason { possible: Possible::Yes, says: says.into(), hint: None }]
}

/// Returns the verdicts on all methods between two processes.
pub fn methods(one: &Process, other: &Process) -> Vec<Method> {
    let host = || host(one, other);
    let driver = || [devices(one, other), versions(one, other)].concat();
    vec![
        method("legacy handle (cuIpcOpenMemHandle)", host(), || [driver(), pids(one, other)].concat()),
        method("CUDA event (cuIpcOpenEventHandle)", host(), || {
            [shm(one, other), users(one, other), driver(), pids(one, other)].concat()
        }),
        method("descriptor by SCM_RIGHTS", host(), || {
            [sockets(one, other), devices(one, other), versions(one, other)].concat()
        }),
        method("descriptor by pidfd_getfd", host(), || {
            [tracing(one, other), devices(one, other), versions(one, other)].concat()
        }),
        method("fabric handle (IMEX)", Vec::new(), || fabric(one, other)),
        method("host memory in /dev/shm", host(), || [shm(one, other), shm_users(one, other)].concat()),
    ]
}

/// Returns the verdict on a method: judged by its first condition and, if that is met, by the other conditions.
fn method(way: &'static str, first: Reasons, then: impl Fn() -> Reasons) -> Method {
    let mut because = first;
    if because.iter().all(|reason| reason.possible != Possible::No) {
        because.extend(then());
    }
    let possible = because.iter().map(|reason| reason.possible).max().unwrap_or(Possible::Yes);
    // Keep only the deciding reasons. If nothing prevents the method, the remaining reasons limit it.
    because.retain(|reason| reason.possible == possible);
    if because.is_empty() {
        because = yes("nothing is in the way");
    }
    Method { way, possible, because }
}

fn host(one: &Process, other: &Process) -> Reasons {
    match (&one.boot_id, &other.boot_id) {
        (Some(here), Some(there)) if here == there => Vec::new(),
        (Some(_), Some(_)) => no(
            "they run on two hosts, or under two kernels",
            "Between hosts, only fabric handles share device memory (NVLink across nodes, with IMEX); else use a network.",
        ),
        _ => unknown(
            "it is not known whether they run on one host: /proc/sys/kernel/random/boot_id is withheld",
            "",
        ),
    }
}

/// Compares the devices. If a container or a job does not have the exporter's device, the import fails; CUDA_VISIBLE_DEVICES does
/// not have this effect.
fn devices(one: &Process, other: &Process) -> Reasons {
    const HINT: &str = "Give both all GPUs (docker run --gpus all; NVIDIA_VISIBLE_DEVICES=all; srun --gpus-per-node with --gpu-bind=none), and choose with CUDA_VISIBLE_DEVICES.";
    let (Some(here), Some(there)) = (&one.devices, &other.devices) else {
        return unknown(
            "the GPUs of one of them are not known",
            "Run 'cupeer doctor -o FILE' where the driver can be loaded.",
        );
    };
    let common: Vec<&Device> =
        here.iter().filter(|device| there.iter().any(|other| other.uuid == device.uuid)).collect();
    if here.is_empty() || there.is_empty() {
        return no("one of them may use no GPU", HINT);
    }
    if common.is_empty() {
        return no("no GPU is given to both, and an importer must be allowed to use the exporter's", HINT);
    }
    if common.iter().all(|device| device.mig == Some(true)) {
        return no(
            "the GPUs that both may use are divided (MIG), which supports no such sharing between instances",
            "nvidia-smi -i GPU -mig 0",
        );
    }
    if common.len() < here.len().max(there.len()) {
        let names: Vec<&str> = common.iter().map(|device| device.uuid.as_str()).collect();
        return yes(format!("only for memory of GPUs that both may use: {}", names.join(", ")));
    }
    Vec::new()
}

/// Compares the effective users outside of all user namespaces, which is how the kernel module sees them.
fn users(one: &Process, other: &Process) -> Reasons {
    let differ = no(
        format!("{}, and the driver names an event's file in /dev/shm by its user", two_users(one, other)),
        "Run both as one user, or let them wait for each other by a flag in shared device memory.",
    );
    require(same_user(one, other), differ, "user")
}

/// Compares the users, because objects in /dev/shm have owners, and programs set their modes to 0600.
fn shm_users(one: &Process, other: &Process) -> Reasons {
    let says = format!("{}: it depends on the modes of the files", two_users(one, other));
    require(same_user(one, other), unknown(says, "Run both as one user."), "user")
}

fn same_user(one: &Process, other: &Process) -> Option<bool> {
    Some(one.host_user? == other.host_user?)
}

fn two_users(one: &Process, other: &Process) -> String {
    let [here, there] = [one, other].map(|process| process.host_user.unwrap_or_default());
    format!("they run as users {here} and {there} (as the host counts)")
}

fn versions(one: &Process, other: &Process) -> Reasons {
    match (&one.libraries, &other.libraries) {
        (Some(here), Some(there)) if here != there => unknown(
            format!(
                "they use libraries of driver {here} and {there}, and handles between versions are not documented"
            ),
            "Let the NVIDIA Container Toolkit mount the host's libraries into both.",
        ),
        _ => Vec::new(),
    }
}

/// Compares the pid namespaces. A handle contains the exporter's pid in its own namespace; an importer that has the same pid in
/// another namespace would take the handle for its own.
fn pids(one: &Process, other: &Process) -> Reasons {
    let differ = unknown(
        "their pid namespaces differ: it works while the pids of the two programs are different numbers, and containers often start theirs as pid 1; UCX refuses it",
        PIDS,
    );
    require(same(one, other, "pid"), differ, "pid namespace")
}

fn shm(one: &Process, other: &Process) -> Reasons {
    match (&one.shm, &other.shm) {
        (Some(here), Some(there)) if here == there => Vec::new(),
        (Some(_), Some(_)) => no(
            "they have different file systems at /dev/shm",
            "Share /dev/shm: docker run --ipc=container:NAME or --ipc=host; in Kubernetes hostIPC, or within a pod one emptyDir of medium Memory at /dev/shm.",
        ),
        _ => no("one of them has no /dev/shm", "Mount one tmpfs at /dev/shm for both."),
    }
}

fn sockets(one: &Process, other: &Process) -> Reasons {
    let (net, mnt) = (same(one, other, "net"), same(one, other, "mnt"));
    match (net, mnt) {
        (Some(true), _) | (_, Some(true)) => Vec::new(),
        (Some(false), _) => unknown(
            "their network and mount namespaces differ: it needs a socket in a directory that both mount, because abstract ones do not cross",
            "Share the network (docker run --network=container:NAME or host; one pod), or mount one directory into both for the socket.",
        ),
        (None, _) => unknown("the network namespace of one of them is not known", ""),
    }
}

/// Checks `pidfd_getfd` in both directions, because either process may be the importer.
fn tracing(one: &Process, other: &Process) -> Reasons {
    let differ = no(
        "their pid namespaces differ: the pid that an exporter sends means another process there, or none",
        PIDS,
    );
    let reasons = require(same(one, other, "pid"), differ, "pid namespace");
    if !reasons.is_empty() {
        return reasons;
    }
    [may_trace(one, other), may_trace(other, one)].concat()
}

/// Decides whether `importer` may take a file descriptor of `exporter`: its own test must have succeeded, and the
/// exporter must not have another user or more capabilities, unless CAP_SYS_PTRACE holds in the exporter's user
/// namespace.
fn may_trace(importer: &Process, exporter: &Process) -> Reasons {
    const HINT: &str = "Set kernel.yama.ptrace_scope=0, call prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY) in the exporter, or give CAP_SYS_PTRACE (docker run --cap-add=SYS_PTRACE; capabilities.add in Kubernetes).";
    match importer.descriptor {
        Some(Descriptor::Taken) => {}
        Some(_) => {
            return no(
                "one of them may take no descriptor of a process that is not its child (ptrace_scope, seccomp, or the kernel)",
                HINT,
            );
        }
        None => return unknown("one of them has not tried pidfd_getfd", ""),
    }
    let same_space = same(importer, exporter, "user");
    if same_space == Some(true) && importer.has_ptrace() == Some(true) {
        return Vec::new();
    }
    // CAP_SYS_PTRACE must hold in the namespace of the traced process, and of two namespaces at most one is inside the
    // other.
    let differ = no(
        "their user namespaces differ, so that one of them at least may not trace the other",
        "Run both in one user namespace, or send descriptors by SCM_RIGHTS.",
    );
    let reasons = require(same_space, differ, "user namespace");
    if !reasons.is_empty() {
        return reasons;
    }
    for (kind, mine, theirs) in
        [("user", &importer.user, &exporter.user), ("group", &importer.group, &exporter.group)]
    {
        let (Some(mine), Some(theirs)) = (mine, theirs) else {
            return unknown(format!("the {kind} of one of them is not known"), "");
        };
        if [theirs.real, theirs.effective, theirs.saved].iter().any(|id| *id != mine.real) {
            return no(
                format!("{kind} {} may not trace a process of {kind} {}", mine.real, theirs.real),
                "Run both as one user and group, or give the importer CAP_SYS_PTRACE.",
            );
        }
    }
    match (bits(importer), bits(exporter)) {
        (Some(mine), Some(theirs)) if theirs & !mine == 0 => Vec::new(),
        (Some(_), Some(_)) => no(
            "the exporter has capabilities that the importer has not",
            "Start both with the same capabilities, or give the importer CAP_SYS_PTRACE.",
        ),
        _ => unknown("the capabilities of one of them are not known", ""),
    }
}

fn fabric(one: &Process, other: &Process) -> Reasons {
    const HINT: &str = "Make the channel's node for both: /dev/nvidia-caps-imex-channels/channel0 (mknod, or NVreg_CreateImexChannel0=1), and give it to the containers (NVIDIA_IMEX_CHANNELS=0, or a ComputeDomain in Kubernetes).";
    let (Some(here), Some(there)) = (&one.imex, &other.imex) else {
        return unknown("the IMEX channels of one of them are not known", "");
    };
    match (here.is_empty(), there.is_empty()) {
        (false, false) => {}
        (true, true) => return no("neither may use an IMEX channel", HINT),
        _ => return no("one of them may use no IMEX channel", HINT),
    }
    if !here.iter().any(|channel| there.contains(channel)) {
        return no("they may use no IMEX channel in common", HINT);
    }
    let (Some(mine), Some(theirs)) = (&one.devices, &other.devices) else {
        return unknown("the GPUs of one of them are not known", "");
    };
    if [mine, theirs].iter().any(|devices| devices.iter().all(|device| device.fabric == Some(false))) {
        return no(
            "one of them has no GPU that supports fabric handles",
            "Share by descriptors on one host.",
        );
    }
    if one.boot_id.is_some() && one.boot_id == other.boot_id {
        return versions(one, other);
    }
    let reach =
        |clique: &Option<String>| clique.is_some() && theirs.iter().any(|device| device.clique == *clique);
    match mine.iter().any(|device| reach(&device.clique)) {
        true => versions(one, other),
        false if [mine, theirs].iter().all(|all| all.iter().any(|device| device.clique.is_some())) => no(
            "their GPUs are in different cliques of the fabric, or in different fabrics",
            "Start both on nodes of one NVLink domain and clique.",
        ),
        false => unknown("it is not known whether their GPUs are in one NVLink fabric", ""),
    }
}

fn bits(process: &Process) -> Option<u64> {
    u64::from_str_radix(process.permitted.as_deref()?, 16).ok()
}

fn same(one: &Process, other: &Process, kind: &str) -> Option<bool> {
    Some(one.namespaces.get(kind)? == other.namespaces.get(kind)?)
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
