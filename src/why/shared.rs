//! Memory that several processes have mapped, by what tells it apart.

use super::memory::RemoteMemory;
use cupeer_stacks::Memory;
use procfs::process::{MMPermissions, MMapPath, MemoryMaps};
use std::ops::Range;

/// A mapping of memory that other processes may have mapped as well.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SharedMapping {
    pub range: Range<u64>,
    /// Offset of the mapping's start in the mapped file, in bytes.
    offset: u64,
    file: (i32, i32, u64),
    pub is_writable: bool,
    /// Path of the file; for memory without a file, the kernel's name for it.
    pub name: String,
}

/// A location in shared memory, equal for all processes that map it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SharedAddress {
    file: (i32, i32, u64),
    pub offset: u64,
}

impl SharedAddress {
    /// Returns true if both locations are in the same memory.
    pub fn is_in_same_memory(self, other: SharedAddress) -> bool {
        self.file == other.file
    }
}

impl SharedMapping {
    pub fn of(maps: &MemoryMaps) -> Vec<SharedMapping> {
        let shared = maps.iter().filter(|map| map.perms.contains(MMPermissions::SHARED) && map.inode != 0);
        let one = |map: &procfs::process::MemoryMap| {
            let name = match &map.pathname {
                MMapPath::Path(path) => path.to_string_lossy().into_owned(),
                _ => String::new(),
            };
            SharedMapping {
                range: map.address.0..map.address.1,
                offset: map.offset,
                file: (map.dev.0, map.dev.1, map.inode),
                is_writable: map.perms.contains(MMPermissions::WRITE),
                name,
            }
        };
        // Devices do not count as memory between processes: mappings of one device file may lead to different memory.
        shared.map(one).filter(|one| !one.name.starts_with("/dev/") || one.is_memory()).collect()
    }

    fn is_memory(&self) -> bool {
        ["/dev/shm/", "/dev/zero (deleted)"].iter().any(|known| self.name.starts_with(known))
    }

    /// Returns the location of an address, with the mapping that contains the address.
    pub fn locate(all: &[SharedMapping], address: u64) -> Option<(&SharedMapping, SharedAddress)> {
        let of = all.iter().find(|one| one.range.contains(&address))?;
        Some((of, SharedAddress { file: of.file, offset: of.offset + (address - of.range.start) }))
    }

    /// Returns the memory that a thread seems to poll: shared memory other than that of semaphores, if one of these words
    /// points to it, or if it is the only shared memory of the process.
    pub fn find_polled(all: &[SharedMapping], mut words: impl Iterator<Item = u64>) -> Option<PolledMemory> {
        let is_it = |one: &&SharedMapping| one.is_writable && one.is_memory() && !one.name.contains("/sem.");
        let is_in = |word: &u64| all.iter().filter(is_it).any(|one| one.range.contains(word));
        if let Some(address) = words.find(is_in) {
            return Some(PolledMemory { address, length: 4, value: None, samples: 0 });
        }
        let mut rest = all.iter().filter(is_it);
        let only = rest.next().filter(|_| rest.next().is_none())?;
        let length = (only.range.end - only.range.start).min(1 << 16) as usize;
        Some(PolledMemory { address: only.range.start, length, value: None, samples: 0 })
    }

    /// Returns true if this mapping maps the memory of a location.
    pub fn contains(&self, place: SharedAddress) -> bool {
        let length = self.range.end - self.range.start;
        self.file == place.file && (self.offset..self.offset + length).contains(&place.offset)
    }
}

/// A location in shared memory, or a whole mapping, that a thread reads again and again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PolledMemory {
    pub address: u64,
    pub length: usize,
    /// Contents that all samples had; `None` before the first sample.
    value: Option<Vec<u8>>,
    pub samples: u32,
}

impl PolledMemory {
    /// Takes a sample. Returns `None` if the contents have changed.
    pub fn sample(self, memory: &RemoteMemory) -> Option<PolledMemory> {
        let mut bytes = vec![0; self.length];
        let length = memory.copy(self.address as usize, &mut bytes);
        let is_same = length == bytes.len() && self.value.as_ref().is_none_or(|value| *value == bytes);
        is_same.then(|| PolledMemory { value: Some(bytes), samples: self.samples + 1, ..self })
    }

    /// Returns the value at the location; `None` for a whole mapping.
    pub fn value_as_number(&self) -> Option<u32> {
        Some(u32::from_le_bytes(self.value.as_deref()?.try_into().ok()?))
    }
}
