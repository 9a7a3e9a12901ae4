//! Writes that were overwritten before they were read: a signal that its receiver clears, or a message that one of several
//! readers missed.

use super::book::{MOST_FLAG_BYTES, UseKind};
use super::clocks::{OrderLevel, find_ordered_work};
use super::history::{DomainHistory, UseOrigin};
use super::{UsePlace, finding_about_pair, place_of};
use crate::follow::pending::PendingFinding;
use crate::infer::context::Context;
use cupeer_report::moments::{bytes, duration, number};
use cupeer_rules::reason::Reason;
use cupeer_rules::{Confidence, Severity};
use std::collections::BTreeMap;

/// Number of later uses among which the next overlapping use is searched.
const MOST_COMPARED: usize = 256;
/// Number of reads of the same bytes from which a process counts as polling.
const LEAST_POLLS: usize = 8;

/// A write, and the next write of the same bytes.
struct ErasedSignal {
    first: usize,
    second: usize,
    /// Number of reads by the second process after its write, if nothing wrote in between.
    polls: usize,
    count: u64,
    last: u64,
}

pub fn find_unread(context: &Context, history: &DomainHistory) -> Vec<PendingFinding> {
    let mut pairs = BTreeMap::<(UsePlace, UsePlace), ErasedSignal>::new();
    let mut all = Vec::new();
    for uses in &history.memories {
        for number in 0..uses.len() {
            let Some(new) = find_erased(history, uses, number) else { continue };
            let key = (place_of(history, new.first), place_of(history, new.second));
            let (at, polls) = (new.last, new.polls);
            let pair = pairs.entry(key).or_insert(new);
            (pair.count, pair.last, pair.polls) = (pair.count + 1, pair.last.max(at), pair.polls.max(polls));
        }
        all.extend(find_missed(history, uses).map(|missed| missed_finding(context, history, &missed)));
    }
    all.extend(pairs.values().map(|pair| erased_finding(context, history, pair)));
    all
}

/// Returns a signal that a process wrote, and the next write, by which the owner of the memory cleared the signal without having
/// read it.
fn find_erased(history: &DomainHistory, uses: &[usize], number: usize) -> Option<ErasedSignal> {
    let (step, origin) = (uses[number], history.origin_of_step(uses[number]));
    let owner = origin.entry.export.as_ref()?.process;
    let with_kernels = &history.book.with_kernels;
    let is_signal = origin.how == UseKind::Writes && origin.process != owner && origin.bytes.len() <= MOST_FLAG_BYTES;
    if !is_signal || [owner, origin.process].iter().any(|process| with_kernels.contains(process)) {
        return None;
    }
    let touches = |other: &&usize| history.origin_of_step(**other).bytes.overlaps(&origin.bytes);
    let second = *uses[number + 1..].iter().take(MOST_COMPARED).find(touches)?;
    let next = history.origin_of_step(second);
    let fills = |it: &UseOrigin| it.how == UseKind::Writes && it.process == owner && it.bytes.contains(&origin.bytes);
    let is_same = |earlier: &usize| {
        let earlier = history.origin_of_step(*earlier);
        fills(earlier) && earlier.value == next.value
    };
    let clears = next.value.is_some() && (next.value == Some(0) || uses[..number].iter().any(is_same));
    let own = |other: &usize| {
        let other = history.origin_of_step(*other);
        other.how == UseKind::Reads && other.process == owner && other.bytes.overlaps(&origin.bytes)
    };
    let steps = &history.book.steps;
    let is_known = || find_ordered_work(&history.book, &steps[step], OrderLevel::Made).is_before(&steps[second]);
    if !fills(next) || !clears || !uses.iter().any(own) || !is_known() {
        return None;
    }
    let later = || uses.iter().filter(|other| **other > second).filter(touches);
    let is_over = later().any(|other| history.origin_of_step(*other).how != UseKind::Reads);
    let polls = if is_over { 0 } else { later().filter(|other| own(other)).count() };
    Some(ErasedSignal { first: step, second, polls, count: 0, last: next.call.at })
}

fn erased_finding(context: &Context, history: &DomainHistory, pair: &ErasedSignal) -> PendingFinding {
    let (first, second) = (history.origin_of_step(pair.first), history.origin_of_step(pair.second));
    let since = match pair.polls {
        0..LEAST_POLLS => String::new(),
        polls => format!("; it has read them {} times since, and nothing wrote there", number(polls as u64)),
    };
    let (who, size) = (context.named_process(first.process), bytes(first.bytes.len()));
    let (one, two) = (first.call.function.spec().name(), second.call.function.spec().name());
    let after = duration(second.call.at.saturating_sub(first.call.at));
    let text = format!(
        "this process overwrote {size} of ipc:{:016x} that {who} wrote and no copy read; {two} came {after} after {one} of {who}, at offset {}{since}",
        first.entry.fingerprint, first.bytes.from
    );
    let reason = Reason::OverwrittenUnread { text: &text };
    let found = finding_about_pair(context, &reason, Confidence::Inferred, [first, second]);
    let raised = (pair.polls >= LEAST_POLLS).then_some(Severity::Warning);
    PendingFinding { last: pair.last, count: pair.count, lowest_severity: raised, ..found }
}

/// A message that one of several readers missed.
struct MissedMessage {
    first: usize,
    second: usize,
    /// The process that missed the message.
    reader: usize,
    read: usize,
    /// A process that missed no message.
    other: usize,
    messages: usize,
}

/// Returns a write that was overwritten before one process had read it. That process reads as often as the bytes are written, and
/// another process reads between all writes.
fn find_missed(history: &DomainHistory, uses: &[usize]) -> Option<MissedMessage> {
    let is_write = |step: &&usize| history.origin_of_step(**step).how == UseKind::Writes;
    let writes: Vec<usize> = uses.iter().filter(is_write).copied().collect();
    let first = history.origin_of_step(*writes.first()?);
    let is_one = |step: &usize| {
        let write = history.origin_of_step(*step);
        (write.process, write.bytes) == (first.process, first.bytes)
    };
    if writes.len() < 2 || !writes.iter().all(is_one) {
        return None;
    }
    let mut readers = BTreeMap::<usize, Vec<usize>>::new();
    for step in uses.iter().filter(|step| **step > writes[0]) {
        let read = history.origin_of_step(*step);
        if read.how == UseKind::Reads && read.process != first.process {
            readers.entry(read.process).or_default().push(*step);
        }
    }
    let is_all = |read: &usize| history.origin_of_step(*read).bytes == first.bytes;
    let is_after = |reads: &[usize]| reads.iter().zip(&writes).all(|(read, write)| read > write);
    readers.retain(|_, reads| reads.len() == writes.len() && reads.iter().all(is_all) && is_after(reads));
    let misses = |reads: &[usize]| reads.iter().zip(&writes[1..]).position(|(read, next)| read > next);
    let other = *readers.iter().find(|(_, reads)| misses(reads).is_none())?.0;
    let (reader, number) = readers.iter().find_map(|(reader, reads)| Some((*reader, misses(reads)?)))?;
    let (first, second, read) = (writes[number], writes[number + 1], readers[&reader][number]);
    Some(MissedMessage { first, second, reader, read, other, messages: writes.len() })
}

fn missed_finding(context: &Context, history: &DomainHistory, missed: &MissedMessage) -> PendingFinding {
    let (first, second) = (history.origin_of_step(missed.first), history.origin_of_step(missed.second));
    let [reader, other] = [missed.reader, missed.other].map(|it| context.named_process(it));
    let since = |from: u64, to: u64| duration(to.saturating_sub(from));
    let (after, late) =
        (since(first.call.at, second.call.at), since(second.call.at, history.origin_of_step(missed.read).call.at));
    let text = format!(
        "this process overwrote {} of ipc:{:016x} before {reader} had read them: {} came {after} after the write before it, and the read {late} later. {reader} read {} times in all, as often as the bytes were written; {other} read after each write",
        bytes(first.bytes.len()),
        first.entry.fingerprint,
        second.call.function.spec().name(),
        number(missed.messages as u64)
    );
    let reason = Reason::OverwrittenUnread { text: &text };
    let mut found = finding_about_pair(context, &reason, Confidence::Inferred, [first, second]);
    found.processes.push(missed.reader);
    found
}
