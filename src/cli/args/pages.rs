//! `docs/reference/commands.md`, and a page for each command in the folder beside it, generated from their help.
//! `scripts/docs` writes them, and a test here fails if one is stale.

use super::Cli;
use crate::markdown::escaped;
use clap::builder::{PossibleValue, StyledStr};
use clap::{Arg, Command, CommandFactory};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const HEAD: &str =
    "<!-- Made by scripts/docs from the help of the command, src/cli/args.rs. Do not edit. -->\n";

/// The pages of `docs` that show a command at work.
const SHOWN_IN: &[(&str, &[&str])] = &[
    (
        "run",
        &[
            "guides/hang",
            "guides/misuse",
            "guides/ci",
            "guides/fallbacks",
            "guides/simulator",
            "guides/launchers",
        ],
    ),
    ("env", &["guides/launchers", "guides/machine"]),
    ("list", &["reference/results"]),
    ("explain", &["reference/results"]),
    ("report", &["guides/hang", "reference/report", "guides/large-jobs"]),
    ("top", &["guides/watch"]),
    ("ls", &["reference/recording"]),
    ("clean", &["reference/recording"]),
    ("pack", &["guides/hang", "concepts/privacy"]),
    ("reduce", &["guides/large-jobs"]),
    ("export", &["guides/large-jobs", "reference/tables"]),
    ("release", &["start/tutorial", "reference/plans"]),
    ("sweep", &["guides/fallbacks"]),
    ("doctor", &["guides/machine", "help/troubleshooting"]),
];

/// The page that lists all commands.
fn index(commands: &[Command]) -> String {
    let mut text = format!(
        "{HEAD}# Command line\n\nThe page of a command shows what its `--help` prints.\n\n\
         | command | purpose |\n| --- | --- |\n"
    );
    for command in commands {
        let (name, about) = (command.get_name(), escaped(&plain(command.get_about())));
        text += &format!("| [cupeer {name}](commands/{name}.md) | {about} |\n");
    }
    text
}

/// The page of one command.
fn page(command: &Command) -> String {
    let mut text =
        format!("{HEAD}# cupeer {}\n\n{}.\n", command.get_name(), escaped(&plain(command.get_about())));
    let usage = command.clone().bin_name(format!("cupeer {}", command.get_name())).render_usage().to_string();
    text += &format!("\n```text\n{}\n```\n", usage.trim_start_matches("Usage: "));
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.get_id() != "help");
    let (arguments, options): (Vec<_>, Vec<_>) = shown().partition(|arg| arg.is_positional());
    text += &table("argument", &arguments);
    let mut headings = vec![None];
    for heading in options.iter().map(|arg| arg.get_help_heading()) {
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let of_it: Vec<_> = options.iter().copied().filter(|arg| arg.get_help_heading() == heading).collect();
        text += &heading.map(|heading| format!("\n## {heading}\n")).unwrap_or_default();
        text += &table("option", &of_it);
    }
    text + &after(&plain(command.get_after_help())) + &shown_in(command.get_name())
}

fn table(head: &str, args: &[&Arg]) -> String {
    if args.is_empty() {
        return String::new();
    }
    let rows: String = args.iter().map(|arg| row(arg)).collect();
    format!("\n| {head} | meaning |\n| --- | --- |\n{rows}")
}

/// Links to the pages that show it at work, by their titles.
fn shown_in(command: &str) -> String {
    let pages = SHOWN_IN.iter().find(|(name, _)| *name == command).expect("a line in SHOWN_IN").1;
    let links = pages.iter().map(|page| {
        let path = docs().join(format!("{page}.md"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let title = text.lines().find_map(|line| line.strip_prefix("# ")).expect("a title");
        format!("[{title}](../../{page}.md)")
    });
    format!("\nSee also: {}.\n", links.collect::<Vec<_>>().join(", "))
}

fn plain(text: Option<&StyledStr>) -> String {
    text.map(ToString::to_string).unwrap_or_default()
}

/// One row of a table: `--check[=<LEVEL>]`, and what the help says of it.
fn row(arg: &Arg) -> String {
    let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
    let mut meaning = escaped(&plain(arg.get_help()));
    // A flag has values and a default, too, which nobody writes.
    if arg.get_action().takes_values() {
        let defaults: Vec<_> = arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
        if !defaults.is_empty() {
            meaning += &format!(" [default: {}]", escaped(&defaults.join(" ")));
        }
        let values = arg.get_possible_values();
        meaning.extend(values.iter().filter(|value| !value.is_hide_set()).map(of_value));
    }
    format!("| {short}`{}` | {meaning} |\n", arg.to_string().replace('|', "\\|"))
}

/// `. `errors`: What makes a call fail`
fn of_value(value: &PossibleValue) -> String {
    let help = value.get_help().map(|help| format!(": {}", escaped(&help.to_string()))).unwrap_or_default();
    format!(". `{}`{help}", value.get_name())
}

/// What stands after the options: lines that begin with spaces are commands, others are paragraphs.
fn after(help: &str) -> String {
    let mut text = String::new();
    let mut is_code = false;
    for line in help.lines().filter(|line| !line.is_empty()) {
        let code = line.strip_prefix("  ");
        if code.is_some() != is_code {
            text += if is_code { "```\n" } else { "\n```sh\n" };
            is_code = !is_code;
        }
        text += &code.map_or_else(|| format!("\n{}\n", escaped(line)), |code| format!("{code}\n"));
    }
    if is_code { text + "```\n" } else { text }
}

fn commands() -> Vec<Command> {
    let mut cli = Cli::command();
    cli.build();
    cli.get_subcommands()
        .filter(|command| !command.is_hide_set() && command.get_name() != "help")
        .cloned()
        .collect()
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs")
}

#[test]
fn page_of_each_command_is_current() {
    let folder = docs().join("reference/commands");
    let mut pages = vec![(folder.with_extension("md"), index(&commands()))];
    pages.extend(commands().iter().map(|it| (folder.join(format!("{}.md", it.get_name())), page(it))));
    for (path, made) in pages {
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::create_dir_all(&folder).unwrap();
            fs::write(&path, &made).unwrap();
        }
        let there = fs::read_to_string(&path).unwrap_or_default();
        assert!(there == made, "{} is stale: run scripts/docs", path.display());
    }
}

#[test]
fn there_are_pages_of_no_other_commands() {
    let pages = fs::read_dir(docs().join("reference/commands"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let expected =
        commands().iter().map(|command| format!("{}.md", command.get_name())).collect::<BTreeSet<_>>();
    assert_eq!(pages.collect::<BTreeSet<_>>(), expected);
}

#[test]
fn a_page_has_what_the_help_has() {
    let commands = commands();
    let of = |name| page(commands.iter().find(|command| command.get_name() == name).unwrap());
    let run = of("run");
    assert!(run.contains("\n```text\ncupeer run [OPTIONS] <PROGRAM> [ARGS]...\n```\n"), "{run}");
    assert!(run.contains("\n| `-o`, `--out <DIR>` | Record into DIR; "), "{run}");
    assert!(run.contains("\n| `--check[=<LEVEL>]` | "), "{run}");
    assert!(
        run.contains(r" `cuIpcOpenMemHandle*:error=MAP_FAILED`") || run.contains(r"cuIpcOpenMemHandle\*:"),
        "{run}"
    );
    let list = of("list");
    assert!(list.contains(" [default: text]. `text`: A table ") && !list.contains("markdown"), "{list}");
    assert!(of("report").contains("\n```sh\ncupeer report  "), "{}", of("report"));
}
