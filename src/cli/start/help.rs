//! The help as a terminal shows it: examples on lines of their own, and a short form for `-h`.

use clap::{Arg, Command};
use std::ffi::OsStr;

/// Non-breaking space, at which clap does not wrap a line.
const UNBROKEN: &str = "\u{a0}";
/// Texts that end the first clause of an argument's help.
const CLAUSE_ENDS: [&str; 6] = ["; ", ": ", ", as in ", " (", " [", ". "];

/// Returns the command line for the help: with only the most important options for `-h`.
pub fn help_command(cli: Command) -> Command {
    let mut words = std::env::args_os().take_while(|word| word != "--");
    let is_short = words.any(|word| word == OsStr::new("-h"));
    cli.mut_subcommands(|command| if is_short { shorten_help(command) } else { keep_examples_unwrapped(command) })
}

/// Returns the text of a help for printing: with normal spaces.
pub fn printable_help(help: &str) -> String {
    help.replace(UNBROKEN, " ")
}

/// Keeps clap from wrapping the lines of examples: a shell would execute the rest of a wrapped comment.
fn keep_examples_unwrapped(command: Command) -> Command {
    let Some(help) = command.get_after_help().map(ToString::to_string) else { return command };
    let line = |line: &str| if line.starts_with("  ") { line.replace(' ', UNBROKEN) } else { line.to_owned() };
    command.after_help(help.lines().map(line).collect::<Vec<_>>().join("\n"))
}

/// Removes the options that have neither a letter nor an example, and shortens the help of the others to its
/// first clause.
fn shorten_help(command: Command) -> Command {
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let is_shown = |arg: &Arg| {
        let is_in_examples = |name| examples.split([' ', '=']).any(|word| word.strip_prefix("--") == Some(name));
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
