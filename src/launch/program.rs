//! Checks of a program before it starts: its path, and whether the dynamic loader will load the preload library into it.

use crate::args::{Level, Options};
use crate::elf::ElfFile;
use crate::libraries;
use crate::settings::check_access;
use clap::ValueEnum;
use cupeer_console::output::CommandFailure;
use cupeer_console::status;
use cupeer_record::plain::{self, SymbolicLinks};
use cupeer_spec::function::Library;
use cupeer_topology::Topology;
use std::collections::BTreeSet;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Part that the paths of all musl loaders have in common.
pub const MUSL: &str = "/ld-musl-";

/// Maximum number of scripts in a chain: the interpreter of a script may be a script. The kernel has the same limit.
const MOST_SCRIPTS: usize = 5;

/// Function that runs a program under cupeer with these options and these additional variables.
pub type RunProgram = fn(&Options, &[(&str, &OsStr)], &[OsString]) -> anyhow::Result<ProgramOutcome>;

/// A program that has run under cupeer.
pub struct ProgramOutcome {
    /// Sentence about its end, such as "ended with status 0".
    pub ended: String,
    /// Number of processes that reached the driver.
    pub reached: u32,
    /// True if a driver was loaded, but no driver call was seen in any process.
    pub is_unseen: bool,
    /// Sentences about places at which the preload library did not take effect.
    pub wrong: Vec<String>,
}

/// Returns the failure to execute a program, with the message and exit status that `env` has.
pub fn execution_failure(program: &OsStr, error: &io::Error) -> CommandFailure {
    let missing = error.raw_os_error() == Some(libc::ENOENT);
    if is_path(program) && Path::new(program).is_dir() {
        return CommandFailure {
            sentence: format!("'{}': it is a directory, not a program", program.display()),
            excerpt: None,
            status: status::NOT_EXECUTABLE,
        };
    }
    // "No such file or directory (os error 2)" is printed without the part in parentheses.
    let words = error.to_string();
    let words = words.split(" (os error").next().unwrap_or_default();
    let interpreter = missing_interpreter(program).filter(|_| missing);
    let hint = interpreter.map(|path| format!(" (its interpreter {path} is missing)"));
    let hint = hint.or_else(|| suggest_option(program).filter(|_| missing)).unwrap_or_default();
    CommandFailure {
        sentence: format!("'{}': {words}{hint}", program.display()),
        excerpt: None,
        status: if missing { status::NOT_FOUND } else { status::NOT_EXECUTABLE },
    }
}

/// Returns true if a program is given by its path, so that it is not searched in PATH.
fn is_path(program: &OsStr) -> bool {
    program.as_encoded_bytes().contains(&b'/')
}

/// Returns the option that the user meant, if the program looks like an option's value: some options take a value only after
/// `=`.
fn suggest_option(program: &OsStr) -> Option<String> {
    let name = program.to_str()?;
    let option = if Topology::parse(name).is_ok() {
        "--sim"
    } else {
        Level::from_str(name, false).ok()?;
        "--check"
    };
    Some(format!("; did you mean {option}={name}?"))
}

/// Returns the path of the program that exec will find, if it can be determined.
pub fn find_program(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(program.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    let is_executable = |file: &PathBuf| file.is_file() && check_access(file, libc::X_OK).is_ok();
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(is_executable)
}

/// Returns a sentence about why the preload library will not be loaded into a program; `None` if it will be, or if the
/// program cannot be started at all.
pub fn preload_obstacle(program: &OsStr) -> Option<String> {
    let path = find_program(program)?;
    tracing::debug!("the program is {}", path.display());
    let (binary, scripts) = follow_scripts(&path)?;
    let reason = loading_obstacle(&binary)?;
    let of = if scripts > 0 { format!(", the interpreter of {},", path.display()) } else { String::new() };
    Some(format!("{}{of} {reason}", binary.display()))
}

/// Returns the obstacles of the programs in a shell command, `sh -c COMMAND`.
pub fn obstacles_in_shell(program: &[OsString]) -> Vec<String> {
    let name = Path::new(&program[0]).file_name().unwrap_or_default();
    let is_shell = ["sh", "bash", "dash", "ksh", "zsh"].iter().any(|shell| name == *shell);
    let Some(at) = program.iter().position(|argument| argument == "-c").filter(|_| is_shell) else {
        return Vec::new();
    };
    let text = program.get(at + 1).map(|text| text.to_string_lossy().into_owned()).unwrap_or_default();
    let in_front = |word: &&str| {
        let is_keyword = ["if", "then", "else", "do", "while", "until", "exec", "time", "!"].contains(word);
        is_keyword || word.contains('=')
    };
    let commands = text.split([';', '|', '&', '(', ')', '{', '}', '`', '\n']).filter_map(|command| {
        let word = command.split_whitespace().find(|word| !in_front(word))?;
        Some(word.trim_matches(['"', '\'']).to_owned())
    });
    let commands: BTreeSet<String> = commands.collect();
    commands.iter().filter_map(|command| preload_obstacle(OsStr::new(command))).collect()
}

/// Returns the note for a program that the dynamic loader ended because it found no driver; `None` if the program does not
/// need a driver.
pub fn missing_driver_note(program: &OsStr) -> Option<String> {
    let path = find_program(program)?;
    let soname = Library::Cuda.soname();
    let needed = ElfFile::open(&follow_scripts(&path)?.0).ok()??.needed_libraries().ok()?;
    needed.iter().any(|name| name == soname).then(|| {
        format!(
            "{} needs {soname}, which the loader did not find; --sim runs it on the simulated driver",
            path.display()
        )
    })
}

/// Returns the interpreter of a program that exec could not start because the interpreter is missing.
pub fn missing_interpreter(program: &OsStr) -> Option<String> {
    let (binary, _) = follow_scripts(&find_program(program)?)?;
    let interpreter = match ElfFile::open(&binary) {
        Ok(elf) => PathBuf::from(elf?.interpreter().ok()??),
        Err(_) => binary,
    };
    (!interpreter.exists() && Path::new(program) != interpreter).then(|| interpreter.display().to_string())
}

/// Returns the binary that runs when a file is executed, and the number of scripts that lead to the binary.
fn follow_scripts(path: &Path) -> Option<(PathBuf, usize)> {
    let mut binary = path.to_owned();
    for scripts in 0..MOST_SCRIPTS {
        match script_interpreter(&binary) {
            Some(interpreter) => binary = interpreter,
            None => return Some((binary, scripts)),
        }
    }
    None
}

fn script_interpreter(path: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    plain::open(path, SymbolicLinks::Followed).ok()?.take(256).read_to_end(&mut start).ok()?;
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?.trim_ascii();
    let word = line.split(|byte| b" \t".contains(byte)).next().filter(|word| !word.is_empty())?;
    Some(PathBuf::from(OsStr::from_bytes(word)))
}

fn loading_obstacle(binary: &Path) -> Option<String> {
    let library = libraries::PRELOAD;
    let found = binary.metadata().ok().filter(|found| found.is_file())?;
    if let Some(privilege) = gained_privilege(binary, &found) {
        return Some(format!("{privilege}, so the dynamic loader ignores LD_PRELOAD and {library} is not loaded"));
    }
    let elf = ElfFile::open(binary).ok()??;
    if !elf.is_native() {
        return Some(format!("is {}, so {library} is not loaded", elf.describe_architecture()));
    }
    match elf.interpreter().ok()? {
        // The dynamic loader itself may be started as a program; it has no loader either.
        None if is_loader(binary) => None,
        None => Some(format!("is statically linked, so {library} is not loaded")),
        Some(loader) if loader.contains(MUSL) => Some(format!(
            "uses musl's loader ({loader}), which cannot load {library} and ends the program because of it, so \
             it does not run under cupeer"
        )),
        Some(_) => None,
    }
}

fn is_loader(binary: &Path) -> bool {
    let real = binary.canonicalize().unwrap_or_default();
    real.file_name().is_some_and(|name| name.as_bytes().starts_with(b"ld-") || name == "ld.so")
}

/// Returns the reason why the dynamic loader ignores the environment: the program has more privileges than its caller.
fn gained_privilege(binary: &Path, found: &std::fs::Metadata) -> Option<&'static str> {
    // SAFETY: prctl only answers here; getuid and getgid cannot fail.
    let (no_new, user, group) =
        unsafe { (libc::prctl(libc::PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), libc::getuid(), libc::getgid()) };
    if no_new == 1 || is_mounted_nosuid(binary) {
        return None;
    }
    if found.mode() & libc::S_ISUID != 0 && found.uid() != user {
        return Some("is a set-uid program");
    }
    if found.mode() & (libc::S_ISGID | libc::S_IXGRP) == libc::S_ISGID | libc::S_IXGRP && found.gid() != group {
        return Some("is a set-gid program");
    }
    // Root gains no privilege from the capabilities of a file.
    (user != 0 && has_capabilities(binary)).then_some("has file capabilities")
}

/// Returns true if a file system is mounted without set-user-id bits (nosuid).
fn is_mounted_nosuid(binary: &Path) -> bool {
    let Ok(path) = CString::new(binary.as_os_str().as_bytes()) else { return false };
    // SAFETY: all-zero bytes are a valid statvfs, the path is NUL-terminated, and the call fills it.
    unsafe {
        let mut found: libc::statvfs = std::mem::zeroed();
        libc::statvfs(path.as_ptr(), &mut found) == 0 && found.f_flag & libc::ST_NOSUID != 0
    }
}

fn has_capabilities(binary: &Path) -> bool {
    let Ok(path) = CString::new(binary.as_os_str().as_bytes()) else { return false };
    // SAFETY: both texts are NUL-terminated, and a size of zero asks only for the length.
    unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) > 0 }
}
