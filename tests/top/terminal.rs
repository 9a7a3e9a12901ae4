//! The screen of `cupeer top`, in a terminal of the test's own: what stands on it, what keys do, and that the terminal is given
//! back on every way out.

use super::Crew;
use crate::support::{self, cupeer, temp_dir, wait_for};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A terminal with a program in it.
struct Terminal {
    ours: File,
    theirs: OwnedFd,
    child: Child,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Terminal {
    fn start(folder: &Path, size: (u16, u16), words: &[&str], colors: bool) -> Terminal {
        let (ours, theirs) = support::terminal();
        // SAFETY: the descriptor is that of a terminal, and the size is valid.
        assert_eq!(unsafe { libc::ioctl(ours.as_raw_fd(), libc::TIOCSWINSZ, &winsize(size)) }, 0);
        let mut command = cupeer();
        command.args(["top", "--interval", "100ms"]).args(words).current_dir(folder).env("TERM", "xterm-256color");
        let end = || theirs.try_clone().unwrap();
        command.stdin(end()).stdout(end()).stderr(end());
        if colors {
            command.env_remove("NO_COLOR")
        } else {
            command.env("NO_COLOR", "1")
        };
        // SAFETY: both calls may be made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                libc::ioctl(0, libc::TIOCSCTTY, 0);
                Ok(())
            })
        };
        let child = command.spawn().unwrap();
        let screen = Arc::new(Mutex::new(vt100::Parser::new(size.1, size.0, 0)));
        let (mut from, to) = (ours.try_clone().unwrap(), screen.clone());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(had @ 1..) = from.read(&mut bytes) {
                to.lock().unwrap().process(&bytes[..had]);
            }
        });
        Terminal { ours, theirs, child, screen }
    }

    fn text(&self) -> String {
        self.screen.lock().unwrap().screen().contents()
    }

    #[track_caller]
    fn shows(&self, text: &str) {
        let start = Instant::now();
        while !self.text().contains(text) {
            assert!(start.elapsed() < crate::support::PATIENCE, "waited in vain for: {text}\n{}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[track_caller]
    fn press(&mut self, keys: &str, shows: &str) {
        self.ours.write_all(keys.as_bytes()).unwrap();
        self.shows(shows);
    }

    fn is_taken(&self) -> bool {
        self.screen.lock().unwrap().screen().alternate_screen()
    }

    /// Returns the settings of the terminal for input.
    fn mode(&self) -> (u32, u32, u32) {
        // SAFETY: all-zero bytes are valid, and the call fills them.
        let mode = unsafe {
            let mut mode: libc::termios = std::mem::zeroed();
            assert_eq!(libc::tcgetattr(self.theirs.as_raw_fd(), &mut mode), 0);
            mode
        };
        (mode.c_iflag, mode.c_oflag, mode.c_lflag)
    }

    fn signal(&self, signal: i32) {
        // SAFETY: the child is ours, and was not waited for.
        assert_eq!(unsafe { libc::kill(self.child.id() as i32, signal) }, 0);
    }

    /// Waits for its end, after which the terminal is as it was.
    #[track_caller]
    fn ends(mut self, mode: (u32, u32, u32)) -> ExitStatus {
        let status = self.child.wait().unwrap();
        assert_eq!(self.mode(), mode);
        wait_for("the screen that was there before", || !self.is_taken());
        assert!(!self.screen.lock().unwrap().screen().hide_cursor());
        status
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn winsize((columns, rows): (u16, u16)) -> libc::winsize {
    libc::winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Returns the settings of a new terminal.
fn untouched(folder: &Path) -> (u32, u32, u32) {
    let terminal = Terminal::start(folder, (80, 24), &["--help"], false);
    terminal.mode()
}

#[test]
fn keys_show_what_they_are_for_and_the_terminal_is_given_back() {
    let folder = temp_dir();
    let mode = untouched(folder.path());
    let _crew = Crew::start(folder.path(), &[], &["6", "2", "fail:1", "kill:3"]);
    for size in [(80, 24), (200, 50)] {
        let mut terminal = Terminal::start(folder.path(), size, &["r"], size.0 == 200);
        terminal.shows("5 processes run, 1 died");
        assert!(terminal.is_taken());
        // A key, and what it led to, which did not stand there before.
        terminal.shows("sort: state");
        let text = terminal.text();
        let row = text.lines().find(|line| line.starts_with("   3 ")).expect("a row of rank 3");
        assert!(row.trim_end().ends_with("died, left 2 open"), "{text}");
        assert_eq!(text.contains("HOLDS OF"), size.0 == 200, "{text}");
        assert!(
            text.lines().count() <= size.1.into() && text.lines().all(|line| line.len() <= size.0.into()),
            "{text}"
        );
        terminal.press("s", "sort: rank");
        terminal.press("r", "sort: rank, reversed");
        terminal.press("\x1b[F\r", "rank 0 of r");
        terminal.shows("holds      5MiB of others; 2 opened objects and not closed");
        terminal.press("\x1b", "sort: rank, reversed");
        terminal.press("/5\r", "only: 5");
        wait_for("one row", || terminal.text().matches("runs").count() == 1);
        terminal.press("\x1b", "SHARED");
        terminal.press("?", "sort the other way round");
        terminal.press("\x1b", "EXPORTS");
        terminal.press("p", "  paused");
        let is_colored = String::from_utf8_lossy(&terminal.screen.lock().unwrap().screen().contents_formatted())
            .contains("\x1b[31m");
        assert_eq!(is_colored, size.0 == 200, "what died is red, where colours are wanted");
        terminal.ours.write_all(b"q").unwrap();
        assert_eq!(terminal.ends(mode).code(), Some(0));
    }
}

#[test]
fn a_key_shows_what_the_processes_of_a_job_wait_in() {
    let folder = temp_dir();
    let plan = ["--inject", "cuIpcCloseMemHandle:rank=1:hang=gate"];
    let _crew = Crew::start(folder.path(), &plan, &["2", "1", "close:1"]);
    let mut terminal = Terminal::start(folder.path(), (120, 40), &["r"], false);
    terminal.shows("cuIpcCloseMemHandle");
    terminal.press("w", "rank 1 is in cuIpcCloseMemHandle");
    terminal.shows("held by the fault");
    terminal.press("\x1b", "sort: state");
}

#[test]
fn it_follows_the_size_and_stops_and_goes_on() {
    let folder = temp_dir();
    let mode = untouched(folder.path());
    let _crew = Crew::start(folder.path(), &[], &["2", "1"]);
    let terminal = Terminal::start(folder.path(), (60, 24), &["r"], false);
    terminal.shows("HELD BY");
    assert!(!terminal.text().contains("HOLDS OF"), "{}", terminal.text());
    terminal.screen.lock().unwrap().screen_mut().set_size(50, 200);
    // SAFETY: the size is valid; the terminal tells its program.
    assert_eq!(unsafe { libc::ioctl(terminal.ours.as_raw_fd(), libc::TIOCSWINSZ, &winsize((200, 50))) }, 0);
    terminal.shows("HOLDS OF");
    for stop in [libc::SIGTSTP, 0] {
        match stop {
            0 => (&terminal.ours).write_all(b"\x1a").unwrap(),
            signal => terminal.signal(signal),
        }
        let state = || std::fs::read_to_string(format!("/proc/{}/stat", terminal.child.id())).unwrap();
        wait_for("its stop", || state().contains(") T "));
        wait_for("the screen that was there before", || !terminal.is_taken());
        assert_eq!(terminal.mode(), mode);
        terminal.signal(libc::SIGCONT);
        wait_for("the screen", || terminal.is_taken());
        terminal.shows("HOLDS OF");
        assert_ne!(terminal.mode(), mode);
    }
    (&terminal.ours).write_all(b"\x03").unwrap();
    assert_eq!(terminal.ends(mode).code(), Some(0));
}

#[test]
fn signals_and_a_terminal_that_goes_end_it() {
    let folder = temp_dir();
    let mode = untouched(folder.path());
    let _crew = Crew::start(folder.path(), &[], &["2", "1"]);
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT] {
        let terminal = Terminal::start(folder.path(), (80, 24), &["r"], false);
        terminal.shows("HELD BY");
        terminal.signal(signal);
        assert_eq!(terminal.ends(mode).signal(), Some(signal));
    }
    let mut terminal = Terminal::start(folder.path(), (80, 24), &["r"], false);
    terminal.shows("HELD BY");
    // All that hold the terminal, but the program.
    terminal.ours = File::open("/dev/null").unwrap();
    terminal.theirs = File::open("/dev/null").unwrap().into();
    terminal.signal(libc::SIGHUP);
    wait_for("its end", || terminal.child.try_wait().unwrap().is_some());
}
