//! Clues: unusual facts about a job of which a process failed although no finding explains it.

use super::{Fingerprint, Place, Proc, word};
use crate::model::Word;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Unusual fact about a job of which a process failed although no finding explains it. It breaks no rule.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Clue {
    /// Kind of the fact, such as `exported-again`.
    #[serde(deserialize_with = "word::read")]
    pub kind: Word,
    /// Fact in one sentence: the first one of its kind.
    pub message: String,
    /// Number of facts of this kind.
    pub count: u64,
    /// Processes that the fact is about.
    pub procs: Vec<Proc>,
    /// Handle that the fact is about; null if it is about none.
    pub fingerprint: Option<Fingerprint>,
    /// Time of the call that the fact is about.
    pub time_ns: u64,
    /// Call stacks of the calls in the sentence, in its order, each with the caller first.
    pub stacks: Vec<Vec<Place>>,
}
