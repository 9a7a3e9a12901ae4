//! The rules in the words of `cupeer list` and `cupeer explain`.
//!
//! It formats rules and the causes of results. The rules themselves, and every word about a single one, are in
//! `cupeer_rules`.

mod why;

pub use why::{causes_without_rule, documented, seen_from, why};

use cupeer_rules::probes::{FollowUp, PROBES, Probe};
use cupeer_rules::{Basis, CACHES, Cache, RULES, RuleSpec, Scope, Severity, Tells};
use cupeer_spec::function::FnSpec;
use cupeer_views::table::{Table, wrap};
use serde_json::{Value, json};

pub fn table() -> Table {
    let mut table = Table::new(&["NAME", "SEVERITY", "SCOPE", "SAYS"], 4, 20).or_below();
    for rule in RULES {
        let scope = rule.scope.words().into();
        table.row([rule.name().into(), rule.severity.word().into(), scope, sentence_of(rule)]);
    }
    table
}

/// Returns the table of the rules of one function; it is empty if the function has none.
pub fn of_function(function: &FnSpec) -> Table {
    let mut table = Table::new(&["RULE", "SEVERITY", "SAYS"], 3, 20).or_below();
    for rule in
        RULES.iter().filter(|rule| rule.functions().iter().any(|id| id.spec().name() == function.name()))
    {
        table.row([rule.name().into(), rule.severity.word().into(), sentence_of(rule)]);
    }
    table
}

/// Returns the table of the probes of one function: calls whose failure is expected. It is empty if there are
/// none.
pub fn probes_of(function: &FnSpec) -> Table {
    let mut table = Table::new(&["EXPECTED RESULT", "WHO ASKS WHAT"], 2, 30).or_below();
    let is_its = |probe: &&Probe| probe.functions.iter().any(|id| id.spec().name() == function.name());
    for probe in PROBES.iter().filter(is_its) {
        table.row([results_of(probe), format!("{}: {}", callers_of(probe), probe.why)]);
    }
    table
}

fn results_of(probe: &Probe) -> String {
    probe.results.iter().map(|result| result.spec().short()).collect::<Vec<_>>().join(", ")
}

/// Returns a sentence about the callers for whom the failure of a probe is normal, and about the calls that they
/// must make next.
fn callers_of(probe: &Probe) -> String {
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
    CACHES.iter().filter(|_| rule.tells(Tells::ClosedLate))
}

fn sentence_of(rule: &RuleSpec) -> String {
    let unchecked = rule.unchecked().map(|reason| format!(" Not checked: {reason}."));
    rule.page().says.to_owned() + &unchecked.unwrap_or_default()
}

pub fn json() -> Value {
    RULES.iter().map(rule_json).collect()
}

fn rule_json(rule: &RuleSpec) -> Value {
    let some = |text: &'static str| (!text.is_empty()).then_some(text);
    json!({
        "rule": rule.name(),
        "says": rule.page().says,
        "functions": functions(rule),
        "results": rule.results().iter().map(|result| result.spec().name()).collect::<Vec<_>>(),
        "severity": rule.severity.word(),
        "scope": rule.scope.words(),
        "source": rule.basis().source(),
        "sentence": rule.basis().sentence(),
        "costs": rule.page().costs,
        "cause": some(rule.cause()),
        "ruled_out": some(rule.page().ruled_out),
        "hint": some(rule.hint()),
        "usual": rule.usual().map(|u| json!({"library": u.library, "why": u.why})).collect::<Vec<_>>(),
        "caches": caches_of(rule)
            .map(|cache| json!({"libraries": cache.libraries, "why": cache.why, "hint": cache.hint}))
            .collect::<Vec<_>>(),
        "seen": seen(rule).collect::<Vec<_>>(),
        "checked": rule.is_checked(),
        "unchecked_because": rule.unchecked(),
    })
}

pub fn explain(rule: &RuleSpec, width: usize) -> String {
    let mut facts = Table::new(&["", ""], 2, 30).or_below();
    for Fact { name, text, meaning } in facts_of(rule) {
        facts.row([name.into(), if meaning.is_empty() { text } else { format!("{text} ({meaning})") }]);
    }
    let says = wrap(rule.page().says, width).join("\n");
    format!("{}\n\n{says}\n\n{}", rule.name(), facts.render(width).trim_start())
}

/// A fact about a rule, as one line of the text.
struct Fact {
    /// Label of the fact.
    name: &'static str,
    text: String,
    /// Meaning of the label, explained once for all rules; empty if the label needs no explanation.
    meaning: &'static str,
}

/// Returns the known facts about a rule, in the order of the text.
fn facts_of(rule: &RuleSpec) -> Vec<Fact> {
    let results = rule.results().iter().map(|result| result.spec());
    let results: Vec<String> = results.map(|spec| format!("{} ({})", spec.name(), spec.number)).collect();
    let usual: Vec<String> =
        rule.usual().map(|u| format!("a note in calls of {}*: {}", u.library, u.why)).collect();
    let fact = |name, text: String| Fact { name, text, meaning: "" };
    let facts = [
        fact("Fix", rule.hint().into()),
        fact("Source", basis(&rule.basis())),
        fact("Effect", rule.page().costs.into()),
        Fact { name: "Severity", text: rule.severity.word().into(), meaning: severity(rule.severity) },
        Fact { name: "Scope", text: rule.scope.words().into(), meaning: scope(rule.scope) },
        fact("Functions", functions(rule).join(", ")),
        fact("Results", results.join(", ")),
        fact("Cause", rule.cause().into()),
        fact("Ruled out if", rule.page().ruled_out.into()),
        fact("Exceptions", usual.join("; ")),
        fact("Seen in", seen(rule).collect::<Vec<_>>().join(", ")),
        fact("Not checked", rule.unchecked().map(|reason| format!("{reason}.")).unwrap_or_default()),
    ];
    facts.into_iter().filter(|fact| !fact.text.is_empty()).collect()
}

fn functions(rule: &RuleSpec) -> Vec<&'static str> {
    rule.functions().iter().map(|id| id.spec().name()).collect()
}

fn seen(rule: &RuleSpec) -> impl Iterator<Item = &'static str> {
    rule.page().seen.split(", ").filter(|thread| !thread.is_empty())
}

fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "for information; correct programs do this, too",
        Severity::Warning => {
            "the program may work today, but the call has no effect, costs speed or memory, or can cause wrong data, a hang, or a later failure"
        }
        Severity::Error => "the call fails because of it, or its effect is undefined",
    }
}

fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Arguments | Scope::Call => {
            "decided from the call, and from driver queries about its arguments"
        }
        Scope::EarlierCall | Scope::Process => "also decided from what the process did before",
        Scope::CallElsewhere | Scope::Processes => "also decided from what other processes of the job did",
    }
}

/// Returns the source of a rule: the kind of source, and the sentence in it.
fn basis(basis: &Basis) -> String {
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
            let text = explain(rule, 100);
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
            for function in functions(rule) {
                assert!(flat.contains(function), "{function} is missing in\n{text}");
            }
        }
    }

    #[test]
    fn unknown_facts_have_no_line() {
        let names = |rule: Rule| facts_of(rule.spec()).into_iter().map(|fact| fact.name).collect::<Vec<_>>();
        assert!(
            names(Rule::IpcFlags).contains(&"Ruled out if") && !names(Rule::IpcFlags).contains(&"Seen in")
        );
        assert!(
            !names(Rule::PoolAccess).contains(&"Functions")
                && names(Rule::PoolAccess).contains(&"Not checked")
        );
        assert_eq!(names(Rule::IpcFlags)[0], "Fix");
    }
}
