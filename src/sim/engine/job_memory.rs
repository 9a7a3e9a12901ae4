//! The memory of each device that the processes of a job use together.
//!
//! The file that `cupeer run` shares with its processes has a slot per process: the bytes that it uses of each device. A
//! process holds its slot, so its memory is free once it ended. Without this file, each process has the devices for itself.

use super::answer::Answer;
use super::backing::Backing;
use cupeer_spec::env;
use cupeer_spec::results::Result as Code;
use cupeer_spec::status::{BYTES, FILE, ROOM};
use cupeer_topology::MOST_DEVICES;

/// Number of slots: the most processes of a job that share the devices. Any further process counts only its
/// own memory.
const MOST_PROCESSES: u64 = (BYTES - ROOM) / SLOT_BYTES;
/// Number of words of a slot: one for each device.
const WORDS: usize = MOST_DEVICES;
/// Number of bytes of a slot.
const SLOT_BYTES: u64 = (WORDS * size_of::<u64>()) as u64;
/// Offset of the byte that a process locks while it changes the file.
const CHANGE_LOCK: u64 = 1 << 40;
/// Offset of the bytes that processes lock to own their slots, one byte for each slot.
const HOLDS: u64 = CHANGE_LOCK + 1;

/// The file that the processes of the job share, and the slot of this process.
#[derive(Debug)]
pub(crate) struct JobMemory {
    file: Backing,
    slot: u64,
}

impl JobMemory {
    /// Takes a slot for this process. Returns `None` if the process belongs to no job, or if no slot is free.
    pub(crate) fn join() -> Option<JobMemory> {
        JobMemory::take_slot(Backing::open_path(std::env::var(env::STATUS).ok()?, FILE)?)
    }

    fn take_slot(file: Backing) -> Option<JobMemory> {
        let slot = file.run_exclusively(CHANGE_LOCK, || {
            let free =
                (0..MOST_PROCESSES).find(|slot| !file.is_locked_elsewhere(HOLDS + slot)).ok_or(Code::OUT_OF_MEMORY)?;
            file.write_words(ROOM + SLOT_BYTES * free, &[0; WORDS])?;
            file.lock_shared(HOLDS + free);
            Ok(free)
        });
        slot.ok().map(|slot| JobMemory { file, slot })
    }

    /// Returns the bytes that the other processes of the job use of a device. `device` is its index in the
    /// machine.
    pub(crate) fn used_by_others(&self, device: usize) -> u64 {
        // Each process takes the first free slot, so only a process that has ended leaves a gap.
        const GAP: u64 = 16;
        let (mut sum, mut last) = (0, 0);
        for slot in (0..MOST_PROCESSES).filter(|slot| *slot != self.slot) {
            if self.file.is_locked_elsewhere(HOLDS + slot) {
                let at = ROOM + SLOT_BYTES * slot + (device * size_of::<u64>()) as u64;
                sum += self.file.read_words(at).map_or(0, |[used]| used);
                last = slot;
            } else if slot > last.max(self.slot) + GAP {
                break;
            }
        }
        sum
    }

    /// Adds `more` bytes to the `used` bytes of this process on a device that has `total` bytes. Fails if all
    /// processes of the job would use more than `total`.
    pub(crate) fn take_memory(&self, device: usize, used: u64, more: u64, total: u64) -> Answer {
        self.file.run_exclusively(CHANGE_LOCK, || {
            let all = self.used_by_others(device).saturating_add(used).saturating_add(more);
            if all > total { Err(Code::OUT_OF_MEMORY.into()) } else { self.set_used(device, used + more) }
        })
    }

    /// Writes the number of bytes of a device that this process uses to its slot.
    pub(crate) fn set_used(&self, device: usize, used: u64) -> Answer {
        let at = ROOM + SLOT_BYTES * self.slot + (device * size_of::<u64>()) as u64;
        self.file.write_words(at, &[used])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::answer::fail;

    #[test]
    fn processes_share_the_room_of_a_device_until_they_end() {
        let file = Backing::create(FILE, BYTES).unwrap();
        let [one, two] = [(); 2].map(|()| JobMemory::take_slot(file.reopen().unwrap()).unwrap());
        assert_ne!(one.slot, two.slot);
        one.take_memory(3, 0, 60, 100).unwrap();
        assert_eq!((two.used_by_others(3), two.used_by_others(2), one.used_by_others(3)), (60, 0, 0));
        assert_eq!(two.take_memory(3, 0, 50, 100), fail(Code::OUT_OF_MEMORY));
        two.take_memory(3, 0, 40, 100).unwrap();
        one.set_used(3, 10).unwrap();
        two.take_memory(3, 40, 50, 100).unwrap();
        drop(one);
        assert_eq!(two.used_by_others(3), 0);
        let three = JobMemory::take_slot(file.reopen().unwrap()).unwrap();
        assert_eq!((three.slot, three.used_by_others(3)), (0, 90));
    }
}
