//! Limits of the host: memory of simulated devices, and managed and pinned memory, is memory of the host. A simulated machine
//! may have more memory than the host.

use super::answer::{Answer, fail};
use cupeer_spec::results::Result as Code;

/// Size in bytes from which on reservations and writes are checked.
pub(crate) const LARGE: u64 = 64 << 20;
/// Number of available bytes of the host below which writes fail, so that other processes have memory left.
const LEFT_TO_OTHERS: u64 = 256 << 20;

/// The bytes of memory that the host has, and those that are available.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct HostMemory {
    total: u64,
    available: u64,
}

/// Reads a file that contains one number.
fn read_number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Returns the memory of the host, or of the container if it has less.
fn host_memory() -> Option<HostMemory> {
    let machine = parse_meminfo(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    // In a container, these files contain its limit and its use. Without a limit, the first file is missing
    // or contains a word.
    let (limit, used) = (read_number("/sys/fs/cgroup/memory.max"), read_number("/sys/fs/cgroup/memory.current"));
    Some(match (limit, used) {
        (Some(limit), Some(used)) => {
            HostMemory { total: machine.total.min(limit), available: machine.available.min(limit.saturating_sub(used)) }
        }
        _ => machine,
    })
}

/// Parses the text of /proc/meminfo.
fn parse_meminfo(text: &str) -> Option<HostMemory> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(HostMemory { total: field("MemTotal")?, available: field("MemAvailable")? })
}

/// Fails if the host cannot hold `size` more bytes in addition to `reserved` bytes.
pub(crate) fn check_reservation(size: u64, reserved: u64) -> Answer {
    if size < LARGE {
        return Ok(());
    }
    match host_memory() {
        Some(host) if size > host.available || reserved.saturating_add(size) > host.total => fail(Code::OUT_OF_MEMORY),
        _ => Ok(()),
    }
}

/// Fails if the host has little memory left for writes.
pub(crate) fn check_host_memory() -> Answer {
    match host_memory() {
        Some(host) if host.available < LEFT_TO_OTHERS.min(host.total / 16) => fail(Code::OUT_OF_MEMORY),
        _ => Ok(()),
    }
}

/// Returns a resource limit of this process, such as `RLIMIT_NOFILE`.
pub(crate) fn resource_limit(resource: u32) -> u64 {
    // SAFETY: all-zero is a value of this plain structure.
    let mut limit: libc::rlimit = unsafe { core::mem::zeroed() };
    // SAFETY: `limit` is a structure of the kind that the call fills.
    unsafe { libc::getrlimit(resource as _, &mut limit) };
    limit.rlim_cur
}

/// Returns random bytes. The system call is made by its number, because glibc has a function for it only
/// since 2.25.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // SAFETY: the call writes at most as many bytes as there are.
    unsafe { libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), bytes.len(), 0) };
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_the_host_is_read() {
        let text = "MemTotal:       24000000 kB\nMemFree:   5 kB\nMemAvailable:   12000000 kB\n";
        assert_eq!(parse_meminfo(text), Some(HostMemory { total: 24_576_000_000, available: 12_288_000_000 }));
        assert_eq!(parse_meminfo("MemTotal: x kB\n"), None);
        let host = host_memory().unwrap();
        assert!(host.available <= host.total && host.total > 0);
    }

    #[test]
    fn more_than_the_host_has_is_refused() {
        let host = host_memory().unwrap();
        assert_eq!(check_reservation(host.total + LARGE, 0), fail(Code::OUT_OF_MEMORY));
        assert_eq!(check_reservation(LARGE, host.total), fail(Code::OUT_OF_MEMORY));
        assert_eq!(check_reservation(LARGE - 1, u64::MAX), Ok(()));
    }
}
