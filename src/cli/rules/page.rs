//! `docs/reference/rules.md`: the rules as a page. `scripts/docs` writes it, and a test says when it is stale.

use super::{callers_of, facts_of, results_of, scope, severity, why};
use crate::markdown::escaped;
use cupeer_rules::probes::PROBES;
use cupeer_rules::{RULES, RuleSpec, Scope, Severity};
use cupeer_spec::results::RESULTS;

pub fn page() -> String {
    let mut text = String::from(
        "<!-- Made by scripts/docs from src/rules. Do not edit. -->\n\
         # Rules\n\n\
         What `cupeer run --check` checks, and what `cupeer report` finds in a record. `cupeer list rules` and \
         `cupeer explain RULE` say the same.\n\n",
    );
    for known in Severity::ALL.iter().rev() {
        text += &format!("- **{}**: {}.\n", known.word(), severity(*known));
    }
    text.push('\n');
    for known in [Scope::Call, Scope::Process, Scope::Processes] {
        text += &format!("- *{}*: {}.\n", known.words(), scope(known));
    }
    let (checked, unchecked): (Vec<_>, Vec<_>) = RULES.iter().partition(|rule| rule.is_checked());
    text += "\n## Checked\n\n";
    text += &contents(&checked);
    checked.iter().for_each(|rule| text += &section(rule));
    text += "\n## Not checked\n\n";
    text += &contents(&unchecked);
    unchecked.iter().for_each(|rule| text += &section(rule));
    text + "\n## Expected failures\n\n" + &expected() + "\n## Why a call fails\n" + &failures()
}

/// The probes, each with its sources.
fn expected() -> String {
    let mut text = String::from(
        "Programs make these calls to ask something. A report counts the answer under \"Expected failures\", and \
         nothing else mentions it.\n\n\
         | function | result | made by | why | sources |\n| --- | --- | --- | --- | --- |\n",
    );
    for probe in PROBES {
        let functions: Vec<&str> = probe.functions.iter().map(|id| id.spec().name).collect();
        let fabric = if probe.wants_fabric { " with FABRIC" } else { "" };
        text += &format!(
            "| {}{fabric} | {} | {} | {} | {} |\n",
            functions.join(", "),
            results_of(probe),
            escaped(&callers_of(probe)),
            escaped(probe.why),
            escaped(&probe.sources.join("; "))
        );
    }
    text
}

fn contents(rules: &[&RuleSpec]) -> String {
    let mut text = String::from("| rule | severity | scope | |\n| --- | --- | --- | --- |\n");
    for rule in rules {
        let (severity, scope) = (rule.severity.word(), rule.scope.words());
        text += &format!("| {} | {severity} | {scope} | {} |\n", link(rule), escaped(rule.says));
    }
    text
}

fn section(rule: &RuleSpec) -> String {
    let mut text = format!("\n### {}\n\n{}\n\n", rule.name, escaped(rule.says));
    for (name, fact) in facts_of(rule) {
        // In which chapter it stands says so.
        if name != "checked" || !rule.is_checked() {
            text += &format!("- **{name}**: {}\n", escaped(&fact));
        }
    }
    text
}

fn failures() -> String {
    let mut text = String::new();
    for result in RESULTS {
        let all = why(result);
        if !all.is_empty() {
            text += &format!("\n### {}\n", result.name());
        }
        for why in all {
            text += &format!("\n{}\n\n", why.subject());
            for (rule, cause) in &why.causes {
                let rule = rule.map(|rule| format!(" ({})", link(rule))).unwrap_or_default();
                text += &format!("- {}{rule}\n", escaped(cause));
            }
        }
    }
    text
}

fn link(rule: &RuleSpec) -> String {
    format!("[{0}](#{0})", rule.name)
}
