//! The addresses of device memory and of opaque handles.
//!
//! They are addresses of pages without access: a program that follows one in host code crashes, as with a GPU, and mappings of
//! the process do not collide. The handle of a destroyed object is given to the next object of its kind, as a driver was seen
//! to do, or as its documentation allows: a program that continues to use it gets another object.

use super::answer::Answer;
use super::holes::FreeRanges;
use super::pages;
use cupeer_spec::results::Result as Code;
use std::collections::HashMap;

/// Size in bytes from which on an allocation has pages of its own.
pub(crate) const LARGE: u64 = 1 << 20;
/// Number of bytes of which the sizes and the addresses of allocations are multiples.
pub(crate) const GRANULE: u64 = 512;
/// The alignment in bytes of large allocations.
const LARGE_ALIGN: u64 = 2 << 20;
/// Number of addresses that are reserved at once for memory.
const CHUNK: u64 = 1 << 30;
/// Number of addresses that are reserved at once for handles.
const HANDLE_CHUNK: u64 = 16 << 20;
/// Distance between the numbers of two new handles.
const HANDLE_STEP: u64 = 16;

/// The kind of object that a handle names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum HandleKind {
    Allocation,
    Context,
    Event,
    Stream,
    Pool,
    Graph,
    Executable,
    Module,
    Function,
    /// An object of another kind. Its handle is never given to a later object.
    Other,
}

impl HandleKind {
    /// Returns true if a later object of the same kind can get the handle of a destroyed object. For some
    /// kinds, this was recorded; for others, the documentation allows it, and `early` chooses it. A handle of
    /// a pool was seen not to be reused.
    fn is_reusable(self, early: bool) -> bool {
        use HandleKind::{Allocation, Context, Event, Other, Stream};
        matches!(self, Allocation | Context | Event | Stream) || early && self != Other
    }
}

/// A range of addresses from which allocations get their addresses. An address never changes its region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Region {
    /// The addresses of `cuMemAlloc`, of opened memory, and of mappings.
    Common,
    /// The addresses below 4 GiB, for functions whose device addresses have 32 bits.
    Low,
    /// The addresses of memory of pools: a driver was seen never to give a pool the address of other freed
    /// memory.
    Pools,
}

impl Region {
    /// Returns the region for `cuMemAlloc`; with `low`, for its form with addresses of 32 bits.
    pub(crate) fn of_device(low: bool) -> Region {
        if low { Region::Low } else { Region::Common }
    }
}

/// The addresses and handles of this process.
#[derive(Default, Debug)]
pub(crate) struct Space {
    small: FreeRanges,
    large: FreeRanges,
    low: FreeRanges,
    pools: [FreeRanges; 2],
    handles: Option<(u64, u64)>,
    /// Handles of destroyed objects that can be given out again, by kind. The last handle is given out first.
    ended: HashMap<HandleKind, Vec<u64>>,
    /// True if handles are given out again as early as the documentation allows.
    reuses_early: bool,
}

impl Space {
    pub(crate) fn new(reuses_early: bool) -> Space {
        Space { reuses_early, ..Space::default() }
    }

    /// Returns true if handles are given out again as early as the documentation allows.
    pub(crate) fn reuses_early(&self) -> bool {
        self.reuses_early
    }

    /// Takes a range of free addresses from a region. Returns the start of the range.
    pub(crate) fn take_addresses(&mut self, size: u64, region: Region) -> Option<u64> {
        let low = region == Region::Low;
        let size = size.checked_next_multiple_of(GRANULE)?;
        let align = if size < LARGE { GRANULE } else { LARGE_ALIGN };
        if let Some(at) = self.free_ranges(size, region).take_range(size, align) {
            return Some(at);
        }
        let chunk = size.checked_add(align)?.max(if low { LARGE_ALIGN } else { CHUNK });
        let start = reserve_pages(chunk, low).or_else(|| reserve_pages(size.checked_add(align)?, low))?;
        // The reserved range may be smaller than a chunk, if the whole chunk was refused.
        self.free_ranges(size, region).return_range(start.0, start.1);
        self.free_ranges(size, region).take_range(size, align)
    }

    /// Returns a range of addresses to its region.
    pub(crate) fn return_addresses(&mut self, at: u64, size: u64, region: Region) {
        let size = size.next_multiple_of(GRANULE);
        self.free_ranges(size, region).return_range(at, size);
    }

    fn free_ranges(&mut self, size: u64, region: Region) -> &mut FreeRanges {
        match (region, size < LARGE) {
            (Region::Low, _) => &mut self.low,
            (Region::Common, true) => &mut self.small,
            (Region::Common, false) => &mut self.large,
            (Region::Pools, is_small) => &mut self.pools[usize::from(is_small)],
        }
    }

    /// Makes the handle of a destroyed object available for a later object, if its kind allows that.
    pub(crate) fn recycle_handle(&mut self, of: HandleKind, handle: u64) {
        if of.is_reusable(self.reuses_early) {
            self.ended.entry(of).or_default().push(handle);
        }
    }

    /// Returns a handle for a new object.
    pub(crate) fn new_handle(&mut self, of: HandleKind) -> Answer<u64> {
        if let Some(handle) = self.ended.get_mut(&of).and_then(Vec::pop) {
            return Ok(handle);
        }
        let (next, end) = match self.handles {
            Some((next, end)) if next < end => (next, end),
            _ => {
                let (start, length) = reserve_pages(HANDLE_CHUNK, false).ok_or(Code::OUT_OF_MEMORY)?;
                (start, start + length)
            }
        };
        self.handles = Some((next + HANDLE_STEP, end));
        Ok(next)
    }
}

/// Reserves pages without access. Returns their start and length.
fn reserve_pages(size: u64, low: bool) -> Option<(u64, u64)> {
    let size = size.checked_next_multiple_of(4096)?;
    if !low {
        return Some((pages::map_pages(0, size, pages::UNTOUCHED, 0)?, size));
    }
    // Only x86-64 has a kernel flag for low addresses, so this tries one address after another.
    let highest = (1u64 << 32).checked_sub(size)? / LARGE_ALIGN;
    let at = (1..=highest).rev().find_map(|number| map_at(number * LARGE_ALIGN, size))?;
    Some((at, size))
}

/// Maps pages at an address. Returns `None` if something is mapped there.
fn map_at(at: u64, size: u64) -> Option<u64> {
    let given = pages::map_pages(at, size, pages::UNTOUCHED, libc::MAP_FIXED_NOREPLACE)?;
    if given != at {
        // SAFETY: the mapping is new, and no code has its address. Kernels before 4.17 take the address for a hint.
        unsafe { pages::unmap_pages(given, size) };
    }
    (given == at).then_some(given)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_among_small_ones_are_512_bytes_apart() {
        let mut space = Space::default();
        let large = space.take_addresses(4 << 20, Region::Common).unwrap();
        let (a, b) =
            (space.take_addresses(256, Region::Common).unwrap(), space.take_addresses(256, Region::Common).unwrap());
        assert_eq!(b - a, 512);
        assert_eq!(large % LARGE_ALIGN, 0);
        assert!(!(large..=large + (4 << 20)).contains(&a), "past the end of a large one is nothing");
    }

    #[test]
    fn addresses_come_back() {
        let mut space = Space::default();
        let a = space.take_addresses(4 << 20, Region::Common).unwrap();
        space.return_addresses(a, 4 << 20, Region::Common);
        assert_eq!(space.take_addresses(4 << 20, Region::Common), Some(a));
        assert_eq!(space.take_addresses(u64::MAX - 5, Region::Common), None);
    }

    /// As recorded: 1,928 allocations of a pool did not get the address of memory that was freed or unmapped.
    #[test]
    fn a_pool_gets_no_address_of_other_memory() {
        let mut space = Space::default();
        let a = space.take_addresses(4 << 20, Region::Common).unwrap();
        space.return_addresses(a, 4 << 20, Region::Common);
        let b = space.take_addresses(4 << 20, Region::Pools).unwrap();
        space.return_addresses(b, 4 << 20, Region::Pools);
        assert_ne!(a, b);
        assert_eq!(space.take_addresses(4 << 20, Region::Common), Some(a));
        assert_eq!(space.take_addresses(4 << 20, Region::Pools), Some(b));
    }

    #[test]
    fn the_last_handle_that_ended_is_given_to_the_next_of_its_kind() {
        let mut space = Space::default();
        let [a, b] = [(); 2].map(|()| space.new_handle(HandleKind::Event).unwrap());
        assert!(a != b && a % HANDLE_STEP == 0);
        space.recycle_handle(HandleKind::Event, a);
        space.recycle_handle(HandleKind::Event, b);
        let stream = space.new_handle(HandleKind::Stream).unwrap();
        let next = [(); 3].map(|()| space.new_handle(HandleKind::Event).unwrap());
        assert_eq!(next[..2], [b, a]);
        assert!(![a, b, stream].contains(&next[2]) && ![a, b].contains(&stream));
        for (early, of, is_same) in [
            (false, HandleKind::Pool, false),
            (true, HandleKind::Pool, true),
            (true, HandleKind::Executable, true),
            (true, HandleKind::Other, false),
        ] {
            let mut space = Space::new(early);
            let handle = space.new_handle(of).unwrap();
            space.recycle_handle(of, handle);
            assert_eq!(space.new_handle(of) == Ok(handle), is_same, "{of:?}");
        }
    }

    #[test]
    fn low_addresses_have_32_bits() {
        let mut space = Space::default();
        let sizes = [4096, LARGE, 256 << 20, 512];
        let mut taken = sizes.map(|size| (space.take_addresses(size, Region::Low).unwrap(), size));
        taken.sort();
        assert!(taken.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "{taken:x?}");
        assert!(taken[3].0 + taken[3].1 <= 1 << 32, "{taken:x?}");
        assert_eq!(space.take_addresses(4 << 30, Region::Low), None);
    }
}
