//! Facts about the recorded copies of shared memory: bytes that were not written, not read, or written by an importer.

use super::{Fact, named};
use crate::follow::ledger::Entry;
use crate::follow::uses::Use;
use crate::infer::context::Context;
use crate::infer::touched::{Touch, Touched};
use cupeer_report::moments::{bytes, duration, number};
use cupeer_spec::effect::Object;
use cupeer_spec::function::{FnId, Group};
use std::collections::BTreeMap;

impl Touch<'_> {
    /// Returns true if the call only put its work into a stream, so the time of the work is unknown.
    fn is_later(&self) -> bool {
        self.used.function.spec().is_asynchronous()
    }

    fn verb(&self) -> &'static str {
        match (self.used.is_write, self.is_later()) {
            (false, false) => "read",
            (false, true) => "enqueued a read of",
            (true, false) => "wrote",
            (true, true) => "enqueued a write of",
        }
    }
}

pub fn found<'a>(context: &Context<'a>) -> Vec<Fact<'a>> {
    let mut facts = unused(context);
    for memory in context.touched() {
        let is_foreign = |touch: &&Touch| touch.used.is_write && touch.process != memory.owner;
        facts.extend(memory.all.iter().find(is_foreign).map(|touch| {
            let (who, size, at) = (context.who(touch.process), bytes(touch.used.bytes), number(touch.offset));
            let (what, owner) = (named(memory.entry), context.who(memory.owner));
            let message = format!("{who} wrote {size} at offset {at} of {what}, which {owner} exported");
            fact("written-by-importer", message, memory, &[touch])
        }));
        if !memory.is_whole(context.all) {
            continue;
        }
        facts.extend(in_part(context, memory));
        facts.extend(polled(context, memory));
        for (number, touch) in memory.all.iter().enumerate() {
            let (earlier, later) = (&memory.all[..number], &memory.all[number + 1..]);
            facts.extend(match touch.used.is_write {
                true => overwritten(context, memory, touch, later),
                false => misread(context, memory, touch, (earlier, later)),
            });
        }
    }
    facts
}

fn fact<'a>(kind: &'static str, message: String, memory: &Touched<'a>, touches: &[&Touch]) -> Fact<'a> {
    let processes = touches.iter().map(|touch| touch.process).collect();
    let calls = touches.iter().map(|touch| (touch.used.at, touch.used.site)).collect();
    Fact(kind, message, Some(memory.entry), processes, calls)
}

/// Returns a fact about a write that was overwritten without a recorded read in between, although another process read the
/// memory at some time. A first write by which a process fills its memory does not count.
fn overwritten<'a>(
    context: &Context<'a>,
    memory: &Touched<'a>,
    first: &Touch,
    later: &[Touch],
) -> Option<Fact<'a>> {
    let next = later.iter().find(|touch| touch.overlaps(first)).filter(|next| next.used.is_write)?;
    let is_read = memory.all.iter().any(|touch| !touch.used.is_write && touch.process != first.process);
    let is_usual = first.used.function.spec().fills_with().is_some() || !is_read;
    (next.process != first.process || !is_usual).then(|| {
        let (who, before, what) =
            (context.who(next.process), context.who(first.process), named(memory.entry));
        let (size, after) = (bytes(next.used.bytes), duration(next.used.at - first.used.at));
        let nobody = "and no recorded copy read them in between";
        let verb = if first.is_later() { first.verb() } else { next.verb() };
        let message = format!("{who} {verb} {size} to {what} {after} after {before} had, {nobody}");
        fact("overwritten", message, memory, &[next, first])
    })
}

/// Returns a fact about a read of bytes that no process had written before.
fn misread<'a>(
    context: &Context<'a>,
    memory: &Touched<'a>,
    read: &Touch,
    (earlier, later): (&[Touch], &[Touch]),
) -> Option<Fact<'a>> {
    let (who, size, what) = (context.who(read.process), bytes(read.used.bytes), named(memory.entry));
    let content = |used: &Use| Some((used.content?.hash, used.bytes));
    let apart = |write: &Touch| duration(write.used.at.abs_diff(read.used.at));
    if let Some(write) = earlier.iter().rfind(|touch| touch.writes(read)) {
        let mut all = context.all.stats.iter().flat_map(|stats| &stats.uses.all).filter(|it| it.is_write);
        // The content of a memset or of a copy between devices is unknown.
        let is_all = !write.used.has_gaps && write.offset <= read.offset && write.end() >= read.end();
        let mut others = earlier.iter().filter(|touch| touch.writes(read));
        let is_known = is_all && write.used.content.is_some() || others.all(|it| it.used.content.is_some());
        let own = content(read.used).filter(|_| is_known)?;
        let (by, before) = (context.who(write.process), apart(write));
        let message = format!(
            "{who} read {size} from {what} that no recorded copy wrote; {by} wrote other bytes there {before} before"
        );
        let is_new = all.all(|used| content(used) != Some(own));
        return is_new.then(|| fact("read-of-nobody", message, memory, &[read, write]));
    }
    if let Some(write) = later.iter().find(|touch| touch.writes(read)) {
        let (by, before) = (context.who(write.process), apart(write));
        let message = format!(
            "{who} {} {size} from {what} {before} before the first recorded write there, by {by}",
            read.verb()
        );
        return Some(fact("read-first", message, memory, &[read, write]));
    }
    let write = memory.all.iter().find(|touch| touch.used.is_write)?;
    let (by, at, there) = (context.who(write.process), number(read.offset), number(write.offset));
    let message = format!(
        "{who} read {size} at offset {at} of {what}, where no recorded copy wrote; {by} wrote at offset {there}"
    );
    Some(fact("read-elsewhere", message, memory, &[read, write]))
}

/// Returns a fact about memory of which only a part was ever read, and only by one process.
fn in_part<'a>(context: &Context<'a>, memory: &Touched<'a>) -> Option<Fact<'a>> {
    let all = memory.entry.export.as_ref()?.bytes?;
    let mut reads = memory.all.iter().filter(|touch| !touch.used.is_write && touch.process != memory.owner);
    let first = reads.next()?;
    let (from, to) = reads
        .fold((first.offset, first.end()), |(from, to), touch| (from.min(touch.offset), to.max(touch.end())));
    (to - from < all).then(|| {
        let (who, what) = (context.who(first.process), named(memory.entry));
        let (from, to, all) = (number(from), number(to), number(all));
        let message =
            format!("{who} read bytes {from} to {to} of the {all} of {what}; no recorded copy read others");
        fact("read-in-part", message, memory, &[first])
    })
}

/// Returns a fact about memory that a process read again and again while no recorded copy of another process wrote there.
fn polled<'a>(context: &Context<'a>, memory: &Touched<'a>) -> Option<Fact<'a>> {
    /// Number of reads from which a process counts as polling.
    const MANY: usize = 8;
    let reads =
        |of: usize| memory.all.iter().filter(move |touch| !touch.used.is_write && touch.process == of);
    let first = memory.all.iter().find(|touch| reads(touch.process).count() >= MANY)?;
    let is_foreign = |touch: &Touch| touch.used.is_write && touch.process != first.process;
    (!memory.all.iter().any(is_foreign)).then(|| {
        let (who, times) = (context.who(first.process), number(reads(first.process).count() as u64));
        let what = named(memory.entry);
        let message =
            format!("{who} read {what} {times} times; no recorded copy of another process wrote there");
        fact("polled", message, memory, &[first])
    })
}

/// Returns facts about opened memory that no recorded copy of the process used, although copies used other opened memory, or the
/// process launched no kernel.
fn unused<'a>(context: &Context<'a>) -> Vec<Fact<'a>> {
    let mut used: BTreeMap<usize, Vec<&Entry>> = BTreeMap::new();
    for memory in context.touched() {
        for touch in memory.all.iter().filter(|touch| touch.process != memory.owner) {
            used.entry(touch.process).or_default().push(memory.entry);
        }
    }
    let launches = |id: FnId| id.spec().is_in(Group::Launch) || id.spec().replays().is_some();
    for (process, of) in context.job.processes.iter().enumerate() {
        let mut called = of.called().peekable();
        if called.peek().is_some() && !called.any(launches) {
            used.entry(process).or_default();
        }
    }
    let mut facts = Vec::new();
    for (process, used) in used.iter().filter(|(process, _)| !context.all.stats[**process].uses.is_cut) {
        for (entry, export) in context.all.ledger.exports().filter(|(entry, _)| entry.kind != Object::Event) {
            let time = entry.import_by(*process).and_then(|import| import.times.first());
            // Small copies of virtual memory are not recorded.
            let is_followed = !used.is_empty() || entry.kind == Object::Memory;
            let is_unused = is_followed && !used.iter().any(|it| std::ptr::eq(*it, entry));
            let Some(time) = time.filter(|_| is_unused) else {
                continue;
            };
            let (who, what, whose) = (context.who(*process), named(entry), context.who(export.process));
            let beside = match used.len() {
                0 => "it launched no kernel".to_owned(),
                others => format!("{} used other memory that it opened", number(others as u64)),
            };
            let message =
                format!("no recorded copy of {who} used {what}, which it opened from {whose}; {beside}");
            facts.push(Fact("unused", message, Some(entry), vec![*process], vec![(time.opened, time.site)]));
        }
    }
    facts
}
