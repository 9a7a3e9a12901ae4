//! What the command asks of the processes that hold devices, and what they answer.
//!
//! Addresses, also of host memory, are those of the process that is asked.

use super::nvml::Promise;
use cupeer_spec::p2p::RESULTS;
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Serialize, Deserialize, Debug)]
pub enum Request {
    /// Loads the driver, and counts devices.
    Start,
    /// What the driver says of a device: [`Reply::Device`].
    Device { device: i32 },
    /// What it says of the way from a device to the memory of another one: [`Reply::Pair`].
    Pair { from: i32, to: i32 },
    /// What NVML says of it, by PCI addresses: [`Reply::Promise`].
    Promise { from: String, to: String },
    /// Makes a device ready: its primary context, a stream, the kernels. [`Reply::Address`] is host memory that kernels reach:
    /// see [`Host`].
    Open { device: i32 },
    /// Gives all of that back.
    Close { device: i32 },
    /// `cuCtxEnablePeerAccess`.
    Enable { from: i32, to: i32 },
    /// `cuMemAlloc`, and with `shares` `cuMemCreate` and what maps it. [`Reply::Address`], and a descriptor.
    Allocate { device: i32, bytes: u64, shares: bool },
    /// `cuIpcGetMemHandle`: [`Reply::Handle`].
    Export { device: i32, address: u64 },
    /// `cuIpcOpenMemHandle`: [`Reply::Address`].
    Import { device: i32, handle: Secret },
    /// The same with the descriptor that goes along: `cuMemImportFromShareableHandle` and what maps it.
    Map { device: i32, bytes: u64 },
    /// Gives back what `Allocate`, `Import` or `Map` have given.
    Free { device: i32, address: u64 },
    /// Writes the words of a seed from the host, or zeros.
    Fill { device: i32, address: u64, words: u64, seed: Option<u64> },
    /// Compares words with those of a seed, and with those of earlier ones: [`Reply::Compared`].
    Compare { device: i32, address: u64, words: u64, seed: u64, before: Vec<u64> },
    /// Reads words: [`Reply::Words`].
    Words { device: i32, address: u64, words: u64 },
    /// Has work done in the stream of a device, and waits for its end: [`Reply::Took`].
    Do { device: i32, work: Work },
    /// Has work begun.
    Begin { device: i32, work: Work },
    /// Waits until all work of a device has ended.
    Finish { device: i32 },
    /// Waits until the results of a kernel have their mark: [`Reply::Words`], or none where that takes longer than this many
    /// milliseconds.
    Results { device: i32, mark: u64, limit: u64 },
    /// Writes the word that stops a kernel.
    Stop { device: i32, mark: u64 },
}

/// Work in a stream.
#[derive(Serialize, Deserialize, Clone, Debug)]
pub enum Work {
    /// `cuMemcpyDtoDAsync`; so often.
    Copy { from: u64, to: u64, bytes: u64, times: u32 },
    /// `cuMemcpyPeerAsync` between two devices of the process.
    CopyPeer { from: u64, from_device: i32, to: u64, to_device: i32, bytes: u64 },
    /// One of `cupeer_spec::p2p`, by its place there; so often.
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

/// The bytes of a handle, which open somebody's memory: nobody prints them.
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
    /// What the driver or we have to say besides.
    pub message: Option<String>,
}

/// What the driver says of a device.
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

/// What the driver says of a pair.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Pair {
    pub can_access: bool,
    /// CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK and those that follow; `None` where it does not know one.
    pub attributes: [Option<i32>; 5],
    /// Of each `CUatomicOperation`; empty where it does not say.
    pub atomics: Vec<u32>,
}

impl Pair {
    pub fn has_native_atomics(&self) -> bool {
        self.attributes[2] == Some(1)
    }
}

/// What became of words.
#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compared {
    pub wrong: u64,
    /// How many of the wrong ones are what was written before.
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
