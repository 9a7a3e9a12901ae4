//! The grammar of fault plans in the words of `cupeer list` and `cupeer explain`.
//!
//! It formats keys, and the parts of the table of functions that matter for plans. The keys themselves, and every word about a
//! single one, are in `cupeer_spec::fault`.

use cupeer_spec::fault::{KeyKind, KeySpec, describe_output_values, is_comparable, keys};
use cupeer_spec::function::{ArgSpec, FnSpec, alterable_functions};
use cupeer_views::table::{Table, wrap};
use serde_json::{Value, json};

/// Returns the text about all keys of fault plans, and about the outputs and undo functions of driver functions.
pub fn format_list(width: usize) -> String {
    let mut text = String::from("A fault is its functions, then clauses: SET:KEY=VALUE:KEY=VALUE..\n");
    for kind in KeyKind::ALL {
        let mut table = Table::new(&[&kind.words().to_uppercase(), ""], 2, 40);
        for key in keys_of_kind(kind) {
            table.push_row([key.clause_form(), format!("{} Example: {}", key.doc, key.example_clause())]);
        }
        text += &format!("\n{}", table.render(width));
    }
    let mut table = Table::new(&["FUNCTION", "UNDONE BY", "OUTPUTS"], 3, 20).with_last_below();
    for function in listed_functions() {
        let undone = function.undone_by().map_or("-", |(inverse, _)| inverse.spec().name());
        table.push_row([function.name().into(), undone.into(), format_outputs(function)]);
    }
    text + "\n" + &table.render(width)
}

/// Returns the contents of [`format_list`] as JSON, in full.
pub fn list_json() -> Value {
    json!({
        "keys": keys().map(key_json).collect::<Value>(),
        "functions": alterable_functions().map(function_json).collect::<Value>(),
    })
}

fn key_json(key: &KeySpec) -> Value {
    json!({
        "key": key.name,
        "kind": key.kind.words(),
        "form": key.clause_form(),
        "meaning": key.doc,
        "example": key.example_clause(),
        "rule": key.rule,
    })
}

fn function_json(function: &FnSpec) -> Value {
    let args: Vec<&str> = function.args().iter().filter(|arg| is_comparable(arg)).map(|arg| arg.name()).collect();
    let outputs = changeable_outputs(function).map(
        |arg| json!({"output": arg.name(), "values": describe_output_values(arg).split(", ").collect::<Vec<_>>()}),
    );
    json!({
        "function": function.name(),
        "arguments": args,
        "outputs": outputs.collect::<Value>(),
        "undone_by": function.undone_by().map(|(inverse, _)| inverse.spec().name()),
    })
}

pub fn explain_key(key: &KeySpec, width: usize) -> String {
    let mut facts = Table::new(&["", ""], 2, 30).with_last_below();
    facts.push_row(["it says".into(), key.kind.words().into()]);
    facts.push_row(["for example".into(), key.rule.into()]);
    let doc = wrap(key.doc, width).join("\n");
    format!("{}, a key of fault plans\n\n{doc}\n\n{}", key.clause_form(), facts.render(width).trim_start())
}

pub fn keys_of_kind(kind: KeyKind) -> impl Iterator<Item = &'static KeySpec> {
    keys().filter(move |key| key.kind == kind)
}

/// Returns the functions with an output that a fault can change, or with a function that undoes them.
fn listed_functions() -> impl Iterator<Item = &'static FnSpec> {
    alterable_functions()
        .filter(|function| function.undone_by().is_some() || changeable_outputs(function).next().is_some())
}

/// Returns the outputs of a function that the key `out=` can change.
pub fn changeable_outputs(function: &FnSpec) -> impl Iterator<Item = &'static ArgSpec> {
    function.args().iter().filter(|arg| !describe_output_values(arg).is_empty())
}

/// Returns the outputs in words: `pdptr`, `pHandle (zero, flip/BYTE, other)`. An output that takes any number has no
/// parentheses.
fn format_outputs(function: &FnSpec) -> String {
    let shown = |arg: &ArgSpec| match describe_output_values(arg) {
        values if values.starts_with("a number") => arg.name().to_owned(),
        values => format!("{} ({values})", arg.name()),
    };
    changeable_outputs(function).map(shown).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::function::FnId;

    #[test]
    fn a_key_is_explained_with_all_that_is_known_of_it() {
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for key in keys() {
            let text = explain_key(key, 80);
            assert!(text.lines().all(|line| line.len() <= 80 || line.contains(key.rule)), "{text}");
            for part in [&key.clause_form(), key.doc, key.kind.words(), key.rule] {
                assert!(flat(&text).contains(&flat(part)), "{part} is missing in\n{text}");
            }
        }
    }

    #[test]
    fn outputs_say_what_they_take_where_it_is_no_number() {
        assert_eq!(format_outputs(FnId::cuIpcOpenMemHandle_v2.spec()), "pdptr");
        assert_eq!(format_outputs(FnId::cuIpcGetMemHandle.spec()), "pHandle (zero, flip/BYTE, other)");
        assert_eq!(format_outputs(FnId::cuMemFree_v2.spec()), "");
    }

    #[test]
    fn all_that_can_be_undone_is_listed() {
        let listed = |id: FnId| listed_functions().any(|function| function.name() == id.spec().name());
        assert!(listed(FnId::cuCtxEnablePeerAccess) && listed(FnId::cuIpcGetMemHandle));
        assert!(!listed(FnId::cuCtxDisablePeerAccess));
    }
}
