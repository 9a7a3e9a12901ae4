//! Writes that another process overwrote before anybody read them, such as a signal that its receiver erases.

use super::book::{Book, How};
use super::clocks::{Level, reach};
use super::history::History;
use super::{Place, about, place_of};
use crate::follow::pending::PendingFinding;
use crate::infer::context::Context;
use crate::infer::objects::in_words;
use cupeer_report::moments::{bytes, duration};
use cupeer_rules::Confidence;
use cupeer_rules::reason::Reason;
use std::collections::BTreeMap;

/// The most later uses that one is compared with.
const MOST: usize = 256;

/// The first of such pairs of two places, their number, and the time of the last.
type Pairs = BTreeMap<(Place, Place), ((usize, usize), u64, u64)>;

pub fn found(context: &Context, history: &History) -> Vec<PendingFinding> {
    let mut pairs = Pairs::new();
    for uses in &history.memories {
        for (number, first) in uses.iter().enumerate() {
            let Some(second) = overwriting(history, uses, number) else { continue };
            let key = (place_of(history, *first), place_of(history, second));
            let at = history.origin(second).at;
            let pair = pairs.entry(key).or_insert(((*first, second), 0, at));
            (pair.1, pair.2) = (pair.1 + 1, pair.2.max(at));
        }
    }
    pairs.values().map(|pair| pending(context, history, pair)).collect()
}

/// The write of another process that comes next to all bytes of a write which somebody else would read.
fn overwriting(history: &History, uses: &[usize], number: usize) -> Option<usize> {
    let Book { steps, with_kernels, .. } = &history.book;
    let (step, origin) = (&steps[uses[number]], history.origin(uses[number]));
    let owner = origin.entry.export.as_ref()?.process as usize;
    let is_filled = origin.function.spec().fills() && origin.process == owner;
    if origin.how != How::Writes || is_filled || with_kernels.contains(&origin.process) {
        return None;
    }
    let touches = |other: &&usize| history.origin(**other).bytes.overlaps(&origin.bytes);
    let second = *uses[number + 1..].iter().take(MOST).find(touches)?;
    let next = history.origin(second);
    let is_all = next.bytes.from <= origin.bytes.from && next.bytes.to >= origin.bytes.to;
    let is_other = next.how == How::Writes && next.process != origin.process && is_all;
    if !is_other || with_kernels.contains(&next.process) {
        return None;
    }
    let reads = |other: &usize| {
        let other = history.origin(*other);
        other.how == How::Reads && other.process != origin.process && other.bytes.overlaps(&origin.bytes)
    };
    let is_known = reach(&history.book, step, Level::Made).is_before(&steps[second]);
    (is_known && uses.iter().any(reads)).then_some(second)
}

fn pending(context: &Context, history: &History, pair: &((usize, usize), u64, u64)) -> PendingFinding {
    let ((first, second), count, last) = *pair;
    let (first, second) = (history.origin(first), history.origin(second));
    let (who, size) = (in_words(context.job, first.process as u32), bytes(first.bytes.len()));
    let (one, two) = (first.function.spec().name(), second.function.spec().name());
    let after = duration(second.at.saturating_sub(first.at));
    let text = format!(
        "this process overwrote {size} of ipc:{:016x} that {who} wrote and no copy read; {two} came {after} after {one} of {who}, at offset {}",
        first.entry.fingerprint, first.bytes.from
    );
    let reason = Reason::OverwrittenUnread { text: &text };
    let found = about(context, &reason, Confidence::Inferred, [first, second]);
    PendingFinding { last, count, ..found }
}
