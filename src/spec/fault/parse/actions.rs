//! Parses the actions of a rule.

use super::PlanError;
use super::conditions::parse_argument_value;
use super::draft::FaultDraft;
use super::span::{Span, join_with_or};
use super::values::{parse_duration, parse_number, parse_one_of};
use crate::fault::{FaultDelay, OutputChange, OutputValue, RealCallTreatment};
use crate::function::{ArgSpec, Direction, FnSpec};
use crate::names::find_nearest_name;

type Result<T> = core::result::Result<T, PlanError>;

/// Stores the value of a clause such as `error=MAP_FAILED`. [`super::whole`] parses the value, because `force` may
/// follow it.
pub fn set_error<'a>(draft: &mut FaultDraft<'a>, value: Span<'a>) -> Result<()> {
    if value.text.is_empty() {
        return Err(value.error_at_start("a result is missing here, such as MAP_FAILED, 205 or any"));
    }
    draft.error = Some(value);
    Ok(())
}

/// Parses a delay: a time, or a time followed by `~` and its variation.
pub fn parse_delay(value: Span) -> Result<FaultDelay> {
    let Some((time, jitter)) = value.split_once("~") else {
        return Ok(FaultDelay { time: parse_duration(value)?, jitter: 0 });
    };
    let delay = FaultDelay { time: parse_duration(time)?, jitter: parse_duration(jitter)? };
    if delay.jitter > delay.time {
        let message = format!(
            "{} less than {time} would be less than no time; at most {time} is possible",
            jitter.quoted_for_message(),
            time = time.quoted_for_message()
        );
        return Err(jitter.error_at_start(message));
    }
    Ok(delay)
}

/// Parses and stores the clause `hang` or `hang=LABEL`.
pub fn set_hang(draft: &mut FaultDraft, value: Option<Span>) -> Result<()> {
    let is_label = |text: &str| {
        (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    if let Some(wrong) = value.filter(|value| !is_label(value.text)) {
        let message = format!(
            "{} is not a label; a label has 1 to 64 letters, digits, '.', '_' and '-'",
            wrong.quoted_for_message()
        );
        return Err(wrong.error_at_start(message));
    }
    draft.rule.action.hang = Some(value.map_or("hang", |value| value.text).into());
    Ok(())
}

/// Parses and stores a clause such as `stage=after`.
pub fn set_stage<'a>(draft: &mut FaultDraft<'a>, value: Span<'a>) -> Result<()> {
    let stages = [
        (RealCallTreatment::Instead, "instead"),
        (RealCallTreatment::After, "after"),
        (RealCallTreatment::Undo, "undo"),
    ];
    draft.rule.action.stage = parse_one_of(value, "stage", &stages)?;
    draft.stage = Some(value);
    Ok(())
}

/// Parses and stores a clause `out=ARGUMENT=VALUE,..`.
pub fn add_outputs(draft: &mut FaultDraft, value: Span) -> Result<()> {
    for item in value.split(',') {
        let Some((name, value)) = item.split_once("=") else {
            let what = if item.text.is_empty() {
                "an output is".into()
            } else {
                format!("the value of {} is", item.quoted_for_message())
            };
            return Err(item
                .end()
                .error_at_start(format!("{what} missing here: out=ARGUMENT=VALUE, such as out=pdptr=null")));
        };
        let args = find_output_args(&draft.functions, name)?;
        let argument = args[0].name();
        if draft.rule.action.outs.iter().any(|out| out.argument.eq_ignore_ascii_case(argument)) {
            return Err(name.error_at_start(format!("'{argument}' is given twice; an output gets one value")));
        }
        let value = parse_output_value(value, &args)?;
        draft.rule.action.outs.push(OutputChange { argument, value });
    }
    Ok(())
}

fn find_output_args(functions: &[&'static FnSpec], name: Span) -> Result<Vec<&'static ArgSpec>> {
    let is_out = |arg: &&ArgSpec| arg.direction == Direction::Out;
    let args: Vec<&ArgSpec> = functions
        .iter()
        .filter_map(|function| function.find_argument(name.text).map(|(_, arg)| arg))
        .filter(is_out)
        .collect();
    if !args.is_empty() {
        return Ok(args);
    }
    if name.text.is_empty() {
        return Err(name.error_at_start("the name of an output is missing here: out=ARGUMENT=VALUE"));
    }
    let all = || functions.iter().flat_map(|function| function.args()).filter(is_out).map(|arg| arg.name());
    let input = functions.iter().find(|function| function.find_argument(name.text).is_some());
    let what = match input {
        Some(function) => {
            format!("{} of {} is not an output: the function reads it", name.quoted_for_message(), function.name())
        }
        None => format!("no selected function has an output {}", name.quoted_for_message()),
    };
    let mut known: Vec<&str> = Vec::new();
    for name in all() {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    let hint = match find_nearest_name(name.text, all()) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None if known.is_empty() => "they have no outputs".into(),
        None => format!("outputs are {}", join_with_or(known)),
    };
    Err(name.error_at_start(format!("{what}; {hint}")))
}

/// Describes the values that can be written to an argument; empty if it is not an output.
pub fn describe_output_values(arg: &ArgSpec) -> &'static str {
    match arg.direction {
        Direction::Out if arg.is_ipc_handle() => "zero, flip/BYTE, other",
        Direction::Out if is_structure(arg) => "zero",
        Direction::Out => "a number, zero, null",
        _ => "",
    }
}

/// Returns true if an output does not fit in a 64-bit number.
fn is_structure(arg: &ArgSpec) -> bool {
    !arg.is_ipc_handle() && arg.value_size() > 8
}

/// Parses the value that is written to an output.
fn parse_output_value(text: Span, args: &[&'static ArgSpec]) -> Result<OutputValue> {
    if matches!(text.text, "zero" | "null") {
        return Ok(OutputValue::Zero);
    }
    let handles = args.iter().filter(|arg| arg.is_ipc_handle()).count();
    if let Some(structure) = args.iter().find(|arg| is_structure(arg)) {
        return Err(text.error_at_start(format!(
            "{} does not fit into a {}; only zero does",
            text.quoted_for_message(),
            structure.type_word()
        )));
    }
    if handles == 0 {
        if text.text.is_empty() || matches!(text.text, "other") || text.text.starts_with("flip/") {
            let missing = if text.text.is_empty() {
                "a value is missing here".into()
            } else {
                format!("{} is for handles", text.quoted_for_message())
            };
            return Err(text.error_at_start(format!("{missing}; this output takes a number, zero or null")));
        }
        let smallest = args.iter().min_by_key(|arg| arg.value_size()).map_or(args, core::slice::from_ref);
        parse_argument_value(text, args)?;
        return Ok(OutputValue::Number(parse_argument_value(text, smallest)?));
    }
    if handles < args.len() {
        return Err(text.error_at_start(
            "this output is a handle in one of the functions and a number in another; only zero fits both",
        ));
    }
    if text.text == "other" {
        return Ok(OutputValue::Other);
    }
    if let Some(byte) = text.strip_prefix("flip/") {
        return Ok(OutputValue::Flip(parse_number(byte, 0, 63, "24")? as u8));
    }
    Err(text.error_at_start(format!(
        "{} does not fit into a handle; use zero, flip/BYTE such as flip/24, or other",
        text.quoted_for_message()
    )))
}
