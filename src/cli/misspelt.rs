//! Commands that were misspelt: which one was meant.

use crate::args::Cli;
use clap::CommandFactory;
use clap::error::{ContextKind, ContextValue};

/// How many letters may be wrong, missing or in another order.
const MOST_WRONG: usize = 2;

/// What is wrong with a command that is none, and which are like it.
pub fn command(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(name)) = error.get(ContextKind::InvalidSubcommand) else { return None };
    let known = Cli::command();
    let known =
        known.get_subcommands().filter(|command| !command.is_hide_set()).map(|command| command.get_name());
    let meant = like(name, known);
    let hint = match &meant[..] {
        [] => "'cupeer --help' lists them all".to_owned(),
        meant => format!("did you mean {}?", meant.join(" or ")),
    };
    Some(format!("there is no command '{name}'; {hint}"))
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
