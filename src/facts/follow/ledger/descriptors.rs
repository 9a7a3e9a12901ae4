//! Tracks the file descriptors of one process: their number, their file descriptor numbers, and the last export.
//!
//! The system assigns the lowest free number, so the number of a closed descriptor is used again. Numbers that are never used
//! again reveal descriptors that the process does not close, although cupeer does not record `close`.

use super::CallSite;
use crate::follow::steps::StepTimes;
use cupeer_record::Call;
use cupeer_report::places::StackNumber;
use cupeer_report::values;
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use std::collections::{BTreeMap, HashMap};

#[derive(Default)]
pub struct FileDescriptors {
    pub exported: DescriptorNumbers,
    pub imported: DescriptorNumbers,
    /// The numbers of descriptors by place. The key is true for a place that exports descriptors, and false for one that
    /// imports them.
    pub places: BTreeMap<(bool, StackNumber), DescriptorNumbers>,
    /// The place that last exported or imported a descriptor with each number.
    holders: HashMap<i32, (bool, StackNumber), foldhash::fast::RandomState>,
    /// The last export.
    pub last_export: Option<SentDescriptor>,
}

/// The numbers of the descriptors that one place exported or imported.
#[derive(Default)]
pub struct DescriptorNumbers {
    /// Number of calls that exported or imported one of the descriptors.
    pub times: u64,
    /// For each number, the ordinal and the time of the last call with it.
    known: HashMap<i32, (u64, u64), foldhash::fast::RandomState>,
    /// The times of all calls.
    pub calls: StepTimes,
    /// The first call that exported or imported one of the descriptors.
    pub first: Option<CallSite>,
    pub last: u64,
}

/// An exported descriptor, which a program sends to another process.
#[derive(Clone, Copy)]
pub struct SentDescriptor {
    pub call: CallSite,
    pub object: Object,
    /// The fingerprint in the handle table; 0 if it has none.
    pub fingerprint: u64,
}

impl FileDescriptors {
    /// Adds the descriptor that a successful call exported or imported, if any.
    pub fn note_call(&mut self, function: FnId, call: &Call, made: impl FnOnce() -> CallSite) {
        let spec = function.spec();
        let descriptor = |argument| values::shared_descriptor(call, argument);
        if let Some((object, (fd, fingerprint))) =
            spec.exports().and_then(|shared| Some((shared.object, descriptor(shared.handle)?)))
        {
            let made = made();
            self.add(fd, made, true);
            self.exported.add(fd, made);
            self.last_export = Some(SentDescriptor { call: made, object, fingerprint });
        } else if let Some((fd, _)) = spec.opens().and_then(|shared| descriptor(shared.handle)) {
            let made = made();
            self.add(fd, made, false);
            self.imported.add(fd, made);
        }
    }

    /// Adds a descriptor. If its number was in use, the earlier descriptor was closed, and is removed from its place.
    fn add(&mut self, fd: i32, made: CallSite, is_export: bool) {
        let place = (is_export, made.site.stack);
        if let Some(before) = self.holders.insert(fd, place) {
            self.places.get_mut(&before).map(|numbers| numbers.known.remove(&fd));
        }
        self.places.entry(place).or_default().add(fd, made);
    }
}

impl DescriptorNumbers {
    fn add(&mut self, fd: i32, made: CallSite) {
        self.known.insert(fd, (self.times, made.at));
        self.calls.add(made.at);
        self.times += 1;
        self.first.get_or_insert(made);
        self.last = made.at;
    }

    /// Returns the calls whose numbers were not used again, in order: the ordinal of each among all calls, and its time.
    pub fn not_reused(&self) -> Vec<(u64, u64)> {
        let mut kept: Vec<(u64, u64)> = self.known.values().copied().collect();
        kept.sort_unstable();
        kept
    }

    /// Returns true if each call had a new number.
    pub fn are_all_new(&self) -> bool {
        self.known.len() as u64 == self.times
    }
}
