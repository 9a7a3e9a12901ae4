//! Contents of a recording under all conditions, one topic per file.
//!
//! What belongs here: how a program of `tests/programs` is run so that it records, and how its record is read.

mod descriptors;
mod odd;
mod open;
mod order;
mod processes;
mod repeats;
mod rings;
mod room;
mod run;
mod sealed;
mod short;
mod signals;
mod survival;
mod troubles;

use crate::programs::{Cupeer, Scene};
use crate::support;
use cupeer_spec::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that records into a directory. The driver keeps no account, which would take most of the time.
fn recording(scene: &Scene, record: &Path) -> Command {
    let mut command = scene.command(Cupeer::Recording, record.parent().unwrap());
    command.env(env::OUT, record).env_remove(env::TRACE).env_remove("FAKE_DRIVER_LOG");
    command
}

/// A command within namespaces of its own, which `prepare`, a line for the shell, furnishes; `None` where that is not
/// allowed, which is said. It has the same pid.
fn in_namespaces(flags: &[&str], prepare: &str, command: &Command) -> Option<Command> {
    let wrapped = |program: &str, args: &mut dyn Iterator<Item = &std::ffi::OsStr>| {
        let mut wrapped = support::plain("unshare");
        wrapped.args(flags).args(["sh", "-c", &format!("{prepare} || exit 99; exec \"$@\""), "sh", program]);
        wrapped.args(args);
        wrapped
    };
    let allowed = wrapped("true", &mut std::iter::empty()).output();
    if !allowed.as_ref().is_ok_and(|output| output.status.success()) {
        left_out!("{flags:?} {prepare}: {allowed:?}");
        return None;
    }
    let mut whole = wrapped(command.get_program().to_str().unwrap(), &mut command.get_args());
    take_environment(&mut whole, command);
    Some(whole)
}

/// Gives a command the variables of another one.
fn take_environment(command: &mut Command, other: &Command) {
    for (name, value) in other.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
}

/// Numbers that are different in each run.
struct Random(u64);

impl Random {
    fn new() -> Self {
        use std::hash::{BuildHasher, Hasher};
        Random(std::hash::RandomState::new().build_hasher().finish() | 1)
    }

    /// A number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

/// The file of the only process in a record that is being written; `None` before there is one.
fn only_file(record: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(record).ok()?.flatten().map(|entry| entry.path());
    entries.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "cupeer"))
}
