//! Tracks which streams have used shared memory without anybody knowing yet that this is done, and which events were recorded behind
//! such work. What orders other work behind that, or learns that it is done, is recorded.
//!
//! Times are those of the record's clock. All that a stream was given before a synchronization began is done when that returns. So
//! a stream has work pending if it was used after the start of the last call that waited for it. Nothing is locked on the way of a
//! call, and only calls that are recorded write here, each to the line of its stream.

use crate::sys::arch::thread;
use crate::sys::handles::{Blank, Handles};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// So many streams are known at once.
const MOST: usize = 128;
/// So many events are.
const MOST_EVENTS: usize = 4096;
/// In the place of a stream that has ended.
const ENDED: u64 = 1;
/// In a place that is being written.
const TAKEN: u64 = 2;

/// A stream.
#[repr(align(64))]
pub struct Stream {
    context: AtomicU64,
    /// The thread that used it first.
    user: AtomicUsize,
    /// When that thread last gave it what matters. By itself, because one that alone writes needs no locked instruction.
    used: AtomicU64,
    /// When another thread did.
    used_by_others: AtomicU64,
    /// What it was given up to then is known to be done.
    done: AtomicU64,
    /// Up to then it is recorded that a kernel came behind that.
    launched: AtomicU64,
    /// Its flags and one; 0 if nobody asked for them.
    flags: AtomicU32,
}

/// The names of the streams, by themselves because each call looks through them.
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
/// So many places were ever taken.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// An event.
struct Event {
    /// When it was last recorded behind what matters; 0 if it was not.
    recorded: AtomicU64,
    /// The name of the stream.
    stream: AtomicU64,
    /// Other processes have it, too.
    is_shared: AtomicBool,
}

impl Blank for Event {
    #[allow(clippy::declare_interior_mutable_const, reason = "each use makes another one")]
    const BLANK: Event =
        Event { recorded: AtomicU64::new(0), stream: AtomicU64::new(0), is_shared: AtomicBool::new(false) };
}

static EVENTS: Handles<Event, MOST_EVENTS> = Handles::new();

/// The name of the default stream of a context: the thread's own one, or the one of all threads. No handle is odd.
pub fn default_stream(context: u64, thread: Option<usize>) -> u64 {
    match thread {
        Some(thread) => context ^ (thread as u64).rotate_left(16) | 3,
        None => context & !3 | 1 << 2 | 1,
    }
}

/// Whether any stream was ever given what matters.
#[inline(always)]
pub fn has_any() -> bool {
    COUNT.load(Relaxed) != 0
}

/// The same of events.
#[inline(always)]
pub fn has_events() -> bool {
    EVENTS.has_any()
}

impl Stream {
    /// If two threads come at once, the earlier time may stay: then more is recorded, and no instruction waits for all stores before it.
    fn is_done(&self, since: u64) {
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
    fn is_used(&self, end: u64) {
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

#[inline]
fn find(name: u64) -> Option<&'static Stream> {
    all().find(|(known, _)| known.load(Acquire) == name).map(|(_, stream)| stream)
}

/// Whether a stream has work pending.
#[inline]
pub fn is_pending(name: u64) -> bool {
    find(name).is_some_and(Stream::is_pending)
}

/// Whether any stream has.
pub fn is_any_pending() -> bool {
    all().any(|(name, stream)| name.load(Relaxed) > TAKEN && stream.is_pending())
}

/// Whether a stream has, and it is not recorded yet that a kernel came behind it.
pub fn is_to_launch(name: u64) -> bool {
    find(name).is_some_and(|it| it.is_pending() && it.launched.load(Relaxed) < it.last_used())
}

/// A kernel came behind it.
pub fn launched(name: u64, end: u64) {
    find(name).into_iter().for_each(|stream| stream.launched.store(end, Relaxed));
}

/// A stream was given what matters. Returns nothing if there is no room for it.
#[inline]
pub fn used(name: u64, context: u64, end: u64) -> Option<&'static Stream> {
    match find(name) {
        Some(stream) => {
            stream.is_used(end);
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
        if free > ENDED || known.compare_exchange(free, TAKEN, AcqRel, Relaxed).is_err() {
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

/// A stream that was given what matters.
pub fn known(name: u64) -> Option<&'static Stream> {
    find(name)
}

/// The flags of a stream. `ask` is called if they are not known yet.
#[inline]
pub fn flags(known: Option<&Stream>, ask: impl FnOnce() -> u32) -> u32 {
    match known.map_or(0, |stream| stream.flags.load(Relaxed)) {
        0 => {
            let flags = ask();
            known.into_iter().for_each(|stream| stream.flags.store(flags + 1, Relaxed));
            flags
        }
        known => known - 1,
    }
}

/// What a stream was given before is done. Returns the stream.
#[inline]
pub fn done(name: u64, since: u64) -> Option<&'static Stream> {
    find(name).inspect(|stream| stream.is_done(since))
}

/// What all streams of a context were given before is done.
pub fn all_done(context: u64, since: u64) {
    let is_of = |stream: &&Stream| stream.context.load(Relaxed) == context;
    all().map(|(_, stream)| stream).filter(is_of).for_each(|stream| stream.is_done(since));
}

/// A stream has ended.
pub fn ended(name: u64) {
    all().filter(|(known, _)| known.load(Relaxed) == name).for_each(|(known, _)| known.store(ENDED, Release));
}

/// Whether waiting for an event is waiting for what matters.
#[inline]
pub fn is_event_pending(event: u64) -> bool {
    EVENTS.find(event).is_some_and(|it| it.is_shared.load(Relaxed) || it.recorded.load(Relaxed) != 0)
}

/// An event was recorded in a stream. Returns false if there is no room for it.
pub fn recorded(event: u64, stream: u64, is_pending: bool, since: u64) -> bool {
    let time = if is_pending { since } else { 0 };
    let write = |known: &Event| {
        known.stream.store(stream, Relaxed);
        known.recorded.store(time, Relaxed);
    };
    if let Some(known) = EVENTS.find(event) {
        write(known);
        return true;
    }
    EVENTS.note(event, |known| {
        known.is_shared.store(false, Relaxed);
        write(known);
    });
    EVENTS.find(event).is_some()
}

/// What came before the last record of an event is done.
pub fn event_done(event: u64) {
    let Some(known) = EVENTS.find(event) else { return };
    match known.recorded.swap(0, Relaxed) {
        0 => None,
        recorded => done(known.stream.load(Relaxed), recorded),
    };
}

/// An event was exported, or opened.
pub fn is_shared(event: u64) {
    match EVENTS.find(event) {
        Some(known) => known.is_shared.store(true, Relaxed),
        None => EVENTS.note(event, |known| {
            known.recorded.store(0, Relaxed);
            known.is_shared.store(true, Relaxed);
        }),
    }
}

/// An event is about to end.
pub fn event_ends(event: u64) {
    EVENTS.forget(event);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_pending_until_somebody_has_waited_for_it() {
        let (stream, other, context) = (0x7000, 0x7100, 0x9000);
        assert!(used(stream, context, 10).is_some() && is_pending(stream) && !is_pending(other));
        done(stream, 5);
        assert!(is_pending(stream), "it was used after that wait had begun");
        done(stream, 10);
        assert!(!is_pending(stream));
        assert!(
            used(stream, context, 20).is_some()
                && used(other, context + 8, 20).is_some()
                && is_to_launch(stream)
        );
        launched(stream, 25);
        assert!(!is_to_launch(stream) && is_to_launch(other));
        all_done(context, 30);
        assert!(!is_pending(stream) && is_pending(other));
        ended(other);
        assert!(!is_pending(other));
    }

    #[test]
    fn who_waits_for_an_event_waits_for_the_stream_as_it_was() {
        let (stream, event) = (0x7200, 0x8000);
        assert!(used(stream, 0x9100, 10).is_some() && recorded(event, stream, true, 15));
        assert!(used(stream, 0x9100, 20).is_some() && is_event_pending(event));
        event_done(event);
        assert!(is_pending(stream) && !is_event_pending(event));
        assert!(recorded(event, stream, true, 25));
        event_done(event);
        assert!(!is_pending(stream));
        is_shared(event);
        event_done(event);
        assert!(is_event_pending(event), "others record it, too");
        event_ends(event);
        assert!(!is_event_pending(event));
    }
}
