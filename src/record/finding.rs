//! Reads the findings of a call from the items of its details.
//!
//! A rule that this version does not know keeps its name; `cupeer_rules` defines the rules.

use cupeer_spec::record::slot::detail::MOST_FRAMES;
use cupeer_spec::record::slot::finding::Severity;
use cupeer_spec::record::slot::finding::{self as spec, Confidence};
use cupeer_spec::record::{live, read_plain};

/// Largest number of findings that are read per call.
pub(crate) const MOST: usize = 16;
/// Largest number of objects that are read per finding.
const MOST_OBJECTS: usize = 64;

/// Finding of a rule in a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Certainty of the finding.
    pub confidence: Confidence,
    /// Severity of the finding in this call.
    pub severity: Severity,
    /// Index of the argument that the finding is about.
    pub argument: Option<u8>,
    /// Name of the rule.
    pub rule: String,
    /// Sentence that states the error; empty for a finding that is only counted, because there were many like it.
    pub message: String,
    /// Action that fixes the error.
    pub hint: String,
    /// Objects that the finding is about.
    pub objects: Vec<FindingObject>,
}

/// Object that a finding is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FindingObject {
    /// Data about the object.
    pub what: spec::FindingObject,
    /// Return addresses of the call that concerned the object, in its process, the caller's first.
    pub frames: Vec<u64>,
}

impl Finding {
    /// Reads the bytes of a [`cupeer_spec::record::slot::detail::FINDING`].
    pub(crate) fn parse(bytes: &[u8]) -> Option<Finding> {
        let spec::Finding { confidence, severity, argument, rule, message, hint } = spec::Finding::read(bytes)?;
        let [rule, message, hint] = [rule, message, hint].map(str::to_owned);
        Some(Finding { confidence, severity, argument, rule, message, hint, objects: Vec::new() })
    }

    /// Adds the bytes of a [`cupeer_spec::record::slot::detail::OBJECT`] if they are valid and there is
    /// space.
    pub(crate) fn add_object(&mut self, bytes: &[u8]) {
        if self.objects.len() < MOST_OBJECTS
            && let Some(what) = read_plain::<spec::FindingObject>(bytes)
        {
            let frames = bytes[size_of::<spec::FindingObject>()..].chunks_exact(8).take(MOST_FRAMES);
            let frames = frames.filter_map(|frame| Some(u64::from_le_bytes(*frame.first_chunk()?)));
            self.objects.push(FindingObject { what, frames: frames.collect() });
        }
    }
}

impl FindingObject {
    /// Returns the file name of the library that made the call; empty if unknown.
    pub fn library_name(&self) -> String {
        String::from_utf8_lossy(live::library_name(&self.what.library)).into_owned()
    }
}
