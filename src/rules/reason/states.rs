//! States in the sentences of findings.

use crate::rule::Rule;
use cupeer_spec::record::slot::finding::role;

/// What became of the current context of a thread that has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HadContext {
    /// The thread had one.
    Here {
        /// The last one.
        context: u64,
        /// Whether the process is known to have ended it.
        is_ended: bool,
        /// Whether something that the process had open went with it.
        has_closed: bool,
    },
    /// Another thread had one, and this one had none.
    InOtherThread,
    /// The primary context of this device is there, whoever has it.
    Primary(i32),
    /// Nobody was seen with one.
    Unknown,
}

/// What decides whether this process may take descriptors of another one, by pidfd_getfd.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ptrace {
    /// /proc/sys/kernel/yama/ptrace_scope; 0 where there is none.
    pub scope: u8,
    /// Whether the process has CAP_SYS_PTRACE.
    pub is_capable: bool,
}

/// How a range of addresses ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Went {
    /// What was opened there was closed.
    Closed,
    /// What was mapped there was unmapped.
    Unmapped,
    /// The same, and the addresses were given back.
    Unreserved,
    /// What was exported from there, or imported of a pool, was freed.
    Freed,
    /// What was opened there is still open, and its owner has freed it.
    FreedByOwner,
}

impl Went {
    /// The rule about what uses it then.
    pub(crate) fn rule(self) -> Rule {
        match self {
            Went::Closed => Rule::UseAfterClose,
            Went::Unmapped | Went::Unreserved => Rule::UseAfterUnmap,
            Went::Freed => Rule::UseAfterFree,
            Went::FreedByOwner => Rule::UseAfterOwnerFreed,
        }
    }

    /// As what the call counts that ended it.
    pub(crate) fn role(self) -> u32 {
        match self {
            Went::Closed => role::CLOSING,
            Went::Unmapped => role::UNMAPPING,
            Went::Unreserved => role::FREEING,
            Went::Freed => role::FREEING,
            Went::FreedByOwner => role::EXPORT,
        }
    }

    /// Whether a graph that is not launched yet cannot be right: no other memory is there when it is, but by chance. A range that
    /// is still reserved gets other memory, and what its owner has freed is there.
    pub fn is_lasting(self) -> bool {
        matches!(self, Went::Closed | Went::Freed)
    }

    /// Who did what.
    pub(super) const fn words(self) -> (&'static str, &'static str) {
        match self {
            Went::Closed => ("this process", "closed"),
            Went::Unmapped => ("this process", "unmapped"),
            Went::Unreserved => ("this process", "freed the addresses of"),
            Went::Freed => ("this process", "freed"),
            Went::FreedByOwner => ("its owner", "freed"),
        }
    }
}
