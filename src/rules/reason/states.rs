//! States in the sentences of findings.

use crate::rule::Rule;
use cupeer_spec::record::slot::finding::role;

/// Context that was current earlier, for a thread that has no current context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HadContext {
    /// The thread itself had a current context.
    Here {
        /// The thread's last current context.
        context: u64,
        /// True if the process is known to have destroyed or reset the context.
        is_ended: bool,
        /// True if open handles of the process ended with the context.
        has_closed: bool,
    },
    /// Another thread had a current context, but this thread had none.
    InOtherThread,
    /// The primary context of this device is active, whatever code retained it.
    Primary(i32),
    /// No thread was seen with a current context.
    Unknown,
}

/// Permissions that decide whether this process may take descriptors from another one with pidfd_getfd.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ptrace {
    /// Value of /proc/sys/kernel/yama/ptrace_scope; 0 if the file does not exist.
    pub scope: u8,
    /// True if the process has CAP_SYS_PTRACE.
    pub is_capable: bool,
}

/// Kind of event that ended the use of a range of addresses.
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
    /// Returns the rule about uses of memory that ended in this way.
    pub(crate) fn rule(self) -> Rule {
        match self {
            EndKind::Closed => Rule::UseAfterClose,
            EndKind::Unmapped | EndKind::Unreserved => Rule::UseAfterUnmap,
            EndKind::Freed => Rule::UseAfterFree,
            EndKind::FreedByOwner => Rule::UseAfterOwnerFreed,
        }
    }

    /// Returns the role, in a finding, of the call that ended the memory.
    pub(crate) fn ending_role(self) -> u32 {
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

    /// Returns the words for the process that ended the memory, and the verb.
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
