//! The bytes of shared memory that each process wrote and read, as far as recorded copies and memsets show, and the findings
//! that follow: bytes that were read and never written, and one buffer that was exported in place of several.

use super::context::Context;
use super::objects::{export_object, opening_object, using_object};
use super::touched::{ProcessUse, UsedMemory};
use crate::follow::ledger::settle::ProcessEnd;
use crate::follow::pending::PendingFinding;
use cupeer_report::model::HandleAccess;
use cupeer_rules::Confidence;
use cupeer_rules::reason::{Ago, Handle, Reason};
use cupeer_spec::effect::Object;
use std::collections::{BTreeMap, HashMap};

/// Number of ranges of a process that are listed; further ones are only counted.
const MOST_RANGES: usize = 16;

pub fn find_wrong_reads(context: &Context) -> Vec<PendingFinding> {
    let mut all = Vec::new();
    for memory in context.used_memories().iter().filter(|memory| memory.is_comparable(context.all)) {
        all.extend(find_unwritten(context, memory));
        all.extend(find_one_for_several(context, memory));
    }
    all
}

/// Finds a read of bytes that nothing wrote since the export, if it is the first after another process wrote bytes that were
/// not yet read.
fn find_unwritten(context: &Context, memory: &UsedMemory) -> Option<PendingFinding> {
    let exported = memory.entry.export.as_ref()?.first.at;
    let since: Vec<&ProcessUse> = memory.all.iter().filter(|touch| touch.used.at > exported).collect();
    let (read, write) = since.iter().enumerate().find_map(|(number, read)| {
        if read.used.is_write || read.used.graph_exec.is_some() || since.iter().any(|other| other.writes_bytes_of(read))
        {
            return None;
        }
        let is_first = |it: &&&ProcessUse| it.used.is_write || it.process != read.process;
        let mut before = since[..number].iter().rev().take_while(is_first).collect::<Vec<_>>().into_iter().rev();
        let write = before.find(|it| it.used.is_write && it.process != read.process)?;
        (!before.any(|it| !it.used.is_write && it.overlaps(write))).then_some((*read, *write))
    })?;
    let reason = Reason::UseUnwritten {
        reader: context.named_process(read.process),
        read: (read.offset, read.used.bytes),
        size: memory.entry.export.as_ref()?.bytes?,
        handle: Handle(memory.entry.fingerprint),
        owner: (read.process != memory.owner).then(|| context.named_process(memory.owner)),
        writer: context.named_process(write.process),
        wrote: (write.offset, write.used.bytes),
        before: Ago(read.used.at - write.used.at),
    };
    Some(build_finding(context, memory, &reason, (read, write)))
}

/// Returns a finding about memory that was exported several times before any process opened it. One process read the same bytes
/// after each of its opens, although nothing wrote there in between.
fn find_one_for_several(context: &Context, memory: &UsedMemory) -> Option<PendingFinding> {
    let of = memory.entry.export.as_ref().filter(|of| memory.entry.kind == Object::Memory && of.times > 1)?;
    let import = memory.entry.imports.iter().find(|import| import.opened == of.times)?;
    let opened = import.times.first().filter(|time| of.last.at <= time.opened)?.opened;
    let is_read = |it: &&ProcessUse| !it.used.is_write && it.used.graph_exec.is_none();
    let mut reads: Vec<&ProcessUse> =
        memory.all.iter().filter(|it| it.process == import.process && is_read(it)).collect();
    reads.sort_by_key(|read| (read.offset, read.used.bytes));
    let (first, last) =
        reads.chunk_by(|a, b| (a.offset, a.used.bytes) == (b.offset, b.used.bytes)).find_map(|reads| {
            let (first, last) = (*reads.first()?, *reads.last()?);
            let mut meanwhile = memory.all.iter().filter(|it| it.used.at >= opened && it.used.at <= last.used.at);
            (reads.len() as u64 == of.times && !meanwhile.any(|it| it.writes_bytes_of(first))).then_some((first, last))
        })?;
    let reason = Reason::IpcOneForSeveral {
        owner: context.named_process(of.process),
        handle: Handle(memory.entry.fingerprint),
        exports: of.times,
        reader: context.named_process(import.process),
        read: (first.offset, first.used.bytes),
    };
    let found = build_finding(context, memory, &reason, (first, last));
    let objects =
        vec![export_object(context, memory.entry, of), opening_object(memory.entry, import.process, &import.times[0])];
    Some(PendingFinding { objects, ..found })
}

/// Returns a finding about one use that names another use.
fn build_finding(
    context: &Context,
    memory: &UsedMemory,
    reason: &Reason,
    (at, other): (&ProcessUse, &ProcessUse),
) -> PendingFinding {
    let found = PendingFinding::new(reason, Confidence::Inferred, at.process, at.used.call_site(), 0);
    let mut objects = vec![using_object(other.process, other.used.call_site(), other.used.bytes)];
    objects.extend(memory.entry.export.iter().map(|of| export_object(context, memory.entry, of)));
    PendingFinding { objects, subjects: vec![(memory.entry.fingerprint, 1)], ..found }
}

/// Returns the reads and writes of each process in the memory of each handle, sorted by the number of the handle in the handle
/// table.
pub fn handle_accesses(context: &Context, fates: &[ProcessEnd]) -> Vec<(usize, Vec<HandleAccess>)> {
    let by_entry: HashMap<_, _> = context.used_memories().iter().map(|it| (std::ptr::from_ref(it.entry), it)).collect();
    let handles = context.all.ledger.handles().iter().enumerate();
    let of = handles.filter_map(|(number, entry)| Some((number, by_entry.get(&std::ptr::from_ref(entry))?)));
    of.map(|(number, memory)| (number, accesses_of_memory(memory, fates))).collect()
}

fn accesses_of_memory(memory: &UsedMemory, fates: &[ProcessEnd]) -> Vec<HandleAccess> {
    let mut processes: BTreeMap<usize, [Vec<[u64; 2]>; 2]> = BTreeMap::new();
    for touch in &memory.all {
        let kinds = processes.entry(touch.process).or_default();
        kinds[usize::from(touch.used.is_write)].push([touch.offset, touch.end()]);
    }
    let row = |(process, kinds): (usize, [Vec<[u64; 2]>; 2])| {
        let [mut reads, mut writes] = kinds.map(merge_ranges);
        let omitted =
            [&mut reads, &mut writes].map(|ranges| ranges.drain(ranges.len().min(MOST_RANGES)..).count() as u64);
        HandleAccess { proc: fates[process].proc.clone(), reads, writes, omitted: omitted[0] + omitted[1] }
    };
    processes.into_iter().map(row).collect()
}

/// Sorts ranges by their addresses, and joins ranges that overlap or touch.
fn merge_ranges(mut ranges: Vec<[u64; 2]>) -> Vec<[u64; 2]> {
    ranges.sort_unstable();
    let mut all: Vec<[u64; 2]> = Vec::new();
    for [from, to] in ranges {
        match all.last_mut().filter(|last| from <= last[1]) {
            Some(last) => last[1] = last[1].max(to),
            None => all.push([from, to]),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::merge_ranges;

    #[test]
    fn ranges_that_touch_are_one() {
        assert_eq!(merge_ranges(vec![[8, 12], [0, 4], [4, 6], [9, 10], [20, 21]]), [[0, 6], [8, 12], [20, 21]]);
    }
}
