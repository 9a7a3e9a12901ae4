//! Processes that always wait: helpers of Python and of launchers, and commands that only start others.

use super::document::Process;

/// Words of command lines of processes that serve others, and never do anything of the program's own.
const SERVANTS: [&str; 10] = [
    "multiprocessing.resource_tracker",
    "multiprocessing.semaphore_tracker",
    "multiprocessing.forkserver",
    "_inductor/compile_worker",
    "_inductor.compile_worker",
    "ray::IDLE",
    "raylet",
    "gcs_server",
    "ray/dashboard",
    "ray/_private",
];
/// Where such a process is, if a fork made it: files and functions of Python.
const PLACES: [(&str, &str); 4] = [
    ("multiprocessing/resource_tracker.py", "main"),
    ("multiprocessing/semaphore_tracker.py", "main"),
    ("multiprocessing/forkserver.py", "main"),
    ("_inductor/compile_worker", "main"),
];
/// Commands that start others and wait for them.
const WRAPPERS: [&str; 30] = [
    "timeout",
    "sh",
    "bash",
    "dash",
    "zsh",
    "ksh",
    "fish",
    "busybox",
    "env",
    "nohup",
    "nice",
    "setsid",
    "sudo",
    "stdbuf",
    "taskset",
    "numactl",
    "unshare",
    "chrt",
    "time",
    "tini",
    "mpirun",
    "mpiexec",
    "orterun",
    "prterun",
    "prted",
    "orted",
    "hydra_pmi_proxy",
    "srun",
    "slurmstepd",
    "mpiexec.hydra",
];
/// The launcher of PyTorch, which looks at its workers again and again.
const AGENTS: [&str; 3] =
    ["torch/distributed/elastic/", "torch/distributed/launcher/", "torch/distributed/run.py"];

/// Returns true if a process serves others, and waits until they ask.
pub fn is_servant(process: &Process) -> bool {
    let is_asked = |word: &String| SERVANTS.iter().any(|known| word.contains(known));
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

/// Returns true if a process only starts others: the waits lead through it, and it is no answer.
pub fn is_wrapper(process: &Process) -> bool {
    let name = process.program.rsplit('/').next().unwrap_or_default();
    let is_agent = || {
        let mut frames = process.threads.first().into_iter().flat_map(|thread| &thread.frames);
        frames.any(|frame| {
            let file = frame.file.as_deref().unwrap_or_default();
            AGENTS.iter().any(|known| file.contains(known))
        })
    };
    WRAPPERS.contains(&name) || process.rank.is_none() && is_agent()
}
