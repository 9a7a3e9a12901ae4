//! Reads the findings of a call from the items of its details.
//!
//! A rule that this version does not know keeps its name; `cupeer_rules` defines the rules.

use cupeer_spec::record::slot::detail::MOST_FRAMES;
use cupeer_spec::record::slot::finding::Severity;
use cupeer_spec::record::slot::finding::{self as spec, Confidence};
use cupeer_spec::record::{live, read};

/// The most findings of a call.
pub(crate) const MOST: usize = 16;
/// The most objects of a finding.
const MOST_OBJECTS: usize = 64;

/// What a rule has found in a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// How sure it is.
    pub confidence: Confidence,
    /// How bad it is here.
    pub severity: Severity,
    /// The number of the argument that it is about.
    pub argument: Option<u8>,
    /// The rule's name.
    pub rule: String,
    /// What was found; empty where it is only counted, because there were many like it.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// What it is about.
    pub objects: Vec<Object>,
}

/// Something that a finding is about.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Object {
    /// What is known of it.
    pub what: spec::Object,
    /// The return addresses of whoever made it, in the process that made it; the caller's first.
    pub frames: Vec<u64>,
}

impl Finding {
    /// Reads the bytes of a [`cupeer_spec::record::slot::detail::FINDING`].
    pub(crate) fn read(bytes: &[u8]) -> Option<Finding> {
        let spec::Finding { confidence, severity, argument, rule, message, hint } =
            spec::Finding::read(bytes)?;
        let [rule, message, hint] = [rule, message, hint].map(str::to_owned);
        Some(Finding { confidence, severity, argument, rule, message, hint, objects: Vec::new() })
    }

    /// Adds the bytes of a [`cupeer_spec::record::slot::detail::OBJECT`], where they are one and there is room.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        if self.objects.len() < MOST_OBJECTS
            && let Some(what) = read::<spec::Object>(bytes)
        {
            let frames = bytes[size_of::<spec::Object>()..].chunks_exact(8).take(MOST_FRAMES);
            let frames = frames.filter_map(|frame| Some(u64::from_le_bytes(*frame.first_chunk()?)));
            self.objects.push(Object { what, frames: frames.collect() });
        }
    }
}

impl Object {
    /// The file name of the library that made it; empty where unknown.
    pub fn library(&self) -> String {
        String::from_utf8_lossy(live::library_name(&self.what.library)).into_owned()
    }
}
