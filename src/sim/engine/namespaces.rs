//! Processes of other pid namespaces: a handle has the pid that its exporter has for itself, and /proc numbers processes as
//! the namespace does for which it was mounted.
//!
//! A real driver finds its processes without /proc. The simulated one finds those that /proc shows: of this namespace and of
//! those below it, or above it where /proc is still that of the one above. Two containers that each have a /proc of their
//! own do not see each other.

use std::fs;

/// Returns the pids in this /proc of the processes whose pid in their own namespace is `pid`.
pub(crate) fn find_pids(pid: u32) -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    all.filter(move |number| {
        let status = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
        innermost_pid(&status) == Some(pid)
    })
}

/// Returns the pid of a process in its own namespace: the last number in the line `NSpid` of its status file.
fn innermost_pid(status: &str) -> Option<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_ascii_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_by_the_pid_that_it_has_for_itself() {
        let own = std::process::id();
        assert!(find_pids(own).any(|number| number == own));
        assert_eq!(innermost_pid("Name:\tx\nNSpid:\t4711\t12\t1\nNSpgid:\t3\n"), Some(1));
        assert_eq!(innermost_pid("Name:\tNSpid:\n"), None);
    }
}
