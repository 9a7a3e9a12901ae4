//! The README and the pages of `docs` promise what there is, lead where they say, and forget nothing that scripts rely on.

mod transcripts;

use crate::support::book::{Page, SIDEBAR, book, page, root};
use crate::support::{self, current_page};
use cupeer_spec::env::{TRACE, VARIABLES};
use cupeer_spec::function::Group;
use cupeer_spec::selector::FunctionSet;
use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};

fn help(command: &str) -> String {
    let help = support::cupeer().args([command, "-h"]).output().expect("it runs");
    String::from_utf8(help.stdout).expect("help is text")
}

#[test]
fn every_variable_group_and_option_is_described() {
    let variables = page("docs/reference/variables.md").text;
    for variable in VARIABLES {
        assert!(variables.contains(&format!("`{}`", variable.name)), "{}", variable.name);
    }
    let log = page("docs/reference/recording.md").text;
    for (_, name, _) in Group::ALL {
        assert!(log.contains(&format!("`@{name}`")), "@{name}");
    }
    let (help, run) = (help("run"), page("docs/reference/commands/run.md").text);
    let options: Vec<&str> = help.split_whitespace().filter(|word| word.starts_with("--")).collect();
    assert!(options.len() > 5, "{help}");
    for option in options {
        let name = option.trim_end_matches([']', ',', '.']).split(['=', '[']).next().unwrap_or_default();
        assert!(name == "--help" || run.contains(name), "{name}");
    }
}

#[test]
fn the_default_set_is_the_same_everywhere() {
    let set = FunctionSet::DEFAULT;
    assert!(page("docs/reference/recording.md").text.contains(&format!("default `{set}`")), "{set}");
    let trace = VARIABLES.iter().find(|variable| variable.name == TRACE).expect("it is one");
    assert!(trace.doc.ends_with(&format!("Default: {set}.")), "{}", trace.doc);
    for command in ["run", "env"] {
        // Its lines are wrapped.
        let help = help(command).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(help.contains(&format!("[default: {set}]")), "{help}");
    }
}

/// A run with an option that names a file, which is the example of a page.
fn run_with(option: &str, example: &str) -> (bool, String) {
    let example = page(example);
    let (blocks, _) = example.parts();
    let file = blocks.iter().find(|block| block.language == "toml").expect("an example");
    let folder = support::temp_dir();
    let path = folder.path().join("example.toml");
    std::fs::write(&path, file.lines.join("\n")).expect("a file");
    let mut command = support::cupeer();
    let run = command.arg("run").arg(format!("{option}={}", path.display())).args(["--", "true"]).output();
    let run = run.expect("it runs");
    (run.status.success(), String::from_utf8_lossy(&run.stderr).into_owned())
}

#[test]
fn the_files_of_examples_are_read() {
    for (option, example) in [("--sim", "docs/guides/simulator.md"), ("--suppressions", "docs/guides/ci.md")]
    {
        let (is_read, said) = run_with(option, example);
        assert!(is_read, "{said}");
    }
    assert!(!run_with("--suppressions", "docs/guides/simulator.md").0, "a machine is no suppression");
}

#[test]
fn page_of_variables_is_current() {
    current_page("reference/variables", "environment");
}

#[test]
fn the_readme_is_short() {
    let lines = page("README.md").text.lines().count();
    assert!(lines <= 150, "README.md has {lines} lines: what is reference belongs in docs/");
}

#[test]
fn every_page_begins_with_its_title() {
    for page in book() {
        let first = page.text.lines().find(|line| !line.starts_with("<!-- Made by scripts/docs "));
        assert!(first.is_some_and(|line| line.starts_with("# ")), "{}: {first:?}", page.name.display());
    }
}

/// What people read: the book, and what stands beside the README.
fn all_pages() -> Vec<Page> {
    let mut pages = book();
    pages.extend(["CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", SIDEBAR].map(page));
    pages
}

#[test]
fn every_script_that_a_page_names_is_there() {
    // The change log also names what was.
    for page in all_pages().iter().filter(|page| page.name != Path::new("CHANGELOG.md")) {
        for word in page.text.split(|c: char| c.is_whitespace() || "`()".contains(c)) {
            if let Some(script) = word.strip_prefix("scripts/") {
                let script = script.trim_end_matches(['.', ',', ':', ';']);
                assert!(
                    root().join("scripts").join(script).exists(),
                    "{}: scripts/{script}",
                    page.name.display()
                );
            }
        }
    }
}

#[test]
fn every_link_leads_somewhere() {
    let broken: Vec<String> = all_pages().iter().flat_map(broken).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_page_can_be_reached_from_the_table_of_contents() {
    let contents = PathBuf::from("docs/README.md");
    assert!(targets(&page("README.md")).contains(&contents), "README.md does not lead to docs/README.md");
    let pages: HashMap<PathBuf, Page> = book().into_iter().map(|page| (page.name.clone(), page)).collect();
    let (mut seen, mut next) = (BTreeSet::new(), vec![contents]);
    while let Some(name) = next.pop() {
        if let Some(page) = pages.get(&name).filter(|page| page.name.starts_with("docs"))
            && seen.insert(name)
        {
            next.extend(targets(page));
        }
    }
    let unreached: Vec<_> =
        pages.keys().filter(|name| name.starts_with("docs") && !seen.contains(*name)).collect();
    assert!(unreached.is_empty(), "no page leads to {unreached:?}");
}

#[test]
fn the_sidebar_lists_every_page_once() {
    let mut listed = targets(&page(SIDEBAR));
    listed.sort();
    let mut pages: Vec<_> = book().into_iter().map(|page| page.name).collect();
    pages.retain(|name| name.starts_with("docs"));
    pages.sort();
    assert_eq!(listed, pages);
}

/// The links of a page as they are written.
fn links(page: &Page) -> Vec<String> {
    let (text, _) = page.spans();
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next().map(str::to_owned)).collect()
}

/// A link's path, from the root of the repository, and its anchor. None where it leads to another site.
fn target(page: &Page, link: &str) -> Option<(PathBuf, String)> {
    if link.starts_with("https://") {
        return None;
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    if path.is_empty() {
        return Some((page.name.clone(), anchor.to_owned()));
    }
    let mut found = page.name.parent().expect("a folder").to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir if found.pop() => {}
            // `..` from the root leads out of it, and so does `/`.
            Component::ParentDir | Component::RootDir => {
                return Some((PathBuf::from("/outside"), String::new()));
            }
            part => found.push(part),
        }
    }
    Some((found, anchor.to_owned()))
}

fn targets(page: &Page) -> Vec<PathBuf> {
    links(page).iter().filter_map(|link| target(page, link)).map(|(path, _)| path).collect()
}

/// The links of a page that lead nowhere, each with the page.
fn broken(from: &Page) -> Vec<String> {
    let leads = |link: &String| {
        let Some((path, anchor)) = target(from, link) else { return true };
        let is_there = path == from.name || root().join(&path).exists();
        let text = || if path == from.name { from.text.clone() } else { page(&path).text };
        is_there && (anchor.is_empty() || anchors(&text()).contains(&anchor))
    };
    let broken = links(from).into_iter().filter(|link| !leads(link));
    broken.map(|link| format!("{}: ({link}) leads nowhere", from.name.display())).collect()
}

/// The anchors that GitHub gives to the headings of a page.
fn anchors(text: &str) -> BTreeSet<String> {
    let page = Page { name: PathBuf::new(), text: text.to_owned() };
    let mut anchors = BTreeSet::new();
    for heading in page.parts().1.iter().filter(|line| line.starts_with('#')) {
        let slug = slug(heading.trim_start_matches('#').trim());
        let mut again = (1..).map(|n| format!("{slug}-{n}"));
        let name = if anchors.contains(&slug) { again.find(|name| !anchors.contains(name)) } else { None };
        anchors.insert(name.unwrap_or(slug));
    }
    anchors
}

/// Lower case, hyphens for spaces, and nothing for punctuation.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    kept.map(|c| if c == ' ' { '-' } else { c }).flat_map(char::to_lowercase).collect()
}

#[test]
fn links_that_lead_nowhere_are_found() {
    let text = "# A `page`, and more\n## Again\n## Again\n\
                [ok](#a-page-and-more) [ok](#again-1) [ok](../../README.md) [ok](commands/run.md)\n\
                [ok](https://example.org/x) [`code`](rules/ipc.md#ipc-flags) `[no](link)`\n\
                ```\n# no-heading\n[no](link)\n```\n";
    let at = |text: &str| broken(&Page { name: "docs/reference/x.md".into(), text: text.to_owned() });
    assert_eq!(at(text), [""; 0]);
    for wrong in
        ["#again-2", "#no-heading", "README.html", "rules.md#no-rule", "../../../cupeer", "/README.md"]
    {
        let text = format!("{text}[`a\nb`]({wrong})\n");
        assert_eq!(at(&text), [format!("docs/reference/x.md: ({wrong}) leads nowhere")]);
    }
}
