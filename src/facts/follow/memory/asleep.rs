//! The ranges of addresses where a process unmapped memory, and whether memory is mapped there again.

use super::OwnMapping;
use crate::follow::ledger::CallSite;
use cupeer_model::{Entry, EntryHistory, IndexedTable, Table, TableEntry};
use cupeer_report::places::StackTable;

/// Number of freed ranges above which all freed ranges are forgotten at once.
const MOST_FREED: usize = 4096;

/// The unmapped ranges, by the identities of their mappings.
#[derive(Default)]
pub struct UnmappedRanges {
    ranges: IndexedTable<UnmappedRange, EndCall>,
    freed: usize,
}

/// A range where memory was unmapped.
#[derive(Clone, Copy, Default)]
pub struct UnmappedRange {
    pub bytes: u64,
    pub state: RangeState,
}

impl Entry for UnmappedRange {
    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// The call that unmapped memory, or freed the addresses.
#[derive(Default)]
pub struct EndCall(pub Option<CallSite>);

impl EntryHistory for EndCall {}

/// State of a range after memory was unmapped there: first, it is only unmapped.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum RangeState {
    #[default]
    Unmapped,
    /// Memory is mapped there again.
    MappedAgain,
    /// The reserved addresses were freed, too.
    Freed,
}

impl UnmappedRanges {
    pub fn add_unmapped(&mut self, old: &OwnMapping, call: CallSite) {
        self.remove_touching(old.name, old.bytes);
        let (state, history) = (UnmappedRange { bytes: old.bytes, state: RangeState::Unmapped }, EndCall(Some(call)));
        self.ranges.insert(TableEntry { id: old.id, name: old.name, state, history });
    }

    pub fn set_mapped_again(&mut self, start: u64, bytes: u64) {
        self.for_each_overlapping(start, bytes, |range| range.state.state = RangeState::MappedAgain);
    }

    pub fn set_freed(&mut self, start: u64, bytes: u64, call: CallSite) {
        let mut count = 0;
        self.for_each_overlapping(start, bytes, |range| {
            (range.state.state, range.history) = (RangeState::Freed, EndCall(Some(call)));
            count += 1;
        });
        self.freed += count;
        if self.freed > MOST_FREED {
            let freed = self.ranges.each().filter(|range| range.state.state == RangeState::Freed);
            let freed: Vec<_> = freed.map(|range| range.id).collect();
            freed.iter().for_each(|id| _ = self.ranges.remove(*id));
            self.freed = 0;
        }
    }

    /// Removes the ranges in addresses that are reserved again, or unmapped again.
    pub fn remove_touching(&mut self, start: u64, bytes: u64) {
        while let Some(id) = self.ranges.first_overlapping((start, bytes)).map(|range| range.id) {
            self.ranges.remove(id);
        }
    }

    fn for_each_overlapping(
        &mut self,
        start: u64,
        bytes: u64,
        mut work: impl FnMut(&mut TableEntry<UnmappedRange, EndCall>),
    ) {
        let (mut from, end) = (start, start.saturating_add(bytes));
        while let Some(id) = self.ranges.first_overlapping((from, end.saturating_sub(from))).map(|range| range.id)
            && let Some(range) = self.ranges.get(id)
        {
            work(range);
            from = range.name.saturating_add(range.bytes);
        }
    }

    /// Returns the time of the last unmapping in a range: first address, and number of bytes.
    pub fn last_unmapped_at(&self, start: u64, bytes: u64) -> Option<u64> {
        let end = start.saturating_add(bytes);
        let asleep = self.ranges.each().filter(|range| range.state.state == RangeState::Unmapped);
        asleep.filter(|range| (start..end).contains(&range.name)).filter_map(|range| Some(range.history.0?.at)).max()
    }

    /// Returns the total bytes of the ranges where no memory is mapped again.
    pub fn unmapped_bytes(&self) -> u64 {
        let asleep = self.ranges.each().filter(|range| range.state.state == RangeState::Unmapped);
        asleep.map(|range| range.bytes).sum()
    }

    /// Returns the range that contains an address.
    pub fn range_at(&self, address: u64) -> Option<&TableEntry<UnmappedRange, EndCall>> {
        self.ranges.first_overlapping((address, 1))
    }

    /// Returns a clause about the other ranges that the same place unmapped. `None` if there are none, or if memory is mapped
    /// in the range again.
    pub fn describe_other_ranges(
        &self,
        range: &TableEntry<UnmappedRange, EndCall>,
        stacks: &StackTable,
    ) -> Option<String> {
        // Some calls were recorded without a stack, only with their return address.
        let place = |by: &EndCall| {
            let (process, _, frames, python) = stacks.get(by.0?.site.stack);
            Some((*process, frames.first(), python))
        };
        let own = place(&range.history);
        let same = || self.ranges.each().filter(|other| place(&other.history) == own);
        let count = |state| same().filter(|other| other.state.state == state).count();
        let [asleep, awake] = [RangeState::Unmapped, RangeState::MappedAgain].map(count);
        let all = asleep + awake;
        let others = match (asleep, awake) {
            _ if all < 2 || range.state.state != RangeState::Unmapped => return None,
            (_, 0) => return Some(format!("none of the {all} ranges unmapped there is mapped again")),
            (1, _) => "the other one".to_owned(),
            _ => format!("one of the {asleep} others"),
        };
        let are = if awake == 1 { "is" } else { "are" };
        Some(format!(
            "of the {all} ranges unmapped there, {awake} {are} mapped again; this is {others}: map it before use"
        ))
    }
}
