//! Tracks ranges of addresses that this process shared, opened, or mapped, and that are gone, with the calls that ended them.
//!
//! Every copy checks whether it uses one. So a reader takes no lock and writes nothing: it searches a sorted table, and searches
//! again if a writer changed the table in between. The few calls that end something hold a lock. Ranges in the table never
//! overlap: the newest one describes what ended at an address. The table drops the oldest ones.
//!
//! The driver may hand out an address again through any function. So before a range counts as used, [`is_used`] asks the driver
//! whether there is memory again.

use super::live;
use crate::driver::parameters::each_parameter;
use crate::driver::{graphs, kernels, questions};
use crate::resolve::needs::Needs;
use crate::resolve::traced;
use crate::sys::book::Book;
use crate::sys::guard::guarded;
use crate::sys::program_memory;
use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use cupeer_rules::decide::EndKind;
use cupeer_spec::record::live::{Entry, WORDS, ended, handle_key, kind};

/// So many are remembered.
const MOST: usize = 1024;

/// A range that is gone.
#[derive(Clone, Copy)]
pub struct Gone {
    pub went: EndKind,
    /// Whether it went with its context.
    pub with_context: bool,
    /// The call that ended it, with the address and the size of the range, and the fingerprint of its handle.
    pub entry: Entry,
}

impl Gone {
    /// No range. All zero, so that a table of them takes no room in the library's file.
    const NONE: Gone =
        Gone { went: EndKind::Closed, with_context: false, entry: Entry::from_words([0; WORDS]) };

    const fn end(&self) -> u64 {
        self.entry.address.saturating_add(self.entry.bytes)
    }
}

/// What is known of each range, in the order in which they ended; the next one takes the place of the oldest.
struct Details {
    all: [Gone; MOST],
    next: usize,
}

static DETAILS: Book<Details> = Book::new(Details { all: [Gone::NONE; MOST], next: 0 });

/// The same ranges by their addresses, for those who only ask whether there is one.
struct Sorted {
    /// Odd while a writer is at it.
    version: AtomicU64,
    count: AtomicUsize,
    starts: [AtomicU64; MOST],
    ends: [AtomicU64; MOST],
    /// The places of the ranges in [`Details`], for those who hold its lock.
    places: [AtomicUsize; MOST],
    /// A bit for each granule that a range has an address in, by a hash; also for some that are back.
    granules: [AtomicU64; GRANULES / 64],
    /// How many granules were noted since this was empty: at most [`GRANULES`], where they say nothing, with all bits set.
    noted: AtomicUsize,
}

/// So many bits tell granules of 2 MiB apart, which is the least that a driver maps.
const GRANULES: usize = 1 << 15;
const GRANULE_SHIFT: u32 = 21;

static SORTED: Sorted = Sorted {
    version: AtomicU64::new(0),
    count: AtomicUsize::new(0),
    starts: [const { AtomicU64::new(0) }; MOST],
    ends: [const { AtomicU64::new(0) }; MOST],
    places: [const { AtomicUsize::new(0) }; MOST],
    granules: [const { AtomicU64::new(0) }; GRANULES / 64],
    noted: AtomicUsize::new(0),
};

/// How often memory was freed that others had open, when this process last looked for what of that it has open.
static SEEN: AtomicU32 = AtomicU32::new(0);

/// Whether anything is gone, or others may have freed what this process has open: otherwise nobody has to look.
#[inline(always)]
pub fn has_any() -> bool {
    SORTED.count.load(Relaxed) != 0 || live::freed() != SEEN.load(Relaxed)
}

/// Looks for memory that this process has open, and that its owner has freed since. For use in `guarded`.
#[cold]
#[inline(never)]
pub fn look_around() {
    SEEN.store(live::freed(), Relaxed);
    live::each_own(|place| {
        let export = kind::export_of(place.kind())
            .filter(|export| [kind::EXPORTED_MEMORY, kind::EXPORTED_POINTER].contains(export));
        let Some((export, opened)) = export.zip(place.read()) else { return };
        let Some(freed) = live::read(handle_key(export, opened.fingerprint)) else { return };
        let is_freed = freed.ended != 0 && freed.ended & ended::WITH_CONTEXT == 0;
        if is_freed && opened.count != 0 && find(opened.address).is_none() {
            let Entry { address, bytes, .. } = opened;
            // The key is not needed here, but where the owner had it.
            add(EndKind::FreedByOwner, false, Entry { address, bytes, key: freed.address, ..freed });
        }
    });
}

/// Whether others may have freed what this process has open.
#[inline(always)]
pub fn is_to_look_around() -> bool {
    live::freed() != SEEN.load(Relaxed)
}

/// Whether a call that uses so many bytes from an address can use memory that is gone. If not, that is certain, and all that a
/// call needs to know. Takes a few loads.
#[inline(always)]
pub fn may_be_used(start: u64, bytes: u64) -> bool {
    may_one_be_used(start, None, bytes)
}

/// The same of so many bytes from each of one or two addresses.
#[inline(always)]
pub fn may_one_be_used(first: u64, second: Option<u64>, bytes: u64) -> bool {
    let may_be = |start: u64| SORTED.may_have(start, start.saturating_add(bytes)) && is_there(start, bytes);
    SORTED.count.load(Relaxed) != 0 && (may_be(first) || second.is_some_and(may_be)) || is_to_look_around()
}

/// Whether a range has an address that is gone. Tells granules that have the same bit apart, and parts of a granule: if all memory of
/// a device is unmapped, nearly every bit is set.
#[inline(never)]
fn is_there(start: u64, bytes: u64) -> bool {
    first(start, bytes).is_some()
}

/// The same of a launch, by its kernel and the two ways to pass parameters.
#[inline(never)]
pub fn may_be_passed(kernel: u64, parameters: u64, extra: u64) -> bool {
    let mut may = is_to_look_around();
    if let Some(known) = kernels::parameters(kernel).filter(|_| !may) {
        each_parameter(known, parameters as _, extra as _, |_, word| may |= may_be_used(word, 1));
    }
    may
}

/// The first address that is gone among so many bytes from another one.
#[inline]
pub fn first(start: u64, bytes: u64) -> Option<u64> {
    SORTED.first(start, start.saturating_add(bytes))
}

/// Whether a call that uses so many bytes from an address uses memory that is gone. Asks the driver whether memory is there
/// again, and forgets the ranges where it is. Says no if the driver does not answer: in a host function, in a context that has
/// failed. For use in `guarded`.
#[cold]
#[inline(never)]
pub fn is_used(start: u64, bytes: u64) -> bool {
    /// So many ranges that are back are looked at in one call; the next call looks at more.
    const MOST_BACK: usize = 8;
    for _ in 0..MOST_BACK {
        let Some(address) = first(start, bytes) else { return false };
        let (Some(gone), Some(there)) = (find(address), questions::memory_at(address)) else { return false };
        let is_gone = match there {
            // What its owner has freed is still there, as it was.
            Some(range) => gone.went == EndKind::FreedByOwner && range.contains(&gone.entry.address),
            None if gone.went == EndKind::FreedByOwner => return false,
            // The process may have memory of the host there since, of which the driver need not know: once a range is closed or
            // freed, mmap can return its addresses.
            None => !program_memory::is_readable(address as *const u8, 1),
        };
        if is_gone {
            return true;
        }
        is_back(address, 1);
    }
    false
}

/// Whether a node of an executable graph uses memory that is gone, so that a rule is broken: where it is launched, or before.
/// Asks the driver as [`is_used`] does; a graph that uses none is not looked at again until more is gone.
#[inline(never)]
pub fn is_used_by_graph(exec: u64, is_launched: bool) -> bool {
    let is_meant = |address| is_launched || find(address).is_some_and(|gone| gone.went.is_lasting());
    let version = SORTED.version.load(Acquire);
    let (mut is_found, mut is_clean) = (false, true);
    if graphs::is_to_look(exec, version) {
        graphs::each_use(exec, &mut |it| {
            if let Some(address) = first(it.address, it.bytes) {
                is_clean = false;
                guarded(|| is_found |= is_meant(address) && is_used(it.address, it.bytes));
            }
        });
        if is_clean {
            graphs::note_clean(exec, version);
        }
        if is_found {
            graphs::note_found(exec);
        }
    }
    is_found
}

/// What is remembered of the range that an address was in.
pub fn find(address: u64) -> Option<Gone> {
    DETAILS
        .with(|details| details.touching(address, address.saturating_add(1)).map(|at| details.all[at]))
        .flatten()
}

/// Remembers a range that is gone from here on, and lets the calls that could use it come to us.
pub fn add(went: EndKind, with_context: bool, entry: Entry) {
    if entry.bytes == 0 || entry.address == 0 {
        return;
    }
    let gone = Gone { went, with_context, entry };
    DETAILS.with(|details| {
        details.cut(entry.address, gone.end());
        details.push(gone);
    });
    traced::wake(Needs::Gone);
}

/// There is memory at so many bytes from an address again.
pub fn is_back(start: u64, bytes: u64) {
    if first(start, bytes).is_some() {
        DETAILS.with(|details| details.forget(start, start.saturating_add(bytes)));
    }
}

/// Memory is mapped at so many bytes from an address. The rest of what was unmapped with that is still gone.
pub fn is_mapped(start: u64, bytes: u64) {
    if first(start, bytes).is_some() {
        DETAILS.with(|details| details.cut(start, start.saturating_add(bytes)));
    }
}

/// The addresses of a range are given back: where something was unmapped, nothing can be mapped any more.
pub fn unreserve(start: u64, bytes: u64, by: &Entry) {
    let (mut from, end) = (start, start.saturating_add(bytes));
    DETAILS.with(|details| {
        while let Some(at) = details.touching(from, end) {
            let gone = &mut details.all[at];
            let Entry { address, bytes, .. } = gone.entry;
            from = gone.end();
            if gone.went == EndKind::Unmapped {
                *gone = Gone { went: EndKind::Unreserved, entry: Entry { address, bytes, ..*by }, ..*gone };
            }
        }
    });
}

impl Details {
    /// The place of the first range, by its address, that has an address in common with another one.
    fn touching(&self, start: u64, end: u64) -> Option<usize> {
        let at = SORTED.position(start);
        let is_there = at < SORTED.count.load(Relaxed) && SORTED.starts[at].load(Relaxed) < end;
        is_there.then(|| SORTED.places[at].load(Relaxed) % MOST)
    }

    /// Puts a range in a place.
    fn put(&mut self, place: usize, gone: Gone) {
        let old = core::mem::replace(&mut self.all[place], gone);
        SORTED.change(|sorted| {
            if old.entry.bytes != 0 {
                sorted.remove(old.entry.address, old.end());
            }
            if gone.entry.bytes != 0 {
                sorted.insert(gone.entry.address, gone.end(), place);
            }
        });
    }

    /// Puts a range in the place of the oldest one.
    fn push(&mut self, gone: Gone) {
        let place = self.next;
        self.next = (place + 1) % MOST;
        self.put(place, gone);
    }

    /// Forgets all ranges that have an address in common with another one.
    fn forget(&mut self, start: u64, end: u64) {
        while let Some(place) = self.touching(start, end) {
            self.put(place, Gone::NONE);
        }
    }

    /// The same, but keeps the rest of what was unmapped: a mapping takes the place of a part of it.
    fn cut(&mut self, start: u64, end: u64) {
        while let Some(place) = self.touching(start, end) {
            let old = self.all[place];
            self.put(place, Gone::NONE);
            for (from, to) in [(old.entry.address, start), (end, old.end())] {
                if old.went == EndKind::Unmapped && from < to {
                    let rest = Gone { entry: Entry { address: from, bytes: to - from, ..old.entry }, ..old };
                    if self.all[place].entry.bytes == 0 { self.put(place, rest) } else { self.push(rest) }
                }
            }
        }
    }
}

/// The word and the bit of a granule.
#[inline(always)]
fn place(granule: u64) -> (usize, u64) {
    let hash = (granule.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - GRANULES.ilog2())) as usize;
    (hash / 64, 1 << (hash % 64))
}

/// Sets the bits of a range, or all of them where too many granules are noted to tell any apart.
fn note_in(noted: &mut usize, start: u64, end: u64, mut set: impl FnMut(usize, u64)) {
    let (first, last) = (start >> GRANULE_SHIFT, (end - 1) >> GRANULE_SHIFT);
    let all = *noted as u64 + (last - first) + 1;
    *noted = all.min(GRANULES as u64) as usize;
    if *noted == GRANULES {
        (0..GRANULES / 64).for_each(|word| set(word, !0));
    } else {
        (first..=last).map(place).for_each(|(word, bit)| set(word, bit));
    }
}

impl Sorted {
    /// Changes the table. For the one who holds the lock.
    fn change(&self, work: impl FnOnce(&Self)) {
        // What a writer left that did not come to an end, as in a process that was forked meanwhile, is odd already.
        let version = self.version.load(Relaxed) | 1;
        self.version.store(version, Relaxed);
        fence(Release);
        work(self);
        if self.noted.load(Relaxed) >= GRANULES / 2 || self.count.load(Relaxed) == 0 {
            self.note_anew();
        }
        self.version.store(version.wrapping_add(1), Release);
    }

    /// Whether a range can have an address here, as far as the granules say.
    #[inline(always)]
    fn may_have(&self, start: u64, end: u64) -> bool {
        /// A range of more granules is searched for at once.
        const MOST_TRIED: u64 = 64;
        let (first, last) = (start >> GRANULE_SHIFT, end.saturating_sub(1) >> GRANULE_SHIFT);
        let is_noted = |granule| {
            let (word, bit) = place(granule);
            self.granules[word].load(Relaxed) & bit != 0
        };
        is_noted(first)
            || first != last && (last.wrapping_sub(first) > MOST_TRIED || (first + 1..=last).any(is_noted))
    }

    fn note(&self, start: u64, end: u64) {
        let mut noted = self.noted.load(Relaxed);
        let set =
            |word: usize, bits| self.granules[word].store(self.granules[word].load(Relaxed) | bits, Relaxed);
        note_in(&mut noted, start, end, set);
        self.noted.store(noted, Relaxed);
    }

    /// Notes the granules of the ranges that are left. Those of one that stays are noted all the time.
    fn note_anew(&self) {
        let (mut granules, mut noted) = ([0; GRANULES / 64], 0);
        for at in 0..self.count.load(Relaxed).min(MOST) {
            let set = |word: usize, bits: u64| granules[word] |= bits;
            note_in(&mut noted, self.starts[at].load(Relaxed), self.ends[at].load(Relaxed), set);
        }
        self.noted.store(noted, Relaxed);
        self.granules.iter().zip(granules).for_each(|(word, bits)| word.store(bits, Relaxed));
    }

    /// The first range that ends behind an address. Each step is a choice and no branch, which nobody could foresee.
    #[inline]
    fn position(&self, address: u64) -> usize {
        let (mut at, mut left) = (0, self.count.load(Relaxed).min(MOST));
        let is_before = |index: usize| usize::from(self.ends[index % MOST].load(Relaxed) <= address);
        while left > 1 {
            let half = left / 2;
            at += half * is_before(at + half - 1);
            left -= half;
        }
        if left == 1 { at + is_before(at) } else { 0 }
    }

    #[inline]
    fn first(&self, start: u64, end: u64) -> Option<u64> {
        /// A writer needs microseconds; whoever interrupts one on its own thread must not wait for it.
        const ATTEMPTS: u32 = 64;
        // Most words are no addresses, and most addresses lie elsewhere.
        let last = self.count.load(Relaxed).min(MOST).checked_sub(1)?;
        let is_outside = end <= self.starts[0].load(Relaxed) || self.ends[last].load(Relaxed) <= start;
        if is_outside || !self.may_have(start, end) {
            return None;
        }
        for _ in 0..ATTEMPTS {
            let version = self.version.load(Acquire);
            if version & 1 != 0 {
                core::hint::spin_loop();
                continue;
            }
            let at = self.position(start);
            let is_in = at < self.count.load(Relaxed).min(MOST);
            let found = if is_in { self.starts[at].load(Relaxed) } else { u64::MAX };
            fence(Acquire);
            if self.version.load(Relaxed) == version {
                return (is_in && found < end).then_some(found.max(start));
            }
        }
        None
    }

    fn remove(&self, start: u64, end: u64) {
        let (first, count) = (self.position(start), self.count.load(Relaxed));
        let mut last = first;
        while last < count && self.starts[last].load(Relaxed) < end {
            last += 1;
        }
        if last > first {
            for from in last..count {
                self.copy(from, from - (last - first));
            }
            self.count.store(count - (last - first), Relaxed);
        }
    }

    fn insert(&self, start: u64, end: u64, place: usize) {
        let (at, count) = (self.position(start), self.count.load(Relaxed));
        if count == MOST {
            return;
        }
        for from in (at..count).rev() {
            self.copy(from, from + 1);
        }
        self.starts[at].store(start, Relaxed);
        self.ends[at].store(end, Relaxed);
        self.places[at].store(place, Relaxed);
        self.count.store(count + 1, Relaxed);
        self.note(start, end);
    }

    fn copy(&self, from: usize, to: usize) {
        self.starts[to].store(self.starts[from].load(Relaxed), Relaxed);
        self.ends[to].store(self.ends[from].load(Relaxed), Relaxed);
        self.places[to].store(self.places[from].load(Relaxed), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(went: EndKind, address: u64, bytes: u64) {
        super::add(went, false, Entry { address, bytes, ..Gone::NONE.entry });
    }

    #[test]
    fn what_is_gone_is_found_until_it_is_back_or_forgotten() {
        assert!(!has_any() && first(0, u64::MAX).is_none());
        add(EndKind::Closed, 0x3000, 0x1000);
        add(EndKind::Closed, 0x1000, 0x1000);
        add(EndKind::Closed, 0, 0x1000);
        for (start, bytes, wanted) in [
            (0x1000, 1, Some(0x1000)),
            (0x1fff, 1, Some(0x1fff)),
            (0x2000, 0x1000, None),
            (0x2000, 0x1001, Some(0x3000)),
            (0, 0x1000, None),
            (0x4000, 8, None),
            (0xfff, u64::MAX, Some(0x1000)),
        ] {
            assert_eq!(first(start, bytes), wanted, "{start:#x} {bytes:#x}");
        }
        // What ended last at an address is what is said of it.
        add(EndKind::Unmapped, 0x1800, 0x1000);
        assert_eq!((first(0x1000, 0x800), first(0x1000, 0x801)), (None, Some(0x1800)));
        assert_eq!(find(0x2000).map(|gone| gone.went), Some(EndKind::Unmapped));
        is_back(0x2000, 1);
        assert!(first(0x1800, 0x1000).is_none() && find(0x1800).is_none() && find(0x3000).is_some());
        for number in 0..MOST as u64 {
            add(EndKind::Closed, 0x10000 + number * 0x20, 0x10);
        }
        assert!(find(0x3000).is_none() && first(0x3000, 0x1000).is_none(), "the oldest one");
        for number in 0..MOST as u64 {
            let start = 0x10000 + number * 0x20;
            assert_eq!(first(start, 0x20), Some(start));
            assert!(first(start + 0x10, 0x10).is_none());
        }
        // Readers never see a range that is not there, and always one that is.
        std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                for _ in 0..2_000 {
                    add(EndKind::Closed, 0x8000, 0x1000);
                    is_back(0x8000, 0x1000);
                }
            });
            while !work.is_finished() {
                assert_eq!(first(0x9000, 0x1000), None);
                let last = 0x10000 + (MOST as u64 - 1) * 0x20;
                assert!(find(last).is_none() || first(last, 1) != Some(last + 1));
            }
        });
        is_back(0, u64::MAX);
        assert!(!has_any());
        // A call that may use one is never taken for one that cannot, however many granules either has.
        let granule = 1 << GRANULE_SHIFT;
        let ranges = [(5, 1), (70, 3), (1 << 20, 2 * GRANULES as u64)];
        for (first_granule, count) in ranges {
            let (start, bytes) = (first_granule * granule + 0x1000, count * granule);
            add(EndKind::Unmapped, start, bytes);
            for (at, size) in [(start, 1), (start + bytes - 1, 1), (start - 1, 2), (1, start), (0, u64::MAX)]
            {
                assert!(may_be_used(at, size), "{at:#x} {size:#x} of {start:#x} {bytes:#x}");
            }
        }
        is_back((1 << 20) * granule, u64::MAX);
        add(EndKind::Closed, 0x1000, 1);
        for (first_granule, is_noted) in
            [(0, true), (4, false), (5, true), (6, false), (69, false), (71, true)]
        {
            assert_eq!(may_be_used(first_granule * granule + 0x1000, 8), is_noted, "{first_granule}");
        }
        is_back(0, u64::MAX);
        assert!(!has_any() && !may_be_used(0, u64::MAX));
        // A mapping takes out the part of what was unmapped that it covers.
        add(EndKind::Unmapped, 0x10000, 0x10000);
        is_mapped(0x14000, 0x4000);
        for (at, wanted) in
            [(0x10000, true), (0x13fff, true), (0x14000, false), (0x17fff, false), (0x18000, true)]
        {
            assert_eq!((first(at, 1).is_some(), find(at).is_some()), (wanted, wanted), "{at:#x}");
        }
        // Whoever maps all of it bit by bit needs no more room for the rest.
        add(EndKind::Closed, 0x1000, 0x1000);
        add(EndKind::Unmapped, 0x100000, 0x1000 * MOST as u64);
        (0..MOST as u64).for_each(|page| is_mapped(0x100000 + page * 0x1000, 0x1000));
        assert!(first(0x100000, u64::MAX - 0x100000).is_none() && find(0x1000).is_some());
        // What is still unmapped of freed addresses is gone with them.
        unreserve(0x10000, 0x8000, &Gone::NONE.entry);
        let went = [0x10000, 0x18000].map(|at| find(at).map(|gone| gone.went));
        assert_eq!(went, [Some(EndKind::Unreserved), Some(EndKind::Unmapped)]);
        is_back(0, u64::MAX);
        assert!(!has_any());
    }
}
