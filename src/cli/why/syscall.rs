//! What a thread waits in: a system call, and the descriptors or the lock that it is about.

use super::memory::Outside;
use cupeer_stacks::Memory;
use syscalls::Sysno;

/// The most descriptors of one call.
const MOST: u64 = 64;

/// A system call in which a thread waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    pub name: String,
    pub about: About,
}

/// What a system call is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum About {
    /// It waits until one of these can be read, written or accepted; each with whether it is waited for in order to read.
    Descriptors(Vec<(i32, bool)>),
    /// It waits for a lock or a condition at an address. The thread that holds it, where the lock says so.
    Lock(u64, Option<u32>),
    /// It waits for a child to end; the pid, where it is about one.
    Child(Option<i32>),
    /// It sleeps for a time.
    Time,
    /// It waits for a signal.
    Signal,
    Other,
}

impl Call {
    /// The call of a number with these arguments, of which some lead to memory.
    pub fn read(pid: i32, number: i64, arguments: [u64; 6], memory: &Outside) -> Call {
        let known = usize::try_from(number).ok().and_then(Sysno::new);
        let name = known.map_or_else(|| format!("system call {number}"), |known| known.name().to_owned());
        Call { about: known.map_or(About::Other, |known| about(pid, known, arguments, memory)), name }
    }
}

/// What people call a system call: the function of libc.
pub fn word(name: &str) -> &str {
    match name {
        "recvfrom" | "recvmsg" | "recvmmsg" => "recv",
        "sendto" | "sendmsg" | "sendmmsg" => "send",
        "accept4" => "accept",
        "ppoll" => "poll",
        "pselect6" => "select",
        "epoll_pwait" | "epoll_pwait2" => "epoll_wait",
        "clock_nanosleep" | "nanosleep" => "sleep",
        "wait4" | "waitid" => "wait",
        name => name,
    }
}

fn about(pid: i32, call: Sysno, arguments: [u64; 6], memory: &Outside) -> About {
    let [first, second, ..] = arguments;
    let one = |is_read| About::Descriptors(vec![(first as i32, is_read)]);
    match call {
        Sysno::read | Sysno::readv | Sysno::pread64 | Sysno::recvfrom | Sysno::recvmsg | Sysno::recvmmsg => {
            one(true)
        }
        Sysno::accept | Sysno::accept4 | Sysno::flock => one(true),
        Sysno::write | Sysno::writev | Sysno::pwrite64 | Sysno::sendto | Sysno::sendmsg | Sysno::sendmmsg => {
            one(false)
        }
        Sysno::connect | Sysno::fsync | Sysno::ioctl => one(false),
        #[cfg(target_arch = "x86_64")]
        Sysno::poll => polled(first, second, memory),
        Sysno::ppoll => polled(first, second, memory),
        #[cfg(target_arch = "x86_64")]
        Sysno::select => selected(arguments, memory),
        Sysno::pselect6 => selected(arguments, memory),
        #[cfg(target_arch = "x86_64")]
        Sysno::epoll_wait => About::Descriptors(watched(pid, first as i32)),
        Sysno::epoll_pwait | Sysno::epoll_pwait2 => About::Descriptors(watched(pid, first as i32)),
        Sysno::futex => About::Lock(first, holder(first, second as i32, memory)),
        Sysno::wait4 => About::Child(Some(first as i32).filter(|pid| *pid > 0)),
        Sysno::waitid => {
            About::Child(Some(second as i32).filter(|pid| first == u64::from(libc::P_PID) && *pid > 0))
        }
        Sysno::nanosleep | Sysno::clock_nanosleep => About::Time,
        #[cfg(target_arch = "x86_64")]
        Sysno::pause => About::Signal,
        Sysno::rt_sigtimedwait | Sysno::rt_sigsuspend => About::Signal,
        _ => About::Other,
    }
}

/// The descriptors of `poll`.
fn polled(array: u64, count: u64, memory: &Outside) -> About {
    let mut bytes = vec![0; 8 * count.min(MOST) as usize];
    let length = memory.copy(array as usize, &mut bytes);
    let one = |entry: &[u8; 8]| {
        let fd = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let events = i16::from_le_bytes([entry[4], entry[5]]);
        (fd >= 0).then_some((fd, events & libc::POLLIN != 0))
    };
    let entries = bytes[..length].as_chunks::<8>().0.iter().filter_map(one).collect::<Vec<_>>();
    // Without any, it is a way to sleep.
    if entries.is_empty() { About::Time } else { About::Descriptors(entries) }
}

/// The descriptors of `select`.
fn selected(arguments: [u64; 6], memory: &Outside) -> About {
    let [count, sets @ .., _, _] = arguments;
    let mut found = Vec::new();
    for (set, is_read) in sets[..2].iter().zip([true, false]) {
        let mut bytes = vec![0; count.min(1024).div_ceil(8) as usize];
        if *set == 0 || memory.copy(*set as usize, &mut bytes) < bytes.len() {
            continue;
        }
        let is_in = |fd: &u64| bytes[*fd as usize / 8] >> (fd % 8) & 1 == 1;
        let all = (0..count.min(1024)).filter(is_in).take(MOST as usize);
        found.extend(all.map(|fd| (fd as i32, is_read)));
    }
    if found.is_empty() { About::Time } else { About::Descriptors(found) }
}

/// The descriptors that an epoll descriptor watches.
fn watched(pid: i32, fd: i32) -> Vec<(i32, bool)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let one = |line: &str| {
        let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
        let fd = words.next()?.parse().ok()?;
        let events = u32::from_str_radix(words.nth(1)?, 16).ok()?;
        Some((fd, events & libc::EPOLLIN as u32 != 0))
    };
    text.lines().filter_map(one).take(MOST as usize).collect()
}

/// The thread that holds the lock at an address, as the process numbers its threads: of a lock that inherits priorities,
/// the kernel's word; of another, the field that glibc has in a mutex.
fn holder(address: u64, operation: i32, memory: &Outside) -> Option<u32> {
    const OPERATION: i32 = 127;
    const TID: u32 = 0x3fff_ffff;
    let word = memory.half(address)?;
    match operation & OPERATION {
        libc::FUTEX_LOCK_PI | 13 => Some(word & TID),
        // A mutex that somebody waits for is 2; its owner is two words on.
        libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET if word == 2 => memory.half(address + 8),
        _ => None,
    }
    .filter(|tid| *tid != 0)
}
