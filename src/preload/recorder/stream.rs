//! The window of a thread: assigned at its first call, emptied when it is full, and taken over by another thread after
//! its thread ended.
//!
//! In a full record, a window stays in place, and its contents are copied to the end of the file as a chunk. In a ring,
//! the thread continues in the next block that no thread writes to.
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
use crate::sys::every_call::recording_epoch;
use crate::sys::guard::guarded;
use crate::sys::process::tid;
use crate::sys::signals;
use core::ffi::c_int;
use core::sync::atomic::{
    AtomicU16, AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_shared::block::{BlockHeaderWords, rewrite_slot_numbers};
use cupeer_shared::window::{SLOT, TakenSlots, Window, Word};
use cupeer_spec::record::slot::{self, Slot, slot_word};
use cupeer_spec::record::{
    BLOCK, BLOCK_MAGIC, BlockHeader, ChunkTrailer, SLOTS, TRAILER_MAGIC, block, first_ring_number,
};

/// Bit that is added to [`Thread::kept`] when no call writes to that block any more.
const NO_LONGER_WRITTEN: usize = 1;
/// Value of [`BlockHeader::used`] in a ring's block that its thread left while an interrupted call may still write to it. No
/// other thread takes over such a block, because its stream continues in another block.
const LEFT_BY_THREAD: u32 = 1;
/// Largest number of windows that are checked for one whose thread has ended.
const MOST_CHECKED: u32 = 64;

/// Pointer to a word of the current thread's own block.
#[derive(Clone, Copy)]
pub struct OwnWord(*mut usize);

impl Word for OwnWord {
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
    fn fetch_add(self, more: usize) -> usize {
        // SAFETY: only this thread and its signal handlers use the block, and so is its window's word.
        unsafe { arch::add_uninterrupted(self.0, more) }
    }
}

/// Returns the words of this thread's block that describe its window.
#[inline(always)]
pub fn window(thread: *mut Thread) -> Window<OwnWord, SLOTS> {
    // SAFETY: only this thread and its signal handlers use the block.
    unsafe {
        Window {
            next: OwnWord(&raw mut (*thread).next_slot),
            end: OwnWord(&raw mut (*thread).window_end),
            bias: OwnWord(&raw mut (*thread).slot_bias),
            filling: OwnWord(&raw mut (*thread).filling),
            turn: OwnWord(&raw mut (*thread).turn),
        }
    }
}

/// Marks the window as being written to: see [`Window::begin_writing`].
#[inline(always)]
pub fn mark_filling(thread: *mut Thread) -> usize {
    window(thread).begin_writing(stack_height()).0
}

/// Restores the mark of [`mark_filling`]: see [`Window::end_writing`].
#[inline(always)]
pub fn restore_filling(thread: *mut Thread, before: usize) {
    window(thread).end_writing(before);
}

/// Takes consecutive slots of this thread's stream. Returns `None` if there is no room; the call is then lost.
#[inline(always)]
pub fn take(thread: *mut Thread, slots: usize) -> Option<TakenSlots> {
    let window = window(thread);
    let (before, end) = window.begin_writing(stack_height());
    match window.take_slots(slots, end) {
        Some((place, number)) => Some(TakenSlots { place, number, before }),
        None => take_slowly(slots, before),
    }
}

/// Writes a slot's first word, after the rest of the slot was written.
///
/// # Safety
///
/// The slot is this thread's.
#[inline(always)]
pub unsafe fn publish(slot: *mut Slot, word: u64) {
    // SAFETY: as promised, and aligned.
    unsafe { AtomicU64::from_ptr(&raw mut (*slot).word) }.store(word, Release);
}

/// Pointer to a block that is never unmapped. No code makes a reference to the block, because other threads may own it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct MappedBlock(*mut BlockHeader);

impl MappedBlock {
    /// Returns the fields of the header that several threads use.
    fn shared_fields(self) -> BlockHeaderWords<'static> {
        // SAFETY: fields of a mapped block, aligned, and only used as atomics.
        unsafe {
            BlockHeaderWords {
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

/// Makes room in this thread's stream, and takes slots there. Signals are blocked, so that no handler's call runs in between.
#[cold]
#[inline(never)]
fn take_slowly(slots: usize, before: usize) -> Option<TakenSlots> {
    let mut taken = None;
    let thread = thread();
    restore_filling(thread, before);
    guarded(|| taken = signals::with_signals_blocked(|| try_make_room_and_take(slots)));
    taken
}

/// Makes room for `slots` slots in this thread's stream, and takes them.
fn try_make_room_and_take(slots: usize) -> Option<TakenSlots> {
    let thread = thread();
    let file = current()?;
    // SAFETY: only this thread and its signal handlers use the block.
    unsafe {
        if (*thread).epoch != file.epoch {
            return None;
        }
        if window(thread).writer_height() != 0 && aside::has_jumped_over(window(thread).writer_height()) {
            restore_filling(thread, 0);
        }
        let must_rest = (*thread).window.is_null() && file.is_attempt_delayed();
        // A window that was taken over may have room only for the id of its new thread, so there is more than one attempt.
        for _ in 0..if must_rest { 0 } else { 3 } {
            // The height is that on the program's stack, where the caller continues.
            let (before, end) = window(thread).begin_writing(aside::program_stack_height());
            if let Some((place, number)) = window(thread).take_slots(slots, end) {
                return Some(TakenSlots { place, number, before });
            }
            restore_filling(thread, before);
            if let Err(error) = make_room(file, thread) {
                file.complain(error);
                file.delay_next_attempt();
                break;
            }
        }
        file.lost_calls().fetch_add(1, Relaxed);
        None
    }
}

/// Gives this thread an empty window, or more room in its own window.
unsafe fn make_room(file: &File, thread: *mut Thread) -> Result<(), c_int> {
    // SAFETY: as promised; windows are mapped for good.
    unsafe {
        let (old, kept) = (MappedBlock((*thread).window), (*thread).kept);
        if old.0.is_null() {
            return give_first_window(file, thread);
        }
        if window(thread).writer_height() == 0 && kept != 0 {
            (*thread).kept = kept | NO_LONGER_WRITTEN;
            if !file.ring.is_null() {
                MappedBlock(kept as *mut BlockHeader).shared_fields().pass_to_owner(0);
                (*thread).kept = 0;
            }
        }
        let extended = extend(file, thread);
        if extended == Ok(true) {
            return Ok(());
        }
        let (number, must_leave) = (window(thread).next_number(), window(thread).check_must_leave());
        if file.ring.is_null() {
            return if must_leave { leave(file, thread) } else { empty_window(file, thread, extended.err()) };
        }
        // If all other blocks belong to other threads, this thread overwrites its own.
        let new = match take_ring_block(file) {
            Err(_) if !must_leave => old,
            new => MappedBlock(new?),
        };
        if must_leave {
            (*old.0).used = LEFT_BY_THREAD;
        }
        initialize_block(file, thread, new, old.stream().load(Relaxed), number, block::RING);
        if must_leave {
            (*thread).kept = old.0 as usize;
        } else if new != old {
            old.shared_fields().pass_to_owner(0);
        }
        Ok(())
    }
}

/// Returns the number of slots of a window that are allocated in the file.
unsafe fn allocated_slots(window: MappedBlock) -> usize {
    // SAFETY: as promised.
    match unsafe { (*window.0).room } as usize {
        0 => SLOTS,
        room => room.min(SLOTS),
    }
}

/// Allocates more of this thread's window in the file, and continues there. Returns false if all of it is allocated already.
/// Slots that were taken, and their numbers, stay the same.
unsafe fn extend(file: &File, thread: *mut Thread) -> Result<bool, c_int> {
    // SAFETY: windows are mapped for good, and this one is this thread's.
    unsafe {
        let window = MappedBlock((*thread).window);
        let had = allocated_slots(window);
        if had == SLOTS {
            return Ok(false);
        }
        let from = (had + 1) * SLOT;
        let to = file.extend((*window.0).number, from)?;
        touch(window, from..to);
        let room = to / SLOT - 1;
        (*window.0).room = if room < SLOTS { room as u32 } else { 0 };
        continue_in_window(thread, window, had);
    }
    Ok(true)
}

/// Writes to pages of a window, which must be allocated in the file, so that later calls cause no page faults there.
unsafe fn touch(window: MappedBlock, bytes: core::ops::Range<usize>) {
    for page in bytes.step_by(4096) {
        // SAFETY: as promised.
        unsafe {
            let word = window.0.cast::<u8>().add(page).cast::<u64>();
            word.write_volatile(word.read_volatile());
        }
    }
}

/// Moves this thread to another window, and turns its full window into a chunk in place.
unsafe fn leave(file: &File, thread: *mut Thread) -> Result<(), c_int> {
    // SAFETY: windows are mapped for good, and both are this thread's.
    unsafe {
        let (old, kept) = (MappedBlock((*thread).window), (*thread).kept);
        let (stream, base, used) = (old.stream().load(Relaxed), old.base().load(Relaxed), SLOTS as u32);
        // The new block can replace the mapping of the block that the thread left before, because no call writes there any more.
        let window = if kept & NO_LONGER_WRITTEN != 0 {
            MappedBlock(file.new_block_at((kept & !NO_LONGER_WRITTEN) as *mut u8)?.cast())
        } else {
            let window = MappedBlock(file.new_block()?.cast());
            register(file, window);
            window
        };
        let trailer = ChunkTrailer { magic: TRAILER_MAGIC, stream, base, used, ..ChunkTrailer::default() };
        old.0.cast::<ChunkTrailer>().add(SLOTS + 1).write(trailer);
        (*old.0).used = used;
        old.shared_fields().publish_kind(block::CHUNK);
        old.shared_fields().pass_to_owner(0);
        initialize_block(file, thread, window, stream, base + u64::from(used), block::WINDOW);
        (*thread).kept = old.0 as usize;
    }
    Ok(())
}

/// Adds a window to the list of windows that other threads can take over.
fn register(file: &File, window: MappedBlock) {
    let index = file.window_count.fetch_add(1, Relaxed) as usize;
    if let (true, Some(place)) = (file.ring.is_null(), file.windows.get(index)) {
        place.store(window.0, Release);
    }
}

/// Returns true if the thread with this id, of the process that the record belongs to, has ended.
fn has_ended(file: &File, tid: u32) -> bool {
    // The pid comes from the header, because a child of vfork, which shares this memory, has another pid.
    // SAFETY: the header is mapped for good; signal 0 is only a check.
    let found = unsafe { libc::syscall(libc::SYS_tgkill, (*file.header).pid, tid, 0) };
    found != 0 && crate::sys::errno::errno() == libc::ESRCH
}

/// Returns the id under which this thread owns blocks. A child of vfork works in place of a thread whose id it cannot know. Such
/// a child uses the id of the main thread, which exists as long as the process, so that no other thread takes over its window.
fn owner_tid(file: &File) -> u32 {
    // SAFETY: the header is mapped for good.
    let process = unsafe { (*file.header).pid };
    if process == std::process::id() { tid() } else { process }
}

/// Gives this thread its first window: that of an ended thread if one is found, or else a new one.
unsafe fn give_first_window(file: &File, thread: *mut Thread) -> Result<(), c_int> {
    // SAFETY: windows are mapped for good.
    unsafe {
        if let Some(window) = adopt(file) {
            continue_in_window(thread, window, count_written_slots(window));
            let take = || self::window(thread).take_slots(1, (*thread).window_end);
            let (mut taken, mut extended) = (take(), Ok(false));
            if taken.is_none() {
                extended = extend(file, thread);
                taken = if extended == Ok(true) { take() } else { None };
            }
            if let Some((place, number)) = taken {
                let slot = place as *mut Slot;
                ((*slot).start, (*slot).end) = (clock::now(), u64::from(tid()));
                publish(slot, slot_word(slot::THREAD, 1, u16::MAX, number as u32));
                return Ok(());
            }
            // The window is full to the last slot, so the thread needs another block, whose header has its id.
            return if file.ring.is_null() {
                empty_window(file, thread, extended.err())
            } else {
                take_ring_block(file).map(|next| {
                    let (stream, number) = (window.stream().load(Relaxed), self::window(thread).next_number());
                    window.shared_fields().pass_to_owner(0);
                    initialize_block(file, thread, MappedBlock(next), stream, number, block::RING);
                })
            };
        }
        // The stream is counted before its block exists, so that a reader knows that blocks may be missing.
        let stream = file.take_next_stream();
        let (window, kind, first) = if file.ring.is_null() {
            (MappedBlock(file.new_window()?), block::WINDOW, 0)
        } else {
            (MappedBlock(take_ring_block(file)?), block::RING, first_ring_number(stream))
        };
        window.shared_fields().set_owner(owner_tid(file));
        initialize_block(file, thread, window, stream, first, kind);
        register(file, window);
    }
    Ok(())
}

/// Initializes a block for this thread. Its first slot has this number in the stream.
unsafe fn initialize_block(file: &File, thread: *mut Thread, window: MappedBlock, stream: u32, number: u64, kind: u16) {
    // SAFETY: mapped, and only ours.
    unsafe {
        window.shared_fields().rewrite_header(kind, || {
            (*window.0).used = 0;
            touch(window, 0..(allocated_slots(window) + 1) * SLOT);
            ((*window.0).magic, (*window.0).tid) = (BLOCK_MAGIC, tid());
            (*window.0).begun = clock::moment();
            window.stream().store(stream, Relaxed);
            window.base().store(number, Relaxed);
            window.shared_fields().set_owner(owner_tid(file));
        });
        continue_in_window(thread, window, 0);
    }
}

/// Lets this thread continue at the slot with index `next` of a window.
unsafe fn continue_in_window(thread: *mut Thread, window: MappedBlock, next: usize) {
    let first = window.0 as usize + size_of::<BlockHeader>();
    // SAFETY: as promised.
    unsafe {
        (*thread).window = window.0;
        self::window(thread).move_thread_to(first, window.base().load(Relaxed), next, allocated_slots(window));
    }
}

/// Returns the number of slots of a window up to the last written slot.
unsafe fn count_written_slots(window: MappedBlock) -> usize {
    let (slots, base) = (window.0.wrapping_add(1).cast::<Slot>(), window.base().load(Relaxed));
    // SAFETY: as promised, and inside of it.
    let word = |i: usize| unsafe { (*slots.add(i)).word };
    // SAFETY: as promised.
    let mut all = (0..unsafe { allocated_slots(window) }).rev().map(|i| (i, word(i)));
    all.find(|(i, word)| *word as u8 != slot::EMPTY && (*word >> 32) as u32 == (base + *i as u64) as u32)
        .map_or(0, |(i, word)| (i + usize::from((word >> 8) as u8).max(1)).min(SLOTS))
}

/// Takes over a window whose thread has ended; `None` if none is found.
fn adopt(file: &File) -> Option<MappedBlock> {
    static START: AtomicU32 = AtomicU32::new(0);
    let count = if file.ring.is_null() {
        file.window_count.load(Acquire).min(file.windows.len() as u32)
    } else {
        file.ring_blocks as u32 - 1
    };
    if count == 0 {
        return None;
    }
    let start = START.fetch_add(MOST_CHECKED, Relaxed);
    (0..count.min(MOST_CHECKED)).find_map(|i| {
        let index = (start.wrapping_add(i) % count) as usize;
        let window =
            if file.ring.is_null() { file.windows[index].load(Acquire) } else { ring_block(file, index as u64 + 1) };
        let window = Some(MappedBlock(window)).filter(|window| !window.0.is_null())?;
        let block = window.shared_fields();
        let old = block.owner();
        let is_left = || matches!(block.kind(), block::WINDOW | block::RING) && has_ended(file, old);
        if old == 0 || !is_left() || !block.take_ownership(old, owner_tid(file)) {
            return None;
        }
        // SAFETY: mapped, and this thread's by now.
        if unsafe { (*window.0).used } == LEFT_BY_THREAD {
            // The stream of this block continues in another block.
            block.pass_to_owner(0);
            return None;
        }
        Some(window)
    })
}

/// Returns the block with this index in the ring.
fn ring_block(file: &File, index: u64) -> *mut BlockHeader {
    file.ring.wrapping_add(index as usize * BLOCK).cast()
}

/// Returns true if a slot in a ring's block that this thread has left still holds the entry with this number.
#[cold]
#[inline(never)]
pub fn is_in_ring(slot: *mut Slot, number: u64) -> bool {
    let Some(file) = current().filter(|file| !file.ring.is_null()) else { return false };
    let index = (slot as usize).wrapping_sub(file.ring as usize) / BLOCK;
    let block = MappedBlock(ring_block(file, index as u64));
    // SAFETY: only this thread and its signal handlers use the block.
    let own = MappedBlock(unsafe { (*thread()).window });
    let at = (slot as usize - block.0 as usize) / SLOT - 1;
    !own.0.is_null()
        && block.shared_fields().kind() == block::RING
        && block.stream().load(Relaxed) == own.stream().load(Relaxed)
        && block.base().load(Relaxed).wrapping_add(at as u64) == number
}

/// Changes the slot of this thread's window whose number has the low half `half`, if the window still contains the slot.
pub fn change_slot(half: u32, change: impl FnOnce(*mut Slot)) {
    let thread = thread();
    let before = mark_filling(thread);
    let window = window(thread);
    // SAFETY: only this thread and its signal handlers use the block.
    let first = unsafe { (*thread).window } as usize + SLOT;
    let back = (window.next_number() as u32).wrapping_sub(half) as usize;
    let next = window.next.get().min(window.end.get());
    let place = back.checked_mul(SLOT).and_then(|bytes| next.checked_sub(bytes));
    if let Some(place) = place.filter(|place| back != 0 && *place >= first) {
        change(place as *mut Slot);
    }
    restore_filling(thread, before);
}

/// Takes the oldest block of the ring that no thread writes to.
pub fn take_ring_block(file: &File) -> Result<*mut BlockHeader, c_int> {
    let count = file.ring_blocks - 1;
    let mut taken = 0;
    while taken < count {
        let number = file.take_next_block();
        let window = ring_block(file, 1 + (number - 1) % count);
        let block = MappedBlock(window).shared_fields();
        let old = block.owner();
        let is_free = old == 0 || block.kind() == block::RING && has_ended(file, old);
        if is_free && block.take_ownership(old, owner_tid(file)) {
            // If this thread was descheduled after it drew the number, the block is no longer among the oldest: try again.
            if file.last_block() - number <= count / 2 {
                return Ok(window);
            }
            block.pass_to_owner(old);
        } else {
            taken += 1;
        }
    }
    Err(libc::EBUSY)
}

/// Copies a full window to the end of the file, and continues at its start. Its calls are lost if that fails, or if extending the
/// window failed with `extension_error`.
unsafe fn empty_window(file: &File, thread: *mut Thread, extension_error: Option<c_int>) -> Result<(), c_int> {
    // SAFETY: the window is mapped for good, and this thread's.
    unsafe {
        let window = MappedBlock((*thread).window);
        let used = count_written_slots(window);
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
        let mut trailer = ChunkTrailer { magic: TRAILER_MAGIC, stream: header.stream, ..ChunkTrailer::default() };
        (trailer.base, trailer.used) = (header.base, header.used);
        let piece = |start: *const u8, length| libc::iovec { iov_base: start.cast_mut().cast(), iov_len: length };
        let slots = window.0.cast::<u8>().add(size_of::<BlockHeader>());
        let append = || {
            file.add_chunk([
                piece((&raw const header).cast(), size_of::<BlockHeader>()),
                piece(slots, SLOTS * SLOT),
                piece((&raw const trailer).cast(), size_of::<ChunkTrailer>()),
            ])
        };
        let result = extension_error.map_or_else(append, Err);
        if let Err(error) = result {
            file.lost_calls().fetch_add(count_calls_in_block(window.0.cast(), used), Relaxed);
            file.complain(error);
        }
        ((*window.0).tid, (*window.0).begun) = (tid(), clock::moment());
        // From here on, the numbers show that the slots in the window are old.
        rewrite_slot_numbers(|| window.base().store(header.base + used as u64, Relaxed));
        continue_in_window(thread, window, 0);
    }
    Ok(())
}

/// Returns the number of calls in the first `room` slots of a block. An entry can take several slots, of which only the first is
/// checked: the others hold data that can look like a call.
///
/// # Safety
///
/// The block is mapped, and has that many slots. Its thread may write to it.
pub unsafe fn count_calls_in_block(block: *mut u8, room: usize) -> u64 {
    let base = MappedBlock(block.cast()).base().load(Relaxed);
    // SAFETY: as promised; words are aligned, and read as atomics.
    let word =
        |slot: usize, at: usize| unsafe { AtomicU64::from_ptr(block.add((1 + slot) * SLOT + at).cast()).load(Relaxed) };
    let (mut slot, mut calls) = (0, 0);
    while slot < room {
        let first = word(slot, 0);
        if (first >> 32) as u32 != (base + slot as u64) as u32 {
            // The slot was written before the block was last emptied, or not written yet.
            slot += 1;
            continue;
        }
        calls += match first as u8 & !slot::INJECTED {
            slot::PENDING..=slot::UNWOUND => 1,
            slot::RUN => word(slot, core::mem::offset_of!(slot::RepeatedCalls, calls)) >> 1,
            _ => 0,
        };
        slot += usize::from((first >> 8) as u8).max(1);
    }
    calls
}

/// Puts a slot that is not a call's into this thread's stream. Returns the slot's number; `None` if there is no room. For use in
/// `guarded`.
pub fn append(state: u8, function: u16, fill: impl FnOnce(&mut Slot)) -> Option<u64> {
    append_slots(state, function, 1, |place| {
        // SAFETY: the slot is this thread's.
        fill(unsafe { &mut *place });
    })
}

/// Puts an entry of several slots in one block into this thread's stream. Returns the first slot's number; `None` without room.
pub fn append_slots(state: u8, function: u16, slots: usize, fill: impl FnOnce(*mut Slot)) -> Option<u64> {
    let thread = thread();
    // SAFETY: only this thread and its signal handlers use the block.
    if unsafe { (*thread).epoch } != recording_epoch() {
        return None;
    }
    let taken = take(thread, slots)?;
    // SAFETY: the slots are in this thread's window, and nobody else was given them.
    unsafe {
        let first = taken.place as *mut Slot;
        fill(first);
        publish(first, slot_word(state, slots as u8, function, taken.number as u32));
    }
    restore_filling(thread, taken.before);
    Some(taken.number)
}

#[cfg(test)]
mod tests;
