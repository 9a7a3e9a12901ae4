//! The launchers of a job's runs, as lines [`RUN`] of its file `job` name them. While a launcher runs, its run is in
//! progress, whether or not it has reached the driver. A launcher that became its program has the same pid and the
//! same start time.

use crate::alive::{HostState, ProcessIdentity};
use crate::clock::monotonic_now;
use crate::host;
use cupeer_spec::proc::{Stat, StatPath};
use cupeer_spec::record::job::{RUN, SIGNAL};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// Returns the line for this process, as a launcher, in the file `job`, without its newline; `None` if the
/// system does not supply the data.
pub fn own_line() -> Option<String> {
    let (boot, pid_ns) = (host::boot_id()?, host::pid_ns()?);
    // /proc may belong to another pid namespace, so take the pid from there.
    let name = fs::read_link("/proc/self").ok()?;
    let started = Stat::parse(&fs::read(StatPath(name.display()).to_string()).ok()?)?.started;
    let user = fs::metadata("/proc/self").ok()?.uid();
    let boot: String = boot.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(format!("{RUN}={boot}:{pid_ns}:{}:{started}:{user}", std::process::id()))
}

/// Signal that a launcher received from outside of its run, or sent itself to end the run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReceivedSignal {
    /// Boot id of the launcher's host.
    pub boot_id: [u8; 16],
    /// Pid of the launcher.
    pub launcher: u32,
    /// Time when the launcher noted the signal, in nanoseconds of CLOCK_MONOTONIC.
    pub at: u64,
    /// Number of the signal.
    pub signal: u8,
    /// Pid of the process that sent the signal; 0 for the terminal.
    pub sender: u32,
    /// Name of the sender; empty if it is unknown.
    pub name: String,
}

impl ReceivedSignal {
    /// Returns a signal that this process notes now; `None` if the system does not supply the data.
    pub fn received_now(signal: u8, sender: u32, name: &str) -> Option<ReceivedSignal> {
        let (boot_id, launcher, at) = (host::boot_id()?, std::process::id(), monotonic_now());
        Some(ReceivedSignal { boot_id, launcher, at, signal, sender, name: name.replace(char::is_control, "?") })
    }

    /// Returns the line for this signal in the file `job`, without its newline.
    pub fn to_line(&self) -> String {
        let ReceivedSignal { boot_id, launcher, at, signal, sender, name } = self;
        let boot = u128::from_be_bytes(*boot_id);
        format!("{SIGNAL}={boot:032x}:{launcher}:{at}:{signal}:{sender}:{name}")
    }

    /// Returns the signals in the text of a file `job`.
    pub fn parse_all(text: &str) -> impl Iterator<Item = ReceivedSignal> {
        let one = |value: &str| {
            let mut parts = value.splitn(6, ':');
            Some(ReceivedSignal {
                boot_id: u128::from_str_radix(parts.next()?, 16).ok()?.to_be_bytes(),
                launcher: parts.next()?.parse().ok()?,
                at: parts.next()?.parse().ok()?,
                signal: parts.next()?.parse().ok()?,
                sender: parts.next()?.parse().ok()?,
                name: parts.next()?.to_owned(),
            })
        };
        text.lines().filter_map(move |line| one(line.strip_prefix(SIGNAL)?.strip_prefix('=')?))
    }
}

/// Returns true if a launcher in the text of a file `job` has the same pid as this process, but is on another
/// host or in another pid namespace.
pub fn has_namesake(text: &str) -> bool {
    let (boot, pid_ns) = (host::boot_id(), host::pid_ns());
    parse_launchers(text).any(|who| {
        let is_here = Some(who.boot_id) == boot && Some(who.pid_ns) == pid_ns;
        who.pid == std::process::id() && !is_here
    })
}

fn parse_launchers(text: &str) -> impl Iterator<Item = ProcessIdentity> {
    text.lines().filter_map(|line| parse_launcher(line.strip_prefix(RUN)?.strip_prefix('=')?))
}

/// Returns for each launcher in the text of a file `job` whether it is running; `None` if this is unknown.
pub fn are_running(text: &str) -> Vec<Option<bool>> {
    let all: Vec<ProcessIdentity> = parse_launchers(text).collect();
    let host = HostState::read(all.iter().copied());
    all.into_iter().map(|who| host.is_running(who)).collect()
}

fn parse_launcher(value: &str) -> Option<ProcessIdentity> {
    let mut parts = value.split(':');
    let boot = u128::from_str_radix(parts.next().filter(|digits| digits.len() == 32)?, 16).ok()?;
    let (pid_ns, pid) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let (started, uid) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(ProcessIdentity { boot_id: boot.to_be_bytes(), pid_ns, pid, started, uid })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namesake_is_in_another_namespace() {
        let own = own_line().unwrap();
        let pid_ns = host::pid_ns().unwrap();
        let elsewhere = own.replace(&format!(":{pid_ns}:"), ":1:");
        let other = elsewhere.replace(&format!(":{}:", std::process::id()), ":1:");
        for (text, has) in [(own.clone(), false), (format!("{own}\n{elsewhere}\n"), true), (other, false)] {
            assert_eq!(has_namesake(&text), has, "{text}");
        }
    }

    #[test]
    fn a_signal_is_read_as_it_was_written() {
        let asked = ReceivedSignal::received_now(15, 100, "a:b c\n").unwrap();
        let text = format!("cupeer job 1\n{}\nsignal=1:2\nsignals=\n", asked.to_line());
        assert_eq!(asked.name, "a:b c?");
        assert_eq!(ReceivedSignal::parse_all(&text).collect::<Vec<_>>(), [asked]);
    }

    #[test]
    fn a_launcher_runs_until_it_ends() {
        let own = own_line().unwrap();
        let started = own.rsplit(':').nth(1).unwrap();
        // Another launcher, which had the same pid before.
        let earlier = own.replace(&format!(":{started}:"), ":1:");
        let other_host = own.replacen(&own[4..36], &"0".repeat(32), 1);
        let text = format!("cupeer job 1\nkey=1\n{own}\n{earlier}\n{other_host}\nrun=junk\nrun=\nrunning=1\n");
        assert_eq!(are_running(&text), [Some(true), Some(false), None]);
    }
}
