//! No text for users contains a phrase that the style guide in CONTRIBUTING.md bans.

use crate::support::book::{Page, book, page, root};
use crate::support::cupeer;
use std::fs;
use std::path::{Path, PathBuf};

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

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests") || path.ends_with("tests.rs")
}

/// The texts among the string literals of a source file, outside of its tests and comments.
fn literals(text: &str) -> String {
    let code = text.split("#[cfg(test)]\nmod").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//") && line.contains('"'));
    let texts = lines.flat_map(|line| line.split('"').skip(1).step_by(2));
    // What stands in braces is a name in the code.
    let named = |text: &str| {
        text.split('{').map(|part| part.rsplit('}').next().unwrap_or(part).to_owned()).collect::<String>()
    };
    texts.map(named).collect::<Vec<_>>().join("\n")
}

#[test]
fn no_message_has_a_banned_phrase() {
    let banned = banned();
    let sources = sources(&["rules", "report", "cli", "preload", "record", "export"]);
    assert!(sources.len() > 300, "{}", sources.len());
    let mut all = Vec::new();
    for (path, text) in sources {
        let found = found(&literals(&text), &banned);
        all.extend(found.into_iter().map(|phrase| format!("{}: {phrase}", path.display())));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// The source files of these folders of `src`, without tests.
fn sources(folders: &[&str]) -> Vec<(PathBuf, String)> {
    let mut folders: Vec<PathBuf> = folders.iter().map(|it| root().join("src").join(it)).collect();
    let mut sources = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") && !is_test(&entry) {
                let text = fs::read_to_string(&entry).unwrap();
                sources.push((entry, text));
            }
        }
    }
    sources
}

/// Words that start a sentence without a noun or a verb that names the module's subject.
const HEADLESS: [&str; 10] =
    ["What", "Who", "Whose", "Whoever", "Whether", "Which", "Where", "How", "When", "From"];

/// What is wrong with the comment at the start of a module.
fn wrong_head(text: &str, banned: &[String]) -> Option<String> {
    let lines = text.lines().map_while(|line| line.strip_prefix("//!"));
    let head = lines.map(str::trim).collect::<Vec<_>>().join("\n");
    let Some(first) = head.split_whitespace().next() else { return Some("no comment at its start".into()) };
    if HEADLESS.contains(&first) {
        return Some(format!("its comment starts with \"{first}\", not with a noun or a verb"));
    }
    let paragraphs = head.split('\n').filter(|line| line.starts_with("What belongs here"));
    let found = found(&head, banned);
    let paragraph = paragraphs.map(|_| "what belongs here").next();
    found.first().copied().or(paragraph).map(|phrase| format!("its comment has \"{phrase}\""))
}

#[test]
fn each_module_begins_with_what_it_tracks_or_does() {
    let banned = banned();
    let sources = sources(&["preload", "record", "report", "rules"]);
    assert!(sources.len() > 250, "{}", sources.len());
    let wrong = |(path, text): (PathBuf, String)| {
        Some(format!("{}: {}", path.display(), wrong_head(&text, &banned)?))
    };
    let all: Vec<String> = sources.into_iter().filter_map(wrong).collect();
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn a_poor_comment_at_the_start_of_a_module_is_found() {
    let banned = ["for ever".to_owned()];
    let wrong = |text: &str| wrong_head(text, &banned).is_some();
    assert!(!wrong("//! Tracks handles.\n\nmod a;\n//! What is this?"));
    assert!(wrong("mod a;"));
    assert!(wrong("//! What is open.\n"));
    assert!(wrong("//! Handles.\n//!\n//! What belongs here: handles.\n"));
    assert!(wrong("//! Handles, kept for\n//! ever.\n"));
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
