//! What the command writes: results to stdout, complaints to stderr, a line each.
//!
//! Nothing here panics: where nobody reads, there is nobody to tell. And nothing reaches a terminal that it would obey:
//! what records, packs and programs say is anybody's text.

use crate::status;
use anyhow::{Context, Result};
use clap::error::ErrorKind;
use std::io::{self, ErrorKind::BrokenPipe, Write};
use std::process::ExitCode;

/// Whether a terminal obeys a character, or shows what stands around it in another order.
fn is_wild(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text without anything that a terminal obeys.
pub fn clean(text: &str) -> String {
    text.replace(is_wild, "\u{fffd}")
}

/// The same with its lines as they are.
fn clean_lines(text: &str) -> String {
    text.replace(|c| is_wild(c) && c != '\n', "\u{fffd}")
}

/// Prints to stdout, for people.
pub fn print(text: &str) -> Result<ExitCode> {
    print_as_is(&clean_lines(text))
}

/// Prints to stdout what is for a program to read. A reader that went away is no failure; a full disk is.
pub fn print_as_is(text: &str) -> Result<ExitCode> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != BrokenPipe => Err(error).context("failed to write to stdout"),
        _ => Ok(ExitCode::SUCCESS),
    }
}

/// Prints a value as JSON.
pub fn print_json(value: &serde_json::Value) -> Result<ExitCode> {
    let mut text = Vec::new();
    Json(&mut text).write_all(format!("{value:#}\n").as_bytes())?;
    print_as_is(&String::from_utf8_lossy(&text))
}

/// Writes JSON on, in which the rest of what a terminal obeys is escaped: serde_json leaves what JSON may have. It gets
/// whole characters.
pub struct Json<W>(pub W);

impl<W: Write> Write for Json<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_escaped = |c: char| is_wild(c) && !c.is_ascii_whitespace();
        match std::str::from_utf8(bytes) {
            Ok(text) if text.contains(is_escaped) => {
                for part in text.split_inclusive(is_escaped) {
                    let rest = part.trim_end_matches(is_escaped);
                    self.0.write_all(rest.as_bytes())?;
                    part[rest.len()..].chars().try_for_each(|c| write!(self.0, "\\u{:04x}", u32::from(c)))?;
                }
            }
            _ => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Says on stderr, in one line and one write, what is wrong.
pub fn complain(sentence: &str) {
    let line = format!("cupeer: {}\n", clean(&sentence.trim_end().replace('\n', "; ")));
    // Nobody is left to tell where stderr is closed.
    let _ = io::stderr().write_all(line.as_bytes());
}

/// Shows on stderr the lines that a complaint is about.
pub fn illustrate(lines: &str) {
    let _ = io::stderr().write_all(format!("{}\n", clean_lines(lines)).as_bytes());
}

/// Says what is wrong with the command line, or prints the help that it asks for; returns the status.
pub fn usage(error: &clap::Error) -> u8 {
    let text = error.render().to_string();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => match print(&text) {
            Ok(_) => 0,
            Err(error) => {
                complain(&format!("{error:#}"));
                status::OURS
            }
        },
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            complain("a subcommand is missing; 'cupeer --help' has them all");
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
            complain(&format!("{}; see --help", sentence.strip_prefix("error: ").unwrap_or(&sentence)));
            status::OURS
        }
    }
}

/// Turns on what `--verbose` shows.
pub fn be_verbose(verbose: bool) {
    if verbose {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_writer(|| Prefixed)
            .with_ansi(false)
            .with_level(false)
            .with_target(false)
            .without_time()
            .log_internal_errors(false);
        // Only a second call fails, and the first one's choice holds then.
        let _ = subscriber.try_init();
    }
}

/// Puts our name before each line, and takes no notice of a closed stderr.
struct Prefixed;

impl Write for Prefixed {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        complain(&String::from_utf8_lossy(line));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_a_terminal_that_it_would_obey() {
        assert_eq!(clean("a\x1b[2Jb\u{9b}c\u{202e}d\ne"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d\u{fffd}e");
        assert_eq!(clean_lines("a\x1b[2J\nb\r\n"), "a\u{fffd}[2J\nb\u{fffd}\n");
    }

    #[test]
    fn json_is_the_same_and_harmless() {
        let value = serde_json::json!({ "a\u{9b}": "\u{7f}\u{202e}\u{2066}ä\x1b\n", "b": ["\t"] });
        let mut text = Vec::new();
        serde_json::to_writer_pretty(Json(&mut text), &value).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains(|c| is_wild(c) && c != '\n') && text.contains("\\u009b"), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
