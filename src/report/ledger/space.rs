//! What a process has of virtual memory, for the rules about its next call, and which of its mappings nobody could use.

use super::super::faults::is_done_all_the_same;
use super::super::findings::judged;
use super::super::places::Stack;
use super::Site;
use cupeer_record::{Call, Outcome};
use cupeer_rules::decide::{Allocation, Mapping, Space};
use cupeer_spec::effect::{Effect, End, Made, Object};
use cupeer_spec::function::FnId;
use std::collections::HashMap;

type Known = Space<Vec<Allocation>, Vec<Mapping>>;

/// What one process has.
pub struct OwnSpace {
    known: Known,
    /// By which function and where what is mapped was mapped, and when, by its address.
    sites: HashMap<u64, (FnId, Site, u64)>,
    /// What was unmapped, and never accessible to any device, by where it was mapped.
    unmapped: HashMap<Stack, Unused>,
}

/// Mappings of one place that were never accessible to any device.
#[derive(Clone, Copy)]
pub struct Unused {
    /// By which function and where the first was mapped, and when; when the last was.
    pub function: FnId,
    pub site: Site,
    pub at: u64,
    pub last: u64,
    /// The address of the first.
    pub start: u64,
    pub count: u64,
    pub bytes: u64,
    /// Whether it was still mapped when the process was last seen.
    pub is_left: bool,
}

impl Default for OwnSpace {
    fn default() -> Self {
        let known = Space::new(Vec::new(), Vec::new());
        OwnSpace { known, sites: HashMap::new(), unmapped: HashMap::new() }
    }
}

impl OwnSpace {
    pub fn known(&self) -> &Known {
        &self.known
    }

    /// Notes a call about virtual memory, which was made at a time, from a stack.
    pub fn call(&mut self, function: FnId, call: &Call, at: u64, stack: impl FnOnce() -> Stack) {
        let Outcome::Returned(result) = call.outcome else { return self.known.lose() };
        if call.injected {
            if is_done_all_the_same(call) || result == 0 {
                self.known.lose();
            }
            return;
        }
        let args = call.arguments();
        let judged = judged(function, result, &args, call);
        for effect in function.spec().effects.iter().filter(|_| result == 0) {
            match *effect {
                Effect::Makes(Made { object: Object::Mapping, by, .. }) => {
                    self.sites.insert(judged.at(by), (function, Site::of(call, stack(), false), at));
                    break;
                }
                Effect::Ends(End { object: Object::Mapping, by, size: Some(size), .. }) => {
                    let (start, bytes) = (judged.at(by), judged.at(size));
                    let ended = self.known.mappings().filter(|mapping| mapping.touches(start, bytes));
                    let ended: Vec<_> =
                        ended.map(|mapping| (mapping.start, self.unused(mapping, false))).collect();
                    for (start, unused) in ended {
                        count(&mut self.unmapped, unused);
                        self.sites.remove(&start);
                    }
                }
                _ => {}
            }
        }
        self.known.note(&judged);
    }

    /// A mapping that nobody could use.
    fn unused(&self, mapping: &Mapping, is_left: bool) -> Option<Unused> {
        let (function, site, at) = *self.sites.get(&mapping.start)?;
        // What is mapped with another handle is no memory that this process knows: a multicast object.
        let is_memory = self.known.allocation(mapping.handle).is_some();
        let &Mapping { start, bytes, is_granted, .. } = mapping;
        let unused = Unused { function, site, at, last: at, start, count: 1, bytes, is_left };
        (is_memory && !is_granted).then_some(unused)
    }

    /// All mappings that nobody could use, once all calls are noted; none where calls may be missing.
    pub fn finish(&mut self) -> Vec<Unused> {
        if self.known.has_lost() {
            return Vec::new();
        }
        let mut left = HashMap::new();
        self.known.mappings().for_each(|mapping| count(&mut left, self.unused(mapping, true)));
        self.unmapped.drain().map(|(_, unused)| unused).chain(left.into_values()).collect()
    }
}

fn count(all: &mut HashMap<Stack, Unused>, unused: Option<Unused>) {
    let Some(unused) = unused else { return };
    all.entry(unused.site.stack)
        .and_modify(|known| {
            known.count += 1;
            known.bytes += unused.bytes;
            known.last = known.last.max(unused.at);
        })
        .or_insert(unused);
}
