//! Adds the live table to the handle table.
//!
//! A process that keeps only its last events lost most of what it exported and opened. The live table has the part
//! that is still open, so for such a process it decides what is open. If all events were kept, they decide alone: the
//! live table counts openers that had ended as openers at a free, and the events tell them apart.

use super::taken::Taken;
use super::{CallSite, Current, Ended, HandleDomain, Ledger, Site};
use cupeer_report::model::Uuid;
use cupeer_report::places::Stack;
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use cupeer_spec::record::live::{Entry, ended, kind};

/// A UUID of which zero says that it is unknown.
pub fn uuid(bytes: [u8; 16]) -> Option<Uuid> {
    (bytes != [0; 16]).then_some(Uuid(bytes))
}

impl Ledger {
    /// Closes what a process had open as far as its events go, because the table, which follows, decides.
    pub fn forget_open(&mut self, process: usize) {
        for entry in &mut self.handles {
            for import in entry.imports.iter_mut().filter(|import| import.process == process) {
                import.close(Ended { at: None, by: None, site: None, anew: None }, true);
            }
        }
    }

    /// Takes an entry of the table, which is of a process of a domain and began at a time; of one of which all events were
    /// kept nothing but the handle.
    pub fn live(
        &mut self,
        entry: &Entry,
        process: usize,
        domain: HandleDomain,
        at: u64,
        stack: Stack,
        is_full: bool,
    ) {
        let (kind, is_export) = match (kind::exported_object(entry.kind), kind::opened_object(entry.kind)) {
            (Some(object), _) => (object, true),
            (None, Some(object)) => (object, false),
            (None, None) => return,
        };
        // The table remembers exports that ended and that no process has open.
        let is_memory = entry.ended & ended::ENDED != 0 && entry.ended & ended::WHILE_OPEN == 0;
        if is_export && is_memory {
            return;
        }
        let number = self.number(domain, kind, (entry.fingerprint, entry.checked));
        let Some(function) = opener(kind).filter(|_| !is_full) else { return };
        let taken = Taken {
            call: CallSite { function, site: Site { seq: 0, tid: entry.tid, stack, is_judged: false }, at },
            is_injected: false,
            kind,
            handle: (entry.fingerprint, entry.checked),
            address: entry.address,
            exported: is_export,
            bytes: (entry.bytes > 0).then_some(entry.bytes),
            took: 0,
            current: Current { context: Some(entry.peer), device: Some(entry.device) },
            is_sure: true,
            uuid: uuid(entry.uuid),
            inside: entry.inside,
        };
        let handle = &mut self.handles[number as usize];
        if is_export {
            if handle.export.is_none() {
                handle.exported(process, &taken);
            }
            if let Some(export) = &mut handle.export {
                // An object that outlives its maker is still there for each importer.
                let is_freed = entry.ended & ended::WHILE_OPEN != 0 && !kind.outlives_its_maker();
                export.freed_while_open |= is_freed;
            }
        } else {
            let import = handle.import(process);
            let count = u64::from(entry.count.max(1));
            import.opened = import.opened.max(count);
            import.device = taken.uuid;
            // Events of the time that the table knows, as far as there are any, say the same less exactly.
            while import.times.last().is_some_and(|time| time.opened >= at) {
                import.times.pop();
            }
            import.times.push(taken.time(count));
        }
    }
}

/// The function that programs call to open such a thing.
fn opener(kind: Object) -> Option<FnId> {
    FnId::newest(|function| function.opens().is_some_and(|shared| shared.object == kind))
}
