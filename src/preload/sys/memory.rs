//! The memory of our collections: the settings, fault plans, and armed plans.
//!
//! It never comes from the program's malloc, which a signal handler may have interrupted, and never exceeds what was
//! reserved before: Rust ends the process if a collection gets no memory. So code that builds a collection first
//! declares how much it may take ([`run_with_reserved_memory`]), and does without it if that is not available.
//!
//! Nothing on the path of a call needs this.

use super::arch::{page_size, thread};
#[cfg(not(test))]
use super::arena;
use super::pages;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The global allocator of this library, in place of malloc.
struct CollectionAllocator;

#[global_allocator]
static COLLECTIONS: CollectionAllocator = CollectionAllocator;

/// Largest size of pieces that are reused through lists of free pieces, in bytes.
const SMALL: usize = 4096;
/// Number of sizes of small pieces: 16 bytes, 32 bytes, and so on up to [`SMALL`].
const SIZES: usize = (SMALL / SMALLEST).ilog2() as usize + 1;
const SMALLEST: usize = 16;

/// Size of the memory that a process has from the start, in bytes, which is enough for the settings of most processes. Untouched
/// pages cost nothing.
pub const INITIAL_SIZE: usize = 192 * 1024;

/// The header at the start of memory from which one thread takes pieces.
pub struct Region {
    next: usize,
    end: usize,
    free: [*mut Free; SIZES],
}

/// The header of a free piece in a list.
struct Free {
    next: *mut Free,
}

/// Does work whose collections take no more than this many bytes. The work returns its result, and true if the result is kept;
/// otherwise all of its memory is freed. Returns `None` if there is not so much memory, or if the work panicked.
pub fn run_with_reserved_memory<T>(bytes: usize, work: impl FnOnce() -> (T, bool)) -> Option<T> {
    let thread = thread();
    let size = (size_of::<Region>() + bytes).next_multiple_of(page_size());
    let start = region_memory(size)?;
    let region = start.cast::<Region>();
    // SAFETY: the memory is new, as large as that, and this thread's alone; so is the block.
    let outer = unsafe {
        let next = start as usize + size_of::<Region>().next_multiple_of(SMALLEST);
        region.write(Region { next, end: start as usize + size, free: [ptr::null_mut(); SIZES] });
        core::mem::replace(&mut (*thread).region, region.cast())
    };
    let made = catch_unwind(AssertUnwindSafe(work)).ok();
    // SAFETY: the region is this thread's, and mapped until here. What was not taken, or is not kept, nobody points to.
    unsafe {
        (*thread).region = outer;
        let is_kept = made.as_ref().is_none_or(|(_, is_kept)| *is_kept);
        let kept = if is_kept { ((*region).next - start as usize).next_multiple_of(page_size()) } else { 0 };
        if kept < size && !is_initial(start) {
            libc::munmap(start.add(kept).cast::<c_void>(), size - kept);
        }
    }
    made.map(|(made, _)| made)
}

#[repr(align(64))]
struct InitialMemory(UnsafeCell<[u8; INITIAL_SIZE]>);
// SAFETY: used by the one thread that has taken it.
unsafe impl Sync for InitialMemory {}
static INITIAL_MEMORY: InitialMemory = InitialMemory(UnsafeCell::new([0; INITIAL_SIZE]));

fn is_initial(start: *mut u8) -> bool {
    start == INITIAL_MEMORY.0.get().cast()
}

/// Returns the region from which this thread takes memory; null if there is none.
fn own_region() -> *mut Region {
    // SAFETY: only this thread and its signal handlers use the block.
    unsafe { (*thread()).region.cast() }
}

/// Returns memory for a new region: the memory from the start for the first region that fits, new memory for others.
fn region_memory(size: usize) -> Option<*mut u8> {
    static IS_TAKEN: AtomicBool = AtomicBool::new(false);
    if size <= INITIAL_SIZE && !IS_TAKEN.swap(true, Relaxed) {
        return Some(INITIAL_MEMORY.0.get().cast());
    }
    pages::map_zeroed(size, 0).ok()
}

impl Region {
    /// # Safety
    ///
    /// The region is this thread's.
    unsafe fn take(&mut self, layout: Layout) -> *mut u8 {
        let size = rounded(layout);
        if let Some(list) = list_of(size, layout) {
            let piece = self.free[list];
            if !piece.is_null() {
                // SAFETY: given back, and nobody's since.
                self.free[list] = unsafe { (*piece).next };
                return piece.cast();
            }
        }
        let place = self.next.next_multiple_of(layout.align().max(SMALLEST));
        if self.end.saturating_sub(place) < size {
            return outside(layout);
        }
        self.next = place + size;
        place as *mut u8
    }

    /// # Safety
    ///
    /// The region is this thread's, and the piece was taken with this layout.
    unsafe fn give_back(&mut self, piece: *mut u8, layout: Layout) {
        let size = rounded(layout);
        if piece as usize + size == self.next {
            self.next = piece as usize;
        } else if let Some(list) = list_of(size, layout) {
            let piece = piece.cast::<Free>();
            // SAFETY: nobody's any more, and at least as large.
            unsafe { piece.write(Free { next: self.free[list] }) };
            self.free[list] = piece;
        }
    }

    fn has(&self, piece: *mut u8) -> bool {
        (ptr::from_ref(self) as usize..self.end).contains(&(piece as usize))
    }
}

/// Returns the size of the piece for a layout, in bytes.
fn rounded(layout: Layout) -> usize {
    let size = layout.size().max(SMALLEST);
    if size <= SMALL { size.next_power_of_two() } else { size.next_multiple_of(SMALLEST) }
}

/// Returns the index of the list of free pieces for this size; `None` if pieces of this size are not reused.
fn list_of(size: usize, layout: Layout) -> Option<usize> {
    let is_usual = size <= SMALL && layout.align() <= SMALLEST;
    is_usual.then(|| (size / SMALLEST).ilog2() as usize)
}

/// Allocates memory outside of a region, for a panic of ours. This is rare, and the memory is never freed.
#[cfg(not(test))]
fn outside(layout: Layout) -> *mut u8 {
    arena::take(rounded(layout), layout.align())
}

/// Allocates memory in tests that do not use regions.
#[cfg(test)]
fn outside(layout: Layout) -> *mut u8 {
    // SAFETY: the layout is an allocator's, whose sizes are not 0.
    unsafe { std::alloc::System.alloc(Layout::from_size_align_unchecked(rounded(layout), layout.align())) }
}

// SAFETY: each piece is taken once, is as large and as aligned as asked, and used again after it was given back alone.
unsafe impl GlobalAlloc for CollectionAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the region is this thread's.
        unsafe { own_region().as_mut().map_or_else(|| outside(layout), |region| region.take(layout)) }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        // SAFETY: the region is this thread's, and the caller took the piece with this layout. What is not of this thread's
        // region stays as it is.
        unsafe {
            if let Some(region) = own_region().as_mut().filter(|region| region.has(piece)) {
                region.give_back(piece, layout);
            } else {
                #[cfg(test)]
                std::alloc::System.dealloc(piece, layout);
            }
        }
    }

    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller's promise; the size is not 0.
        unsafe {
            let new = Layout::from_size_align_unchecked(size, layout.align());
            if rounded(new) == rounded(layout) {
                return piece;
            }
            if let Some(region) = own_region().as_mut()
                && piece as usize + rounded(layout) == region.next
                && region.end - piece as usize >= rounded(new)
            {
                region.next = piece as usize + rounded(new);
                return piece;
            }
            let moved = self.alloc(new);
            if !moved.is_null() {
                ptr::copy_nonoverlapping(piece, moved, layout.size().min(size));
                self.dealloc(piece, layout);
            }
            moved
        }
    }
}

/// Returns the number of bytes that this thread has taken from its region.
#[cfg(test)]
pub fn taken() -> usize {
    // SAFETY: the region is this thread's.
    unsafe { own_region().as_ref() }
        .map_or(0, |region| region.next - ptr::from_ref(region) as usize - size_of::<Region>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::program_memory;

    #[test]
    fn unused_memory_of_a_region_is_given_back() {
        for is_kept in [true, false] {
            let made = run_with_reserved_memory(1 << 20, || {
                let bytes = vec![7u8; 100_000];
                let first = bytes.as_ptr();
                let mut text = String::new();
                (0..1000).for_each(|_| text.push_str("word "));
                drop(text);
                // Freed pieces are taken again.
                let took = taken();
                core::mem::forget(bytes);
                ((first as usize, took), is_kept)
            });
            let (first, took) = made.expect("memory");
            assert!(took < 110_000, "{took}");
            let mut copy = [0; 16];
            let read = program_memory::copy(first + 50_000, &mut copy);
            assert_eq!((read, copy), if is_kept { (16, [7; 16]) } else { (0, [0; 16]) });
        }
        assert!(run_with_reserved_memory(usize::MAX / 4, || ((), true)).is_none());
        assert_eq!(taken(), 0);
    }
}
