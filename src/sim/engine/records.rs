//! The records of an event that several processes share: a page of memory. It tells for each record if it is done, if a process
//! waits for it, and which process made it.

use super::backing::Backing;
use super::limits::random_bytes;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

/// Number of bytes of a page.
pub(crate) const BYTES: u64 = 16 << 10;
/// Number of event records in a page. Each is two words; two other words precede them.
const RECORDS: u64 = BYTES / 16 - 1;
/// Bit of an event record that is done.
const DONE: u64 = 1;
/// Bit of an event record for which another process waits.
const WANTED: u64 = 2;
/// Number of low bits of an event record for flags. The higher bits are the number of the record.
const SHIFT: u32 = 2;
/// Offset of the bytes that processes lock while they can still complete their event records, one byte for each
/// process.
const HOLDS: u64 = 1 << 41;

/// State of an event record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordStatus {
    Done,
    /// This process made the record, and has to complete it.
    Own,
    /// Another process made the record, and has not completed it.
    Pending,
}

/// The page of event records of one event.
#[derive(Debug)]
pub(crate) struct RecordPage {
    words: &'static [AtomicU64],
    file: Arc<Backing>,
    at: u64,
    /// Number of queries by this process for the last event record.
    pub queries: AtomicU32,
}

/// Returns the random number that identifies this process among the processes that record events.
fn own_id() -> u64 {
    static OWN: OnceLock<u64> = OnceLock::new();
    *OWN.get_or_init(|| u64::from(u32::from_ne_bytes(random_bytes())) + 1)
}

/// An event record by this process that is not done yet, with the number of the task that completes it.
struct OpenRecord {
    page: Arc<RecordPage>,
    sequence: u64,
    number: u64,
}

/// The event records that this process has made, and the pages of its events.
#[derive(Default)]
pub(crate) struct EventRecords {
    open: Vec<OpenRecord>,
    /// The pages of shared events, by the handle of the event.
    pub pages: HashMap<u64, Arc<RecordPage>>,
    files: Vec<Weak<Backing>>,
}

impl EventRecords {
    /// Returns the open file through which this process locks its byte. If this process has the same file open
    /// already, returns that one.
    pub(crate) fn share_file(&mut self, file: Backing) -> Arc<Backing> {
        self.files.retain(|known| known.strong_count() > 0);
        let known = self.files.iter().filter_map(Weak::upgrade).find(|known| known.inode() == file.inode());
        known.unwrap_or_else(|| {
            file.lock_shared(HOLDS + own_id());
            let file = Arc::new(file);
            self.files.push(Arc::downgrade(&file));
            file
        })
    }

    pub(crate) fn add_record(&mut self, page: Arc<RecordPage>, sequence: u64, number: u64) {
        self.open.push(OpenRecord { page, sequence, number });
    }

    /// Completes the event records that a task completes, by the number of the task.
    pub(crate) fn finish_records(&mut self, number: u64) {
        let done = self.open.extract_if(.., |record| record.number == number);
        done.for_each(|record| record.page.finish(record.sequence));
    }

    /// Returns the number of the task that completes an event record of this process.
    pub(crate) fn own_task(&self, page: &RecordPage, sequence: u64) -> Option<u64> {
        let is_it = |record: &&OpenRecord| record.sequence == sequence && record.page.is_same(page);
        self.open.iter().find(is_it).map(|record| record.number)
    }

    /// Returns the numbers of the tasks that complete the event records for which other processes wait.
    pub(crate) fn wanted_tasks(&self) -> impl Iterator<Item = u64> {
        self.open.iter().filter(|r| r.page.is_wanted(r.sequence)).map(|r| r.number)
    }
}

impl RecordPage {
    /// Maps the page at an offset of a file. This process must hold its byte of the file.
    pub(crate) fn map_page(file: Arc<Backing>, at: u64) -> Option<RecordPage> {
        let start = file.map(at, BYTES)?;
        // SAFETY: the mapping has so many bytes, is aligned to pages, and stays until the value is dropped, which gives the
        // words to nobody; other processes only use the words as atomic ones, too.
        let words = unsafe { core::slice::from_raw_parts(start as *const AtomicU64, (BYTES / 8) as usize) };
        Some(RecordPage { words, file, at, queries: AtomicU32::new(0) })
    }

    /// Returns true if both pages belong to the same event.
    pub(crate) fn is_same(&self, other: &RecordPage) -> bool {
        (self.file.inode(), self.at) == (other.file.inode(), other.at)
    }

    /// Resets the page for a new event, which has no event records.
    pub(crate) fn clear(&self) {
        self.words.iter().for_each(|word| word.store(0, SeqCst));
    }

    fn record_words(&self, sequence: u64) -> (&AtomicU64, &AtomicU64) {
        let at = 2 + 2 * (sequence % RECORDS) as usize;
        (&self.words[at], &self.words[at + 1])
    }

    /// Adds an event record by this process. Returns the number of the record.
    pub(crate) fn add_own_record(&self) -> u64 {
        let sequence = self.words[0].fetch_add(1, SeqCst) + 1;
        let (state, owner) = self.record_words(sequence);
        owner.store(own_id(), SeqCst);
        state.store(sequence << SHIFT, SeqCst);
        self.queries.store(0, SeqCst);
        sequence
    }

    /// Returns the number of the last event record; 0 if there is none.
    pub(crate) fn last_number(&self) -> u64 {
        self.words[0].load(SeqCst)
    }

    fn set_flag(&self, sequence: u64, mark: u64) {
        let of = |state: u64| (state >> SHIFT == sequence).then_some(state | mark);
        let _ = self.record_words(sequence).0.fetch_update(SeqCst, SeqCst, of);
    }

    /// Marks an event record as done.
    pub(crate) fn finish(&self, sequence: u64) {
        self.set_flag(sequence, DONE);
    }

    /// Returns true if another process waits for an event record.
    pub(crate) fn is_wanted(&self, sequence: u64) -> bool {
        let state = self.record_words(sequence).0.load(SeqCst);
        state >> SHIFT == sequence && state & WANTED != 0
    }

    /// Returns the state of an event record. A record is also done if a newer record has replaced it, or if the
    /// process that made it has ended.
    pub(crate) fn status(&self, sequence: u64) -> RecordStatus {
        let (state, owner) = self.record_words(sequence);
        let (state, owner) = (state.load(SeqCst), owner.load(SeqCst));
        if sequence == 0 || state >> SHIFT > sequence || state == sequence << SHIFT | state & WANTED | DONE {
            RecordStatus::Done
        } else if state >> SHIFT < sequence {
            RecordStatus::Pending
        } else if owner == own_id() {
            RecordStatus::Own
        } else if self.file.is_locked_elsewhere(HOLDS + owner) {
            RecordStatus::Pending
        } else {
            RecordStatus::Done
        }
    }

    /// Marks an event record as awaited by this process. Returns the state of the record.
    pub(crate) fn mark_awaited(&self, sequence: u64) -> RecordStatus {
        self.set_flag(sequence, WANTED);
        self.status(sequence)
    }
}

impl Drop for RecordPage {
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
        let [one, two] = [0, 0].map(|at| RecordPage::map_page(Arc::clone(&file), at).unwrap());
        assert_eq!((one.last_number(), one.status(0)), (0, RecordStatus::Done));
        let (first, second) = (one.add_own_record(), two.add_own_record());
        assert_eq!((first, second, one.last_number()), (1, 2, 2));
        two.finish(second);
        assert_eq!((one.status(first), one.status(second)), (RecordStatus::Own, RecordStatus::Done));
        assert!(!one.is_wanted(first));
        assert_eq!(two.mark_awaited(first), RecordStatus::Own);
        assert!(one.is_wanted(first) && !one.is_wanted(second));
        one.finish(first);
        assert_eq!(two.status(first), RecordStatus::Done);
        let other = RecordPage::map_page(file, BYTES).unwrap();
        assert!(one.is_same(&two) && !one.is_same(&other) && other.last_number() == 0);
    }

    #[test]
    fn records_of_another_process_are_done_when_it_ends() {
        let file = Backing::create(c"records", BYTES).unwrap();
        let page = RecordPage::map_page(Arc::new(file.reopen().unwrap()), 0).unwrap();
        let sequence = page.add_own_record();
        page.record_words(sequence).1.store(7, SeqCst);
        assert!(file.lock_shared(HOLDS + 7));
        assert_eq!(page.status(sequence), RecordStatus::Pending);
        drop(file);
        assert_eq!(page.status(sequence), RecordStatus::Done);
    }

    #[test]
    fn a_record_in_whose_place_another_one_is_is_done() {
        let page = RecordPage::map_page(Arc::new(Backing::create(c"records", BYTES).unwrap()), 0).unwrap();
        (0..=RECORDS).for_each(|_| _ = page.add_own_record());
        assert_eq!((page.status(1), page.status(2)), (RecordStatus::Done, RecordStatus::Own));
    }
}
