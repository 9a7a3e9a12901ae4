//! The grammar of fault plans in the words of `cupeer list` and `cupeer explain`.
//!
//! It formats keys, and the parts of the table of functions that matter for plans. The keys themselves, and every word about a
//! single one, are in `cupeer_spec::fault`.

use cupeer_spec::fault::{KeyKind, KeySpec, is_comparable, keys, output_values};
use cupeer_spec::function::{ArgSpec, FnSpec, alterable};
use cupeer_views::table::{Table, wrap};
use serde_json::{Value, json};

/// Returns the text about all keys of fault plans, and about the outputs and undo functions of driver functions.
pub fn list(width: usize) -> String {
    let mut text = String::from("A fault is its functions, then clauses: SET:KEY=VALUE:KEY=VALUE..\n");
    for kind in KeyKind::ALL {
        let mut table = Table::new(&[&kind.words().to_uppercase(), ""], 2, 40);
        for key in of_kind(kind) {
            table.row([key.form(), format!("{} Example: {}", key.doc, key.example())]);
        }
        text += &format!("\n{}", table.render(width));
    }
    let mut table = Table::new(&["FUNCTION", "UNDONE BY", "OUTPUTS"], 3, 20).or_below();
    for function in concerned() {
        let undone = function.undone_by().map_or("-", |(inverse, _)| inverse.spec().name());
        table.row([function.name().into(), undone.into(), outputs_of(function)]);
    }
    text + "\n" + &table.render(width)
}

/// Returns the contents of [`list`] as JSON, in full.
pub fn json() -> Value {
    json!({
        "keys": keys().map(key_json).collect::<Value>(),
        "functions": alterable().map(function_json).collect::<Value>(),
    })
}

fn key_json(key: &KeySpec) -> Value {
    json!({
        "key": key.name,
        "kind": key.kind.words(),
        "form": key.form(),
        "meaning": key.doc,
        "example": key.example(),
        "rule": key.rule,
    })
}

fn function_json(function: &FnSpec) -> Value {
    let args: Vec<&str> =
        function.args().iter().filter(|arg| is_comparable(arg)).map(|arg| arg.name()).collect();
    let outputs = outputs(function).map(
        |arg| json!({"output": arg.name(), "values": output_values(arg).split(", ").collect::<Vec<_>>()}),
    );
    json!({
        "function": function.name(),
        "arguments": args,
        "outputs": outputs.collect::<Value>(),
        "undone_by": function.undone_by().map(|(inverse, _)| inverse.spec().name()),
    })
}

pub fn explain(key: &KeySpec, width: usize) -> String {
    let mut facts = Table::new(&["", ""], 2, 30).or_below();
    facts.row(["it says".into(), key.kind.words().into()]);
    facts.row(["for example".into(), key.rule.into()]);
    let doc = wrap(key.doc, width).join("\n");
    format!("{}, a key of fault plans\n\n{doc}\n\n{}", key.form(), facts.render(width).trim_start())
}

pub fn of_kind(kind: KeyKind) -> impl Iterator<Item = &'static KeySpec> {
    keys().filter(move |key| key.kind == kind)
}

/// Returns the functions with an output that a fault can change, or with a function that undoes them.
fn concerned() -> impl Iterator<Item = &'static FnSpec> {
    alterable().filter(|function| function.undone_by().is_some() || outputs(function).next().is_some())
}

/// Returns the outputs of a function that the key `out=` can change.
pub fn outputs(function: &FnSpec) -> impl Iterator<Item = &'static ArgSpec> {
    function.args().iter().filter(|arg| !output_values(arg).is_empty())
}

/// Returns the outputs in words: `pdptr`, `pHandle (zero, flip/BYTE, other)`. An output that takes any number has no
/// parentheses.
fn outputs_of(function: &FnSpec) -> String {
    let shown = |arg: &ArgSpec| match output_values(arg) {
        values if values.starts_with("a number") => arg.name().to_owned(),
        values => format!("{} ({values})", arg.name()),
    };
    outputs(function).map(shown).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_spec::function::FnId;

    #[test]
    fn a_key_is_explained_with_all_that_is_known_of_it() {
        let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for key in keys() {
            let text = explain(key, 80);
            assert!(text.lines().all(|line| line.len() <= 80 || line.contains(key.rule)), "{text}");
            for part in [&key.form(), key.doc, key.kind.words(), key.rule] {
                assert!(flat(&text).contains(&flat(part)), "{part} is missing in\n{text}");
            }
        }
    }

    #[test]
    fn outputs_say_what_they_take_where_it_is_no_number() {
        assert_eq!(outputs_of(FnId::cuIpcOpenMemHandle_v2.spec()), "pdptr");
        assert_eq!(outputs_of(FnId::cuIpcGetMemHandle.spec()), "pHandle (zero, flip/BYTE, other)");
        assert_eq!(outputs_of(FnId::cuMemFree_v2.spec()), "");
    }

    #[test]
    fn all_that_can_be_undone_is_listed() {
        let listed = |id: FnId| concerned().any(|function| function.name() == id.spec().name());
        assert!(listed(FnId::cuCtxEnablePeerAccess) && listed(FnId::cuIpcGetMemHandle));
        assert!(!listed(FnId::cuCtxDisablePeerAccess));
    }
}
