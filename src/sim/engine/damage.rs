//! Links that damage data, as a topology file defines them: writes are lost, arrive late, or never end. Data over good links
//! moves as within one memory.

use super::answer::Answer;
use super::places::Storage;
use cupeer_topology::LinkDamage;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// A link that damages data, from a device to the memory of another device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DamagedLink {
    /// Index in the machine of the device that reads and writes.
    pub from: usize,
    /// Index in the machine of the device that has the memory.
    pub to: usize,
    pub data: LinkDamage,
}

/// Data that links of the kind `stale` delay: the last write over each link, and the result of the last read
/// of each place.
#[derive(Default)]
struct StaleData {
    writes: Vec<((usize, usize), Storage, Vec<u8>)>,
    reads: HashMap<(usize, usize, String), Vec<u8>>,
}

static LATE: Mutex<Option<StaleData>> = Mutex::new(None);

impl DamagedLink {
    /// Returns true if no transfer over the link ever ends.
    pub(crate) fn stalls(&self) -> bool {
        self.data == LinkDamage::Stall
    }

    fn write(&self, to: &Storage, bytes: &[u8]) -> Answer {
        match self.data {
            LinkDamage::Good => to.write(bytes),
            LinkDamage::Lost => Ok(()),
            LinkDamage::Stall => block_forever(),
            LinkDamage::Stale => {
                let mut late = LATE.lock().unwrap_or_else(PoisonError::into_inner);
                let writes = &mut late.get_or_insert_default().writes;
                let ends = (self.from, self.to);
                let before = writes.iter().position(|(of, ..)| *of == ends).map(|at| writes.remove(at));
                writes.push((ends, to.clone(), bytes.to_vec()));
                before.map_or(Ok(()), |(_, place, bytes)| place.write(&bytes))
            }
        }
    }

    fn read(&self, from: &Storage, bytes: &mut [u8]) -> Answer {
        match self.data {
            LinkDamage::Good | LinkDamage::Lost => from.read(bytes),
            LinkDamage::Stall => block_forever(),
            LinkDamage::Stale => {
                from.read(bytes)?;
                let mut late = LATE.lock().unwrap_or_else(PoisonError::into_inner);
                let key = (self.from, self.to, format!("{} {}", from.identity(), bytes.len()));
                let seen = late.get_or_insert_default().reads.insert(key, bytes.to_vec());
                if let Some(seen) = seen {
                    bytes.copy_from_slice(&seen);
                }
                Ok(())
            }
        }
    }
}

/// Writes bytes to a place, over a damaged link if there is one.
pub(crate) fn write_over_link(damaged: Option<DamagedLink>, to: &Storage, bytes: &[u8]) -> Answer {
    damaged.map_or_else(|| to.write(bytes), |damaged| damaged.write(to, bytes))
}

/// Reads bytes from a place, over a damaged link if there is one.
pub(crate) fn read_over_link(damaged: Option<DamagedLink>, from: &Storage, bytes: &mut [u8]) -> Answer {
    match damaged {
        Some(damaged) => damaged.read(from, bytes),
        None => from.read(bytes),
    }
}

/// Blocks the calling thread until the process ends.
pub(crate) fn block_forever() -> ! {
    loop {
        std::thread::park();
    }
}
