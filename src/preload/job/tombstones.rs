//! Tracks ranges of addresses that this process shared, opened, or mapped, and that are gone, with the calls that ended them.
//!
//! Every copy looks for a range that it uses. So a reader takes no lock and writes nothing: it searches a sorted table, and
//! searches again if a writer changed the table in between. The few calls that end something hold a lock. Ranges in the table
//! never overlap: a new range replaces the parts of others that it covers. The table drops the oldest ranges.
//! (The live table of the job has tombstones of its own, for exports that ended: see `reclaim`.)
//!
//! The driver may hand out an address again through any function. So before a range counts as used,
//! [`is_confirmed_gone`] asks the driver whether there is memory again.

use super::live;
use crate::driver::parameters::each_word_of_parameters;
use crate::driver::{graphs, kernels, queries};
use crate::resolve::needs::HistoryCondition;
use crate::resolve::traced;
use crate::sys::book::LockedFacts;
use crate::sys::guard::guarded;
use crate::sys::program_memory;
use core::sync::atomic::{
    AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use cupeer_rules::decide::EndKind;
use cupeer_spec::record::live::{Entry, WORDS, ended, fingerprint_key, kind};

/// Number of ranges that are remembered. A new range replaces the oldest.
const MOST: usize = 1024;

/// A range of addresses that this process can no longer use.
#[derive(Clone, Copy)]
pub struct Tombstone {
    pub end_kind: EndKind,
    /// True if the range ended because its context was destroyed.
    pub with_context: bool,
    /// The call that ended the range, with the address and the size of the range, and the fingerprint of its handle.
    pub entry: Entry,
}

impl Tombstone {
    /// Empty tombstone. It is all zeros, so that a table of them takes no room in the library's file.
    const NONE: Tombstone =
        Tombstone { end_kind: EndKind::Closed, with_context: false, entry: Entry::from_words([0; WORDS]) };

    const fn end(&self) -> u64 {
        self.entry.address.saturating_add(self.entry.bytes)
    }
}

/// The ranges in the order in which they ended. When the table is full, the next range replaces the oldest.
struct TombstoneList {
    all: [Tombstone; MOST],
    next: usize,
}

static DETAILS: LockedFacts<TombstoneList> = LockedFacts::new(TombstoneList { all: [Tombstone::NONE; MOST], next: 0 });

/// The ranges sorted by address, for readers without the lock.
struct SortedRanges {
    /// Version of the table, which is odd while a writer changes it.
    version: AtomicU64,
    count: AtomicUsize,
    starts: [AtomicU64; MOST],
    ends: [AtomicU64; MOST],
    /// Index of each range in [`TombstoneList`], for readers that hold its lock.
    places: [AtomicUsize; MOST],
    /// A bit for each granule in which a range has an address, at the granule's number modulo [`GRANULES`]. Some bits remain set
    /// after ranges are dropped.
    granules: [AtomicU64; GRANULES / 64],
    /// Number of granules that were noted since the bits were last cleared. At [`GRANULES`], all bits are set, so that
    /// they rule nothing out.
    noted: AtomicUsize,
}

/// Number of bits for granules. A granule is 2 MiB, the least that a driver maps.
const GRANULES: usize = 1 << 15;
const GRANULE_SHIFT: u32 = 21;

static SORTED: SortedRanges = SortedRanges {
    version: AtomicU64::new(0),
    count: AtomicUsize::new(0),
    starts: [const { AtomicU64::new(0) }; MOST],
    ends: [const { AtomicU64::new(0) }; MOST],
    places: [const { AtomicUsize::new(0) }; MOST],
    granules: [const { AtomicU64::new(0) }; GRANULES / 64],
    noted: AtomicUsize::new(0),
};

/// Value of [`live::freed_while_open_count`] at the last [`find_freed_by_owners`].
static SEEN: AtomicU32 = AtomicU32::new(0);

/// Returns true if any range is gone, or if another process freed memory that this process may have open. If false, no call has
/// to check its memory.
#[inline(always)]
pub fn has_any() -> bool {
    SORTED.count.load(Relaxed) != 0 || live::freed_while_open_count() != SEEN.load(Relaxed)
}

/// Adds tombstones for memory that this process has open and that its owner has freed. For use in `guarded`.
#[cold]
#[inline(never)]
pub fn find_freed_by_owners() {
    SEEN.store(live::freed_while_open_count(), Relaxed);
    live::each_own(|place| {
        let export = kind::export_kind_of(place.kind())
            .filter(|export| [kind::EXPORTED_MEMORY, kind::EXPORTED_POINTER].contains(export));
        let Some((export, opened)) = export.zip(place.read()) else { return };
        let Some(freed) = live::read(fingerprint_key(export, opened.fingerprint)) else { return };
        let is_freed = freed.ended != 0 && freed.ended & ended::WITH_CONTEXT == 0;
        if is_freed && opened.count != 0 && find(opened.address).is_none() {
            let Entry { address, bytes, .. } = opened;
            // The key is not needed here, so the field holds the address of the memory in the owner's process.
            add(EndKind::FreedByOwner, false, Entry { address, bytes, key: freed.address, ..freed });
        }
    });
}

/// Returns true if memory of any process was freed since the last [`find_freed_by_owners`].
#[inline(always)]
pub fn is_scan_due() -> bool {
    live::freed_while_open_count() != SEEN.load(Relaxed)
}

/// Returns false if no byte of a range of memory is gone; a call that uses the range needs no further check. Takes a few
/// loads.
#[inline(always)]
pub fn may_range_be_gone(start: u64, bytes: u64) -> bool {
    may_any_range_be_gone(start, None, bytes)
}

/// Returns false if no byte of one or two ranges of this length is gone: see [`may_range_be_gone`].
#[inline(always)]
pub fn may_any_range_be_gone(first: u64, second: Option<u64>, bytes: u64) -> bool {
    let may_be = |start: u64| SORTED.may_have(start, start.saturating_add(bytes)) && is_any_byte_gone(start, bytes);
    SORTED.count.load(Relaxed) != 0 && (may_be(first) || second.is_some_and(may_be)) || is_scan_due()
}

/// Returns true if an address of the range is gone. More exact than the bits of granules, nearly all of which are set if all
/// memory of a device is unmapped.
#[inline(never)]
fn is_any_byte_gone(start: u64, bytes: u64) -> bool {
    first_gone_address(start, bytes).is_some()
}

/// Returns false if a launch uses no memory that is gone, by its kernel and the two ways to pass parameters.
#[inline(never)]
pub fn may_launch_use_gone(kernel: u64, parameters: u64, extra: u64) -> bool {
    let mut may = is_scan_due();
    if let Some(known) = kernels::parameters(kernel).filter(|_| !may) {
        each_word_of_parameters(known, parameters as _, extra as _, |_, word| may |= may_range_be_gone(word, 1));
    }
    may
}

/// Returns the first address of a range of memory that is gone; `None` if all of the range is there.
#[inline]
pub fn first_gone_address(start: u64, bytes: u64) -> Option<u64> {
    SORTED.find_first_address(start, start.saturating_add(bytes))
}

/// Returns true if any byte of a range of memory is gone. Queries the driver, and forgets ranges in which there is memory
/// again. Returns false if the driver does not answer, as in a host function or after a context failed. For use in `guarded`.
#[cold]
#[inline(never)]
pub fn is_confirmed_gone(start: u64, bytes: u64) -> bool {
    /// Largest number of ranges that one call forgets; the next call continues.
    const MOST_BACK: usize = 8;
    for _ in 0..MOST_BACK {
        let Some(address) = first_gone_address(start, bytes) else { return false };
        let (Some(gone), Some(memory)) = (find(address), queries::allocation_range_at(address)) else {
            return false;
        };
        let is_gone = match memory {
            // Memory that its owner has freed is still mapped in this process.
            Some(range) => gone.end_kind == EndKind::FreedByOwner && range.contains(&gone.entry.address),
            None if gone.end_kind == EndKind::FreedByOwner => return false,
            // The process may have host memory at the address, which the driver does not know: once a range is closed or freed,
            // mmap can return its addresses.
            None => !program_memory::is_readable(address as *const u8, 1),
        };
        if is_gone {
            return true;
        }
        note_memory_again(address, 1);
    }
    false
}

/// Returns true if a node of an executable graph uses memory that is gone in a way that breaks a rule. Before the launch
/// (`is_launched` is false), this includes only memory that cannot come back. Queries the driver as
/// [`is_confirmed_gone`] does. A graph without findings is not checked again until the table changes.
#[inline(never)]
pub fn is_gone_memory_in_graph(exec: u64, is_launched: bool) -> bool {
    let is_meant = |address| is_launched || find(address).is_some_and(|gone| gone.end_kind.is_lasting());
    let version = SORTED.version.load(Acquire);
    let (mut is_found, mut is_clean) = (false, true);
    if graphs::is_to_examine(exec, version) {
        graphs::each_use(exec, &mut |it| {
            if let Some(address) = first_gone_address(it.address, it.bytes) {
                is_clean = false;
                guarded(|| is_found |= is_meant(address) && is_confirmed_gone(it.address, it.bytes));
            }
        });
        if is_clean {
            graphs::note_uses_no_gone_memory(exec, version);
        }
        if is_found {
            graphs::note_uses_gone_memory(exec);
        }
    }
    is_found
}

/// Returns the newest range that contains an address.
pub fn find(address: u64) -> Option<Tombstone> {
    DETAILS.with(|details| details.overlapping(address, address.saturating_add(1)).map(|at| details.all[at])).flatten()
}

/// Adds a range, and enables tracing of the calls that could use it.
pub fn add(end_kind: EndKind, with_context: bool, entry: Entry) {
    if entry.bytes == 0 || entry.address == 0 {
        return;
    }
    let gone = Tombstone { end_kind, with_context, entry };
    DETAILS.with(|details| {
        details.cut(entry.address, gone.end());
        details.push(gone);
    });
    traced::note_condition_met(HistoryCondition::Gone);
}

/// Forgets all ranges that overlap this range of addresses, because there is memory again.
pub fn note_memory_again(start: u64, bytes: u64) {
    if first_gone_address(start, bytes).is_some() {
        DETAILS.with(|details| details.forget(start, start.saturating_add(bytes)));
    }
}

/// Forgets the ranges where memory was mapped. The other parts of ranges that were unmapped stay gone.
pub fn note_mapped(start: u64, bytes: u64) {
    if first_gone_address(start, bytes).is_some() {
        DETAILS.with(|details| details.cut(start, start.saturating_add(bytes)));
    }
}

/// Changes the unmapped ranges in a range of addresses to unreserved ones, because a call frees the reservation:
/// nothing can be mapped there again.
pub fn note_unreserved(start: u64, bytes: u64, by: &Entry) {
    let (mut from, end) = (start, start.saturating_add(bytes));
    DETAILS.with(|details| {
        while let Some(at) = details.overlapping(from, end) {
            let gone = &mut details.all[at];
            let Entry { address, bytes, .. } = gone.entry;
            from = gone.end();
            if gone.end_kind == EndKind::Unmapped {
                let entry = Entry { address, bytes, ..*by };
                *gone = Tombstone { end_kind: EndKind::Unreserved, entry, ..*gone };
            }
        }
    });
}

impl TombstoneList {
    /// Returns the index of the first range, by address, that overlaps the given range.
    fn overlapping(&self, start: u64, end: u64) -> Option<usize> {
        let at = SORTED.first_ending_after(start);
        let is_there = at < SORTED.count.load(Relaxed) && SORTED.starts[at].load(Relaxed) < end;
        is_there.then(|| SORTED.places[at].load(Relaxed) % MOST)
    }

    /// Puts a range at an index of the list.
    fn put(&mut self, place: usize, gone: Tombstone) {
        let old = core::mem::replace(&mut self.all[place], gone);
        SORTED.change(|sorted| {
            if old.entry.bytes != 0 {
                sorted.remove_overlapping(old.entry.address, old.end());
            }
            if gone.entry.bytes != 0 {
                sorted.insert(gone.entry.address, gone.end(), place);
            }
        });
    }

    /// Adds a range in place of the oldest one.
    fn push(&mut self, gone: Tombstone) {
        let place = self.next;
        self.next = (place + 1) % MOST;
        self.put(place, gone);
    }

    /// Forgets all ranges that overlap the given range.
    fn forget(&mut self, start: u64, end: u64) {
        while let Some(place) = self.overlapping(start, end) {
            self.put(place, Tombstone::NONE);
        }
    }

    /// Forgets all ranges that overlap the given range, but keeps the other parts of unmapped ranges, because a mapping can cover
    /// a part of one.
    fn cut(&mut self, start: u64, end: u64) {
        while let Some(place) = self.overlapping(start, end) {
            let old = self.all[place];
            self.put(place, Tombstone::NONE);
            for (from, to) in [(old.entry.address, start), (end, old.end())] {
                if old.end_kind == EndKind::Unmapped && from < to {
                    let rest = Tombstone { entry: Entry { address: from, bytes: to - from, ..old.entry }, ..old };
                    if self.all[place].entry.bytes == 0 { self.put(place, rest) } else { self.push(rest) }
                }
            }
        }
    }
}

/// Returns the index of the word and the mask of the bit of a granule.
#[inline(always)]
fn granule_word_and_bit(granule: u64) -> (usize, u64) {
    let hash = (granule.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - GRANULES.ilog2())) as usize;
    (hash / 64, 1 << (hash % 64))
}

/// Sets the bits of the granules of a range, or all bits if too many granules were noted. `noted` is the number of granules noted
/// so far.
fn set_granule_bits(noted: &mut usize, start: u64, end: u64, mut set: impl FnMut(usize, u64)) {
    let (first, last) = (start >> GRANULE_SHIFT, (end - 1) >> GRANULE_SHIFT);
    let all = *noted as u64 + (last - first) + 1;
    *noted = all.min(GRANULES as u64) as usize;
    if *noted == GRANULES {
        (0..GRANULES / 64).for_each(|word| set(word, !0));
    } else {
        (first..=last).map(granule_word_and_bit).for_each(|(word, bit)| set(word, bit));
    }
}

impl SortedRanges {
    /// Changes the table with `work`. The caller must hold the lock.
    fn change(&self, work: impl FnOnce(&Self)) {
        // The version is odd already if a writer never finished, as in a process that was forked during a change.
        let version = self.version.load(Relaxed) | 1;
        self.version.store(version, Relaxed);
        fence(Release);
        work(self);
        if self.noted.load(Relaxed) >= GRANULES / 2 || self.count.load(Relaxed) == 0 {
            self.rebuild_granules();
        }
        self.version.store(version.wrapping_add(1), Release);
    }

    /// Returns false if the bits of granules show that no range has an address between `start` and `end`.
    #[inline(always)]
    fn may_have(&self, start: u64, end: u64) -> bool {
        /// Largest number of granules that are checked. For more, the sorted table is searched instead.
        const MOST_TRIED: u64 = 64;
        let (first, last) = (start >> GRANULE_SHIFT, end.saturating_sub(1) >> GRANULE_SHIFT);
        let is_noted = |granule| {
            let (word, bit) = granule_word_and_bit(granule);
            self.granules[word].load(Relaxed) & bit != 0
        };
        is_noted(first) || first != last && (last.wrapping_sub(first) > MOST_TRIED || (first + 1..=last).any(is_noted))
    }

    fn note(&self, start: u64, end: u64) {
        let mut noted = self.noted.load(Relaxed);
        let set = |word: usize, bits| self.granules[word].store(self.granules[word].load(Relaxed) | bits, Relaxed);
        set_granule_bits(&mut noted, start, end, set);
        self.noted.store(noted, Relaxed);
    }

    /// Clears the bits, and notes the granules of all remaining ranges. The bit of a remaining range is set at all times.
    fn rebuild_granules(&self) {
        let (mut granules, mut noted) = ([0; GRANULES / 64], 0);
        for at in 0..self.count.load(Relaxed).min(MOST) {
            let set = |word: usize, bits: u64| granules[word] |= bits;
            set_granule_bits(&mut noted, self.starts[at].load(Relaxed), self.ends[at].load(Relaxed), set);
        }
        self.noted.store(noted, Relaxed);
        self.granules.iter().zip(granules).for_each(|(word, bits)| word.store(bits, Relaxed));
    }

    /// Returns the index of the first range that ends after an address. Each step is a conditional move, because a processor
    /// could not predict a branch.
    #[inline]
    fn first_ending_after(&self, address: u64) -> usize {
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
    fn find_first_address(&self, start: u64, end: u64) -> Option<u64> {
        /// Number of attempts. A writer takes microseconds, and a signal handler that interrupts it on its own thread must not
        /// wait for it.
        const ATTEMPTS: u32 = 64;
        // Most arguments are not addresses, and most addresses are outside of all ranges.
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
            let at = self.first_ending_after(start);
            let is_in = at < self.count.load(Relaxed).min(MOST);
            let found = if is_in { self.starts[at].load(Relaxed) } else { u64::MAX };
            fence(Acquire);
            if self.version.load(Relaxed) == version {
                return (is_in && found < end).then_some(found.max(start));
            }
        }
        None
    }

    fn remove_overlapping(&self, start: u64, end: u64) {
        let (first, count) = (self.first_ending_after(start), self.count.load(Relaxed));
        let mut last = first;
        while last < count && self.starts[last].load(Relaxed) < end {
            last += 1;
        }
        if last > first {
            for from in last..count {
                self.copy_row(from, from - (last - first));
            }
            self.count.store(count - (last - first), Relaxed);
        }
    }

    fn insert(&self, start: u64, end: u64, place: usize) {
        let (at, count) = (self.first_ending_after(start), self.count.load(Relaxed));
        if count == MOST {
            return;
        }
        for from in (at..count).rev() {
            self.copy_row(from, from + 1);
        }
        self.starts[at].store(start, Relaxed);
        self.ends[at].store(end, Relaxed);
        self.places[at].store(place, Relaxed);
        self.count.store(count + 1, Relaxed);
        self.note(start, end);
    }

    fn copy_row(&self, from: usize, to: usize) {
        self.starts[to].store(self.starts[from].load(Relaxed), Relaxed);
        self.ends[to].store(self.ends[from].load(Relaxed), Relaxed);
        self.places[to].store(self.places[from].load(Relaxed), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(end_kind: EndKind, address: u64, bytes: u64) {
        super::add(end_kind, false, Entry { address, bytes, ..Tombstone::NONE.entry });
    }

    #[test]
    fn ranges_are_found_until_they_are_back_or_forgotten() {
        assert!(!has_any() && first_gone_address(0, u64::MAX).is_none());
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
            assert_eq!(first_gone_address(start, bytes), wanted, "{start:#x} {bytes:#x}");
        }
        // The newest range replaces the others at its addresses.
        add(EndKind::Unmapped, 0x1800, 0x1000);
        assert_eq!((first_gone_address(0x1000, 0x800), first_gone_address(0x1000, 0x801)), (None, Some(0x1800)));
        assert_eq!(find(0x2000).map(|gone| gone.end_kind), Some(EndKind::Unmapped));
        note_memory_again(0x2000, 1);
        assert!(first_gone_address(0x1800, 0x1000).is_none() && find(0x1800).is_none() && find(0x3000).is_some());
        for number in 0..MOST as u64 {
            add(EndKind::Closed, 0x10000 + number * 0x20, 0x10);
        }
        assert!(find(0x3000).is_none() && first_gone_address(0x3000, 0x1000).is_none(), "the oldest one");
        for number in 0..MOST as u64 {
            let start = 0x10000 + number * 0x20;
            assert_eq!(first_gone_address(start, 0x20), Some(start));
            assert!(first_gone_address(start + 0x10, 0x10).is_none());
        }
        // Readers never see a range that is not there, and always one that is.
        std::thread::scope(|scope| {
            let work = scope.spawn(|| {
                for _ in 0..2_000 {
                    add(EndKind::Closed, 0x8000, 0x1000);
                    note_memory_again(0x8000, 0x1000);
                }
            });
            while !work.is_finished() {
                assert_eq!(first_gone_address(0x9000, 0x1000), None);
                let last = 0x10000 + (MOST as u64 - 1) * 0x20;
                assert!(find(last).is_none() || first_gone_address(last, 1) != Some(last + 1));
            }
        });
        note_memory_again(0, u64::MAX);
        assert!(!has_any());
        // A call that may use a range is always noticed, however many granules either has.
        let granule = 1 << GRANULE_SHIFT;
        let ranges = [(5, 1), (70, 3), (1 << 20, 2 * GRANULES as u64)];
        for (first_granule, count) in ranges {
            let (start, bytes) = (first_granule * granule + 0x1000, count * granule);
            add(EndKind::Unmapped, start, bytes);
            for (at, size) in [(start, 1), (start + bytes - 1, 1), (start - 1, 2), (1, start), (0, u64::MAX)] {
                assert!(may_range_be_gone(at, size), "{at:#x} {size:#x} of {start:#x} {bytes:#x}");
            }
        }
        note_memory_again((1 << 20) * granule, u64::MAX);
        add(EndKind::Closed, 0x1000, 1);
        for (first_granule, is_noted) in [(0, true), (4, false), (5, true), (6, false), (69, false), (71, true)] {
            assert_eq!(may_range_be_gone(first_granule * granule + 0x1000, 8), is_noted, "{first_granule}");
        }
        note_memory_again(0, u64::MAX);
        assert!(!has_any() && !may_range_be_gone(0, u64::MAX));
        // A mapping removes the part of an unmapped range that it covers.
        add(EndKind::Unmapped, 0x10000, 0x10000);
        note_mapped(0x14000, 0x4000);
        for (at, wanted) in [(0x10000, true), (0x13fff, true), (0x14000, false), (0x17fff, false), (0x18000, true)] {
            assert_eq!((first_gone_address(at, 1).is_some(), find(at).is_some()), (wanted, wanted), "{at:#x}");
        }
        // Mapping all of a range page by page takes no more places for its remainder.
        add(EndKind::Closed, 0x1000, 0x1000);
        add(EndKind::Unmapped, 0x100000, 0x1000 * MOST as u64);
        (0..MOST as u64).for_each(|page| note_mapped(0x100000 + page * 0x1000, 0x1000));
        assert!(first_gone_address(0x100000, u64::MAX - 0x100000).is_none() && find(0x1000).is_some());
        // The unmapped part of freed addresses cannot be mapped again.
        note_unreserved(0x10000, 0x8000, &Tombstone::NONE.entry);
        let end_kinds = [0x10000, 0x18000].map(|at| find(at).map(|gone| gone.end_kind));
        assert_eq!(end_kinds, [Some(EndKind::Unreserved), Some(EndKind::Unmapped)]);
        note_memory_again(0, u64::MAX);
        assert!(!has_any());
    }
}
