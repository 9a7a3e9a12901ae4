//! Tracks what this process closed recently, to tell a second close from a wrong pointer.

use crate::sys::caller::Caller;
use crate::sys::clock;
use core::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use cupeer_spec::record::live::Entry;
use cupeer_spec::record::slot::finding::LIBRARY;

/// So many are remembered, by their addresses.
const REMEMBERED: usize = 256;

/// One mapping that was closed for good. The address is written last, and taken away first.
struct ClosedMapping {
    address: AtomicU64,
    /// The rest, as [`LastClose`] has it.
    words: [AtomicU64; WORDS],
}

const WORDS: usize = size_of::<LastClose>() / 8;

static CLOSED: [ClosedMapping; REMEMBERED] =
    [const { ClosedMapping { address: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; WORDS] } };
        REMEMBERED];
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// What is remembered of an address.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LastClose {
    pub fingerprint: u64,
    /// The context that it was open in.
    pub context: u64,
    /// When it was closed, in nanoseconds of CLOCK_MONOTONIC.
    pub monotonic: u64,
    /// Whether it went with its context: 0 or 1.
    pub with_context: u32,
    /// The thread that closed it, or ended its context; 0 where that was not seen.
    pub tid: u32,
    /// The offset in `library` of who called.
    pub offset: u64,
    pub library: [u8; LIBRARY],
}

/// Remembers that a mapping was closed, or went `with_context`, in a call of this thread's by this caller, where it is known.
pub fn note(entry: &Entry, with_context: bool, by: Option<&Caller>) {
    // SAFETY: gettid has no preconditions.
    let tid = by.map_or(0, |_| unsafe { libc::syscall(libc::SYS_gettid) } as u32);
    let last = LastClose {
        fingerprint: entry.fingerprint,
        context: entry.peer,
        monotonic: clock::now(),
        with_context: with_context.into(),
        tid,
        offset: by.map_or(0, |by| by.offset as u64),
        library: by.map_or([0; LIBRARY], Caller::file),
    };
    // SAFETY: as many words as it has, without padding.
    let words = unsafe { core::mem::transmute::<LastClose, [u64; WORDS]>(last) };
    let place = &CLOSED[NEXT.fetch_add(1, Relaxed) % REMEMBERED];
    place.address.store(0, Relaxed);
    // Who reads any of what follows sees that the address is gone.
    fence(Release);
    place.words.iter().zip(words).for_each(|(place, word)| place.store(word, Relaxed));
    place.address.store(entry.address, Release);
}

impl ClosedMapping {
    /// What is remembered here of an address.
    fn of(&self, address: u64) -> Option<LastClose> {
        if address == 0 || self.address.load(Acquire) != address {
            return None;
        }
        let words = self.words.each_ref().map(|word| word.load(Relaxed));
        // Another mapping may have taken the place meanwhile.
        fence(Acquire);
        // SAFETY: numbers and bytes, of which all are values.
        let last = unsafe { core::mem::transmute::<[u64; WORDS], LastClose>(words) };
        (self.address.load(Relaxed) == address).then_some(last)
    }
}

/// Whether an address was closed lately: the last time.
pub fn find(address: u64) -> Option<LastClose> {
    CLOSED.iter().filter_map(|place| place.of(address)).max_by_key(|last| last.monotonic)
}

/// Whether something that was open in a context went with it.
pub fn has_gone_with(context: u64) -> bool {
    let all = CLOSED.iter().filter_map(|place| place.of(place.address.load(Relaxed)));
    all.max_by_key(|last| if last.context == context { last.monotonic } else { 0 })
        .is_some_and(|last| last.context == context && last.with_context != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::record::live;

    #[test]
    fn the_last_ones_are_remembered() {
        let mut entry = Entry::from_words([0; live::WORDS]);
        for address in 1..=REMEMBERED as u64 + 3 {
            (entry.address, entry.fingerprint) = (address << 12, address);
            note(&entry, false, Some(&Caller { library: b"/lib/liba.so", offset: 0x12 }));
        }
        assert_eq!(find(3 << 12), None);
        let last = REMEMBERED as u64 + 3;
        let found = find(last << 12).expect("the last one");
        assert_eq!(
            (found.fingerprint, found.offset, found.library.starts_with(b"liba.so\0")),
            (last, 0x12, true)
        );
        // SAFETY: gettid has no preconditions.
        assert_eq!(found.tid, unsafe { libc::gettid() } as u32);
        assert_eq!(find(0), None);
        (entry.address, entry.peer) = (1, 7);
        note(&entry, false, None);
        assert!(!has_gone_with(7) && !has_gone_with(8));
        note(&entry, true, None);
        assert!(has_gone_with(7) && !has_gone_with(8));
    }
}
