//! Completions for shells. Their scripts ask the command itself, which knows recordings, rules, and functions.

use anyhow::{Context, Result};
use clap::{Arg, Args, Command, ValueEnum};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate, PathCompleter, ValueCompleter};
use clap_complete::env::{CompleteEnv, Shells};
use cupeer_console::args::value_word;
use cupeer_console::output;
use cupeer_recordings::home;
use cupeer_rules::RULES;
use cupeer_spec::function::FUNCTIONS;
use cupeer_spec::results::RESULTS;
use std::cmp::Reverse;
use std::ffi::OsStr;
use std::process::ExitCode;

/// Variable by which a shell's script asks for completions.
const VARIABLE: &str = "_CUPEER_COMPLETE";

#[derive(Args)]
#[command(after_help = "\
Examples:
  source <(cupeer completions bash)    # in ~/.bashrc
  source <(cupeer completions zsh)     # in ~/.zshrc, behind compinit
  cupeer completions fish >~/.config/fish/completions/cupeer.fish")]
pub struct CompletionsArgs {
    /// Shell that reads the script
    pub shell: Shell,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// If a shell's script asks for completions, prints them and exits.
pub fn answer_completions(command: fn() -> Command) {
    CompleteEnv::with_factory(|| with_value_completers(command())).var(VARIABLE).complete();
}

/// Prints the script for a shell: `cupeer completions`.
pub fn print_script(args: &CompletionsArgs) -> Result<ExitCode> {
    output::print_as_is(&shell_script(&value_word(args.shell))?)
}

/// Returns the script for a shell.
pub fn shell_script(shell: &str) -> Result<String> {
    let shells = Shells::builtins();
    let completer = shells.completer(shell).context("this shell is not known")?;
    let mut text = Vec::new();
    completer.write_registration(VARIABLE, "cupeer", "cupeer", "cupeer", &mut text)?;
    if shell == "zsh" {
        // In a directory of fpath, the file is the body of a function of its name.
        text.extend(b"[ \"${funcstack[1]-}\" != _cupeer ] || _clap_dynamic_completer_cupeer \"$@\"\n");
    }
    Ok(String::from_utf8(text)?)
}

/// Adds completions for the values of arguments.
fn with_value_completers(command: Command) -> Command {
    command.mut_subcommands(|command| {
        command.mut_args(|arg| match value_completer(&arg) {
            Some(completer) => arg.add(completer),
            None => arg,
        })
    })
}

/// Returns the completer for the values of an argument, chosen by the argument's value name.
fn value_completer(arg: &Arg) -> Option<ArgValueCompleter> {
    let value = arg.get_value_names()?.first()?.as_str();
    match (value, arg.is_positional()) {
        ("DIR", true) | ("RECORD | PID", _) | ("OTHER", _) => Some(ArgValueCompleter::new(complete_recordings)),
        ("RULES", _) => Some(list_completer(|| RULES.iter().map(|rule| rule.name()).collect())),
        ("SET" | "PLAN", _) => Some(list_completer(function_names)),
        ("NAME", true) => Some(list_completer(|| {
            let others = RULES.iter().map(|rule| rule.name()).chain(RESULTS.iter().map(|result| result.name()));
            function_names().into_iter().chain(others).collect()
        })),
        _ => None,
    }
}

fn function_names() -> Vec<&'static str> {
    FUNCTIONS.iter().map(|function| function.name()).collect()
}

/// Returns completions: recordings in the default directory, the newest first, and paths.
fn complete_recordings(current: &OsStr) -> Vec<CompletionCandidate> {
    let mut names: Vec<String> = home::default_directory().map(|home| home::names(&home).collect()).unwrap_or_default();
    names.retain(|name| home::number_in_name(name).is_some() && name.as_str().starts_with(&*current.to_string_lossy()));
    names.sort_by_key(|name| Reverse(home::number_in_name(name)));
    names.into_iter().map(CompletionCandidate::new).chain(PathCompleter::any().complete(current)).collect()
}

/// Returns a completer for a list with commas; it completes the last name.
fn list_completer(names: impl Fn() -> Vec<&'static str> + Send + Sync + 'static) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let text = current.to_string_lossy();
        let typed = text.rfind([',', ';', '^']).map_or(0, |at| at + 1);
        let (before, word) = text.split_at(typed);
        let fitting = names().into_iter().filter(|name| name.starts_with(word));
        fitting.map(|name| CompletionCandidate::new(format!("{before}{name}"))).collect()
    })
}
