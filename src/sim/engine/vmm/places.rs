//! Places of ranges in mappings, which may continue from one mapping into the next.

use super::super::answer::{Answer, invalid};
use super::super::driver::{Allocation, Behind, Driver, Kind, Rights, may_access};
use super::super::places::{Messages, Piece, Pieces, Place, inaccessible};
use std::sync::Arc;

impl Driver {
    /// Returns the place of a range that begins in a mapping. Fails unless the whole range is mapped, and
    /// accessible to the context.
    pub(crate) fn mapped_place(
        &self,
        start: u64,
        extent: u64,
        context: u64,
        words: &Messages,
    ) -> Answer<Place> {
        let context = self.context(context)?;
        let mut pieces = Vec::new();
        let mut is_writable = true;
        let mut done = 0;
        while done < extent {
            let at = start + done;
            let Some((base, Allocation { kind: Kind::Mapped(mapping), size, .. })) =
                self.memory.containing(at)
            else {
                return invalid(words.torn);
            };
            let block = match &mapping.behind {
                Behind::Memory(block) => block,
                Behind::Multicast(_) if done > 0 => return invalid(words.crossed),
                Behind::Multicast(object) => {
                    return self.multicast_place(
                        (base, mapping, object),
                        (start, extent),
                        context.device,
                        words,
                    );
                }
            };
            match may_access(mapping, context.device) {
                Rights::ReadWrite => {}
                Rights::Read => is_writable = false,
                Rights::Nothing if done > 0 => return invalid(words.crossed),
                Rights::Nothing => return Err(inaccessible(start, context.id, words)),
            }
            let length = (base + size - at).min(extent - done);
            let offset = block.part.offset + (at - base);
            pieces.push(Piece { from: done, length, backing: block.backing.clone(), offset });
            done += length;
        }
        if let Some(text) = words.read_only.filter(|_| !is_writable) {
            return invalid(text);
        }
        Ok(match pieces.len() {
            1 => pieces.remove(0).into(),
            _ => Place::Pieces(Arc::new(Pieces(pieces)), 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::transfers::{Role, Shape, Side};
    use super::super::tests::{GRANULE, allocation, driver, grant};
    use super::*;
    use cupeer_spec::abi::CUdeviceptr;

    /// Two mappings with a hole after them, which device 0 may read and write.
    fn mapped(driver: &mut Driver) -> CUdeviceptr {
        let at = driver.reserve_addresses(3 * GRANULE, 0, 0).unwrap();
        for granule in [0, 1] {
            let handle = allocation(driver, granule as i32, 1);
            driver.map(at + granule * GRANULE, GRANULE, 0, handle).unwrap();
        }
        grant(driver, at, 2, 0, 3).unwrap();
        CUdeviceptr(at)
    }

    fn flat(address: u64) -> Side {
        Side::flat(address, Role::Any)
    }

    #[test]
    fn bytes_go_on_from_one_mapping_into_the_next() {
        let mut driver = driver();
        let at = mapped(&mut driver).0;
        let (text, mut back) = (*b"across the border", [0u8; 17]);
        let middle = at + GRANULE - 7;
        let shape = Shape::flat(text.len() as u64);
        driver.copy(flat(middle), flat(text.as_ptr() as u64), shape).unwrap().run().unwrap();
        driver.copy(flat(back.as_mut_ptr() as u64), flat(middle), shape).unwrap().run().unwrap();
        assert_eq!(back, text);
        // Rows of four bytes, the second of which is beyond the border.
        let rows = Shape { width: 4, height: 2, depth: 1 };
        let from = Side { pitch: 12, ..flat(middle) };
        let mut back = [0u8; 8];
        driver.copy(Side { pitch: 4, ..flat(back.as_mut_ptr() as u64) }, from, rows).unwrap().run().unwrap();
        assert_eq!(back, *b"acroorde");
        driver.fill(at, 0, 1, 0, 2 * GRANULE, 1).unwrap().run().unwrap();
        driver
            .copy(flat(back.as_mut_ptr() as u64), flat(at + GRANULE - 4), Shape::flat(8))
            .unwrap()
            .run()
            .unwrap();
        assert_eq!(back, [0; 8]);
    }

    #[test]
    fn access_is_asked_of_the_context_that_copies() {
        let mut driver = driver();
        let at = mapped(&mut driver).0;
        let (byte, here) = (7u8, driver.current().unwrap());
        let host = flat(&raw const byte as u64);
        let says = |driver: &Driver, to, from| driver.copy(to, from, Shape::flat(1)).unwrap_err().messages;
        grant(&mut driver, at, 1, 0, 1).unwrap();
        assert_eq!(
            says(&driver, flat(at), host),
            ["Requested write on read-only memory, for destination operand"]
        );
        assert!(driver.copy(host, flat(at), Shape::flat(1)).is_ok());
        grant(&mut driver, at, 1, 0, 0).unwrap();
        assert!(says(&driver, host, flat(at))[0].starts_with("Unable to access operand(0x"));
        super::super::super::stack::pop();
        let there = driver.current().unwrap();
        assert!(driver.copy(host, flat(at + GRANULE), Shape::flat(1)).is_err());
        assert!(driver.copy(host, flat(at + GRANULE).of(here), Shape::flat(1)).is_ok());
        grant(&mut driver, at + GRANULE, 1, 1, 3).unwrap();
        assert!(driver.copy(host, flat(at + GRANULE).of(there), Shape::flat(1)).is_ok());
        let torn = driver.copy(host, flat(at + 2 * GRANULE - 1), Shape::flat(2)).unwrap_err();
        assert_eq!(torn.messages, ["Copy range not fully allocated"]);
    }
}
