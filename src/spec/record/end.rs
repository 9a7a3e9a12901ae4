//! How a process ended, as its record says: the field `end` of the header.
//!
//! The process itself says that it returns, last of all, and `cupeer run` how the process ended that it has started.
//! Nobody says so of one that was killed otherwise.
//!
//! The field `ended` has the time: the process itself writes when it returns, a process that waits for it, by when it had
//! ended, and `cupeer run`, which looks at all of them from time to time, between which looks. An older reader skips it.

/// The end of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The version of cupeer that made the record does not say.
    Untold,
    /// None that anybody has seen.
    Unseen,
    /// It returned this exit status.
    Returned(u8),
    /// It returned by `quick_exit`, which tells nobody its exit status.
    ReturnedSomething,
    /// This signal ended it.
    Signal(u8),
    /// `_exit` ended it with this exit status, without what `exit` does first.
    Left(u8),
    /// It was about to become another program. If it made a call later, it did not.
    Executed,
    /// The program that it became returned this exit status.
    ExecutedReturned(u8),
    /// This signal ended the program that it became.
    ExecutedSignal(u8),
}

/// When a process ended, in nanoseconds of CLOCK_MONOTONIC; 0 for a time that is not known.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Span {
    /// When it was last seen to run.
    pub after: u64,
    /// When it was first seen to have ended.
    pub before: u64,
}

impl Span {
    /// Returns the span of an end at a known time.
    pub const fn at(time: u64) -> Span {
        Span { after: time, before: time }
    }

    /// Returns what two observers know together. The words of the process itself are exact, although it is seen to run a
    /// moment longer.
    pub fn and(self, other: Span) -> Span {
        let exact = [self, other].into_iter().find(|span| span.before != 0 && span.after == span.before);
        let before = [self.before, other.before].into_iter().filter(|time| *time != 0).min();
        exact.unwrap_or(Span { after: self.after.max(other.after), before: before.unwrap_or(0) })
    }
}

/// What a new record has in the field.
pub const UNSEEN: u32 = 1 << 8;
const RETURNED: u32 = 2 << 8;
const RETURNED_SOMETHING: u32 = 3 << 8;
const SIGNAL: u32 = 4 << 8;
const LEFT: u32 = 5 << 8;
/// What [`End::Executed`] has in the field.
pub const EXECUTED: u32 = 6 << 8;
const EXECUTED_RETURNED: u32 = 7 << 8;
const EXECUTED_SIGNAL: u32 = 8 << 8;

impl End {
    /// What stands in the field.
    pub const fn word(self) -> u32 {
        match self {
            End::Untold => 0,
            End::Unseen => UNSEEN,
            End::Returned(status) => RETURNED | status as u32,
            End::ReturnedSomething => RETURNED_SOMETHING,
            End::Signal(signal) => SIGNAL | signal as u32,
            End::Left(status) => LEFT | status as u32,
            End::Executed => EXECUTED,
            End::ExecutedReturned(status) => EXECUTED_RETURNED | status as u32,
            End::ExecutedSignal(signal) => EXECUTED_SIGNAL | signal as u32,
        }
    }

    /// This end, as somebody has seen it from outside, of a process whose record says `told`.
    pub const fn seen_of(self, told: End) -> End {
        match (told, self) {
            // Nobody can see that from outside.
            (End::Left(status), End::Returned(seen)) if status == seen => told,
            (End::Executed, End::Returned(status)) => End::ExecutedReturned(status),
            (End::Executed, End::Signal(signal)) => End::ExecutedSignal(signal),
            _ => self,
        }
    }

    /// Reads the field. What a later version may have to say is unseen by this one.
    pub const fn of(word: u32) -> End {
        let low = word as u8;
        match word & !0xff {
            0 => End::Untold,
            RETURNED => End::Returned(low),
            RETURNED_SOMETHING => End::ReturnedSomething,
            SIGNAL => End::Signal(low),
            LEFT => End::Left(low),
            EXECUTED => End::Executed,
            EXECUTED_RETURNED => End::ExecutedReturned(low),
            EXECUTED_SIGNAL => End::ExecutedSignal(low),
            _ => End::Unseen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for end in [
            End::Untold,
            End::Unseen,
            End::Returned(0),
            End::Returned(255),
            End::ReturnedSomething,
            End::Signal(9),
            End::Left(3),
            End::Executed,
            End::ExecutedReturned(1),
            End::ExecutedSignal(15),
        ] {
            assert_eq!(End::of(end.word()), end);
        }
        assert_eq!(End::of(77 << 8), End::Unseen);
    }

    #[test]
    fn observers_know_more_together() {
        let span = |after, before| Span { after, before };
        assert_eq!(span(10, 90).and(span(20, 95)), span(20, 90));
        assert_eq!(span(0, 0).and(span(20, 0)), span(20, 0));
        assert_eq!(span(20, 0).and(span(0, 70)), span(20, 70));
        assert_eq!(span(60, 90).and(Span::at(50)), Span::at(50), "it was seen while it ended");
    }

    #[test]
    fn what_only_the_process_knows_is_kept() {
        assert_eq!(End::Returned(3).seen_of(End::Left(3)), End::Left(3));
        assert_eq!(End::Signal(9).seen_of(End::Left(3)), End::Signal(9), "killed while it left");
        assert_eq!(End::Returned(3).seen_of(End::Executed), End::ExecutedReturned(3));
        assert_eq!(End::Returned(3).seen_of(End::Unseen), End::Returned(3));
    }
}
