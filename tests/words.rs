//! No text for users contains a phrase that the style guide in CONTRIBUTING.md bans.

use crate::support::book::{Page, book, page, root};
use crate::support::cupeer;
use cupeer_spec::function::FUNCTIONS;
use serde_json::Value;
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
    // The text between braces is a name in the code.
    let named =
        |text: &str| text.split('{').map(|part| part.rsplit('}').next().unwrap_or(part).to_owned()).collect::<String>();
    texts.map(named).collect::<Vec<_>>().join("\n")
}

#[test]
fn no_message_has_a_banned_phrase() {
    let banned = banned();
    let sources = sources(&[
        "rules",
        "report",
        "cli",
        "console",
        "recordings",
        "launch",
        "run",
        "why",
        "sweep",
        "top",
        "doctor",
        "preload",
        "record",
        "export",
        "spec",
        "stacks",
        "topology",
    ]);
    assert!(sources.len() > 350, "{}", sources.len());
    let mut all = Vec::new();
    for (path, text) in sources {
        let found = found(&literals(&text), &banned);
        all.extend(found.into_iter().map(|phrase| format!("{}: {phrase}", path.display())));
    }
    assert!(all.is_empty(), "{}", all.join("\n"));
}

/// The descriptions in a schema.
fn descriptions<'a>(schema: &'a Value, all: &mut Vec<&'a str>) {
    match schema {
        Value::Object(object) => {
            all.extend(object.get("description").and_then(Value::as_str));
            object.values().for_each(|value| descriptions(value, all));
        }
        Value::Array(array) => array.iter().for_each(|value| descriptions(value, all)),
        _ => {}
    }
}

#[test]
fn no_interface_has_a_banned_phrase() {
    let banned = banned();
    let schema = |path: &PathBuf| path.to_string_lossy().ends_with(".schema.json");
    let is_python = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "py");
    let in_folder = |name: &str| fs::read_dir(root().join(name)).unwrap().map(|entry| entry.unwrap().path());
    let schemas: Vec<PathBuf> = in_folder("docs").filter(schema).collect();
    let python: Vec<PathBuf> = in_folder("python/cupeer").filter(is_python).collect();
    assert!(schemas.len() >= 5 && !python.is_empty(), "{schemas:?} {python:?}");
    for path in &schemas {
        let schema: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let mut all = Vec::new();
        descriptions(&schema, &mut all);
        all.retain(|text| HEADLESS.contains(&text.split(' ').next().unwrap_or_default()));
        assert_eq!(all, [""; 0], "{}", path.display());
        assert!(schema["description"].as_str().unwrap().contains("Example: `cupeer "), "{}", path.display());
    }
    let header = root().join("include/cupeer.h");
    for path in schemas.iter().chain(&python).chain([&header]) {
        let text = fs::read_to_string(path).unwrap();
        assert_eq!(found(&text, &banned), [""; 0], "{}", path.display());
    }
}

/// A rule is a check for misuse; a line of a fault plan is a fault.
#[test]
fn messages_about_plans_name_faults_and_no_rules() {
    let rules = ["rule".to_owned(), "rules".to_owned()];
    let folders = ["spec/fault", "preload/fault", "cli/lists/faults", "launch/settings/inject"];
    for (path, text) in sources(&folders) {
        // A key of JSON or of plans is one word.
        let literals = literals(&text);
        let sentences = literals.lines().filter(|text| text.trim().contains(' ') && !text.contains("/rule"));
        let wrong: Vec<&str> = sentences.filter(|text| !found(text, &rules).is_empty()).collect();
        assert_eq!(wrong, [""; 0], "{}", path.display());
    }
}

/// The source files of these folders of `src`, without tests.
fn sources(folders: &[&str]) -> Vec<(PathBuf, String)> {
    let all = folders.iter().flat_map(|folder| rust_files(&root().join("src").join(folder)));
    all.filter(|(path, _)| !is_test(path)).collect()
}

/// All Rust files below a folder, with their texts.
fn rust_files(folder: &Path) -> Vec<(PathBuf, String)> {
    let mut folders = vec![folder.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
            } else if entry.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&entry).unwrap();
                files.push((entry, text));
            }
        }
    }
    files
}

/// Words that start a sentence without a noun or a verb that names the module's subject.
const HEADLESS: [&str; 10] = ["What", "Who", "Whose", "Whoever", "Whether", "Which", "Where", "How", "When", "From"];

/// Returns the mistake in the comment at the start of a module.
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
    let sources = sources(&["preload", "record", "report", "rules", "symbols"]);
    assert!(sources.len() > 250, "{}", sources.len());
    let wrong = |(path, text): (PathBuf, String)| Some(format!("{}: {}", path.display(), wrong_head(&text, &banned)?));
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

/// The files of a crate whose public items others can name: its public modules, and those that it exports items of.
fn public_files(file: &Path, files: &mut Vec<PathBuf>) {
    let text = fs::read_to_string(file).unwrap();
    let folder = file.parent().expect("a folder");
    let stem = file.file_stem().expect("a name");
    let folder = if stem == "lib" || stem == "mod" { folder.to_owned() } else { folder.join(stem) };
    files.push(file.to_owned());
    for statement in text.split(';') {
        let item = statement.split_once("\npub mod ").or_else(|| statement.split_once("\npub use "));
        let Some((_, item)) = item else { continue };
        let item: String = item.chars().filter(|c| !c.is_whitespace()).collect();
        let (path, names) = item.split_once("::{").unwrap_or((&item, ""));
        for name in names.trim_end_matches('}').split(',') {
            // For a path, take the module that contains its end.
            let (mut folder, mut found) = (folder.clone(), None);
            for part in path.split("::").chain([name]) {
                let places = [folder.join(format!("{part}.rs")), folder.join(part).join("mod.rs")];
                let Some(place) = places.into_iter().find(|place| place.is_file()) else { break };
                (found, folder) = (Some(place), folder.join(part));
            }
            if let Some(place) = found.filter(|place| !files.contains(place)) {
                public_files(&place, files);
            }
        }
    }
}

/// The public items of a file whose comments do not start with a noun or a verb.
fn wrong_comments(text: &str) -> Vec<String> {
    let is_public = |line: &str| line.trim_start().starts_with("pub ");
    let comment = |line: &str| line.trim_start().strip_prefix("///").map(|line| line.trim().to_owned());
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("#[")).collect();
    let starts = |i: &usize| comment(lines[*i]).is_some() && (*i == 0 || comment(lines[*i - 1]).is_none());
    let headless = [&HEADLESS[..], &["That", "Why", "Its", "It", "One"]].concat();
    let mut wrong = Vec::new();
    for i in (0..lines.len()).filter(starts) {
        let first = comment(lines[i]).unwrap_or_default();
        let item = lines[i..].iter().find(|line| comment(line).is_none()).copied().unwrap_or_default();
        let word = first.split(' ').next().unwrap_or_default();
        if is_public(item) && headless.contains(&word) {
            wrong.push(format!("{}: {first}", item.trim()));
        }
    }
    wrong
}

#[test]
fn comments_on_the_public_interface_start_with_a_noun_or_a_verb() {
    let mut files = Vec::new();
    for library in ["record", "report", "facts", "views", "symbols"] {
        public_files(&root().join("src").join(library).join("lib.rs"), &mut files);
    }
    assert!(files.len() > 45, "{files:?}");
    for file in files {
        assert_eq!(wrong_comments(&fs::read_to_string(&file).unwrap()), [""; 0], "{}", file.display());
    }
    let text = "/// What is open.\n#[inline]\npub fn a() {}\n/// Whether.\nfn b() {}\n/// Returns it.\npub fn c() {}\n";
    assert_eq!(wrong_comments(text), ["pub fn a() {}: What is open."]);
}

/// Words that no comment and no name of a test begins with.
const LEADING: [&str; 11] =
    ["What", "Whatever", "Who", "Whose", "Whoever", "Whom", "Which", "Of", "Where", "How", "Whether"];

/// The comments of a file, private ones too, and the names of its tests that begin with one of [`LEADING`].
fn leading(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let (mut last, mut is_test) = ("", false);
    for line in text.lines().map(str::trim) {
        let end = line.find(|c| c != '/' && c != '!').unwrap_or(line.len());
        let (marker, rest) = if line.starts_with("//") { line.split_at(end) } else { ("", line) };
        let first = rest.split_whitespace().next().unwrap_or_default().trim_end_matches(['.', ',', ':', '?']);
        if !marker.is_empty() && marker != last && LEADING.contains(&first) {
            wrong.push(line.to_owned());
        }
        last = marker;
        let name = rest.strip_prefix("fn ").filter(|_| is_test && marker.is_empty());
        is_test = line == "#[test]" || is_test && line.starts_with("#[");
        let word = name.and_then(|name| name.split(['_', '(']).next());
        if word.is_some_and(|word| LEADING.iter().any(|leading| leading.eq_ignore_ascii_case(word))) {
            wrong.push(line.to_owned());
        }
    }
    wrong
}

#[test]
fn comments_and_names_of_tests_start_with_their_subject() {
    let files = ["src", "tests"].iter().flat_map(|folder| rust_files(&root().join(folder)));
    // The comments on columns of tables are the text of a page.
    let files = files.filter(|(path, _)| !path.ends_with("export/tables.rs"));
    let name = |(path, text): (PathBuf, String)| {
        leading(&text).into_iter().map(move |line| format!("{}: {line}", path.display()))
    };
    let wrong: Vec<_> = files.flat_map(name).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn leading_words_are_found_in_private_comments_and_names_of_tests() {
    let text = "/// What is open.\nfn a() {}\n// A line.\n// Of two.\n\n    // Where it is.\n//! How.\n\
        #[test]\n#[ignore]\nfn who_calls() {}\nfn what() {}\n#[test]\nfn whole() {}\n";
    assert_eq!(leading(text), ["/// What is open.", "// Where it is.", "//! How.", "fn who_calls() {}"]);
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

/// The most words of a sentence, or of a part of it that ends with a colon or a semicolon. The guide asks for 25; the rest
/// is for names.
const MOST_WORDS: usize = 30;

/// The sentences of a page, also those of list items and cells of tables, without quotations and what is in parentheses.
fn sentences(text: &str) -> Vec<String> {
    let mut units = vec![String::new()];
    for line in text.lines().map(str::trim) {
        let (is_item, is_row) = (line.starts_with("- ") || line.starts_with("* "), line.starts_with('|'));
        if is_row {
            units.extend(line.split(" | ").map(str::to_owned));
            units.push(String::new());
        } else if line.starts_with('#') {
            units.extend([line.to_owned(), String::new()]);
        } else if is_item || line.is_empty() {
            units.push(format!("{line} "));
        } else if let Some(last) = units.last_mut() {
            *last += &format!("{line} ");
        }
    }
    let mut sentences = Vec::new();
    for unit in units {
        let quotes = unit.split('"').step_by(2).collect::<Vec<_>>().join("Q");
        let outside = |part: &str| part.split_once(')').map_or("", |(_, rest)| rest).to_owned();
        let mut parts = quotes.split('(');
        let first = parts.next().unwrap_or_default().to_owned();
        let text = parts.fold(first, |text, part| text + &outside(part));
        let ends = text.replace(". ", ";").replace(['!', ':'], ";").replace('?', "?;");
        let trimmed = |sentence: &str| sentence.trim_matches(['|', '-', '*', '#', ' ']).to_owned();
        sentences.extend(ends.split(';').map(trimmed));
    }
    sentences
}

#[test]
fn sentences_of_pages_are_short_and_have_a_subject() {
    // The names of functions are lists of any length.
    let is_function = |word: &str| FUNCTIONS.iter().any(|function| function.name() == word.trim_matches([',', '.']));
    let is_word = |word: &&str| word.contains(char::is_alphanumeric) && !is_function(word);
    let mut wrong = Vec::new();
    for page in book() {
        for sentence in sentences(&prose(&page)) {
            let name = page.name.display();
            let words = sentence.split_whitespace().filter(is_word).count();
            if words > MOST_WORDS {
                wrong.push(format!("{name}: {words} words: {sentence}"));
            }
            let first = sentence.split(' ').next().unwrap_or_default();
            if ["What", "Whatever", "Who", "Whoever", "Whose"].contains(&first) && !sentence.ends_with('?') {
                wrong.push(format!("{name}: starts with \"{first}\", not with a subject: {sentence}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn sentences_end_where_readers_rest() {
    let text = "# Head\nOne, two (and\nmore). Three; four: five? Two!\n\n- six\n  seven\n- eight \"a. b\"\n| nine | ten. Eleven |\n";
    let sentences: Vec<_> = sentences(text).into_iter().filter(|sentence| !sentence.is_empty()).collect();
    let wanted = ["Head", "One, two", "Three", "four", "five?", "Two", "six seven", "eight Q", "nine", "ten", "Eleven"];
    assert_eq!(sentences, wanted);
}

#[test]
fn banned_phrases_are_found_across_lines_and_case() {
    let banned = ["all the same".to_owned(), "alike".to_owned()];
    assert_eq!(found("It works All\n  the same.", &banned), ["all the same"]);
    assert_eq!(found("(alike), unalike", &banned), ["alike"]);
    assert_eq!(found("all of the same; likes", &banned), [""; 0]);
}
