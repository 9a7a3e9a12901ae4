//! The progress of commands that run programs: on a terminal a spinner; elsewhere a line after some silence.

use crate::output;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Interval between two updates of a bar.
pub const TICK: Duration = Duration::from_millis(500);
/// Without a terminal: time since the last printed line after which a line announces the next step.
const SILENCE: Duration = Duration::from_secs(5);

/// Returns true if stderr is a terminal and the user did not ask for silence.
pub fn has_bar() -> bool {
    std::io::stderr().is_terminal() && !output::is_quiet()
}

/// Announces the steps of a command. Each step may take as long as the program.
pub struct StepAnnouncer {
    bar: Option<ProgressBar>,
    last_line_at: Option<Instant>,
}

#[allow(clippy::new_without_default, reason = "it has a bar")]
impl StepAnnouncer {
    pub fn new() -> StepAnnouncer {
        let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed}");
        let bar = has_bar().then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
        });
        StepAnnouncer { bar, last_line_at: None }
    }

    /// Announces the begin of a step.
    pub fn announce_step(&mut self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            bar.enable_steady_tick(TICK);
            bar.tick();
        } else if self.last_line_at.is_none_or(|said| said.elapsed() >= SILENCE) {
            self.last_line_at = Some(Instant::now());
            output::print_note(what);
        }
    }
}

impl Drop for StepAnnouncer {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
