//! Why a process may not be read, and what would permit it.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// Returns the reason why the kernel does not let cupeer read the memory of a process, and what would permit
/// it.
pub fn explain_refusal(pid: u32) -> (String, String) {
    let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    let scope = yama.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let about = fs::metadata(format!("/proc/{pid}")).map(|about| about.uid());
    let own = cupeer_console::startup::effective_user();
    let is_elsewhere = user_namespace("self") != user_namespace(&pid.to_string());
    reason_and_remedy(scope, about.ok().filter(|uid| *uid != own), is_elsewhere)
}

/// Returns the id of a process's user namespace.
fn user_namespace(process: &str) -> Option<u64> {
    fs::metadata(format!("/proc/{process}/ns/user")).ok().map(|about| about.ino())
}

fn reason_and_remedy(scope: u32, other_user: Option<u32>, is_elsewhere: bool) -> (String, String) {
    let root = "run 'cupeer why' as root, or with the capability SYS_PTRACE (docker run --cap-add SYS_PTRACE)";
    match (other_user, scope) {
        (_, 3) => (
            "may not be read: kernel.yama.ptrace_scope is 3".into(),
            "set kernel.yama.ptrace_scope to 1 in the boot settings and restart the machine; until then, nobody may read it".into(),
        ),
        (Some(0), _) => ("may not be read: it runs as root".into(), root.into()),
        (Some(user), _) => (
            format!("may not be read: it runs as user {user}"),
            format!("run 'cupeer why' as user {user}; or {root}"),
        ),
        (None, 2) => ("may not be read: kernel.yama.ptrace_scope is 2".into(), root.into()),
        (None, 1) => (
            "may not be read: kernel.yama.ptrace_scope is 1, so only its ancestors may".into(),
            format!("{root}; or start the job with 'cupeer run --on-hang 60s', which is an ancestor; or set kernel.yama.ptrace_scope=0"),
        ),
        (None, _) if is_elsewhere => (
            "may not be read: it is in another user namespace".into(),
            format!("run 'cupeer why' in its container; or {root} on the host"),
        ),
        (None, _) => (
            "may not be read: it has given up being read (PR_SET_DUMPABLE), or a security module forbids it".into(),
            root.into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_refusal_names_what_would_permit_it() {
        for (scope, user, elsewhere, why, hint) in [
            (0, Some(1001), false, "user 1001", "as user 1001"),
            (0, Some(0), false, "as root", "SYS_PTRACE"),
            (1, None, false, "ptrace_scope is 1", "--on-hang"),
            (2, None, false, "ptrace_scope is 2", "as root"),
            (3, None, false, "ptrace_scope is 3", "boot"),
            (0, None, true, "user namespace", "container"),
            (0, None, false, "PR_SET_DUMPABLE", "as root"),
        ] {
            let (sentence, permits) = reason_and_remedy(scope, user, elsewhere);
            assert!(sentence.contains(why) && permits.contains(hint), "{sentence}: {permits}");
        }
    }
}
