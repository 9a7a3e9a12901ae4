//! Checks that need the whole rule: conflicts between clauses, and results that its functions cannot return.

use super::PlanError;
use super::draft::FaultDraft;
use super::keys::keys;
use super::span::{Span, join_with_or};
use super::values::explain_no_result;
use crate::fault::{ConditionKey, ConditionValues, FaultResult, RealCallTreatment};
use crate::function::{FUNCTIONS, FnSpec, alterable_functions};

type Result<T> = core::result::Result<T, PlanError>;

/// Checks a fault after all of its clauses were parsed.
pub fn check_whole_fault(draft: &mut FaultDraft, text: Span) -> Result<()> {
    if draft.actions.is_empty() {
        let acts = keys().filter(|key| key.acts);
        let words = acts.map(|key| key.name.to_owned() + if key.value.starts_with('[') { "" } else { "=" });
        let message = format!("the fault selects calls, but has no effect on them; add {}", join_with_or(words));
        return Err(text.end().error_at_start(message));
    }
    check_exclusive(draft)?;
    if let Some(value) = draft.error {
        draft.rule.action.error = Some(parse_result(draft, value)?);
        check_release(draft, value)?;
    }
    if let (Some(stage), RealCallTreatment::Undo) = (draft.stage, draft.rule.action.stage) {
        check_undoable(draft, stage)?;
    }
    check_time(draft)
}

fn find_action<'a>(draft: &FaultDraft<'a>, action: &str) -> Option<Span<'a>> {
    draft.actions.iter().find(|(name, _)| *name == action).map(|(_, clause)| *clause)
}

/// Returns an error if clauses of the fault exclude each other.
fn check_exclusive(draft: &FaultDraft) -> Result<()> {
    if let (Some(stage), None) = (draft.stage, draft.error) {
        return Err(stage.error_at_start("stage= belongs to error=: it says what becomes of the real call; add error="));
    }
    if let (Some(out), Some(_)) = (find_action(draft, "out"), draft.error) {
        return Err(out.error_at_start(
            "out= is for calls that succeed, but error= makes them fail; write two faults, or leave one out",
        ));
    }
    if find_action(draft, "exit").is_some() {
        for late in ["error", "out", "delay-after"] {
            if let Some(clause) = find_action(draft, late) {
                let message = format!(
                    "'{late}' never takes effect, because exit= ends the process before the call; leave one out"
                );
                return Err(clause.error_at_start(message));
            }
        }
    }
    Ok(())
}

/// Parses the value of `error`: the result that the matching calls return.
fn parse_result(draft: &FaultDraft, value: Span) -> Result<FaultResult> {
    let fails = |function: &&&FnSpec| function.failures().next().is_some();
    if value.text == "any" {
        return match draft.functions.iter().find(|function| !fails(function)) {
            Some(function) => {
                Err(value.error_at_start(format!("{} has no known failure; name one, and add force", function.name())))
            }
            None => Ok(FaultResult::Any),
        };
    }
    let code = parse_code(draft, value)?;
    if code == 0 {
        return Err(value.error_at_start(
            "a call that succeeds without being made would leave its outputs unset; use out= to change what a success gives",
        ));
    }
    if draft.force {
        return Ok(FaultResult::Code(code));
    }
    let is_unknown = |function: &&&FnSpec| function.failures().all(|known| known != code);
    if let Some(function) = draft.functions.iter().find(is_unknown) {
        let names = |only_seen: bool| {
            let chosen = function.failures().filter(move |code| function.is_undocumented_result(*code) == only_seen);
            join_with_or(chosen.filter_map(|code| function.result_name(code)))
        };
        let what = match function.result_name(code) {
            Some(name) => {
                format!("{name} is neither documented for {} nor seen from a real driver", function.name())
            }
            None => format!("{code} is not a known result"),
        };
        let seen = match names(true) {
            seen if seen.is_empty() => seen,
            seen => format!("; real drivers were also seen to return {seen}"),
        };
        let documented = names(false);
        return Err(value.error_at_start(format!(
            "{what}; {} fails with {documented}{seen}; choose one of these, or add force",
            function.name()
        )));
    }
    Ok(FaultResult::Code(code))
}

/// Parses a result, by its number or name, that all selected functions have. Returns its number.
fn parse_code(draft: &FaultDraft, value: Span) -> Result<i32> {
    if value.text.starts_with(|c: char| c.is_ascii_digit() || c == '-') {
        return value.text.parse().map_err(|_| {
            value.error_at_start(format!(
                "{} is not a result; a number has 32 bits, such as 205",
                value.quoted_for_message()
            ))
        });
    }
    let mut found: Option<(i32, &FnSpec)> = None;
    for function in &draft.functions {
        let Some(code) = function.parse_result(value.text) else {
            return Err(value.error_at_start(
                match alterable_functions().find(|other| other.parse_result(value.text).is_some()) {
                    Some(other) => format!(
                        "{} is a result of {}, not of {}; write a fault for each library",
                        value.quoted_for_message(),
                        other.library.soname(),
                        function.library.soname()
                    ),
                    None => explain_no_result(value, draft.functions.iter().copied()),
                },
            ));
        };
        match found {
            Some((other, first)) if other != code => {
                return Err(value.error_at_start(format!(
                    "{} is {other} for {} and {code} for {}; write a fault for each library",
                    value.quoted_for_message(),
                    first.name(),
                    function.name()
                )));
            }
            _ => found = Some((code, function)),
        }
    }
    Ok(found.map_or(0, |(code, _)| code))
}

/// Returns an error for a rule that makes a release fail without `force`, because programs rarely check the
/// result of a release.
fn check_release(draft: &FaultDraft, value: Span) -> Result<()> {
    match draft.functions.iter().find(|function| function.is_release()) {
        Some(function) if !draft.force => Err(value.error_at_start(format!(
            "error= would fail {name}, which is a release function: nothing would be released, and few programs check the result; add force, or leave it out with ^{name}",
            name = function.name()
        ))),
        _ => Ok(()),
    }
}

fn check_undoable(draft: &FaultDraft, stage: Span) -> Result<()> {
    let Some(function) = draft.functions.iter().find(|function| function.undone_by().is_none()) else {
        return Ok(());
    };
    let can = FUNCTIONS.iter().filter(|function| function.undone_by().is_some()).map(|function| function.name());
    Err(stage.error_at_start(format!("nothing undoes {}; stage=undo is for {}", function.name(), join_with_or(can))))
}

/// Returns an error if `after` and `until` leave no time in which a call could match.
fn check_time(draft: &FaultDraft) -> Result<()> {
    let Some(until) = draft.until else { return Ok(()) };
    let ranges = draft.rule.conditions.iter().filter(|condition| condition.key == ConditionKey::Time);
    let (mut from, mut to) = (0, u64::MAX);
    for condition in ranges {
        if let ConditionValues::Numbers(ranges) = &condition.values {
            for range in ranges {
                (from, to) = (from.max(range.0), to.min(range.1));
            }
        }
    }
    if from >= to {
        return Err(until.error_at_start("until= is before after=; no call is between them"));
    }
    Ok(())
}
