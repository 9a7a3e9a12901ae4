//! Removes everything from text that a terminal would obey, because the text of recordings, packs, and programs is
//! untrusted.

use crate::base::style::emphasis_length_at;
use cupeer_spec::value::is_unsafe_for_terminal;
use serde::Serialize;
use std::io::{self, Write};

/// Returns a text without control characters and other sequences that a terminal obeys, and without line
/// breaks.
pub fn clean(text: &str) -> String {
    text.replace(is_unsafe_for_terminal, "\u{fffd}")
}

/// Returns a text without sequences that a terminal obeys, but with its line breaks.
pub fn clean_lines(text: &str) -> String {
    text.replace(|c| is_unsafe_for_terminal(c) && c != '\n', "\u{fffd}")
}

/// Returns a text without sequences that a terminal obeys, except for those of [`crate::base::style`].
pub fn clean_marked(text: &str) -> String {
    let (mut clean, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('\x1b') {
        clean += &clean_lines(&rest[..at]);
        let mark = emphasis_length_at(&rest[at..]);
        clean += if mark > 0 { &rest[at..at + mark] } else { "\u{fffd}" };
        rest = &rest[at + mark.max(1)..];
    }
    clean + &clean_lines(rest)
}

/// Writer of JSON that escapes the characters that a terminal obeys and that serde_json does not escape. Each
/// write must contain whole characters.
pub struct EscapingJsonWriter<W>(pub W);

impl<W: Write> Write for EscapingJsonWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let is_escaped = |c: char| is_unsafe_for_terminal(c) && !c.is_ascii_whitespace();
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

/// Writes a value as JSON, followed by a line break, in pieces, because the value may be large.
///
/// # Errors
///
/// The writer fails.
pub fn write_json(out: impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut out = EscapingJsonWriter(out);
    serde_json::to_writer_pretty(&mut out, value)?;
    out.write_all(b"\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::style::{Emphasis, Style};

    #[test]
    fn nothing_reaches_a_terminal_that_it_would_obey() {
        assert_eq!(clean("a\x1b[2Jb\u{9b}c\u{202e}d\ne"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d\u{fffd}e");
        assert_eq!(clean_lines("a\x1b[2J\nb\r\n"), "a\u{fffd}[2J\nb\u{fffd}\n");
    }

    #[test]
    fn only_marks_of_terminal_controls_stay() {
        let marked = Style::Colored.emphasize(Emphasis::Warning, "a\u{e9}");
        assert_eq!(clean_marked(&format!("{marked}\n")), format!("{marked}\n"));
        assert_eq!(clean_marked("\x1b[2J\x1b[31mb\x1b[0m\x1b"), "\u{fffd}[2J\x1b[31mb\x1b[0m\u{fffd}");
        assert_eq!(clean_marked("\x1b\u{e9}\x07\n"), "\u{fffd}\u{e9}\u{fffd}\n");
    }

    #[test]
    fn json_is_the_same_and_harmless() {
        let value = serde_json::json!({ "a\u{9b}": "\u{7f}\u{202e}\u{2066}ä\x1b\n", "b": ["\t"] });
        let mut text = Vec::new();
        serde_json::to_writer_pretty(EscapingJsonWriter(&mut text), &value).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains(|c| is_unsafe_for_terminal(c) && c != '\n') && text.contains("\\u009b"), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
