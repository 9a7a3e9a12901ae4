//! The window of a thread: assigned at its first call, emptied when it is full, and taken over by another thread when
//! its thread ended.
//!
//! In a full record, a window stays in place, and its contents are copied to the end of the file. In a ring, the
//! thread continues in the next block that no thread writes to.
//!
//! # Readers
//!
//! - The words of the thread's block that describe its window (`next_slot` and so on): the thread, and signal handlers
//!   that run in it. They are volatile; `cupeer_shared::window` has their protocol.
//! - `owner`, `kind`, `stream`, and `base` of a block's header: also other threads that search for a free block. They
//!   are atomic; `cupeer_shared::block` has their protocol.
//! - The rest of a header and the slots: the thread that owns the block, and processes that read the file, whose reads
//!   are the kernel's. They are plain memory, and no reference to them exists while another thread may own the block.
//!   A slot's first word is an atomic that is stored last (*release*, a plain `mov`), because a reader that sees it
//!   must see the rest.
//!
//! # Safety
//!
//! Unless noted otherwise, unsafe code here works on this thread's own block, and on windows that it owns.

use super::{clock, current::current, file::File};
use crate::sys::arch::{self, Thread, stack_height, thread};
use crate::sys::aside;
use crate::sys::every_call::epoch;
use crate::sys::guard::guarded;
use crate::sys::signals;
use core::ffi::c_int;
use core::sync::atomic::{
    AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_shared::block::{Block, renumber};
use cupeer_shared::window::{SLOT, Taken, Window, Word};
use cupeer_spec::record::slot::{self, Slot, word};
use cupeer_spec::record::{
    BLOCK, BLOCK_MAGIC, BlockHeader, SLOTS, TRAILER_MAGIC, Trailer, block, first_in_ring,
};

/// Added to [`Thread::kept`] where nobody writes there any more.
const OVER: usize = 1;
/// What a ring's block has as [`BlockHeader::used`] whose thread goes on in another one, where a call that was interrupted is
/// about to write here: should the thread end then, nobody else goes on here, and the stream has one thread.
const LEFT: u32 = 1;
/// How many windows are looked at in search of one whose thread is gone.
const LOOKS: u32 = 64;

/// A word of a thread's own block.
#[derive(Clone, Copy)]
pub struct Own(*mut usize);

impl Word for Own {
    #[inline(always)]
    fn get(self) -> usize {
        // SAFETY: only this thread and its signal handlers use the block, and so is its window's word.
        unsafe { self.0.read_volatile() }
    }
    #[inline(always)]
    fn set(self, value: usize) {
        // SAFETY: only this thread and its signal handlers use the block, and so is its window's word.
        unsafe { self.0.write_volatile(value) };
    }
    #[inline(always)]
    fn add(self, more: usize) -> usize {
        // SAFETY: only this thread and its signal handlers use the block, and so is its window's word.
        unsafe { arch::add(self.0, more) }
    }
}

/// What this thread knows of its window.
#[inline(always)]
pub fn window(thread: *mut Thread) -> Window<Own, SLOTS> {
    // SAFETY: only this thread and its signal handlers use the block.
    unsafe {
        Window {
            next: Own(&raw mut (*thread).next_slot),
            end: Own(&raw mut (*thread).window_end),
            bias: Own(&raw mut (*thread).slot_bias),
            filling: Own(&raw mut (*thread).filling),
            turn: Own(&raw mut (*thread).turn),
        }
    }
}

/// See [`Window::fill`].
#[inline(always)]
pub fn fill(thread: *mut Thread) -> usize {
    window(thread).fill(stack_height()).0
}

/// See [`Window::filled`].
#[inline(always)]
pub fn filled(thread: *mut Thread, before: usize) {
    window(thread).filled(before);
}

/// Takes slots of this thread's stream.
#[inline(always)]
pub fn take(thread: *mut Thread, slots: usize) -> Option<Taken> {
    let window = window(thread);
    let (before, end) = window.fill(stack_height());
    match window.take(slots, end) {
        Some((place, number)) => Some(Taken { place, number, before }),
        None => renewed(slots, before),
    }
}

/// Writes a slot's first word, after all else of it.
///
/// # Safety
///
/// The slot is this thread's.
#[inline(always)]
pub unsafe fn publish(slot: *mut Slot, word: u64) {
    // SAFETY: as promised, and aligned.
    unsafe { AtomicU64::from_ptr(&raw mut (*slot).word) }.store(word, Release);
}

/// A block that is mapped for good. Nobody makes a reference to it: other threads may own it, and look at it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Mapped(*mut BlockHeader);

impl Mapped {
    /// What several threads look at.
    fn shared(self) -> Block<'static> {
        // SAFETY: fields of a mapped block, aligned, and only used as atomics.
        unsafe {
            Block {
                owner: AtomicU32::from_ptr(&raw mut (*self.0).owner),
                kind: AtomicU16::from_ptr(&raw mut (*self.0).kind),
            }
        }
    }

    fn stream(&self) -> &AtomicU32 {
        // SAFETY: a field of a mapped block, aligned, and only used as an atomic.
        unsafe { AtomicU32::from_ptr(&raw mut (*self.0).stream) }
    }

    fn base(&self) -> &AtomicU64 {
        // SAFETY: a field of a mapped block, aligned, and only used as an atomic.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.0).base) }
    }
}

/// Makes room in this thread's stream, and takes slots there. No signal handler's call comes in between.
#[cold]
#[inline(never)]
fn renewed(slots: usize, before: usize) -> Option<Taken> {
    let mut taken = None;
    let thread = thread();
    filled(thread, before);
    guarded(|| taken = signals::held_back(|| renew(slots)));
    taken
}

/// Makes room for `slots` slots, and takes them.
fn renew(slots: usize) -> Option<Taken> {
    let thread = thread();
    let file = current()?;
    // SAFETY: only this thread and its signal handlers use the block.
    unsafe {
        if (*thread).epoch != file.epoch {
            return None;
        }
        if window(thread).filler() != 0 && aside::has_jumped_over(window(thread).filler()) {
            filled(thread, 0);
        }
        let must_rest = (*thread).window.is_null() && file.is_resting();
        // A window that was taken over may have room for its new thread's name, and for nothing else.
        for _ in 0..if must_rest { 0 } else { 3 } {
            // Who asks goes on when this has returned, on the program's stack.
            let (before, end) = window(thread).fill(aside::height());
            if let Some((place, number)) = window(thread).take(slots, end) {
                return Some(Taken { place, number, before });
            }
            filled(thread, before);
            if let Err(error) = make_room(file, thread) {
                file.complain(error);
                file.rest();
                break;
            }
        }
        file.lose(1);
        None
    }
}

/// Gives this thread an empty window, or one with what room there is in it.
unsafe fn make_room(file: &File, thread: *mut Thread) -> Result<(), c_int> {
    // SAFETY: as promised; windows are mapped for good.
    unsafe {
        let (old, kept) = (Mapped((*thread).window), (*thread).kept);
        if old.0.is_null() {
            return begin(file, thread);
        }
        if window(thread).filler() == 0 && kept != 0 {
            (*thread).kept = kept | OVER;
            if !file.ring.is_null() {
                Mapped(kept as *mut BlockHeader).shared().leave_to(0);
                (*thread).kept = 0;
            }
        }
        let extended = extend(file, thread);
        if extended == Ok(true) {
            return Ok(());
        }
        let (number, must_leave) = (window(thread).number(), window(thread).must_leave());
        if file.ring.is_null() {
            return if must_leave { leave(file, thread) } else { empty(file, thread, extended.err()) };
        }
        // Where all blocks are other threads', its own is as good as any.
        let new = match take_ring_block(file) {
            Err(_) if !must_leave => old,
            new => Mapped(new?),
        };
        if must_leave {
            (*old.0).used = LEFT;
        }
        enter(file, thread, new, old.stream().load(Relaxed), number, block::RING);
        if must_leave {
            (*thread).kept = old.0 as usize;
        } else if new != old {
            old.shared().leave_to(0);
        }
        Ok(())
    }
}

/// How many slots of a window can be written to.
unsafe fn room(window: Mapped) -> usize {
    // SAFETY: as promised.
    match unsafe { (*window.0).room } as usize {
        0 => SLOTS,
        room => room.min(SLOTS),
    }
}

/// Goes on in the same window, where more of it can be written to. Says whether that is so. What was taken of it, and what
/// its slots are numbered by, stays as it is.
unsafe fn extend(file: &File, thread: *mut Thread) -> Result<bool, c_int> {
    // SAFETY: windows are mapped for good, and this one is this thread's.
    unsafe {
        let window = Mapped((*thread).window);
        let had = room(window);
        if had == SLOTS {
            return Ok(false);
        }
        let from = (had + 1) * SLOT;
        let to = file.extend((*window.0).number, from)?;
        touch(window, from..to);
        let room = to / SLOT - 1;
        (*window.0).room = if room < SLOTS { room as u32 } else { 0 };
        place_in(thread, window, had);
    }
    Ok(true)
}

/// Touches pages of a window before the calls do.
///
/// # Safety
///
/// They are mapped and have room in the file.
unsafe fn touch(window: Mapped, bytes: core::ops::Range<usize>) {
    for page in bytes.step_by(4096) {
        // SAFETY: as promised.
        unsafe {
            let word = window.0.cast::<u8>().add(page).cast::<u64>();
            word.write_volatile(word.read_volatile());
        }
    }
}

/// Goes on in another window. What the full one holds is a chunk from here on, where it is.
unsafe fn leave(file: &File, thread: *mut Thread) -> Result<(), c_int> {
    // SAFETY: windows are mapped for good, and both are this thread's.
    unsafe {
        let (old, kept) = (Mapped((*thread).window), (*thread).kept);
        let (stream, base, used) = (old.stream().load(Relaxed), old.base().load(Relaxed), SLOTS as u32);
        // Where one that was left lay before, another block of the file can lie: nobody is filling it any more.
        let window = if kept & OVER != 0 {
            Mapped(file.new_block_at((kept & !OVER) as *mut u8)?.cast())
        } else {
            let window = Mapped(file.new_block()?.cast());
            register(file, window);
            window
        };
        let trailer = Trailer { magic: TRAILER_MAGIC, stream, base, used, ..Trailer::default() };
        old.0.cast::<Trailer>().add(SLOTS + 1).write(trailer);
        (*old.0).used = used;
        old.shared().turn_into(block::CHUNK);
        old.shared().leave_to(0);
        enter(file, thread, window, stream, base + u64::from(used), block::WINDOW);
        (*thread).kept = old.0 as usize;
    }
    Ok(())
}

/// Has others look for the end of this window's thread.
fn register(file: &File, window: Mapped) {
    let index = file.window_count.fetch_add(1, Relaxed) as usize;
    if let (true, Some(place)) = (file.ring.is_null(), file.windows.get(index)) {
        place.store(window.0, Release);
    }
}

fn tid() -> u32 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Whether a thread of the record's process is gone.
fn is_gone(file: &File, tid: u32) -> bool {
    // The process of the record, and not a child of vfork, which shares its memory.
    // SAFETY: the header is mapped for good; signal 0 is sent to nobody.
    let found = unsafe { libc::syscall(libc::SYS_tgkill, (*file.header).pid, tid, 0) };
    found != 0 && crate::sys::errno::errno() == libc::ESRCH
}

/// Who this thread is as an owner. A child of vfork works in the place of a thread whose number it cannot know:
/// the main thread's, which is there for as long as the process, keeps all others away.
fn own_tid(file: &File) -> u32 {
    // SAFETY: the header is mapped for good, and getpid has no preconditions.
    let (process, pid) = unsafe { ((*file.header).pid, libc::getpid() as u32) };
    if process == pid { tid() } else { process }
}

/// Gives this thread its first window.
unsafe fn begin(file: &File, thread: *mut Thread) -> Result<(), c_int> {
    // SAFETY: windows are mapped for good.
    unsafe {
        if let Some(window) = adopt(file) {
            place_in(thread, window, written(window));
            let take = || self::window(thread).take(1, (*thread).window_end);
            let (mut taken, mut extended) = (take(), Ok(false));
            if taken.is_none() {
                extended = extend(file, thread);
                taken = if extended == Ok(true) { take() } else { None };
            }
            if let Some((place, number)) = taken {
                let slot = place as *mut Slot;
                ((*slot).start, (*slot).end) = (clock::now(), u64::from(tid()));
                publish(slot, word(slot::THREAD, 1, u16::MAX, number as u32));
                return Ok(());
            }
            // Full to the last slot: what follows has a block of its own, which names the thread.
            return if file.ring.is_null() {
                empty(file, thread, extended.err())
            } else {
                take_ring_block(file).map(|next| {
                    let (stream, number) = (window.stream().load(Relaxed), self::window(thread).number());
                    window.shared().leave_to(0);
                    enter(file, thread, Mapped(next), stream, number, block::RING);
                })
            };
        }
        // First: so many threads may be making blocks that are not there yet, as a reader must know.
        let stream = file.next_stream();
        let (window, kind, first) = if file.ring.is_null() {
            (Mapped(file.new_window()?), block::WINDOW, 0)
        } else {
            (Mapped(take_ring_block(file)?), block::RING, first_in_ring(stream))
        };
        window.shared().keep(own_tid(file));
        enter(file, thread, window, stream, first, kind);
        register(file, window);
    }
    Ok(())
}

/// Begins a block for this thread, from slot `number` of a stream on.
unsafe fn enter(file: &File, thread: *mut Thread, window: Mapped, stream: u32, number: u64, kind: u16) {
    // SAFETY: mapped, and only ours.
    unsafe {
        window.shared().begin(kind, || {
            (*window.0).used = 0;
            touch(window, 0..(room(window) + 1) * SLOT);
            ((*window.0).magic, (*window.0).tid) = (BLOCK_MAGIC, tid());
            (*window.0).begun = clock::moment();
            window.stream().store(stream, Relaxed);
            window.base().store(number, Relaxed);
            window.shared().keep(own_tid(file));
        });
        place_in(thread, window, 0);
    }
}

/// Lets this thread go on at slot `next` of a window.
unsafe fn place_in(thread: *mut Thread, window: Mapped, next: usize) {
    let first = window.0 as usize + size_of::<BlockHeader>();
    // SAFETY: as promised.
    unsafe {
        (*thread).window = window.0;
        self::window(thread).enter(first, window.base().load(Relaxed), next, room(window));
    }
}

/// How many slots of a window are written.
unsafe fn written(window: Mapped) -> usize {
    let (slots, base) = (window.0.wrapping_add(1).cast::<Slot>(), window.base().load(Relaxed));
    // SAFETY: as promised, and inside of it.
    let word = |i: usize| unsafe { (*slots.add(i)).word };
    // SAFETY: as promised.
    let mut all = (0..unsafe { room(window) }).rev().map(|i| (i, word(i)));
    all.find(|(i, word)| *word as u8 != slot::EMPTY && (*word >> 32) as u32 == (base + *i as u64) as u32)
        .map_or(0, |(i, word)| (i + usize::from((word >> 8) as u8).max(1)).min(SLOTS))
}

/// A window whose thread is gone, now ours.
fn adopt(file: &File) -> Option<Mapped> {
    static START: AtomicU32 = AtomicU32::new(0);
    let count = if file.ring.is_null() {
        file.window_count.load(Acquire).min(file.windows.len() as u32)
    } else {
        file.ring_blocks as u32 - 1
    };
    if count == 0 {
        return None;
    }
    let start = START.fetch_add(LOOKS, Relaxed);
    (0..count.min(LOOKS)).find_map(|i| {
        let index = (start.wrapping_add(i) % count) as usize;
        let window = if file.ring.is_null() {
            file.windows[index].load(Acquire)
        } else {
            ring_block(file, index as u64 + 1)
        };
        let window = Some(Mapped(window)).filter(|window| !window.0.is_null())?;
        let block = window.shared();
        let old = block.owner();
        let is_left = || matches!(block.kind(), block::WINDOW | block::RING) && is_gone(file, old);
        if old == 0 || !is_left() || !block.take(old, own_tid(file)) {
            return None;
        }
        // SAFETY: mapped, and this thread's by now.
        if unsafe { (*window.0).used } == LEFT {
            // Its stream goes on in another block.
            block.leave_to(0);
            return None;
        }
        Some(window)
    })
}

fn ring_block(file: &File, index: u64) -> *mut BlockHeader {
    file.ring.wrapping_add(index as usize * BLOCK).cast()
}

/// Whether a slot that this thread has left with its block still holds what has this number in its stream.
#[cold]
#[inline(never)]
pub fn is_in_ring(slot: *mut Slot, number: u64) -> bool {
    let Some(file) = current().filter(|file| !file.ring.is_null()) else { return false };
    let index = (slot as usize).wrapping_sub(file.ring as usize) / BLOCK;
    let block = Mapped(ring_block(file, index as u64));
    // SAFETY: only this thread and its signal handlers use the block.
    let own = Mapped(unsafe { (*thread()).window });
    let at = (slot as usize - block.0 as usize) / SLOT - 1;
    !own.0.is_null()
        && block.shared().kind() == block::RING
        && block.stream().load(Relaxed) == own.stream().load(Relaxed)
        && block.base().load(Relaxed).wrapping_add(at as u64) == number
}

/// Where the slot lies in this thread's window whose number ends with `half`; `None` where it is not there any more.
pub fn place_of(half: u32) -> Option<*mut Slot> {
    let own = thread();
    let window = window(own);
    // SAFETY: only this thread and its signal handlers use the block.
    let first = unsafe { (*own).window } as usize + SLOT;
    let back = (window.number() as u32).wrapping_sub(half) as usize;
    let place = window.next.get().min(window.end.get()).checked_sub(back.checked_mul(SLOT)?)?;
    (back != 0 && place >= first).then_some(place as *mut Slot)
}

/// The next block of the ring that nobody writes to, now ours.
pub fn take_ring_block(file: &File) -> Result<*mut BlockHeader, c_int> {
    let count = file.ring_blocks - 1;
    let mut looks = 0;
    while looks < count {
        let number = file.next_block();
        let window = ring_block(file, 1 + (number - 1) % count);
        let block = Mapped(window).shared();
        let old = block.owner();
        let is_free = old == 0 || block.kind() == block::RING && is_gone(file, old);
        if is_free && block.take(old, own_tid(file)) {
            // Who was kept waiting since its number was drawn would take what others have just written, and leave the
            // oldest.
            if file.last_block() - number <= count / 2 {
                return Ok(window);
            }
            block.leave_to(old);
        } else {
            looks += 1;
        }
    }
    Err(libc::EBUSY)
}

/// Copies a full window to the end of the file, and begins it anew. Where that fails, what it held is lost, and so it is
/// where there is no room for more of it.
unsafe fn empty(file: &File, thread: *mut Thread, has_no_room: Option<c_int>) -> Result<(), c_int> {
    // SAFETY: the window is mapped for good, and this thread's.
    unsafe {
        let window = Mapped((*thread).window);
        let used = written(window);
        let header = BlockHeader {
            magic: BLOCK_MAGIC,
            kind: block::CHUNK,
            stream: window.stream().load(Relaxed),
            tid: (*window.0).tid,
            base: window.base().load(Relaxed),
            used: used as u32,
            begun: (*window.0).begun,
            ..BlockHeader::default()
        };
        let mut trailer = Trailer { magic: TRAILER_MAGIC, stream: header.stream, ..Trailer::default() };
        (trailer.base, trailer.used) = (header.base, header.used);
        let piece =
            |start: *const u8, length| libc::iovec { iov_base: start.cast_mut().cast(), iov_len: length };
        let slots = window.0.cast::<u8>().add(size_of::<BlockHeader>());
        let append = || {
            file.add_chunk([
                piece((&raw const header).cast(), size_of::<BlockHeader>()),
                piece(slots, SLOTS * SLOT),
                piece((&raw const trailer).cast(), size_of::<Trailer>()),
            ])
        };
        let result = has_no_room.map_or_else(append, Err);
        if let Err(error) = result {
            file.lose(calls(window.0.cast(), used));
            file.complain(error);
        }
        ((*window.0).tid, (*window.0).begun) = (tid(), clock::moment());
        // What the chunk has is old from here on.
        renumber(|| window.base().store(header.base + used as u64, Relaxed));
        place_in(thread, window, 0);
    }
    Ok(())
}

/// How many calls there are in the first `room` slots of a block. The slots that an event takes after its first hold what it says,
/// which can look like a call.
///
/// # Safety
///
/// The block is mapped, and has that many slots. Its thread may write to it.
pub unsafe fn calls(block: *mut u8, room: usize) -> u64 {
    let base = Mapped(block.cast()).base().load(Relaxed);
    // SAFETY: as promised; words are aligned, and read as atomics.
    let word = |slot: usize, at: usize| unsafe {
        AtomicU64::from_ptr(block.add((1 + slot) * SLOT + at).cast()).load(Relaxed)
    };
    let (mut slot, mut calls) = (0, 0);
    while slot < room {
        let first = word(slot, 0);
        if (first >> 32) as u32 != (base + slot as u64) as u32 {
            // Of an earlier lap, or not written yet.
            slot += 1;
            continue;
        }
        calls += match first as u8 & !slot::INJECTED {
            slot::PENDING..=slot::UNWOUND => 1,
            slot::RUN => word(slot, core::mem::offset_of!(slot::Run, calls)) >> 1,
            _ => 0,
        };
        slot += usize::from((first >> 8) as u8).max(1);
    }
    calls
}

/// Puts a slot other than a call's into this thread's stream, and returns its number. For use in `guarded`.
pub fn append(state: u8, function: u16, fill: impl FnOnce(&mut Slot)) -> Option<u64> {
    append_slots(state, function, 1, |place| {
        // SAFETY: the slot is this thread's.
        fill(unsafe { &mut *place });
    })
}

/// The same for several slots in a row, which lie in one block.
pub fn append_slots(state: u8, function: u16, slots: usize, fill: impl FnOnce(*mut Slot)) -> Option<u64> {
    let thread = thread();
    // SAFETY: only this thread and its signal handlers use the block.
    if unsafe { (*thread).epoch } != epoch() {
        return None;
    }
    let taken = take(thread, slots)?;
    // SAFETY: the slots lie in this thread's window, and nobody else was given them.
    unsafe {
        let first = taken.place as *mut Slot;
        fill(first);
        publish(first, word(state, slots as u8, function, taken.number as u32));
    }
    filled(thread, taken.before);
    Some(taken.number)
}

#[cfg(test)]
mod tests;
