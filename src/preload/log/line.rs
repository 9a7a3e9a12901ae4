//! A line under construction: a buffer on the stack, so that nothing is allocated in a program that may
//! be anywhere.

use core::fmt;

/// The longest line: as long as a pipe takes in one piece, so that lines of several processes do not mix.
pub const LONGEST: usize = 4096;

/// Bytes up to a limit; what does not fit is refused.
pub struct Line {
    bytes: [core::mem::MaybeUninit<u8>; LONGEST],
    length: usize,
    overflowed: bool,
}

impl Line {
    /// An empty line.
    pub fn new() -> Self {
        Line { bytes: [const { core::mem::MaybeUninit::uninit() }; LONGEST], length: 0, overflowed: false }
    }

    /// What was written so far.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the first `length` bytes were written by `push`.
        unsafe { core::slice::from_raw_parts(self.bytes.as_ptr().cast(), self.length) }
    }

    /// Whether something did not fit. A line that lacks a piece is worse than none.
    pub fn has_overflowed(&self) -> bool {
        self.overflowed
    }

    /// Appends bytes, all or none.
    pub fn push(&mut self, bytes: &[u8]) -> fmt::Result {
        let Some(room) = self.bytes.get_mut(self.length..self.length + bytes.len()) else {
            self.overflowed = true;
            return Err(fmt::Error);
        };
        for (place, byte) in room.iter_mut().zip(bytes) {
            place.write(*byte);
        }
        self.length += bytes.len();
        Ok(())
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push(text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fmt::Write;

    #[test]
    fn what_does_not_fit_is_refused_whole() {
        let mut line = Line::new();
        assert!(line.push(&[b'a'; LONGEST - 1]).is_ok());
        assert!(line.write_str("bc").is_err());
        assert_eq!(line.bytes().len(), LONGEST - 1);
        assert!(line.write_str("b").is_ok() && line.write_str("").is_ok() && line.write_str("c").is_err());
    }
}
