//! Parses a rule: its functions, and its clauses by the table of keys.

use super::draft::FaultDraft;
use super::keys::{ARGUMENT, KEYS, ValueParser};
use super::span::Span;
use super::{LONGEST_NAME, PlanError, conditions, whole};
use crate::fault::PlannedFault;
use crate::function::{FnId, alterable_functions};
use crate::names::find_nearest_name;
use crate::selector::FunctionSet;

type Result<T> = core::result::Result<T, PlanError>;

/// Parses the `number`-th fault of a plan. Also returns the position of its name; for a fault without a name, the
/// position of its start.
pub fn parse_rule<'a>(plan: &str, number: usize, text: Span<'a>) -> Result<(PlannedFault, Span<'a>)> {
    if let Some((at, c)) = text.text.char_indices().find(|(_, c)| c.is_whitespace() || c.is_control()) {
        let what = if c == ' ' { "a space" } else { "white space or a control character" };
        let message = format!("a fault cannot contain {what}; in a pattern, write ? in its place");
        return Err(text.error_at(at + 1, message));
    }
    let mut clauses = text.split(':');
    let set = clauses.next().unwrap_or(text);
    let mut functions = FunctionSet::parse(set.text)
        .map_err(|error| set.error_at(error.column.min(set.text.len() + 1), explain_wrong_set(set, &error.message)))?;
    // A name of the runtime stands for driver functions, which are parsed instead.
    for id in FnId::all().filter(|id| !id.spec().is_alterable()) {
        functions.set(id as usize, false);
    }
    let mut draft = FaultDraft::new(text.text, functions);
    if draft.functions.is_empty() {
        return Err(set.error_at_start(format!(
            "{} selects no function of the driver or NVML; use a name, a pattern or a @group such as @ipc",
            set.quoted_for_message()
        )));
    }
    let mut seen: Vec<String> = Vec::new();
    for clause in clauses {
        let said = self::parse_clause(&mut draft, clause)?;
        if seen.contains(&said) {
            return Err(clause.error_at_start(format!("'{said}' is given twice; a fault has each clause once")));
        }
        seen.push(said);
    }
    whole::check_whole_fault(&mut draft, text)?;
    let place = draft.name.unwrap_or(text);
    draft.rule.name = match draft.name {
        Some(name) if name.text.contains('/') => name.text.into(),
        Some(name) => format!("{plan}/{}", name.text),
        None => format!("{plan}/{number}"),
    };
    if draft.name.is_some() && draft.rule.name.len() > LONGEST_NAME {
        return Err(place.error_at_start(format!(
            "the name is {} bytes long with that of its plan; at most {LONGEST_NAME} are possible",
            draft.rule.name.len()
        )));
    }
    Ok((draft.rule, place))
}

/// Returns the message for a set of functions that cannot be parsed. If the set looks like a clause, the message says
/// that the fault names no functions.
fn explain_wrong_set(set: Span, message: &str) -> String {
    if set.text.contains('=') {
        return format!(
            "a fault begins with its functions, but {} is a clause; write cuIpcOpenMemHandle*:{}",
            set.quoted_for_message(),
            set.text.chars().take(40).collect::<String>()
        );
    }
    message.into()
}

/// Parses one clause, and returns its key.
fn parse_clause<'a>(draft: &mut FaultDraft<'a>, clause: Span<'a>) -> Result<String> {
    if clause.text.is_empty() {
        return Err(clause.error_at_start("a clause is missing here, such as error=MAP_FAILED"));
    }
    let (key, value) = match clause.split_once("=") {
        Some((key, value)) => (key, Some(value)),
        None => (clause, None),
    };
    let spec = KEYS.iter().find(|spec| spec.name == key.text).unwrap_or(ARGUMENT);
    if spec.acts {
        draft.actions.push((spec.name, clause));
    }
    match (&spec.reads, value) {
        (ValueParser::Argument, value) => return parse_argument_clause(draft, key, value),
        (ValueParser::Flag(read), None) => read(draft),
        (ValueParser::Optional(read), value) => read(draft, value)?,
        (ValueParser::Value(read), Some(value)) => read(draft, value)?,
        (ValueParser::Compared(key, read), Some(value)) => conditions::add_condition(draft, key.clone(), read(value)?)?,
        (ValueParser::Flag(_), Some(value)) => {
            return Err(value.error_at_start(format!("'{}' takes no value", spec.name)));
        }
        (ValueParser::Value(_) | ValueParser::Compared(..), None) => {
            let message = format!("'{}' needs a value, such as {}", spec.name, spec.example_clause());
            return Err(clause.end().error_at_start(message));
        }
    }
    Ok(spec.name.into())
}

/// Parses a clause whose key is the name of an argument.
fn parse_argument_clause(draft: &mut FaultDraft, key: Span, value: Option<Span>) -> Result<String> {
    let own = |name: &str| KEYS.iter().find(|spec| spec.name.eq_ignore_ascii_case(name));
    if key.text.is_empty() {
        return Err(key.error_at_start("a key is missing before the '=', such as dev=0 or error=MAP_FAILED"));
    }
    if let Some(spec) = own(key.text) {
        return Err(key.error_at_start(format!("{} is not a key; write '{}'", key.quoted_for_message(), spec.name)));
    }
    if draft.functions.iter().any(|function| function.find_argument(key.text).is_some()) {
        let Some(value) = value else {
            let message = format!("{} needs a value, such as {}=1", key.quoted_for_message(), key.text);
            return Err(key.end().error_at_start(message));
        };
        return conditions::add_argument(draft, key, value);
    }
    let functions = || draft.functions.iter();
    let arguments = functions().flat_map(|function| function.args()).map(|arg| arg.name());
    if let Some(meant) = find_nearest_name(key.text, KEYS.iter().map(|spec| spec.name).chain(arguments)) {
        return Err(
            key.error_at_start(format!("there is no key {}; did you mean '{meant}'?", key.quoted_for_message()))
        );
    }
    if let Some(other) = alterable_functions().find(|function| function.find_argument(key.text).is_some()) {
        return Err(key.error_at_start(format!(
            "{} is an argument of {}, which this fault does not select; {}",
            key.quoted_for_message(),
            other.name(),
            conditions::list_comparable_args(draft.functions[0])
        )));
    }
    let names: Vec<&str> = KEYS.iter().map(|spec| spec.name).collect();
    Err(key.error_at_start(format!(
        "there is no key {}; the keys are {} and the functions' arguments: {}",
        key.quoted_for_message(),
        names.join(", "),
        conditions::list_comparable_args(draft.functions[0])
    )))
}
