//! The checks of a link, and their results.

use super::request::Refusal;
use cupeer_topology::MethodVerdict as InTopology;
pub use cupeer_topology::SharingMethod;
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;

/// Check of a link.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug, JsonSchema)]
#[serde(rename_all = "snake_case")]
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
    pub const ALL: [Check; 6] = {
        use Check::{Atomics, CopyRead, CopyWrite, KernelRead, KernelWrite, Resident};
        [CopyWrite, CopyRead, KernelWrite, KernelRead, Resident, Atomics]
    };

    pub fn description(self) -> &'static str {
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
#[derive(Serialize, Clone, PartialEq, Eq, Debug, JsonSchema)]
#[serde(tag = "verdict", rename_all = "snake_case")]
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
    /// Returns the name, the word in a matrix, the weight, and the verdict in a topology file. Of several
    /// verdicts, the verdict with the highest weight counts: the one that harms programs most.
    fn names_and_weight(&self) -> (&'static str, &'static str, u8, InTopology) {
        match self {
            Verdict::NotTested { .. } => ("not tested", "untested", 0, InTopology::NotTested),
            Verdict::Good => ("good", "good", 1, InTopology::Good),
            Verdict::Refused { .. } => ("refused", "refused", 2, InTopology::Refused),
            Verdict::Stale { .. } => ("stale", "stale", 3, InTopology::Stale),
            Verdict::Wrong { .. } => ("wrong data", "wrong", 4, InTopology::Wrong),
            Verdict::Stalls { .. } => ("stalls", "stalls", 5, InTopology::Stalls),
        }
    }

    pub fn name(&self) -> &'static str {
        self.names_and_weight().0
    }

    /// Returns the word for the verdict in a matrix.
    pub fn matrix_word(&self) -> &'static str {
        self.names_and_weight().1
    }

    pub fn topology_verdict(&self) -> InTopology {
        self.names_and_weight().3
    }

    pub fn is_bad(&self) -> bool {
        !matches!(self, Verdict::Good | Verdict::NotTested { .. })
    }

    /// Returns the verdict with the highest weight; of several, the first.
    pub fn worst<'a>(all: impl Iterator<Item = &'a Verdict>) -> Verdict {
        let worst = all.min_by_key(|verdict| Reverse(verdict.names_and_weight().2));
        worst.cloned().unwrap_or(Verdict::NotTested { reason: "nothing was tried".to_owned() })
    }

    /// Returns the explanation to print after the name.
    pub fn explanation(&self) -> String {
        match self {
            Verdict::Good => String::new(),
            Verdict::Wrong { wrong, words, first_byte, reason } => {
                format!("{wrong} of {words} words are wrong, the first at byte {first_byte:#x}: {reason}")
            }
            Verdict::Stale { reason } | Verdict::Stalls { reason } | Verdict::NotTested { reason } => reason.clone(),
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
