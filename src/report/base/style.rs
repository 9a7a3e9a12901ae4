//! Marks for text on a terminal, which make problems stand out.
//!
//! The command decides whether a terminal gets the marks. A mark is put around text that is already wrapped and
//! padded, so that it changes no width.

/// Kind of a text, which decides its color.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Emphasis {
    /// Text about an error, or about something equally severe.
    Error,
    /// Text about a warning.
    Warning,
    /// Text about a note.
    Note,
    /// Heading of a table or a list.
    Heading,
}

/// Escape sequence that ends a style.
const END: &str = "\x1b[0m";

impl Emphasis {
    /// Returns the emphasis of a severity, by its word.
    pub fn of_severity(word: &str) -> Emphasis {
        match word {
            "error" => Emphasis::Error,
            "warning" => Emphasis::Warning,
            _ => Emphasis::Note,
        }
    }

    fn escape_sequence(self) -> &'static str {
        match self {
            Emphasis::Error => "\x1b[31m",
            Emphasis::Warning => "\x1b[33m",
            Emphasis::Note => "\x1b[2m",
            Emphasis::Heading => "\x1b[1m",
        }
    }
}

/// Form in which emphasis is written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Style {
    /// Emphasis is left out.
    #[default]
    Plain,
    /// Emphasis is written as colors.
    Colored,
}

impl Style {
    /// Returns a text enclosed in the escape sequences of an emphasis.
    pub fn emphasize(self, mark: Emphasis, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Colored => format!("{}{text}{END}", mark.escape_sequence()),
        }
    }

    /// Returns a text in which the first occurrence of a part is emphasized.
    pub fn emphasize_part(self, mark: Emphasis, part: &str, text: &str) -> String {
        text.replacen(part, &self.emphasize(mark, part), 1)
    }
}

/// Returns the number of bytes of the escape sequence of an emphasis at the start of a text; 0 if the text
/// starts with another sequence, or with none.
pub(crate) fn emphasis_length_at(text: &str) -> usize {
    let begins = [Emphasis::Error, Emphasis::Warning, Emphasis::Note, Emphasis::Heading].map(Emphasis::escape_sequence);
    let found = begins.into_iter().chain([END]).find(|mark| text.starts_with(mark));
    found.map_or(0, str::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_marked_once() {
        let of = |style: Style| style.emphasize_part(Emphasis::Error, "error", "- error x: error");
        assert_eq!(of(Style::Plain), "- error x: error");
        assert_eq!(of(Style::Colored), "- \x1b[31merror\x1b[0m x: error");
    }
}
