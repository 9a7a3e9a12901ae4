//! What this process may do: take descriptors of others, use /dev/shm, lock memory. And what it is, which two processes compare
//! (`between`).

use super::Fact;
use super::System;
use super::process::Process;
use crate::asked::Descriptor;
use cupeer_report::moments::bytes as in_words;

/// Docker's size of /dev/shm where nobody asks for another.
const DOCKERS: u64 = 64 << 20;

pub fn facts(system: &System) -> Vec<Fact> {
    let process = system.process();
    vec![descriptors(system, &process), shm(system), memlock(system), namespaces(&process), user(&process)]
}

/// pidfd_getfd asks for PTRACE_MODE_ATTACH_REALCREDS (pidfd_getfd(2)), which Yama allows only for descendants where
/// ptrace_scope is 1 (Documentation/admin-guide/LSM/Yama.rst), and Docker's seccomp profile allows the call only with
/// CAP_SYS_PTRACE.
fn descriptors(system: &System, process: &Process) -> Fact {
    const NAME: &str = "pidfd_getfd";
    const BREAKS: &str = "descriptors that an importer takes by pidfd_getfd: tensors in PyTorch's expandable segments ('pidfd_getfd: Operation not permitted'), virtual memory of UCX";
    let scope = match process.ptrace_scope {
        Some(0) => "no limit of Yama".to_owned(),
        Some(scope) => format!("ptrace_scope {scope}"),
        None => "ptrace_scope is not shown".to_owned(),
    };
    let filter = if process.seccomp == Some(2) { ", a seccomp filter" } else { "" };
    let capability = match process.has_ptrace() {
        Some(true) => ", CAP_SYS_PTRACE",
        Some(false) => ", no CAP_SYS_PTRACE",
        None => "",
    };
    let value = format!("{scope}{filter}{capability}");
    match &system.asked.descriptor {
        Some(Descriptor::Taken) => Fact::good(NAME, format!("works: {value}")),
        Some(Descriptor::NotOpened(error) | Descriptor::Refused(error)) if *error == libc::ENOSYS => {
            Fact::bad(
                NAME,
                format!("the kernel has no such call, or a filter hides it: {value}"),
                BREAKS,
                "It needs Linux 5.6; in a container, allow pidfd_open and pidfd_getfd in the seccomp profile (docker run --cap-add=SYS_PTRACE).",
            )
        }
        Some(Descriptor::NotOpened(error) | Descriptor::Refused(error)) => {
            let why = std::io::Error::from_raw_os_error(*error).to_string();
            let why = why.split(" (os error").next().unwrap_or(&why).to_owned();
            Fact::bad(
                NAME,
                format!("{why}: {value}"),
                BREAKS,
                "Set kernel.yama.ptrace_scope=0, call prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY) in the exporter, or give CAP_SYS_PTRACE (docker run --cap-add=SYS_PTRACE; capabilities.add in Kubernetes).",
            )
        }
        None => Fact::unknown(NAME, format!("the process that was to try it said nothing: {value}")),
    }
}

/// "Docker containers are by default limited in shared and pinned memory resources": NCCL's user guide, Troubleshooting, which
/// advises --shm-size=1g --ulimit memlock=-1.
fn shm(system: &System) -> Fact {
    const NAME: &str = "/dev/shm";
    const BREAKS: &str = "shared memory of the host (NCCL's SHM transport, PyTorch's DataLoader): 'No space left on device' or a bus error; CUDA events between processes";
    const HINT: &str =
        "docker run --shm-size=1g or --ipc=host; in Kubernetes an emptyDir of medium Memory at /dev/shm.";
    match system.tree.file_system("/dev/shm") {
        Ok(shm) => {
            let value = format!("{} of {} free", in_words(shm.free), in_words(shm.size));
            if shm.size <= DOCKERS || shm.free < DOCKERS / 2 {
                return Fact::bad(NAME, value, BREAKS, HINT);
            }
            Fact::good(NAME, value)
        }
        Err(withheld) if withheld.is_absent() => Fact::bad(NAME, withheld, BREAKS, HINT),
        Err(withheld) => Fact::unknown(NAME, withheld),
    }
}

/// RLIMIT_MEMLOCK limits what InfiniBand's verbs register (ibv_reg_mr(3)); CUDA's own pinned memory does not count.
fn memlock(system: &System) -> Fact {
    const NAME: &str = "locked memory";
    let text = match system.tree.text("/proc/self/limits") {
        Ok(text) => text,
        Err(withheld) => return Fact::unknown(NAME, withheld),
    };
    let limit = text
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))
        .and_then(|rest| rest.split_whitespace().next());
    let has_infiniband = system.tree.names("/sys/class/infiniband").is_ok_and(|names| !names.is_empty());
    match (limit, has_infiniband) {
        (None, _) => Fact::unknown(NAME, "/proc/self/limits does not say"),
        (Some("unlimited"), _) => Fact::good(NAME, "unlimited"),
        (Some(limit), false) => {
            let words = limit.parse().map_or(limit.to_owned(), in_words);
            Fact::plain(NAME, format!("at most {words}, and there is no InfiniBand that would need more"))
        }
        (Some(limit), true) => {
            let words = limit.parse().map_or(limit.to_owned(), in_words);
            Fact::bad(
                NAME,
                format!("at most {words}"),
                "registration of memory with InfiniBand (ibv_reg_mr): NCCL's IB transport, UCX, GPUDirect RDMA",
                "ulimit -l unlimited; docker run --ulimit memlock=-1.",
            )
        }
    }
}

fn namespaces(process: &Process) -> Fact {
    let of = |kind: &str| process.namespaces.get(kind).map(|id| format!("{kind} {id}"));
    let known: Vec<String> = ["pid", "ipc", "mnt", "net", "user"].into_iter().filter_map(of).collect();
    match known.is_empty() {
        true => Fact::unknown("namespaces", "/proc/self/ns cannot be read"),
        false => Fact::plain("namespaces", known.join(", ")),
    }
}

fn user(process: &Process) -> Fact {
    match (&process.user, process.host_user) {
        (Some(user), Some(outside)) if outside != user.effective => {
            Fact::plain("user", format!("{}, which is {outside} outside of its namespace", user.effective))
        }
        (Some(user), _) => Fact::plain("user", user.effective),
        (None, _) => Fact::unknown("user", "/proc/self/status cannot be read"),
    }
}
