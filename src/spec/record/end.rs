//! How a process ended, as its record says: the field `end` of the header.
//!
//! The process itself says that it returns, last of all, and `cupeer run` how the process ended that it has started.
//! Nobody says so of one that was killed otherwise.

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
}

/// What a new record has in the field.
pub const UNSEEN: u32 = 1 << 8;
const RETURNED: u32 = 2 << 8;
const RETURNED_SOMETHING: u32 = 3 << 8;
const SIGNAL: u32 = 4 << 8;

impl End {
    /// What stands in the field.
    pub const fn word(self) -> u32 {
        match self {
            End::Untold => 0,
            End::Unseen => UNSEEN,
            End::Returned(status) => RETURNED | status as u32,
            End::ReturnedSomething => RETURNED_SOMETHING,
            End::Signal(signal) => SIGNAL | signal as u32,
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
        ] {
            assert_eq!(End::of(end.word()), end);
        }
        assert_eq!(End::of(77 << 8), End::Unseen);
    }
}
