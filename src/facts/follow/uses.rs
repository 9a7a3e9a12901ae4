//! The recorded copies and memsets of one process, by the device memory that each reads or writes: those between devices, large ones to
//! and from the host, and the first ones of each shared memory.

use crate::follow::ledger::Site;
use crate::follow::memory::{Memory, Source};
use crate::follow::order::is_captured;
use cupeer_model::{Id, Table};
use cupeer_record::{Call, Content};
use cupeer_report::model::Uuid;
use cupeer_spec::function::FnId;

/// The most copies without a known content of a process that are kept.
const MOST: usize = 1 << 16;

/// Use of device memory by a copy.
pub struct Use {
    pub function: FnId,
    pub site: Site,
    pub at: u64,
    /// When the call returned.
    pub until: u64,
    /// The stream of the work, by its number in the process.
    pub stream: usize,
    pub address: u64,
    pub bytes: u64,
    pub is_write: bool,
    /// The value that a memset writes.
    pub value: Option<u64>,
    /// Of a copy to or from the host: what was copied, and the device.
    pub content: Option<Content>,
    pub device: Option<Uuid>,
    /// The allocation of virtual memory that is mapped there, and the fingerprint of its only handle.
    of: Option<Id>,
    pub handle: Option<u64>,
    /// The offset in that allocation.
    pub offset: u64,
}

/// The uses of a process, in the order of the record.
#[derive(Default)]
pub struct Uses {
    pub all: Vec<Use>,
    /// Whether later ones are missing.
    pub is_cut: bool,
}

impl Uses {
    /// Adds a call that succeeded. `made` returns its place, when it began and returned, its stream, and the
    /// device of its content.
    pub fn call(
        &mut self,
        function: FnId,
        call: &Call,
        memory: &Memory,
        made: impl FnOnce() -> (Site, (u64, u64), usize, Option<Uuid>),
    ) {
        let content = call.details.content;
        let touches = match function.spec().copies() {
            Some(copied) => {
                [Some((copied.to, copied.size, 1, true)), Some((copied.from, copied.size, 1, false))]
            }
            None => function.spec().touches(),
        };
        if touches[0].is_none() || is_captured(call) {
            return;
        }
        self.is_cut |= content.is_none() && self.all.len() >= MOST;
        if content.is_none() && self.is_cut {
            return;
        }
        let (site, (at, until), stream, device) = made();
        let value = call.number(1).filter(|_| function.spec().fills());
        for (by, size, element, is_write) in touches.into_iter().flatten() {
            let (Some(address), Some(count)) = (call.number(by), call.number(size)) else { continue };
            let bytes = count.saturating_mul(element);
            let mapped = memory.state.mappings.touching((address, bytes));
            let mapped = mapped.filter(|mapping| mapping.name <= address);
            // Of an allocation that is mapped in part, it is not known which part that is.
            let is_whole = |id, bytes| memory.state.allocations.entry(id).is_some_and(|it| it.bytes == bytes);
            let of = mapped.filter(|mapping| is_whole(mapping.of, mapping.bytes)).map(|mapping| mapping.of);
            let offset = mapped.map_or(0, |mapping| address - mapping.name);
            let handle = None;
            self.all.push(Use {
                function,
                site,
                at,
                until,
                stream,
                address,
                bytes,
                is_write,
                value,
                content,
                device,
                of,
                handle,
                offset,
            });
        }
    }

    /// Finds the handles of virtual memory, once all calls are noted.
    pub fn settle(&mut self, memory: &Memory) {
        for used in &mut self.all {
            let Some(known) = used.of.and_then(|id| memory.state.allocations.entry(id)) else { continue };
            used.handle = match (known.history.source, &known.history.exports[..]) {
                (Source::Imported(fingerprint), _) | (_, &[fingerprint]) => Some(fingerprint),
                _ => None,
            };
        }
    }
}
