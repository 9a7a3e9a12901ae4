//! The command lines of `cupeer ls` and `cupeer clean`: the recordings in the default directory.

use clap::{Args, ValueEnum};

#[derive(Args)]
#[command(after_help = "\
Recordings without --out are stored in $XDG_STATE_HOME/cupeer, or ~/.local/state/cupeer: the last 20, the last 100 with a \
problem, and at most 1 GiB. cupeer never deletes a recording that you renamed so that its name does not end in a number.

Examples:
  cupeer report            # the newest
  cupeer report app-12     # by its name
  cupeer report 12         # or by its number")]
pub struct LsArgs {
    /// Form of the list
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub format: LsFormat,
}

#[derive(ValueEnum, Clone, Copy, PartialEq, Eq)]
pub enum LsFormat {
    /// Table that fits the terminal
    Text,
    /// Array of objects
    Json,
}

#[derive(Args)]
#[command(after_help = "\
Deletes every recording that 'cupeer ls' lists, except those in progress and those that you renamed so that their names do \
not end in a number. On a terminal, cupeer asks first.

Examples:
  cupeer clean             # all recordings
  cupeer clean --keep 5    # all but the newest five
  cupeer clean --yes       # without asking")]
pub struct CleanArgs {
    /// Keep the newest N recordings
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub keep: usize,
    /// Also delete recordings of other hosts and containers, whose processes may still be running there
    #[arg(long)]
    pub all: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
}
