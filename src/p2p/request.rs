//! Requests of the command to the processes that hold devices, and replies.
//!
//! Addresses, including those of host memory, are addresses of the process that receives the request.

use super::nvml::Promise;
use cupeer_spec::p2p::RESULTS;
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Serialize, Deserialize, Debug)]
pub enum Request {
    /// Loads the driver, and counts devices.
    Start,
    /// Asks the driver about a device: [`Reply::Device`].
    Device { device: i32 },
    /// Asks the driver about the link from a device to the memory of another one: [`Reply::Pair`].
    Pair { from: i32, to: i32 },
    /// Asks NVML about the link between two PCI addresses: [`Reply::Promise`].
    Promise { from: String, to: String },
    /// Makes a device ready: its primary context, a stream, and the kernels. [`Reply::Address`] is the
    /// address of host memory that kernels can access: see [`HostMemory`].
    Open { device: i32 },
    /// Releases a device, and everything that `Open` created.
    Close { device: i32 },
    /// `cuCtxEnablePeerAccess`.
    Enable { from: i32, to: i32 },
    /// Allocates memory, with `cuMemAlloc`; with `shares`, with `cuMemCreate`, and maps it.
    /// [`Reply::Address`], with a descriptor if `shares` is true.
    Allocate { device: i32, bytes: u64, shares: bool },
    /// `cuIpcGetMemHandle`: [`Reply::Handle`].
    Export { device: i32, address: u64 },
    /// `cuIpcOpenMemHandle`: [`Reply::Address`].
    Import { device: i32, handle: IpcHandleBytes },
    /// Imports the descriptor beside the message with `cuMemImportFromShareableHandle`, and maps the memory:
    /// [`Reply::Address`].
    Map { device: i32, bytes: u64 },
    /// Releases memory of `Allocate`, `Import` or `Map`.
    Free { device: i32, address: u64 },
    /// Writes the words of a seed, or zeros without a seed, from the host.
    Fill { device: i32, address: u64, words: u64, seed: Option<u64> },
    /// Compares words with the words of a seed, and counts the words of the earlier seeds in `before`:
    /// [`Reply::Compared`].
    Compare { device: i32, address: u64, words: u64, seed: u64, before: Vec<u64> },
    /// Reads words from the memory of a device: [`Reply::Words`].
    Words { device: i32, address: u64, words: u64 },
    /// Does work in the stream of a device, and waits until it is done: [`Reply::Took`].
    Do { device: i32, work: StreamWork },
    /// Begins work in the stream of a device, without waiting until it is done.
    Begin { device: i32, work: StreamWork },
    /// Waits until all work of a device is done.
    Finish { device: i32 },
    /// Waits until the results of a kernel contain `mark`: [`Reply::Words`], which is empty after `limit`
    /// milliseconds.
    Results { device: i32, mark: u64, limit: u64 },
    /// Writes `mark` to the word that stops a kernel.
    Stop { device: i32, mark: u64 },
}

/// Work in a stream.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub enum StreamWork {
    /// Copies by `cuMemcpyDtoDAsync`, `times` times.
    Copy { from: u64, to: u64, bytes: u64, times: u32 },
    /// A copy by `cuMemcpyPeerAsync` between two devices of the process.
    CopyPeer { from: u64, from_device: i32, to: u64, to_device: i32, bytes: u64 },
    /// Launches of a kernel, `times` times. `kernel` is its index in `cupeer_spec::p2p`.
    Kernel { kernel: usize, arguments: Vec<u64>, blocks: u32, threads: u32, times: u32 },
}

#[derive(Serialize, Deserialize, Debug)]
pub enum Reply {
    Done,
    Devices(i32),
    Device(Box<Device>),
    Pair(Box<Pair>),
    Promise(Option<Promise>),
    Address(u64),
    Handle(IpcHandleBytes),
    Compared(Comparison),
    Words(Vec<u64>),
    /// Duration of the work in nanoseconds.
    Took(u64),
    Refused(Refusal),
}

/// The bytes of an IPC handle. With them, any process can open the memory, so they are never printed.
#[derive(Serialize, Deserialize)]
pub struct IpcHandleBytes(pub Vec<u8>);

impl fmt::Debug for IpcHandleBytes {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("(a handle)")
    }
}

/// A failed call, which is a refusal of the driver.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub call: String,
    /// Name of the result code, or the reason why there is no code.
    pub result: String,
    /// Explanation from the driver or from cupeer; `None` if there is none.
    pub message: Option<String>,
}

/// A device as the driver describes it.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Device {
    pub name: String,
    pub uuid: [u8; 16],
    /// PCI address in the form `DDDD:BB:DD.F`.
    pub pci: String,
    pub memory: u64,
    pub capability: (i32, i32),
    pub multiprocessors: i32,
    pub multicast: bool,
}

/// A direction between two devices as the driver describes it.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Pair {
    pub can_access: bool,
    /// Values of CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK and the four attributes after it; `None` for an
    /// attribute that the driver does not know.
    pub attributes: [Option<i32>; 5],
    /// Capabilities for each `CUatomicOperation`; empty if the driver lacks the function.
    pub atomics: Vec<u32>,
}

impl Pair {
    pub fn has_native_atomics(&self) -> bool {
        self.attributes[2] == Some(1)
    }
}

/// The result of a comparison of words.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Comparison {
    pub wrong: u64,
    /// Number of wrong words that contain earlier data.
    pub stale: u64,
    /// Index of the first wrong word.
    pub first: u64,
}

/// The layout of the host memory that [`Request::Open`] allocates for the kernels of a device.
pub struct HostMemory;

impl HostMemory {
    /// Size of the memory in bytes.
    pub const BYTES: usize = 4096;
    /// Offset in bytes of the word that stops a kernel. The results are at offset 0.
    pub const STOP_OFFSET: u64 = 8 * RESULTS as u64 * 8;
}
