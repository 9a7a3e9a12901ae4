//! The command line of `cupeer release`.

use clap::Args;
use std::path::PathBuf;

#[derive(Args)]
#[command(
    override_usage = "cupeer release [OPTIONS] <DIR> <LABEL>\n       cupeer release [OPTIONS] <DIR> --list",
    after_help = "\
Exit status: 0 if LABEL is released, 1 if nothing hangs there and nothing will, 125 if cupeer failed.

Examples:
  cupeer run -o r --inject cuIpcCloseMemHandle:hang=gate PROGRAM &
  cupeer release r --list    # which calls hang, and under which label
  cupeer release r gate      # releases them, and all calls that would hang there later"
)]
pub struct ReleaseArgs {
    /// Recording: a directory, or a name that 'cupeer ls' lists
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// LABEL of 'hang=LABEL'; the label of a plain 'hang' is hang
    #[arg(required_unless_present = "list", value_name = "LABEL")]
    pub label: Option<String>,
    /// List labels and the calls that hang, without releasing them
    #[arg(long, conflicts_with = "label")]
    pub list: bool,
}
