//! `docs/reference/rules.md` and the pages in the folder beside it: the rules by family, and why calls fail. `scripts/docs`
//! writes them, and a test here fails if one is stale.

use super::{Fact, facts_of, scenes, scope, severity, threads, why};
use crate::markdown::escaped;
use cupeer_rules::{FAMILIES, Family, RULES, RuleSpec, Scope, Severity};
use cupeer_spec::results::RESULTS;
use std::fs;
use std::path::Path;

const HEAD: &str = "<!-- Made by scripts/docs from src/rules and tests/programs/rules. Do not edit. -->\n";

/// The pages, each with its path below `docs/reference`.
fn pages() -> Vec<(String, String)> {
    let mut pages = vec![("rules.md".to_owned(), index()), ("rules/causes.md".to_owned(), causes())];
    pages.extend(FAMILIES.iter().map(|family| (format!("rules/{}.md", family.name), page(family))));
    pages
}

fn index() -> String {
    let mut text = format!(
        "{HEAD}# Rules\n\n`cupeer run` checks these rules during the run, and `cupeer report` finds violations in a recording. \
         `cupeer explain RULE` prints what the page of a rule contains. [Why calls fail](rules/causes.md) lists the causes of \
         each result.\n\n\
         | severity | meaning |\n| --- | --- |\n"
    );
    for known in Severity::ALL.iter().rev() {
        text += &format!("| {} | {} |\n", known.word(), severity(*known));
    }
    text += "\n| scope | meaning |\n| --- | --- |\n";
    for known in [Scope::Call, Scope::Process, Scope::Processes] {
        text += &format!("| {} | {} |\n", known.words(), scope(known));
    }
    text += "\n**Source** is where a rule comes from: the driver's documentation (cuda.h of CUDA 13), the observed behavior of a \
             driver, or practice: problems that users reported. **Effect** is what happens to a program that breaks the rule. \
             The lines of code are from cupeer's test programs: `-` is only in the program that breaks the rule, `+` only in \
             the correct one. `CALL` makes a call and prints its result, and `OK` makes a call that must succeed.\n";
    for family in FAMILIES {
        text +=
            &format!("\n## {}\n\n| rule | severity | scope | |\n| --- | --- | --- | --- |\n", family.title);
        for rule in of(family) {
            let (severity, scope) = (rule.severity.word(), rule.scope.words());
            let unchecked = if rule.is_checked() { "" } else { " (not checked)" };
            text += &format!(
                "| {} | {severity} | {scope} | {}{unchecked} |\n",
                link(rule, "rules/"),
                escaped(rule.says)
            );
        }
    }
    text
}

fn of(family: &'static Family) -> impl Iterator<Item = &'static RuleSpec> {
    RULES.iter().filter(move |rule| rule.family() == family)
}

fn page(family: &'static Family) -> String {
    let mut text =
        format!("{HEAD}# {}\n\n[Rules](../rules.md) explains severity, scope, and the code.\n", family.title);
    of(family).for_each(|rule| text += &section(rule));
    text
}

fn section(rule: &RuleSpec) -> String {
    let mut text = format!("\n## {}\n\n{}\n\n", rule.name, escaped(rule.says));
    for Fact { name, text: fact, .. } in facts_of(rule) {
        let fact = if name == "Seen in" { linked(&fact) } else { escaped(&fact) };
        text += &format!("- **{name}**: {fact}\n");
    }
    match scenes::difference(rule.name) {
        Some(lines) => text + &format!("\n```diff\n{lines}\n```\n"),
        None => text,
    }
}

fn linked(seen: &str) -> String {
    let link = |thread| threads::url(thread).map_or(escaped(thread), |url| format!("[{thread}]({url})"));
    seen.split(", ").map(link).collect::<Vec<_>>().join(", ")
}

fn causes() -> String {
    let mut text =
        format!("{HEAD}# Why calls fail\n\n`cupeer explain RESULT` prints the causes of one result.\n");
    for result in RESULTS {
        let all = why(result);
        if !all.is_empty() {
            text += &format!("\n## {}\n", result.name());
        }
        for why in all {
            text += &format!("\n{}\n\n", why.subject());
            for (rule, cause) in &why.causes {
                let rule = rule.map(|rule| format!(" ({})", link(rule, ""))).unwrap_or_default();
                text += &format!("- {}{rule}\n", escaped(cause));
            }
        }
    }
    text
}

fn link(rule: &RuleSpec, folder: &str) -> String {
    format!("[{0}]({folder}{1}.md#{0})", rule.name, rule.family().name)
}

#[test]
fn page_of_each_family_of_rules_is_current() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference");
    for (name, made) in pages() {
        let path = folder.join(name);
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, &made).unwrap();
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(there == made, "{} is stale: run scripts/docs", path.display());
    }
    let names = fs::read_dir(folder.join("rules")).unwrap().count();
    assert_eq!(names, pages().len() - 1, "there are pages of no family");
}
