//! The default name of a recording: the name of the script if an interpreter or a launcher runs a script, or else of the program.
//!
//! Users only have to recognize the name: if the script is not easily found on the command line, the program gives the name.

use cupeer_spec::launchers;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Interpreters of scripts, each with its options that take the next word of the command line as their value.
const INTERPRETERS: &[(&str, &[&str])] =
    &[("python", &["-W", "-X"]), ("pypy", &["-W", "-X"]), ("bash", &["-o", "-O"]), ("sh", &["-o"])];
/// Options after which an interpreter runs no script file.
const WITHOUT_SCRIPT: &[&str] = &["-c", "-", "-s"];
/// Programs that run the program that their arguments name, besides the launchers of jobs. A module of Python can be one, too.
const RUNNERS: &[&str] = &[
    "chrt", "conda", "env", "ncu", "nice", "nohup", "nsys", "numactl", "pipenv", "poetry", "pytest", "py.test",
    "setsid", "stdbuf", "strace", "taskset", "time", "timeout", "uv", "xvfb-run",
];
/// File name endings of scripts. Names of recordings leave them out.
const ENDINGS: [&str; 2] = [".py", ".sh"];

/// Returns the name for a recording of a command: `train` for `python train.py` and for `torchrun --standalone train.py`.
pub fn name_of_command(command: &[OsString]) -> OsString {
    let words: Vec<&str> = command.iter().map_while(|word| word.to_str()).collect();
    let found = words.split_first().and_then(|(program, arguments)| script_name(program, arguments));
    let program = command.first().map(OsString::as_os_str).unwrap_or_default();
    found.map_or_else(|| without_ending(program), OsString::from)
}

/// Returns the name of the script that a program runs; `None` if it runs none, or that is unknown.
fn script_name(program: &str, arguments: &[&str]) -> Option<String> {
    let program = file_name(program);
    if let Some((_, with_value)) = INTERPRETERS.iter().find(|(name, _)| is_version_of(program, name)) {
        return name_from_interpreter(arguments, with_value);
    }
    is_runner(program).then(|| name_from_runner(arguments))?
}

fn name_from_interpreter(arguments: &[&str], with_value: &[&str]) -> Option<String> {
    let mut words = arguments.iter().enumerate();
    while let Some((at, word)) = words.next() {
        match *word {
            "-m" => {
                let (module, rest) = arguments.get(at + 1..)?.split_first()?;
                let last = module.rsplit('.').next().filter(|last| !last.is_empty())?;
                return Some(script_name(module, rest).unwrap_or_else(|| last.to_owned()));
            }
            option if WITHOUT_SCRIPT.contains(&option) => return None,
            option if with_value.contains(&option) => drop(words.next()),
            option if option.starts_with('-') => {}
            script => return Some(stem(script)),
        }
    }
    None
}

/// Returns the name from the first argument that is a script, an interpreter, or an existing program. Options of runners are not
/// known, so words that begin with `-` or contain `=` are skipped.
fn name_from_runner(arguments: &[&str]) -> Option<String> {
    arguments.iter().enumerate().find_map(|(at, word)| {
        // pytest has `FILE::TEST` for a single test.
        let file = word.split("::").next().unwrap_or(word);
        if word.starts_with('-') || word.contains('=') {
            return None;
        }
        let name = file_name(file);
        let is_interpreter = || INTERPRETERS.iter().any(|(known, _)| is_version_of(name, known));
        if is_interpreter() || is_runner(name) {
            return script_name(name, &arguments[at + 1..]);
        }
        let is_script = ENDINGS.iter().any(|ending| name.ends_with(ending));
        (is_script || file.contains('/') && is_program(Path::new(file))).then(|| stem(file))
    })
}

fn is_runner(name: &str) -> bool {
    RUNNERS.contains(&name) || launchers::collect_names(|launcher| launcher.runners).any(|known| known == name)
}

/// Returns true if a path is an existing file that is executable, or whose name has the ending of a script.
pub fn is_program(path: &Path) -> bool {
    let is_script = path.to_str().is_some_and(|path| ENDINGS.iter().any(|ending| path.ends_with(ending)));
    path.metadata().is_ok_and(|about| about.is_file() && (is_script || about.permissions().mode() & 0o111 != 0))
}

/// Returns true if a program is an interpreter of this name, with or without a version: `python3.12` and `python` for `python`.
fn is_version_of(program: &str, name: &str) -> bool {
    program.strip_prefix(name).is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn stem(path: &str) -> String {
    without_ending(path.as_ref()).to_string_lossy().into_owned()
}

fn without_ending(path: &OsStr) -> OsString {
    let name = Path::new(path).file_name().unwrap_or(path);
    let short = |name: &str| ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).map(OsString::from);
    name.to_str().and_then(short).unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recording_is_named_after_the_script() {
        for (command, expected) in [
            ("./app --steps 3", "app"),
            ("./train.py", "train"),
            ("python train.py --x", "train"),
            ("/usr/bin/python3.12 -u -X dev -W error src/train.py", "train"),
            ("python3 -c pass", "python3"),
            ("python3 -", "python3"),
            ("python3", "python3"),
            ("python -m pkg.mod x.py", "mod"),
            ("python -m torch.distributed.run --nproc-per-node 8 train.py --x y.py", "train"),
            ("python -m pytest -q tests/test_share.py::test_open", "test_share"),
            ("python-config x.py", "python-config"),
            ("bash -eu run.sh 1", "run"),
            ("sh -c ./app", "sh"),
            ("torchrun --standalone --nproc-per-node=8 train.py", "train"),
            ("torchrun --nproc-per-node 2 -m pkg.train", "torchrun"),
            ("mpirun -np 2 -x A=b.py python3 -u ring.py", "ring"),
            ("mpirun -np 2 /bin/sh run.sh", "run"),
            ("mpirun -np 2 --hostfile ./Cargo.toml /bin/true", "true"),
            ("mpirun -np 2 app", "mpirun"),
            ("timeout 60 env A=b python train.py", "train"),
            ("pytest tests", "pytest"),
            ("pytest -k share tests/test_share.py", "test_share"),
            ("uv run train.py", "train"),
            ("", ""),
        ] {
            let words: Vec<OsString> = command.split_whitespace().map(OsString::from).collect();
            assert_eq!(name_of_command(&words), expected, "{command}");
        }
    }
}
