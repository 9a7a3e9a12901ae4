//! Adds exported and opened handles to the handle table, when the calls have returned.

use super::follow::{Follower, OwnHandle};
use super::taken::Taken;
use super::{Current, Ended, Entry, Export, Ledger, MOST_TIMES};
use cupeer_spec::effect::Object;

impl Follower {
    /// Adds the waiting handles of calls that returned before a time.
    pub fn settle(&mut self, ledger: &mut Ledger, ticks: u64) {
        while let Some(taken) = self.waiting.next_until(ticks) {
            self.take(ledger, taken);
        }
    }

    /// Adds a waiting handle early, because a call closes or ends the object at its address, and no other object is known there.
    pub(super) fn take_late(&mut self, ledger: &mut Ledger, place: (Object, u64), exported: bool) {
        let is_it = |taken: &Taken| (taken.kind, taken.address) == place && taken.exported == exported;
        if let Some(taken) = self.waiting.take(is_it) {
            self.take(ledger, taken);
        }
    }

    fn take(&mut self, ledger: &mut Ledger, taken: Taken) {
        let number = ledger.number(self.domain, taken.kind, taken.handle);
        let Taken { current: Current { context, device }, is_sure, .. } = taken;
        let (bytes, stack) = (taken.bytes.unwrap_or(0), taken.call.site.stack);
        let mut held = OwnHandle { handle: number, stack, import: 0, context, device, is_sure, bytes };
        if taken.exported {
            let all = self.exported.bearer_or(taken.kind, taken.address, || Vec::with_capacity(1));
            match all.iter_mut().find(|known| known.handle == number) {
                Some(known) => *known = held,
                None => all.push(held),
            }
            ledger.handles[number as usize].exported(self.process, &taken);
            return;
        }
        let handle = &mut ledger.handles[number as usize];
        held.import = handle.import_index(self.process) as u32;
        handle.imports[held.import as usize].open(&taken);
        let Some(other) =
            self.opened.give(taken.kind, taken.address, held).filter(|other| other.handle != number)
        else {
            return;
        };
        let ended = Ended { at: Some(taken.call.at), by: None, site: None, anew: None };
        if ledger.handles[other.handle as usize].checked == taken.handle.1 {
            // A damaged copy of the handle has the same mapping, so the open counts for the original handle.
            held.import(ledger).close(ended, true);
            other.import(ledger).count_in();
            // The address stays assigned to the original handle.
            let _ = self.opened.give(taken.kind, taken.address, other);
        } else {
            // The object that had this address before was closed by a call that is not recorded.
            other.import(ledger).close(ended, true);
        }
    }
}

impl Entry {
    /// Adds an export of the handle.
    pub fn exported(&mut self, process: usize, taken: &Taken) {
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
                    export.ended_before.push(Ended { anew: Some(call.at), ..ended });
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
    pub fn perhaps_end(&mut self, done: Ended) {
        if let Some(export) = self.export.as_mut().filter(|export| export.perhaps_ended.len() < MOST_TIMES) {
            export.perhaps_ended.push(done);
        }
    }

    pub fn end(&mut self, done: Ended) {
        if let Some(export) = &mut self.export {
            export.ended = Some(done);
        }
    }
}
