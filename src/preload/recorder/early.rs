//! Keeps the last marks that a program sets before its record begins.
//!
//! A record begins with the first recorded call. The thread that makes that call writes these marks, so they are in
//! its stream.

use super::clock;
use super::detail::Detail;
use crate::sys::book::LockedFacts;
use core::sync::atomic::{
    AtomicBool,
    Ordering::{Acquire, Release},
};
use cupeer_spec::record::{ClockMoment, slot};

/// Number of marks that are kept before the record begins: the last ones.
const MOST_MARKS: usize = 128;

/// The marks that one process set before its record began.
struct EarlyMarks {
    /// Pid of the process that set the marks. A forked child inherits its parent's marks, and must not write them.
    pid: u32,
    /// Number of marks that the process set, including those that later marks replaced.
    count: usize,
    /// The time of the first mark on all clocks.
    first: ClockMoment,
    /// The time and the text of each mark. When the list is full, the next mark replaces the oldest.
    marks: [(u64, Detail); MOST_MARKS],
}

/// Marks that are kept. All bytes are zero at first, so that the table takes no room in the library's file.
static MARKS: LockedFacts<EarlyMarks> = LockedFacts::new(EarlyMarks {
    pid: 0,
    count: 0,
    first: ClockMoment { ticks: 0, monotonic: 0, realtime: 0 },
    marks: [const { (0, Detail::EMPTY) }; MOST_MARKS],
});

/// True if there may be marks to write. Most processes set none before their records begin.
static HAS_MARKS: AtomicBool = AtomicBool::new(false);

/// Keeps a mark until the record begins. Returns false if another thread uses the list of marks for too long.
pub fn keep(text: &[u8]) -> bool {
    let kept = MARKS.with(|early| {
        if !HAS_MARKS.load(Acquire) {
            clock::choose();
        }
        let own = std::process::id();
        if early.pid != own {
            (early.pid, early.count, early.first) = (own, 0, clock::moment());
        }
        early.marks[early.count % MOST_MARKS] = (clock::now(), Detail::of_text(text));
        early.count += 1;
        HAS_MARKS.store(true, Release);
    });
    kept.is_some()
}

/// Returns the time of the first kept mark of this process; `None` if no mark waits to be written.
pub fn first() -> Option<ClockMoment> {
    if !HAS_MARKS.load(Acquire) {
        return None;
    }
    MARKS.with(|early| (early.pid == std::process::id()).then_some(early.first)).flatten()
}

/// Writes the kept marks into the stream of this thread, which has just joined the record.
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
            let left_out = early.count.saturating_sub(MOST_MARKS);
            if left_out > 0 {
                Detail::of_text(b"... earlier marks are left out").append(slot::MARK, early.first.ticks);
            }
            for index in left_out..early.count {
                let (time, text) = &early.marks[index % MOST_MARKS];
                text.append(slot::MARK, *time);
            }
        }
        early.pid = 0;
    });
}
