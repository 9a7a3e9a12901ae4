//! The last uses of the memory of handles by processes, as far as their recorded copies show.

use super::context::Context;
use super::touched::Range;
use crate::follow::ledger::Entry;
use cupeer_spec::effect::Object as Kind;
use std::collections::HashMap;

/// The last uses, by process and entry.
#[derive(Default)]
pub struct Used(HashMap<(u32, *const Entry), u64>);

impl Used {
    pub fn of(context: &Context) -> Used {
        let mut all = Used::default();
        let ranges = context.ranges();
        for (process, tally) in context.all.tallies.iter().enumerate() {
            let realm = context.all.realms[process];
            let mut known: Vec<&Range> = ranges.get(&process).into_iter().flatten().collect();
            known.sort_by_key(|range| range.start);
            for used in &tally.uses.all {
                let virtual_memory =
                    used.handle.and_then(|handle| context.all.ledger.handle(realm, Kind::Allocation, handle));
                let until = known.partition_point(|range| range.start <= used.address);
                let start = known[..until].last().map_or(0, |range| range.start);
                let near = known[..until].iter().rev().take_while(|range| range.start == start);
                let at = near.filter(|range| range.has(used.address, 1, used.at)).map(|range| range.entry);
                for entry in at.chain(virtual_memory) {
                    let last = all.0.entry((process as u32, std::ptr::from_ref(entry))).or_default();
                    *last = used.at.max(*last);
                }
            }
        }
        all
    }

    /// Returns the time when a process last used the memory of a handle.
    pub fn by(&self, process: u32, entry: &Entry) -> Option<u64> {
        self.0.get(&(process, std::ptr::from_ref(entry))).copied()
    }

    /// Returns the same of the exporter and all importers.
    pub fn by_any(&self, entry: &Entry) -> Option<u64> {
        let exporter = entry.export.iter().map(|export| export.process);
        let all = exporter.chain(entry.imports.iter().map(|import| import.process));
        all.filter_map(|process| self.by(process, entry)).max()
    }
}
