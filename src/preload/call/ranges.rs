//! The device memory that copies of rows and batches of copies use, and a test that a copy uses only device memory.

use super::Arguments;
use crate::driver::batches::{self, Range};
use crate::driver::places;
use crate::fault::forward::ArgumentWords;
use crate::job::{ledger, uses};
use crate::recorder::{self, Detail};
use core::mem::offset_of;
use cupeer_spec::abi::{CUDA_MEMCPY2D_v2, CUDA_MEMCPY3D_v2};
use cupeer_spec::effect::Batch;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::detail;

/// Number of ranges of a batch that are stored separately. Further ranges are merged with ranges of the same memory.
const MOST: usize = 46;
/// Number of ranges up to which a short detail in the recording is large enough.
const FEW: usize = 6;

/// Returns the start address of the rows that a copy writes, and of the rows that the copy reads. `structure` is the address of
/// the structure that describes the rows, and `bytes` is its size. Returns zeros if there is no structure at the address.
#[inline]
pub fn row_starts(structure: u64, bytes: usize) -> [u64; 2] {
    if !batches::can_be_address(structure) {
        return [0; 2];
    }
    // SAFETY: cuda.h demands that such a structure is there; the driver reads it as well.
    let touched = unsafe {
        if bytes == size_of::<CUDA_MEMCPY2D_v2>() {
            (structure as *const CUDA_MEMCPY2D_v2).read_unaligned().touched()
        } else {
            (structure as *const CUDA_MEMCPY3D_v2).read_unaligned().touched()
        }
    };
    touched.map(|(start, _)| start)
}

/// Returns true if a copy of rows may use shared memory. Only the base addresses in the structure are tested: see [`row_starts`].
#[inline(always)]
pub fn may_rows_be_shared(structure: u64, bytes: usize) -> bool {
    let offsets = if bytes == size_of::<CUDA_MEMCPY2D_v2>() {
        [offset_of!(CUDA_MEMCPY2D_v2, dstDevice), offset_of!(CUDA_MEMCPY2D_v2, srcDevice)]
    } else {
        [offset_of!(CUDA_MEMCPY3D_v2, dst.Device), offset_of!(CUDA_MEMCPY3D_v2, src.Device)]
    };
    // SAFETY: as in `row_starts`.
    let address = |offset| unsafe { ((structure + offset as u64) as *const u64).read_unaligned() };
    batches::can_be_address(structure) && offsets.into_iter().any(|offset| uses::may_be_shared(address(offset)))
}

/// Returns true if a batch of copies may use shared memory. `to`, `from`, and `count` are arguments of the call.
#[inline(never)]
pub fn batch_may_be_shared(batch: Batch, to: u64, from: u64, count: u64) -> bool {
    batches::any(batch, to, from, count, uses::may_be_shared)
}

/// Calls `work` with each range of memory that a batch of copies uses.
pub fn each_range_of_batch(id: FnId, words: &ArgumentWords, work: &mut dyn FnMut(Range)) {
    if let Some(batch) = id.spec().batch() {
        batches::each_range_of_words(batch, batch.arguments().map(|by| words[by]), work);
    }
}

/// Returns true if a copy reads and writes only device memory, and no host memory.
pub fn uses_only_device_memory(id: FnId, arguments: &dyn Arguments) -> bool {
    let spec = id.spec();
    let (mut all, mut count) = (true, 0);
    let mut examine = |start: u64| {
        let is_there = || places::device_of_memory(start, ledger::device_of_opened_memory).is_some();
        (all, count) = (all && start != 0 && (uses::is_shared(start) || is_there()), count + 1);
    };
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    if let Some(copied) = spec.copies() {
        [copied.to, copied.from].iter().for_each(|by| examine(words[*by]));
    } else if let Some((by, bytes)) = spec.rows_structure() {
        row_starts(words[by], bytes).into_iter().for_each(&mut examine);
    } else {
        each_range_of_batch(id, &words, &mut |range| examine(range.start));
    }
    all && count > 0
}

/// Ranges of shared memory that a batch uses, in the form of the record.
struct SharedRanges {
    all: [[u64; 2]; MOST],
    count: usize,
}

impl SharedRanges {
    /// Adds a range, or merges it with another range. Returns false if there is no room for the range.
    fn add(&mut self, new: Range) -> bool {
        let write_bit = u64::from(new.is_write) * detail::WRITTEN;
        let is_like = |[_, bytes]: [u64; 2]| bytes & detail::WRITTEN == write_bit;
        let end = |[start, bytes]: [u64; 2]| start.saturating_add(bytes & detail::RANGE_BYTES);
        let (known, free) = self.all.split_at_mut(self.count);
        let is_last = |it: &[u64; 2]| is_like(*it) && it[1] & detail::GAPS == 0 && end(*it) == new.start;
        if let Some(last) = known.iter_mut().rev().take(2).find(|it| is_last(it) && !new.has_gaps) {
            last[1] = last[1].saturating_add(new.bytes);
            return true;
        }
        if let Some(place) = free.first_mut() {
            *place =
                [new.start, new.bytes & detail::RANGE_BYTES | write_bit | (u64::from(new.has_gaps) * detail::GAPS)];
            self.count += 1;
            return true;
        }
        // Merges the range with another range of the same memory. The program may not use all of the bytes between both.
        let known = known.iter_mut().rev().find(|it| is_like(**it) && uses::are_in_one_range(it[0], new.start));
        known.is_some_and(|it| {
            let (start, end) = (it[0].min(new.start), end(*it).max(new.start.saturating_add(new.bytes)));
            *it = [start, (end - start) & detail::RANGE_BYTES | write_bit | detail::GAPS];
            true
        })
    }
}

/// Adds the shared memory that a batch used to the record of its call. Returns false if there is no room for all of it.
#[inline(never)]
pub fn record_batch_ranges(id: FnId, number: u64, arguments: &dyn Arguments) -> bool {
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    let (mut ranges, mut is_whole) = (SharedRanges { all: [[0; 2]; MOST], count: 0 }, true);
    each_range_of_batch(id, &words, &mut |range| {
        if range.bytes != 0 && uses::is_shared(range.start) {
            is_whole &= ranges.add(range);
        }
    });
    let bytes = ranges.all.map(|range| range.map(u64::to_le_bytes));
    let bytes = bytes[..ranges.count].as_flattened().as_flattened();
    if ranges.count <= FEW {
        recorder::detail::append_short(number, &[(detail::RANGES, bytes)]);
    } else {
        Detail::add_to_call(number, |detail| detail.add_item(detail::RANGES, 0, bytes));
    }
    is_whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_follow_each_other_are_one_and_more_than_fit_have_gaps() {
        let (memory, elsewhere) = (0x7c00_0000_0000, 0x7d00_0000_0000);
        uses::watch(memory, 1 << 21);
        uses::watch(elsewhere, 1 << 21);
        let range = |start, is_write| Range { argument: 0, start, bytes: 16, is_write, has_gaps: false };
        let mut ranges = SharedRanges { all: [[0; 2]; MOST], count: 0 };
        for at in [0, 16, 32] {
            assert!(ranges.add(range(memory + at, true)) && ranges.add(range(elsewhere + at, false)));
        }
        assert_eq!(ranges.all[..2], [[memory, 48 | detail::WRITTEN], [elsewhere, 48]]);
        assert!((2..MOST as u64).all(|at| ranges.add(range(memory + at * 64, true))));
        assert!(ranges.add(range(memory + 0x10000, true)) && ranges.add(range(elsewhere + 0x100, false)));
        let (first, last) = (memory + (MOST as u64 - 1) * 64, memory + 0x10010);
        assert_eq!(ranges.all[MOST - 1], [first, (last - first) | detail::WRITTEN | detail::GAPS]);
        assert_eq!(ranges.all[1], [elsewhere, 0x110 | detail::GAPS]);
        assert!(!ranges.add(range(0x7e00_0000_0000, true)));
    }
}
