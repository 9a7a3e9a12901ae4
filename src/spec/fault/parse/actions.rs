//! Parses the actions of a rule.

use super::PlanError;
use super::conditions::argument_value;
use super::draft::Draft;
use super::span::{Span, either};
use super::values::{duration, number, one_of};
use crate::fault::{Delay, Out, OutValue, Stage};
use crate::function::{ArgSpec, Direction, FnSpec};
use crate::names::nearest;

type Result<T> = core::result::Result<T, PlanError>;

/// Notes `error=MAP_FAILED`. [`super::whole`] parses the value, because `force` may follow it.
pub fn error<'a>(draft: &mut Draft<'a>, value: Span<'a>) -> Result<()> {
    if value.text.is_empty() {
        return Err(value.error("a result is missing here, such as MAP_FAILED, 205 or any"));
    }
    draft.error = Some(value);
    Ok(())
}

/// Parses a delay: a time, or a time followed by `~` and its variation.
pub fn wait(value: Span) -> Result<Delay> {
    let Some((time, jitter)) = value.split_once("~") else {
        return Ok(Delay { time: duration(value)?, jitter: 0 });
    };
    let delay = Delay { time: duration(time)?, jitter: duration(jitter)? };
    if delay.jitter > delay.time {
        let message = format!(
            "{} less than {time} would be less than no time; at most {time} is possible",
            jitter.shown(),
            time = time.shown()
        );
        return Err(jitter.error(message));
    }
    Ok(delay)
}

/// Parses `hang` or `hang=LABEL`.
pub fn hang(draft: &mut Draft, value: Option<Span>) -> Result<()> {
    let is_label = |text: &str| {
        (1..=64).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    if let Some(wrong) = value.filter(|value| !is_label(value.text)) {
        let message = format!(
            "{} is not a label; a label has 1 to 64 letters, digits, '.', '_' and '-'",
            wrong.shown()
        );
        return Err(wrong.error(message));
    }
    draft.rule.action.hang = Some(value.map_or("hang", |value| value.text).into());
    Ok(())
}

/// Parses a clause such as `stage=after`.
pub fn stage<'a>(draft: &mut Draft<'a>, value: Span<'a>) -> Result<()> {
    let stages = [(Stage::Instead, "instead"), (Stage::After, "after"), (Stage::Undo, "undo")];
    draft.rule.action.stage = one_of(value, "stage", &stages)?;
    draft.stage = Some(value);
    Ok(())
}

/// Parses a clause `out=ARGUMENT=VALUE,..`.
pub fn out(draft: &mut Draft, value: Span) -> Result<()> {
    for item in value.split(',') {
        let Some((name, value)) = item.split_once("=") else {
            let what = if item.text.is_empty() {
                "an output is".into()
            } else {
                format!("the value of {} is", item.shown())
            };
            return Err(item
                .end()
                .error(format!("{what} missing here: out=ARGUMENT=VALUE, such as out=pdptr=null")));
        };
        let args = outputs(&draft.functions, name)?;
        let argument = args[0].name();
        if draft.rule.action.outs.iter().any(|out| out.argument.eq_ignore_ascii_case(argument)) {
            return Err(name.error(format!("'{argument}' is given twice; an output gets one value")));
        }
        let value = output(value, &args)?;
        draft.rule.action.outs.push(Out { argument, value });
    }
    Ok(())
}

fn outputs(functions: &[&'static FnSpec], name: Span) -> Result<Vec<&'static ArgSpec>> {
    let is_out = |arg: &&ArgSpec| arg.direction == Direction::Out;
    let args: Vec<&ArgSpec> = functions
        .iter()
        .filter_map(|function| function.argument(name.text).map(|(_, arg)| arg))
        .filter(is_out)
        .collect();
    if !args.is_empty() {
        return Ok(args);
    }
    if name.text.is_empty() {
        return Err(name.error("the name of an output is missing here: out=ARGUMENT=VALUE"));
    }
    let all = || functions.iter().flat_map(|function| function.args()).filter(is_out).map(|arg| arg.name());
    let input = functions.iter().find(|function| function.argument(name.text).is_some());
    let what = match input {
        Some(function) => {
            format!("{} of {} is not an output: the function reads it", name.shown(), function.name())
        }
        None => format!("no selected function has an output {}", name.shown()),
    };
    let mut known: Vec<&str> = Vec::new();
    for name in all() {
        if !known.contains(&name) {
            known.push(name);
        }
    }
    let hint = match nearest(name.text, all()) {
        Some(meant) => format!("did you mean '{meant}'?"),
        None if known.is_empty() => "they have no outputs".into(),
        None => format!("outputs are {}", either(known)),
    };
    Err(name.error(format!("{what}; {hint}")))
}

/// Describes the values that can be written to an argument; empty if it is not an output.
pub fn output_values(arg: &ArgSpec) -> &'static str {
    match arg.direction {
        Direction::Out if arg.is_handle() => "zero, flip/BYTE, other",
        Direction::Out if is_structure(arg) => "zero",
        Direction::Out => "a number, zero, null",
        _ => "",
    }
}

/// Returns true if an output does not fit in a 64-bit number.
fn is_structure(arg: &ArgSpec) -> bool {
    !arg.is_handle() && arg.size() > 8
}

/// Parses the value that is written to an output.
fn output(text: Span, args: &[&'static ArgSpec]) -> Result<OutValue> {
    if matches!(text.text, "zero" | "null") {
        return Ok(OutValue::Zero);
    }
    let handles = args.iter().filter(|arg| arg.is_handle()).count();
    if let Some(structure) = args.iter().find(|arg| is_structure(arg)) {
        return Err(text.error(format!(
            "{} does not fit into a {}; only zero does",
            text.shown(),
            structure.type_word()
        )));
    }
    if handles == 0 {
        if text.text.is_empty() || matches!(text.text, "other") || text.text.starts_with("flip/") {
            let missing = if text.text.is_empty() {
                "a value is missing here".into()
            } else {
                format!("{} is for handles", text.shown())
            };
            return Err(text.error(format!("{missing}; this output takes a number, zero or null")));
        }
        let smallest = args.iter().min_by_key(|arg| arg.size()).map_or(args, core::slice::from_ref);
        argument_value(text, args)?;
        return Ok(OutValue::Number(argument_value(text, smallest)?));
    }
    if handles < args.len() {
        return Err(text.error(
            "this output is a handle in one of the functions and a number in another; only zero fits both",
        ));
    }
    if text.text == "other" {
        return Ok(OutValue::Other);
    }
    if let Some(byte) = text.strip_prefix("flip/") {
        return Ok(OutValue::Flip(number(byte, 0, 63, "24")? as u8));
    }
    Err(text.error(format!(
        "{} does not fit into a handle; use zero, flip/BYTE such as flip/24, or other",
        text.shown()
    )))
}
