//! The commands that the README and the pages of `docs` show are ones that this command line takes.

#[path = "../../../tests/support/book.rs"]
mod book;

use super::Cli;
use book::{Block, book};
use clap::Parser;
use clap::error::ErrorKind;

/// The words of each command of ours in a line of a shell, also of one behind a launcher or in `$(...)`.
fn commands(line: &str) -> Vec<Vec<String>> {
    let is_start =
        |at: usize| line[..at].chars().next_back().is_none_or(|before| before == ' ' || before == '(');
    let starts = line.match_indices("cupeer ").map(|(at, _)| at).filter(|at| is_start(*at));
    // What stands in a comment is for people.
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
    Cli::try_parse_from(words).err().filter(|error| error.exit_code() != 0)
}

#[test]
fn every_command_that_a_page_shows_is_taken() {
    let mut count = 0;
    for page in book() {
        for line in page.parts().0.iter().flat_map(typed) {
            for words in commands(line) {
                count += 1;
                let error = error(&words);
                assert!(error.is_none(), "{}: {line}\n{}", page.name.display(), error.unwrap());
            }
        }
    }
    assert!(count > 50, "{count}");
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
    assert!(
        wrong("cupeer run --no-such-option -- x") && wrong("cupeer jump") && wrong("cupeer run --log html x")
    );
}
