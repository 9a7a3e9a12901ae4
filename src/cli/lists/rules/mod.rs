//! The rules in the words of `cupeer list` and `cupeer explain`.
//!
//! It formats rules and the causes of results. The rules themselves, and every word about a single one, are in
//! `cupeer_rules`.

mod why;

pub use why::{causes_without_rule, documenting_functions, functions_observed_with, reasons_for_result};

use cupeer_rules::probes::{FollowUp, PROBES, Probe};
use cupeer_rules::{Basis, CACHES, Cache, RULES, RuleSpec, Scope, Severity, Tells};
use cupeer_spec::function::FnSpec;
use cupeer_views::table::{Table, wrap};
use serde_json::{Value, json};

pub fn rules_table() -> Table {
    let mut table = Table::new(&["NAME", "SEVERITY", "SCOPE", "SAYS"], 4, 20).with_last_below();
    for rule in RULES {
        let scope = rule.scope.words().into();
        table.push_row([rule.name().into(), rule.severity.word().into(), scope, rule_sentence(rule)]);
    }
    table
}

/// Returns the table of the rules of one function; it is empty if the function has none.
pub fn rules_table_for(function: &FnSpec) -> Table {
    let mut table = Table::new(&["RULE", "SEVERITY", "SAYS"], 3, 20).with_last_below();
    for rule in RULES.iter().filter(|rule| rule.functions().iter().any(|id| id.spec().name() == function.name())) {
        table.push_row([rule.name().into(), rule.severity.word().into(), rule_sentence(rule)]);
    }
    table
}

/// Returns the table of the probes of one function: calls whose failure is expected. It is empty if there are
/// none.
pub fn probes_table_for(function: &FnSpec) -> Table {
    let mut table = Table::new(&["EXPECTED RESULT", "WHO ASKS WHAT"], 2, 30).with_last_below();
    let is_its = |probe: &&Probe| probe.functions.iter().any(|id| id.spec().name() == function.name());
    for probe in PROBES.iter().filter(is_its) {
        table.push_row([format_probe_results(probe), format!("{}: {}", describe_callers(probe), probe.why)]);
    }
    table
}

fn format_probe_results(probe: &Probe) -> String {
    probe.results.iter().map(|result| result.spec().short_name()).collect::<Vec<_>>().join(", ")
}

/// Returns a sentence about the callers for whom the failure of a probe is normal, and about the calls that they
/// must make next.
fn describe_callers(probe: &Probe) -> String {
    let who = match probe.callers.iter().map(|name| format!("{name}*")).collect::<Vec<_>>() {
        nobody if nobody.is_empty() => "anybody".to_owned(),
        some => some.join(", "),
    };
    match probe.follow_up {
        None => who,
        Some(FollowUp::OtherHandleType) => {
            format!("{who}, if the thread then creates memory with another handle type")
        }
        Some(FollowUp::SamePool) => format!("{who}, if the thread then imports a pointer into the same pool"),
    }
}

/// Returns the caches that break a rule by design.
fn caches_of(rule: &RuleSpec) -> impl Iterator<Item = &'static Cache> {
    CACHES.iter().filter(|_| rule.states_fact(Tells::ClosedLate))
}

fn rule_sentence(rule: &RuleSpec) -> String {
    let unchecked = rule.reason_unchecked().map(|reason| format!(" Not checked: {reason}."));
    rule.page().says.to_owned() + &unchecked.unwrap_or_default()
}

pub fn rules_json() -> Value {
    RULES.iter().map(rule_json).collect()
}

fn rule_json(rule: &RuleSpec) -> Value {
    let some = |text: &'static str| (!text.is_empty()).then_some(text);
    json!({
        "rule": rule.name(),
        "says": rule.page().says,
        "functions": function_names(rule),
        "results": rule.results().iter().map(|result| result.spec().name()).collect::<Vec<_>>(),
        "severity": rule.severity.word(),
        "scope": rule.scope.words(),
        "source": rule.basis().source(),
        "sentence": rule.basis().sentence(),
        "costs": rule.page().costs,
        "cause": some(rule.cause()),
        "ruled_out": some(rule.page().ruled_out),
        "hint": some(rule.hint()),
        "usual": rule.exemptions().map(|u| json!({"library": u.library, "why": u.why})).collect::<Vec<_>>(),
        "caches": caches_of(rule)
            .map(|cache| json!({"libraries": cache.libraries, "why": cache.why, "hint": cache.hint}))
            .collect::<Vec<_>>(),
        "seen": observed_threads(rule).collect::<Vec<_>>(),
        "checked": rule.is_checked(),
        "unchecked_because": rule.reason_unchecked(),
    })
}

pub fn explain_rule(rule: &RuleSpec, width: usize) -> String {
    let mut facts = Table::new(&["", ""], 2, 30).with_last_below();
    for RuleFact { name, text, meaning } in facts_of(rule) {
        facts.push_row([name.into(), if meaning.is_empty() { text } else { format!("{text} ({meaning})") }]);
    }
    let says = wrap(rule.page().says, width).join("\n");
    format!("{}\n\n{says}\n\n{}", rule.name(), facts.render(width).trim_start())
}

/// A fact about a rule, as one line of the text.
struct RuleFact {
    /// Label of the fact.
    name: &'static str,
    text: String,
    /// Meaning of the label, explained once for all rules; empty if the label needs no explanation.
    meaning: &'static str,
}

/// Returns the known facts about a rule, in the order of the text.
fn facts_of(rule: &RuleSpec) -> Vec<RuleFact> {
    let results = rule.results().iter().map(|result| result.spec());
    let results: Vec<String> = results.map(|spec| format!("{} ({})", spec.name(), spec.number)).collect();
    let usual: Vec<String> =
        rule.exemptions().map(|u| format!("a note in calls of {}*: {}", u.library, u.why)).collect();
    let fact = |name, text: String| RuleFact { name, text, meaning: "" };
    let facts = [
        fact("Fix", rule.hint().into()),
        fact("Source", describe_basis(&rule.basis())),
        fact("Effect", rule.page().costs.into()),
        RuleFact { name: "Severity", text: rule.severity.word().into(), meaning: describe_severity(rule.severity) },
        RuleFact { name: "Scope", text: rule.scope.words().into(), meaning: describe_scope(rule.scope) },
        fact("Functions", function_names(rule).join(", ")),
        fact("Results", results.join(", ")),
        fact("Cause", rule.cause().into()),
        fact("Ruled out if", rule.page().ruled_out.into()),
        fact("Exceptions", usual.join("; ")),
        fact("Seen in", observed_threads(rule).collect::<Vec<_>>().join(", ")),
        fact("Not checked", rule.reason_unchecked().map(|reason| format!("{reason}.")).unwrap_or_default()),
    ];
    facts.into_iter().filter(|fact| !fact.text.is_empty()).collect()
}

fn function_names(rule: &RuleSpec) -> Vec<&'static str> {
    rule.functions().iter().map(|id| id.spec().name()).collect()
}

fn observed_threads(rule: &RuleSpec) -> impl Iterator<Item = &'static str> {
    rule.page().seen.split(", ").filter(|thread| !thread.is_empty())
}

fn describe_severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "for information; correct programs do this, too",
        Severity::Warning => {
            "the program may work today, but the call has no effect, costs speed or memory, or can cause wrong data, a hang, or a later failure"
        }
        Severity::Error => "the call fails because of it, or its effect is undefined",
    }
}

fn describe_scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Arguments | Scope::Call => "decided from the call, and from driver queries about its arguments",
        Scope::EarlierCall | Scope::Process => "also decided from what the process did before",
        Scope::CallElsewhere | Scope::Processes => "also decided from what other processes of the job did",
    }
}

/// Returns the source of a rule: the kind of source, and the sentence in it.
fn describe_basis(basis: &Basis) -> String {
    match basis {
        Basis::Documented(function, sentence) => format!("documentation of {function}: \"{sentence}\""),
        Basis::Observed(sentence) => format!("{}: {sentence}", basis.source()),
        Basis::Practice(sentence) => format!("practice: {sentence}"),
    }
}

#[cfg(test)]
mod tests {
    mod page;
    mod scenes;
    mod threads;

    use super::*;
    use cupeer_rules::Rule;

    #[test]
    fn a_rule_is_explained_with_all_that_is_known_of_it() {
        for rule in RULES {
            let text = explain_rule(rule, 100);
            assert!(text.lines().all(|line| line.len() <= 100), "{text}");
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let flat = words(&text);
            for part in [
                rule.page().says,
                rule.basis().sentence(),
                rule.page().costs,
                rule.hint(),
                rule.cause(),
                rule.page().seen,
            ] {
                assert!(flat.contains(&words(part)), "{part} is missing in\n{text}");
            }
            for function in function_names(rule) {
                assert!(flat.contains(function), "{function} is missing in\n{text}");
            }
        }
    }

    #[test]
    fn unknown_facts_have_no_line() {
        let names = |rule: Rule| facts_of(rule.spec()).into_iter().map(|fact| fact.name).collect::<Vec<_>>();
        assert!(names(Rule::IpcFlags).contains(&"Ruled out if") && !names(Rule::IpcFlags).contains(&"Seen in"));
        assert!(!names(Rule::PoolAccess).contains(&"Functions") && names(Rule::PoolAccess).contains(&"Not checked"));
        assert_eq!(names(Rule::IpcFlags)[0], "Fix");
    }
}
