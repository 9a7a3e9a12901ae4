//! An entry of the live table ([`cupeer_spec::record::live`]), which any process of the job may read, take,
//! and give up at any time.

use crate::atomic::{
    AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
    fence,
};
use cupeer_spec::record::live::{KEY, LAPS, Uses, next_lap, state};

/// References to the words of one entry of the table: its key, and all of its words. The first word, called *the
/// word* of the entry, holds its owner, its lap, and its state.
#[derive(Clone, Copy, Debug)]
pub struct EntrySlot<'a> {
    /// Key of the entry, which is in the row of keys of the entry's bucket.
    pub key: &'a AtomicU64,
    /// All words of the entry.
    pub words: &'a [AtomicU64],
    /// Word that counts how often the entry's object is open: see [`Uses`].
    pub uses: &'a AtomicU64,
}

impl EntrySlot<'_> {
    #[inline]
    fn state_word(&self) -> &AtomicU64 {
        &self.words[0]
    }

    /// Returns the word of the entry in this place; `None` if the place is free or claimed.
    #[inline]
    pub fn live_word(&self) -> Option<u64> {
        Some(self.state_word().load(Acquire)).filter(|word| state::in_word(*word) == state::LIVE)
    }

    /// Returns the word of the entry in this place if the entry has this key.
    #[inline]
    pub fn live_word_with_key(&self, key: u64) -> Option<u64> {
        if self.key.load(Acquire) != key {
            return None;
        }
        // The entry may have been published after its key was read.
        let word = self.live_word()?;
        (self.words[KEY].load(Relaxed) == key && self.is_still(word)).then_some(word)
    }

    /// Returns true if the place still holds the entry with this word. If true, all words that were read of
    /// the entry before belong to it.
    #[inline]
    pub fn is_still(&self, word: u64) -> bool {
        fence(Acquire);
        self.state_word().load(Relaxed) == word
    }

    /// Returns a copy of the entry with this word. Returns `None` if the entry is gone.
    pub fn copy_entry<const WORDS: usize>(&self, word: u64) -> Option<[u64; WORDS]> {
        let mut copy = [0; WORDS];
        copy.iter_mut().zip(self.words).for_each(|(copy, word)| *copy = word.load(Relaxed));
        copy[0] = word;
        self.is_still(word).then_some(copy)
    }

    /// Claims the place if it is free. Returns the word of the claim; `None` if the place is not free.
    pub fn claim(&self, claimant: u64) -> Option<u64> {
        let free = self.state_word().load(Relaxed);
        if state::in_word(free) != state::FREE {
            return None;
        }
        let claimed = claimant | next_lap(free) | state::CLAIMED;
        self.state_word().compare_exchange(free, claimed, Acquire, Relaxed).ok()?;
        // A reader that sees any store below also sees that the word changed.
        fence(Release);
        Some(claimed)
    }

    /// Puts an entry into a claimed place. `who` is the number of the process that owns the entry.
    pub fn publish(&self, claimed: u64, who: u64, entry: &[u64], uses: Uses) {
        for (word, value) in self.words.iter().zip(entry).skip(1) {
            // The word must have the new lap: another process may still be counting opens of the entry that
            // was here before.
            let value = if core::ptr::eq(word, self.uses) { uses.to_number(claimed) } else { *value };
            word.store(value, Relaxed);
        }
        self.key.store(entry[KEY], Release);
        self.state_word().store(who | claimed & LAPS | state::LIVE, Release);
    }

    /// Removes the entry with this word, or the claim of a process that died. Returns true if it was in this
    /// place, and no other process removed it first.
    pub fn free_entry(&self, word: u64, claimant: u64) -> bool {
        let claimed = claimant | word & LAPS | state::CLAIMED;
        if self.state_word().compare_exchange(word, claimed, AcqRel, Relaxed).is_err() {
            return false;
        }
        // A process that changes the uses from here on finds that the entry is gone. Earlier changes are
        // complete.
        self.uses.store(Uses { count: 0, ended: 0 }.to_number(next_lap(word)), Release);
        self.key.store(0, Release);
        self.state_word().store(word & LAPS | state::FREE, Release);
        true
    }

    /// Returns the word of the claim if a process has claimed the place.
    pub fn claim_word(&self) -> Option<u64> {
        Some(self.state_word().load(Relaxed)).filter(|word| state::in_word(*word) == state::CLAIMED)
    }

    /// Returns how often the entry's object is open, and how it ended.
    pub fn uses(&self) -> Uses {
        Uses::from_number(self.uses.load(Acquire))
    }

    /// Changes how often the entry with this word is open, or how it ended. Returns the value before; `None`
    /// if `change` returns `None`, or if the entry is gone. It does not check whether the entry was given up
    /// right afterwards: the change was made, and the process that closes the last handle must know that.
    pub fn change_uses(&self, word: u64, change: impl Fn(Uses) -> Option<Uses>) -> Option<Uses> {
        let mut number = self.uses.load(Acquire);
        loop {
            let new = Uses::belongs_to(number, word).then(|| change(Uses::from_number(number))).flatten()?;
            match self.uses.compare_exchange(number, new.to_number(word), AcqRel, Acquire) {
                Ok(_) => return Some(Uses::from_number(number)),
                Err(there) => number = there,
            }
        }
    }
}

#[cfg(all(test, feature = "loom"))]
mod models {
    use super::*;
    use crate::model::try_all;
    use cupeer_spec::record::live::{claimant_word, owner_in, process_word};
    use loom::sync::Arc;
    use loom::thread;

    /// The word, the key, the uses, and two words that must match.
    const WORDS: usize = 5;
    const USES: usize = 2;

    #[derive(Default)]
    struct Table {
        key: AtomicU64,
        words: [AtomicU64; WORDS],
    }

    impl Table {
        fn place(&self) -> EntrySlot<'_> {
            EntrySlot { key: &self.key, words: &self.words, uses: &self.words[USES] }
        }

        /// Adds an entry of a process, all of whose words name that process. Returns its word.
        fn insert(&self, pid: u32, key: u64, count: u32) -> Option<u64> {
            let claimed = self.place().claim(claimant_word(1, pid))?;
            let me = u64::from(pid);
            self.place().publish(claimed, process_word(1, pid, 1, 0), &[0, key, 0, me, me], Uses { count, ended: 0 });
            Some(process_word(1, pid, 1, 0) | claimed & LAPS | state::LIVE)
        }
    }

    fn look(table: &Table, key: u64) {
        let Some(word) = table.place().live_word_with_key(key) else { return };
        if let Some(entry) = table.place().copy_entry::<WORDS>(word) {
            let pid = u64::from(cupeer_spec::record::live::pid_in(word));
            assert_eq!((entry[KEY], entry[3], entry[4]), (key, pid, pid));
        }
    }

    #[test]
    fn readers_see_one_entry() {
        try_all(|| {
            let table = Arc::new(Table::default());
            let others = table.clone();
            let word = table.insert(10, 7, 1).expect("the place");
            let writer = thread::spawn(move || {
                assert!(others.place().free_entry(word, claimant_word(1, 10)));
                // The same process and another one, with the same key.
                let word = others.insert(10, 9, 1).expect("the place");
                assert!(others.place().free_entry(word, claimant_word(1, 10)));
                others.insert(11, 7, 1);
            });
            look(&table, 7);
            writer.join().unwrap();
            look(&table, 7);
        });
    }

    #[test]
    fn nobody_counts_in_what_the_last_one_has_given_up() {
        try_all(|| {
            let table = Arc::new(Table::default());
            let word = table.insert(10, 7, 2).expect("the place");
            let close = move |table: &Table| {
                let less = |uses: Uses| Some(Uses { count: uses.count.checked_sub(1)?, ..uses });
                let before = table.place().change_uses(word, less).expect("one of the two");
                let is_last = before.count == 1;
                assert!(!is_last || table.place().free_entry(word, claimant_word(1, 10)));
                is_last
            };
            let others = table.clone();
            let other = thread::spawn(move || close(&others));
            let own = close(&table);
            assert!(own != other.join().unwrap());
            // No process counts in an entry that is gone, nor in the next entry of its place.
            let more = |uses: Uses| Some(Uses { count: uses.count + 1, ..uses });
            assert!(table.place().change_uses(word, more).is_none());
            table.insert(11, 7, 1).expect("the place");
            assert!(table.place().change_uses(word, more).is_none() && table.place().uses().count == 1);
        });
    }

    #[test]
    fn a_place_is_taken_once_and_given_up_once() {
        try_all(|| {
            let table = Arc::new(Table::default());
            let word = table.insert(10, 7, 1).expect("the place");
            let other = |pid: u32| {
                let table = table.clone();
                thread::spawn(move || {
                    let was_ours = table.place().free_entry(word, claimant_word(1, pid));
                    (was_ours, table.insert(pid, u64::from(pid), 1).is_some())
                })
            };
            let (a, b) = (other(11), other(12));
            let (a, b) = (a.join().unwrap(), b.join().unwrap());
            assert!(a.0 != b.0 && (a.1 || b.1));
            let word = table.place().live_word().expect("one of them");
            // At most one of them is here, and it is complete. If both threads took the place, one of them
            // found it free.
            assert!(!(a.1 && b.1) || owner_in(word) == 0);
            let entry = table.place().copy_entry::<WORDS>(word).expect("nobody changes it");
            assert!(entry[3] == entry[4] && entry[KEY] == entry[3] && table.key.load(Relaxed) == entry[3]);
        });
    }

    #[test]
    fn a_claim_of_the_dead_is_reclaimed_once() {
        try_all(|| {
            let table = Arc::new(Table::default());
            // The process died while it filled the place.
            let dead = table.place().claim(claimant_word(1, 10)).expect("the place");
            table.words[3].store(10, Relaxed);
            let others = [11, 12].map(|pid| {
                let table = table.clone();
                thread::spawn(move || {
                    let reclaimed = table.place().claim_word() == Some(dead)
                        && table.place().free_entry(dead, claimant_word(1, pid));
                    (reclaimed, table.insert(pid, 7, 0).is_some())
                })
            });
            let [a, b] = others.map(|other| other.join().unwrap());
            assert!(a.0 != b.0 && a.1 != b.1);
            look(&table, 7);
            assert!(table.place().live_word_with_key(7).is_some());
        });
    }

    #[test]
    fn nobody_counts_in_another_entry() {
        try_all(|| {
            let table = Arc::new(Table::default());
            let word = table.insert(10, 7, 1).expect("the place");
            let others = table.clone();
            let opener = thread::spawn(move || {
                let more = |uses: Uses| (uses.count > 0).then(|| Uses { count: uses.count + 1, ..uses });
                others.place().change_uses(word, more).is_some()
            });
            // The last process closes the entry, unless another one opened it in between. Its place may then
            // be reused.
            let less = |uses: Uses| Some(Uses { count: uses.count.checked_sub(1)?, ..uses });
            let before = table.place().change_uses(word, less).expect("our own");
            if before.count == 1 {
                assert!(table.place().free_entry(word, claimant_word(1, 10)));
                table.insert(11, 7, 5).expect("the place");
            }
            let is_opened = opener.join().unwrap();
            assert_eq!(is_opened, before.count == 2);
            assert_eq!(table.place().uses().count, if is_opened { 1 } else { 5 });
        });
    }
}
