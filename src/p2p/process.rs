//! A process that holds devices, as the command sees it: starts it, asks it with a limit, and ends it.

use super::request::{Refusal, Reply, Request};
use super::wire::MessageSocket;
use anyhow::{Context, Result};
use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Timeout for the end of a killed process, which may hang in the driver.
const DEATH_TIMEOUT: Duration = Duration::from_secs(2);

/// Reason why a request has no result.
#[derive(Debug)]
pub enum RequestFailure {
    Refused(Refusal),
    /// No reply arrived before the timeout.
    Stalled,
    /// The process has ended, or its reply makes no sense. The text says how.
    Died(String),
}

/// A process that holds devices, with its end of the socket.
pub struct DeviceProcess {
    child: Child,
    wire: MessageSocket,
    is_lost: Cell<bool>,
    /// True if the process has closed its end of the socket, as it does shortly before it ends.
    has_left: Cell<bool>,
}

impl DeviceProcess {
    /// Sends a request, and waits for the reply until the timeout.
    pub fn ask(
        &self,
        request: &Request,
        descriptor: Option<OwnedFd>,
        limit: Duration,
    ) -> Result<(Reply, Option<OwnedFd>), RequestFailure> {
        let lost = |broken| {
            self.is_lost.set(true);
            Err(broken)
        };
        if self.is_lost.get() {
            return lost(RequestFailure::Died("it had been given up before".to_owned()));
        }
        tracing::debug!("process {}: {request:?}", self.child.id());
        if let Err(error) = self.wire.send(request, descriptor.as_ref().map(AsFd::as_fd)) {
            return lost(RequestFailure::Died(error.to_string()));
        }
        match self.wire.wait_for_message(limit) {
            Ok(true) => {}
            Ok(false) => return lost(RequestFailure::Stalled),
            Err(error) => return lost(RequestFailure::Died(error.to_string())),
        }
        match self.wire.receive() {
            Ok(Some((Reply::Refused(refusal), _))) => Err(RequestFailure::Refused(refusal)),
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => {
                self.has_left.set(true);
                lost(RequestFailure::Died("it ended".to_owned()))
            }
            Err(error) => lost(RequestFailure::Died(error.to_string())),
        }
    }

    pub fn is_lost(&self) -> bool {
        self.is_lost.get()
    }

    /// Ends the process. If it had already ended by itself, returns how.
    pub fn end(mut self) -> Option<String> {
        let own = if self.has_left.get() { self.wait_for_exit() } else { self.child.try_wait().ok().flatten() };
        let own = own.map(|status| match status.signal() {
            Some(signal) => format!("signal {signal} ended it"),
            None => format!("it ended with status {}", status.code().unwrap_or(-1)),
        });
        self.kill();
        own
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        self.wait_for_exit();
    }

    /// Waits for the end of the process, at most for [`DEATH_TIMEOUT`].
    fn wait_for_exit(&mut self) -> Option<ExitStatus> {
        let end = Instant::now() + DEATH_TIMEOUT;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
                ended => return ended.ok().flatten(),
            }
        }
    }
}

impl Drop for DeviceProcess {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A way to start all processes on one thread. The kernel ends these processes together with that thread.
#[derive(Clone)]
pub struct ProcessStarter(SyncSender<SyncSender<Result<DeviceProcess>>>);

impl ProcessStarter {
    /// Returns a starter, and the receiver of its requests for [`serve_starts`].
    pub fn new() -> (ProcessStarter, Receiver<SyncSender<Result<DeviceProcess>>>) {
        let (ask, asked) = sync_channel(0);
        (ProcessStarter(ask), asked)
    }

    pub(crate) fn start_process(&self) -> Result<DeviceProcess> {
        let (give, given) = sync_channel(1);
        self.0.send(give).ok().context("nobody starts processes any more")?;
        given.recv().context("nobody starts processes any more")?
    }
}

/// Starts a process for each request. Returns when all starters are dropped.
pub fn serve_starts(asked: &Receiver<SyncSender<Result<DeviceProcess>>>, environment: &ProcessCommand) {
    while let Ok(give) = asked.recv() {
        let _ = give.send(environment.start_process());
    }
}

/// The command that starts a process that holds devices. Its environment chooses the driver, and has no
/// preload library.
pub struct ProcessCommand<'a> {
    /// Function that returns the command without its subcommand.
    pub child: &'a (dyn Fn() -> Result<Command> + Sync),
}

impl ProcessCommand<'_> {
    pub(crate) fn start_process(&self) -> Result<DeviceProcess> {
        let (wire, theirs) = MessageSocket::pair().context("failed to make a socket")?;
        let mut command = (self.child)()?;
        command.arg("probe-p2p").stdin(Stdio::from(theirs.into_descriptor())).stdout(Stdio::null());
        // A cache of compiled kernels is useless here. Kernels are loaded early, because loading one at its
        // first launch could wait for running kernels that in turn wait for that kernel.
        command.envs([("CUDA_CACHE_DISABLE", "1"), ("CUDA_MODULE_LOADING", "EAGER")]);
        let child = command.spawn().context("failed to start a process that holds a device")?;
        Ok(DeviceProcess { child, wire, is_lost: Cell::new(false), has_left: Cell::new(false) })
    }
}
