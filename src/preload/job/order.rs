//! Tracks the streams with pending work on shared memory, and the events that were recorded behind such work. Calls that order other
//! work behind it, or that wait for it, are recorded.
//!
//! Times are those of the record's clock. When a synchronization returns, all work that was given to the stream before it began is
//! done. So a stream has pending work if it used shared memory after the start of the last call that waited for it. The path of a
//! call takes no lock, and only recorded calls write here, each to the cache line of its stream.

use crate::sys::arch::thread;
use crate::sys::handles::{Blank, Handles};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// Number of streams that can be tracked at once. If a further stream uses shared memory, the recording of uses
/// pauses.
const MOST: usize = 128;
/// Number of entries for tracked events. If an event finds no free entry, the recording of uses pauses.
const MOST_EVENTS: usize = 4096;
/// Value in [`NAMES`] of an entry whose stream was destroyed.
const ENDED: u64 = 1;
/// Value in [`NAMES`] of an entry that a thread is writing.
const BEING_WRITTEN: u64 = 2;

/// A CUDA stream that has used shared memory. All times are in ticks of the record's clock.
#[repr(align(64))]
pub struct Stream {
    context: AtomicU64,
    /// Address of the block of the thread that first gave the stream work on shared memory.
    user: AtomicUsize,
    /// Time when that thread last gave the stream work on shared memory. Separate, because a single writer needs no locked
    /// instruction.
    used: AtomicU64,
    /// Time when any other thread last gave the stream work on shared memory.
    used_by_others: AtomicU64,
    /// Time before which all work on the stream is known to be done.
    done: AtomicU64,
    /// Time of the last recorded kernel that was launched after work on shared memory.
    launched: AtomicU64,
    /// Flags of the stream plus 1; 0 before the driver was asked for them.
    flags: AtomicU32,
}

/// Handles of the streams in [`STREAMS`], or [`default_stream`]s. Apart from the rest because each call searches them.
static NAMES: [AtomicU64; MOST] = [const { AtomicU64::new(0) }; MOST];
static STREAMS: [Stream; MOST] = [const {
    Stream {
        context: AtomicU64::new(0),
        user: AtomicUsize::new(0),
        used: AtomicU64::new(0),
        used_by_others: AtomicU64::new(0),
        done: AtomicU64::new(0),
        launched: AtomicU64::new(0),
        flags: AtomicU32::new(0),
    }
}; MOST];
/// Number of places in [`STREAMS`] that were ever used.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A CUDA event that was recorded after work on shared memory, or that is shared.
struct Event {
    /// Time when the event was last recorded after pending work; 0 if there was no pending work.
    recorded: AtomicU64,
    /// Name of the stream in which the event was recorded.
    stream: AtomicU64,
    /// True if another process may have the event as well.
    is_shared: AtomicBool,
}

impl Blank for Event {
    #[allow(clippy::declare_interior_mutable_const, reason = "each use makes another one")]
    const BLANK: Event =
        Event { recorded: AtomicU64::new(0), stream: AtomicU64::new(0), is_shared: AtomicBool::new(false) };
}

static EVENTS: Handles<Event, MOST_EVENTS> = Handles::new();

/// Returns the name of the default stream of a context: that of a thread, or the one of all threads if `thread` is `None`. The
/// name is odd, unlike any handle.
pub fn default_stream(context: u64, thread: Option<usize>) -> u64 {
    match thread {
        Some(thread) => context ^ (thread as u64).rotate_left(16) | 3,
        None => context & !3 | 1 << 2 | 1,
    }
}

/// Returns true if any stream of this process ever used shared memory.
#[inline(always)]
pub fn has_any() -> bool {
    COUNT.load(Relaxed) != 0
}

/// Returns true if any event is or was tracked.
#[inline(always)]
pub fn has_events() -> bool {
    EVENTS.has_any()
}

impl Stream {
    /// Notes that all work before a time is done. If two threads do so at once, the earlier time may stay, and more calls are
    /// recorded. An exact maximum would need an instruction that waits for all earlier stores.
    fn note_done(&self, since: u64) {
        if self.done.load(Relaxed) < since {
            self.done.store(since, Relaxed);
        }
    }

    pub fn is_pending(&self) -> bool {
        self.last_used() > self.done.load(Relaxed)
    }

    fn last_used(&self) -> u64 {
        self.used.load(Relaxed).max(self.used_by_others.load(Relaxed))
    }

    #[inline(always)]
    fn note_use(&self, end: u64) {
        if self.user.load(Relaxed) != thread().addr() {
            self.used_by_others.fetch_max(end, Relaxed);
        } else if self.used.load(Relaxed) < end {
            self.used.store(end, Relaxed);
        }
    }
}

fn all() -> impl Iterator<Item = (&'static AtomicU64, &'static Stream)> {
    NAMES.iter().zip(&STREAMS).take(COUNT.load(Acquire))
}

/// Returns the stream with this name; `None` if it never used shared memory.
#[inline]
pub fn find_stream(name: u64) -> Option<&'static Stream> {
    all().find(|(known, _)| known.load(Acquire) == name).map(|(_, stream)| stream)
}

/// Returns true if a stream has pending work on shared memory.
#[inline]
pub fn is_pending(name: u64) -> bool {
    find_stream(name).is_some_and(Stream::is_pending)
}

/// Returns true if any stream has pending work on shared memory.
pub fn is_any_pending() -> bool {
    all().any(|(name, stream)| name.load(Relaxed) > BEING_WRITTEN && stream.is_pending())
}

/// Returns true if the next kernel of a stream must be recorded: the stream has pending work on shared memory, and no later
/// kernel is recorded yet.
pub fn is_launch_to_record(name: u64) -> bool {
    find_stream(name).is_some_and(|it| it.is_pending() && it.launched.load(Relaxed) < it.last_used())
}

/// Stores the end of a recorded launch that follows the pending work of a stream, so that the next launch need not be
/// recorded.
pub fn note_launched(name: u64, end: u64) {
    find_stream(name).into_iter().for_each(|stream| stream.launched.store(end, Relaxed));
}

/// Notes that a stream was given work on shared memory. Returns the stream; `None` if there is no room to track it.
#[inline]
pub fn note_used(name: u64, context: u64, end: u64) -> Option<&'static Stream> {
    match find_stream(name) {
        Some(stream) => {
            stream.note_use(end);
            Some(stream)
        }
        None => add(name, context, end),
    }
}

#[cold]
#[inline(never)]
fn add(name: u64, context: u64, end: u64) -> Option<&'static Stream> {
    for (at, (known, stream)) in NAMES.iter().zip(&STREAMS).enumerate() {
        let free = known.load(Relaxed);
        if free > ENDED || known.compare_exchange(free, BEING_WRITTEN, AcqRel, Relaxed).is_err() {
            continue;
        }
        stream.context.store(context, Relaxed);
        stream.done.store(0, Relaxed);
        stream.launched.store(0, Relaxed);
        stream.flags.store(0, Relaxed);
        stream.user.store(thread().addr(), Relaxed);
        stream.used_by_others.store(0, Relaxed);
        stream.used.store(end, Relaxed);
        known.store(name, Release);
        COUNT.fetch_max(at + 1, AcqRel);
        return Some(stream);
    }
    None
}

/// Returns the flags of a stream. If they are not known yet, asks the driver with `query`.
#[inline]
pub fn flags(known: Option<&Stream>, query: impl FnOnce() -> u32) -> u32 {
    match known.map_or(0, |stream| stream.flags.load(Relaxed)) {
        0 => {
            let flags = query();
            known.into_iter().for_each(|stream| stream.flags.store(flags + 1, Relaxed));
            flags
        }
        known => known - 1,
    }
}

/// Notes that all work that was given to a stream before the time `since` is done. Returns the stream.
#[inline]
pub fn note_stream_done(name: u64, since: u64) -> Option<&'static Stream> {
    find_stream(name).inspect(|stream| stream.note_done(since))
}

/// Notes that all work that was given to the streams of a context before the time `since` is done.
pub fn note_all_done(context: u64, since: u64) {
    let is_of = |stream: &&Stream| stream.context.load(Relaxed) == context;
    all().map(|(_, stream)| stream).filter(is_of).for_each(|stream| stream.note_done(since));
}

/// Forgets a stream that was destroyed.
pub fn forget_stream(name: u64) {
    all().filter(|(known, _)| known.load(Relaxed) == name).for_each(|(known, _)| known.store(ENDED, Release));
}

/// Returns true if an event may be recorded behind pending work on shared memory.
#[inline]
pub fn is_event_pending(event: u64) -> bool {
    EVENTS.find(event).is_some_and(|it| it.is_shared.load(Relaxed) || it.recorded.load(Relaxed) != 0)
}

/// Notes that an event was recorded in a stream at the time `since`. `is_pending` is true if the stream has pending work. Returns
/// false if there is no room to track the event.
pub fn note_recorded(event: u64, stream: u64, is_pending: bool, since: u64) -> bool {
    let Some(known) = find_or_add_event(event) else { return false };
    known.stream.store(stream, Relaxed);
    known.recorded.store(if is_pending { since } else { 0 }, Relaxed);
    true
}

/// Returns the tracked event with this handle, after adding it if it is new; `None` if there is no room.
fn find_or_add_event(event: u64) -> Option<&'static Event> {
    EVENTS.find(event).or_else(|| {
        EVENTS.note(event, |known| {
            known.recorded.store(0, Relaxed);
            known.is_shared.store(false, Relaxed);
        });
        EVENTS.find(event)
    })
}

/// Notes that all work before the last recording of an event is done.
pub fn note_event_done(event: u64) {
    let Some(known) = EVENTS.find(event) else { return };
    match known.recorded.swap(0, Relaxed) {
        0 => None,
        recorded => note_stream_done(known.stream.load(Relaxed), recorded),
    };
}

/// Marks an event as shared, because it was exported to another process or opened from one. From then on, it always
/// counts as pending.
pub fn note_shared(event: u64) {
    if let Some(known) = find_or_add_event(event) {
        known.is_shared.store(true, Relaxed);
    }
}

/// Forgets an event that is about to be destroyed.
pub fn note_event_ends(event: u64) {
    EVENTS.forget(event);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_pending_until_a_call_waits_for_it() {
        let (stream, other, context) = (0x7000, 0x7100, 0x9000);
        assert!(note_used(stream, context, 10).is_some() && is_pending(stream) && !is_pending(other));
        note_stream_done(stream, 5);
        assert!(is_pending(stream), "it was used after that wait had begun");
        note_stream_done(stream, 10);
        assert!(!is_pending(stream));
        assert!(
            note_used(stream, context, 20).is_some()
                && note_used(other, context + 8, 20).is_some()
                && is_launch_to_record(stream)
        );
        note_launched(stream, 25);
        assert!(!is_launch_to_record(stream) && is_launch_to_record(other));
        note_all_done(context, 30);
        assert!(!is_pending(stream) && is_pending(other));
        forget_stream(other);
        assert!(!is_pending(other));
    }

    #[test]
    fn waiting_for_an_event_waits_for_the_work_before_it() {
        let (stream, event) = (0x7200, 0x8000);
        assert!(note_used(stream, 0x9100, 10).is_some() && note_recorded(event, stream, true, 15));
        assert!(note_used(stream, 0x9100, 20).is_some() && is_event_pending(event));
        note_event_done(event);
        assert!(is_pending(stream) && !is_event_pending(event));
        assert!(note_recorded(event, stream, true, 25));
        note_event_done(event);
        assert!(!is_pending(stream));
        note_shared(event);
        note_event_done(event);
        assert!(is_event_pending(event), "others record it, too");
        note_event_ends(event);
        assert!(!is_event_pending(event));
    }
}
