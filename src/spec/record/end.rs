//! The end of a process, in the field `end` of the recording's header.
//!
//! A process writes the field itself as its last act when it returns. `cupeer run` writes it for processes
//! that it started. For other processes that were killed, it stays unset.
//!
//! The field `ended` has the time: that of the return, or the time at which a waiting process or `cupeer
//! run`, which checks from time to time, found that the process had ended. Older readers skip it.

/// Kind of end of a process, with its exit status or signal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecordedEnd {
    /// The recording does not store the end, because an older version of cupeer made it.
    Untold,
    /// No end was seen.
    Unseen,
    /// The process returned this exit status.
    Returned(u8),
    /// The process returned by `quick_exit`, which hides its exit status.
    ReturnedSomething,
    /// This signal ended the process.
    Signal(u8),
    /// `_exit` ended the process with this exit status, without the handlers of `exit`.
    Left(u8),
    /// The process was about to execute another program. If it made a call later, the attempt failed.
    Executed,
    /// The program that the process executed returned this exit status.
    ExecutedReturned(u8),
    /// This signal ended the program that the process executed.
    ExecutedSignal(u8),
}

/// Time at which a process ended, in nanoseconds of CLOCK_MONOTONIC; 0 if unknown.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct EndSpan {
    /// Last time at which the process was seen to run.
    pub after: u64,
    /// First time at which the process was seen to have ended.
    pub before: u64,
}

impl EndSpan {
    /// Returns the span of an end at a known time.
    pub const fn at(time: u64) -> EndSpan {
        EndSpan { after: time, before: time }
    }

    /// Combines the observations of two observers. Times of the process itself are exact, even if another
    /// process saw it running a moment longer.
    pub fn combine(self, other: EndSpan) -> EndSpan {
        let exact = [self, other].into_iter().find(|span| span.before != 0 && span.after == span.before);
        let before = [self.before, other.before].into_iter().filter(|time| *time != 0).min();
        exact.unwrap_or(EndSpan { after: self.after.max(other.after), before: before.unwrap_or(0) })
    }
}

/// Value of the field `end` before the process has ended.
pub const UNSEEN: u32 = 1 << 8;
const RETURNED: u32 = 2 << 8;
const RETURNED_SOMETHING: u32 = 3 << 8;
const SIGNAL: u32 = 4 << 8;
const LEFT: u32 = 5 << 8;
/// Value of the field for [`RecordedEnd::Executed`].
pub const EXECUTED: u32 = 6 << 8;
const EXECUTED_RETURNED: u32 = 7 << 8;
const EXECUTED_SIGNAL: u32 = 8 << 8;

impl RecordedEnd {
    /// Returns the value of the header's field `end` for this end.
    pub const fn to_word(self) -> u32 {
        match self {
            RecordedEnd::Untold => 0,
            RecordedEnd::Unseen => UNSEEN,
            RecordedEnd::Returned(status) => RETURNED | status as u32,
            RecordedEnd::ReturnedSomething => RETURNED_SOMETHING,
            RecordedEnd::Signal(signal) => SIGNAL | signal as u32,
            RecordedEnd::Left(status) => LEFT | status as u32,
            RecordedEnd::Executed => EXECUTED,
            RecordedEnd::ExecutedReturned(status) => EXECUTED_RETURNED | status as u32,
            RecordedEnd::ExecutedSignal(signal) => EXECUTED_SIGNAL | signal as u32,
        }
    }

    /// Combines this end, which another process saw, with the end `told` in the process's own recording.
    pub const fn combine_with_recorded(self, told: RecordedEnd) -> RecordedEnd {
        match (told, self) {
            // Only the process itself can tell these ends apart.
            (RecordedEnd::Left(status), RecordedEnd::Returned(seen)) if status == seen => told,
            (RecordedEnd::Executed, RecordedEnd::Returned(status)) => RecordedEnd::ExecutedReturned(status),
            (RecordedEnd::Executed, RecordedEnd::Signal(signal)) => RecordedEnd::ExecutedSignal(signal),
            _ => self,
        }
    }

    /// Parses the value of the header's field `end`. Values of later versions are read as [`RecordedEnd::Unseen`].
    pub const fn from_word(word: u32) -> RecordedEnd {
        let low = word as u8;
        match word & !0xff {
            0 => RecordedEnd::Untold,
            RETURNED => RecordedEnd::Returned(low),
            RETURNED_SOMETHING => RecordedEnd::ReturnedSomething,
            SIGNAL => RecordedEnd::Signal(low),
            LEFT => RecordedEnd::Left(low),
            EXECUTED => RecordedEnd::Executed,
            EXECUTED_RETURNED => RecordedEnd::ExecutedReturned(low),
            EXECUTED_SIGNAL => RecordedEnd::ExecutedSignal(low),
            _ => RecordedEnd::Unseen,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_are_read_back() {
        for end in [
            RecordedEnd::Untold,
            RecordedEnd::Unseen,
            RecordedEnd::Returned(0),
            RecordedEnd::Returned(255),
            RecordedEnd::ReturnedSomething,
            RecordedEnd::Signal(9),
            RecordedEnd::Left(3),
            RecordedEnd::Executed,
            RecordedEnd::ExecutedReturned(1),
            RecordedEnd::ExecutedSignal(15),
        ] {
            assert_eq!(RecordedEnd::from_word(end.to_word()), end);
        }
        assert_eq!(RecordedEnd::from_word(77 << 8), RecordedEnd::Unseen);
    }

    #[test]
    fn observers_know_more_together() {
        let span = |after, before| EndSpan { after, before };
        assert_eq!(span(10, 90).combine(span(20, 95)), span(20, 90));
        assert_eq!(span(0, 0).combine(span(20, 0)), span(20, 0));
        assert_eq!(span(20, 0).combine(span(0, 70)), span(20, 70));
        assert_eq!(span(60, 90).combine(EndSpan::at(50)), EndSpan::at(50), "it was seen while it ended");
    }

    #[test]
    fn facts_of_the_process_are_kept() {
        assert_eq!(RecordedEnd::Returned(3).combine_with_recorded(RecordedEnd::Left(3)), RecordedEnd::Left(3));
        assert_eq!(
            RecordedEnd::Signal(9).combine_with_recorded(RecordedEnd::Left(3)),
            RecordedEnd::Signal(9),
            "killed while it left"
        );
        assert_eq!(
            RecordedEnd::Returned(3).combine_with_recorded(RecordedEnd::Executed),
            RecordedEnd::ExecutedReturned(3)
        );
        assert_eq!(RecordedEnd::Returned(3).combine_with_recorded(RecordedEnd::Unseen), RecordedEnd::Returned(3));
    }
}
