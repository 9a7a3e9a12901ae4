//! The commands, and the plans in them, that the README and the pages of `docs` show are ones that are taken.

#[path = "../../../tests/support/book.rs"]
mod book;

use crate::{Cli, Command};
use book::{Block, book};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use cupeer_spec::fault::FaultPlan;
use cupeer_spec::selector::FunctionSet;

/// The words of each command of ours in a line of a shell, also of one behind a launcher or in `$(...)`.
fn commands(line: &str) -> Vec<Vec<String>> {
    let is_start = |at: usize| line[..at].chars().next_back().is_none_or(|before| before == ' ' || before == '(');
    let starts = line.match_indices("cupeer ").map(|(at, _)| at).filter(|at| is_start(*at));
    // Commands in a comment are text.
    let starts = starts.filter(|at| !line[..*at].contains('#'));
    starts.map(|at| words(&line[at..], line[..at].ends_with('('))).collect()
}

/// The words up to where a shell ends the command.
fn words(text: &str, is_inner: bool) -> Vec<String> {
    let text = if is_inner { text.split(')').next().unwrap_or(text) } else { text };
    let words = shlex::split(text).unwrap_or_else(|| panic!("quotes that do not match: {text}"));
    let ends = |word: &String| ["|", "&", "&&"].contains(&word.as_str()) || word.starts_with('>');
    words.into_iter().take_while(|word| !ends(word)).collect()
}

/// The lines of a block in which somebody types: those behind a `$`, or all where there is none.
fn typed<'a>(block: &Block<'a>) -> Vec<&'a str> {
    let behind: Vec<&str> = block.lines.iter().filter_map(|line| line.strip_prefix("$ ")).collect();
    match block.language {
        "" | "sh" | "console" if behind.is_empty() => block.lines.clone(),
        "" | "sh" | "console" => behind,
        _ => Vec::new(),
    }
}

fn error(words: &[String]) -> Option<clap::Error> {
    Cli::try_parse_from(words).err()
}

#[test]
fn every_command_that_a_page_shows_is_taken() {
    let (mut commands_seen, mut plans_seen) = (0, 0);
    for page in book() {
        for block in page.parts().0 {
            // Some are shown because they are refused.
            let is_refused = block.lines.iter().any(|line| line.starts_with("cupeer: --inject "));
            for line in typed(&block) {
                for words in commands(line) {
                    commands_seen += 1;
                    let place = format!("{}: {line}", page.name.display());
                    let taken = Cli::try_parse_from(&words).unwrap_or_else(|error| panic!("{place}\n{error}"));
                    let Command::Run(args) = taken.command else { continue };
                    for plan in args.options.inject.inject {
                        assert_eq!(FaultPlan::parse("inject", &plan).is_err(), is_refused, "{place}");
                        plans_seen += 1;
                    }
                    if let Some(set) = args.options.trace {
                        FunctionSet::parse(&set).unwrap_or_else(|error| panic!("{place}\n{error}"));
                    }
                }
            }
        }
    }
    assert!(commands_seen > 50 && plans_seen > 15, "{commands_seen} {plans_seen}");
}

#[test]
fn every_example_of_a_help_is_taken() {
    let mut count = 0;
    for command in Cli::command().get_subcommands() {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in help.lines().filter(|line| line.starts_with("  ")) {
            for words in commands(line) {
                count += 1;
                Cli::try_parse_from(&words).unwrap_or_else(|error| panic!("{line}\n{error}"));
            }
        }
    }
    assert!(count > 30, "{count}");
}

/// The most characters of two lines of help on a terminal with 100 columns.
const TWO_LINES: usize = 2 * 89;

#[test]
fn the_help_of_an_option_is_two_lines() {
    let mut count = 0;
    for command in Cli::command().get_subcommands() {
        for option in command.get_arguments() {
            count += 1;
            let help = option.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.len() <= TWO_LINES, "{} --{}: {help}", command.get_name(), option.get_id());
            let is_verb_or_noun = help.starts_with(|c: char| c.is_uppercase() || c.is_ascii_digit());
            assert!(is_verb_or_noun && !help.starts_with("What "), "{}: {help}", option.get_id());
        }
    }
    assert!(count > 100, "{count}");
}

#[test]
fn every_plan_that_a_sentence_names_is_read() {
    let mut count = 0;
    let is_plan = |span: &&String| {
        span.starts_with(['@', 'c']) && !span.contains([' ', '(']) && span.contains(':') && span.contains('=')
    };
    for page in book() {
        for span in page.spans().1.iter().filter(is_plan) {
            count += 1;
            // Some only say which calls, and not what happens.
            let read = FaultPlan::parse("plan", span);
            let whole = || FaultPlan::parse("plan", &format!("{span}:delay=1ms"));
            assert!(read.is_ok() || whole().is_ok(), "{}: {span}: {}", page.name.display(), read.unwrap_err());
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn every_command_that_a_sentence_names_has_its_options() {
    let mut count = 0;
    for page in book() {
        for span in page.spans().1.iter().filter(|span| span.starts_with("cupeer ")) {
            count += 1;
            let span = span.trim_end_matches(" ...");
            // A sentence need not say all of it.
            let unknown = [ErrorKind::UnknownArgument, ErrorKind::InvalidSubcommand];
            let error = error(&words(span, false)).filter(|error| unknown.contains(&error.kind()));
            assert!(error.is_none(), "{}: {span}\n{}", page.name.display(), error.unwrap());
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn commands_are_found_where_a_shell_runs_them() {
    for (line, wanted) in [
        ("cupeer report DIR --leaks   # what was never closed", vec!["cupeer report DIR --leaks"]),
        ("mpirun -np 64 cupeer run -o r ./app", vec!["cupeer run -o r ./app"]),
        ("eval \"$(cupeer env --format sh)\"", vec!["cupeer env --format sh"]),
        ("cupeer report --format json | jq .handles", vec!["cupeer report --format json"]),
        ("cupeer run --ignore 'a b' -- x &", vec!["cupeer run --ignore a b -- x"]),
        ("cupeer: 2 processes; 'cupeer report r' shows them", vec![]),
        ("pytest   # cupeer run", vec![]),
    ] {
        assert_eq!(commands(line).iter().map(|words| words.join(" ")).collect::<Vec<_>>(), wanted, "{line}");
    }
    let wrong = |line: &str| error(&commands(line)[0]).is_some();
    assert!(wrong("cupeer run --no-such-option -- x") && wrong("cupeer jump") && wrong("cupeer run --log html x"));
}
