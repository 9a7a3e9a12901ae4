//! Stops of the program: those that the launcher follows, so that a shell sees its job stop, and those that it does not.
//! Whatever happens, a launcher does not stay stopped while its program runs.

use super::{kill, run, start};
use crate::support::{self, compile_text, cupeer, plain, wait_for};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

/// `stopper HOW`: prints its pid, stops in this way, prints "continued", and ends when stdin does.
fn stopper() -> PathBuf {
    compile_text(
        "stopper",
        r#"
        #define _GNU_SOURCE
        #include <signal.h>
        #include <stdio.h>
        #include <string.h>
        #include <unistd.h>
        static void on(int s) { write(1, "caught\n", 7); usleep(1000); signal(s, SIG_DFL); raise(s);
            sigset_t one; sigemptyset(&one); sigaddset(&one, s); sigprocmask(SIG_UNBLOCK, &one, 0); }
        static void nothing(int s) { (void)s; }
        int main(int argc, char **argv) {
            const char *how = argc > 1 ? argv[1] : "";
            char byte;
            if (!strcmp(how, "session")) setsid();
            if (!strcmp(how, "ignores")) signal(SIGTSTP, SIG_IGN);
            if (!strcmp(how, "handles")) signal(SIGTSTP, on);
            signal(SIGIO, nothing);
            printf("%d\n", getpid());
            fflush(stdout);
            if (!strcmp(how, "raises") || !strcmp(how, "session")) raise(SIGSTOP);
            if (!strcmp(how, "suspends")) kill(getpid(), SIGTSTP);
            puts("continued");
            fflush(stdout);
            while (read(0, &byte, 1) > 0) {}
            return 7;
        }"#,
        &[],
    )
}

fn state(pid: u32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// `cupeer run` with the program of these tests.
struct Job {
    launcher: Child,
    rest: BufReader<ChildStdout>,
    program: u32,
}

impl Job {
    fn start(how: &str) -> Job {
        Job::of(run(&["--record", "off"]).arg(stopper()).arg(how))
    }

    fn of(command: &mut Command) -> Job {
        let (launcher, rest, line) = start(command.process_group(0).stdin(Stdio::piped()));
        Job { launcher, rest, program: line.parse().unwrap() }
    }

    fn wait_until_both_stop(&self) {
        wait_for("both to stop", || [self.launcher.id(), self.program].map(state) == [Some('T'); 2]);
    }

    fn line(&mut self, expected: &str) {
        let mut line = String::new();
        self.rest.read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), expected);
    }

    /// Waits until the launcher passes on a signal that it got after all that happened before.
    fn launcher_runs(&self) {
        kill(self.launcher.id(), libc::SIGIO);
        let pending = |what: &str| {
            let status = fs::read_to_string(format!("/proc/{}/status", self.program)).unwrap();
            let mask = status.lines().find_map(|line| line.strip_prefix(what)).unwrap().trim();
            u64::from_str_radix(mask, 16).unwrap()
        };
        wait_for("a signal to be passed on", || {
            (pending("ShdPnd:") | pending("SigPnd:")) >> (libc::SIGIO - 1) & 1 == 1
        });
    }

    /// Ends the program, and the launcher with it.
    fn end(mut self) {
        self.line("continued");
        drop(self.launcher.stdin.take());
        wait_for("the launcher's end", || self.launcher.try_wait().unwrap().is_some());
        assert_eq!(self.launcher.wait().unwrap().code(), Some(7));
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if self.launcher.try_wait().is_ok_and(|end| end.is_none()) {
            let _ = self.launcher.kill();
            let _ = self.launcher.wait();
        }
    }
}

/// Somebody stops the program alone, and continues it alone.
#[test]
fn a_stop_of_the_program_alone_leaves_the_launcher_running() {
    let job = Job::start("");
    for _ in 0..20 {
        kill(job.program, libc::SIGSTOP);
        wait_for("the stop", || state(job.program) == Some('T'));
        kill(job.program, libc::SIGCONT);
    }
    kill(job.program, libc::SIGSTOP);
    wait_for("the stop", || state(job.program) == Some('T'));
    job.launcher_runs();
    kill(job.program, libc::SIGCONT);
    job.end();
}

#[test]
fn a_program_that_stops_itself_stops_the_launcher_until_either_is_continued() {
    for how in ["raises", "session"] {
        for is_program in [true, false] {
            let job = Job::start(how);
            job.wait_until_both_stop();
            kill(if is_program { job.program } else { job.launcher.id() }, libc::SIGCONT);
            job.end();
        }
    }
}

#[test]
fn a_stopped_launcher_ends_with_its_program() {
    let mut job = Job::start("raises");
    job.wait_until_both_stop();
    kill(job.program, libc::SIGKILL);
    wait_for("the launcher's end", || job.launcher.try_wait().unwrap().is_some());
    assert_eq!(job.launcher.wait().unwrap().signal(), Some(libc::SIGKILL));
}

/// As schedulers suspend and resume jobs.
#[test]
fn a_group_that_is_stopped_is_continued() {
    let job = Job::start("");
    let group = |signal| {
        // SAFETY: the group is that of a child that nobody has waited for.
        assert_eq!(unsafe { libc::kill(-(job.launcher.id() as i32), signal) }, 0);
    };
    for _ in 0..20 {
        group(libc::SIGSTOP);
        job.wait_until_both_stop();
        group(libc::SIGCONT);
    }
    wait_for("both to run", || ![job.launcher.id(), job.program].map(state).contains(&Some('T')));
    job.end();
}

#[test]
fn launchers_within_launchers_stop_and_continue_with_the_program() {
    for is_program in [true, false] {
        let mut command = run(&["--record", "off"]);
        let inner = cupeer();
        command.arg(inner.get_program()).args(["run", "--record", "off"]).arg(stopper()).arg("raises");
        let job = Job::of(&mut command);
        job.wait_until_both_stop();
        kill(if is_program { job.program } else { job.launcher.id() }, libc::SIGCONT);
        job.end();
    }
}

/// A shell with job control in a terminal of its own, which runs this script with the launcher and the program as `$@`.
struct Shell {
    terminal: File,
    shell: Child,
    seen: String,
}

impl Shell {
    fn start(script: &str, how: &str) -> Shell {
        let (master, terminal) = support::terminal();
        let launcher = cupeer();
        let mut command = plain("bash");
        command.args(["-c", &format!("set -m; {script}"), "bash"]).arg(launcher.get_program());
        command.args(["run", "--record", "off"]).arg(stopper()).arg(how);
        let end = || terminal.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: these calls take numbers, and may be called between fork and exec; stdin is the terminal there.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            })
        };
        let shell = command.spawn().unwrap();
        // SAFETY: the descriptor is open, and the call changes a flag of it.
        unsafe { libc::fcntl(master.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        Shell { terminal: master, shell, seen: String::new() }
    }

    /// Waits until the terminal shows this after all that was waited for before.
    #[track_caller]
    fn wait_for(&mut self, text: &str) {
        wait_for(&format!("{text:?} on the terminal"), || {
            let mut bytes = [0; 4096];
            if let Ok(length) = self.terminal.read(&mut bytes) {
                self.seen += &String::from_utf8_lossy(&bytes[..length]);
            }
            self.seen.find(text).map(|at| self.seen.drain(..at + text.len())).is_some()
        });
    }

    fn types(&mut self, text: &str) {
        self.terminal.write_all(text.as_bytes()).unwrap();
    }

    #[track_caller]
    fn ends(mut self) {
        self.wait_for("over 7");
        assert!(self.shell.wait().unwrap().success());
    }
}

#[test]
fn a_shell_sees_its_job_stop_at_a_key() {
    for how in ["", "handles"] {
        for _ in 0..5 {
            let mut shell = Shell::start("\"$@\"; echo stopped $?; fg; echo over $?", how);
            shell.wait_for("continued");
            shell.types("\x1a");
            shell.wait_for("stopped 148");
            shell.types("\x04");
            shell.ends();
        }
    }
}

#[test]
fn a_shell_sees_a_program_that_stops_itself() {
    for (how, status) in [("raises", 147), ("suspends", 148)] {
        let mut shell = Shell::start("\"$@\"; echo stopped $?; fg; echo over $?", how);
        shell.wait_for(&format!("stopped {status}"));
        shell.wait_for("continued");
        shell.types("\x04");
        shell.ends();
    }
}

/// A job in the background stops when it reads from the terminal, and continues in the foreground.
#[test]
fn a_job_in_the_background_waits_for_the_terminal() {
    let script = "\"$@\"; echo stopped $?; bg; until jobs -s | grep -q Stopped; do sleep 0.01; done; echo waits; fg; echo over $?";
    let mut shell = Shell::start(script, "");
    shell.wait_for("continued");
    shell.types("\x1a");
    shell.wait_for("stopped 148");
    shell.wait_for("waits");
    shell.types("\x04");
    shell.ends();
}

#[test]
fn a_program_that_ignores_the_key_goes_on_with_its_launcher() {
    let mut shell = Shell::start("\"$@\"; echo over $?", "ignores");
    shell.wait_for("continued");
    shell.types("\x1a\x04");
    shell.ends();
}
