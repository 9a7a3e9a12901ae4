//! The records of an event that several processes share: a page of memory. It tells for each record if it is done, if a process
//! waits for it, and which process made it.

use super::backing::Backing;
use super::limits::random;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

/// Number of bytes of a page.
pub(crate) const BYTES: u64 = 16 << 10;
/// Number of records of a page. Each record is two words; two other words precede the records.
const RECORDS: u64 = BYTES / 16 - 1;
/// Bit of a record that is done.
const DONE: u64 = 1;
/// Bit of a record for which another process waits.
const WANTED: u64 = 2;
/// Number of low bits of a record for flags. The higher bits are the number of the record.
const SHIFT: u32 = 2;
/// Offset of the bytes that processes lock while they can still complete their records, one byte for each
/// process.
const HOLDS: u64 = 1 << 41;

/// State of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Done,
    /// This process made the record, and has to complete it.
    Own,
    /// Another process made the record, and has not completed it.
    Pending,
}

/// The page of records of one event.
#[derive(Debug)]
pub(crate) struct Page {
    words: &'static [AtomicU64],
    file: Arc<Backing>,
    at: u64,
    /// Number of queries of this process for the last record.
    pub asked: AtomicU32,
}

/// Returns the random number that identifies this process among the processes that record events.
fn own_id() -> u64 {
    static OWN: OnceLock<u64> = OnceLock::new();
    *OWN.get_or_init(|| u64::from(u32::from_ne_bytes(random())) + 1)
}

/// A record by this process that is not done yet, with the number of the task that completes it.
struct Record {
    page: Arc<Page>,
    sequence: u64,
    number: u64,
}

/// The records that this process has made, and the pages of its events.
#[derive(Default)]
pub(crate) struct Records {
    open: Vec<Record>,
    /// The pages of shared events, by the handle of the event.
    pub pages: HashMap<u64, Arc<Page>>,
    files: Vec<Weak<Backing>>,
}

impl Records {
    /// Returns the open file through which this process locks its byte; opens no file twice.
    pub(crate) fn file(&mut self, file: Backing) -> Arc<Backing> {
        self.files.retain(|known| known.strong_count() > 0);
        let known = self.files.iter().filter_map(Weak::upgrade).find(|known| known.inode() == file.inode());
        known.unwrap_or_else(|| {
            file.hold(HOLDS + own_id());
            let file = Arc::new(file);
            self.files.push(Arc::downgrade(&file));
            file
        })
    }

    pub(crate) fn add(&mut self, page: Arc<Page>, sequence: u64, number: u64) {
        self.open.push(Record { page, sequence, number });
    }

    /// Completes the records for which a task stands. `number` is the number of the task.
    pub(crate) fn finish(&mut self, number: u64) {
        let done = self.open.extract_if(.., |record| record.number == number);
        done.for_each(|record| record.page.finish(record.sequence));
    }

    /// Returns the number of the task that completes a record of this process.
    pub(crate) fn own(&self, page: &Page, sequence: u64) -> Option<u64> {
        let is_it = |record: &&Record| record.sequence == sequence && record.page.is_same(page);
        self.open.iter().find(is_it).map(|record| record.number)
    }

    /// Returns the numbers of the tasks for which other processes wait.
    pub(crate) fn wanted(&self) -> impl Iterator<Item = u64> {
        self.open.iter().filter(|r| r.page.is_wanted(r.sequence)).map(|r| r.number)
    }
}

impl Page {
    /// Maps the page at an offset of a file. This process must hold its byte of the file.
    pub(crate) fn open(file: Arc<Backing>, at: u64) -> Option<Page> {
        let start = file.map(at, BYTES)?;
        // SAFETY: the mapping has so many bytes, is aligned to pages, and stays until the value is dropped, which gives the
        // words to nobody; other processes only use the words as atomic ones, too.
        let words = unsafe { core::slice::from_raw_parts(start as *const AtomicU64, (BYTES / 8) as usize) };
        Some(Page { words, file, at, asked: AtomicU32::new(0) })
    }

    /// Returns true if both pages belong to the same event.
    pub(crate) fn is_same(&self, other: &Page) -> bool {
        (self.file.inode(), self.at) == (other.file.inode(), other.at)
    }

    /// Resets the page for a new event, which has no records.
    pub(crate) fn clear(&self) {
        self.words.iter().for_each(|word| word.store(0, SeqCst));
    }

    fn record(&self, sequence: u64) -> (&AtomicU64, &AtomicU64) {
        let at = 2 + 2 * (sequence % RECORDS) as usize;
        (&self.words[at], &self.words[at + 1])
    }

    /// Adds a record by this process. Returns its number.
    pub(crate) fn issue(&self) -> u64 {
        let sequence = self.words[0].fetch_add(1, SeqCst) + 1;
        let (state, owner) = self.record(sequence);
        owner.store(own_id(), SeqCst);
        state.store(sequence << SHIFT, SeqCst);
        self.asked.store(0, SeqCst);
        sequence
    }

    /// Returns the number of the last record; 0 if there is none.
    pub(crate) fn last(&self) -> u64 {
        self.words[0].load(SeqCst)
    }

    fn mark(&self, sequence: u64, mark: u64) {
        let of = |state: u64| (state >> SHIFT == sequence).then_some(state | mark);
        let _ = self.record(sequence).0.fetch_update(SeqCst, SeqCst, of);
    }

    /// Marks a record as done.
    pub(crate) fn finish(&self, sequence: u64) {
        self.mark(sequence, DONE);
    }

    /// Returns true if another process waits for a record.
    pub(crate) fn is_wanted(&self, sequence: u64) -> bool {
        let state = self.record(sequence).0.load(SeqCst);
        state >> SHIFT == sequence && state & WANTED != 0
    }

    /// Returns the state of a record. A record is also done if a newer record has replaced it, or if the
    /// process that made it has ended.
    pub(crate) fn status(&self, sequence: u64) -> Status {
        let (state, owner) = self.record(sequence);
        let (state, owner) = (state.load(SeqCst), owner.load(SeqCst));
        if sequence == 0 || state >> SHIFT > sequence || state == sequence << SHIFT | state & WANTED | DONE {
            Status::Done
        } else if state >> SHIFT < sequence {
            Status::Pending
        } else if owner == own_id() {
            Status::Own
        } else if self.file.is_held(HOLDS + owner) {
            Status::Pending
        } else {
            Status::Done
        }
    }

    /// Marks a record as awaited by this process. Returns its state.
    pub(crate) fn awaits(&self, sequence: u64) -> Status {
        self.mark(sequence, WANTED);
        self.status(sequence)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the words are of the mapping that `open` made, and no reference to them remains.
        unsafe { libc::munmap(self.words.as_ptr() as *mut _, BYTES as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_done_out_of_turn_and_wanted_one_by_one() {
        let file = Arc::new(Backing::create(c"records", 4096).unwrap());
        let [one, two] = [0, 0].map(|at| Page::open(Arc::clone(&file), at).unwrap());
        assert_eq!((one.last(), one.status(0)), (0, Status::Done));
        let (first, second) = (one.issue(), two.issue());
        assert_eq!((first, second, one.last()), (1, 2, 2));
        two.finish(second);
        assert_eq!((one.status(first), one.status(second)), (Status::Own, Status::Done));
        assert!(!one.is_wanted(first));
        assert_eq!(two.awaits(first), Status::Own);
        assert!(one.is_wanted(first) && !one.is_wanted(second));
        one.finish(first);
        assert_eq!(two.status(first), Status::Done);
        let other = Page::open(file, BYTES).unwrap();
        assert!(one.is_same(&two) && !one.is_same(&other) && other.last() == 0);
    }

    #[test]
    fn records_of_another_process_are_done_when_it_ends() {
        let file = Backing::create(c"records", BYTES).unwrap();
        let page = Page::open(Arc::new(file.reopen().unwrap()), 0).unwrap();
        let sequence = page.issue();
        page.record(sequence).1.store(7, SeqCst);
        assert!(file.hold(HOLDS + 7));
        assert_eq!(page.status(sequence), Status::Pending);
        drop(file);
        assert_eq!(page.status(sequence), Status::Done);
    }

    #[test]
    fn a_record_in_whose_place_another_one_is_is_done() {
        let page = Page::open(Arc::new(Backing::create(c"records", BYTES).unwrap()), 0).unwrap();
        (0..=RECORDS).for_each(|_| _ = page.issue());
        assert_eq!((page.status(1), page.status(2)), (Status::Done, Status::Own));
    }
}
