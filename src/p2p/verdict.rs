//! What a test says of a link.

use super::request::Refusal;
pub use cupeer_topology::Method;
use serde::Serialize;

/// Check of a link.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Check {
    /// The copy engine writes.
    CopyWrite,
    /// The copy engine reads.
    CopyRead,
    /// A kernel writes, and ends.
    KernelWrite,
    /// A kernel reads.
    KernelRead,
    /// A kernel writes and keeps running, while a kernel of the owner waits for the data, as collectives do.
    Resident,
    /// Kernels of both devices add to the same words.
    Atomics,
}

impl Check {
    pub const ALL: [Check; 6] = [
        Check::CopyWrite,
        Check::CopyRead,
        Check::KernelWrite,
        Check::KernelRead,
        Check::Resident,
        Check::Atomics,
    ];

    pub fn doc(self) -> &'static str {
        match self {
            Check::CopyWrite => "write by copy engine",
            Check::CopyRead => "read by copy engine",
            Check::KernelWrite => "write by a kernel",
            Check::KernelRead => "read by a kernel",
            Check::Resident => "write by a resident kernel",
            Check::Atomics => "atomics of both sides",
        }
    }
}

/// Result of a check, or of all checks of a method.
#[derive(Serialize, Clone, PartialEq, Eq, Debug)]
#[serde(tag = "verdict", rename_all = "snake_case")]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub enum Verdict {
    /// All data arrived.
    Good,
    /// The memory contains other data than was written.
    Wrong {
        /// Number of words of 8 bytes that are wrong.
        wrong: u64,
        /// Number of words of 8 bytes that were compared.
        words: u64,
        /// Offset in bytes of the first wrong word.
        first_byte: u64,
        /// Description of the wrong data; empty if it has no pattern.
        reason: String,
    },
    /// The memory contains earlier data, or the data arrives too late.
    Stale {
        /// Observation that shows the old data.
        reason: String,
    },
    /// The check does not end.
    Stalls {
        /// Part of the check that does not end.
        reason: String,
    },
    /// A call failed.
    Refused {
        /// Name of the function that failed.
        call: String,
        /// Result of the function.
        result: String,
        /// Explanation from the driver's log; null if it has none.
        message: Option<String>,
    },
    /// The check was not run.
    NotTested {
        /// Reason why the check was not run.
        reason: String,
    },
}

impl Verdict {
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Good => "good",
            Verdict::Wrong { .. } => "wrong data",
            Verdict::Stale { .. } => "stale",
            Verdict::Stalls { .. } => "stalls",
            Verdict::Refused { .. } => "refused",
            Verdict::NotTested { .. } => "not tested",
        }
    }

    /// The same in a topology.
    pub fn in_topology(&self) -> cupeer_topology::Verdict {
        use cupeer_topology::Verdict as Word;
        match self {
            Verdict::Good => Word::Good,
            Verdict::Wrong { .. } => Word::Wrong,
            Verdict::Stale { .. } => Word::Stale,
            Verdict::Stalls { .. } => Word::Stalls,
            Verdict::Refused { .. } => Word::Refused,
            Verdict::NotTested { .. } => Word::NotTested,
        }
    }

    pub fn is_bad(&self) -> bool {
        !matches!(self, Verdict::Good | Verdict::NotTested { .. })
    }

    /// Which of several says most: what a program would lose most by.
    fn weight(&self) -> u8 {
        match self {
            Verdict::NotTested { .. } => 0,
            Verdict::Good => 1,
            Verdict::Refused { .. } => 2,
            Verdict::Stale { .. } => 3,
            Verdict::Wrong { .. } => 4,
            Verdict::Stalls { .. } => 5,
        }
    }

    /// The one of all that says most.
    pub fn worst<'a>(all: impl Iterator<Item = &'a Verdict>) -> Verdict {
        let worst = all.fold(None::<&Verdict>, |worst, one| match worst {
            Some(worst) if worst.weight() >= one.weight() => Some(worst),
            _ => Some(one),
        });
        worst.cloned().unwrap_or(Verdict::NotTested { reason: "nothing was tried".to_owned() })
    }

    /// What it says besides its name.
    pub fn detail(&self) -> String {
        match self {
            Verdict::Good => String::new(),
            Verdict::Wrong { wrong, words, first_byte, reason } => {
                format!("{wrong} of {words} words are wrong, the first at byte {first_byte:#x}: {reason}")
            }
            Verdict::Stale { reason } | Verdict::Stalls { reason } | Verdict::NotTested { reason } => {
                reason.clone()
            }
            Verdict::Refused { call, result, message } => {
                let message = message.as_ref().map_or(String::new(), |message| format!(" ({message})"));
                format!("{call}: {result}{message}")
            }
        }
    }
}

impl From<Refusal> for Verdict {
    fn from(Refusal { call, result, message }: Refusal) -> Verdict {
        Verdict::Refused { call, result, message }
    }
}
