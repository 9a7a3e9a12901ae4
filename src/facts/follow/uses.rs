//! The recorded copies and memsets of one process, by the device memory that each reads or writes: those between devices, large
//! ones to and from the host, and the first ones of each shared memory.

use crate::follow::ledger::{CallSite, Site};
use crate::follow::memory::{AllocationSource, ProcessMemory};
use crate::follow::order::{is_captured, is_done_on_return, uses_only_device_memory};
use cupeer_model::{Id, Table};
use cupeer_record::{Call, CopyContent};
use cupeer_report::model::Uuid;
use cupeer_spec::effect::{Copied, Effect, OtherArgs, Used};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::{detail, nodes};

/// Number of uses of a process after which copies of unknown content are dropped, and `is_cut` is set.
const MOST_COPIES: usize = 1 << 16;

/// A use of device memory by a copy or a memset.
pub struct MemoryUse {
    pub function: FnId,
    pub site: Site,
    pub at: u64,
    /// Time at which the call returned.
    pub until: u64,
    /// The CUDA stream of the work: its number in the process's `Streams`.
    pub stream: usize,
    pub address: u64,
    pub bytes: u64,
    /// True for a copy of rows, which uses the first and the last byte of the range, and perhaps not all bytes between
    /// them.
    pub has_gaps: bool,
    pub is_write: bool,
    /// `Some(true)`: the work is certainly done when the call returns; `Some(false)`: nothing guarantees it; `None`:
    /// it may be.
    pub is_done_on_return: Option<bool>,
    /// The value that a memset writes.
    pub value: Option<u64>,
    /// The executable graph that did the copy, if the use is a node of a graph.
    pub graph_exec: Option<u64>,
    /// Hash of the content of a copy to or from the host; `None` for other copies.
    pub content: Option<CopyContent>,
    pub device: Option<Uuid>,
    /// The allocation of virtual memory that is mapped at the range.
    allocation: Option<Id>,
    /// Fingerprint of the handle by which that allocation was imported, or of its only exported handle; `None` if there is
    /// none, or if it was exported as several handles.
    pub handle: Option<u64>,
    /// Offset of the range in that allocation, in bytes.
    pub offset: u64,
}

/// The uses of a process, in the order of the recording.
#[derive(Default)]
pub struct MemoryUses {
    pub all: Vec<MemoryUse>,
    /// True if there were too many uses, so later ones are missing.
    pub is_cut: bool,
    /// True if the process launched a graph with kernels.
    pub has_kernels: bool,
}

/// A range of device memory that a call reads or writes.
struct UsedRange {
    address: u64,
    bytes: u64,
    is_write: bool,
    has_gaps: bool,
}

/// Returns the ranges of device memory that a copy or a memset uses.
fn used_ranges(function: FnId, call: &Call) -> Vec<UsedRange> {
    let spec = function.spec();
    let touches = match spec.copies() {
        Some(Copied { to, from, size, .. }) => [Some((to, size, 1, true)), Some((from, size, 1, false))],
        None => spec.touched_ranges(),
    };
    let number = |by| call.argument_number(by).unwrap_or(0);
    let mut ranges = Vec::new();
    for (by, size, element, is_write) in touches.into_iter().flatten() {
        let bytes = number(size).saturating_mul(element);
        ranges.push(UsedRange { address: number(by), bytes, is_write, has_gaps: false });
    }
    match *spec.effects() {
        // A copy of rows is stored as four words: start and size of what it writes, and of what it reads.
        [Effect::Uses(Used { by, size: None, .. })] => {
            let words = call.argument(by).unwrap_or_default();
            let word =
                |at: usize| words.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word));
            for (at, is_write) in [(0, true), (16, false)] {
                ranges.push(UsedRange { address: word(at), bytes: word(at + 8), is_write, has_gaps: true });
            }
        }
        [Effect::UsesEach(_)] => ranges.extend(call.details.ranges.iter().map(|&(address, how)| UsedRange {
            address,
            bytes: how & detail::RANGE_BYTES,
            is_write: how & detail::WRITTEN != 0,
            has_gaps: how & detail::GAPS != 0,
        })),
        [Effect::Uses(Used { by, size: Some(size), element, others: OtherArgs::Rows(height, pitch), .. })] => {
            let row = number(size).saturating_mul(spec.element_size(element));
            let row = if number(height) == 0 { 0 } else { row };
            let bytes = number(height).saturating_sub(1).saturating_mul(number(pitch)).saturating_add(row);
            let has_gaps = number(pitch) != row && number(height) > 1;
            ranges.push(UsedRange { address: number(by), bytes, is_write: true, has_gaps });
        }
        _ => {}
    }
    ranges.retain(|range| range.address != 0 && range.bytes != 0);
    ranges
}

impl MemoryUse {
    pub fn call_site(&self) -> CallSite {
        CallSite { function: self.function, site: self.site, at: self.at }
    }
}

impl MemoryUses {
    /// Adds the uses of a call that succeeded. `made` returns its place, the time at which it returned, its stream, and the
    /// device.
    pub fn add_call(
        &mut self,
        function: FnId,
        call: &Call,
        memory: &ProcessMemory,
        made: impl FnOnce() -> (CallSite, u64, usize, Option<Uuid>),
    ) {
        let content = call.details.content;
        let ranges = used_ranges(function, call);
        let (flags, nodes) = nodes::read_nodes(&call.details.nodes).unzip();
        let flags = flags.unwrap_or(0);
        if ranges.is_empty() && nodes.is_none() || is_captured(call) {
            return;
        }
        self.has_kernels |= flags & nodes::KERNELS != 0;
        self.is_cut |= content.is_none() && self.all.len() >= MOST_COPIES;
        if content.is_none() && self.is_cut {
            return;
        }
        let (CallSite { function, site, at }, until, stream, device) = made();
        let waits = if uses_only_device_memory(call) { Some(false) } else { is_done_on_return(function) };
        let tells = flags & nodes::TELLS != 0;
        let waits = waits.filter(|is_done| *is_done || !tells);
        let value = function.spec().fill_element_argument().and_then(|by| call.argument_number(by));
        let exec = function.spec().replays().and_then(|by| call.argument_number(by));
        let of_call = ranges.into_iter().map(|range| (range, value));
        let of_nodes = nodes.into_iter().flatten().map(|node| {
            let range =
                UsedRange { address: node.address, bytes: node.bytes, is_write: node.is_write, has_gaps: false };
            (range, node.value.map(u64::from))
        });
        for (UsedRange { address, bytes, is_write, has_gaps }, value) in of_call.chain(of_nodes) {
            let mapped = memory.state.mappings.first_overlapping((address, bytes));
            let mapped = mapped.filter(|mapping| mapping.name <= address);
            // If only a part of an allocation is mapped, it is not known which part.
            let is_whole = |id, bytes| memory.state.allocations.find(id).is_some_and(|it| it.bytes == bytes);
            let of =
                mapped.filter(|mapping| is_whole(mapping.allocation, mapping.bytes)).map(|mapping| mapping.allocation);
            let offset = mapped.map_or(0, |mapping| address - mapping.name);
            self.all.push(MemoryUse {
                function,
                site,
                at,
                until,
                stream,
                address,
                bytes,
                has_gaps,
                is_write,
                is_done_on_return: waits,
                value,
                graph_exec: exec,
                content,
                device,
                allocation: of,
                handle: None,
                offset,
            });
        }
    }

    /// Fills in the handles of virtual memory. Called when all calls of the process have been added.
    pub fn fill_in_handles(&mut self, memory: &ProcessMemory) {
        for used in &mut self.all {
            let Some(known) = used.allocation.and_then(|id| memory.state.allocations.find(id)) else {
                continue;
            };
            used.handle = match (known.history.source, &known.history.exports[..]) {
                (AllocationSource::Imported(fingerprint), _) | (_, &[fingerprint]) => Some(fingerprint),
                _ => None,
            };
        }
    }
}
