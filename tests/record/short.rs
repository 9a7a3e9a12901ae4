//! Shortage of memory, descriptors, or files: the program ends as without cupeer, in every mode, and losses are counted.

use super::recording;
use crate::programs::{Cupeer, Scene, linked, recorded};
use crate::support::{self, Done};
use cupeer_record::Job;
use cupeer_spec::env;
use std::io::Error;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Number of calls of short_memory.c in each of two threads.
const CALLS: u64 = 60;
const PLAN: &str = "cuIpcOpen*:when=7:error=MAP_FAILED;@peer:per=thread:when=3:delay=1us";

/// More of the environment, and whether it needs a record.
const MODES: &[(&str, &[(&str, &str)])] = &[
    ("record", &[]),
    ("ring", &[(env::RECORD, "ring:1M")]),
    ("limit", &[(env::RECORD, "full:1M")]),
    ("check", &[(env::CHECK, "errors")]),
    ("plan", &[(env::INJECT, PLAN), (env::RECORD, "off")]),
    ("plan and record", &[(env::INJECT, PLAN)]),
    ("denial", &[(env::DENY_PEER, "all"), (env::PEER_LIMIT, "2"), (env::RECORD, "off")]),
    ("log", &[(env::LOG, "json"), (env::RECORD, "off")]),
];

fn scene(limit: &str, first: u64, extra: u64, wait: u64) -> Scene {
    let numbers = [first, extra, CALLS, wait].map(|number| number.to_string());
    Scene::new(linked("short_memory.c", &[])).arg(limit).args(&numbers.each_ref().map(|number| &number[..]))
}

fn run(command: &mut Command, what: &str) -> Done {
    let done = support::done(command);
    assert!(done.status.code() == Some(9) && done.stdout == "done\n", "{what}: {done:?}");
    done
}

/// Returns the calls that a process recorded, and those that it reports as lost.
fn counted(record: &Path) -> Option<(u64, u64)> {
    let job = Job::open(record).ok()?;
    let [process] = &job.processes[..] else { return None };
    Some((recorded(process).len() as u64, process.header.lost))
}

#[test]
fn no_limit_ends_a_program() {
    let folder = support::temp_dir();
    let mut short = 0;
    let extra = |limit: &str| match limit {
        "as" | "data" => (0..900_000).step_by(support::sample(327_680, 163_840)).collect(),
        "size" => vec![0, 1, 5000, 140_000, 300_000],
        _ => vec![16_384],
    };
    for (mode, variables) in MODES {
        for limit in ["none", "as", "data", "locked", "files", "size", "stack"] {
            for (extra, first) in extra(limit).into_iter().flat_map(|extra| [(extra, 0), (extra, 6)]) {
                let what = format!("{mode}, {limit} {extra}, {first} calls before");
                let record = folder.path().join(&what);
                let is_counted = *mode == "record" || *mode == "check";
                // Longer than it is until the next attempt to make a record.
                let wait = if is_counted && first == 0 { 150 } else { 0 };
                let mut command = recording(&scene(limit, first, extra, wait), &record);
                command.envs(variables.iter().copied()).env(env::LOG_FILE, folder.path().join("log"));
                let done = run(&mut command, &what);
                // In the end there is a record, unless its file could not be made, and it knows of all calls.
                let is_whole = !done.stderr.contains("goes on without a recording\n");
                if is_whole && is_counted {
                    let (had, lost) = counted(&record).unwrap_or_else(|| panic!("{what}: {done:?}"));
                    assert_eq!(had + lost, first + 2 * CALLS + 1, "{what}: {had} had, {lost} lost");
                    let is_said = done.stderr.contains("cupeer: cannot ");
                    assert!((lost > 0) == is_said, "{what}: {lost} lost: {}", done.stderr);
                    short += usize::from(lost > 0);
                }
                let _ = std::fs::remove_dir_all(&record);
            }
        }
    }
    assert!(short > support::sample(10, 20), "{short}");
}

/// Runs a plan that is too large for an address space of so many KiB. Returns true if the lack of memory is reported, and `None`
/// if there is not even room for the program or the libraries.
fn is_short_of(kib: u64, plan: &str, folder: &Path) -> Option<bool> {
    let program = scene("none", 0, 0, 0).env(env::INJECT, plan).command(Cupeer::Off, folder);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let limited = |mut command: Command| {
        let limit = |what, bytes| {
            let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
            // SAFETY: the structure is valid for the call.
            if unsafe { libc::setrlimit(what, &limit) } == 0 { Ok(()) } else { Err(Error::last_os_error()) }
        };
        let limits = move || limit(libc::RLIMIT_STACK, 1 << 20).and_then(|()| limit(libc::RLIMIT_AS, kib << 10));
        // SAFETY: two system calls, which is what may be done between fork and exec.
        unsafe { command.pre_exec(limits) };
        // Without room for the program itself, it cannot be started, or is killed at once.
        command.output().ok().map(|output| (output.status, text(&output.stdout), text(&output.stderr)))
    };
    let mut without = Command::new(program.get_program());
    without.args(program.get_args()).env("LD_LIBRARY_PATH", crate::programs::driver());
    if limited(without)?.0.code() != Some(9) {
        return None;
    }
    let done = limited(program)?;
    let (status, stdout, stderr) = &done;
    // Our own library takes memory as well.
    let has_no_room = stderr.contains("error while loading shared libraries") || stderr.contains("cannot be preloaded");
    if has_no_room || stdout.contains("not so: pthread_create") {
        return None;
    }
    assert!(status.code() == Some(9) && *stdout == "done\n", "{kib} KiB: {done:?}");
    let is_short = stderr.contains("out of memory for") || stderr.contains("no room to count for");
    assert!(is_short || stderr.is_empty(), "{kib} KiB: {}", stderr);
    Some(is_short)
}

/// A plan that is too large for the memory that there is when the program begins: it is not armed, and that is said.
#[test]
fn a_plan_that_there_is_no_memory_for_is_said_to_be_none() {
    let folder = support::temp_dir();
    let rules: Vec<String> =
        (0..1500).map(|i| format!("@peer:dev={}:error=INVALID_DEVICE:force", 50_000 + i)).collect();
    let whole = rules.join(";");
    // From what is enough for everything down to where the plan has no memory; how much that is, depends on the
    // libraries of the system and the build.
    let [mut low, mut high] = [2_000, 4_000_000];
    assert_eq!(is_short_of(high, &whole, folder.path()), Some(false));
    while high - low > 64 {
        let kib = (low + high) / 2;
        match is_short_of(kib, &whole, folder.path()) {
            Some(true) => return,
            Some(false) => high = kib,
            None => low = kib,
        }
    }
    panic!("with {low} KiB the program does not begin, and with {high} KiB it has its plan");
}
