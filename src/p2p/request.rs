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
    /// Makes a device ready: its primary context, a stream, the kernels. [`Reply::Address`] is host memory that kernels reach:
    /// see [`Host`].
    Open { device: i32 },
    /// Releases the device and all that `Open` made.
    Close { device: i32 },
    /// `cuCtxEnablePeerAccess`.
    Enable { from: i32, to: i32 },
    /// `cuMemAlloc`, and with `shares` `cuMemCreate` and what maps it. [`Reply::Address`], and a descriptor.
    Allocate { device: i32, bytes: u64, shares: bool },
    /// `cuIpcGetMemHandle`: [`Reply::Handle`].
    Export { device: i32, address: u64 },
    /// `cuIpcOpenMemHandle`: [`Reply::Address`].
    Import { device: i32, handle: Secret },
    /// `cuMemImportFromShareableHandle` with the descriptor beside the message, and what maps it: [`Reply::Address`].
    Map { device: i32, bytes: u64 },
    /// Releases memory of `Allocate`, `Import` or `Map`.
    Free { device: i32, address: u64 },
    /// Writes the words of a seed from the host, or zeros.
    Fill { device: i32, address: u64, words: u64, seed: Option<u64> },
    /// Compares words with those of a seed, and with those of earlier ones: [`Reply::Compared`].
    Compare { device: i32, address: u64, words: u64, seed: u64, before: Vec<u64> },
    /// Reads words: [`Reply::Words`].
    Words { device: i32, address: u64, words: u64 },
    /// Does work in the stream of a device, and waits for its end: [`Reply::Took`].
    Do { device: i32, work: Work },
    /// Begins work, and does not wait for its end.
    Begin { device: i32, work: Work },
    /// Waits until all work of a device has ended.
    Finish { device: i32 },
    /// Waits until the results of a kernel have their mark: [`Reply::Words`], without words after this many milliseconds.
    Results { device: i32, mark: u64, limit: u64 },
    /// Writes the word that stops a kernel.
    Stop { device: i32, mark: u64 },
}

/// Work in a stream.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub enum Work {
    /// `cuMemcpyDtoDAsync`, repeated.
    Copy { from: u64, to: u64, bytes: u64, times: u32 },
    /// `cuMemcpyPeerAsync` between two devices of the process.
    CopyPeer { from: u64, from_device: i32, to: u64, to_device: i32, bytes: u64 },
    /// A launch of a kernel of `cupeer_spec::p2p`, by its index there, repeated.
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
    Handle(Secret),
    Compared(Compared),
    Words(Vec<u64>),
    /// Nanoseconds.
    Took(u64),
    Refused(Refusal),
}

/// The bytes of a handle. They open memory, so they are never printed.
#[derive(Serialize, Deserialize)]
pub struct Secret(pub Vec<u8>);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("(a handle)")
    }
}

/// A call that failed.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub call: String,
    /// The name of the result, or why there is none.
    pub result: String,
    /// Explanation from the driver or from cupeer.
    pub message: Option<String>,
}

/// A device, from the driver.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Device {
    pub name: String,
    pub uuid: [u8; 16],
    /// `DDDD:BB:DD.F`.
    pub pci: String,
    pub memory: u64,
    pub capability: (i32, i32),
    pub multiprocessors: i32,
    pub multicast: bool,
}

/// A direction between two devices, from the driver.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Pair {
    pub can_access: bool,
    /// CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK and those that follow; `None` for one that the driver does not know.
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
pub struct Compared {
    pub wrong: u64,
    /// Number of wrong words that have earlier data.
    pub stale: u64,
    /// The index of the first wrong one.
    pub first: u64,
}

/// The host memory that [`Request::Open`] makes.
pub struct Host;

impl Host {
    /// Bytes of it.
    pub const BYTES: usize = 4096;
    /// From its start to the word that stops a kernel. The results are at the start.
    pub const STOP: u64 = 8 * RESULTS as u64 * 8;
}
