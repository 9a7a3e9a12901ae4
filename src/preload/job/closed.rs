//! Remembers the mappings that this process closed last, to tell a second close from a wrong pointer.

use crate::sys::book::LockedFacts;
use crate::sys::caller::Caller;
use crate::sys::clock;
use crate::sys::process::tid;
use cupeer_rules::decide::ClosedBy;
use cupeer_spec::record::live::Entry;

/// Number of closes that are remembered. A new close replaces the oldest.
const REMEMBERED: usize = 256;

/// The close of a mapping of another process's memory.
#[derive(Clone, Copy)]
pub struct LastClose {
    address: u64,
    pub fingerprint: u64,
    /// Context in which the mapping was open.
    context: u64,
    /// The time of the close, in nanoseconds of CLOCK_MONOTONIC.
    pub monotonic: u64,
    /// True if the mapping ended because its context was destroyed.
    pub with_context: bool,
    /// The call that closed the mapping or destroyed its context; `None` if no such call was seen.
    pub by: Option<ClosedBy>,
}

/// The last closes of this process. When the list is full, the next close replaces the oldest.
struct LastCloses {
    all: [LastClose; REMEMBERED],
    next: usize,
}

impl LastCloses {
    fn iter(&self) -> impl Iterator<Item = &LastClose> {
        self.all.iter().filter(|close| close.address != 0)
    }
}

const NONE: LastClose =
    LastClose { address: 0, fingerprint: 0, context: 0, monotonic: 0, with_context: false, by: None };

/// The initial value is all zeros, so that the table takes no room in the library's file.
static CLOSES: LockedFacts<LastCloses> = LockedFacts::new(LastCloses { all: [NONE; REMEMBERED], next: 0 });

/// Remembers that a mapping was closed, or ended `with_context`. `by` is the caller of this thread's call that did so; `None` if
/// no call was seen.
pub fn note(entry: &Entry, with_context: bool, by: Option<&Caller>) {
    let by = by.map(|by| ClosedBy { tid: tid(), library: by.file_name_array(), offset: by.offset as u64 });
    let Entry { address, fingerprint, peer: context, .. } = *entry;
    let close = LastClose { address, fingerprint, context, monotonic: clock::now(), with_context, by };
    CLOSES.with(|closes| {
        closes.all[closes.next] = close;
        closes.next = (closes.next + 1) % REMEMBERED;
    });
}

/// Returns the last remembered close of a mapping at an address.
pub fn find(address: u64) -> Option<LastClose> {
    let last = |closes: &mut LastCloses| {
        closes.iter().filter(|close| close.address == address).max_by_key(|close| close.monotonic).copied()
    };
    CLOSES.with(last).flatten()
}

/// Returns true if the last close in a context was that of a mapping which ended because the context was destroyed.
pub fn has_closed_with_context(context: u64) -> bool {
    let last = |closes: &mut LastCloses| {
        let in_context = closes.iter().filter(|close| close.context == context);
        in_context.max_by_key(|close| close.monotonic).is_some_and(|close| close.with_context)
    };
    CLOSES.with(last) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::record::live;

    #[test]
    fn the_last_closes_are_remembered() {
        let mut entry = Entry::from_words([0; live::WORDS]);
        for address in 1..=REMEMBERED as u64 + 3 {
            (entry.address, entry.fingerprint) = (address << 12, address);
            note(&entry, false, Some(&Caller { library: b"/lib/liba.so", offset: 0x12 }));
        }
        assert!(find(3 << 12).is_none());
        let last = REMEMBERED as u64 + 3;
        let found = find(last << 12).expect("the last one");
        let by = found.by.expect("its call");
        assert_eq!((found.fingerprint, by.offset, by.library.starts_with(b"liba.so\0")), (last, 0x12, true));
        assert_eq!(by.tid, tid());
        assert!(find(0).is_none());
        (entry.address, entry.peer) = (1, 7);
        note(&entry, false, None);
        assert!(!has_closed_with_context(7) && !has_closed_with_context(8));
        note(&entry, true, None);
        assert!(has_closed_with_context(7) && !has_closed_with_context(8));
    }
}
