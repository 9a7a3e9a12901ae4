//! Links that do not deliver, as a topology file has them: what is written over them is lost, arrives late or never ends.
//!
//! A link that is good is no wire: what goes over it is moved as if it were one memory.

use super::answer::Answer;
use super::places::Place;
use cupeer_topology::Data;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The way from a device to the memory of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wire {
    pub from: usize,
    pub to: usize,
    pub data: Data,
}

/// What is late: the last write over each wire, and what the last read of each place saw.
#[derive(Default)]
struct Late {
    writes: Vec<((usize, usize), Place, Vec<u8>)>,
    reads: HashMap<(usize, usize, String), Vec<u8>>,
}

static LATE: Mutex<Option<Late>> = Mutex::new(None);

impl Wire {
    /// Whether nothing that goes over it ever ends.
    pub(crate) fn stalls(&self) -> bool {
        self.data == Data::Stall
    }

    fn write(&self, to: &Place, bytes: &[u8]) -> Answer {
        match self.data {
            Data::Good => to.write(bytes),
            Data::Lost => Ok(()),
            Data::Stall => stall(),
            Data::Stale => {
                let mut late = LATE.lock().unwrap_or_else(PoisonError::into_inner);
                let writes = &mut late.get_or_insert_default().writes;
                let ends = (self.from, self.to);
                let before = writes.iter().position(|(of, ..)| *of == ends).map(|at| writes.remove(at));
                writes.push((ends, to.clone(), bytes.to_vec()));
                before.map_or(Ok(()), |(_, place, bytes)| place.write(&bytes))
            }
        }
    }

    fn read(&self, from: &Place, bytes: &mut [u8]) -> Answer {
        match self.data {
            Data::Good | Data::Lost => from.read(bytes),
            Data::Stall => stall(),
            Data::Stale => {
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

/// Writes over a wire, where there is one.
pub(crate) fn write(wire: Option<Wire>, to: &Place, bytes: &[u8]) -> Answer {
    wire.map_or_else(|| to.write(bytes), |wire| wire.write(to, bytes))
}

/// Reads over a wire, where there is one.
pub(crate) fn read(wire: Option<Wire>, from: &Place, bytes: &mut [u8]) -> Answer {
    match wire {
        Some(wire) => wire.read(from, bytes),
        None => from.read(bytes),
    }
}

/// Waits for ever. Nothing but the end of the process ends it.
pub(crate) fn stall() -> ! {
    loop {
        std::thread::park();
    }
}
