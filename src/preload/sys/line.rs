//! A line under construction: a buffer on the stack, so that nothing is allocated whatever state the program is in.

use core::ffi::CStr;
use core::fmt;
use core::mem::MaybeUninit;
use cupeer_spec::value::is_unsafe_for_terminal;

/// Length of the longest line in bytes. A pipe takes so many bytes at once, so lines of several processes do not mix.
pub const LONGEST: usize = 4096;

/// A buffer for one line. Text that does not fit is refused.
pub struct LineBuffer {
    bytes: [MaybeUninit<u8>; LONGEST],
    length: usize,
    overflowed: bool,
}

impl LineBuffer {
    pub fn new() -> Self {
        LineBuffer { bytes: [const { MaybeUninit::uninit() }; LONGEST], length: 0, overflowed: false }
    }

    /// Returns the bytes that were written so far.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the first `length` bytes were written by `push`.
        unsafe { core::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.length) }
    }

    /// Cuts a line that is longer than `most` bytes, at the end of a word.
    pub fn cut(&mut self, most: usize) {
        const MARK: &[u8] = b" ...";
        if self.length > most {
            let kept = &self.bytes()[..most - MARK.len() + 1];
            self.length = kept.iter().rposition(|byte| *byte == b' ').unwrap_or(0);
            let _ = self.push(MARK);
        }
    }

    /// Returns true if some text did not fit. An incomplete line is worse than none.
    pub fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// Appends all of the bytes, or none if they do not fit.
    pub fn push(&mut self, bytes: &[u8]) -> fmt::Result {
        let Some(room) = self.bytes.get_mut(self.length..self.length + bytes.len()) else {
            self.overflowed = true;
            return Err(fmt::Error);
        };
        room.write_copy_of_slice(bytes);
        self.length += bytes.len();
        Ok(())
    }
}

/// A text of at most `N` bytes on the stack. Text that does not fit is refused.
pub struct ShortText<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> ShortText<N> {
    pub const EMPTY: Self = ShortText { bytes: [0; N], length: 0 };

    /// Creates a text from format arguments, cut if it does not fit.
    pub fn new(text: fmt::Arguments) -> Self {
        let mut short = Self::EMPTY;
        let _ = fmt::Write::write_fmt(&mut short, text);
        short
    }

    pub fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or("")
    }

    /// Returns the text as a C string; `None` if it does not end in NUL.
    pub fn c_text(&self) -> Option<&CStr> {
        CStr::from_bytes_with_nul(&self.bytes[..self.length]).ok()
    }
}

impl<const N: usize> fmt::Write for ShortText<N> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let place = self.bytes.get_mut(self.length..self.length + text.len()).ok_or(fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}

/// A writer that replaces each control character with a question mark, so that no text of a program or its user controls a
/// terminal or ends a line.
pub struct Sanitized<W: fmt::Write>(pub W);

impl<W: fmt::Write> fmt::Write for Sanitized<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.split_inclusive(is_unsafe_for_terminal).try_for_each(|part| {
            match part.strip_suffix(is_unsafe_for_terminal) {
                Some(tame) => self.0.write_str(tame).and_then(|()| self.0.write_str("?")),
                None => self.0.write_str(part),
            }
        })
    }
}

impl fmt::Write for LineBuffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fmt::Write;

    #[test]
    fn a_long_line_is_cut_behind_a_word() {
        let cut = |text: &str, most| {
            let mut line = LineBuffer::new();
            line.push(text.as_bytes()).unwrap();
            line.cut(most);
            String::from_utf8(line.bytes().to_vec()).unwrap()
        };
        assert_eq!(cut("one two three", 13), "one two three");
        assert_eq!(cut("one two three", 12), "one two ...");
        assert_eq!(cut("one two three", 10), "one ...");
        assert_eq!(cut("onetwothree", 8), " ...");
    }

    #[test]
    fn nothing_wild_reaches_a_terminal() {
        let mut text = String::new();
        write!(Sanitized(&mut text), "a\x1b[31m\"\nb\u{202e}\t").unwrap();
        assert_eq!(text, "a?[31m\"?b??");
        assert_eq!(ShortText::<4>::new(format_args!("ab\0")).c_text(), Some(c"ab"));
        assert_eq!(ShortText::<2>::new(format_args!("ab\0")).c_text(), None);
    }

    #[test]
    fn text_that_does_not_fit_is_refused_whole() {
        let mut line = LineBuffer::new();
        assert!(line.push(&[b'a'; LONGEST - 1]).is_ok());
        assert!(line.write_str("bc").is_err());
        assert_eq!(line.bytes().len(), LONGEST - 1);
        assert!(line.write_str("b").is_ok() && line.write_str("").is_ok() && line.write_str("c").is_err());
    }
}
