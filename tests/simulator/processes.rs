//! Processes: those of other pid namespaces, and what comes when one has ended its driver.

use super::{holds, played};
use crate::programs::linked;
use crate::support::{self, compile_c, cupeer, done, plain, preload_library, sim_dir, sim_library, stdout, temp_dir};
use object::{Object, ObjectSymbol};
use std::fs;

#[test]
fn processes_of_two_pid_namespaces_share_unless_their_pids_are_equal() {
    let played = played("namespaces", "nvlink:2", &[]);
    if played.status.code() == Some(77) {
        left_out!("namespaces cannot be made here");
        return;
    }
    assert!(played.status.success(), "{}{}", played.stdout, played.stderr);
}

#[test]
fn calls_after_the_end_of_the_driver_fail() {
    holds("at_exit", "nvlink:2");
}

#[test]
fn processes_of_a_job_share_the_room_of_a_device() {
    let search = format!("-L{}", sim_dir().display());
    let program = compile_c("conformance/programs/roomy.c", &[&search, "-lcuda"]);
    let folder = temp_dir();
    let mut command = cupeer();
    command.args(["run", "--sim=nvlink:1", "-q", "-o"]).arg(folder.path().join("r")).arg("--").arg(program);
    let ended = done(&mut command);
    assert!(ended.status.success(), "{}{}", ended.stdout, ended.stderr);
    support::assert_lines(&ended.stdout, "");
}

/// No lock that fork leaves taken is held in a failing call.
#[test]
fn children_of_fork_do_not_hang_where_other_threads_fail_calls() {
    for log in ["", "stderr"] {
        let mut command = plain(linked("failing_forks.c", &[]));
        command.arg("400").env("LD_LIBRARY_PATH", sim_dir()).env("CUDA_LOG_FILE", log);
        assert_eq!(stdout(command.stderr(std::process::Stdio::null())), "hung: 0\n", "{log:?}");
    }
}

/// Calls that take a lock of libc, which a fork leaves locked in the child: time zones, locales, stdio, the environment, and
/// users.
const LOCKING: [&str; 30] = [
    "localtime",
    "localtime_r",
    "mktime",
    "strftime",
    "tzset",
    "ctime",
    "setlocale",
    "strerror",
    "dcgettext",
    "fopen",
    "fdopen",
    "fwrite",
    "fprintf",
    "printf",
    "vfprintf",
    "puts",
    "fputs",
    "fflush",
    "getline",
    "popen",
    "setenv",
    "putenv",
    "unsetenv",
    "getpwuid",
    "getpwuid_r",
    "getaddrinfo",
    "syslog",
    "random",
    "rand",
    "dladdr",
];

#[test]
fn neither_library_uses_functions_that_hold_a_lock_of_libc() {
    for library in [sim_library(), preload_library()] {
        let bytes = fs::read(&library).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let used: Vec<&str> =
            file.dynamic_symbols().filter(|one| one.is_undefined()).filter_map(|one| one.name().ok()).collect();
        assert!(used.contains(&"malloc"), "{}: {used:?}", library.display());
        let locking: Vec<_> = used.iter().filter(|name| LOCKING.contains(name)).collect();
        assert!(locking.is_empty(), "{}: {locking:?}", library.display());
    }
}
