//! The system call in which a thread waits, with its descriptors or its lock.

use super::memory::RemoteMemory;
use cupeer_stacks::Memory;
use syscalls::Sysno;

/// Number of descriptors of one call that are read: the first ones.
const MOST: u64 = 64;

/// A wait with at most this time limit, in nanoseconds, is probably one of many in a loop.
pub const MOMENT: u64 = 1_100_000_000;

/// A system call in which a thread waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WaitingCall {
    pub name: String,
    pub about: AwaitedEvent,
    /// Nanoseconds after which the call returns in any case; `None` without a time limit.
    pub limit: Option<u64>,
}

/// Event that a system call waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AwaitedEvent {
    /// The call waits until one of these descriptors can be read, written, or accepted; true for those that it waits
    /// to read.
    Descriptors(Vec<(i32, bool)>),
    /// The call waits for a lock or a condition.
    Lock(Futex),
    /// The call waits until other processes release a lock of the file with this descriptor.
    FileLock(i32),
    /// The call opens a file, or a pipe whose other end nobody has opened.
    Open(String),
    /// The call waits for a child to end: the one with this pid, or any child.
    Child(Option<i32>),
    /// The call sleeps for a time.
    Time,
    /// The call waits for a signal.
    Signal,
    Other,
}

/// A lock or a condition, by its address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Futex {
    pub address: u64,
    /// Tid of the thread that holds the lock or whose end is awaited, in the process's own pid namespace.
    pub owner: Option<u32>,
    pub is_join: bool,
}

impl WaitingCall {
    /// Returns the system call with a number and these arguments. Some arguments are addresses of memory that is read.
    pub fn read(pid: i32, number: i64, arguments: [u64; 6], memory: &RemoteMemory) -> WaitingCall {
        let known = usize::try_from(number).ok().and_then(Sysno::new);
        let name = known.map_or_else(|| format!("system call {number}"), |known| known.name().to_owned());
        let about = known.map_or(AwaitedEvent::Other, |known| awaited_event(pid, known, arguments, memory));
        WaitingCall { limit: known.and_then(|known| time_limit(known, arguments, memory)), about, name }
    }

    /// Returns true if the call sleeps for only a moment: the thread probably sleeps in a loop.
    pub fn is_nap(&self) -> bool {
        self.about == AwaitedEvent::Time && self.is_short()
    }

    /// Returns true if the call returns within a moment in any case.
    pub fn is_short(&self) -> bool {
        self.limit.is_some_and(|limit| limit <= MOMENT)
    }
}

/// Returns the name of a system call in messages: the name of the libc function.
pub fn libc_name(name: &str) -> &str {
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

fn awaited_event(pid: i32, call: Sysno, arguments: [u64; 6], memory: &RemoteMemory) -> AwaitedEvent {
    let [first, second, ..] = arguments;
    let one = |is_read| AwaitedEvent::Descriptors(vec![(first as i32, is_read)]);
    match call {
        Sysno::read | Sysno::readv | Sysno::pread64 | Sysno::recvfrom | Sysno::recvmsg | Sysno::recvmmsg => one(true),
        Sysno::accept | Sysno::accept4 => one(true),
        Sysno::flock => AwaitedEvent::FileLock(first as i32),
        Sysno::fcntl if matches!(second as i32, libc::F_SETLKW | libc::F_OFD_SETLKW) => {
            AwaitedEvent::FileLock(first as i32)
        }
        #[cfg(target_arch = "x86_64")]
        Sysno::open => memory.text_at(first).map_or(AwaitedEvent::Other, AwaitedEvent::Open),
        Sysno::openat => memory.text_at(second).map_or(AwaitedEvent::Other, AwaitedEvent::Open),
        Sysno::write | Sysno::writev | Sysno::pwrite64 | Sysno::sendto | Sysno::sendmsg | Sysno::sendmmsg => one(false),
        Sysno::connect | Sysno::fsync | Sysno::ioctl => one(false),
        #[cfg(target_arch = "x86_64")]
        Sysno::poll => poll_descriptors(first, second, memory),
        Sysno::ppoll => poll_descriptors(first, second, memory),
        #[cfg(target_arch = "x86_64")]
        Sysno::select => select_descriptors(arguments, memory),
        Sysno::pselect6 => select_descriptors(arguments, memory),
        #[cfg(target_arch = "x86_64")]
        Sysno::epoll_wait => AwaitedEvent::Descriptors(epoll_descriptors(pid, first as i32)),
        Sysno::epoll_pwait | Sysno::epoll_pwait2 => AwaitedEvent::Descriptors(epoll_descriptors(pid, first as i32)),
        Sysno::futex => AwaitedEvent::Lock(read_futex(first, second as i32, arguments[2] as u32, memory)),
        Sysno::wait4 => AwaitedEvent::Child(Some(first as i32).filter(|pid| *pid > 0)),
        Sysno::waitid => {
            AwaitedEvent::Child(Some(second as i32).filter(|pid| first == u64::from(libc::P_PID) && *pid > 0))
        }
        Sysno::nanosleep | Sysno::clock_nanosleep => AwaitedEvent::Time,
        #[cfg(target_arch = "x86_64")]
        Sysno::pause => AwaitedEvent::Signal,
        Sysno::rt_sigtimedwait | Sysno::rt_sigsuspend => AwaitedEvent::Signal,
        _ => AwaitedEvent::Other,
    }
}

/// Returns the descriptors that `poll` waits for.
fn poll_descriptors(array: u64, count: u64, memory: &RemoteMemory) -> AwaitedEvent {
    let mut bytes = vec![0; 8 * count.min(MOST) as usize];
    let length = memory.copy(array as usize, &mut bytes);
    let one = |entry: &[u8; 8]| {
        let fd = i32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]);
        let events = i16::from_le_bytes([entry[4], entry[5]]);
        (fd >= 0).then_some((fd, events & libc::POLLIN != 0))
    };
    let entries = bytes[..length].as_chunks::<8>().0.iter().filter_map(one).collect::<Vec<_>>();
    // Without any descriptor, the call only sleeps.
    if entries.is_empty() { AwaitedEvent::Time } else { AwaitedEvent::Descriptors(entries) }
}

/// Returns the descriptors that `select` waits for.
fn select_descriptors(arguments: [u64; 6], memory: &RemoteMemory) -> AwaitedEvent {
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
    if found.is_empty() { AwaitedEvent::Time } else { AwaitedEvent::Descriptors(found) }
}

/// Returns the descriptors that an epoll descriptor watches, each with true if it is watched for reading.
fn epoll_descriptors(pid: i32, fd: i32) -> Vec<(i32, bool)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}")).unwrap_or_default();
    let one = |line: &str| {
        let mut words = line.strip_prefix("tfd:")?.split_ascii_whitespace();
        let fd = words.next()?.parse().ok()?;
        let events = u32::from_str_radix(words.nth(1)?, 16).ok()?;
        Some((fd, events & libc::EPOLLIN as u32 != 0))
    };
    text.lines().filter_map(one).take(MOST as usize).collect()
}

/// Returns the lock at a futex address, with its owner: for a robust or priority-inheriting lock, the thread that the word
/// names; for another lock, the thread in the owner field of glibc's mutex. For a thread that joins another one, the owner is
/// the joined thread.
fn read_futex(address: u64, operation: i32, expected: u32, memory: &RemoteMemory) -> Futex {
    const OPERATION: i32 = 127;
    const TID: u32 = 0x3fff_ffff;
    const WAITERS: u32 = 0x8000_0000;
    let word = memory.u32_at(address);
    let is_plain = matches!(operation & OPERATION, libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET);
    let owner = match operation & OPERATION {
        libc::FUTEX_LOCK_PI | 13 => word.map(|word| word & TID),
        _ if is_plain && expected & WAITERS != 0 => word.map(|word| word & TID),
        // The word of a mutex with waiters is 2, and the owner follows 8 bytes after the word.
        _ if is_plain && word == Some(2) && expected == 2 => memory.u32_at(address + 8),
        _ => None,
    };
    // A tid is a large number, and glibc lets the kernel wake the threads that join a thread when it ends.
    let is_join = is_plain && operation & libc::FUTEX_PRIVATE_FLAG == 0 && owner.is_none();
    let joined = word.filter(|word| is_join && *word == expected && *word > 2);
    Futex { address, owner: owner.or(joined).filter(|tid| *tid != 0), is_join: joined.is_some() }
}

/// Returns the nanoseconds after which a call returns in any case. For a limit that is a time of day, the original duration is
/// unknown.
fn time_limit(call: Sysno, arguments: [u64; 6], memory: &RemoteMemory) -> Option<u64> {
    let of_ms = |ms: u64| u64::try_from(ms as i32).ok().map(|ms| ms * 1_000_000);
    let time = |address: u64, unit: u64| {
        let mut bytes = [0; 16];
        let is_there = address != 0 && memory.copy(address as usize, &mut bytes) == bytes.len();
        let [seconds, parts] =
            [&bytes[..8], &bytes[8..]].map(|part| u64::from_le_bytes(part.try_into().unwrap_or_default()));
        is_there.then(|| seconds.saturating_mul(1_000_000_000).saturating_add(parts.saturating_mul(unit)))
    };
    let until = |address: u64, clock: i32| Some(time(address, 1)?.saturating_sub(clock_time(clock)));
    match call {
        #[cfg(target_arch = "x86_64")]
        Sysno::poll => of_ms(arguments[2]),
        Sysno::ppoll => time(arguments[2], 1),
        #[cfg(target_arch = "x86_64")]
        Sysno::select => time(arguments[4], 1000),
        Sysno::pselect6 => time(arguments[4], 1),
        #[cfg(target_arch = "x86_64")]
        Sysno::epoll_wait => of_ms(arguments[3]),
        Sysno::epoll_pwait => of_ms(arguments[3]),
        Sysno::nanosleep => time(arguments[0], 1),
        Sysno::clock_nanosleep if arguments[1] == 0 => time(arguments[2], 1),
        Sysno::clock_nanosleep => until(arguments[2], arguments[0] as i32),
        Sysno::futex => match arguments[1] as i32 & 127 {
            libc::FUTEX_WAIT => time(arguments[3], 1),
            _ if arguments[1] as i32 & libc::FUTEX_CLOCK_REALTIME != 0 => until(arguments[3], libc::CLOCK_REALTIME),
            libc::FUTEX_WAIT_BITSET => until(arguments[3], libc::CLOCK_MONOTONIC),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the time of a clock in nanoseconds.
fn clock_time(clock: i32) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to the structure that it is given.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
