//! Adds the live table to the handle table.
//!
//! A recording that keeps only the last events lacks most exports and opens. The live table has the handles that are still
//! open, so for such a process the live table decides what is open. If all events were kept, only the events count: at a
//! free, the live table also counts processes that had ended as openers, and the events do not.

use super::taken::WaitingHandle;
use super::{CallSite, CurrentContext, HandleDomain, HandleTable, ObjectEnd, Site};
use cupeer_report::model::Uuid;
use cupeer_report::places::StackNumber;
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use cupeer_spec::record::live::{Entry, ended, kind};

/// Returns a UUID; `None` if all bytes are zero, which means unknown.
pub fn nonzero_uuid(bytes: [u8; 16]) -> Option<Uuid> {
    (bytes != [0; 16]).then_some(Uuid(bytes))
}

impl HandleTable {
    /// Closes all handles that are open according to the events of a process: the live table is added next, and decides.
    pub fn close_all_of_process(&mut self, process: usize) {
        for entry in &mut self.handles {
            for import in entry.imports.iter_mut().filter(|import| import.process == process) {
                import.add_close(ObjectEnd { at: None, by: None, site: None, exported_again_at: None }, true);
            }
        }
    }

    /// Adds an entry of the live table. If all events of the process were kept, only the handle is added.
    pub fn add_live_entry(
        &mut self,
        entry: &Entry,
        process: usize,
        domain: HandleDomain,
        at: u64,
        stack: StackNumber,
        is_full: bool,
    ) {
        let (kind, is_export) = match (kind::exported_object(entry.kind), kind::opened_object(entry.kind)) {
            (Some(object), _) => (object, true),
            (None, Some(object)) => (object, false),
            (None, None) => return,
        };
        // The live table also has exports that ended and that no process has open.
        let is_memory = entry.ended & ended::ENDED != 0 && entry.ended & ended::WHILE_OPEN == 0;
        if is_export && is_memory {
            return;
        }
        let number = self.number_or_add(domain, kind, (entry.fingerprint, entry.checked));
        let Some(function) = usual_opening_function(kind).filter(|_| !is_full) else { return };
        let taken = WaitingHandle {
            call: CallSite { function, site: Site { seq: 0, tid: entry.tid, stack, is_judged: false }, at },
            is_injected: false,
            kind,
            handle: (entry.fingerprint, entry.checked),
            address: entry.address,
            exported: is_export,
            bytes: (entry.bytes > 0).then_some(entry.bytes),
            took: 0,
            current: CurrentContext { context: Some(entry.peer), device: Some(entry.device) },
            is_sure: true,
            uuid: nonzero_uuid(entry.uuid),
            inside: entry.inside,
        };
        let handle = &mut self.handles[number as usize];
        if is_export {
            if handle.export.is_none() {
                handle.add_export(process, &taken);
            }
            if let Some(export) = &mut handle.export {
                // An object that outlives its exporter still exists for each importer.
                let is_freed = entry.ended & ended::WHILE_OPEN != 0 && !kind.outlives_its_maker();
                export.freed_while_open |= is_freed;
            }
        } else {
            let import = handle.import_or_add(process);
            let count = u64::from(entry.count.max(1));
            import.opened = import.opened.max(count);
            import.device = taken.uuid;
            // The live table is more exact than the events of the same time, so these are removed.
            while import.times.last().is_some_and(|time| time.opened >= at) {
                import.times.pop();
            }
            import.times.push(taken.new_period(count));
        }
    }
}

/// Returns the function that programs usually call to open an object of a kind.
fn usual_opening_function(kind: Object) -> Option<FnId> {
    FnId::find_newest(|function| function.opens().is_some_and(|shared| shared.object == kind))
}
