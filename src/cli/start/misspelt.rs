//! Mistakes in the command line: what is wrong, and which command was meant.

use crate::start::args::Cli;
use crate::start::help::printed;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use cupeer_console::output::{fail, failed, print};
use cupeer_console::status;

/// How many letters may be wrong, missing or in another order.
const MOST_WRONG: usize = 2;

/// Says what is wrong with the command line, or prints the help that it asks for; returns the status.
pub fn usage(error: &clap::Error) -> u8 {
    if let Some(sentence) = command(error) {
        fail(&sentence);
        return status::OURS;
    }
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            print(&printed(&text)).map_or_else(|error| failed(&error), |_| 0)
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let known = commands().join(", ");
            fail(&format!("a subcommand is missing; the commands are {known}; see --help"));
            status::OURS
        }
        _ => {
            let lines = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
            // The advice to write `--` before an unknown option would make it the program.
            let useless = |line: &str| {
                line.is_empty() || line.starts_with("For more") || line.starts_with("tip: to pass")
            };
            let words: Vec<&str> = lines.filter(|line| !useless(line)).collect();
            let sentence = words.join(" ").replace(" tip: ", "; ");
            let sentence = sentence.replace("invalid digit found in string", "it takes a number");
            let choices = choices(error).unwrap_or_default();
            fail(&format!("{}{choices}; see --help", sentence.strip_prefix("error: ").unwrap_or(&sentence)));
            status::OURS
        }
    }
}

/// What is wrong with a command that is none, and which are like it.
fn command(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let known = commands();
    let meant = like(name, known.iter().map(String::as_str));
    let hint = match &meant[..] {
        [] if is_program(name) => format!("to run a program, write 'cupeer run -- {name}'"),
        [] => format!("the commands are {}", known.join(", ")),
        meant => format!("did you mean {}?", meant.join(" or ")),
    };
    Some(format!("there is no command '{name}'; {hint}"))
}

/// Whether a word is that of a program, as strace takes one.
fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    name.contains('/')
        || !name.is_empty() && std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// The names of the commands.
fn commands() -> Vec<String> {
    let all = Cli::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set());
    shown.map(|command| command.get_name().to_owned()).collect()
}

/// What an argument that is missing takes, where it is one of a few words.
fn choices(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return None };
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return None };
    let usage = usage.to_string();
    let mut all = Cli::command();
    // Until then an argument cannot be printed.
    all.build();
    let command = all.find_subcommand(usage.split_whitespace().nth(2)?)?;
    let is_missing = |arg: &&clap::Arg| missing.contains(&arg.to_string());
    let values = command.get_arguments().filter(is_missing).flat_map(clap::Arg::get_possible_values);
    let names: Vec<String> = values.map(|value| value.get_name().to_owned()).collect();
    (!names.is_empty()).then(|| format!(" [possible values: {}]", names.join(", ")))
}

/// Those of the names that are most like another, quoted.
fn like<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    // Of a short word, few letters are enough to make another.
    let most = MOST_WRONG.min(name.chars().count() / 2);
    let distances: Vec<(usize, &str)> = known
        .map(|known| (strsim::osa_distance(name, known), known))
        .filter(|(wrong, _)| *wrong <= most)
        .collect();
    let least = distances.iter().map(|(wrong, _)| *wrong).min();
    let nearest = distances.iter().filter(|(wrong, _)| Some(*wrong) == least);
    nearest.map(|(_, known)| format!("'{known}'")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_what_is_most_like_it() {
        let known = ["run", "env", "list", "ls", "report", "release"];
        let of = |name: &str| like(name, known.into_iter()).join(" ");
        let all = ["rnu", "ru", "lst", "reprot", "relase", "nope", "x", "", "python3"].map(of);
        assert_eq!(all, ["'run'", "'run'", "'list' 'ls'", "'report'", "'release'", "", "", "", ""]);
    }
}
