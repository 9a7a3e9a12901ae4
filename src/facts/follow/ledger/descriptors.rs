//! Tracks the file descriptors of one process: how many it exported and imported under which numbers, and its last
//! export.
//!
//! The system gives out the lowest free number, so the number of a closed descriptor comes back. So numbers reveal
//! descriptors that no process closes, although cupeer does not see how descriptors are closed and sent.

use super::CallSite;
use crate::follow::steps::Steps;
use cupeer_record::Call;
use cupeer_report::places::Stack;
use cupeer_report::values;
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use std::collections::{BTreeMap, HashMap};

#[derive(Default)]
pub struct Descriptors {
    pub exported: Numbers,
    pub imported: Numbers,
    /// By whether they were exported, and where.
    pub places: BTreeMap<(bool, Stack), Numbers>,
    /// The place that last got each number.
    holders: HashMap<i32, (bool, Stack), foldhash::fast::RandomState>,
    /// The last export.
    pub last: Option<SentDescriptor>,
}

/// The numbers of descriptors that one function made or took.
#[derive(Default)]
pub struct Numbers {
    /// Number of calls.
    pub times: u64,
    /// The last call that returned each number, and its time.
    known: HashMap<i32, (u64, u64), foldhash::fast::RandomState>,
    /// When all of the calls were made.
    pub calls: Steps,
    /// The first call, and when the last one was made.
    pub first: Option<CallSite>,
    pub last: u64,
}

/// A descriptor that was exported to be sent.
#[derive(Clone, Copy)]
pub struct SentDescriptor {
    pub call: CallSite,
    pub object: Object,
    /// The fingerprint in the handle table; 0 if it has none.
    pub fingerprint: u64,
}

impl Descriptors {
    /// Notes a call that succeeded.
    pub fn call(&mut self, function: FnId, call: &Call, made: impl FnOnce() -> CallSite) {
        let spec = function.spec();
        let descriptor = |argument| values::descriptor(call, argument);
        if let Some((object, (fd, fingerprint))) =
            spec.exports().and_then(|shared| Some((shared.object, descriptor(shared.handle)?)))
        {
            let made = made();
            self.add(fd, made, true);
            self.exported.add(fd, made);
            self.last = Some(SentDescriptor { call: made, object, fingerprint });
        } else if let Some((fd, _)) = spec.opens().and_then(|shared| descriptor(shared.handle)) {
            let made = made();
            self.add(fd, made, false);
            self.imported.add(fd, made);
        }
    }

    /// A number that comes back was closed, wherever it was made or taken.
    fn add(&mut self, fd: i32, made: CallSite, is_export: bool) {
        let place = (is_export, made.site.stack);
        if let Some(before) = self.holders.insert(fd, place) {
            self.places.get_mut(&before).map(|numbers| numbers.known.remove(&fd));
        }
        self.places.entry(place).or_default().add(fd, made);
    }
}

impl Numbers {
    fn add(&mut self, fd: i32, made: CallSite) {
        self.known.insert(fd, (self.times, made.at));
        self.calls.add(made.at);
        self.times += 1;
        self.first.get_or_insert(made);
        self.last = made.at;
    }

    /// The calls whose numbers no later call got, in order: which of all each was, and when.
    pub fn kept(&self) -> Vec<(u64, u64)> {
        let mut kept: Vec<(u64, u64)> = self.known.values().copied().collect();
        kept.sort_unstable();
        kept
    }

    /// Returns true if no number was ever returned twice.
    pub fn are_all_new(&self) -> bool {
        self.known.len() as u64 == self.times
    }
}
