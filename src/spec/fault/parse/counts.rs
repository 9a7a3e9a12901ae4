//! Parses the selection of matching calls, and the scope of their counter.

use super::PlanError;
use super::draft::FaultDraft;
use super::span::Span;
use super::values::{parse_number, parse_one_of};
use crate::fault::{CallSelection, CounterScope};

type Result<T> = core::result::Result<T, PlanError>;

/// Parses a clause `when=F[..L][+[S]]`.
pub fn set_selection(draft: &mut FaultDraft, value: Span) -> Result<()> {
    let nth = |text: Span| parse_number(text, 1, u64::MAX, "3");
    if value.text.is_empty() {
        return Err(value.error_at_start("the number of a call is missing here: 3, 3+, 3+2, 3..5 or 3..9+2"));
    }
    let (range, step) = match value.split_once("+") {
        Some((range, step)) if step.text.is_empty() => (range, Some(1)),
        Some((range, step)) => (range, Some(nth(step)?)),
        None => (value, None),
    };
    let (first, last) = match range.split_once("..") {
        Some((first, last)) => {
            if last.text.is_empty() {
                let message = format!("the last call is missing here; {}+ means all from there on", first.text);
                return Err(last.error_at_start(message));
            }
            (nth(first)?, nth(last)?)
        }
        None => {
            let first = nth(range)?;
            (first, if step.is_some() { u64::MAX } else { first })
        }
    };
    if last < first {
        let message =
            format!("the range {} ends before it begins; write the smaller number first", range.quoted_for_message());
        return Err(range.error_at_start(message));
    }
    draft.rule.when = CallSelection { first, last, step: step.unwrap_or(1) };
    Ok(())
}

/// Parses a clause such as `per=job/rule`.
pub fn set_counter_scope(draft: &mut FaultDraft, value: Span) -> Result<()> {
    let (whose, together) = match value.split_once("/") {
        Some((whose, rule)) if rule.text == "rule" => (whose, true),
        Some((_, other)) => {
            let message =
                format!("{} is not valid here; /rule counts the functions together", other.quoted_for_message());
            return Err(other.error_at_start(message));
        }
        None => (value, false),
    };
    draft.rule.per = parse_one_of(whose, "scope", CounterScope::ALL)?;
    draft.rule.together = together;
    Ok(())
}
