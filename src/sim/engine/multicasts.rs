//! The shared state of a multicast object: the number of devices, those that joined, and the bound memory.
//!
//! It is in a memory file, which each process with the object has open. A process holds a byte of the file for each of its
//! bindings, so a binding ends with its process.

use super::answer::{Answer, fail_if};
use super::backing::Backing;
use super::channel::MEMORY_NAME;
use cupeer_spec::results::Result as Code;
use std::ffi::CStr;
use std::sync::Arc;

const NAME: &CStr = c"cupeer-sim multicast";
/// Offset of the byte that a process locks while it changes the file. The next bytes are locked by the
/// processes that own the bindings.
const CHANGING: u64 = 0;
/// Offset of the bindings in the file.
const BINDINGS: u64 = 4096;
/// The most bindings of an object.
const MOST_BINDINGS: u64 = 1024;
/// Offset of a word with one bit for each device that joined.
const JOINED: u64 = 24;

/// The properties of a multicast object at its creation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct MulticastShape {
    /// Number of devices that must join before memory can be bound.
    pub devices: u64,
    pub size: u64,
    /// Handle types by which the object can be exported: bits of `CUmemAllocationHandleType`; 0 for none.
    pub types: u64,
}

/// Memory of a device that is bound to a part of a multicast object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Binding {
    /// The index of the device in the machine.
    pub device: u64,
    /// Offset of the part in the object.
    pub at: u64,
    pub size: u64,
    /// Pid of the process that bound the memory.
    pub pid: u64,
    /// The descriptor of the memory's file in that process.
    pub descriptor: u64,
    pub inode: u64,
    /// Offset of the memory in its file.
    pub offset: u64,
}

impl Binding {
    /// Returns true if the binding overlaps a range of the object.
    pub(crate) fn overlaps(&self, at: u64, size: u64) -> bool {
        self.at < at + size && at < self.at + self.size
    }

    /// Opens the file of the memory. Returns `None` if the process that bound it has ended.
    pub(crate) fn open_file(&self) -> Option<Backing> {
        let file = Backing::open(self.pid as u32, self.descriptor as u32, MEMORY_NAME)?;
        (file.inode() == self.inode).then_some(file)
    }
}

/// A multicast object.
#[derive(Debug)]
pub(crate) struct Multicast {
    pub file: Arc<Backing>,
    /// The file of the object, opened once more: through this descriptor, the process locks the bytes of its
    /// bindings.
    keeper: Backing,
    pub shape: MulticastShape,
    pub is_imported: bool,
}

impl Multicast {
    pub(crate) fn create(shape: MulticastShape) -> Option<Arc<Multicast>> {
        let file = Backing::create(NAME, BINDINGS + MOST_BINDINGS * ENTRY)?;
        file.write_words(0, &[shape.devices, shape.size, shape.types, 0]).ok()?;
        Multicast::of(file, false)
    }

    /// Opens the object of a descriptor. Returns `None` if the descriptor is not one of a multicast object.
    pub(crate) fn import(descriptor: i32) -> Option<Arc<Multicast>> {
        Multicast::of(Backing::open_own(descriptor, NAME)?, true)
    }

    fn of(file: Backing, is_imported: bool) -> Option<Arc<Multicast>> {
        let keeper = file.reopen()?;
        let [devices, size, types] = file.read_words(0).ok()?;
        let shape = MulticastShape { devices, size, types };
        Some(Arc::new(Multicast { file: Arc::new(file), keeper, shape, is_imported }))
    }

    /// Creates a descriptor of the object. The program owns the descriptor, and closes it.
    pub(crate) fn create_descriptor(&self) -> Option<i32> {
        Some(self.file.reopen()?.into_descriptor())
    }

    pub(crate) fn inode(&self) -> u64 {
        self.file.inode()
    }

    /// Returns the devices that have joined, as one bit for each index in the machine.
    fn joined_bits(&self) -> Answer<u64> {
        let [joined] = self.file.read_words(JOINED).map_err(|_| Code::OPERATING_SYSTEM)?;
        Ok(joined)
    }

    /// Returns true if a device has joined.
    pub(crate) fn has_device(&self, device: usize) -> Answer<bool> {
        Ok(self.joined_bits()? & 1 << device != 0)
    }

    /// Returns true if as many devices have joined as the object needs.
    pub(crate) fn has_all_devices(&self) -> Answer<bool> {
        Ok(u64::from(self.joined_bits()?.count_ones()) == self.shape.devices)
    }

    /// Returns the indices of the devices that have joined.
    pub(crate) fn joined_devices(&self) -> Answer<impl Iterator<Item = u64> + use<>> {
        let joined = self.joined_bits()?;
        Ok((0..64).filter(move |device| joined & 1 << device != 0))
    }

    /// Adds a device. Fails if the device has already joined, or if the object needs no more devices.
    pub(crate) fn add_device(&self, device: usize) -> Answer {
        self.file.run_exclusively(CHANGING, || {
            fail_if(self.has_all_devices()? || self.has_device(device)?, Code::INVALID_VALUE)?;
            let joined = self.joined_bits()? | 1 << device;
            self.file.write_words(JOINED, &[joined])
        })
    }

    /// Returns the bindings with their indices.
    pub(crate) fn bindings(&self) -> impl Iterator<Item = (u64, Binding)> {
        (0..MOST_BINDINGS).filter_map(|index| Some((index, self.binding(index)?)))
    }

    fn binding(&self, index: u64) -> Option<Binding> {
        let [device, at, size, pid, descriptor, inode, offset] = self.file.read_words(BINDINGS + index * ENTRY).ok()?;
        let is_there = size != 0 && self.file.is_locked_elsewhere(1 + index);
        is_there.then_some(Binding { device, at, size, pid, descriptor, inode, offset })
    }

    /// Adds a binding. Fails if the device already has memory in that part of the object. Returns the index
    /// of the binding.
    pub(crate) fn add_binding(&self, binding: Binding) -> Answer<u64> {
        self.file.run_exclusively(CHANGING, || {
            let overlaps = |known: Binding| known.device == binding.device && known.overlaps(binding.at, binding.size);
            fail_if(self.bindings().any(|(_, known)| overlaps(known)), Code::INVALID_VALUE)?;
            let free = (0..MOST_BINDINGS).find(|index| self.binding(*index).is_none());
            let index = free.ok_or(Code::OUT_OF_MEMORY)?;
            let Binding { device, at, size, pid, descriptor, inode, offset } = binding;
            let words = [device, at, size, pid, descriptor, inode, offset];
            self.file.write_words(BINDINGS + index * ENTRY, &words)?;
            if self.keeper.lock_shared(1 + index) { Ok(index) } else { Err(Code::OPERATING_SYSTEM.into()) }
        })
    }

    /// Ends a binding of this process.
    pub(crate) fn remove_binding(&self, index: u64) {
        self.keeper.unlock(1 + index);
    }
}

/// Number of bytes of a binding in the file.
const ENTRY: u64 = size_of::<Binding>() as u64;
