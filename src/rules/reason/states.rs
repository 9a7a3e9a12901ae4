//! States in the sentences of findings.

use crate::rule::Rule;
use cupeer_spec::record::slot::finding::role;

/// Earlier current context of a thread that has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HadContext {
    /// The thread itself had one.
    Here {
        /// The thread's last current context.
        context: u64,
        /// True if the process is known to have destroyed or reset it.
        is_ended: bool,
        /// True if open handles of the process ended with it.
        has_closed: bool,
    },
    /// Another thread had one, but this one had none.
    InOtherThread,
    /// The primary context of this device is active, whatever code retained it.
    Primary(i32),
    /// No thread was seen with one.
    Unknown,
}

/// Permissions that decide whether this process may take descriptors of another one, by pidfd_getfd.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ptrace {
    /// /proc/sys/kernel/yama/ptrace_scope; 0 if there is none.
    pub scope: u8,
    /// True if the process has CAP_SYS_PTRACE.
    pub is_capable: bool,
}

/// End of a range of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndKind {
    /// The open handle there was closed.
    Closed,
    /// The mapping there was unmapped.
    Unmapped,
    /// The mapping was unmapped, and its addresses were freed.
    Unreserved,
    /// The exported memory there, or the pointer imported from a pool, was freed.
    Freed,
    /// The handle there is open, and its owner freed the memory.
    FreedByOwner,
}

impl EndKind {
    /// Returns the rule about uses after this end.
    pub(crate) fn rule(self) -> Rule {
        match self {
            EndKind::Closed => Rule::UseAfterClose,
            EndKind::Unmapped | EndKind::Unreserved => Rule::UseAfterUnmap,
            EndKind::Freed => Rule::UseAfterFree,
            EndKind::FreedByOwner => Rule::UseAfterOwnerFreed,
        }
    }

    /// Returns the role of the call that ended it.
    pub(crate) fn role(self) -> u32 {
        match self {
            EndKind::Closed => role::CLOSING,
            EndKind::Unmapped => role::UNMAPPING,
            EndKind::Unreserved => role::FREEING,
            EndKind::Freed => role::FREEING,
            EndKind::FreedByOwner => role::EXPORT,
        }
    }

    /// Returns true if a graph with this memory cannot be right even before its launch: only by chance is
    /// other memory there by then. A range that is still reserved can be mapped again, and memory that its
    /// owner freed is still mapped.
    pub fn is_lasting(self) -> bool {
        matches!(self, EndKind::Closed | EndKind::Freed)
    }

    /// Returns the process that ended it, and the verb.
    pub(super) const fn words(self) -> &'static str {
        match self {
            EndKind::Closed => "this process closed",
            EndKind::Unmapped => "this process unmapped",
            EndKind::Unreserved => "this process freed the addresses of",
            EndKind::Freed => "this process freed",
            EndKind::FreedByOwner => "its owner freed",
        }
    }
}
