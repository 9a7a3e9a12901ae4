//! Facts about the recorded copies of shared memory: bytes that were not written, not read, or written by an importer.

use super::{PendingClue, handle_with_size};
use crate::follow::ledger::HandleEntry;
use crate::follow::uses::MemoryUse;
use crate::infer::context::Context;
use crate::infer::touched::{ProcessUse, UsedMemory};
use cupeer_report::moments::{bytes, duration, number};
use cupeer_spec::effect::Object;
use cupeer_spec::function::{FnId, Group};
use std::collections::BTreeMap;

impl ProcessUse<'_> {
    /// Returns true if the call only put its work into a stream, so the time of the work is unknown.
    fn is_enqueued(&self) -> bool {
        self.used.function.spec().is_asynchronous()
    }

    fn verb(&self) -> &'static str {
        match (self.used.is_write, self.is_enqueued()) {
            (false, false) => "read",
            (false, true) => "enqueued a read of",
            (true, false) => "wrote",
            (true, true) => "enqueued a write of",
        }
    }
}

pub fn collect_facts<'a>(context: &Context<'a>) -> Vec<PendingClue<'a>> {
    let mut facts = find_unused(context);
    for memory in context.used_memories() {
        let is_foreign = |touch: &&ProcessUse| touch.used.is_write && touch.process != memory.owner;
        facts.extend(memory.all.iter().find(is_foreign).map(|touch| {
            let (who, size, at) = (context.named_process(touch.process), bytes(touch.used.bytes), number(touch.offset));
            let (what, owner) = (handle_with_size(memory.entry), context.named_process(memory.owner));
            let message = format!("{who} wrote {size} at offset {at} of {what}, which {owner} exported");
            build_fact("written-by-importer", message, memory, &[touch])
        }));
        if !memory.is_comparable(context.all) {
            continue;
        }
        facts.extend(find_read_in_part(context, memory));
        facts.extend(find_polled(context, memory));
        for (number, touch) in memory.all.iter().enumerate() {
            let (earlier, later) = (&memory.all[..number], &memory.all[number + 1..]);
            facts.extend(match touch.used.is_write {
                true => find_overwritten(context, memory, touch, later),
                false => find_misread(context, memory, touch, (earlier, later)),
            });
        }
    }
    facts
}

fn build_fact<'a>(
    kind: &'static str,
    message: String,
    memory: &UsedMemory<'a>,
    touches: &[&ProcessUse],
) -> PendingClue<'a> {
    let processes = touches.iter().map(|touch| touch.process).collect();
    let calls = touches.iter().map(|touch| (touch.used.at, touch.used.site)).collect();
    PendingClue(kind, message, Some(memory.entry), processes, calls)
}

/// Returns a fact about a write that was overwritten without a recorded read in between, although another process read the
/// memory at some time. A first write by which a process fills its memory does not count.
fn find_overwritten<'a>(
    context: &Context<'a>,
    memory: &UsedMemory<'a>,
    first: &ProcessUse,
    later: &[ProcessUse],
) -> Option<PendingClue<'a>> {
    let next = later.iter().find(|touch| touch.overlaps(first)).filter(|next| next.used.is_write)?;
    let is_read = memory.all.iter().any(|touch| !touch.used.is_write && touch.process != first.process);
    let is_usual = first.used.function.spec().fill_element_argument().is_some() || !is_read;
    (next.process != first.process || !is_usual).then(|| {
        let (who, before, what) =
            (context.named_process(next.process), context.named_process(first.process), handle_with_size(memory.entry));
        let (size, after) = (bytes(next.used.bytes), duration(next.used.at - first.used.at));
        let nobody = "and no recorded copy read them in between";
        let verb = if first.is_enqueued() { first.verb() } else { next.verb() };
        let message = format!("{who} {verb} {size} to {what} {after} after {before} had, {nobody}");
        build_fact("overwritten", message, memory, &[next, first])
    })
}

/// Returns a fact about a read of bytes that no process had written before.
fn find_misread<'a>(
    context: &Context<'a>,
    memory: &UsedMemory<'a>,
    read: &ProcessUse,
    (earlier, later): (&[ProcessUse], &[ProcessUse]),
) -> Option<PendingClue<'a>> {
    let (who, size, what) =
        (context.named_process(read.process), bytes(read.used.bytes), handle_with_size(memory.entry));
    let content = |used: &MemoryUse| Some((used.content?.hash, used.bytes));
    let apart = |write: &ProcessUse| duration(write.used.at.abs_diff(read.used.at));
    if let Some(write) = earlier.iter().rfind(|touch| touch.writes_bytes_of(read)) {
        let mut all = context.all.stats.iter().flat_map(|stats| &stats.uses.all).filter(|it| it.is_write);
        // The content of a memset or of a copy between devices is unknown.
        let is_all = !write.used.has_gaps && write.offset <= read.offset && write.end() >= read.end();
        let mut others = earlier.iter().filter(|touch| touch.writes_bytes_of(read));
        let is_known = is_all && write.used.content.is_some() || others.all(|it| it.used.content.is_some());
        let own = content(read.used).filter(|_| is_known)?;
        let (by, before) = (context.named_process(write.process), apart(write));
        let message = format!(
            "{who} read {size} from {what} that no recorded copy wrote; {by} wrote other bytes there {before} before"
        );
        let is_new = all.all(|used| content(used) != Some(own));
        return is_new.then(|| build_fact("read-of-nobody", message, memory, &[read, write]));
    }
    if let Some(write) = later.iter().find(|touch| touch.writes_bytes_of(read)) {
        let (by, before) = (context.named_process(write.process), apart(write));
        let message =
            format!("{who} {} {size} from {what} {before} before the first recorded write there, by {by}", read.verb());
        return Some(build_fact("read-first", message, memory, &[read, write]));
    }
    let write = memory.all.iter().find(|touch| touch.used.is_write)?;
    let (by, at, there) = (context.named_process(write.process), number(read.offset), number(write.offset));
    let message = format!(
        "{who} read {size} at offset {at} of {what}, where no recorded copy wrote; {by} wrote at offset {there}"
    );
    Some(build_fact("read-elsewhere", message, memory, &[read, write]))
}

/// Returns a fact about memory of which only a part was ever read, and only by one process.
fn find_read_in_part<'a>(context: &Context<'a>, memory: &UsedMemory<'a>) -> Option<PendingClue<'a>> {
    let all = memory.entry.export.as_ref()?.bytes?;
    let mut reads = memory.all.iter().filter(|touch| !touch.used.is_write && touch.process != memory.owner);
    let first = reads.next()?;
    let (from, to) =
        reads.fold((first.offset, first.end()), |(from, to), touch| (from.min(touch.offset), to.max(touch.end())));
    (to - from < all).then(|| {
        let (who, what) = (context.named_process(first.process), handle_with_size(memory.entry));
        let (from, to, all) = (number(from), number(to), number(all));
        let message = format!("{who} read bytes {from} to {to} of the {all} of {what}; no recorded copy read others");
        build_fact("read-in-part", message, memory, &[first])
    })
}

/// Returns a fact about memory that a process read again and again while no recorded copy of another process wrote there.
fn find_polled<'a>(context: &Context<'a>, memory: &UsedMemory<'a>) -> Option<PendingClue<'a>> {
    /// Number of reads from which a process counts as polling.
    const MANY: usize = 8;
    let reads = |of: usize| memory.all.iter().filter(move |touch| !touch.used.is_write && touch.process == of);
    let first = memory.all.iter().find(|touch| reads(touch.process).count() >= MANY)?;
    let is_foreign = |touch: &ProcessUse| touch.used.is_write && touch.process != first.process;
    (!memory.all.iter().any(is_foreign)).then(|| {
        let (who, times) = (context.named_process(first.process), number(reads(first.process).count() as u64));
        let what = handle_with_size(memory.entry);
        let message = format!("{who} read {what} {times} times; no recorded copy of another process wrote there");
        build_fact("polled", message, memory, &[first])
    })
}

/// Returns facts about opened memory that no recorded copy of the process used, although copies used other opened memory, or the
/// process launched no kernel.
fn find_unused<'a>(context: &Context<'a>) -> Vec<PendingClue<'a>> {
    let mut used: BTreeMap<usize, Vec<&HandleEntry>> = BTreeMap::new();
    for memory in context.used_memories() {
        for touch in memory.all.iter().filter(|touch| touch.process != memory.owner) {
            used.entry(touch.process).or_default().push(memory.entry);
        }
    }
    let launches = |id: FnId| id.spec().is_in(Group::Launch) || id.spec().replays().is_some();
    for (process, of) in context.job.processes.iter().enumerate() {
        let mut called = of.called_functions().peekable();
        if called.peek().is_some() && !called.any(launches) {
            used.entry(process).or_default();
        }
    }
    let mut facts = Vec::new();
    for (process, used) in used.iter().filter(|(process, _)| !context.all.stats[**process].uses.is_cut) {
        for (entry, export) in context.all.ledger.undamaged_exports().filter(|(entry, _)| entry.kind != Object::Event) {
            let time = entry.import_by(*process).and_then(|import| import.times.first());
            // Small copies of virtual memory are not recorded.
            let is_followed = !used.is_empty() || entry.kind == Object::Memory;
            let is_unused = is_followed && !used.iter().any(|it| std::ptr::eq(*it, entry));
            let Some(time) = time.filter(|_| is_unused) else {
                continue;
            };
            let (who, what, whose) =
                (context.named_process(*process), handle_with_size(entry), context.named_process(export.process));
            let beside = match used.len() {
                0 => "it launched no kernel".to_owned(),
                others => format!("{} used other memory that it opened", number(others as u64)),
            };
            let message = format!("no recorded copy of {who} used {what}, which it opened from {whose}; {beside}");
            facts.push(PendingClue("unused", message, Some(entry), vec![*process], vec![(time.opened, time.site)]));
        }
    }
    facts
}
