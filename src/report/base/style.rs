//! Marks for text on a terminal, which make problems stand out.
//!
//! The command decides whether a terminal gets the marks. A mark is put around text that is already wrapped and
//! padded, so that it changes no width.

/// Kind of a text, which decides its color.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
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

impl Mark {
    /// Returns the mark of a severity, by its word.
    pub fn of_severity(word: &str) -> Mark {
        match word {
            "error" => Mark::Error,
            "warning" => Mark::Warning,
            _ => Mark::Note,
        }
    }

    fn begin(self) -> &'static str {
        match self {
            Mark::Error => "\x1b[31m",
            Mark::Warning => "\x1b[33m",
            Mark::Note => "\x1b[2m",
            Mark::Heading => "\x1b[1m",
        }
    }
}

/// Form in which marks are written.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Style {
    /// Marks are left out.
    #[default]
    Plain,
    /// Marks are written as colors.
    Colored,
}

impl Style {
    /// Returns a text enclosed in its mark.
    pub fn mark(self, mark: Mark, text: &str) -> String {
        match self {
            Style::Plain => text.to_owned(),
            Style::Colored => format!("{}{text}{END}", mark.begin()),
        }
    }

    /// Returns a text in which the first occurrence of a part is marked.
    pub fn mark_in(self, mark: Mark, part: &str, text: &str) -> String {
        text.replacen(part, &self.mark(mark, part), 1)
    }
}

/// Returns the number of bytes of the mark at the start of a text; 0 if the text does not start with a mark.
/// Other terminal sequences are not marks.
pub(crate) fn mark_at(text: &str) -> usize {
    let begins = [Mark::Error, Mark::Warning, Mark::Note, Mark::Heading].map(Mark::begin);
    let found = begins.into_iter().chain([END]).find(|mark| text.starts_with(mark));
    found.map_or(0, str::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_marked_once() {
        let of = |style: Style| style.mark_in(Mark::Error, "error", "- error x: error");
        assert_eq!(of(Style::Plain), "- error x: error");
        assert_eq!(of(Style::Colored), "- \x1b[31merror\x1b[0m x: error");
    }
}
