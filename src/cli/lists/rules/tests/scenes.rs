//! The code of a rule's test program, wrong beside right: a difference between what it does when it breaks the rule and
//! when it keeps it. The programs are `tests/programs/rules`; each decides by its variable `bad`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/rules")
}

/// Returns the difference for a rule, as lines; `None` if it has no scene.
pub fn difference(rule: &str) -> Option<String> {
    let table = fs::read_to_string(folder().join("table.txt")).expect("the table of scenes");
    let mut rows = table.lines().filter(|line| !line.starts_with('#')).map(|line| line.split('|').map(str::trim));
    let program = rows.find_map(|mut row| if row.next() == Some(rule) { row.next() } else { None })?;
    let text = fs::read_to_string(folder().join(format!("{program}.c"))).expect("a program");
    let name = text.split_once("\nSCENES(")?.1.split_once(&format!("{{\"{rule}\", "))?.1.split('}').next()?;
    let functions = functions(&text);
    let mut lines = Vec::new();
    for (_, code) in used(&functions, name).iter().filter(|(_, code)| mentions(code, "bad")) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        lines.extend(compared(&of_a_side(code, true), &of_a_side(code, false)));
    }
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// The names and the code of the functions at the top of a file.
fn functions(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for (start, _) in text.match_indices("\nstatic ").map(|(at, line)| (at + 1, line)) {
        let code = &text[start..];
        let line = code.lines().next().unwrap_or_default();
        let end = if line.ends_with('}') { Some(line.len()) } else { code.find("\n}").map(|at| at + 2) };
        let (Some(end), Some(head)) = (end, line.split('(').next()) else { continue };
        if line.ends_with(['{', '}', ',']) && line.contains('(') {
            found.push((head.rsplit([' ', '*']).next().unwrap_or_default(), &code[..end]));
        }
    }
    found
}

fn mentions(code: &str, word: &str) -> bool {
    code.split(|c: char| !(c.is_alphanumeric() || c == '_')).any(|found| found == word)
}

/// The function of a name, after the functions that it uses, directly or not.
fn used<'a>(functions: &[(&'a str, &'a str)], name: &str) -> Vec<(&'a str, &'a str)> {
    let mut names = BTreeSet::from([name]);
    loop {
        let more = functions
            .iter()
            .filter(|(_, code)| functions.iter().any(|(of, code_of)| names.contains(of) && code_of == code));
        let next: BTreeSet<&str> = more
            .flat_map(|(_, code)| functions.iter().filter(|(other, _)| mentions(code, other)))
            .map(|(other, _)| *other)
            .chain(names.iter().copied())
            .collect();
        if next.len() == names.len() {
            return functions.iter().filter(|(of, _)| names.contains(of)).copied().collect();
        }
        names = next;
    }
}

/// The code with `bad` decided: the branches that are not taken are left out.
fn of_a_side(code: &str, bad: bool) -> Vec<String> {
    let mut text = code.to_owned();
    while let Some((at, taken, head)) = [("if (bad) ", bad), ("if (!bad) ", !bad)]
        .iter()
        .filter_map(|(head, taken)| text.find(head).map(|at| (at, *taken, head.len())))
        .min()
    {
        let end = at + head + statement(&text[at + head..]);
        let rest = &text[end..];
        let other = rest.trim_start().strip_prefix("else ").map(|tail| text.len() - tail.len());
        let other_end = other.map_or(end, |start| start + statement(&text[start..]));
        let kept = if taken { &text[at + head..end] } else { other.map_or("", |start| &text[start..other_end]) };
        let kept = kept.strip_prefix('{').and_then(|kept| kept.strip_suffix('}')).map_or(kept.to_owned(), |block| {
            block
                .lines()
                .map(|line| line.strip_prefix("    ").unwrap_or(line))
                .collect::<Vec<_>>()
                .join("\n")
                .trim()
                .to_owned()
        });
        text.replace_range(at..other_end, &kept);
    }
    for (question, chosen) in [("!bad ? ", !bad), ("bad ? ", bad)] {
        while let Some(at) = text.find(question) {
            let start = at + question.len();
            let middle = start + operand(&text[start..], " : ");
            let end = middle + 3 + operand(&text[middle + 3..], "");
            let kept = if chosen { text[start..middle].to_owned() } else { text[middle + 3..end].to_owned() };
            text.replace_range(at..end, &kept);
        }
    }
    text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
}

/// The length of the statement that a text begins with.
fn statement(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '(' | '{' => depth += 1,
            ')' => depth -= 1,
            '}' => depth -= 1,
            _ => {}
        }
        let is_end = depth == 0 && (c == ';' || c == '}' && text.starts_with('{'));
        if is_end {
            return at + 1;
        }
    }
    text.len()
}

/// The length of the operand that a text begins with: up to a separator, or to what ends an expression.
fn operand(text: &str, separator: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        if depth == 0 && (!separator.is_empty() && text[at..].starts_with(separator) || ",;)".contains(c)) {
            return at;
        }
        match c {
            '(' | '{' => depth += 1,
            ')' | '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// The lines of both, those of the wrong side alone behind `-` and those of the right side alone behind `+`.
fn compared(wrong: &[String], right: &[String]) -> Vec<String> {
    let mut longest = vec![vec![0; right.len() + 1]; wrong.len() + 1];
    for (i, line) in wrong.iter().enumerate().rev() {
        for (j, other) in right.iter().enumerate().rev() {
            longest[i][j] =
                if line == other { longest[i + 1][j + 1] + 1 } else { longest[i + 1][j].max(longest[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < wrong.len() || j < right.len() {
        if i < wrong.len() && j < right.len() && wrong[i] == right[j] {
            lines.push(format!("  {}", wrong[i]));
            (i, j) = (i + 1, j + 1);
        } else if i < wrong.len() && (j == right.len() || longest[i + 1][j] >= longest[i][j + 1]) {
            lines.push(format!("- {}", wrong[i]));
            i += 1;
        } else {
            lines.push(format!("+ {}", right[j]));
            j += 1;
        }
    }
    lines
}

#[test]
fn both_sides_of_a_scene_are_told_apart() {
    let code = "static void f(void) {\n    start(0);\n    if (bad) OK(a(1));\n    else b(2);\n    c(bad ? p + 1 : p, d);\n    if (!bad) {\n        e();\n        f();\n    }\n}";
    assert_eq!(
        of_a_side(code, true).join("\n"),
        "static void f(void) {\n    start(0);\n    OK(a(1));\n    c(p + 1, d);\n}"
    );
    assert_eq!(
        of_a_side(code, false).join("\n"),
        "static void f(void) {\n    start(0);\n    b(2);\n    c(p, d);\n    e();\n    f();\n}"
    );
    let lines = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(compared(&lines("a b c"), &lines("a d c")), ["  a", "- b", "+ d", "  c"]);
}

#[test]
fn every_checked_rule_with_a_scene_shows_what_is_wrong() {
    let shown = cupeer_rules::RULES.iter().filter(|rule| {
        let lines = difference(rule.name()).unwrap_or_default();
        lines.lines().any(|line| line.starts_with(['-', '+']))
    });
    assert!(shown.count() > 60);
}
