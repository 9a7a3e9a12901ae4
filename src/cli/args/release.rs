//! The command line of `cupeer release`.

use clap::Args;
use std::path::PathBuf;

/// `cupeer release`.
#[derive(Args)]
#[command(after_help = "\
  cupeer run -o r --inject cuIpcCloseMemHandle:hang=gate PROGRAM &
  cupeer release r --list    # what hangs, and under which label
  cupeer release r gate      # lets it go on, and whatever comes there later")]
pub struct ReleaseArgs {
    /// The directory of the record
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// What `hang=LABEL` says; `hang` alone hangs under the label hang
    #[arg(required_unless_present = "list")]
    pub label: Option<String>,
    /// Show the labels and the calls that hang, and release nothing
    #[arg(long, conflicts_with = "label")]
    pub list: bool,
}
