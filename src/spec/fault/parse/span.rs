//! Pieces of a plan's text that know their place.

use super::PlanError;

/// Largest number of characters of the plan's text that a message repeats.
const MOST_SHOWN: usize = 60;

/// Part of a line of a plan, with its position.
#[derive(Clone, Copy, Debug)]
pub struct Span<'a> {
    /// Text of the part.
    pub text: &'a str,
    /// Number of the line, from 1.
    line: usize,
    /// Column of the part's first byte, from 1.
    column: usize,
}

impl<'a> Span<'a> {
    /// Creates the span of a whole line.
    pub fn of_line(text: &'a str, line: usize) -> Self {
        Span { text, line, column: 1 }
    }

    /// Returns an error whose position is the start of the span.
    pub fn error_at_start(&self, message: impl AsRef<str>) -> PlanError {
        self.error_at(1, message)
    }

    /// Returns an error whose position is a column of the span, from 1.
    pub fn error_at(&self, column: usize, message: impl AsRef<str>) -> PlanError {
        let message = message.as_ref().chars().map(replace_harmful).collect();
        PlanError { line: self.line, column: self.column + column - 1, message }
    }

    /// Returns the parts between the separators.
    pub fn split(self, separator: char) -> impl Iterator<Item = Span<'a>> {
        let mut column = self.column;
        self.text.split(separator).map(move |text| {
            let span = Span { text, line: self.line, column };
            column += text.len() + separator.len_utf8();
            span
        })
    }

    /// Returns the parts before and after the first separator.
    pub fn split_once(self, separator: &str) -> Option<(Span<'a>, Span<'a>)> {
        let at = self.text.find(separator)?;
        Some((Span { text: &self.text[..at], ..self }, self.skip(at + separator.len())))
    }

    /// Returns the part after a prefix.
    pub fn strip_prefix(self, prefix: &str) -> Option<Span<'a>> {
        self.text.starts_with(prefix).then(|| self.skip(prefix.len()))
    }

    /// Returns the span without white space around it.
    pub fn trim(self) -> Span<'a> {
        let text = self.text.trim_start();
        Span { text: text.trim_end(), column: self.column + self.text.len() - text.len(), ..self }
    }

    /// Returns the empty span at the end of this span.
    pub fn end(self) -> Span<'a> {
        self.skip(self.text.len())
    }

    /// Returns the span without this many bytes at its start.
    fn skip(self, bytes: usize) -> Span<'a> {
        Span { text: &self.text[bytes..], column: self.column + bytes, ..self }
    }

    /// Returns the text in quotes, shortened for a message.
    pub fn quoted_for_message(&self) -> String {
        let dots = if self.text.chars().nth(MOST_SHOWN).is_some() { "..." } else { "" };
        format!("'{}{dots}'", self.text.chars().take(MOST_SHOWN).collect::<String>())
    }
}

/// Returns a character, or a replacement for one that a terminal would obey: control characters, and
/// characters that change the direction of writing.
fn replace_harmful(c: char) -> char {
    let obeyed = c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    if obeyed { char::REPLACEMENT_CHARACTER } else { c }
}

/// Joins words for a message: `a, b or c`.
pub fn join_with_or<T: AsRef<str>>(words: impl IntoIterator<Item = T>) -> String {
    let mut words: Vec<T> = words.into_iter().collect();
    let Some(last) = words.pop() else { return String::new() };
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    if words.is_empty() { last.as_ref().into() } else { format!("{} or {}", words.join(", "), last.as_ref()) }
}
