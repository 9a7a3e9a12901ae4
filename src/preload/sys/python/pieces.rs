//! Copies memory of an interpreter in pieces. The pieces that the previous walk needed are fetched together in one
//! system call.
//!
//! The data of a thread's frames usually stays at the same addresses between calls. That is only a guess: every
//! returned byte was copied in this walk, from the requested address.

use super::kept;
use crate::sys::arch::thread;
use crate::sys::program_memory;
use core::ffi::c_void;
use core::mem::MaybeUninit;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use cupeer_stacks::python;

/// Largest number of pieces in a walk: eight for each frame if no two frames are similar.
const MOST: usize = 208;
/// Number of pieces that the last walk did not request, but that are still guessed for the next walk.
const SPARE: usize = 24;
/// Size of the buffer for all pieces, in bytes.
const ROOM: usize = 16 * 1024;
/// Number of threads whose guesses are remembered at once.
const THREADS: usize = 32;

/// Addresses and lengths of the pieces that a thread will probably request. Two threads may write to one list at once: then the
/// guesses are worse.
struct Guesses {
    count: AtomicUsize,
    pieces: [(AtomicUsize, AtomicUsize); MOST],
}

static GUESSES: [Guesses; THREADS] = [const {
    Guesses { count: AtomicUsize::new(0), pieces: [const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; MOST] }
}; THREADS];

/// Cached addresses of thread states of the interpreter, indexed by a hash of the thread.
static KNOWN: [AtomicUsize; 1024] = [const { AtomicUsize::new(0) }; 1024];

/// A piece of memory: its address, its length, and the offset of its copy in the buffer.
#[derive(Clone, Copy, Default)]
struct Piece {
    address: usize,
    length: u16,
    at: u16,
    is_asked: bool,
}

const _: () = assert!(ROOM <= u16::MAX as usize && size_of::<Piece>() == 16);

impl Piece {
    /// Returns a piece that fits into the buffer.
    fn new(address: usize, length: usize, at: usize) -> Piece {
        Piece { address, length: length as u16, at: at as u16, is_asked: false }
    }

    fn end(&self) -> usize {
        usize::from(self.at) + usize::from(self.length)
    }
}

pub struct Pieces {
    guesses: &'static Guesses,
    known: &'static AtomicUsize,
    pieces: [Piece; MOST],
    count: usize,
    /// Index of the piece after the one that was requested last.
    next: usize,
    /// True if a piece was requested that had not been guessed.
    has_missed: bool,
    bytes: [MaybeUninit<u8>; ROOM],
    filled: usize,
}

impl Pieces {
    /// Begins a walk through the Python frames of this thread, and passes it to `walk`. Returns `None` if memory cannot be read.
    pub fn walk_with<T>(walk: impl FnOnce(&mut Pieces) -> T) -> Option<T> {
        let key = thread() as usize / 64;
        let spread = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let mut pieces = Pieces {
            guesses: &GUESSES[(key ^ (key / THREADS)) % THREADS],
            known: &KNOWN[spread as usize % KNOWN.len()],
            pieces: [Piece::default(); MOST],
            count: 0,
            next: 0,
            has_missed: false,
            bytes: [const { MaybeUninit::uninit() }; ROOM],
            filled: 0,
        };
        pieces.fetch_guessed()?;
        let walked = walk(&mut pieces);
        pieces.remember_requested();
        Some(walked)
    }

    fn fetch_guessed(&mut self) -> Option<()> {
        let count = self.guesses.count.load(Relaxed).min(MOST);
        let mut asked = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; MOST];
        let mut length = 0;
        for (address, size) in &self.guesses.pieces[..count] {
            let (address, size) = (address.load(Relaxed), size.load(Relaxed));
            if size > ROOM - length {
                break;
            }
            self.pieces[self.count] = Piece::new(address, size, length);
            asked[self.count] = libc::iovec { iov_base: address as *mut c_void, iov_len: size };
            length += size;
            self.count += 1;
        }
        let had = program_memory::gather(&asked[..self.count], &mut self.bytes[..length])?;
        let whole = self.pieces[..self.count].iter().take_while(|piece| piece.end() <= had).count();
        // Pieces that no longer exist are not guessed again.
        (self.has_missed, self.count) = (whole < self.count, whole);
        self.filled = self.pieces[..whole].last().map_or(0, Piece::end);
        Some(())
    }

    /// Remembers the requested pieces for the next walk of this thread, and after them some others: the call of this walk may
    /// have come from elsewhere, and the next call may come from the earlier place again.
    fn remember_requested(&self) {
        if !self.has_missed {
            return;
        }
        let of = |is_asked| self.pieces[..self.count].iter().filter(move |piece| piece.is_asked == is_asked);
        let mut count = 0;
        for (piece, (address, length)) in of(true).chain(of(false).take(SPARE)).zip(&self.guesses.pieces) {
            address.store(piece.address, Relaxed);
            length.store(usize::from(piece.length), Relaxed);
            count += 1;
        }
        self.guesses.count.store(count, Relaxed);
    }

    /// Copies a piece that was requested but not guessed.
    #[cold]
    #[inline(never)]
    fn fetch(&mut self, address: usize, length: usize) -> Option<usize> {
        self.has_missed = true;
        if address == 0 || length > ROOM - self.filled || self.count == MOST && !self.drop_unrequested() {
            return None;
        }
        let place = &mut self.bytes[self.filled..self.filled + length];
        // SAFETY: bytes that are written before they are read; zeros are as good as any.
        let place = unsafe {
            place.fill(MaybeUninit::new(0));
            &mut *(core::ptr::from_mut(place) as *mut [u8])
        };
        if program_memory::copy(address, place) < length {
            return None;
        }
        self.pieces[self.count] = Piece::new(address, length, self.filled);
        self.filled += length;
        self.count += 1;
        Some(self.count - 1)
    }

    /// Drops the last guessed piece that was not requested. Returns false if there is no such piece.
    fn drop_unrequested(&mut self) -> bool {
        let Some(index) = self.pieces.iter().rposition(|piece| !piece.is_asked) else { return false };
        self.pieces.copy_within(index + 1.., index);
        self.count -= 1;
        true
    }
}

impl python::MemoryPieces for Pieces {
    fn piece_at(&mut self, address: usize, length: usize) -> Option<Range<usize>> {
        let is_it = |piece: &Piece| piece.address == address && usize::from(piece.length) == length;
        let (before, after) = self.pieces[..self.count].split_at(self.next.min(self.count));
        let found = after.iter().position(is_it).map(|index| before.len() + index);
        let index = match found.or_else(|| before.iter().position(is_it)) {
            Some(index) => index,
            None => self.fetch(address, length)?,
        };
        self.pieces[index].is_asked = true;
        self.next = index + 1;
        let piece = self.pieces[index];
        Some(usize::from(piece.at)..piece.end())
    }

    fn has_room_for_tables(&self) -> bool {
        self.filled < ROOM / 2
    }

    fn cached_thread_state(&self) -> usize {
        self.known.load(Relaxed)
    }

    fn cache_thread_state(&self, thread: usize) {
        self.known.store(thread, Relaxed);
    }

    fn drop_guesses(&mut self) {
        (self.count, self.next, self.filled, self.has_missed) = (0, 0, 0, true);
    }

    fn piece_bytes(&self, place: Range<usize>) -> &[u8] {
        let place = &self.bytes[..self.filled].get(place).unwrap_or_default();
        // SAFETY: all up to `filled` was written by the kernel.
        unsafe { &*(core::ptr::from_ref::<[MaybeUninit<u8>]>(place) as *const [u8]) }
    }

    fn copy(&self, address: usize, place: &mut [u8]) -> usize {
        program_memory::copy(address, place)
    }

    fn cached_number(&self, hash: u64) -> Option<u64> {
        kept::recall(hash)
    }

    fn cache_number(&self, hash: u64, number: u64) {
        kept::keep(hash, number);
    }
}
