//! The commands that README and the pages show with `target/demo-share`, or without a program, print what is shown there.
//! Ellipses stand for omitted text, and numbers may differ.

use crate::support::book::{Block, book, page};
use crate::support::{cupeer, temp_dir};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A command, and the lines that it is said to print.
struct Shown<'a> {
    command: &'a str,
    lines: Vec<&'a str>,
}

/// The commands of a block, if they run the demo or follow one that does.
fn shown<'a>(block: &Block<'a>) -> Vec<Shown<'a>> {
    let mut all: Vec<Shown> = Vec::new();
    for line in &block.lines {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push(Shown { command, lines: Vec::new() }),
            (None, Some(last)) => last.lines.push(line),
            (None, None) => {}
        }
    }
    all
}

/// A line of a finding without the place of its call. On a slow machine the line of source comes too late for it, and the
/// offset stands there; the lines after the run always have it.
fn without_place(line: &str) -> &str {
    let is_finding = line.starts_with("cupeer: ") && line.ends_with(']') || line.starts_with("    by: ");
    let end = line.find(" [process ").or_else(|| line.find(", thread ")).filter(|_| is_finding);
    end.map_or(line, |end| &line[..end])
}

/// A text without what differs between runs and terminals: numbers are 0, and white space is one space.
fn shape(text: &str) -> String {
    let text = &text.lines().map(without_place).collect::<Vec<_>>().join("\n");
    let is_number = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_digit())
            || word.len() > 7 && word.chars().all(|c| c.is_ascii_hexdigit())
    };
    let (mut shape, mut word) = (String::new(), String::new());
    for c in text.chars().chain([' ']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        shape += if is_number(&word) { "0" } else { &word };
        word.clear();
        shape.push(c);
    }
    // 12.5ms and 3us have one shape.
    shape.replace("0.0", "0").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The part of a shown text that a printed one lacks, where `...` stands for anything.
fn missing(printed: &str, shown: &str) -> Option<String> {
    let (printed, shown) = (shape(printed), shape(shown));
    let pieces: Vec<&str> = shown.split("...").collect();
    let (first, last) = (pieces[0].trim(), pieces[pieces.len() - 1].trim());
    let Some(mut rest) = printed.strip_prefix(first) else { return Some(first.to_owned()) };
    for piece in pieces[1..].iter().map(|piece| piece.trim()) {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return Some(piece.to_owned()),
        }
    }
    let is_open = pieces.len() > 1 && last.is_empty();
    (!is_open && !printed.ends_with(last)).then(|| format!("{last} at the end"))
}

/// Runs a command of a page in a folder with the demo, and returns what it prints.
fn run(folder: &Path, command: &str) -> String {
    let cupeer = cupeer();
    let bin = Path::new(cupeer.get_program()).parent().unwrap().display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-c", &format!("{command} 2>&1")])
        .current_dir(folder)
        .env_clear()
        .env("PATH", path)
        .env("HOME", folder)
        .output()
        .expect("bash");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn commands_with_the_demo_print_what_the_pages_show() {
    let program = crate::support::compile_c("../scripts/demo.d/share.c", &["-ldl"]);
    let simulator = page("docs/guides/simulator.md");
    let is_machine = |block: &&Block| block.lines.iter().any(|line| line.starts_with("data = "));
    let machine = simulator.parts().0.iter().find(is_machine).expect("a link").lines.join("\n");
    let (mut count, mut wrong) = (0, Vec::new());
    for page in book() {
        let mut last = None;
        for block in page.parts().0 {
            let all = shown(&block);
            let is_demo = |shown: &Shown| shown.command.contains("-- target/demo-share");
            // These need no program of their own, and a plan with a mistake starts none.
            let is_ours = |shown: &Shown| {
                let is_refused = shown.lines.iter().any(|line| line.starts_with("cupeer: --inject "));
                let known = ["cupeer report", "cupeer explain", "cupeer doctor --p2p"];
                is_demo(shown) || is_refused || known.iter().any(|known| shown.command.starts_with(known))
            };
            let folder = temp_dir();
            fs::write(folder.path().join("machine.toml"), &machine).unwrap();
            fs::create_dir(folder.path().join("target")).unwrap();
            fs::copy(&program, folder.path().join("target/demo-share")).unwrap();
            if all
                .first()
                .is_some_and(|first| first.command == "cupeer report" && page.name.ends_with("hang.md"))
            {
                run(folder.path(), "cupeer run --sim=none:2 -- target/demo-share");
            } else if all.first().is_some_and(|first| first.command == "cupeer report") {
                run(folder.path(), "cupeer run --sim -- target/demo-share early");
            }
            for shown in all.iter().filter(|shown| is_ours(shown)) {
                count += 1;
                let command = shown.command.split("  # ").next().unwrap();
                last = if is_demo(shown) { Some(command) } else { last };
                let printed = run(folder.path(), command);
                if let Some(part) = missing(&printed, &shown.lines.join("\n")) {
                    wrong.push(format!("{}: {command}\nlacks: {part}\nin:\n{printed}", page.name.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 14, "{count}");
}

#[test]
fn texts_are_compared_up_to_numbers_and_ellipses() {
    let missing = |printed: &str, shown: &str| missing(printed, shown).is_some();
    assert!(!missing("took 12.5ms in\n  0x7f", "took 3us in 0x12\n"));
    assert!(!missing("hint: Close it first.\nend", "hint: Close ...\nend"));
    assert!(missing("hint: Free it first.", "hint: Close ..."));
    let late =
        "cupeer: error x: it broke [process 7, demo+0x1f]\n    by: process 7, thread 7, demo+0x1f\nat a.c:3";
    let known = "cupeer: error x: it broke [process 8, a.c:3 in f]\n    by: process 8, thread 8, a.c:3 in f\nat a.c:3";
    assert!(!missing(late, known) && missing(late, &known.replace("broke", "failed")));
    assert!(missing(late, &known.replace("at a.c", "at b.c")));
    assert!(missing("a b c", "a c") && missing("a b c", "a b") && missing("a b c", "... b"));
    assert!(!missing("a b c", "a ... c") && !missing("a b c", "a ...") && missing("a b c", "b ..."));
}
