//! The work of late devices: pieces that are done when something needs them, each after the pieces that it follows.

use super::super::backing::Backing;
use super::super::records::{RecordPage, RecordStatus};
use super::calls::ProgramCall;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// The most pieces that wait. If there are more, the oldest pieces are done.
pub(crate) const MOST_PIECES: usize = 1024;
/// The most queries that are answered with "not done" before a piece is done. The seed chooses the number for
/// each piece.
const MOST_ASKED: u64 = 3;
/// Average number of pieces of which the seed makes one an exception.
const EXCEPTIONS: u64 = 4;

/// Number of durations from which the seed chooses: 0, 1, 2, 4, and so on up to 32 milliseconds.
const DURATIONS: u64 = 7;
/// Number of waits after which the seed chooses a duration other than 0 less often.
const FREQUENT_WAITS: u64 = 64;

/// Work that receives the driver, under its lock. The argument is a `Driver`, which this module cannot name.
pub(crate) type Locked = Box<dyn FnOnce(&mut dyn Any) + Send>;

/// Work in a stream.
pub(crate) enum Work {
    /// Work of the driver that runs under the driver's lock.
    Locked(Locked),
    /// Work of the driver that runs without the driver's lock, because it may wait for other work.
    Unlocked(Box<dyn FnOnce() + Send>),
    /// A call of a function of the program.
    Call(ProgramCall),
    /// A wait until a condition is true. The condition is polled.
    Until(Box<dyn Fn() -> bool + Send>),
}

impl Work {
    /// Returns true unless the work is a wait whose condition is still false.
    pub(crate) fn is_ready(&self) -> bool {
        if let Work::Until(is_true) = self { is_true() } else { true }
    }
}

/// Processes that can see the results of work without a call of this process's driver. The value is the
/// number of milliseconds after which the work is done although no call requests it: a program that polls
/// memory must not wait forever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Visibility {
    /// The host code of this process, and possibly other processes, can see the results.
    Host = 100,
    /// Other processes can see the results.
    Others = 1_000,
    /// No process can see the results without a call.
    Nobody = 10_000,
}

/// A record of an event by another process: the page of the event, and the number of the record.
pub(crate) type Remote = (Arc<RecordPage>, u64);

/// A range of bytes that a piece reads or writes.
pub(crate) struct ByteUse {
    pub from: u64,
    pub to: u64,
    pub is_write: bool,
    /// File and offset of the first byte, if other processes may use the bytes, too.
    pub file: Option<(Arc<Backing>, u64)>,
}

impl ByteUse {
    /// Returns true if the result depends on the order of both uses: they overlap, and one of them is a
    /// write.
    fn conflicts_with(&self, other: &ByteUse) -> bool {
        (self.is_write || other.is_write) && self.overlaps(other)
    }

    /// Returns true if both uses have a byte in common.
    fn overlaps(&self, other: &ByteUse) -> bool {
        self.from < other.to && other.from < self.to
    }

    /// Locks the bytes in their file, so that other processes see their use; with `is_over`, unlocks them. Returns
    /// false if another process has locked some of these bytes, and one of the two uses is a write.
    fn lock_bytes(&self, is_over: bool) -> bool {
        let is_write = Some(self.is_write).filter(|_| !is_over);
        self.file.as_ref().is_none_or(|(file, at)| file.lock_for_use(*at, self.to - self.from, is_write))
    }
}

/// A piece of work in a stream of a late device.
pub(crate) struct WorkPiece {
    /// Numbers of the pieces that must be done first.
    pub after: Vec<u64>,
    pub remote: Option<Remote>,
    /// The work; `None` while a thread does it.
    pub work: Option<Work>,
    pub seen: Visibility,
    pub uses: Vec<ByteUse>,
}

/// A piece that is not done, with the pieces that follow it.
struct PendingPiece {
    piece: WorkPiece,
    due: u64,
    followers: Vec<u64>,
    /// Number of pieces that must be done before this one, and are not done.
    left: usize,
}

/// All pieces of work of late devices that are not done.
#[derive(Default)]
pub(crate) struct LateWork {
    seed: u64,
    pieces: BTreeMap<u64, PendingPiece>,
    /// Numbers of the pieces that were requested.
    wanted: BTreeSet<u64>,
    /// Numbers of the requested pieces for which all pieces that they follow are done.
    ready: BTreeSet<u64>,
    /// The time at which each piece is done without a request, and the number of the piece.
    due: BTreeSet<(u64, u64)>,
    /// Number of queries for each piece.
    asked: HashMap<u64, u64>,
    /// Number of pieces that are running on a thread of their own. They may wait for other pieces.
    alone: usize,
    /// Current time: the number of milliseconds for which the watching thread has run.
    now: u64,
    /// Number of waits of threads so far.
    waits: u64,
    /// True if the thread that watches late work is running.
    pub has_watcher: bool,
}

/// Returns a hash of two numbers.
fn hash_pair(a: u64, b: u64) -> u64 {
    let step = |x: u64| {
        let x = (x ^ (x >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    step(step(a.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ b) >> 8
}

impl LateWork {
    pub(crate) fn new(seed: u64) -> LateWork {
        LateWork { seed, ..LateWork::default() }
    }

    pub(crate) fn is_pending(&self, number: u64) -> bool {
        self.pieces.contains_key(&number)
    }

    /// Adds a piece.
    pub(crate) fn add_piece(&mut self, number: u64, mut piece: WorkPiece) {
        piece.after.retain(|before| self.is_pending(*before));
        for before in &piece.after {
            self.pieces.entry(*before).and_modify(|before| before.followers.push(number));
        }
        let (due, left) = (self.now + piece.seen as u64, piece.after.len());
        self.due.insert((due, number));
        self.pieces.insert(number, PendingPiece { piece, due, followers: Vec::new(), left });
    }

    /// Requests a piece, and the pieces that must be done before it.
    pub(crate) fn request(&mut self, number: u64) {
        let mut open = vec![number];
        while let Some(number) = open.pop() {
            if let Some(pending) = self.pieces.get(&number)
                && self.wanted.insert(number)
            {
                open.extend(&pending.piece.after);
                if pending.left == 0 {
                    self.ready.insert(number);
                }
            }
        }
    }

    /// Requests all pieces. Returns true if there was a piece.
    pub(crate) fn request_all(&mut self) -> bool {
        let all: Vec<u64> = self.pieces.keys().copied().collect();
        all.iter().for_each(|number| self.request(*number));
        !all.is_empty()
    }

    /// Requests the oldest pieces, so that at most [`MOST_PIECES`] remain.
    pub(crate) fn request_oldest(&mut self) {
        let over = self.pieces.len().saturating_sub(MOST_PIECES);
        let oldest: Vec<u64> = self.pieces.keys().take(over).copied().collect();
        oldest.into_iter().for_each(|number| self.request(number));
    }

    /// Requests all pieces if a running piece may be waiting for one of them.
    pub(crate) fn request_awaited(&mut self) {
        let waits = |number: &u64| matches!(self.pieces[number].piece.work, Some(Work::Until(_)));
        if self.alone > 0 || self.wanted.iter().any(waits) {
            self.request_all();
        }
    }

    /// Counts a query for the piece `key`. Returns true if the answer "not done" was given often enough, and
    /// the piece must now be done.
    pub(crate) fn count_query(&mut self, key: u64) -> bool {
        let asked = self.asked.entry(key).or_default();
        *asked += 1;
        *asked > 1 + hash_pair(self.seed, key) % MOST_ASKED
    }

    /// Returns true if the seed makes this piece an exception to the order of pieces.
    fn is_exception(&self, number: u64) -> bool {
        self.seed > 0 && hash_pair(self.seed, number).is_multiple_of(EXCEPTIONS)
    }

    /// Sets the memory that a piece uses, and locks it. Returns true if the rules allow the piece to be done before
    /// an earlier piece that uses the same memory.
    pub(crate) fn set_uses_and_check(&mut self, number: u64, uses: Vec<ByteUse>) -> bool {
        let (mut before, mut is_told) = (BTreeSet::new(), false);
        let mut open = vec![number];
        while let Some(number) = open.pop() {
            if let Some(pending) = self.pieces.get(&number)
                && before.insert(number)
            {
                open.extend(&pending.piece.after);
                // The piece may wait for a value or another process, and so follow work that is not known
                // here.
                is_told |= pending.piece.remote.is_some() || matches!(pending.piece.work, Some(Work::Until(_)));
            }
        }
        let conflicts = |other: &ByteUse| uses.iter().any(|it| it.conflicts_with(other));
        let mut others = self.pieces.iter().filter(|(other, _)| !before.contains(other));
        let mut overtakes = others.any(|(_, other)| other.piece.uses.iter().any(conflicts));
        if self.is_pending(number) {
            overtakes |= uses.iter().filter(|it| !it.lock_bytes(false)).count() > 0;
            self.restore_locks(&uses);
            self.pieces.entry(number).and_modify(|pending| pending.piece.uses = uses);
        }
        overtakes && !is_told
    }

    /// Locks the bytes of all uses again that overlap a changed use, because the change may have ended their locks.
    /// The lock of a write replaces the lock of a read.
    fn restore_locks(&self, changed: &[ByteUse]) {
        let all = || self.pieces.values().flat_map(|pending| &pending.piece.uses);
        for is_write in [false, true] {
            let has_changed = |it: &&ByteUse| changed.iter().any(|use_| use_.overlaps(it));
            all().filter(|it| it.is_write == is_write).filter(has_changed).for_each(|it| {
                it.lock_bytes(false);
            });
        }
    }

    /// Chooses how long a waiting thread sleeps before its work is done, so that other threads and processes
    /// get ahead.
    pub(crate) fn choose_delay_before_request(&mut self) -> Duration {
        self.waits += 1;
        let chosen = hash_pair(self.seed, self.waits);
        let is_chosen = self.seed > 0 && (chosen / DURATIONS).is_multiple_of(1 + self.waits / FREQUENT_WAITS);
        Duration::from_millis(if is_chosen { (1 << (chosen % DURATIONS)) >> 1 } else { 0 })
    }

    /// Removes the work of the next piece that is requested and ready. Of several pieces, the newest is next,
    /// which is as far from the order of the calls as possible, with exceptions that the seed makes.
    pub(crate) fn take_next_ready(&mut self) -> Option<(u64, Work)> {
        let is_there = |number: &u64| {
            let piece = &self.pieces[number].piece;
            let is_done = |(page, sequence): &Remote| page.mark_awaited(*sequence) == RecordStatus::Done;
            piece.work.as_ref().is_some_and(Work::is_ready) && piece.remote.as_ref().is_none_or(is_done)
        };
        let rank = |number: &u64| (!self.is_exception(*number), *number);
        let number = self.ready.iter().copied().filter(is_there).max_by_key(rank)?;
        self.ready.remove(&number);
        let work = self.pieces.get_mut(&number)?.piece.work.take()?;
        self.alone += usize::from(matches!(work, Work::Unlocked(_)));
        Some((number, work))
    }

    /// Removes a piece that is done. `was_alone` is true if the piece had a thread of its own.
    pub(crate) fn remove_done(&mut self, number: u64, was_alone: bool) {
        self.alone -= usize::from(was_alone);
        let Some(done) = self.pieces.remove(&number) else { return };
        done.piece.uses.iter().for_each(|it| {
            it.lock_bytes(true);
        });
        self.restore_locks(&done.piece.uses);
        for follower in done.followers {
            let Some(follows) = self.pieces.get_mut(&follower) else { continue };
            follows.left -= 1;
            if follows.left == 0 && self.wanted.contains(&follower) {
                self.ready.insert(follower);
            }
        }
        self.wanted.remove(&number);
        self.due.remove(&(done.due, number));
        self.asked.remove(&number);
    }

    /// Advances the time by a millisecond. Requests the pieces that are due, and the pieces for which other
    /// processes wait. Returns true if any pieces remain.
    pub(crate) fn advance_time(&mut self, asked: impl Iterator<Item = u64>) -> bool {
        self.now += 1;
        let due = self.due.range(..(self.now + 1, 0)).map(|(_, number)| *number);
        let wanted: Vec<u64> = due.chain(asked).collect();
        wanted.into_iter().for_each(|number| self.request(number));
        !self.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}
