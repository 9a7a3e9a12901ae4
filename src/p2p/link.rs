//! A link from a device to the memory of another one, by one method: opens and closes it.

use super::process::{DeviceProcess, ProcessStarter, RequestFailure};
use super::request::{Refusal, Reply, Request, StreamWork};
use super::verdict::{SharingMethod, Verdict};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Number of bytes of the memory on each side: larger than a window of 32 MiB, and a multiple of all
/// granularities.
pub const BUFFER_SIZE: u64 = 64 << 20;
/// Offset of the flags of a resident kernel. They follow the data, which begins at offset 0.
pub const FLAGS_OFFSET: u64 = BUFFER_SIZE - (64 << 10);
/// Offset of the sums of the check of atomics.
pub const SUMS_OFFSET: u64 = FLAGS_OFFSET + (16 << 10);
/// Offset of the word that starts the second kernel in the check of atomics.
pub const START_OFFSET: u64 = FLAGS_OFFSET + (24 << 10);
/// Offset of the words that the writer sends in a round trip.
pub const PING_OFFSET: u64 = FLAGS_OFFSET + (32 << 10);
/// Offset of the words that the owner sends in a round trip.
pub const PONG_OFFSET: u64 = FLAGS_OFFSET + (48 << 10);

/// Timeout for making a device ready, which may be asleep.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// The starter of the processes of a test, and their timeout.
pub struct TestContext {
    pub starter: ProcessStarter,
    /// Timeout of a step of a test.
    pub limit: Duration,
}

/// A process that holds devices, and the devices that it has open.
#[derive(Default)]
pub struct DeviceHolder {
    process: Option<DeviceProcess>,
    /// Address of the host memory for kernels of each open device.
    open: HashMap<i32, u64>,
}

impl DeviceHolder {
    /// Opens a device in the process. Starts the process if it is not running. On failure, returns the
    /// verdict for the checks.
    pub fn open_device(&mut self, run: &TestContext, device: i32) -> Result<(), Verdict> {
        if self.process.as_ref().is_none_or(DeviceProcess::is_lost) {
            self.end_process();
            let process = run.starter.start_process().map_err(|error| untested_because(&format!("{error:#}")))?;
            let started = process.ask(&Request::Start, None, READY_TIMEOUT);
            self.process = Some(process);
            started.map_err(|broken| self.untested_verdict(broken))?;
        }
        if !self.open.contains_key(&device) {
            let opened =
                self.process.as_ref().map(|process| process.ask(&Request::Open { device }, None, READY_TIMEOUT));
            match opened {
                Some(Ok((Reply::Address(host), _))) => drop(self.open.insert(device, host)),
                Some(Err(broken)) => return Err(self.untested_verdict(broken)),
                _ => return Err(untested_because("the process gave another answer than was asked for")),
            }
        }
        Ok(())
    }

    /// Returns the verdict for checks that could not be run because a device did not open.
    fn untested_verdict(&mut self, broken: RequestFailure) -> Verdict {
        let ended = matches!(broken, RequestFailure::Died(_)).then(|| self.end_process()).flatten();
        match verdict_for_failure(broken, "making a device ready", ended) {
            verdict @ Verdict::NotTested { .. } => verdict,
            other => untested_because(&other.explanation()),
        }
    }

    /// Closes a device, if it is open and the process still replies.
    pub fn close_device(&mut self, run: &TestContext, device: i32) {
        if self.open.remove(&device).is_some()
            && let Some(process) = &self.process
            && process.ask(&Request::Close { device }, None, run.limit).is_err()
        {
            self.end_process();
        }
    }

    /// Ends the process. If it had already ended by itself, returns how.
    pub fn end_process(&mut self) -> Option<String> {
        self.open.clear();
        self.process.take().and_then(DeviceProcess::end)
    }

    fn link_side(&self, run: &TestContext, device: i32) -> Result<LinkSide<'_>, RequestFailure> {
        let process = self.process.as_ref().ok_or(RequestFailure::Died("it has not started".to_owned()))?;
        let host = self.open.get(&device).copied().unwrap_or_default();
        Ok(LinkSide { process, device, host, limit: run.limit })
    }
}

pub fn untested_because(reason: &str) -> Verdict {
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
    UNRELATED_CALLS.contains(&call) || ALLOCATING_CALLS.contains(&call) && refusal.result == "CUDA_ERROR_OUT_OF_MEMORY"
}

/// Returns the verdict on a step that had no reply. `ended` says how a process ended by itself.
pub fn verdict_for_failure(broken: RequestFailure, step: &str, ended: Option<String>) -> Verdict {
    match broken {
        RequestFailure::Refused(refusal) if is_unrelated_to_links(&refusal) => {
            untested_because(&Verdict::from(refusal).explanation())
        }
        RequestFailure::Refused(refusal) => refusal.into(),
        RequestFailure::Stalled => Verdict::Stalls { reason: "it does not end in time".to_owned() },
        RequestFailure::Died(how) => Verdict::Refused {
            call: step.to_owned(),
            result: format!("the process is gone: {}", ended.unwrap_or(how)),
            message: None,
        },
    }
}

/// One end of a link: a device, and the process that holds it.
#[derive(Clone, Copy)]
pub struct LinkSide<'a> {
    process: &'a DeviceProcess,
    pub device: i32,
    /// Address of the host memory for kernels of the device.
    pub host: u64,
    limit: Duration,
}

impl LinkSide<'_> {
    pub fn ask(&self, request: &Request) -> Result<Reply, RequestFailure> {
        self.process.ask(request, None, self.limit).map(|(reply, _)| reply)
    }

    /// Sends a request whose work takes up to `more` milliseconds in addition to the timeout.
    pub fn ask_long(&self, request: &Request, more: u64) -> Result<Reply, RequestFailure> {
        let limit = self.limit + Duration::from_millis(more);
        self.process.ask(request, None, limit).map(|(reply, _)| reply)
    }

    pub fn do_work(&self, work: StreamWork) -> Result<u64, RequestFailure> {
        match self.ask(&Request::Do { device: self.device, work })? {
            Reply::Took(nanoseconds) => Ok(nanoseconds),
            _ => Err(unexpected_reply()),
        }
    }

    fn request_address(
        &self,
        request: &Request,
        descriptor: Option<OwnedFd>,
    ) -> Result<(u64, Option<OwnedFd>), RequestFailure> {
        match self.process.ask(request, descriptor, self.limit)? {
            (Reply::Address(address), descriptor) => Ok((address, descriptor)),
            _ => Err(unexpected_reply()),
        }
    }
}

/// Returns the error for a reply of the wrong kind.
pub fn unexpected_reply() -> RequestFailure {
    RequestFailure::Died("it gave another answer than was asked for".to_owned())
}

/// An open link from a writer to the memory of an owner.
pub struct OpenLink<'a> {
    pub way: SharingMethod,
    pub writer: LinkSide<'a>,
    pub owner: LinkSide<'a>,
    /// Address of memory of the writer's own device.
    pub local_address: u64,
    /// Address of the owner's memory in the process of the writer.
    pub remote_address: u64,
    /// Address of the owner's memory in the process of the owner.
    pub owner_address: u64,
}

impl<'a> OpenLink<'a> {
    /// Opens a link from the first device, which writes, to the second, which owns the memory.
    pub fn open(
        run: &TestContext,
        way: SharingMethod,
        (from, process): (i32, &'a DeviceHolder),
        (to, owner): (i32, &'a DeviceHolder),
    ) -> Result<OpenLink<'a>, RequestFailure> {
        let writer = process.link_side(run, from)?;
        let owner = match way {
            // One process holds both devices.
            SharingMethod::Peer => process.link_side(run, to)?,
            SharingMethod::Ipc | SharingMethod::Vmm => owner.link_side(run, to)?,
        };
        let allocate = |device, shares| Request::Allocate { device, bytes: BUFFER_SIZE, shares };
        let (local, _) = writer.request_address(&allocate(from, false), None)?;
        let given = owner.request_address(&allocate(to, way == SharingMethod::Vmm), None);
        let (here, descriptor) = given.inspect_err(|broken| free_after_refusal(broken, &writer, local))?;
        let reach = || match way {
            SharingMethod::Peer => {
                writer.ask(&Request::Enable { from, to })?;
                Ok(here)
            }
            SharingMethod::Ipc => {
                let Reply::Handle(handle) = owner.ask(&Request::Export { device: to, address: here })? else {
                    return Err(unexpected_reply());
                };
                Ok(writer.request_address(&Request::Import { device: from, handle }, None)?.0)
            }
            SharingMethod::Vmm => {
                Ok(writer.request_address(&Request::Map { device: from, bytes: BUFFER_SIZE }, descriptor)?.0)
            }
        };
        let remote = reach().inspect_err(|broken| {
            free_after_refusal(broken, &owner, here);
            free_after_refusal(broken, &writer, local);
        })?;
        Ok(OpenLink { way, writer, owner, local_address: local, remote_address: remote, owner_address: here })
    }

    /// Frees the memory of the link in both processes.
    pub fn close(self) -> Result<(), RequestFailure> {
        if self.way != SharingMethod::Peer {
            free_memory(&self.writer, self.remote_address)?;
        }
        free_memory(&self.writer, self.local_address)?;
        free_memory(&self.owner, self.owner_address)
    }
}

fn free_memory(side: &LinkSide, address: u64) -> Result<(), RequestFailure> {
    side.ask(&Request::Free { device: side.device, address }).map(drop)
}

/// Frees memory of a link that could not be opened, but only after a refusal: otherwise, a process may not
/// reply.
fn free_after_refusal(broken: &RequestFailure, side: &LinkSide, address: u64) {
    if matches!(broken, RequestFailure::Refused(_)) {
        let _ = free_memory(side, address);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_room_says_nothing_of_a_link() {
        let verdict = |call: &str, result: &str| {
            let refusal = Refusal { call: call.to_owned(), result: result.to_owned(), message: None };
            verdict_for_failure(RequestFailure::Refused(refusal), "opening the way", None)
        };
        for call in ALLOCATING_CALLS {
            assert_eq!(verdict(call, "CUDA_ERROR_OUT_OF_MEMORY").name(), "not tested", "{call}");
            assert_eq!(verdict(call, "CUDA_ERROR_NOT_SUPPORTED").name(), "refused", "{call}");
        }
        assert_eq!(verdict("cuIpcOpenMemHandle_v2", "CUDA_ERROR_OUT_OF_MEMORY").name(), "refused");
    }
}
