//! Permissions and limits of this process: taking file descriptors of other processes, /dev/shm, and locked memory;
//! and the identity that `between` compares.

use super::process::Process;
use super::tree::Readable;
use super::{ExaminedSystem, Fact, bad_fact, good_fact, plain_fact, unknown_fact, with_name};
use crate::queries::Descriptor;
use cupeer_report::moments::bytes as in_words;

/// Docker's default size of /dev/shm, in bytes.
const DOCKER_SHM_SIZE: u64 = 64 << 20;

pub fn facts(system: &ExaminedSystem) -> Vec<Fact> {
    let process = system.process();
    vec![
        with_name("pidfd_getfd", Ok(judge_pidfd_getfd(system, &process))),
        with_name("/dev/shm", judge_shm_size(system)),
        with_name("locked memory", judge_memlock_limit(system)),
        with_name("namespaces", Ok(list_namespaces(&process))),
        with_name("user", Ok(describe_user(&process))),
    ]
}

/// Judges the right to take file descriptors. pidfd_getfd requires PTRACE_MODE_ATTACH_REALCREDS (pidfd_getfd(2)),
/// which Yama allows only for descendants if ptrace_scope is 1 (Documentation/admin-guide/LSM/Yama.rst). Docker's
/// seccomp profile allows the call only with CAP_SYS_PTRACE.
fn judge_pidfd_getfd(system: &ExaminedSystem, process: &Process) -> Fact {
    const BREAKS: &str = "descriptors that an importer takes by pidfd_getfd: tensors in PyTorch's expandable segments ('pidfd_getfd: Operation not permitted'), virtual memory of UCX";
    let scope = match process.ptrace_scope {
        Some(0) => "no limit of Yama".to_owned(),
        Some(scope) => format!("ptrace_scope {scope}"),
        None => "ptrace_scope is not shown".to_owned(),
    };
    let filter = if process.seccomp == Some(2) { ", a seccomp filter" } else { "" };
    let capability = match process.has_ptrace_capability() {
        Some(true) => ", CAP_SYS_PTRACE",
        Some(false) => ", no CAP_SYS_PTRACE",
        None => "",
    };
    let value = format!("{scope}{filter}{capability}");
    match &system.queried.descriptor {
        Some(Descriptor::Taken) => good_fact(format!("works: {value}")),
        Some(Descriptor::NotOpened(error) | Descriptor::Refused(error)) if *error == libc::ENOSYS => bad_fact(
            format!("the kernel has no such call, or a filter hides it: {value}"),
            BREAKS,
            "It needs Linux 5.6; in a container, allow pidfd_open and pidfd_getfd in the seccomp profile (docker run --cap-add=SYS_PTRACE).",
        ),
        Some(Descriptor::NotOpened(error) | Descriptor::Refused(error)) => {
            let why = std::io::Error::from_raw_os_error(*error).to_string();
            let why = why.split(" (os error").next().unwrap_or(&why).to_owned();
            bad_fact(
                format!("{why}: {value}"),
                BREAKS,
                "Set kernel.yama.ptrace_scope=0, call prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY) in the exporter, or give CAP_SYS_PTRACE (docker run --cap-add=SYS_PTRACE; capabilities.add in Kubernetes).",
            )
        }
        None => unknown_fact(format!("the process that was to try it said nothing: {value}")),
    }
}

/// Judges the size of /dev/shm. "Docker containers are by default limited in shared and pinned memory resources": NCCL's user
/// guide, Troubleshooting, which advises --shm-size=1g --ulimit memlock=-1.
fn judge_shm_size(system: &ExaminedSystem) -> Readable<Fact> {
    const BREAKS: &str = "shared memory of the host (NCCL's SHM transport, PyTorch's DataLoader): 'No space left on device' or a bus error; CUDA events between processes";
    const HINT: &str =
        "docker run --shm-size=1g or --ipc=host; in Kubernetes an emptyDir of medium Memory at /dev/shm.";
    let shm = match system.tree.file_system_of("/dev/shm") {
        Err(withheld) if withheld.is_not_found() => return Ok(bad_fact(withheld, BREAKS, HINT)),
        shm => shm?,
    };
    let value = format!("{} of {} free", in_words(shm.free), in_words(shm.size));
    let is_small = shm.size <= DOCKER_SHM_SIZE || shm.free < DOCKER_SHM_SIZE / 2;
    Ok(if is_small { bad_fact(value, BREAKS, HINT) } else { good_fact(value) })
}

/// Judges the limit of locked memory. RLIMIT_MEMLOCK limits memory that InfiniBand's verbs register (ibv_reg_mr(3)); CUDA's
/// own pinned memory does not count.
fn judge_memlock_limit(system: &ExaminedSystem) -> Readable<Fact> {
    let text = system.tree.read_text("/proc/self/limits")?;
    let limit = text
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))
        .and_then(|rest| rest.split_whitespace().next());
    let has_infiniband = system.tree.list_directory("/sys/class/infiniband").is_ok_and(|names| !names.is_empty());
    let words = |limit: &str| limit.parse().map_or(limit.to_owned(), in_words);
    Ok(match (limit, has_infiniband) {
        (None, _) => unknown_fact("/proc/self/limits does not say"),
        (Some("unlimited"), _) => good_fact("unlimited"),
        (Some(limit), false) => {
            plain_fact(format!("at most {}, and there is no InfiniBand that would need more", words(limit)))
        }
        (Some(limit), true) => bad_fact(
            format!("at most {}", words(limit)),
            "registration of memory with InfiniBand (ibv_reg_mr): NCCL's IB transport, UCX, GPUDirect RDMA",
            "ulimit -l unlimited; docker run --ulimit memlock=-1.",
        ),
    })
}

fn list_namespaces(process: &Process) -> Fact {
    let of = |kind: &str| process.namespaces.get(kind).map(|id| format!("{kind} {id}"));
    let known: Vec<String> = ["pid", "ipc", "mnt", "net", "user"].into_iter().filter_map(of).collect();
    match known.is_empty() {
        true => unknown_fact("/proc/self/ns cannot be read"),
        false => plain_fact(known.join(", ")),
    }
}

fn describe_user(process: &Process) -> Fact {
    match (&process.user, process.host_user) {
        (Some(user), Some(outside)) if outside != user.effective => {
            plain_fact(format!("{}, which is {outside} outside of its namespace", user.effective))
        }
        (Some(user), _) => plain_fact(user.effective),
        (None, _) => unknown_fact("/proc/self/status cannot be read"),
    }
}
