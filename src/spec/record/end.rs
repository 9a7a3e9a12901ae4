//! The end of a process, in the field `end` of the recording's header.
//!
//! A process writes the field itself as its last act when it returns. `cupeer run` writes it for processes
//! that it started. For other processes that were killed, it stays unset.
//!
//! The field `ended` has the time: that of the return, or the time at which a waiting process or `cupeer
//! run`, which checks from time to time, found that the process had ended. Older readers skip it.

/// Kind of end of a process, with its exit status or signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The version of cupeer that made the recording does not store it.
    Untold,
    /// No end was seen.
    Unseen,
    /// The process returned this exit status.
    Returned(u8),
    /// The process returned by `quick_exit`, which hides its exit status.
    ReturnedSomething,
    /// This signal ended it.
    Signal(u8),
    /// `_exit` ended the process with this exit status, without the handlers of `exit`.
    Left(u8),
    /// The process was about to execute another program. If it made a call later, the attempt failed.
    Executed,
    /// The program that it became returned this exit status.
    ExecutedReturned(u8),
    /// This signal ended the program that it became.
    ExecutedSignal(u8),
}

/// Time at which a process ended, in nanoseconds of CLOCK_MONOTONIC; 0 if unknown.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Span {
    /// Last time at which the process was seen to run.
    pub after: u64,
    /// First time at which the process was seen to have ended.
    pub before: u64,
}

impl Span {
    /// Returns the span of an end at a known time.
    pub const fn at(time: u64) -> Span {
        Span { after: time, before: time }
    }

    /// Combines the observations of two observers. Times of the process itself are exact, even if another
    /// process saw it running a moment longer.
    pub fn and(self, other: Span) -> Span {
        let exact = [self, other].into_iter().find(|span| span.before != 0 && span.after == span.before);
        let before = [self.before, other.before].into_iter().filter(|time| *time != 0).min();
        exact.unwrap_or(Span { after: self.after.max(other.after), before: before.unwrap_or(0) })
    }
}

/// Value of the field `end` before the process has ended.
pub const UNSEEN: u32 = 1 << 8;
const RETURNED: u32 = 2 << 8;
const RETURNED_SOMETHING: u32 = 3 << 8;
const SIGNAL: u32 = 4 << 8;
const LEFT: u32 = 5 << 8;
/// Value of the field for [`End::Executed`].
pub const EXECUTED: u32 = 6 << 8;
const EXECUTED_RETURNED: u32 = 7 << 8;
const EXECUTED_SIGNAL: u32 = 8 << 8;

impl End {
    /// Returns the value of the field.
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

    /// Combines this end, which another process saw, with the end `told` in the process's own recording.
    pub const fn seen_of(self, told: End) -> End {
        match (told, self) {
            // Only the process itself can tell these ends apart.
            (End::Left(status), End::Returned(seen)) if status == seen => told,
            (End::Executed, End::Returned(status)) => End::ExecutedReturned(status),
            (End::Executed, End::Signal(signal)) => End::ExecutedSignal(signal),
            _ => self,
        }
    }

    /// Parses the value of the field. Values of later versions are read as [`End::Unseen`].
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
    fn written_values_are_read_back() {
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
    fn facts_of_the_process_are_kept() {
        assert_eq!(End::Returned(3).seen_of(End::Left(3)), End::Left(3));
        assert_eq!(End::Signal(9).seen_of(End::Left(3)), End::Signal(9), "killed while it left");
        assert_eq!(End::Returned(3).seen_of(End::Executed), End::ExecutedReturned(3));
        assert_eq!(End::Returned(3).seen_of(End::Unseen), End::Returned(3));
    }
}
