//! Remembers the mappings that this process closed last, to tell a second close from a wrong pointer.

use crate::sys::book::Book;
use crate::sys::caller::Caller;
use crate::sys::clock;
use crate::sys::process::tid;
use cupeer_rules::decide::ClosedBy;
use cupeer_spec::record::live::Entry;

/// The number of closes that are remembered.
const REMEMBERED: usize = 256;

/// A close of a mapping.
#[derive(Clone, Copy)]
pub struct LastClose {
    address: u64,
    pub fingerprint: u64,
    /// The context that the mapping was open in.
    context: u64,
    /// The time of the close, in nanoseconds of CLOCK_MONOTONIC.
    pub monotonic: u64,
    /// True if the mapping ended with its context.
    pub with_context: bool,
    /// The call that closed it, or ended its context; `None` if no call was seen.
    pub by: Option<ClosedBy>,
}

/// The last closes; the next one takes the place of the oldest.
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

/// All zero, so that it takes no room in the library's file.
static CLOSES: Book<LastCloses> = Book::new(LastCloses { all: [NONE; REMEMBERED], next: 0 });

/// Remembers that a mapping was closed, or ended `with_context`, in a call of this thread by this caller, if a call was seen.
pub fn note(entry: &Entry, with_context: bool, by: Option<&Caller>) {
    let by = by.map(|by| ClosedBy { tid: tid(), library: by.file(), offset: by.offset as u64 });
    let Entry { address, fingerprint, peer: context, .. } = *entry;
    let close = LastClose { address, fingerprint, context, monotonic: clock::now(), with_context, by };
    CLOSES.with(|closes| {
        closes.all[closes.next] = close;
        closes.next = (closes.next + 1) % REMEMBERED;
    });
}

/// Returns the last close at an address.
pub fn find(address: u64) -> Option<LastClose> {
    let last = |closes: &mut LastCloses| {
        closes.iter().filter(|close| close.address == address).max_by_key(|close| close.monotonic).copied()
    };
    CLOSES.with(last).flatten()
}

/// Returns true if the last mapping that was closed in a context ended with it.
pub fn has_gone_with(context: u64) -> bool {
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
        assert!(!has_gone_with(7) && !has_gone_with(8));
        note(&entry, true, None);
        assert!(has_gone_with(7) && !has_gone_with(8));
    }
}
