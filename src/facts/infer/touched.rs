//! The recorded uses of shared memory, by handle: which process read or wrote which bytes, in the order of time.

use super::context::Context;
use super::staged;
use crate::follow::ledger::Entry;
use crate::follow::uses::Use;
use std::collections::BTreeMap;

/// The most uses of one memory that are compared with each other.
const MOST: usize = 1024;

/// Use of shared memory by a process.
#[derive(Clone, Copy)]
pub struct Touch<'a> {
    pub process: usize,
    pub used: &'a Use,
    pub offset: u64,
}

/// Shared memory, its exporter, and its uses in the order of time.
pub struct Touched<'a> {
    pub entry: &'a Entry,
    pub owner: usize,
    pub all: Vec<Touch<'a>>,
}

impl Touch<'_> {
    /// Returns true if it writes bytes that another use has to do with.
    pub fn writes(&self, other: &Touch) -> bool {
        self.used.is_write && self.overlaps(other)
    }

    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.used.bytes)
    }

    pub fn overlaps(&self, other: &Touch) -> bool {
        self.offset < other.end() && other.offset < self.end()
    }
}

impl Touched<'_> {
    /// Returns true if the recording has all copies and memsets that used the memory, and they are few enough to be compared.
    pub fn is_whole(&self, context: &Context) -> bool {
        let mut uses = context.all.tallies.iter().map(|tally| &tally.uses);
        self.all.len() <= MOST && context.all.knows_all(self.entry.realm) && !uses.any(|it| it.is_cut)
    }
}

/// Returns the shared memory that recorded copies used.
pub fn touched<'a>(context: &Context<'a>) -> Vec<Touched<'a>> {
    let ranges = staged::ranges(context);
    let mut all: BTreeMap<_, Touched> = BTreeMap::new();
    for (process, tally) in context.all.tallies.iter().enumerate() {
        for used in &tally.uses.all {
            let Some((entry, offset)) = staged::there(context, &ranges, process, used) else { continue };
            let Some(owner) = entry.export.as_ref().map(|export| export.process as usize) else { continue };
            let key = (entry.realm, entry.fingerprint);
            let memory = all.entry(key).or_insert_with(|| Touched { entry, owner, all: Vec::new() });
            memory.all.push(Touch { process, used, offset });
        }
    }
    all.values_mut().for_each(|memory| memory.all.sort_by_key(|touch| touch.used.at));
    all.into_values().collect()
}
