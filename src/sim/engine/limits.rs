//! What the host has: memory of a simulated device, and managed and pinned memory, is the host's in the end, and
//! a simulated machine may have more of it than there is.

use super::answer::{Answer, fail};
use cupeer_spec::results::Result as Code;

/// Sizes below this one are not worth a question.
pub(crate) const LARGE: u64 = 64 << 20;
/// How much is left to others.
const LEFT: u64 = 256 << 20;

/// The bytes that the host has, and those that are free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Host {
    total: u64,
    available: u64,
}

fn number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn host() -> Option<Host> {
    let machine = read(&std::fs::read_to_string("/proc/meminfo").ok()?)?;
    // A container sees its own limit there; where there is none, the file is missing or no number.
    let (limit, used) = (number("/sys/fs/cgroup/memory.max"), number("/sys/fs/cgroup/memory.current"));
    Some(match (limit, used) {
        (Some(limit), Some(used)) => Host {
            total: machine.total.min(limit),
            available: machine.available.min(limit.saturating_sub(used)),
        },
        _ => machine,
    })
}

/// Reads /proc/meminfo.
fn read(text: &str) -> Option<Host> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(Host { total: field("MemTotal")?, available: field("MemAvailable")? })
}

/// Refuses what the host could not hold, where `reserved` bytes are promised already.
pub(crate) fn check_reservation(size: u64, reserved: u64) -> Answer {
    if size < LARGE {
        return Ok(());
    }
    match host() {
        Some(host) if size > host.available || reserved.saturating_add(size) > host.total => {
            fail(Code::OUT_OF_MEMORY)
        }
        _ => Ok(()),
    }
}

/// Refuses to go on writing where the host has little left.
pub(crate) fn check_room() -> Answer {
    match host() {
        Some(host) if host.available < LEFT.min(host.total / 16) => fail(Code::OUT_OF_MEMORY),
        _ => Ok(()),
    }
}

/// Random bytes. By the number of the call, because glibc has a function for it only since 2.25.
pub(crate) fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // SAFETY: the call writes at most as many bytes as there are.
    unsafe { libc::syscall(libc::SYS_getrandom, bytes.as_mut_ptr(), bytes.len(), 0) };
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_host_has_is_read() {
        let text = "MemTotal:       24000000 kB\nMemFree:   5 kB\nMemAvailable:   12000000 kB\n";
        assert_eq!(read(text), Some(Host { total: 24_576_000_000, available: 12_288_000_000 }));
        assert_eq!(read("MemTotal: x kB\n"), None);
        let host = host().unwrap();
        assert!(host.available <= host.total && host.total > 0);
    }

    #[test]
    fn more_than_the_host_has_is_refused() {
        let host = host().unwrap();
        assert_eq!(check_reservation(host.total + LARGE, 0), fail(Code::OUT_OF_MEMORY));
        assert_eq!(check_reservation(LARGE, host.total), fail(Code::OUT_OF_MEMORY));
        assert_eq!(check_reservation(LARGE - 1, u64::MAX), Ok(()));
    }
}
