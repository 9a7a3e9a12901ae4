//! A thread's window: given to it at its first call, emptied when it is full, and taken over by another thread
//! when it is gone.
//!
//! In a full record a window stays where it is, and what it holds is copied to the end of the file. In a ring the
//! thread goes on in the next block that nobody writes to.

use super::file::File;
use super::{clock, process};
use crate::sys::arch::{Thread, stack_height, take_slot, thread};
use crate::sys::aside;
use crate::sys::every_call::epoch;
use crate::sys::guard::guarded;
use crate::sys::signals;
use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    compiler_fence, fence,
};
use cupeer_spec::record::slot::{self, Slot, word};
use cupeer_spec::record::{BLOCK, BLOCK_MAGIC, BlockHeader, SLOTS, TRAILER_MAGIC, Trailer, block};

/// The bytes of a slot.
const SLOT: usize = size_of::<Slot>();
/// Added to [`Thread::kept`] where nobody writes there any more.
const OVER: usize = 1;
/// What of [`Thread::turn`] tells one window that was left from another.
const TURNS: usize = 0xff;
/// How many windows are looked at in search of one whose thread is gone.
const LOOKS: u32 = 64;

/// Slots that were taken. Until they are [`filled`], no signal handler's call uses their window for anything else.
pub struct Taken {
    /// Where the first one lies.
    pub place: usize,
    /// Its number in the stream.
    pub number: u64,
    /// What the thread was filling before.
    before: usize,
}

/// Says that something of this thread's window is being written to, and gives what must be put back by [`filled`], and
/// the window's end.
#[inline(always)]
pub fn fill(thread: *mut Thread) -> (usize, usize) {
    fill_at(thread, stack_height())
}

/// The same for what goes on where the stack stands at a height.
#[inline(always)]
fn fill_at(thread: *mut Thread, height: usize) -> (usize, usize) {
    // SAFETY: only this thread uses the block.
    unsafe {
        // First: where a signal handler's call leaves the window after this, what is taken does not lie before this end.
        let end = (&raw const (*thread).window_end).read_volatile();
        let turn = (&raw const (*thread).turn).read_volatile() & TURNS;
        let filling = &raw mut (*thread).filling;
        let before = filling.read_volatile();
        filling.write_volatile(height << TURNS.count_ones() | turn);
        (before, end)
    }
}

/// It is written.
#[inline(always)]
pub fn filled(thread: *mut Thread, before: usize) {
    // SAFETY: only this thread uses the block.
    unsafe { (&raw mut (*thread).filling).write_volatile(before) };
}

/// Takes a slot of this thread's stream.
#[inline(always)]
pub fn take(thread: *mut Thread) -> Option<Taken> {
    let (before, end) = fill(thread);
    match take_here(thread, 1, end) {
        Some((place, number)) => Some(Taken { place, number, before }),
        None => renewed(1, before),
    }
}

/// What was taken is in the window.
#[inline(always)]
pub fn put(thread: *mut Thread, taken: &Taken) {
    filled(thread, taken.before);
}

/// Takes slots of this thread's window, where it has room for them. A signal handler's call may go on in another window
/// at any moment: what was taken is right where it lies before the end that the thread has noted, because what is numbered
/// there does not change while it is filling.
#[inline(always)]
fn take_here(thread: *mut Thread, slots: usize, end: usize) -> Option<(usize, u64)> {
    // SAFETY: only this thread uses the block.
    let bias = unsafe { (&raw const (*thread).slot_bias).read_volatile() };
    let place = take_slot(thread, slots * SLOT);
    let is_inside = end.wrapping_sub(place + slots * SLOT) <= (SLOTS - slots) * SLOT;
    is_inside.then(|| (place, (place as u64 >> 6).wrapping_add(bias)))
}

/// Makes room in this thread's stream, and takes slots there. No signal handler's call comes in between.
#[cold]
#[inline(never)]
fn renewed(slots: usize, before: usize) -> Option<Taken> {
    let mut taken = None;
    let thread = thread();
    // SAFETY: only this thread uses the block.
    let epoch = unsafe { (*thread).epoch };
    filled(thread, before);
    guarded(|| {
        // A thread that never made a call has no epoch, and neither has a process that made none.
        if epoch != 0 || process::attach() {
            taken = signals::held_back(|| renew(slots));
        } else {
            process::miss();
        }
    });
    taken
}

/// Makes room for `slots` slots, and takes them.
fn renew(slots: usize) -> Option<Taken> {
    let thread = thread();
    let file = process::current()?;
    // SAFETY: only this thread uses the block.
    unsafe {
        if (*thread).epoch != file.epoch {
            return None;
        }
        if (*thread).filling != 0 && signals::has_jumped_over((*thread).filling >> TURNS.count_ones()) {
            (*thread).filling = 0;
        }
        let must_rest = (*thread).window.is_null() && file.is_resting();
        // A window that was taken over may have room for its new thread's name, and for nothing else.
        for _ in 0..if must_rest { 0 } else { 3 } {
            // Who asks goes on when this has returned, on the program's stack.
            let (before, end) = fill_at(thread, aside::height());
            if let Some((place, number)) = take_here(thread, slots, end) {
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
///
/// # Safety
///
/// The block is this thread's.
unsafe fn make_room(file: &File, thread: *mut Thread) -> Result<(), c_int> {
    // SAFETY: as promised; windows are mapped for good.
    unsafe {
        let Thread { window: old, filling, kept, turn, .. } = *thread;
        if old.is_null() {
            return begin(file, thread);
        }
        if filling == 0 && kept != 0 {
            (*thread).kept = kept | OVER;
            if !file.ring.is_null() {
                owner(&*(kept as *const BlockHeader)).store(0, Release);
                (*thread).kept = 0;
            }
        }
        let extended = extend(file, thread);
        if extended == Ok(true) {
            return Ok(());
        }
        // A signal handler has interrupted who was about to write to this window, and not to one that was left.
        let is_in_use = filling != 0 && filling & TURNS == turn & TURNS;
        if is_in_use {
            (*thread).turn = turn.wrapping_add(1);
        }
        if file.ring.is_null() {
            return if is_in_use { leave(file, thread) } else { empty(file, thread, extended.err()) };
        }
        let number = number(thread);
        // Where all blocks are other threads', its own is as good as any.
        let window = match take_ring_block(file) {
            Err(_) if !is_in_use => old,
            window => window?,
        };
        enter(file, thread, window, (*old).stream, number, block::RING);
        if is_in_use {
            (*thread).kept = old as usize;
        } else if window != old {
            owner(&*old).store(0, Release);
        }
        Ok(())
    }
}

/// How many slots of a window can be written to.
fn room(window: &BlockHeader) -> usize {
    match window.room as usize {
        0 => SLOTS,
        room => room.min(SLOTS),
    }
}

/// Goes on in the same window, where more of it can be written to. Says whether that is so. What was taken of it, and what
/// its slots are numbered by, stays as it is.
///
/// # Safety
///
/// The block is this thread's, and has a window.
unsafe fn extend(file: &File, thread: *mut Thread) -> Result<bool, c_int> {
    // SAFETY: windows are mapped for good, and this one is this thread's.
    unsafe {
        let window = (*thread).window;
        let had = room(&*window);
        if had == SLOTS {
            return Ok(false);
        }
        let from = (had + 1) * SLOT;
        let to = file.extend((*window).number, from)?;
        touch(window, from..to);
        let room = to / SLOT - 1;
        (*window).room = if room < SLOTS { room as u32 } else { 0 };
        place_in(thread, window, had);
    }
    Ok(true)
}

/// Touches pages of a window before the calls do.
///
/// # Safety
///
/// They are mapped and have room in the file.
unsafe fn touch(window: *mut BlockHeader, bytes: core::ops::Range<usize>) {
    for page in bytes.step_by(4096) {
        // SAFETY: as promised.
        unsafe {
            let word = window.cast::<u8>().add(page).cast::<u64>();
            word.write_volatile(word.read_volatile());
        }
    }
}

/// Goes on in another window. What the full one holds is a chunk from here on, where it is.
///
/// # Safety
///
/// The block is this thread's, and has a window that is full.
unsafe fn leave(file: &File, thread: *mut Thread) -> Result<(), c_int> {
    // SAFETY: windows are mapped for good, and both are this thread's.
    unsafe {
        let Thread { window: old, kept, .. } = *thread;
        let (stream, base, used) = ((*old).stream, (*old).base, SLOTS as u32);
        // Where one that was left lay before, another block of the file can lie: nobody is filling it any more.
        let window = if kept & OVER != 0 {
            file.new_block_at((kept & !OVER) as *mut u8)?.cast::<BlockHeader>()
        } else {
            let window = file.new_block()?.cast::<BlockHeader>();
            register(file, window);
            window
        };
        let trailer = Trailer { magic: TRAILER_MAGIC, stream, base, used, ..Trailer::default() };
        old.cast::<Trailer>().add(SLOTS + 1).write(trailer);
        (*old).used = used;
        fence(Release);
        (&raw mut (*old).kind).write_volatile(block::CHUNK);
        owner(&*old).store(0, Release);
        enter(file, thread, window, stream, base + u64::from(used), block::WINDOW);
        (*thread).kept = old as usize;
    }
    Ok(())
}

/// Has others look for the end of this window's thread.
fn register(file: &File, window: *mut BlockHeader) {
    let index = file.window_count.fetch_add(1, Relaxed) as usize;
    if let (true, Some(place)) = (file.ring.is_null(), file.windows.get(index)) {
        place.store(window, Release);
    }
}

/// The number of this thread's next slot. Where slots were asked for that did not fit, they count as taken and
/// were never written: the window's end is where it goes on.
///
/// # Safety
///
/// The block is this thread's, and has a window.
unsafe fn number(thread: *mut Thread) -> u64 {
    // SAFETY: as promised.
    unsafe { ((*thread).next_slot.min((*thread).window_end) as u64 >> 6).wrapping_add((*thread).slot_bias) }
}

/// The owner of a window, which others look at.
fn owner(window: &BlockHeader) -> &AtomicU32 {
    // SAFETY: a field of a mapped block, aligned, and changed only in this way.
    unsafe { AtomicU32::from_ptr((&raw const window.owner).cast_mut()) }
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
    found != 0 && crate::sys::files::errno() == libc::ESRCH
}

/// Who this thread is as an owner. A child of vfork works in the place of a thread whose number it cannot know:
/// the main thread's, which is there for as long as the process, keeps all others away.
fn own_tid(file: &File) -> u32 {
    // SAFETY: the header is mapped for good, and getpid has no preconditions.
    let (process, pid) = unsafe { ((*file.header).pid, libc::getpid() as u32) };
    if process == pid { tid() } else { process }
}

/// Gives this thread its first window.
///
/// # Safety
///
/// The block is this thread's.
unsafe fn begin(file: &File, thread: *mut Thread) -> Result<(), c_int> {
    // SAFETY: windows are mapped for good.
    unsafe {
        if let Some(window) = adopt(file) {
            let next = written(&*window);
            place_in(thread, window, next);
            let mut place = take_slot(thread, SLOT);
            let mut extended = Ok(false);
            if place >= (*thread).window_end {
                extended = extend(file, thread);
                place = if extended == Ok(true) { take_slot(thread, SLOT) } else { place };
            }
            if place < (*thread).window_end {
                let number = (place as u64 >> 6).wrapping_add((*thread).slot_bias);
                let slot = place as *mut Slot;
                ((*slot).start, (*slot).end) = (clock::now(), u64::from(tid()));
                compiler_fence(Release);
                (&raw mut (*slot).word).write_volatile(word(slot::THREAD, 1, u16::MAX, number as u32));
                return Ok(());
            }
            // Full to the last slot: what follows has a block of its own, which names the thread.
            return if file.ring.is_null() {
                empty(file, thread, extended.err())
            } else {
                take_ring_block(file).map(|next| {
                    owner(&*window).store(0, Release);
                    enter(file, thread, next, (*window).stream, number(thread), block::RING);
                })
            };
        }
        // First: so many threads may be making blocks that are not there yet, as a reader must know.
        let stream = file.next_stream();
        let (window, kind) = if file.ring.is_null() {
            (file.new_window()?, block::WINDOW)
        } else {
            (take_ring_block(file)?, block::RING)
        };
        owner(&*window).store(own_tid(file), Relaxed);
        enter(file, thread, window, stream, 0, kind);
        register(file, window);
    }
    Ok(())
}

/// Begins a block for this thread, from slot `number` of a stream on.
///
/// # Safety
///
/// The block is this thread's, and the window too.
unsafe fn enter(
    file: &File,
    thread: *mut Thread,
    window: *mut BlockHeader,
    stream: u32,
    number: u64,
    kind: u16,
) {
    // SAFETY: mapped, and only ours.
    unsafe {
        (&raw mut (*window).kind).write_volatile(0);
        fence(Release);
        touch(window, 0..(room(&*window) + 1) * SLOT);
        ((*window).magic, (*window).stream, (*window).tid) = (BLOCK_MAGIC, stream, tid());
        ((*window).base, (*window).begun) = (number, clock::moment());
        owner(&*window).store(own_tid(file), Relaxed);
        fence(Release);
        (&raw mut (*window).kind).write_volatile(kind);
        place_in(thread, window, 0);
    }
}

/// Lets this thread go on at slot `next` of a window.
///
/// # Safety
///
/// As for [`enter`].
unsafe fn place_in(thread: *mut Thread, window: *mut BlockHeader, next: usize) {
    let first = window as usize + size_of::<BlockHeader>();
    // SAFETY: as promised.
    unsafe {
        (*thread).window = window;
        (*thread).slot_bias = (*window).base.wrapping_sub(first as u64 >> 6);
        (*thread).next_slot = first + next * SLOT;
        (*thread).window_end = first + room(&*window) * SLOT;
    }
}

/// How many slots of a window are written.
fn written(window: &BlockHeader) -> usize {
    let slots = ptr::from_ref(window).wrapping_add(1).cast::<Slot>();
    (0..room(window))
        .rev()
        // SAFETY: inside of the window.
        .map(|i| (i, unsafe { (*slots.add(i)).word }))
        .find(|(i, word)| {
            *word as u8 != slot::EMPTY && (*word >> 32) as u32 == (window.base + *i as u64) as u32
        })
        .map_or(0, |(i, word)| (i + usize::from((word >> 8) as u8).max(1)).min(SLOTS))
}

/// A window whose thread is gone, now ours.
fn adopt(file: &File) -> Option<*mut BlockHeader> {
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
        // SAFETY: windows are mapped for good.
        let header = unsafe { window.as_ref()? };
        let old = owner(header).load(Relaxed);
        let is_events = matches!(header.kind, block::WINDOW | block::RING);
        (old != 0
            && is_events
            && is_gone(file, old)
            && owner(header).compare_exchange(old, own_tid(file), AcqRel, Relaxed).is_ok())
        .then_some(window)
    })
}

fn ring_block(file: &File, index: u64) -> *mut BlockHeader {
    file.ring.wrapping_add(index as usize * BLOCK).cast()
}

/// Whether a slot that this thread has left with its block still holds what has this number in its stream.
#[cold]
#[inline(never)]
pub fn is_in_ring(slot: *mut Slot, number: u64) -> bool {
    let Some(file) = process::current().filter(|file| !file.ring.is_null()) else { return false };
    let block = ring_block(file, ((slot as usize).wrapping_sub(file.ring as usize) / BLOCK) as u64);
    // SAFETY: the slot lies in the ring, and both blocks are mapped for good; the block is this thread's.
    unsafe {
        let own = (*thread()).window;
        !own.is_null()
            && (*block).kind == block::RING
            && (*block).stream == (*own).stream
            && (*block).base.wrapping_add((slot as usize - block as usize) as u64 / SLOT as u64 - 1) == number
    }
}

/// The next block of the ring that nobody writes to, now ours.
pub fn take_ring_block(file: &File) -> Result<*mut BlockHeader, c_int> {
    let count = file.ring_blocks - 1;
    let mut looks = 0;
    while looks < count {
        let number = file.next_block();
        let window = ring_block(file, 1 + (number - 1) % count);
        // SAFETY: the ring is mapped for good.
        let header = unsafe { &*window };
        let old = owner(header).load(Acquire);
        let is_free = old == 0 || header.kind == block::RING && is_gone(file, old);
        if is_free && owner(header).compare_exchange(old, own_tid(file), AcqRel, Relaxed).is_ok() {
            // Who was kept waiting since its number was drawn would take what others have just written, and leave the
            // oldest.
            if file.last_block() - number <= count / 2 {
                return Ok(window);
            }
            owner(header).store(old, Release);
        } else {
            looks += 1;
        }
    }
    Err(libc::EBUSY)
}

/// Copies a full window to the end of the file, and begins it anew. Where that fails, what it held is lost, and so it is
/// where there is no room for more of it.
///
/// # Safety
///
/// The block is this thread's, and has a window.
unsafe fn empty(file: &File, thread: *mut Thread, has_no_room: Option<c_int>) -> Result<(), c_int> {
    // SAFETY: the window is mapped for good, and this thread's.
    unsafe {
        let window = (*thread).window;
        let used = written(&*window);
        let header =
            BlockHeader { kind: block::CHUNK, used: used as u32, owner: 0, room: 0, number: 0, ..*window };
        let mut trailer = Trailer { magic: TRAILER_MAGIC, stream: header.stream, ..Trailer::default() };
        (trailer.base, trailer.used) = (header.base, header.used);
        let piece =
            |start: *const u8, length| libc::iovec { iov_base: start.cast_mut().cast(), iov_len: length };
        let slots = window.cast::<u8>().add(size_of::<BlockHeader>());
        let append = || {
            file.append_block([
                piece((&raw const header).cast(), size_of::<BlockHeader>()),
                piece(slots, SLOTS * SLOT),
                piece((&raw const trailer).cast(), size_of::<Trailer>()),
            ])
        };
        let result = has_no_room.map_or_else(append, Err);
        if let Err(error) = result {
            file.lose(calls(slots.cast(), used));
            file.complain(error);
        }
        ((*window).tid, (*window).begun) = (tid(), clock::moment());
        fence(Release);
        // What the chunk has is old from here on.
        (&raw mut (*window).base).write_volatile(header.base + used as u64);
        place_in(thread, window, 0);
    }
    Ok(())
}

/// How many calls there are among slots.
///
/// # Safety
///
/// How many slots there are.
unsafe fn calls(slots: *const Slot, used: usize) -> u64 {
    // SAFETY: as promised.
    let is_call = |i: &usize| matches!(unsafe { (*slots.add(*i)).state() }, slot::PENDING..=slot::UNWOUND);
    (0..used).filter(is_call).count() as u64
}

/// Puts slots other than a call's into this thread's stream: `fill` fills the first. For use in `guarded`.
pub fn append(state: u8, function: u16, fill: impl FnOnce(&mut Slot)) {
    append_slots(state, function, 1, |place| {
        // SAFETY: the slot is this thread's.
        fill(unsafe { &mut *place });
    });
}

/// The same for several slots in a row, which lie in one block.
pub fn append_slots(state: u8, function: u16, slots: usize, fill: impl FnOnce(*mut Slot)) -> bool {
    let thread = thread();
    // SAFETY: only this thread uses the block.
    if unsafe { (*thread).epoch } != epoch() {
        return false;
    }
    let (before, end) = self::fill(thread);
    let taken = match take_here(thread, slots, end) {
        Some((place, number)) => Some(Taken { place, number, before }),
        None => renewed(slots, before),
    };
    let Some(taken) = taken else { return false };
    // SAFETY: the slots lie in this thread's window, and nobody else was given them.
    unsafe {
        let first = taken.place as *mut Slot;
        fill(first);
        compiler_fence(Release);
        (&raw mut (*first).word).write_volatile(word(state, slots as u8, function, taken.number as u32));
    }
    put(thread, &taken);
    true
}
