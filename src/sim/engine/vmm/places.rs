//! Places of ranges in mappings, which may continue from one mapping into the next.

use super::super::answer::{Answer, invalid};
use super::super::driver::{AccessRights, Allocation, AllocationKind, Driver, HandleTarget, rights_of};
use super::super::places::{FilePiece, FilePieces, RangeMessages, Storage, inaccessible_failure};
use std::sync::Arc;

impl Driver {
    /// Returns the place of a range that begins in a mapping. Fails unless the whole range is mapped, and
    /// accessible to the context.
    pub(crate) fn mapped_place(&self, start: u64, extent: u64, context: u64, words: &RangeMessages) -> Answer<Storage> {
        let context = self.context(context)?;
        let mut pieces = Vec::new();
        let mut is_writable = true;
        let mut done = 0;
        while done < extent {
            let at = start + done;
            let Some((base, Allocation { kind: AllocationKind::Mapped(mapping), size, .. })) =
                self.memory.allocation_at(at)
            else {
                return invalid(words.torn);
            };
            let block = match &mapping.behind {
                HandleTarget::Memory(block) => block,
                HandleTarget::Multicast(_) if done > 0 => return invalid(words.crossed),
                HandleTarget::Multicast(object) => {
                    return self.multicast_place((base, mapping, object), (start, extent), context.device, words);
                }
            };
            match rights_of(mapping, context.device) {
                AccessRights::ReadWrite => {}
                AccessRights::Read => is_writable = false,
                AccessRights::Nothing if done > 0 => return invalid(words.crossed),
                AccessRights::Nothing => return Err(inaccessible_failure(start, context.id, words)),
            }
            let length = (base + size - at).min(extent - done);
            let offset = block.part.offset + (at - base);
            pieces.push(FilePiece { from: done, length, backing: block.backing.clone(), offset });
            done += length;
        }
        if let Some(text) = words.read_only.filter(|_| !is_writable) {
            return invalid(text);
        }
        Ok(match pieces.len() {
            1 => pieces.remove(0).into(),
            _ => Storage::Pieces(Arc::new(FilePieces(pieces)), 0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::transfers::{AddressRole, TransferShape, TransferSide};
    use super::super::tests::{GRANULE, allocation, driver, grant};
    use super::*;
    use cupeer_spec::abi::CUdeviceptr;

    /// Two mappings with a hole after them, which device 0 may read and write.
    fn mapped(driver: &mut Driver) -> CUdeviceptr {
        let at = driver.reserve_addresses(3 * GRANULE, 0, 0).unwrap();
        for granule in [0, 1] {
            let handle = allocation(driver, granule as i32, 1);
            driver.map_allocation(at + granule * GRANULE, GRANULE, 0, handle).unwrap();
        }
        grant(driver, at, 2, 0, 3).unwrap();
        CUdeviceptr(at)
    }

    fn flat(address: u64) -> TransferSide {
        TransferSide::flat(address, AddressRole::Any)
    }

    #[test]
    fn bytes_go_on_from_one_mapping_into_the_next() {
        let mut driver = driver();
        let at = mapped(&mut driver).0;
        let (text, mut back) = (*b"across the border", [0u8; 17]);
        let middle = at + GRANULE - 7;
        let shape = TransferShape::flat(text.len() as u64);
        driver.look_up_copy(flat(middle), flat(text.as_ptr() as u64), shape).unwrap().run().unwrap();
        driver.look_up_copy(flat(back.as_mut_ptr() as u64), flat(middle), shape).unwrap().run().unwrap();
        assert_eq!(back, text);
        // Rows of four bytes, the second of which is beyond the border.
        let rows = TransferShape { width: 4, height: 2, depth: 1 };
        let from = TransferSide { pitch: 12, ..flat(middle) };
        let mut back = [0u8; 8];
        driver
            .look_up_copy(TransferSide { pitch: 4, ..flat(back.as_mut_ptr() as u64) }, from, rows)
            .unwrap()
            .run()
            .unwrap();
        assert_eq!(back, *b"acroorde");
        driver.look_up_fill(at, 0, 1, 0, 2 * GRANULE, 1).unwrap().run().unwrap();
        driver
            .look_up_copy(flat(back.as_mut_ptr() as u64), flat(at + GRANULE - 4), TransferShape::flat(8))
            .unwrap()
            .run()
            .unwrap();
        assert_eq!(back, [0; 8]);
    }

    #[test]
    fn access_is_asked_of_the_context_that_copies() {
        let mut driver = driver();
        let at = mapped(&mut driver).0;
        let (byte, here) = (7u8, driver.current_context_handle().unwrap());
        let host = flat(&raw const byte as u64);
        let says =
            |driver: &Driver, to, from| driver.look_up_copy(to, from, TransferShape::flat(1)).unwrap_err().messages;
        grant(&mut driver, at, 1, 0, 1).unwrap();
        assert_eq!(says(&driver, flat(at), host), ["Requested write on read-only memory, for destination operand"]);
        assert!(driver.look_up_copy(host, flat(at), TransferShape::flat(1)).is_ok());
        grant(&mut driver, at, 1, 0, 0).unwrap();
        assert!(says(&driver, host, flat(at))[0].starts_with("Unable to access operand(0x"));
        super::super::super::stack::pop_context();
        let there = driver.current_context_handle().unwrap();
        assert!(driver.look_up_copy(host, flat(at + GRANULE), TransferShape::flat(1)).is_err());
        assert!(driver.look_up_copy(host, flat(at + GRANULE).with_context(here), TransferShape::flat(1)).is_ok());
        grant(&mut driver, at + GRANULE, 1, 1, 3).unwrap();
        assert!(driver.look_up_copy(host, flat(at + GRANULE).with_context(there), TransferShape::flat(1)).is_ok());
        let torn = driver.look_up_copy(host, flat(at + 2 * GRANULE - 1), TransferShape::flat(2)).unwrap_err();
        assert_eq!(torn.messages, ["Copy range not fully allocated"]);
    }
}
