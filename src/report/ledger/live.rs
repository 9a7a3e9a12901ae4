//! What the live table adds to the ledger.
//!
//! A process that keeps only its last events has forgotten most of what it exported and opened. What of that is
//! still open stands in the table, so that for such a process the table decides what is open. Where all events
//! were kept they decide alone: the table's word that something was freed while others had it open counts openers that
//! were dead by then, and the events tell them apart.

use super::super::model::Uuid;
use super::super::places::Stack;
use super::{Current, Ended, Export, Ledger, Realm, Time};
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use cupeer_spec::record::live::{Entry, ended, kind};

/// An entry of the table, with what is known of its process.
pub struct Live<'a> {
    /// The entry.
    pub entry: &'a Entry,
    /// Its process.
    pub process: usize,
    /// Where its fingerprint means something.
    pub realm: Realm,
    /// When it was opened or exported.
    pub at: u64,
    /// Where.
    pub stack: Stack,
    /// Whether all events of the process were kept.
    pub is_full: bool,
}

/// A UUID of which zero says that it is unknown.
pub fn uuid(bytes: [u8; 16]) -> Option<Uuid> {
    (bytes != [0; 16]).then_some(Uuid(bytes))
}

impl Ledger {
    /// Closes what a process had open as far as its events go, because the table, which follows, decides.
    pub fn forget_open(&mut self, process: usize) {
        for entry in &mut self.handles {
            for import in entry.imports.iter_mut().filter(|import| import.process as usize == process) {
                import.close(Ended { at: None, by: None, site: None }, true);
            }
        }
    }

    /// Takes an entry of the table.
    pub fn live(&mut self, live: &Live) {
        let (kind, is_export) =
            match (kind::exported_object(live.entry.kind), kind::opened_object(live.entry.kind)) {
                (Some(object), _) => (object, true),
                (None, Some(object)) => (object, false),
                (None, None) => return,
            };
        // What has ended and nobody has open stays in the table as a memory of it.
        let is_memory = live.entry.ended & ended::ENDED != 0 && live.entry.ended & ended::WHILE_OPEN == 0;
        if is_export && is_memory {
            return;
        }
        let number = self.number(live.realm, kind, (live.entry.fingerprint, live.entry.checked));
        let handle = &mut self.handles[number as usize];
        if is_export {
            if !live.is_full && handle.export.is_none() {
                handle.export = Some(Box::new(Export {
                    process: live.process as u32,
                    first: (live.entry.tid, live.at),
                    last: (live.entry.tid, live.at),
                    times: 1,
                    address: live.entry.address,
                    stack: Some(live.stack),
                    bytes: (live.entry.bytes > 0).then_some(live.entry.bytes),
                    device: uuid(live.entry.uuid),
                    ordinal: Some(live.entry.device),
                    inside: live.entry.inside,
                    ..Export::default()
                }));
            }
            if let Some(export) = handle.export.as_mut().filter(|_| !live.is_full) {
                export.freed_while_open |= live.entry.ended & ended::WHILE_OPEN != 0;
            }
        } else if let Some(function) = opener(kind).filter(|_| !live.is_full) {
            let import = handle.import(live.process as u32);
            let count = u64::from(live.entry.count.max(1));
            import.opened = import.opened.max(count);
            import.device = uuid(live.entry.uuid);
            // Events of the time that the table knows, as far as there are any, say the same less exactly.
            while import.times.last().is_some_and(|time| time.opened >= live.at) {
                import.times.pop();
            }
            import.times.push(Time {
                opened: live.at,
                ended: None,
                kept: None,
                function,
                tid: live.entry.tid,
                seq: 0,
                is_judged: false,
                times: count,
                count,
                device: import.device,
                stack: live.stack,
                address: live.entry.address,
                current: Current { context: Some(live.entry.peer), device: Some(live.entry.device) },
                again: Vec::new(),
            });
        }
    }
}

/// The function that programs call to open such a thing.
fn opener(kind: Object) -> Option<FnId> {
    FnId::newest(|function| function.opens().is_some_and(|shared| shared.object == kind))
}
