//! A process that holds devices, as the command sees it: starts it, asks it with a limit, and ends it.

use super::request::{Refusal, Reply, Request};
use super::wire::Wire;
use anyhow::{Context, Result};
use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// How long a process that was killed may take to end: one that hangs in the driver is not waited for.
const DEATH: Duration = Duration::from_secs(2);

/// Why an answer did not come, or was none.
#[derive(Debug)]
pub enum Broken {
    Refused(Refusal),
    /// Nothing came in time.
    Stalled,
    /// The process is gone.
    Died(String),
}

pub struct Process {
    child: Child,
    wire: Wire,
    is_lost: Cell<bool>,
    /// Whether it has closed its end of the socket, which a process does a little before it is gone.
    has_left: Cell<bool>,
}

impl Process {
    /// Asks, and waits so long for the answer.
    pub fn ask(
        &self,
        request: &Request,
        descriptor: Option<OwnedFd>,
        limit: Duration,
    ) -> Result<(Reply, Option<OwnedFd>), Broken> {
        let lost = |broken| {
            self.is_lost.set(true);
            Err(broken)
        };
        if self.is_lost.get() {
            return lost(Broken::Died("it had been given up before".to_owned()));
        }
        tracing::debug!("process {}: {request:?}", self.child.id());
        if let Err(error) = self.wire.send(request, descriptor.as_ref().map(AsFd::as_fd)) {
            return lost(Broken::Died(error.to_string()));
        }
        match self.wire.is_ready(limit) {
            Ok(true) => {}
            Ok(false) => return lost(Broken::Stalled),
            Err(error) => return lost(Broken::Died(error.to_string())),
        }
        match self.wire.receive() {
            Ok(Some((Reply::Refused(refusal), _))) => Err(Broken::Refused(refusal)),
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => {
                self.has_left.set(true);
                lost(Broken::Died("it ended".to_owned()))
            }
            Err(error) => lost(Broken::Died(error.to_string())),
        }
    }

    pub fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    /// Ends it; says how it had ended by itself, where it had.
    pub fn end(mut self) -> Option<String> {
        let own = if self.has_left.get() { self.wait() } else { self.child.try_wait().ok().flatten() };
        let own = own.map(|status| match status.signal() {
            Some(signal) => format!("signal {signal} ended it"),
            None => format!("it ended with status {}", status.code().unwrap_or(-1)),
        });
        self.kill();
        own
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        self.wait();
    }

    /// Waits for its end, but not for ever.
    fn wait(&mut self) -> Option<ExitStatus> {
        let end = Instant::now() + DEATH;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
                ended => return ended.ok().flatten(),
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Has processes started by one thread: the kernel ends them when that thread does.
#[derive(Clone)]
pub struct Starter(SyncSender<SyncSender<Result<Process>>>);

impl Starter {
    /// One, and what [`serve`] needs.
    pub fn new() -> (Starter, Receiver<SyncSender<Result<Process>>>) {
        let (ask, asked) = sync_channel(0);
        (Starter(ask), asked)
    }

    pub(crate) fn start(&self) -> Result<Process> {
        let (give, given) = sync_channel(1);
        self.0.send(give).ok().context("nobody starts processes any more")?;
        given.recv().context("nobody starts processes any more")?
    }
}

/// Starts processes until nobody is left who would ask for one.
pub fn serve(asked: &Receiver<SyncSender<Result<Process>>>, environment: &Environment) {
    while let Ok(give) = asked.recv() {
        let _ = give.send(environment.start());
    }
}

/// The command that starts a process of ours, to be given a subcommand: with the driver that was chosen, without our library
/// before it.
pub struct Environment<'a> {
    /// Makes it.
    pub child: &'a (dyn Fn() -> Result<Command> + Sync),
}

impl Environment<'_> {
    pub(crate) fn start(&self) -> Result<Process> {
        let (wire, theirs) = Wire::pair().context("failed to make a socket")?;
        let mut command = (self.child)()?;
        command.arg("probe-p2p").stdin(Stdio::from(theirs.into_descriptor())).stdout(Stdio::null());
        // What is compiled here is not worth keeping; and to load a kernel when it is launched first would wait for those that
        // wait for it.
        command.envs([("CUDA_CACHE_DISABLE", "1"), ("CUDA_MODULE_LOADING", "EAGER")]);
        let child = command.spawn().context("failed to start a process that holds a device")?;
        Ok(Process { child, wire, is_lost: Cell::new(false), has_left: Cell::new(false) })
    }
}
