//! Reads the ranges of memory that batches of copies use.

use super::queries::numeric_argument;
use cupeer_spec::abi::CUDA_MEMCPY3D_BATCH_OP;
use cupeer_spec::effect::Batch;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::MOST_ARGS;

/// Number of copies of a batch that are examined: the first ones.
const MOST: usize = 4096;

/// Range of memory that one copy of a batch reads or writes.
#[derive(Clone, Copy)]
pub struct Range {
    /// Index of the argument of the call that names the range.
    pub argument: usize,
    pub start: u64,
    pub bytes: u64,
    pub is_write: bool,
    /// True if the range consists of rows, with unused bytes between them.
    pub has_gaps: bool,
}

/// Hands over the ranges of memory that a batch of copies uses: for each, the index of the argument that names it, its start
/// address, and its size in bytes.
#[inline(never)]
pub fn each_range(id: FnId, args: &[u8; MOST_ARGS], batch: Batch, work: &mut dyn FnMut(usize, u64, u64)) {
    let numbers = batch.arguments().map(|argument| numeric_argument(id, args, argument));
    each_range_of_words(batch, numbers, &mut |range| work(range.argument, range.start, range.bytes));
}

/// Hands over the ranges of memory that a batch of copies uses. The array contains the values of its [`Batch::arguments`].
#[inline(never)]
pub fn each_range_of_words(batch: Batch, [to, from, sizes, count]: [u64; 4], work: &mut dyn FnMut(Range)) {
    let count = MOST.min(count as usize);
    let mut hand_over = |ranges: [(u64, u64); 2], has_gaps| {
        for ((start, bytes), (argument, is_write)) in ranges.into_iter().zip([(batch.to, true), (batch.from, false)]) {
            work(Range { argument, start, bytes, is_write, has_gaps });
        }
    };
    if batch.to == batch.from {
        let copies = to as *const CUDA_MEMCPY3D_BATCH_OP;
        for index in (0..count).take_while(|_| can_be_address(to)) {
            // SAFETY: as cuda.h says of batches, the array has as many elements as there are copies.
            let copy = unsafe { copies.add(index).read_unaligned() };
            hand_over(copy.touched_ranges(), copy.extent[1..] != [1; 2]);
        }
        return;
    }
    let arrays = [to, from, sizes].map(|array| array as *const u64);
    if ![to, from, sizes].into_iter().all(can_be_address) {
        return;
    }
    for index in 0..count {
        // SAFETY: as cuda.h says of batches, each array has as many elements as there are copies.
        let [to, from, size] = arrays.map(|array| unsafe { array.add(index).read_unaligned() });
        hand_over([(to, size), (from, size)], false);
    }
}

/// Returns false for a number that cannot be an address: Linux maps nothing below its `mmap_min_addr`. The driver handles such a
/// number itself.
#[inline(always)]
pub fn can_be_address(address: u64) -> bool {
    address >= 1 << 16
}

/// Returns true if `is_it` returns true for an address in a batch. Faster than [`each_range_of_words`]. In a batch of
/// 3D copies, the places of addresses may hold other numbers, which `is_it` gets as well.
#[inline]
pub fn any(batch: Batch, to: u64, from: u64, count: u64, is_it: impl Fn(u64) -> bool) -> bool {
    if !can_be_address(to) || !can_be_address(from) {
        return false;
    }
    let (to, from) = (to as *const u64, from as *const u64);
    (0..MOST.min(count as usize)).any(|index| {
        // SAFETY: as cuda.h says of batches, each array has as many elements as there are copies.
        let addresses = unsafe {
            if batch.to == batch.from {
                let copy = to.cast::<CUDA_MEMCPY3D_BATCH_OP>().add(index);
                [&raw const (*copy).dst.place, &raw const (*copy).src.place]
            } else {
                [to.add(index), from.add(index)]
            }
        };
        // SAFETY: these are addresses of elements of the arrays.
        addresses.into_iter().any(|address| is_it(unsafe { address.read_unaligned() }))
    })
}
