//! `docs/reference/plans.md`: the reference of fault plans. `scripts/docs` writes it, and a test says when it is stale.

use super::recipes::RECIPES;
use super::{of_kind, outputs};
use crate::markdown::escaped;
use cupeer_spec::fault::{KeyKind, is_comparable, output_values};
use cupeer_spec::function::{FnSpec, alterable};

/// What is not in any table.
const INTRODUCTION: &str = include_str!("page.md");

pub fn page() -> String {
    let made =
        "<!-- Made by scripts/docs from src/cli/faults and src/spec/fault/parse/keys.rs. Do not edit. -->\n";
    made.to_owned() + INTRODUCTION + &recipes() + &keys() + &functions()
}

fn recipes() -> String {
    let mut text = String::from("\n## Recipes\n");
    for (title, command, meaning) in RECIPES {
        text += &format!("\n### {title}\n\n```sh\n{command}\n```\n\n{}\n", escaped(meaning));
    }
    text
}

fn keys() -> String {
    let mut text = String::from("\n## Keys\n");
    for kind in KeyKind::ALL {
        let words = kind.words();
        let title = words[..1].to_uppercase() + &words[1..];
        text += &format!("\n### {title}\n\n| key | meaning | example |\n| --- | --- | --- |\n");
        for key in of_kind(kind) {
            let cells = [&format!("`{}`", key.form()), key.doc, &format!("`{}`", key.rule)].map(escaped);
            text += &format!("| {} |\n", cells.join(" | "));
        }
    }
    text
}

fn functions() -> String {
    let mut text = String::from(
        "\n## Functions\n\nFor each function: the arguments that can be keys, the outputs that `out=` can change and the values \
         they take, and what `stage=undo` calls. `cupeer explain FUNCTION` lists the documented results.\n\n\
         | function | arguments | outputs | undone by |\n| --- | --- | --- | --- |\n",
    );
    for function in alterable() {
        let code = |name: &str| format!("`{name}`");
        let args = function.args.iter().filter(|arg| is_comparable(arg)).map(|arg| code(arg.name));
        let outputs = outputs(function).map(|arg| format!("`{}`: {}", arg.name, output_values(arg)));
        let undone = function.undone_by().map_or(String::new(), |(inverse, _)| code(inverse.spec().name));
        text += &row(function, &args.collect::<Vec<_>>(), &outputs.collect::<Vec<_>>(), &undone);
    }
    text
}

fn row(function: &FnSpec, args: &[String], outputs: &[String], undone: &str) -> String {
    format!("| `{}` | {} | {} | {undone} |\n", function.name, args.join(", "), outputs.join("; "))
}
