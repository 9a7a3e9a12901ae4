//! Values in memory that streams write and wait for: `cuStreamWriteValue32`, `cuStreamWaitValue32`, and their batches.
//!
//! A wait holds its stream until anything writes the value: the host, another stream, or another process.

use super::answer::{Answer, fail, fail_if};
use super::damage::{self, DamagedLink};
use super::driver::{AllocationKind, Driver, Stream, Visibility};
use super::places::Storage;
use cupeer_spec::results::Result as Code;
use cupeer_topology::DataCarrier;

/// CU_STREAM_WAIT_VALUE_FLUSH, which needs CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES.
const FLUSH: u32 = 1 << 30;
/// CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER, which only the first version of the functions accepts.
const NO_BARRIER: u32 = 1;
/// CU_STREAM_MEMORY_BARRIER_TYPE_GPU.
const GPU: u32 = 1;

/// An operation on a value in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Operation {
    pub kind: OperationKind,
    pub address: u64,
    pub bytes: usize,
    pub value: u64,
    pub flags: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OperationKind {
    Wait,
    Write,
    Barrier,
    Flush,
}

/// A value in memory that the current context can access.
struct ValueCell {
    place: Storage,
    damaged: Option<DamagedLink>,
    bytes: usize,
}

impl ValueCell {
    fn read(&self) -> Answer<u64> {
        let mut bytes = [0; 8];
        damage::read_over_link(self.damaged, &self.place, &mut bytes[..self.bytes])?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn write(&self, value: u64) -> Answer {
        damage::write_over_link(self.damaged, &self.place, &value.to_le_bytes()[..self.bytes])
    }
}

/// Returns true if a value meets a condition of `CU_STREAM_WAIT_VALUE_*`.
fn is_condition_met(condition: u32, found: u64, value: u64, bytes: usize) -> bool {
    let unused = 64 - 8 * bytes as u32;
    match condition {
        0 => (found.wrapping_sub(value) << unused) as i64 >= 0,
        1 => found << unused == value << unused,
        2 => found & value != 0,
        _ => !(found | value) << unused != 0,
    }
}

impl Driver {
    /// Adds operations to a stream, in their order. If one of the operations is wrong, adds none.
    pub(crate) fn operate(&mut self, stream: u64, operations: &[Operation], is_first_version: bool) -> Answer {
        let stream = self.stream(stream)?;
        let cells = operations.iter().map(|operation| self.look_up_cell(operation, is_first_version));
        let cells = cells.collect::<Answer<Vec<Option<ValueCell>>>>()?;
        fail_if(self.graphs.capture_of(&stream).is_some(), Code::STREAM_CAPTURE_UNSUPPORTED)?;
        for (operation, cell) in operations.iter().zip(cells) {
            if let Some(cell) = cell {
                self.carry_out(&stream, *operation, cell)?;
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, stream: &Stream, operation: Operation, cell: ValueCell) -> Answer {
        let Operation { kind, value, bytes, flags, .. } = operation;
        if cell.damaged.is_some_and(|damaged| damaged.stalls()) {
            return self.hold_until(stream, || false);
        }
        if kind == OperationKind::Write {
            let write = move |_: &mut Driver| drop(cell.write(value));
            // The host and other processes can see the value without calling the driver.
            if self.is_late() {
                self.add_late_work(stream, Visibility::Host, write)
            } else {
                self.do_in_order(stream, write)
            }
            return Ok(());
        }
        // If the memory was freed, the wait ends.
        self.hold_until(stream, move || cell.read().map_or(true, |found| is_condition_met(flags, found, value, bytes)))
    }

    /// Returns the memory of an operation; `None` for an operation without memory.
    fn look_up_cell(&self, operation: &Operation, is_first_version: bool) -> Answer<Option<ValueCell>> {
        let Operation { kind, address, bytes, flags, .. } = *operation;
        let is_known = match kind {
            // The device cannot flush remote writes.
            OperationKind::Wait if flags & FLUSH != 0 => return fail(Code::NOT_SUPPORTED),
            OperationKind::Flush if flags == 0 => return fail(Code::NOT_SUPPORTED),
            OperationKind::Wait => flags <= 3,
            OperationKind::Write => flags & !NO_BARRIER == 0 && (flags == 0 || is_first_version),
            OperationKind::Barrier => flags <= GPU && !is_first_version,
            OperationKind::Flush => false,
        };
        fail_if(!is_known, Code::INVALID_VALUE)?;
        if kind == OperationKind::Barrier {
            return Ok(None);
        }
        let Some((_, allocation)) = self.memory.allocation_at(address) else {
            return fail(Code::INVALID_VALUE);
        };
        let is_managed = matches!(allocation.kind, AllocationKind::Managed(_));
        fail_if(
            is_managed || !address.is_multiple_of(bytes as u64) || !self.can_reach(allocation),
            Code::INVALID_VALUE,
        )?;
        let place = self.place_of(address, bytes as u64)?;
        let damaged = self.damaged_link(self.current_device()?, address, DataCarrier::Kernels);
        Ok(Some(ValueCell { place, damaged, bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_of_their_width() {
        assert!(is_condition_met(0, 5, 5, 4) && is_condition_met(0, 6, 5, 8) && !is_condition_met(0, 4, 5, 4));
        // A cyclic comparison.
        assert!(is_condition_met(0, 1, 0xffff_ffff, 4) && !is_condition_met(0, 0xffff_ffff, 1, 4));
        assert!(!is_condition_met(0, 1, 0x8000_0000_0000_0001, 8) && is_condition_met(0, 0, u64::MAX, 8));
        assert!(is_condition_met(1, 7, 7, 4) && !is_condition_met(1, 8, 7, 8));
        assert!(is_condition_met(2, 6, 2, 4) && !is_condition_met(2, 6, 1, 8));
        assert!(
            is_condition_met(3, 0, 1, 4)
                && !is_condition_met(3, 0xffff_0000, 0xffff, 4)
                && is_condition_met(3, 0xffff_0000, 0xffff, 8)
        );
    }

    #[test]
    fn operations_that_are_wrong_change_nothing() {
        let mut driver = Driver::in_context();
        let a = driver.allocate_device(64, false).unwrap();
        let write = Operation { kind: OperationKind::Write, address: a, bytes: 4, value: 7, flags: 0 };
        use OperationKind::{Barrier, Flush, Wait};
        for (operation, first, code) in [
            (Operation { address: a + 64, ..write }, false, Some(Code::INVALID_VALUE)),
            (Operation { address: a + 2, ..write }, false, Some(Code::INVALID_VALUE)),
            (Operation { address: a + 4, bytes: 8, ..write }, false, Some(Code::INVALID_VALUE)),
            (Operation { flags: 1, ..write }, false, Some(Code::INVALID_VALUE)),
            (Operation { flags: 1, value: 0, ..write }, true, None),
            (Operation { flags: 2, ..write }, true, Some(Code::INVALID_VALUE)),
            (Operation { kind: Wait, value: 0, ..write }, false, None),
            (Operation { kind: Wait, flags: 4, ..write }, false, Some(Code::INVALID_VALUE)),
            (Operation { kind: Wait, flags: FLUSH, ..write }, false, Some(Code::NOT_SUPPORTED)),
            (Operation { kind: Flush, ..write }, false, Some(Code::NOT_SUPPORTED)),
            (Operation { kind: Barrier, ..write }, false, None),
            (Operation { kind: Barrier, ..write }, true, Some(Code::INVALID_VALUE)),
        ] {
            let got = driver.operate(1, &[operation], first).err().map(|failure| failure.code);
            assert_eq!(got, code, "{operation:?}");
        }
        let cell = |driver: &Driver| driver.look_up_cell(&write, false).unwrap().unwrap().read().unwrap();
        assert!(driver.operate(1, &[write, Operation { flags: 9, ..write }], false).is_err());
        assert_eq!(cell(&driver), 0);
        driver.operate(1, &[write], false).unwrap();
        assert_eq!(cell(&driver), 7);
    }
}
