//! The help as a terminal shows it: examples on lines of their own, and a short form for `-h`.

use clap::{Arg, Command};
use std::ffi::OsStr;

/// A space at which clap does not break a line.
const UNBROKEN: &str = "\u{a0}";
/// Ends of the first clause of a help.
const CLAUSE_ENDS: [&str; 6] = ["; ", ": ", ", as in ", " (", " [", ". "];

/// Returns the command line as the help shows it: for `-h`, with only the most important options.
pub fn shown(cli: Command) -> Command {
    let mut words = std::env::args_os().take_while(|word| word != "--");
    let is_short = words.any(|word| word == OsStr::new("-h"));
    cli.mut_subcommands(|command| if is_short { short(command) } else { with_examples(command) })
}

/// Returns a help as it is printed.
pub fn printed(help: &str) -> String {
    help.replace(UNBROKEN, " ")
}

/// Keeps clap from breaking the lines of examples: a shell would run the end of a comment.
fn with_examples(command: Command) -> Command {
    let Some(help) = command.get_after_help().map(ToString::to_string) else { return command };
    let line =
        |line: &str| if line.starts_with("  ") { line.replace(' ', UNBROKEN) } else { line.to_owned() };
    command.after_help(help.lines().map(line).collect::<Vec<_>>().join("\n"))
}

/// Leaves out what has neither a letter nor an example, and of the help of the others all but the first clause.
fn short(command: Command) -> Command {
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let is_shown = |arg: &Arg| {
        let is_in_examples =
            |name| examples.split([' ', '=']).any(|word| word.strip_prefix("--") == Some(name));
        arg.is_positional() || arg.get_short().is_some() || arg.get_long().is_some_and(is_in_examples)
    };
    let name = command.get_name().to_owned();
    command
        .mut_args(|arg| {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let end = CLAUSE_ENDS.iter().filter_map(|end| help.find(end)).min().unwrap_or(help.len());
            let is_hidden = !is_shown(&arg);
            arg.help(help[..end].to_owned()).help_heading(None::<&str>).hide(is_hidden)
        })
        .after_help(format!("All options, with examples: cupeer {name} --help"))
}
