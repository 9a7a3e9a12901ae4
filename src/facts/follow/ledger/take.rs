//! Adds exported and opened handles to the handle table, when the calls have returned.

use super::follow::{HandleFollower, OwnHandle};
use super::taken::WaitingHandle;
use super::{CurrentContext, Export, HandleEntry, HandleTable, MOST_TIMES, ObjectEnd};
use cupeer_spec::effect::Object;

impl HandleFollower {
    /// Adds the waiting handles of calls that returned before a time.
    pub fn add_returned(&mut self, ledger: &mut HandleTable, ticks: u64) {
        while let Some(taken) = self.waiting.take_returned_by(ticks) {
            self.add_to_table(ledger, taken);
        }
    }

    /// Adds a waiting handle early, because a call closes or ends the object at its address, and no other object is known there.
    pub(super) fn add_early(&mut self, ledger: &mut HandleTable, place: (Object, u64), exported: bool) {
        let is_it = |taken: &WaitingHandle| (taken.kind, taken.address) == place && taken.exported == exported;
        if let Some(taken) = self.waiting.take_first(is_it) {
            self.add_to_table(ledger, taken);
        }
    }

    fn add_to_table(&mut self, ledger: &mut HandleTable, taken: WaitingHandle) {
        let number = ledger.number_or_add(self.domain, taken.kind, taken.handle);
        let WaitingHandle { current: CurrentContext { context, device }, is_sure, .. } = taken;
        let (bytes, stack) = (taken.bytes.unwrap_or(0), taken.call.site.stack);
        let mut held = OwnHandle { handle: number, stack, import: 0, context, device, is_sure, bytes };
        if taken.exported {
            let all = self.exported.holder_or_insert(taken.kind, taken.address, || Vec::with_capacity(1));
            match all.iter_mut().find(|known| known.handle == number) {
                Some(known) => *known = held,
                None => all.push(held),
            }
            ledger.handles[number as usize].add_export(self.process, &taken);
            return;
        }
        let handle = &mut ledger.handles[number as usize];
        held.import = handle.import_index_or_add(self.process) as u32;
        handle.imports[held.import as usize].add_open(&taken);
        let Some(other) = self.opened.assign(taken.kind, taken.address, held).filter(|other| other.handle != number)
        else {
            return;
        };
        let ended = ObjectEnd { at: Some(taken.call.at), by: None, site: None, exported_again_at: None };
        if ledger.handles[other.handle as usize].checked == taken.handle.1 {
            // A damaged copy of the handle has the same mapping, so the open counts for the original handle.
            held.import(ledger).add_close(ended, true);
            other.import(ledger).count_damaged_copy();
            // The address stays assigned to the original handle.
            let _ = self.opened.assign(taken.kind, taken.address, other);
        } else {
            // The object that had this address before was closed by a call that is not recorded.
            other.import(ledger).add_close(ended, true);
        }
    }
}

impl HandleEntry {
    /// Adds an export of the handle.
    pub fn add_export(&mut self, process: usize, taken: &WaitingHandle) {
        let call = taken.call;
        match &mut self.export {
            Some(export) if export.process == process => {
                export.last = call;
                export.times += 1;
                export.add_offset(call.at, taken.inside);
                // The handle has the same bytes as before a free: the driver reused them for a new allocation.
                if let Some(ended) = export.ended.take() {
                    if export.ended_before.len() == MOST_TIMES {
                        export.ended_before.remove(0);
                    }
                    export.ended_before.push(ObjectEnd { exported_again_at: Some(call.at), ..ended });
                }
            }
            _ => {
                self.export = Some(Box::new(Export {
                    process,
                    first: call,
                    last: call,
                    times: 1,
                    address: taken.address,
                    bytes: taken.bytes,
                    device: taken.uuid,
                    ended: None,
                    ended_before: Vec::new(),
                    perhaps_ended: Vec::new(),
                    freed_while_open: false,
                    ordinal: taken.current.device,
                    inside: vec![(call.at, taken.inside)],
                }));
            }
        }
    }

    /// Adds a possible end of the object: a context ended to which the object may have belonged.
    pub fn add_possible_end(&mut self, done: ObjectEnd) {
        if let Some(export) = self.export.as_mut().filter(|export| export.perhaps_ended.len() < MOST_TIMES) {
            export.perhaps_ended.push(done);
        }
    }

    pub fn set_end(&mut self, done: ObjectEnd) {
        if let Some(export) = &mut self.export {
            export.ended = Some(done);
        }
    }
}
