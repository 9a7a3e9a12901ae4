//! Finds out whether processes of a record run on this host.

use crate::host;
use cupeer_spec::proc;
use cupeer_spec::record::Header;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

/// Inode of the initial pid namespace (the kernel's PROC_PID_INIT_INO). Its processes see the processes of
/// all namespaces.
const FIRST_PID_NS: u64 = 0xeffffffc;

/// Identity and owner of a process on a host.
#[derive(Clone, Copy)]
pub(crate) struct ProcessIdentity {
    pub boot_id: [u8; 16],
    pub pid_ns: u64,
    pub pid: u32,
    /// Start time of the process in ticks since boot.
    pub started: u64,
    pub uid: u32,
}

impl From<&Header> for ProcessIdentity {
    fn from(header: &Header) -> ProcessIdentity {
        let Header { boot_id, pid_ns, pid, started, uid, .. } = *header;
        ProcessIdentity { boot_id, pid_ns, pid, started, uid }
    }
}

/// State of this host when the recording was opened, to find out which processes run.
pub(crate) struct HostState {
    boot_id: Option<[u8; 16]>,
    pid_ns: Option<u64>,
    /// True if /proc belongs to the pid namespace of cupeer. In a /proc of another namespace, a pid stands
    /// for another process.
    is_ours: bool,
    /// True if /proc shows the processes of other users, too.
    shows_all: bool,
    uid: u32,
    /// Processes of other pid namespaces: namespace, pid in that namespace, start time. The namespace is 0 if
    /// cupeer may not read it.
    others: HashSet<(u64, u32, u64)>,
}

impl HostState {
    /// Reads the state of the host for queries about these processes.
    pub(crate) fn read(mut about: impl Iterator<Item = ProcessIdentity>) -> HostState {
        let boot_id = host::boot_id();
        let pid_ns = host::pid_ns();
        let is_ours = is_proc_of_own_namespace();
        let elsewhere = |who: ProcessIdentity| Some(who.boot_id) == boot_id && (Some(who.pid_ns) != pid_ns || !is_ours);
        HostState {
            boot_id,
            pid_ns,
            is_ours,
            shows_all: fs::exists("/proc/1/stat").unwrap_or(false),
            uid: fs::metadata("/proc/self").map_or(u32::MAX, |file| file.uid()),
            others: if about.any(elsewhere) { inner_namespace_processes() } else { HashSet::new() },
        }
    }

    /// Returns true if a process is running; `None` if this is unknown.
    pub(crate) fn is_running(&self, who: ProcessIdentity) -> Option<bool> {
        if self.boot_id? != who.boot_id {
            return None;
        }
        // If /proc hides another user's processes, a missing entry proves nothing.
        let sees = self.shows_all || self.uid == who.uid;
        if self.pid_ns? == who.pid_ns && self.is_ours {
            match read_start_time(&proc::StatPath(who.pid).to_string()) {
                Ok(Some(at)) if at != who.started && !is_in_own_time_namespace(who.pid) => None,
                Ok(started) => Some(started == Some(who.started)),
                Err(error) if error.kind() == io::ErrorKind::NotFound && sees => Some(false),
                Err(_) => None,
            }
        } else if [0, who.pid_ns].iter().any(|ns| self.others.contains(&(*ns, who.pid, who.started))) {
            Some(true)
        } else {
            (self.pid_ns == Some(FIRST_PID_NS) && self.is_ours && self.shows_all).then_some(false)
        }
    }
}

/// Returns true if /proc belongs to the pid namespace of cupeer: /proc shows its pid, and no second pid.
fn is_proc_of_own_namespace() -> bool {
    let own = fs::read_link("/proc/self").is_ok_and(|name| name.to_str() == Some(&std::process::id().to_string()));
    let status = fs::read("/proc/self/status").unwrap_or_default();
    own && proc::parse_pids(&status).count() <= 1
}

/// Returns true if a process is in the time namespace of cupeer. In another time namespace, start times have
/// another origin.
fn is_in_own_time_namespace(pid: u32) -> bool {
    let clock = |path: String| fs::read_link(path).ok();
    // Kernels before 5.6 have no time namespaces.
    clock("/proc/self/ns/time".into()).is_none_or(|ours| clock(format!("/proc/{pid}/ns/time")) == Some(ours))
}

/// Returns the start time in the text of a `stat` file; `None` for a zombie process.
fn read_start_time(stat: &str) -> io::Result<Option<u64>> {
    let stat = proc::Stat::parse(&fs::read(stat)?);
    Ok(stat.filter(|stat| !matches!(stat.state, b'Z' | b'X')).map(|stat| stat.started))
}

/// Returns two values for each process: whether it is running (`None` if that cannot be known, as on another
/// host), and whether it executed a program that became another one of these processes.
pub fn running_states(headers: &[&Header]) -> Vec<(Option<bool>, bool)> {
    let host = HostState::read(headers.iter().map(|header| (*header).into()));
    let others = have_executed_another(headers);
    let state = |(header, is_another): (&&Header, bool)| {
        (if is_another { Some(false) } else { host.is_running((*header).into()) }, is_another)
    };
    headers.iter().zip(others).map(state).collect()
}

/// Returns for processes of this host and user, each with pid namespace, pid, and start in ticks since boot, whether they
/// run; `None` if that cannot be known.
pub fn running_on_this_host(processes: &[(u64, u32, u64)]) -> Vec<Option<bool>> {
    let boot_id = host::boot_id().unwrap_or_default();
    let uid = fs::metadata("/proc/self").map_or(u32::MAX, |file| file.uid());
    let who = |&(pid_ns, pid, started): &(u64, u32, u64)| ProcessIdentity { boot_id, pid_ns, pid, started, uid };
    let host = HostState::read(processes.iter().map(who));
    processes.iter().map(|process| host.is_running(who(process))).collect()
}

/// Returns the pid of a process in its own pid namespace, its start in ticks since boot, and the name of its
/// program; `None` if the process cannot be seen from here. `pid` is the pid that the driver reports, which
/// belongs to the host's namespace. In a container, another process can have this pid, so only a process that
/// has loaded the driver or libcupeer.so, or opened a device, is accepted.
pub fn process_of_driver_pid(pid: u32) -> Option<((u32, u64), String)> {
    let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).ok();
    let is_host = host::pid_ns() == Some(FIRST_PID_NS) && is_proc_of_own_namespace();
    let uses_driver = || {
        let maps = read("maps").unwrap_or_default();
        let has = |text: &str| maps.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        ["nvidia", "/libcuda.so", "/libcupeer"].into_iter().any(has)
    };
    let started =
        read_start_time(&proc::StatPath(pid).to_string()).ok().flatten().filter(|_| is_host || uses_driver())?;
    let status = read("status")?;
    let own = proc::parse_pids(&status).next_back().and_then(|pid| str::from_utf8(pid).ok()?.parse().ok());
    Some(((own.unwrap_or(pid), started), String::from_utf8_lossy(read("comm")?.trim_ascii_end()).into_owned()))
}

/// Returns for each process whether it executed a program that is another one of these processes.
pub(crate) fn have_executed_another(headers: &[&Header]) -> Vec<bool> {
    let identity = |header: &Header| (header.boot_id, header.pid_ns, header.pid, header.started);
    let mut images: HashMap<_, u32> = HashMap::new();
    for header in headers {
        let image = images.entry(identity(header)).or_default();
        *image = header.image.max(*image);
    }
    headers.iter().map(|header| images[&identity(header)] > header.image).collect()
}

/// Returns the processes in pid namespaces below the namespace of cupeer.
fn inner_namespace_processes() -> HashSet<(u64, u32, u64)> {
    let Ok(entries) = fs::read_dir("/proc") else { return HashSet::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit))
        .filter_map(|entry| {
            let status = fs::read(entry.path().join("status")).ok()?;
            let mut pids = proc::parse_pids(&status);
            pids.next()?;
            // The last pid is that in the innermost namespace. A single pid means that the process is in the
            // namespace of cupeer.
            let pid = str::from_utf8(pids.next_back()?).ok()?.parse().ok()?;
            let pid_ns = fs::metadata(entry.path().join("ns/pid")).map_or(0, |file| file.ino());
            Some((pid_ns, pid, read_start_time(&entry.path().join("stat").to_string_lossy()).ok()??))
        })
        .collect()
}
