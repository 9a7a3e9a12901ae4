//! The work of late devices: pieces that are done when something needs them, each after the pieces that it follows.

use super::super::backing::Backing;
use super::super::records::{Page, Status};
use super::calls::Call;
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// The most pieces that wait; with one more, the oldest is done.
pub(crate) const MOST: usize = 1024;
/// The most queries that a piece answers with "not done"; the seed chooses the number.
const MOST_ASKED: u64 = 3;
/// The seed makes an exception of one in this many pieces.
const EXCEPTIONS: u64 = 4;

/// Number of durations from which the seed chooses, from 0 to 32 milliseconds; and number of waits after which it chooses rarely.
const TIMES: u64 = 7;
const WAITS: u64 = 64;

/// Work that receives the driver.
pub(crate) type Locked = Box<dyn FnOnce(&mut dyn Any) + Send>;

/// Work in a stream.
pub(crate) enum Work {
    /// Work of the driver that needs its lock.
    Locked(Locked),
    /// Work of the driver that must not have its lock: it may wait for other work.
    Unlocked(Box<dyn FnOnce() + Send>),
    /// A function of the program.
    Call(Call),
    /// A wait until a condition is true, which is polled.
    Until(Box<dyn Fn() -> bool + Send>),
}

impl Work {
    /// Returns true unless it waits for a condition that is not true yet.
    pub(crate) fn is_ready(&self) -> bool {
        if let Work::Until(is_true) = self { is_true() } else { true }
    }
}

/// Processes that can see the results of work without calling this process's driver. The value is the time, in milliseconds, after which
/// the work is done without a call: a program that polls memory in its own way must not wait forever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Visibility {
    Host = 100,
    Others = 1_000,
    Nobody = 10_000,
}

/// A record of an event by another process.
pub(crate) type Remote = (Arc<Page>, u64);

/// Bytes that a piece uses.
pub(crate) struct Use {
    pub from: u64,
    pub to: u64,
    pub is_write: bool,
    /// File and offset of the first byte, which other processes may use, too.
    pub file: Option<(Arc<Backing>, u64)>,
}

impl Use {
    /// Returns true if the order of both uses matters.
    fn disagrees(&self, other: &Use) -> bool {
        (self.is_write || other.is_write) && self.overlaps(other)
    }

    fn overlaps(&self, other: &Use) -> bool {
        self.from < other.to && other.from < self.to
    }

    /// Marks the bytes for other processes, or clears the mark. Returns false if one of them will use the bytes, too.
    fn mark(&self, is_over: bool) -> bool {
        let is_write = Some(self.is_write).filter(|_| !is_over);
        self.file.as_ref().is_none_or(|(file, at)| file.mark(*at, self.to - self.from, is_write))
    }
}

/// A piece of work in a stream.
pub(crate) struct Piece {
    /// Pieces that come before it.
    pub after: Vec<u64>,
    pub remote: Option<Remote>,
    /// `None` while it is being done.
    pub work: Option<Work>,
    pub seen: Visibility,
    pub uses: Vec<Use>,
}

/// A piece that is not done, with its followers.
struct Pending {
    piece: Piece,
    due: u64,
    followers: Vec<u64>,
    /// Number of pieces before it that are not done.
    left: usize,
}

/// The work of late devices.
#[derive(Default)]
pub(crate) struct Late {
    seed: u64,
    pieces: BTreeMap<u64, Pending>,
    wanted: BTreeSet<u64>,
    /// Needed pieces whose predecessors are done.
    ready: BTreeSet<u64>,
    /// Times at which pieces are done without a call.
    due: BTreeSet<(u64, u64)>,
    asked: HashMap<u64, u64>,
    /// Number of running pieces that may wait for others.
    alone: usize,
    now: u64,
    /// Number of waits so far.
    waits: u64,
    pub has_minder: bool,
}

/// Mixes two numbers.
fn mixed(a: u64, b: u64) -> u64 {
    let step = |x: u64| {
        let x = (x ^ (x >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (x ^ (x >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    };
    step(step(a.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ b) >> 8
}

impl Late {
    pub(crate) fn new(seed: u64) -> Late {
        Late { seed, ..Late::default() }
    }

    pub(crate) fn is_pending(&self, number: u64) -> bool {
        self.pieces.contains_key(&number)
    }

    /// Adds a piece.
    pub(crate) fn push(&mut self, number: u64, mut piece: Piece) {
        piece.after.retain(|before| self.is_pending(*before));
        for before in &piece.after {
            self.pieces.entry(*before).and_modify(|before| before.followers.push(number));
        }
        let (due, left) = (self.now + piece.seen as u64, piece.after.len());
        self.due.insert((due, number));
        self.pieces.insert(number, Pending { piece, due, followers: Vec::new(), left });
    }

    /// Requests a piece, and the pieces that it follows.
    pub(crate) fn want(&mut self, number: u64) {
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

    /// Requests all pieces. Returns true if there was any.
    pub(crate) fn want_all(&mut self) -> bool {
        let all: Vec<u64> = self.pieces.keys().copied().collect();
        all.iter().for_each(|number| self.want(*number));
        !all.is_empty()
    }

    /// Requests the oldest of too many pieces.
    pub(crate) fn want_oldest(&mut self) {
        let over = self.pieces.len().saturating_sub(MOST);
        let oldest: Vec<u64> = self.pieces.keys().take(over).copied().collect();
        oldest.into_iter().for_each(|number| self.want(number));
    }

    /// Requests all pieces if a running piece may wait for them.
    pub(crate) fn want_awaited(&mut self) {
        let waits = |number: &u64| matches!(self.pieces[number].piece.work, Some(Work::Until(_)));
        if self.alone > 0 || self.wanted.iter().any(waits) {
            self.want_all();
        }
    }

    /// Counts a query for pieces. Returns true once the pieces must not answer "not done" any more.
    pub(crate) fn is_last_answer(&mut self, key: u64) -> bool {
        let asked = self.asked.entry(key).or_default();
        *asked += 1;
        *asked > 1 + mixed(self.seed, key) % MOST_ASKED
    }

    /// Returns true if the seed makes an exception of a piece.
    fn is_exception(&self, number: u64) -> bool {
        self.seed > 0 && mixed(self.seed, number).is_multiple_of(EXCEPTIONS)
    }

    /// Sets the memory that a piece uses. Returns true if it can be done before an earlier piece that uses the same memory.
    pub(crate) fn overtakes(&mut self, number: u64, uses: Vec<Use>) -> bool {
        let (mut before, mut is_told) = (BTreeSet::new(), false);
        let mut open = vec![number];
        while let Some(number) = open.pop() {
            if let Some(pending) = self.pieces.get(&number)
                && before.insert(number)
            {
                open.extend(&pending.piece.after);
                // Such a piece may follow work that is not known here.
                is_told |=
                    pending.piece.remote.is_some() || matches!(pending.piece.work, Some(Work::Until(_)));
            }
        }
        let disagrees = |other: &Use| uses.iter().any(|it| it.disagrees(other));
        let mut others = self.pieces.iter().filter(|(other, _)| !before.contains(other));
        let mut overtakes = others.any(|(_, other)| other.piece.uses.iter().any(disagrees));
        if self.is_pending(number) {
            overtakes |= uses.iter().filter(|it| !it.mark(false)).count() > 0;
            self.mark_again(&uses);
            self.pieces.entry(number).and_modify(|pending| pending.piece.uses = uses);
        }
        overtakes && !is_told
    }

    /// Marks the uses of bytes again whose marks changed. The mark of a write has precedence.
    fn mark_again(&self, changed: &[Use]) {
        let all = || self.pieces.values().flat_map(|pending| &pending.piece.uses);
        for is_write in [false, true] {
            let has_changed = |it: &&Use| changed.iter().any(|use_| use_.overlaps(it));
            all().filter(|it| it.is_write == is_write).filter(has_changed).for_each(|it| {
                it.mark(false);
            });
        }
    }

    /// Chooses the duration of work for which a thread waits. Other threads and processes continue.
    pub(crate) fn lingers(&mut self) -> Duration {
        self.waits += 1;
        let chosen = mixed(self.seed, self.waits);
        let is_chosen = self.seed > 0 && (chosen / TIMES).is_multiple_of(1 + self.waits / WAITS);
        Duration::from_millis(if is_chosen { (1 << (chosen % TIMES)) >> 1 } else { 0 })
    }

    /// Returns the next needed piece that is ready. Between streams, the newest goes first, which is as far from the order of the
    /// calls as possible, with exceptions that the seed makes.
    pub(crate) fn next(&mut self) -> Option<(u64, Work)> {
        let is_there = |number: &u64| {
            let piece = &self.pieces[number].piece;
            let is_done = |(page, sequence): &Remote| page.awaits(*sequence) == Status::Done;
            piece.work.as_ref().is_some_and(Work::is_ready) && piece.remote.as_ref().is_none_or(is_done)
        };
        let rank = |number: &u64| (!self.is_exception(*number), *number);
        let number = self.ready.iter().copied().filter(is_there).max_by_key(rank)?;
        self.ready.remove(&number);
        let work = self.pieces.get_mut(&number)?.piece.work.take()?;
        self.alone += usize::from(matches!(work, Work::Unlocked(_)));
        Some((number, work))
    }

    /// Ends a piece.
    pub(crate) fn finish(&mut self, number: u64, was_alone: bool) {
        self.alone -= usize::from(was_alone);
        let Some(done) = self.pieces.remove(&number) else { return };
        done.piece.uses.iter().for_each(|it| {
            it.mark(true);
        });
        self.mark_again(&done.piece.uses);
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

    /// Advances the time by a millisecond. Requests pieces that are due, and those that other processes need. Returns true if any
    /// pieces remain.
    pub(crate) fn tick(&mut self, asked: impl Iterator<Item = u64>) -> bool {
        self.now += 1;
        let due = self.due.range(..(self.now + 1, 0)).map(|(_, number)| *number);
        let wanted: Vec<u64> = due.chain(asked).collect();
        wanted.into_iter().for_each(|number| self.want(number));
        !self.is_empty()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}
