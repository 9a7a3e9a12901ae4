//! Output for people: colors on a terminal, and only the requested amount of text.

use crate::support::{self, cupeer, done, refused, temp_dir, with};
use cupeer_spec::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const BOLD: &str = "\x1b[1mProblems\x1b[0m\n";
const RED: &str = "\x1b[31m";

fn program() -> PathBuf {
    support::compile_c("../scripts/demo.d/share.c", &["-ldl"])
}

/// A run that breaks a rule: its devices do not reach each other.
fn run(folder: &Path, words: &[&str]) -> Command {
    let mut command = cupeer();
    command.args(words).args(["run", "--sim=none:2", "-o", "r", "--"]).arg(program());
    command.current_dir(folder).env_remove(env::RECORD);
    clean(&mut command);
    command
}

fn clean(command: &mut Command) {
    for name in ["NO_COLOR", "CLICOLOR_FORCE", "CLICOLOR", "CI"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm");
}

/// A command line on a terminal, and what it writes there.
fn on_terminal(folder: &Path, line: &str, variables: &[(&str, &str)]) -> String {
    let mut command = support::plain("script");
    command.args(["-qec", line, "/dev/null"]).current_dir(folder);
    clean(&mut command);
    done(command.envs(variables.iter().copied())).stdout
}

#[test]
fn text_has_colours_where_they_are_asked_for_and_nothing_else_changes() {
    let folder = temp_dir();
    let plain = done(&mut run(folder.path(), &[]));
    assert!(plain.stderr.contains("cupeer:   error ipc-devices-apart: "), "{}", plain.stderr);
    let report = |words: &[&str], variables: &[(&str, &str)]| {
        let mut command = with(&["report", "r"]);
        clean(command.args(words).current_dir(folder.path()));
        support::stdout(command.envs(variables.iter().copied()))
    };
    let plain = report(&[], &[]);
    assert!(plain.contains("\nProblems\n- error ipc-devices-apart") && !plain.contains('\x1b'));
    let colored = report(&["--color", "always"], &[]);
    assert!(colored.contains(BOLD) && colored.contains("- \x1b[31merror\x1b[0m ipc-devices-apart"), "{colored}");
    let uncolored = ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[31m", "\x1b[33m"];
    assert_eq!(uncolored.iter().fold(colored, |text, mark| text.replace(mark, "")), plain);
    assert!(report(&[], &[("CLICOLOR_FORCE", "1")]).contains(BOLD));
    assert_eq!(report(&["--color=never"], &[("CLICOLOR_FORCE", "1")]), plain);
    let json = report(&["--format", "json", "--color", "always"], &[]);
    assert!(!json.contains('\x1b'));
    let summary = done(&mut run(folder.path(), &["--color", "always"])).stderr;
    // Another run has joined the record: its counts, and how its processes ended, are all that it says.
    assert_eq!(summary.matches("\x1b[33m").count(), 1, "{summary}");
    assert!(summary.contains("\x1b[33m  2 processes exited with status 1: "), "{summary}");
    refused(
        &["--color", "red", "list", "errors"],
        "invalid value 'red' for '--color <WHEN>' [possible values: auto, always, never]; see --help",
    );
}

#[test]
fn a_terminal_has_colours_unless_its_user_has_none() {
    if done(support::plain("sh").args(["-c", "command -v script"])).stdout.is_empty() {
        return left_out!("there is no script(1) here");
    }
    let folder = temp_dir();
    done(&mut run(folder.path(), &[]));
    let line = format!("{} report r", support::install().join("bin/cupeer").display());
    let shown = |variables: &[(&str, &str)]| on_terminal(folder.path(), &line, variables).contains(RED);
    assert!(shown(&[]));
    assert!(!shown(&[("NO_COLOR", "1")]) && !shown(&[("TERM", "dumb")]));
    let line = format!("{} report nowhere", support::install().join("bin/cupeer").display());
    let shown = on_terminal(folder.path(), &line, &[]);
    assert!(shown.starts_with("\x1b[31mcupeer:\x1b[0m there is no 'nowhere' here"), "{shown}");
}

/// A recording may contain any text, but the only control sequences on the terminal are those of the report.
#[test]
fn a_program_cannot_colour_the_report() {
    let folder = temp_dir();
    let evil = folder.path().join("a\x1b[31mb");
    support::copy_program(&program(), &evil);
    let mut command = cupeer();
    command.args(["run", "--sim=none:2", "-o", "r", "--"]).arg(&evil).current_dir(folder.path());
    done(command.env_remove(env::RECORD));
    let mut command = with(&["report", "r", "--color", "always"]);
    let text = support::stdout(command.current_dir(folder.path()));
    assert!(text.contains("a\u{fffd}[31mb+0x") && !text.contains("a\x1b"), "{text}");
}

#[test]
fn quiet_leaves_what_is_wrong() {
    let folder = temp_dir();
    let quiet = |options: &[&str], program: &[&str]| {
        let mut command = cupeer();
        command.args(["run", "-q"]).args(options).args(program);
        command.current_dir(folder.path()).env_remove(env::RECORD);
        command.env("XDG_STATE_HOME", folder.path());
        done(&mut command)
    };
    let path = program().display().to_string();
    let broken = quiet(&["--sim=none:2"], &[&path]);
    let lines: Vec<&str> = broken.stderr.lines().filter(|line| line.starts_with("cupeer:")).collect();
    assert!(
        matches!(lines[..], [at_once, ends, line, ..] if at_once.starts_with("cupeer: error ipc-devices-apart: ")
            && ends.starts_with("cupeer:   2 processes exited with status 1: ")
            && line.starts_with("cupeer:   error ipc-devices-apart: ")),
        "{}",
        broken.stderr
    );
    let careless = support::compile_c("programs/sweep/careless.c", &["-ldl"]).display().to_string();
    let killed = quiet(&["--sim", "--inject", "cuDeviceCanAccessPeer:error=INVALID_DEVICE"], &[&careless, "crash"]);
    let lines: Vec<&str> = killed.stderr.lines().collect();
    assert!(
        matches!(lines[..], [line] if line.starts_with("cupeer: process ") && line.ends_with(" was killed by SIGSEGV")),
        "{}",
        killed.stderr
    );
    let fine = quiet(&["--inject", "cuMemFree*:p=50%:delay=1ms"], &["true"]);
    assert_eq!((fine.status.code(), fine.stderr.as_str()), (Some(0), ""));
    let missing = quiet(&[], &["./nowhere"]);
    assert_eq!(missing.stderr, "cupeer: './nowhere': No such file or directory\n");
    refused(&["run", "-q", "-v", "true"], "the argument '--quiet' cannot be used with '--verbose'; see --help");
}
