//! Links that do not deliver, as a topology file has them: what is written over them is lost, arrives late or never ends.
//!
//! A link that is good is no wire: what goes over it is moved as if it were one memory.

use super::answer::Answer;
use super::copies::Place;
use super::memory::{Allocation, Kind};
use super::process::Driver;
use cupeer_topology::{Carrier, Data};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The way from a device to the memory of another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wire {
    from: usize,
    to: usize,
    data: Data,
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

impl Driver {
    /// The index in the machine of the device where an allocation lies; host memory lies on none.
    fn home_of(&self, allocation: &Allocation) -> Option<usize> {
        match &allocation.kind {
            Kind::Import { home, .. } => Some(*home),
            Kind::Mapped(mapping) => mapping.home(),
            Kind::Device { .. } | Kind::Pool { .. } => Some(self.visible[allocation.device]),
            Kind::Host { .. } | Kind::Registered { .. } | Kind::Managed(_) => None,
        }
    }

    /// The wire from a device, by its ordinal, to the memory at an address: `None` where all arrives.
    pub(crate) fn wire(&self, device: usize, address: u64, carrier: Carrier) -> Option<Wire> {
        let (_, allocation) = self.memory.containing(address)?;
        let (from, to) = (self.visible[device], self.home_of(allocation)?);
        let data = self.machine.link(from, to)?.data_of(carrier);
        (data != Data::Good).then_some(Wire { from, to, data })
    }
}

#[cfg(test)]
mod tests {
    use super::super::copies::{Role, Shape, Side};
    use super::*;
    use cupeer_topology::Topology;

    /// Copies each of some bytes from a device to another one: what the other one has after each.
    fn arrived(link: &str, bytes: &[u8]) -> Vec<u8> {
        let text = format!("count = 2\n[[link]]\nfrom = 0\nto = 1\n{link}\n");
        let machine = Topology::parse_file("x", text.as_bytes()).unwrap();
        let mut driver = Driver::new(machine, vec![0, 1]);
        let there = driver.create_context(1, 0).unwrap();
        let owned = driver.allocate(16, false).unwrap();
        let here = driver.create_context(0, 0).unwrap();
        let local = driver.allocate(16, false).unwrap();
        let copy = |driver: &Driver, to: u64, from: u64| {
            let side = |address| Side::flat(address, Role::Any);
            driver.copy(side(to), side(from), Shape::flat(1)).unwrap()
        };
        let mut seen = Vec::new();
        for byte in bytes {
            copy(&driver, local, &raw const *byte as u64).run().unwrap();
            copy(&driver, owned, local).run().unwrap();
            super::super::stack::set(there);
            let mut back = 0u8;
            copy(&driver, &raw mut back as u64, owned).run().unwrap();
            super::super::stack::set(here);
            seen.push(back);
        }
        seen
    }

    #[test]
    fn what_is_lost_never_comes_and_what_is_stale_comes_one_write_late() {
        assert_eq!(arrived("data = 'good'", &[1, 2, 3]), [1, 2, 3]);
        assert_eq!(arrived("data = 'lost'", &[1, 2, 3]), [0, 0, 0]);
        assert_eq!(arrived("data = 'stale'", &[1, 2, 3]), [0, 1, 2]);
        assert_eq!(arrived("data = 'lost'\ndata_by = 'kernels'", &[1, 2]), [1, 2]);
        assert_eq!(arrived("data = 'stale'\ndata_by = 'copies'", &[1, 2]), [0, 1]);
    }

    #[test]
    fn what_would_never_end_is_known_before() {
        let text = b"count = 2\n[[link]]\nfrom = 0\nto = 1\ndata = 'stall'\n";
        let mut driver = Driver::new(Topology::parse_file("x", text).unwrap(), vec![0, 1]);
        driver.create_context(1, 0).unwrap();
        let owned = driver.allocate(16, false).unwrap();
        let byte = 1u8;
        let write = |driver: &Driver| {
            let (to, from) = (Side::flat(owned, Role::Any), Side::flat(&raw const byte as u64, Role::Any));
            driver.copy(to, from, Shape::flat(1)).unwrap().stalls()
        };
        assert!(!write(&driver), "its own device");
        driver.create_context(0, 0).unwrap();
        assert!(write(&driver));
    }
}
