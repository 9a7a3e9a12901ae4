//! Processes that always wait: helpers of Python and of launchers, and commands that only start others.
//!
//! The lists here are those of other programs than launchers, which `cupeer_spec::launchers` has.

use super::document::Process;
use cupeer_spec::launchers::collect_names;

/// Words in command lines of processes that only serve others and never execute the program's own code.
const SERVANTS: [&str; 5] = [
    "multiprocessing.resource_tracker",
    "multiprocessing.semaphore_tracker",
    "multiprocessing.forkserver",
    "_inductor/compile_worker",
    "_inductor.compile_worker",
];
/// Files and functions of Python in which a helper process waits if a fork created the process.
const PLACES: [(&str, &str); 4] = [
    ("multiprocessing/resource_tracker.py", "main"),
    ("multiprocessing/semaphore_tracker.py", "main"),
    ("multiprocessing/forkserver.py", "main"),
    ("_inductor/compile_worker", "main"),
];
/// Names of commands that start other programs and wait for them.
const WRAPPERS: [&str; 20] = [
    "timeout", "sh", "bash", "dash", "zsh", "ksh", "fish", "busybox", "env", "nohup", "nice", "setsid", "sudo",
    "stdbuf", "taskset", "numactl", "unshare", "chrt", "time", "tini",
];

/// Returns true if a process only serves others, and waits for their requests.
pub fn is_servant(process: &Process) -> bool {
    let servants = || SERVANTS.into_iter().chain(collect_names(|launcher| launcher.servants));
    let is_asked = |word: &String| servants().any(|known| word.contains(known));
    let is_there = || {
        let frames = process.threads.iter().flat_map(|thread| &thread.frames);
        frames.clone().any(|frame| {
            let (file, function) =
                (frame.file.as_deref().unwrap_or_default(), frame.function.as_deref().unwrap_or_default());
            PLACES.iter().any(|(known, name)| file.contains(known) && function == *name)
        }) && !frames.clone().any(|frame| frame.language == "Python" && frame.is_own())
    };
    process.arguments.iter().take(4).any(is_asked) || is_there()
}

/// Returns true if a process only starts others. It is never the answer; the waits of other processes lead
/// through it.
pub fn is_wrapper(process: &Process) -> bool {
    let name = process.program.rsplit('/').next().unwrap_or_default();
    let is_agent = || {
        let mut frames = process.threads.first().into_iter().flat_map(|thread| &thread.frames);
        frames.any(|frame| {
            let file = frame.file.as_deref().unwrap_or_default();
            collect_names(|launcher| launcher.agent_files).any(|known| file.contains(known))
        })
    };
    let mut wrappers = WRAPPERS.into_iter().chain(collect_names(|launcher| launcher.waiters));
    wrappers.any(|known| known == name) || process.rank.is_none() && is_agent()
}
