//! A link from a device to the memory of another one, by one method: opens and closes it.

use super::process::{Broken, Process, Starter};
use super::request::{Refusal, Reply, Request, Work};
use super::verdict::{Method, Verdict};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Number of bytes of the memory on each side: larger than a window of 32 MiB, and a multiple of all
/// granularities.
pub const BUFFER: u64 = 64 << 20;
/// Offset of the flags of a resident kernel. They follow the data, which begins at offset 0.
pub const FLAGS: u64 = BUFFER - (64 << 10);
/// Offset of the sums of the check of atomics.
pub const SUMS: u64 = FLAGS + (16 << 10);
/// Offset of the word that starts the second kernel in the check of atomics.
pub const GO: u64 = FLAGS + (24 << 10);
/// Offset of the words that the writer sends in a round trip.
pub const PING: u64 = FLAGS + (32 << 10);
/// Offset of the words that the owner sends in a round trip.
pub const PONG: u64 = FLAGS + (48 << 10);

/// Timeout for making a device ready, which may be asleep.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// The starter of the processes of a test, and their timeout.
pub struct Run {
    pub starter: Starter,
    /// Timeout of a step of a test.
    pub limit: Duration,
}

/// A process that holds devices, and the devices that it has open.
#[derive(Default)]
pub struct Holder {
    process: Option<Process>,
    /// Address of the host memory for kernels of each open device.
    open: HashMap<i32, u64>,
}

impl Holder {
    /// Opens a device in the process. Starts the process if it is not running. On failure, returns the
    /// verdict for the checks.
    pub fn ready(&mut self, run: &Run, device: i32) -> Result<(), Verdict> {
        if self.process.as_ref().is_none_or(Process::is_lost) {
            self.end();
            let process = run.starter.start().map_err(|error| untested(&format!("{error:#}")))?;
            let started = process.ask(&Request::Start, None, READY_TIMEOUT);
            self.process = Some(process);
            started.map_err(|broken| self.untested(broken))?;
        }
        if !self.open.contains_key(&device) {
            let opened = self
                .process
                .as_ref()
                .map(|process| process.ask(&Request::Open { device }, None, READY_TIMEOUT));
            match opened {
                Some(Ok((Reply::Address(host), _))) => drop(self.open.insert(device, host)),
                Some(Err(broken)) => return Err(self.untested(broken)),
                _ => return Err(untested("the process gave another answer than was asked for")),
            }
        }
        Ok(())
    }

    /// Returns the verdict for checks that could not be run because a device did not open.
    fn untested(&mut self, broken: Broken) -> Verdict {
        let ended = matches!(broken, Broken::Died(_)).then(|| self.end()).flatten();
        match verdict_of(broken, "making a device ready", ended) {
            verdict @ Verdict::NotTested { .. } => verdict,
            other => untested(&other.detail()),
        }
    }

    /// Closes a device, if it is open and the process still replies.
    pub fn close(&mut self, run: &Run, device: i32) {
        if self.open.remove(&device).is_some()
            && let Some(process) = &self.process
            && process.ask(&Request::Close { device }, None, run.limit).is_err()
        {
            self.end();
        }
    }

    /// Ends the process. If it had already ended by itself, returns how.
    pub fn end(&mut self) -> Option<String> {
        self.open.clear();
        self.process.take().and_then(Process::end)
    }

    fn side(&self, run: &Run, device: i32) -> Result<Side<'_>, Broken> {
        let process = self.process.as_ref().ok_or(Broken::Died("it has not started".to_owned()))?;
        let host = self.open.get(&device).copied().unwrap_or_default();
        Ok(Side { process, device, host, limit: run.limit })
    }
}

pub fn untested(reason: &str) -> Verdict {
    Verdict::NotTested { reason: reason.to_owned() }
}

/// Functions of the driver that can fail on their own, whatever the link does.
const UNRELATED_CALLS: &[&str] = &[
    "dlopen",
    "cuInit",
    "cuDeviceGet",
    "cuDevicePrimaryCtxRetain",
    "cuModuleLoadDataEx",
    "cuModuleGetFunction",
    "cuMemHostAlloc",
    "cuMemAlloc_v2",
];

/// Functions whose failure with OUT_OF_MEMORY has nothing to do with the link. With any other result, the
/// driver refuses virtual memory.
const ALLOCATING_CALLS: &[&str] = &["cuMemCreate", "cuMemAddressReserve"];

/// Returns true if the failure of a call has nothing to do with the link.
pub fn is_unrelated_to_links(refusal: &Refusal) -> bool {
    let call = refusal.call.as_str();
    UNRELATED_CALLS.contains(&call)
        || ALLOCATING_CALLS.contains(&call) && refusal.result == "CUDA_ERROR_OUT_OF_MEMORY"
}

/// Returns the verdict on a step that had no reply. `ended` says how a process ended by itself.
pub fn verdict_of(broken: Broken, step: &str, ended: Option<String>) -> Verdict {
    match broken {
        Broken::Refused(refusal) if is_unrelated_to_links(&refusal) => {
            untested(&Verdict::from(refusal).detail())
        }
        Broken::Refused(refusal) => refusal.into(),
        Broken::Stalled => Verdict::Stalls { reason: "it does not end in time".to_owned() },
        Broken::Died(how) => Verdict::Refused {
            call: step.to_owned(),
            result: format!("the process is gone: {}", ended.unwrap_or(how)),
            message: None,
        },
    }
}

/// One end of a link: a device, and the process that holds it.
#[derive(Clone, Copy)]
pub struct Side<'a> {
    process: &'a Process,
    pub device: i32,
    /// Address of the host memory for kernels of the device.
    pub host: u64,
    limit: Duration,
}

impl Side<'_> {
    pub fn ask(&self, request: &Request) -> Result<Reply, Broken> {
        self.process.ask(request, None, self.limit).map(|(reply, _)| reply)
    }

    /// Sends a request whose work takes up to `more` milliseconds in addition to the timeout.
    pub fn ask_long(&self, request: &Request, more: u64) -> Result<Reply, Broken> {
        let limit = self.limit + Duration::from_millis(more);
        self.process.ask(request, None, limit).map(|(reply, _)| reply)
    }

    pub fn work(&self, work: Work) -> Result<u64, Broken> {
        match self.ask(&Request::Do { device: self.device, work })? {
            Reply::Took(nanoseconds) => Ok(nanoseconds),
            _ => Err(unexpected_reply()),
        }
    }

    fn address(
        &self,
        request: &Request,
        descriptor: Option<OwnedFd>,
    ) -> Result<(u64, Option<OwnedFd>), Broken> {
        match self.process.ask(request, descriptor, self.limit)? {
            (Reply::Address(address), descriptor) => Ok((address, descriptor)),
            _ => Err(unexpected_reply()),
        }
    }
}

/// Returns the error for a reply of the wrong kind.
pub fn unexpected_reply() -> Broken {
    Broken::Died("it gave another answer than was asked for".to_owned())
}

/// An open link from a writer to the memory of an owner.
pub struct Link<'a> {
    pub way: Method,
    pub writer: Side<'a>,
    pub owner: Side<'a>,
    /// Address of memory of the writer's own device.
    pub local: u64,
    /// Address of the owner's memory in the process of the writer.
    pub remote: u64,
    /// Address of the owner's memory in the process of the owner.
    pub here: u64,
}

impl<'a> Link<'a> {
    /// Opens a link from the first device, which writes, to the second, which owns the memory.
    pub fn open(
        run: &Run,
        way: Method,
        (from, process): (i32, &'a Holder),
        (to, owner): (i32, &'a Holder),
    ) -> Result<Link<'a>, Broken> {
        let writer = process.side(run, from)?;
        let owner = match way {
            // One process holds both devices.
            Method::Peer => process.side(run, to)?,
            Method::Ipc | Method::Vmm => owner.side(run, to)?,
        };
        let allocate = |device, shares| Request::Allocate { device, bytes: BUFFER, shares };
        let (local, _) = writer.address(&allocate(from, false), None)?;
        let given = owner.address(&allocate(to, way == Method::Vmm), None);
        let (here, descriptor) = given.inspect_err(|broken| free_after(broken, &writer, local))?;
        let reach = || match way {
            Method::Peer => {
                writer.ask(&Request::Enable { from, to })?;
                Ok(here)
            }
            Method::Ipc => {
                let Reply::Handle(handle) = owner.ask(&Request::Export { device: to, address: here })? else {
                    return Err(unexpected_reply());
                };
                Ok(writer.address(&Request::Import { device: from, handle }, None)?.0)
            }
            Method::Vmm => Ok(writer.address(&Request::Map { device: from, bytes: BUFFER }, descriptor)?.0),
        };
        let remote = reach().inspect_err(|broken| {
            free_after(broken, &owner, here);
            free_after(broken, &writer, local);
        })?;
        Ok(Link { way, writer, owner, local, remote, here })
    }

    /// Frees the memory of the link in both processes.
    pub fn close(self) -> Result<(), Broken> {
        if self.way != Method::Peer {
            free(&self.writer, self.remote)?;
        }
        free(&self.writer, self.local)?;
        free(&self.owner, self.here)
    }
}

fn free(side: &Side, address: u64) -> Result<(), Broken> {
    side.ask(&Request::Free { device: side.device, address }).map(drop)
}

/// Frees memory of a link that could not be opened, but only after a refusal: otherwise, a process may not
/// reply.
fn free_after(broken: &Broken, side: &Side, address: u64) {
    if matches!(broken, Broken::Refused(_)) {
        let _ = free(side, address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_room_says_nothing_of_a_link() {
        let verdict = |call: &str, result: &str| {
            let refusal = Refusal { call: call.to_owned(), result: result.to_owned(), message: None };
            verdict_of(Broken::Refused(refusal), "opening the way", None)
        };
        for call in ALLOCATING_CALLS {
            assert_eq!(verdict(call, "CUDA_ERROR_OUT_OF_MEMORY").name(), "not tested", "{call}");
            assert_eq!(verdict(call, "CUDA_ERROR_NOT_SUPPORTED").name(), "refused", "{call}");
        }
        assert_eq!(verdict("cuIpcOpenMemHandle_v2", "CUDA_ERROR_OUT_OF_MEMORY").name(), "refused");
    }
}
