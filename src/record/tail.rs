//! Follows the file of a process that is running: the number of its calls, failed calls, and calls in progress.
//!
//! Only new slots are read, plus the calls that had not returned and the headers of blocks that are being written. So
//! an update costs as much as happened since the last one. [`crate::events`] interprets and orders calls.

use crate::index;
use crate::process::Process;
use crate::reader::{first_word, is_slot};
use crate::scan;
use crate::source::OpenSource;
use cupeer_spec::effect::Effect;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::{self, Slot, has_appeared, settled_word};
use cupeer_spec::record::{self, BLOCK_MAGIC, BlockHeader, Header, SLOTS, block, mode};
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

const SLOT: usize = size_of::<Slot>();
/// Number of slots of an open block that are read first. The rest is read only if these are new.
const FEW: usize = 64;
/// Largest number of unwritten slots that can precede written ones.
const MOST_SKIPPED: usize = 16;
/// Number of queries and failures that are remembered per thread. A repetition of one of them brings nothing new.
const MOST_KNOWN: usize = 16;
/// The base of a block whose slots have moved to a chunk.
const NOWHERE: u64 = u64::MAX;

/// Call that has not returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unreturned {
    /// Number of the function in the record, for [`Process::function_name`].
    pub function: u16,
    /// Thread id of the caller.
    pub tid: u32,
    /// Time when the call was forwarded, in ticks of the record's clock.
    pub start: u64,
}

/// Number of calls, and number of failed ones.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Number of calls.
    pub calls: u64,
    /// Number of calls whose result was not CUDA_SUCCESS.
    pub failed: u64,
}

/// Reader that follows the file of a process while the process writes to it.
pub struct Follower {
    file: OpenSource,
    header: Header,
    /// Number of the block before which all blocks are known.
    settled: u32,
    /// Known blocks among those from `settled` on.
    ahead: HashSet<u32>,
    /// Blocks that are written to.
    open: Vec<Place>,
    /// Open blocks that became chunks after they were read. Their chunks were not found yet.
    left: Vec<Place>,
    /// Chunks that existed before the first look, and were not read yet.
    history: Vec<Chunk>,
    /// Base of the last chunk that was found, by stream.
    last: HashMap<u32, u64>,
    is_new: bool,
    stats: CallStats,
    /// Ring streams, by number.
    rings: HashMap<u32, RingReads>,
    /// Number of slots that were overwritten unread, and the estimated number of calls in them (`estimated`).
    unread: u64,
    estimated: u64,
    buffer: Vec<u8>,
}

/// A chunk that was found: another one may take its place.
struct Chunk {
    number: u32,
    base: u64,
}

/// Reading position in a block.
#[derive(Clone, Default)]
struct Place {
    number: u32,
    stream: u32,
    base: u64,
    /// Index in the block of the next slot to read.
    at: usize,
    /// Thread id of the writer of the slot before the next one.
    tid: u32,
    /// Earlier slots that may change: calls that had not returned, and unwritten slots.
    again: Vec<Reread>,
}

/// Slots of a ring stream that were seen.
struct RingReads {
    /// Number of the first slot that existed when the stream was first read.
    first: u64,
    /// Number behind the last slot that was read.
    end: u64,
    /// Number of slots that were read.
    read: u64,
}

/// Slot to read again.
#[derive(Clone, Copy)]
struct Reread {
    at: usize,
    /// True if the slot holds a call that was counted.
    is_counted: bool,
}

#[derive(Default)]
struct CallStats {
    counts: Counts,
    /// Part of `counts` that existed before the first look.
    old: Counts,
    unreturned: HashMap<(u32, u64), Unreturned>,
    /// Results of ended calls whose slots were not read yet.
    ends: HashMap<(u32, u64), i32>,
    /// Number of calls of a run that were counted, including the one in flight, while its slot may change.
    runs: HashMap<(u32, u64), Counts>,
    /// True for functions that only query, by their number.
    queries: Vec<bool>,
    /// Hashes of the last queries and failures, by stream.
    known: HashMap<u32, VecDeque<u64>>,
    /// Number of calls that brought something new.
    fruitful: u64,
}

impl Follower {
    /// Creates a follower of a process. It reads nothing before [`Follower::look`].
    ///
    /// # Examples
    ///
    /// ```no_run
    /// use cupeer_record::{Follower, Process};
    ///
    /// let process = Process::open(std::path::Path::new("recording/PROC.cupeer"))?;
    /// let mut follower = Follower::new(&process)?;
    /// follower.look(64)?;
    /// println!("{} calls so far, {} failed", follower.counts().calls, follower.counts().failed);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(process: &Process) -> io::Result<Follower> {
        Ok(Follower {
            file: process.source.open()?,
            header: process.header,
            settled: 1,
            ahead: HashSet::new(),
            open: Vec::new(),
            left: Vec::new(),
            history: Vec::new(),
            last: HashMap::new(),
            is_new: true,
            stats: CallStats { queries: process.functions.iter().map(is_query).collect(), ..CallStats::default() },
            rings: HashMap::new(),
            unread: 0,
            estimated: 0,
            buffer: Vec::new(),
        })
    }

    /// Reads everything new, and up to `most` blocks from before the first call. Returns the number of these.
    pub fn look(&mut self, most: usize) -> io::Result<usize> {
        self.header = crate::read::read_header(&self.file).map_err(io::Error::other)?;
        for place in std::mem::take(&mut self.open) {
            self.read_open(place)?;
        }
        // In a file at its size limit, new chunks replace old ones.
        let is_bounded = self.header.mode == mode::BOUNDED;
        let first = if is_bounded { 1 } else { self.settled };
        let mut found = Vec::new();
        let settled = scan::scan_blocks(&self.file, first, |block| found.push((block.number, block.header)))?;
        let last = self.last.clone();
        for (number, header) in found {
            let is_chunk = header.kind == block::CHUNK;
            if is_chunk {
                let end = self.last.entry(header.stream).or_insert(header.base);
                *end = header.base.max(*end);
            }
            if is_bounded && number < self.settled {
                let is_old = last.get(&header.stream).is_some_and(|last| header.base <= *last);
                if is_chunk && header.used > 0 && !is_old {
                    self.read_chunk(number, &header)?;
                }
                continue;
            }
            if number >= settled && !self.ahead.insert(number) || self.ahead.contains(&number) && number < settled {
                continue;
            }
            match header.kind {
                block::CHUNK if header.used == 0 => {}
                block::CHUNK if self.is_new && !self.open.iter().any(|open| open.is(&header)) => {
                    self.history.push(Chunk { number, base: header.base });
                }
                block::CHUNK => self.read_chunk(number, &header)?,
                block::WINDOW | block::RING => self.read_open(Place { number, ..Place::begun(&header) })?,
                _ => {}
            }
        }
        // A block that is being rewritten is not valid in between.
        self.settled = if is_bounded { settled.max(self.settled) } else { settled };
        self.ahead.retain(|number| *number >= self.settled);
        if is_bounded {
            // A block that is in no chunk now was overwritten.
            for place in std::mem::take(&mut self.left) {
                self.forget_rereads(&place);
            }
        }
        self.estimate_unread();
        if std::mem::take(&mut self.is_new) {
            self.stats.old = self.stats.counts;
        }
        self.read_history(most)
    }

    /// Returns the header of the file at the last [`Follower::look`].
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the numbers of calls read so far. In a ring, slots that were overwritten between two reads are
    /// estimated from the calls among as many slots read before.
    pub fn counts(&self) -> Counts {
        let Counts { calls, failed } = self.stats.counts;
        Counts { calls: calls.saturating_add(self.estimated), failed }
    }

    /// Returns the number of calls that brought something new: not queries and failures that repeat one of their thread.
    pub fn productive_calls(&self) -> u64 {
        self.stats.fruitful
    }

    /// Estimates the number of calls in slots that were overwritten since the last look. Earlier estimates stay, so
    /// that the counts do not decrease if later calls take more slots. Slots that turn out to exist are subtracted.
    fn estimate_unread(&mut self) {
        let (before, now) = (self.unread, self.unread_slots());
        let read = self.rings.values().map(|ring| ring.read).sum();
        let part = |whole: u64, of: u64, all: u64| {
            u64::try_from(u128::from(whole) * u128::from(of) / u128::from(all.max(1))).unwrap_or(u64::MAX)
        };
        let kept = part(self.estimated, now.min(before), before);
        let more = part(self.stats.counts.calls, now.saturating_sub(before), read);
        (self.unread, self.estimated) = (now, kept.saturating_add(more));
    }

    /// Returns the part of [`Follower::counts`] that happened since the first [`Follower::look`].
    pub fn recent_counts(&self) -> Counts {
        let (all, old) = (self.counts(), self.stats.old);
        Counts { calls: all.calls.saturating_sub(old.calls), failed: all.failed.saturating_sub(old.failed) }
    }

    /// Returns true if [`Follower::counts`] has all calls of the process.
    pub fn is_complete(&self) -> bool {
        let has_begin = self.rings.iter().all(|(stream, ring)| ring.first <= record::first_ring_number(*stream));
        if self.header.mode == mode::BOUNDED {
            return false;
        }
        // All slots of a finished thread may be overwritten.
        let has_all = self.header.mode != mode::RING || self.rings.len() >= self.header.next_stream as usize;
        let is_whole = has_begin && has_all;
        self.history.is_empty() && self.header.lost == 0 && is_whole && self.unread_slots() == 0
    }

    /// Returns the number of blocks from before the first [`Follower::look`] that are still unread.
    pub fn unread_blocks(&self) -> usize {
        self.history.len()
    }

    /// Returns the calls that have not returned, in no particular order.
    pub fn unreturned(&self) -> impl Iterator<Item = &Unreturned> {
        self.stats.unreturned.values()
    }

    /// Returns the number of slots of rings that were overwritten before they were read, in all looks so far.
    fn unread_slots(&self) -> u64 {
        let of = |ring: &RingReads| (ring.end - ring.first).saturating_sub(ring.read);
        self.rings.values().map(of).fold(0, u64::saturating_add)
    }

    /// Reads up to `most` chunks that existed before the first look.
    fn read_history(&mut self, most: usize) -> io::Result<usize> {
        let before = self.stats.counts;
        let from = self.history.len().saturating_sub(most);
        let blocks = self.history.split_off(from);
        for Chunk { number, base } in &blocks {
            if let Some(header) = self.read_head(*number)?.filter(|header| header.base == *base) {
                self.read_chunk(*number, &header)?;
            }
        }
        let now = self.stats.counts;
        self.stats.old.calls += now.calls - before.calls;
        self.stats.old.failed += now.failed - before.failed;
        Ok(blocks.len())
    }

    /// Reads the slots of a chunk that were not read while it was open.
    fn read_chunk(&mut self, number: u32, header: &BlockHeader) -> io::Result<()> {
        let mut place = Place::begun(header);
        if let Some(i) = self.left.iter().position(|left| left.is(header)) {
            place = self.left.swap_remove(i);
        } else if let Some(i) = self.open.iter().position(|open| open.is(header)) {
            // The block was just left. Its successor is found at the next look.
            let open = &mut self.open[i];
            place = std::mem::replace(open, Place { number: open.number, base: NOWHERE, ..Place::default() });
        }
        let used = index::used_slots(header);
        let before = place.clone();
        for again in std::mem::take(&mut place.again) {
            self.read(number, again.at, 1)?;
            self.reread(&mut place, again, None);
            self.stats.runs.remove(&(place.stream, place.number_of(again.at)));
        }
        let from = place.at;
        self.read(number, from, used.saturating_sub(from))?;
        // Another chunk may have replaced it.
        if self.read_head(number)?.is_some_and(|now| now.still_is(block::CHUNK, header.stream, header.base)) {
            self.count_slots(&mut place, from, None);
        } else {
            self.forget_rereads(&before);
        }
        Ok(())
    }

    /// Forgets the slots of a block that were to be read again. The ends of these calls are lost.
    fn forget_rereads(&mut self, place: &Place) {
        for again in &place.again {
            let key = (place.stream, place.number_of(again.at));
            self.stats.unreturned.remove(&key);
            self.stats.runs.remove(&key);
        }
    }

    /// Reads on in a block that is written to.
    fn read_open(&mut self, mut place: Place) -> io::Result<()> {
        let Some(header) = self.read_head(place.number)? else {
            self.open.push(place);
            return Ok(());
        };
        let has_chunk = self.last.get(&header.stream).is_some_and(|last| header.base <= *last);
        if place.base == NOWHERE && has_chunk && header.kind == block::WINDOW {
            // The thread wrote the chunk, and is about to reuse the window.
            self.open.push(place);
            return Ok(());
        }
        if header.kind == block::CHUNK && place.is(&header) {
            // The window became a chunk in place.
            let number = place.number;
            self.left.push(place);
            return self.read_chunk(number, &header);
        }
        if !place.is(&header) {
            if self.header.mode == mode::RING {
                // A thread keeps its block during a call, unless it makes nested calls.
                self.forget_rereads(&place);
            } else if place.base != NOWHERE {
                self.left.push(place.clone());
            }
            place = Place { number: place.number, ..Place::begun(&header) };
        }
        let (begin, before) = (place.at, std::mem::take(&mut place.again));
        let mut count = FEW;
        while place.at < SLOTS {
            let from = place.at;
            let Some(words) = self.read_twice(&place, &header, from, count)? else { break };
            self.count_slots(&mut place, from, Some(&words));
            if place.at == from || place.at + MOST_SKIPPED < (from + count).min(SLOTS) {
                break;
            }
            count = SLOTS;
        }
        for again in before {
            match self.read_twice(&place, &header, again.at, 1)? {
                Some(words) => self.reread(&mut place, again, Some(words[0])),
                None => place.again.push(again),
            }
        }
        if header.kind == block::RING {
            self.note_ring(&place, begin);
        }
        self.open.push(place);
        Ok(())
    }

    /// Reads slots of an open block twice. Returns the first words of the first reading; `None` if the block moved on.
    fn read_twice(
        &mut self,
        place: &Place,
        header: &BlockHeader,
        from: usize,
        count: usize,
    ) -> io::Result<Option<Vec<u64>>> {
        let count = count.min(SLOTS - from);
        self.read(place.number, from, count)?;
        let mut words: Vec<u64> = self.buffer.chunks_exact(SLOT).map(first_word).collect();
        words.resize(count, 0);
        self.read(place.number, from, count)?;
        let seq = |i: usize| place.number_of(from + i) as u32;
        let mut read = self.buffer.chunks_exact(SLOT).zip(&words).enumerate();
        if let Some(i) = read.position(|(i, (now, first))| has_appeared(*first, first_word(now), seq(i))) {
            self.buffer.truncate(i * SLOT);
        }
        let now = self.read_head(place.number)?;
        Ok(now.filter(|now| now.still_is(header.kind, place.stream, place.base)).map(|_| words))
    }

    /// Processes the slots from the next one on. For an open block, `words` has the first words of an earlier reading.
    fn count_slots(&mut self, place: &mut Place, from: usize, words: Option<&[u64]>) {
        let mut i = 0;
        while let Some(slot) = self.slot_at(place, from, i, words.map(|words| words.get(i).copied().unwrap_or(0))) {
            let at = from + i;
            i += 1;
            let Some(slot) = slot else { continue };
            // The thread may still write to slots that were skipped.
            let skipped = (place.at..at).map(|at| Reread { at, is_counted: false });
            place.again.extend(skipped.filter(|_| words.is_some()));
            if !self.stats.count_slot(place, at, &slot) {
                if words.is_some() {
                    place.again.push(Reread { at, is_counted: true });
                } else {
                    // Slots in a chunk no longer change.
                    self.stats.runs.remove(&(place.stream, place.number_of(at)));
                }
            }
            i = at - from + slot.slot_count().max(1);
            place.at = (from + i).min(SLOTS);
        }
    }

    /// Reads a slot again.
    fn reread(&mut self, place: &mut Place, again: Reread, word: Option<u64>) {
        let slot = self.slot_at(place, again.at, 0, word).flatten();
        let is_done = match slot {
            Some(slot) if again.is_counted => self.stats.recount_slot(place, again.at, &slot),
            Some(slot) => self.stats.count_slot(place, again.at, &slot),
            None => false,
        };
        if !is_done && word.is_some() {
            place.again.push(Reread { is_counted: slot.is_some(), ..again });
        }
    }

    /// Returns a slot that was read if it was written; `None` behind the last.
    fn slot_at(&self, place: &Place, from: usize, i: usize, word: Option<u64>) -> Option<Option<Slot>> {
        let mut slot: Slot = self.buffer.get(i * SLOT..).and_then(record::read_plain)?;
        let seq = place.number_of(from + i) as u32;
        slot.word = word.map_or(slot.word, |word| settled_word(word, slot.word, seq));
        Some(Some(slot).filter(|slot| slot.seq() == seq && is_slot(slot)))
    }

    /// Notes how far a block of a ring was read.
    fn note_ring(&mut self, place: &Place, from: usize) {
        let (first, end) = (place.base, place.base.saturating_add(place.at as u64));
        let ring = self.rings.entry(place.stream).or_insert(RingReads { first, end, read: 0 });
        ring.read += (place.at - from) as u64;
        ring.end = ring.end.max(end);
        if self.is_new {
            ring.first = ring.first.min(first);
        }
    }

    fn read(&mut self, number: u32, from: usize, count: usize) -> io::Result<()> {
        self.buffer.resize(count * SLOT, 0);
        let had = self.file.read(&mut self.buffer, scan::start(number) + ((1 + from) * SLOT) as u64)?;
        self.buffer.truncate(had);
        Ok(())
    }

    fn read_head(&self, number: u32) -> io::Result<Option<BlockHeader>> {
        let mut bytes = [0; size_of::<BlockHeader>()];
        self.file.read(&mut bytes, scan::start(number))?;
        Ok(record::read_plain(&bytes).filter(|header: &BlockHeader| header.magic == BLOCK_MAGIC))
    }
}

impl Place {
    /// Returns the position at the beginning of a block.
    fn begun(header: &BlockHeader) -> Place {
        Place { stream: header.stream, base: header.base, tid: header.tid, ..Place::default() }
    }

    /// Returns the number of a slot in its stream.
    fn number_of(&self, at: usize) -> u64 {
        self.base.saturating_add(at as u64)
    }

    /// Returns true if a block holds the same slots as when this position was reached.
    fn is(&self, header: &BlockHeader) -> bool {
        (self.stream, self.base) == (header.stream, header.base)
    }
}

/// Returns true if a function of a recording changes nothing.
fn is_query((name, _): &(String, u16)) -> bool {
    let spec = FnId::all().map(FnId::spec).find(|spec| spec.name() == name);
    let asks = |effect: &Effect| matches!(effect, Effect::Asks(_) | Effect::LooksUp(_));
    spec.is_some_and(|spec| spec.effects().iter().all(asks))
}

impl CallStats {
    /// Counts a call that has returned, if it brought something new.
    fn count_news(&mut self, stream: u32, slot: &Slot, result: i32) {
        let is_query = self.queries.get(usize::from(slot.function())).is_some_and(|is_query| *is_query);
        if is_query || result != 0 {
            let mut hasher = DefaultHasher::new();
            (slot.function(), result, slot.args, slot.caller >> 48).hash(&mut hasher);
            let (hash, known) = (hasher.finish(), self.known.entry(stream).or_default());
            if known.contains(&hash) {
                return;
            }
            known.truncate(MOST_KNOWN - 1);
            known.push_front(hash);
        }
        self.fruitful += 1;
    }

    /// Adds a slot. Returns false for a call that has not returned.
    fn count_slot(&mut self, place: &mut Place, at: usize, slot: &Slot) -> bool {
        let key = (place.stream, place.number_of(at));
        match slot.state() {
            slot::PENDING => {
                self.counts.calls += 1;
                if let Some(result) = self.ends.remove(&key) {
                    self.counts.failed += u64::from(result != 0);
                } else {
                    let call = Unreturned { function: slot.function(), tid: place.tid, start: slot.start };
                    self.unreturned.insert(key, call);
                    return false;
                }
            }
            slot::RETURNED => {
                self.counts.calls += 1;
                self.counts.failed += u64::from(slot.result != 0);
                self.count_news(place.stream, slot, slot.result);
            }
            slot::UNWOUND => self.counts.calls += 1,
            slot::LATE_END => {
                let key = (place.stream, slot.start);
                self.count_news(place.stream, slot, slot.result);
                if self.unreturned.remove(&key).is_some() {
                    self.counts.failed += u64::from(slot.result != 0);
                } else {
                    self.ends.insert(key, slot.result);
                }
            }
            slot::RUN => {
                self.count_run(place, at, slot);
                return false;
            }
            slot::THREAD => place.tid = slot.end as u32,
            _ => {}
        }
        true
    }

    /// Counts the new calls of a run.
    fn count_run(&mut self, place: &Place, at: usize, slot: &Slot) {
        let (key, run) = ((place.stream, place.number_of(at)), slot::RepeatedCalls::from_slot(slot));
        let flying = run.in_flight_since();
        let now = Counts { calls: run.call_count() + u64::from(flying.is_some()), failed: run.call_count() };
        let before = self.runs.insert(key, now).unwrap_or_default();
        self.counts.calls = self.counts.calls.saturating_sub(before.calls).saturating_add(now.calls);
        self.counts.failed = self.counts.failed.saturating_sub(before.failed).saturating_add(now.failed);
        match flying {
            Some(start) => {
                if let Some(result) = self.ends.remove(&key) {
                    self.counts.failed += u64::from(result != 0);
                } else {
                    let call = Unreturned { function: slot.function(), tid: place.tid, start };
                    self.unreturned.insert(key, call);
                }
            }
            None => drop(self.unreturned.remove(&key)),
        }
    }

    /// Reads the slot of a pending call again. Returns false if the call is still pending.
    fn recount_slot(&mut self, place: &Place, at: usize, slot: &Slot) -> bool {
        let key = (place.stream, place.number_of(at));
        if slot.state() == slot::RUN {
            self.count_run(place, at, slot);
            return false;
        }
        let is_open = slot.state() == slot::PENDING;
        if !is_open && self.unreturned.remove(&key).is_some() {
            self.count_news(place.stream, slot, slot.result);
            self.counts.failed += u64::from(slot.state() == slot::RETURNED && slot.result != 0);
        }
        !is_open || !self.unreturned.contains_key(&key)
    }
}
