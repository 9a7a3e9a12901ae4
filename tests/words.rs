//! No text for users contains a phrase that the style guide in CONTRIBUTING.md bans.

use crate::support::book::{Page, book, page};
use crate::support::cupeer;

const SECTION: &str = "\n### Banned phrases\n";

/// The banned phrases: the first column of the table in CONTRIBUTING.md.
fn banned() -> Vec<String> {
    let guide = page("CONTRIBUTING.md").text;
    let (_, section) = guide.split_once(SECTION).expect("the section");
    let section = section.split("\n## ").next().unwrap_or_default();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| ")).skip(1);
    let phrases = rows.filter(|row| !row.starts_with("---")).filter_map(|row| row.split(" | ").next());
    phrases.map(str::to_owned).collect()
}

/// The banned phrases that a text contains as whole words, however it wraps them.
fn found<'a>(text: &str, banned: &'a [String]) -> Vec<&'a str> {
    let words: Vec<String> = text
        .split(|c: char| !(c.is_alphanumeric() || "'_-".contains(c)))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let text = format!(" {} ", words.join(" "));
    banned.iter().map(String::as_str).filter(|phrase| text.contains(&format!(" {phrase} "))).collect()
}

/// The prose of a page: no blocks of code, and nothing between backticks.
fn prose(page: &Page) -> String {
    page.spans().0
}

#[test]
fn no_page_has_a_banned_phrase() {
    let banned = banned();
    assert!(banned.len() > 40, "{banned:?}");
    let mut pages = book();
    // Its sentences are those of findings.
    pages.retain(|page| !page.name.starts_with("docs/reference/rules") && !page.name.ends_with("rules.md"));
    let mut guide = page("CONTRIBUTING.md");
    let (before, section) = guide.text.split_once("\n## Style\n").expect("the style guide");
    let after = section.split_once("\n## ").expect("what follows it").1;
    guide.text = format!("{before}\n## {after}");
    pages.extend([guide, page("SECURITY.md")]);
    let all: Vec<String> = pages
        .iter()
        .flat_map(|page| {
            let found = found(&prose(page), &banned);
            found.into_iter().map(|phrase| format!("{}: {phrase}", page.name.display())).collect::<Vec<_>>()
        })
        .collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn no_help_has_a_banned_phrase() {
    let banned = banned();
    let help = |args: &[&str]| {
        let output = cupeer().args(args).arg("--help").output().expect("it runs");
        String::from_utf8(output.stdout).expect("help is text")
    };
    let main = help(&[]);
    let commands = main.split("Commands:\n").nth(1).expect("the commands");
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let names: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.contains(&"run") && names.len() > 10, "{names:?}");
    assert_eq!(found(&main, &banned), [""; 0]);
    for name in names.into_iter().filter(|name| *name != "help") {
        assert_eq!(found(&help(&[name]), &banned), [""; 0], "cupeer {name} --help");
    }
}

#[test]
fn banned_phrases_are_found_across_lines_and_case() {
    let banned = ["all the same".to_owned(), "alike".to_owned()];
    assert_eq!(found("It works All\n  the same.", &banned), ["all the same"]);
    assert_eq!(found("(alike), unalike", &banned), ["alike"]);
    assert_eq!(found("all of the same; likes", &banned), [""; 0]);
}
