//! Parses a rule: its functions, and its clauses by the table of keys.

use super::draft::Draft;
use super::keys::{ARGUMENT, KEYS, Reads};
use super::span::Span;
use super::{LONGEST_NAME, PlanError, conditions, whole};
use crate::fault::Rule;
use crate::function::{FnId, alterable};
use crate::names::nearest;
use crate::selector::FunctionSet;

type Result<T> = core::result::Result<T, PlanError>;

/// Parses the `number`-th rule of a plan. Also returns the position of its name; for a rule without a name,
/// the start of the rule.
pub fn rule<'a>(plan: &str, number: usize, text: Span<'a>) -> Result<(Rule, Span<'a>)> {
    if let Some((at, c)) = text.text.char_indices().find(|(_, c)| c.is_whitespace() || c.is_control()) {
        let what = if c == ' ' { "a space" } else { "white space or a control character" };
        let message = format!("a fault cannot contain {what}; in a pattern, write ? in its place");
        return Err(text.error_at(at + 1, message));
    }
    let mut clauses = text.split(':');
    let set = clauses.next().unwrap_or(text);
    let mut functions = FunctionSet::parse(set.text)
        .map_err(|error| set.error_at(error.column.min(set.text.len() + 1), hinted(set, &error.message)))?;
    // A name of the runtime stands for driver functions, which are parsed instead.
    for id in FnId::all().filter(|id| !id.spec().is_alterable()) {
        functions.set(id as usize, false);
    }
    let mut draft = Draft::new(text.text, functions);
    if draft.functions.is_empty() {
        return Err(set.error(format!(
            "{} selects no function of the driver or NVML; use a name, a pattern or a @group such as @ipc",
            set.shown()
        )));
    }
    let mut seen: Vec<String> = Vec::new();
    for clause in clauses {
        let said = self::clause(&mut draft, clause)?;
        if seen.contains(&said) {
            return Err(clause.error(format!("'{said}' is given twice; a fault has each clause once")));
        }
        seen.push(said);
    }
    whole::check(&mut draft, text)?;
    let place = draft.name.unwrap_or(text);
    draft.rule.name = match draft.name {
        Some(name) if name.text.contains('/') => name.text.into(),
        Some(name) => format!("{plan}/{}", name.text),
        None => format!("{plan}/{number}"),
    };
    if draft.name.is_some() && draft.rule.name.len() > LONGEST_NAME {
        return Err(place.error(format!(
            "the name is {} bytes long with that of its plan; at most {LONGEST_NAME} are possible",
            draft.rule.name.len()
        )));
    }
    Ok((draft.rule, place))
}

/// Returns the message for a set of functions that cannot be parsed. If the set looks like a clause, the
/// message says that the rule names no functions.
fn hinted(set: Span, message: &str) -> String {
    if set.text.contains('=') {
        return format!(
            "a fault begins with its functions, but {} is a clause; write cuIpcOpenMemHandle*:{}",
            set.shown(),
            set.text.chars().take(40).collect::<String>()
        );
    }
    message.into()
}

/// Parses one clause, and returns its key.
fn clause<'a>(draft: &mut Draft<'a>, clause: Span<'a>) -> Result<String> {
    if clause.text.is_empty() {
        return Err(clause.error("a clause is missing here, such as error=MAP_FAILED"));
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
        (Reads::Argument, value) => return argument(draft, key, value),
        (Reads::Flag(read), None) => read(draft),
        (Reads::Optional(read), value) => read(draft, value)?,
        (Reads::Value(read), Some(value)) => read(draft, value)?,
        (Reads::Compared(key, read), Some(value)) => conditions::add(draft, key.clone(), read(value)?)?,
        (Reads::Flag(_), Some(value)) => {
            return Err(value.error(format!("'{}' takes no value", spec.name)));
        }
        (Reads::Value(_) | Reads::Compared(..), None) => {
            let message = format!("'{}' needs a value, such as {}", spec.name, spec.example());
            return Err(clause.end().error(message));
        }
    }
    Ok(spec.name.into())
}

/// Parses a clause whose key is the name of an argument.
fn argument(draft: &mut Draft, key: Span, value: Option<Span>) -> Result<String> {
    let own = |name: &str| KEYS.iter().find(|spec| spec.name.eq_ignore_ascii_case(name));
    if key.text.is_empty() {
        return Err(key.error("a key is missing before the '=', such as dev=0 or error=MAP_FAILED"));
    }
    if let Some(spec) = own(key.text) {
        return Err(key.error(format!("{} is not a key; write '{}'", key.shown(), spec.name)));
    }
    if draft.functions.iter().any(|function| function.argument(key.text).is_some()) {
        let Some(value) = value else {
            let message = format!("{} needs a value, such as {}=1", key.shown(), key.text);
            return Err(key.end().error(message));
        };
        return conditions::argument(draft, key, value);
    }
    let functions = || draft.functions.iter();
    let arguments = functions().flat_map(|function| function.args()).map(|arg| arg.name());
    if let Some(meant) = nearest(key.text, KEYS.iter().map(|spec| spec.name).chain(arguments)) {
        return Err(key.error(format!("there is no key {}; did you mean '{meant}'?", key.shown())));
    }
    if let Some(other) = alterable().find(|function| function.argument(key.text).is_some()) {
        return Err(key.error(format!(
            "{} is an argument of {}, which this fault does not select; {}",
            key.shown(),
            other.name(),
            conditions::arguments_of(draft.functions[0])
        )));
    }
    let names: Vec<&str> = KEYS.iter().map(|spec| spec.name).collect();
    Err(key.error(format!(
        "there is no key {}; the keys are {} and the functions' arguments: {}",
        key.shown(),
        names.join(", "),
        conditions::arguments_of(draft.functions[0])
    )))
}
