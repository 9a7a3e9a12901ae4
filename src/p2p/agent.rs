//! The process that holds devices for `doctor --p2p`: answers requests, one after the other.
//!
//! It is separate from the command because a link may hang each process that uses it, and a failure of the driver may last as
//! long as its process. It ends as soon as the command does, even inside a call.

use super::cuda::{Answer, Cuda};
use super::nvml::Nvml;
use super::request::{Comparison, Device, HostMemory, IpcHandleBytes, Pair, Refusal, Reply, Request, StreamWork};
use super::wire::MessageSocket;
use anyhow::{Context, Result};
use cupeer_spec::abi::{
    CUcontext, CUdevice, CUdeviceptr, CUevent, CUipcMemHandle, CUmemGenericAllocationHandle, CUstream,
};
use cupeer_spec::p2p::{Kernel, PTX, RESULTS, data_word};
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Pause between two checks whether the results of a kernel are complete.
const PAUSE: Duration = Duration::from_micros(100);

/// Runs the process: answers until its end of the socket is closed.
///
/// # Errors
///
/// The socket is not there, or cannot be used.
pub fn command() -> Result<ExitCode> {
    // SAFETY: the call takes only numbers. If it fails, the thread below still ends this process.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
    let wire = Arc::new(MessageSocket::from_stdin().context("this process is started by 'doctor --p2p'")?);
    let watched = wire.clone();
    std::thread::spawn(move || {
        watched.wait_for_close();
        // SAFETY: the call ends the process at once, even if another thread hangs in the driver.
        unsafe { libc::_exit(0) }
    });
    let mut agent = DriverAgent::default();
    while let Some((request, descriptor)) = wire.receive::<Request>()? {
        let (reply, given) = match agent.answer_request(request, descriptor) {
            Ok(answer) => answer,
            Err(refusal) => (Reply::Refused(refusal), None),
        };
        wire.send(&reply, given.as_ref().map(AsFd::as_fd))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A device that is ready for work.
struct OpenDevice {
    device: CUdevice,
    context: CUcontext,
    stream: CUstream,
    events: [CUevent; 2],
    /// The kernels, or the reason why they are missing: the driver may have no compiler.
    functions: Answer<Vec<*mut c_void>>,
    /// Address of the host memory of [`HostMemory`], for kernels and for this process.
    host: *mut u64,
}

/// The way in which memory was obtained, which determines how to free it.
enum MemoryOrigin {
    /// Memory of `cuMemAlloc`.
    Plain,
    Imported,
    Mapped {
        bytes: usize,
        handle: CUmemGenericAllocationHandle,
    },
}

#[derive(Default)]
struct DriverAgent {
    cuda: Option<Cuda>,
    /// NVML, after the first request that needs it. The inner option is `None` if NVML cannot be loaded.
    nvml: Option<Option<Nvml>>,
    open_devices: HashMap<i32, OpenDevice>,
    memory: HashMap<u64, MemoryOrigin>,
}

/// Returns a refusal by this process itself, without a result of the driver.
fn own_refusal(call: &str, reason: &str) -> Refusal {
    Refusal { call: call.to_owned(), result: reason.to_owned(), message: None }
}

impl DriverAgent {
    fn loaded_driver(&self) -> Answer<&Cuda> {
        self.cuda.as_ref().ok_or_else(|| own_refusal("cuInit", "was not called"))
    }

    /// Makes the context of a device current. Returns the driver, and the device. Fails if the device is not
    /// ready.
    fn make_current(&self, device: i32) -> Answer<(&Cuda, &OpenDevice)> {
        let open =
            self.open_devices.get(&device).ok_or_else(|| own_refusal("cuDevicePrimaryCtxRetain", "was not called"))?;
        let cuda = self.loaded_driver()?;
        cuda.cuCtxSetCurrent(open.context)?;
        Ok((cuda, open))
    }

    /// Does the work of a request. Requests and replies about shared memory have a descriptor beside them.
    fn answer_request(&mut self, request: Request, descriptor: Option<OwnedFd>) -> Answer<(Reply, Option<OwnedFd>)> {
        let reply = match request {
            Request::Start => Reply::Devices(self.start_driver()?),
            Request::Device { device } => Reply::Device(Box::new(self.describe_device(device)?)),
            Request::Pair { from, to } => Reply::Pair(Box::new(self.describe_pair(from, to)?)),
            Request::Promise { from, to } => {
                let nvml = self.nvml.get_or_insert_with(Nvml::load);
                Reply::Promise(nvml.as_ref().and_then(|nvml| nvml.nominal_rate(&from, &to)))
            }
            Request::Open { device } => Reply::Address(self.open_device(device)?),
            Request::Close { device } => self.close_device(device)?,
            Request::Enable { from, to } => {
                let (_, there) = self.make_current(to)?;
                let (cuda, _) = self.make_current(from)?;
                cuda.cuCtxEnablePeerAccess(there.context, 0)?;
                Reply::Done
            }
            Request::Allocate { device, bytes, shares: false } => {
                let address = self.make_current(device)?.0.cuMemAlloc_v2(bytes as usize)?;
                self.memory.insert(address.0, MemoryOrigin::Plain);
                Reply::Address(address.0)
            }
            Request::Allocate { device, bytes, shares: true } => {
                let (address, descriptor) = self.allocate_shared(device, bytes)?;
                return Ok((Reply::Address(address), Some(descriptor)));
            }
            Request::Map { device, bytes } => {
                let descriptor =
                    descriptor.ok_or_else(|| own_refusal("cuMemImportFromShareableHandle", "no descriptor came"))?;
                let handle = self.make_current(device)?.0.import_descriptor(descriptor.as_fd())?;
                Reply::Address(self.map_allocation(device, handle, bytes)?)
            }
            Request::Export { device, address } => {
                let handle = self.make_current(device)?.0.cuIpcGetMemHandle(CUdeviceptr(address))?;
                Reply::Handle(IpcHandleBytes(handle.reserved.to_vec()))
            }
            Request::Import { device, handle } => Reply::Address(self.import_memory(device, handle)?),
            Request::Free { device, address } => self.free_memory(device, address)?,
            Request::Fill { device, address, words, seed } => self.fill_memory(device, address, words, seed)?,
            Request::Compare { device, address, words, seed, before } => {
                Reply::Compared(compare_words(&self.read_words(device, address, words)?, seed, &before))
            }
            Request::Words { device, address, words } => Reply::Words(self.read_words(device, address, words)?),
            Request::Do { device, work } => Reply::Took(self.measure_work(device, work)?),
            Request::Begin { device, work } => self.begin_work(device, work)?,
            Request::Finish { device } => {
                let (cuda, open) = self.make_current(device)?;
                cuda.cuStreamSynchronize(open.stream)?;
                Reply::Done
            }
            Request::Results { device, mark, limit } => Reply::Words(self.wait_for_results(device, mark, limit)?),
            Request::Stop { device, mark } => {
                let (_, open) = self.make_current(device)?;
                // SAFETY: within the host memory that the driver gave us, which kernels only read here.
                unsafe { open.host.add(HostMemory::STOP_OFFSET as usize / 8).write_volatile(mark) };
                Reply::Done
            }
        };
        Ok((reply, None))
    }

    /// Loads and initializes the driver. Returns the number of devices.
    fn start_driver(&mut self) -> Answer<i32> {
        let cuda = Cuda::load()?;
        cuda.cuInit(0)?;
        let count = cuda.cuDeviceGetCount()?;
        self.cuda = Some(cuda);
        Ok(count)
    }

    /// Allocates memory that other processes can import. Returns its address, and a descriptor for them.
    fn allocate_shared(&mut self, device: i32, bytes: u64) -> Answer<(u64, OwnedFd)> {
        let (cuda, open) = self.make_current(device)?;
        let handle = cuda.create_exportable(open.device, bytes as usize)?;
        let descriptor = cuda.export_descriptor(handle).inspect_err(|_| drop(cuda.cuMemRelease(handle)))?;
        Ok((self.map_allocation(device, handle, bytes)?, descriptor))
    }

    fn import_memory(&mut self, device: i32, handle: IpcHandleBytes) -> Answer<u64> {
        let reserved = handle.0.try_into().map_err(|_| own_refusal("cuIpcOpenMemHandle", "no handle came"))?;
        // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.
        let address = self.make_current(device)?.0.cuIpcOpenMemHandle_v2(CUipcMemHandle { reserved }, 1)?;
        self.memory.insert(address.0, MemoryOrigin::Imported);
        Ok(address.0)
    }

    /// Writes the words of a seed, or zeros without a seed, from the host.
    fn fill_memory(&self, device: i32, address: u64, words: u64, seed: Option<u64>) -> Answer<Reply> {
        let of = |index| seed.map_or(0, |seed| data_word(seed, index));
        let data: Vec<u64> = (0..words).map(of).collect();
        let cuda = self.make_current(device)?.0;
        cuda.upload(CUdeviceptr(address), &data)?;
        // The upload may return before the last bytes are there.
        cuda.cuCtxSynchronize()?;
        Ok(Reply::Done)
    }

    /// Does work, and returns its duration in nanoseconds.
    fn measure_work(&self, device: i32, work: StreamWork) -> Answer<u64> {
        let (cuda, open) = self.make_current(device)?;
        cuda.cuEventRecord(open.events[0], open.stream)?;
        self.begin_work(device, work)?;
        cuda.cuEventRecord(open.events[1], open.stream)?;
        cuda.cuStreamSynchronize(open.stream)?;
        let milliseconds = cuda.cuEventElapsedTime(open.events[0], open.events[1])?;
        Ok((f64::from(milliseconds) * 1e6) as u64)
    }

    fn describe_device(&self, ordinal: i32) -> Answer<Device> {
        let cuda = self.loaded_driver()?;
        let device = cuda.cuDeviceGet(ordinal)?;
        let attribute = |number| cuda.cuDeviceGetAttribute(number, device);
        Ok(Device {
            name: cuda.device_text("cuDeviceGetName", device)?,
            uuid: cuda.cuDeviceGetUuid(device)?,
            pci: cuda.device_text("cuDeviceGetPCIBusId", device)?,
            memory: cuda.cuDeviceTotalMem_v2(device)? as u64,
            // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
            capability: (attribute(75)?, attribute(76)?),
            // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT.
            multiprocessors: attribute(16)?,
            // CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, which older drivers do not know.
            multicast: attribute(132) == Ok(1),
        })
    }

    fn describe_pair(&self, from: i32, to: i32) -> Answer<Pair> {
        let cuda = self.loaded_driver()?;
        let (from, to) = (cuda.cuDeviceGet(from)?, cuda.cuDeviceGet(to)?);
        let attribute = |number| cuda.cuDeviceGetP2PAttribute(number, from, to).ok();
        Ok(Pair {
            can_access: cuda.cuDeviceCanAccessPeer(from, to)? != 0,
            attributes: [1, 2, 3, 4, 5].map(attribute),
            atomics: cuda.atomic_capabilities(from, to).unwrap_or_default(),
        })
    }

    fn open_device(&mut self, ordinal: i32) -> Answer<u64> {
        let cuda = self.loaded_driver()?;
        let device = cuda.cuDeviceGet(ordinal)?;
        let context = cuda.cuDevicePrimaryCtxRetain(device)?;
        // If that fails, the release of the context also releases all objects in it.
        let open = Self::prepare_device(cuda, device, context)
            .inspect_err(|_| drop(cuda.cuDevicePrimaryCtxRelease_v2(device)))?;
        let host = open.host as u64;
        self.open_devices.insert(ordinal, open);
        Ok(host)
    }

    fn prepare_device(cuda: &Cuda, device: CUdevice, context: CUcontext) -> Answer<OpenDevice> {
        cuda.cuCtxSetCurrent(context)?;
        let text =
            CStr::from_bytes_with_nul(PTX.as_bytes()).map_err(|_| own_refusal("cuModuleLoadDataEx", "no text"))?;
        let function = |module, kernel: Kernel| {
            let name = CString::new(kernel.name()).unwrap_or_default();
            cuda.find_kernel(module, &name)
        };
        let functions = cuda
            .load_module(text)
            .and_then(|module| Kernel::ALL.into_iter().map(|kernel| function(module, kernel)).collect());
        // CU_MEMHOSTALLOC_PORTABLE and CU_MEMHOSTALLOC_DEVICEMAP.
        let host = cuda.cuMemHostAlloc(HostMemory::BYTES, 3)?.cast::<u64>();
        // CU_STREAM_NON_BLOCKING: the work of a device must not wait for work of another device.
        let stream = cuda.cuStreamCreate(1)?;
        let events = [cuda.cuEventCreate(0)?, cuda.cuEventCreate(0)?];
        // SAFETY: the driver returned so many bytes, and no other code has their address yet.
        unsafe { std::ptr::write_bytes(host.cast::<u8>(), 0, HostMemory::BYTES) };
        Ok(OpenDevice { device, context, stream, events, functions, host })
    }

    fn close_device(&mut self, ordinal: i32) -> Answer<Reply> {
        if let Some(open) = self.open_devices.remove(&ordinal) {
            // The release of the context also releases all objects in it.
            self.loaded_driver()?.cuDevicePrimaryCtxRelease_v2(open.device)?;
        }
        Ok(Reply::Done)
    }

    /// Maps an allocation at a free address, for reads and writes by a device. If that fails, releases the
    /// allocation.
    fn map_allocation(&mut self, device: i32, handle: CUmemGenericAllocationHandle, bytes: u64) -> Answer<u64> {
        let (cuda, open) = self.make_current(device)?;
        let size = bytes as usize;
        let mapped = || {
            let address = cuda.cuMemAddressReserve(size, 0, CUdeviceptr(0), 0)?;
            let free = |_: &Refusal| drop(cuda.cuMemAddressFree(address, size));
            cuda.cuMemMap(address, size, 0, handle, 0).inspect_err(free)?;
            let unmap = |refusal: &Refusal| {
                let _ = cuda.cuMemUnmap(address, size);
                free(refusal);
            };
            cuda.grant_access(open.device, address, size).inspect_err(unmap)?;
            Ok(address.0)
        };
        let address = mapped().inspect_err(|_| drop(cuda.cuMemRelease(handle)))?;
        self.memory.insert(address, MemoryOrigin::Mapped { bytes: size, handle });
        Ok(address)
    }

    fn free_memory(&mut self, device: i32, address: u64) -> Answer<Reply> {
        let memory = self.memory.remove(&address);
        let (cuda, at) = (self.make_current(device)?.0, CUdeviceptr(address));
        match memory {
            None => return Err(own_refusal("cuMemFree", "no such memory")),
            Some(MemoryOrigin::Plain) => cuda.cuMemFree_v2(at)?,
            Some(MemoryOrigin::Imported) => cuda.cuIpcCloseMemHandle(at)?,
            Some(MemoryOrigin::Mapped { bytes, handle }) => {
                // The second call is made even if the first call fails.
                let (unmapped, freed) = (cuda.cuMemUnmap(at, bytes), cuda.cuMemAddressFree(at, bytes));
                unmapped.and(freed).and(cuda.cuMemRelease(handle))?;
            }
        }
        Ok(Reply::Done)
    }

    fn read_words(&self, device: i32, address: u64, words: u64) -> Answer<Vec<u64>> {
        let mut found = vec![0; words as usize];
        self.make_current(device)?.0.download(&mut found, CUdeviceptr(address))?;
        Ok(found)
    }

    fn begin_work(&self, device: i32, work: StreamWork) -> Answer<Reply> {
        let (cuda, open) = self.make_current(device)?;
        match work {
            StreamWork::Copy { from, to, bytes, times } => {
                for _ in 0..times {
                    let (to, from) = (CUdeviceptr(to), CUdeviceptr(from));
                    cuda.cuMemcpyDtoDAsync_v2(to, from, bytes as usize, open.stream)?;
                }
            }
            StreamWork::CopyPeer { from, from_device, to, to_device, bytes } => {
                let context = |device| self.make_current(device).map(|(_, open)| open.context);
                let (from_context, to_context) = (context(from_device)?, context(to_device)?);
                cuda.cuCtxSetCurrent(open.context)?;
                let (to, from) = (CUdeviceptr(to), CUdeviceptr(from));
                cuda.cuMemcpyPeerAsync(to, to_context, from, from_context, bytes as usize, open.stream)?;
            }
            StreamWork::Kernel { kernel, arguments, blocks, threads, times } => {
                let functions = open.functions.as_ref().map_err(Clone::clone)?;
                let known = Kernel::ALL.get(kernel).zip(functions.get(kernel));
                let known = known.filter(|(kernel, _)| kernel.parameter_count() == arguments.len());
                let (kernel, function) =
                    known.ok_or_else(|| own_refusal("cuLaunchKernel", "was not called: no such kernel"))?;
                if matches!(kernel, Kernel::Send | Kernel::Receive | Kernel::Ping | Kernel::Pong) {
                    // Clears the mark of an earlier kernel.
                    // SAFETY: within the host memory that the driver gave us; no kernel of ours runs on this device now.
                    unsafe { open.host.add(RESULTS - 1).write_volatile(0) };
                }
                for _ in 0..times {
                    cuda.launch_kernel(*function, (blocks, threads), open.stream, &arguments)?;
                }
            }
        }
        Ok(Reply::Done)
    }

    /// Waits for the results of a kernel, and returns them; no words after `limit` milliseconds. This calls
    /// no function of the driver, which would wait for the end of the kernel.
    fn wait_for_results(&self, device: i32, mark: u64, limit: u64) -> Answer<Vec<u64>> {
        let host = self.make_current(device)?.1.host;
        let end = Instant::now() + Duration::from_millis(limit);
        // SAFETY: within the host memory that the driver gave us; a kernel writes these words, so that they are read as
        // something that changes.
        let read = |index: usize| unsafe { host.add(index).read_volatile() };
        while read(RESULTS - 1) != mark {
            if Instant::now() >= end {
                return Ok(Vec::new());
            }
            std::thread::sleep(PAUSE);
        }
        Ok((0..RESULTS).map(read).collect())
    }
}

/// Compares words with the words of a seed. A wrong word that equals the word of a seed in `before` counts as
/// stale.
fn compare_words(found: &[u64], seed: u64, before: &[u64]) -> Comparison {
    let mut compared = Comparison::default();
    for (index, found) in (0..).zip(found) {
        if *found != data_word(seed, index) {
            if compared.wrong == 0 {
                compared.first = index;
            }
            compared.wrong += 1;
            compared.stale += u64::from(before.iter().any(|seed| *found == data_word(*seed, index)));
        }
    }
    compared
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_before_are_stale_and_others_wrong() {
        let mut words: Vec<u64> = (0..100).map(|index| data_word(7, index)).collect();
        assert_eq!(compare_words(&words, 7, &[3]), Comparison::default());
        words[40] = data_word(3, 40);
        words[41] = data_word(4, 41);
        assert_eq!(compare_words(&words, 7, &[3]), Comparison { wrong: 2, stale: 1, first: 40 });
        assert_eq!(compare_words(&words, 7, &[3, 4]).stale, 2);
    }
}
