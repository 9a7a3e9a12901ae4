//! Keeps the last marks that a program sets before its record begins.
//!
//! A record begins with the first recorded call. The thread that makes that call writes these marks, so they are in
//! its stream.

use super::clock;
use super::detail::Detail;
use crate::sys::book::Book;
use core::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use cupeer_spec::record::{Moment, slot};

/// The most marks that are kept.
const MOST: usize = 128;

/// The marks of one process.
struct EarlyMarks {
    /// The process that set them. A forked child inherits the marks of its parent, which are not its own.
    pid: u32,
    /// The number of marks that it set, including those that were overwritten.
    count: usize,
    /// The moment of the first one.
    first: Moment,
    /// The time and the text of each; the next one takes the place of the oldest.
    marks: [(u64, Detail); MOST],
}

/// All zero, so that it takes no room in the library's file.
static MARKS: Book<EarlyMarks> = Book::new(EarlyMarks {
    pid: 0,
    count: 0,
    first: Moment { ticks: 0, monotonic: 0, realtime: 0 },
    marks: [const { (0, Detail::EMPTY) }; MOST],
});

/// True while there may be marks: most processes set none before their records begin.
static HAS_MARKS: AtomicBool = AtomicBool::new(false);

/// Keeps a mark. Returns false if another thread has the marks for too long.
pub fn keep(text: &[u8]) -> bool {
    let kept = MARKS.with(|early| {
        if !HAS_MARKS.load(Acquire) {
            clock::choose();
        }
        let own = std::process::id();
        if early.pid != own {
            (early.pid, early.count, early.first) = (own, 0, clock::moment());
        }
        early.marks[early.count % MOST] = (clock::now(), Detail::of_text(text));
        early.count += 1;
        HAS_MARKS.store(true, Release);
    });
    kept.is_some()
}

/// Returns the moment of the first mark of this process, if it is still to be written.
pub fn first() -> Option<Moment> {
    if !HAS_MARKS.load(Acquire) {
        return None;
    }
    MARKS.with(|early| (early.pid == std::process::id()).then_some(early.first)).flatten()
}

/// Writes the marks into the stream of this thread, which has joined the record.
#[inline]
pub fn flush() {
    if HAS_MARKS.load(Acquire) {
        flush_all();
    }
}

#[cold]
#[inline(never)]
fn flush_all() {
    MARKS.with(|early| {
        if HAS_MARKS.swap(false, Acquire) && early.pid == std::process::id() {
            let left_out = early.count.saturating_sub(MOST);
            if left_out > 0 {
                Detail::of_text(b"... earlier marks are left out").append(slot::MARK, early.first.ticks);
            }
            for index in left_out..early.count {
                let (time, text) = &early.marks[index % MOST];
                text.append(slot::MARK, *time);
            }
        }
        early.pid = 0;
    });
}
