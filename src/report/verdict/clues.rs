//! Clues: which of them a report shows, and their sentences.

use super::incidents::{DIED, FAILED};
use super::{HeadlineLine, Incident, LineSubject, Verdict};
use crate::base::moments::number;
use crate::model::{Clue, Place, Report};
use crate::words::names::clean;
use cupeer_symbols::SourceLine;

/// Number of clues in a report: the first ones.
const MOST_CLUES: usize = 5;
/// Signals by which a process ends itself: SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, and SIGSEGV.
const CRASH_SIGNALS: [u8; 6] = [4, 5, 6, 7, 8, 11];
/// Number of clues in a headline: the first ones.
const MOST_IN_SHORT: usize = 3;

/// Drops the clues if no process failed by itself, or a finding explains that; otherwise, keeps the first few.
pub fn keep_clues(report: &mut Report) {
    if report.clues.is_empty() {
        return;
    }
    let verdict = Verdict::of(report, false);
    let is_own = |incident: &Incident| {
        let signal = incident.process.and_then(|process| process.exit.signal);
        [DIED.id, FAILED.id].contains(&incident.kind.id) && signal.is_none_or(|signal| CRASH_SIGNALS.contains(&signal))
    };
    let has_failed = verdict.incidents().any(is_own);
    let is_unexplained = has_failed && report.record.filters.is_empty() && !verdict.explains_ends();
    report.clues.truncate(if is_unexplained { MOST_CLUES } else { 0 });
}

impl<'a> Verdict<'a> {
    /// Returns the first few clues, one line each, for the headline.
    pub fn clue_lines(&self) -> impl Iterator<Item = HeadlineLine<'a>> {
        self.clue_sentences().take(MOST_IN_SHORT).map(|text| HeadlineLine { text, about: LineSubject::Remark })
    }

    /// Returns all clues in sentences.
    pub fn clue_sentences(&self) -> impl Iterator<Item = String> {
        self.report.clues.iter().map(|clue| of(clue, |place| place.source().map(SourceLine::text)))
    }
}

/// Returns the sentence for a clue. `line` returns the source line of a place. For each call, the sentence
/// names the caller, and the line that called the caller.
pub fn of(clue: &Clue, mut line: impl FnMut(&Place) -> Option<String>) -> String {
    let mut at = |stack: &Vec<Place>| {
        let caller = stack.first()?;
        let first = line(caller).unwrap_or_else(|| caller.long());
        let above = stack.get(1).and_then(&mut line).map(|above| format!(", from {above}"));
        Some(clean(&(first + &above.unwrap_or_default())))
    };
    let places: Vec<String> = clue.stacks.iter().filter_map(&mut at).collect();
    let at = if places.is_empty() { String::new() } else { format!(" (at {})", places.join("; at ")) };
    let more = match clue.count {
        0 | 1 => String::new(),
        all => format!("; {} more like this", number(all - 1)),
    };
    format!("unusual: {}{at}{more}", clean(&clue.message))
}
