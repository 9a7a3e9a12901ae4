//! Mistakes in the command line: what is wrong, and which command was meant.

use crate::start::help::printable_help;
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use cupeer_console::output::{print, print_error, print_failure};
use cupeer_console::status;

/// Maximum number of letters that may be wrong, missing, or swapped.
const MOST_WRONG: usize = 2;

/// Prints what is wrong with the command line, or the help that it asks for. Returns the exit status.
pub fn print_usage_error(error: &clap::Error, cli: Command) -> u8 {
    if let Some(sentence) = unknown_command(error, &cli) {
        print_failure(&sentence);
        return status::CUPEER_FAILED;
    }
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            print(&printable_help(&text)).map_or_else(|error| print_error(&error), |_| 0)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let known = command_names(&cli).join(", ");
            print_failure(&format!("a subcommand is missing; the commands are {known}; see --help"));
            status::CUPEER_FAILED
        }
        _ => {
            let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
            // clap advises writing `--` before an unknown option, but that would make the option the program.
            let useless =
                |line: &str| line.is_empty() || line.starts_with("For more") || line.starts_with("tip: to pass");
            let words: Vec<&str> = lines.filter(|line| !useless(line)).collect();
            let sentence = words.join(" ").replace(" tip: ", "; ");
            let sentence = sentence.replace("invalid digit found in string", "it takes a number");
            let choices = possible_values(error, cli).unwrap_or_default();
            print_failure(&format!("{}{choices}; see --help", sentence.strip_prefix("error: ").unwrap_or(&sentence)));
            status::CUPEER_FAILED
        }
    }
}

/// Returns a sentence about an unknown command, with the commands that resemble it.
fn unknown_command(error: &clap::Error, cli: &Command) -> Option<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let known = command_names(cli);
    let meant = most_similar(name, known.iter().map(String::as_str));
    let hint = match &meant[..] {
        [] if is_program(name) => format!("to run a program, write 'cupeer run -- {name}'"),
        [] => format!("the commands are {}", known.join(", ")),
        meant => format!("did you mean {}?", meant.join(" or ")),
    };
    Some(format!("there is no command '{name}'; {hint}"))
}

/// Returns true if a word is a path, or the name of a program in PATH.
fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    name.contains('/') || !name.is_empty() && std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Returns the names of all commands.
fn command_names(cli: &Command) -> Vec<String> {
    let shown = cli.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| command.get_name().to_owned()).collect()
}

/// Returns the possible values of a missing argument, if there are only a few.
fn possible_values(error: &clap::Error, mut cli: Command) -> Option<String> {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return None };
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return None };
    let usage = usage.to_string();
    // An argument can be printed only after this.
    cli.build();
    let command = cli.find_subcommand(usage.split_whitespace().nth(2)?)?;
    let is_missing = |arg: &&clap::Arg| missing.contains(&arg.to_string());
    let values = command.get_arguments().filter(is_missing).flat_map(clap::Arg::get_possible_values);
    let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
    (!names.is_empty()).then(|| format!(" [possible values: {}]", names.join(", ")))
}

/// Returns the names that are most similar to a given name, quoted.
fn most_similar<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    // In a short word, fewer letters may be wrong.
    let most = MOST_WRONG.min(name.chars().count() / 2);
    let distances: Vec<(usize, &str)> =
        known.map(|known| (strsim::osa_distance(name, known), known)).filter(|(wrong, _)| *wrong <= most).collect();
    let least = distances.iter().map(|(wrong, _)| *wrong).min();
    let nearest = distances.iter().filter(|(wrong, _)| Some(*wrong) == least);
    nearest.map(|(_, known)| format!("'{known}'")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggestions_are_the_most_similar_names() {
        let known = ["run", "env", "list", "ls", "report", "release"];
        let of = |name: &str| most_similar(name, known.into_iter()).join(" ");
        let all = ["rnu", "ru", "lst", "reprot", "relase", "nope", "x", "", "python3"].map(of);
        assert_eq!(all, ["'run'", "'run'", "'list' 'ls'", "'report'", "'release'", "", "", "", ""]);
    }
}
