//! The command lines of `cupeer ls` and `cupeer clean`: what there is at home.

use clap::{Args, ValueEnum};

#[derive(Args)]
#[command(after_help = "\
Records without --out are kept in $XDG_STATE_HOME/cupeer, or ~/.local/state/cupeer: the last 20, and at most 1 GiB. \
A record that is renamed so that no number stands at its end is never removed.

  cupeer report            # the newest
  cupeer report app-12     # by its name
  cupeer report 12         # or by its number")]
pub struct LsArgs {
    /// Print a table, or an array of objects
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: LsFormat,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum LsFormat {
    /// A table that fits the terminal.
    Text,
    /// An array of objects.
    Json,
}

#[derive(Args)]
#[command(after_help = "\
Removes what 'cupeer ls' lists, except what is in progress and what has been renamed so that no number stands at its end.")]
pub struct CleanArgs {
    /// Keep the newest N
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub keep: usize,
    /// Remove also those of other hosts and containers, whose processes may still run there
    #[arg(long)]
    pub all: bool,
}
