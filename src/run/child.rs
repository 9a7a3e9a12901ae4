//! The program's process: from fork to exec, and its end.

use super::mask::InheritedSignals;
use super::orphans;
use super::page::StatusPage;
use anyhow::{Context, Result};
use cupeer_console::startup;
use cupeer_console::variables::Environment;
use cupeer_launch::program::execution_failure;
use cupeer_spec::proc::Stat;
use std::cell::RefCell;
use std::convert::Infallible;
use std::ffi::{CString, OsString, c_char};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;

/// End of a program.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ProgramEnd {
    /// The program exited with this status.
    Exited(u8),
    /// This signal killed the program.
    Killed(i32),
}

pub struct Child {
    pid: libc::pid_t,
    /// Start time of the process in clock ticks since boot; 0 if the system does not report it.
    start_ticks: u64,
    /// Last name of the process in the kernel: the name of its last program, or a name that the process gave
    /// itself.
    last_name: RefCell<String>,
}

pub enum ChildState {
    Running,
    /// The process was stopped by this signal, as a shell stops a job.
    Stopped(i32),
    Ended(ProgramEnd),
}

/// Arguments and environment in exec's format. They are created before fork, because the child may not
/// allocate memory.
struct ExecArguments {
    arguments: ExecStrings,
    environment: ExecStrings,
}

/// Strings with an array of pointers to them that ends in NULL.
struct ExecStrings {
    _strings: Vec<CString>,
    pointers: Vec<*const c_char>,
}

impl ExecStrings {
    fn new(strings: impl Iterator<Item = Vec<u8>>) -> Result<Self> {
        let strings = strings
            .map(CString::new)
            .collect::<Result<Vec<_>, _>>()
            .context("the program's arguments contain a NUL byte")?;
        let pointers = strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect();
        Ok(ExecStrings { _strings: strings, pointers })
    }
}

impl ExecArguments {
    fn new(program: &[OsString], environment: &Environment) -> Result<Self> {
        let variable = |(name, value): &(OsString, OsString)| [name.as_bytes(), b"=", value.as_bytes()].concat();
        Ok(ExecArguments {
            arguments: ExecStrings::new(program.iter().map(|argument| argument.as_bytes().to_vec()))?,
            environment: ExecStrings::new(environment.iter().map(variable))?,
        })
    }

    fn exec(&self) -> io::Error {
        let arguments = self.arguments.pointers.as_ptr();
        // SAFETY: both arrays end in NULL and point to strings that `self` owns; there is a first
        // argument, since the command line demands a program.
        unsafe { libc::execvpe(*arguments, arguments, self.environment.pointers.as_ptr()) };
        io::Error::last_os_error()
    }
}

/// Replaces this process by the program; returns only if that fails.
pub fn exec(program: &[OsString], environment: &Environment) -> Result<Infallible> {
    let image = ExecArguments::new(program, environment)?;
    startup::restore_inherited_state();
    Err(execution_failure(&program[0], &image.exec()).into())
}

impl Child {
    pub fn start(
        program: &[OsString],
        environment: &Environment,
        before: &InheritedSignals,
        page: Option<&StatusPage>,
    ) -> Result<Child> {
        let image = ExecArguments::new(program, environment)?;
        let (mut reader, writer) = io::pipe().context("failed to make a pipe")?;
        // SAFETY: asks for a number; cannot fail.
        let parent = unsafe { libc::getpid() };
        orphans::become_subreaper();
        // SAFETY: no other thread exists yet, and the child calls nothing that is not async-signal-safe.
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => return Err(io::Error::last_os_error()).context("failed to start a process"),
            0 => become_program(&image, parent, before, page, writer.as_raw_fd()),
            _ => {}
        }
        drop(writer);
        let mut errno = [0; 4];
        // If exec succeeded, the child's end of the pipe was closed, and nothing can be read.
        if reader.read_exact(&mut errno).is_ok() {
            // SAFETY: the process is our child and has ended or is about to.
            unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
            return Err(execution_failure(&program[0], &io::Error::from_raw_os_error(i32::from_ne_bytes(errno))).into());
        }
        // The process has not been reaped, so /proc still lists it.
        let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
        let started = Stat::parse(&stat).map_or(0, |stat| stat.started);
        Ok(Child { pid, start_ticks: started, last_name: RefCell::default() })
    }

    pub fn pid(&self) -> libc::pid_t {
        self.pid
    }

    pub fn start_ticks(&self) -> u64 {
        self.start_ticks
    }

    pub fn last_name(&self) -> String {
        self.last_name.borrow().clone()
    }

    /// Returns the state of the process. It must not be called after the end of the process was reported.
    pub fn poll_state(&self) -> ChildState {
        // The name can be read until the process is reaped.
        let name = std::fs::read(format!("/proc/{}/comm", self.pid)).unwrap_or_default();
        *self.last_name.borrow_mut() = String::from_utf8_lossy(name.trim_ascii_end()).into_owned();
        let mut status = 0;
        // SAFETY: `status` is an integer, and the process is our child that nobody has waited for.
        let got = unsafe { libc::waitpid(self.pid, &mut status, libc::WNOHANG | libc::WUNTRACED) };
        if got != self.pid {
            ChildState::Running
        } else if libc::WIFSTOPPED(status) {
            ChildState::Stopped(libc::WSTOPSIG(status))
        } else if libc::WIFSIGNALED(status) {
            ChildState::Ended(ProgramEnd::Killed(libc::WTERMSIG(status)))
        } else {
            ChildState::Ended(ProgramEnd::Exited(libc::WEXITSTATUS(status) as u8))
        }
    }

    pub fn send_signal(&self, signal: i32) {
        // SAFETY: the process is our child that nobody has waited for, so the number is still its own.
        unsafe { libc::kill(self.pid, signal) };
    }
}

/// The part of [`Child::start`] that runs in the child. Async-signal-safe.
fn become_program(
    image: &ExecArguments,
    parent: libc::pid_t,
    before: &InheritedSignals,
    page: Option<&StatusPage>,
    writer: i32,
) -> ! {
    if let Some(page) = page {
        // SAFETY: asks for a number; cannot fail.
        page.set_launched(unsafe { libc::getpid() });
    }
    // SAFETY: prctl takes a signal number here; getppid and _exit take nothing that could be wrong.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        if libc::getppid() != parent {
            // The launcher ended before the line above took effect.
            libc::_exit(i32::from(cupeer_console::status::CUPEER_FAILED));
        }
    }
    before.restore_signals();
    startup::restore_inherited_state();
    let errno = image.exec().raw_os_error().unwrap_or(libc::EIO).to_ne_bytes();
    // SAFETY: the buffer has the length that is given, and _exit does not return.
    unsafe {
        libc::write(writer, errno.as_ptr().cast(), errno.len());
        libc::_exit(i32::from(cupeer_console::status::CUPEER_FAILED))
    }
}
