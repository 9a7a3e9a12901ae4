//! Keys, from the bytes that a terminal in raw mode sends.
//!
//! Waits for bytes and parses them. crossterm's own reader loops forever if the terminal was closed.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// Maximum time within which the remaining bytes of a key arrive.
const REST: Duration = Duration::from_millis(30);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Key {
    Char(char),
    /// A letter that was pressed together with Ctrl.
    Ctrl(char),
    Enter,
    Esc,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// A key that has no meaning here.
    Other,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitOutcome {
    /// The time is over, a signal arrived, or keys may have been read.
    Enough,
    HungUp,
}

/// Bytes from stdin that are not parsed yet.
#[derive(Default)]
pub struct KeyInput {
    bytes: VecDeque<u8>,
}

impl KeyInput {
    /// Takes the next key from the bytes that were read; `None` if there is none.
    pub fn next_key(&mut self) -> Option<Key> {
        let bytes = self.bytes.make_contiguous();
        let (key, length) = parse_key(bytes)?;
        self.bytes.drain(..length);
        Some(key)
    }

    /// Waits for keys until the time is over or a signal arrives.
    pub fn wait_for_keys(&mut self, most: Duration) -> io::Result<WaitOutcome> {
        if !is_ready(most)? {
            return Ok(WaitOutcome::Enough);
        }
        if !self.read_bytes()? {
            return Ok(WaitOutcome::HungUp);
        }
        // An escape byte is either a key of its own, or the start of a longer sequence.
        while is_unfinished(self.bytes.make_contiguous()) && is_ready(REST)? && self.read_bytes()? {}
        Ok(WaitOutcome::Enough)
    }

    /// Reads available bytes; returns false at the end of the input.
    fn read_bytes(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 256];
        // SAFETY: the call writes to as many bytes as there are.
        let had = unsafe { libc::read(libc::STDIN_FILENO, bytes.as_mut_ptr().cast(), bytes.len()) };
        match usize::try_from(had) {
            Ok(had) => {
                self.bytes.extend(&bytes[..had]);
                Ok(had > 0)
            }
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => Ok(true),
                // This error means that the terminal was closed.
                error if error.raw_os_error() == Some(libc::EIO) => Ok(false),
                error => Err(error),
            },
        }
    }
}

fn is_ready(most: Duration) -> io::Result<bool> {
    let mut stdin = libc::pollfd { fd: libc::STDIN_FILENO, events: libc::POLLIN, revents: 0 };
    // SAFETY: there is one of what is waited for.
    match unsafe { libc::poll(&mut stdin, 1, most.as_millis() as i32) } {
        -1 => match io::Error::last_os_error() {
            error if error.kind() == io::ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        },
        ready => Ok(ready > 0),
    }
}

fn is_unfinished(bytes: &[u8]) -> bool {
    match bytes {
        [0x1b] | [0x1b, b'[' | b'O'] => true,
        [0x1b, b'[', rest @ ..] => rest.iter().all(|byte| !(0x40..0x7f).contains(byte)),
        _ => false,
    }
}

/// Returns the key at the start of some bytes, and the number of its bytes.
fn parse_key(bytes: &[u8]) -> Option<(Key, usize)> {
    Some(match *bytes {
        [] => return None,
        [0x1b, b'[' | b'O', ref rest @ ..] if !rest.is_empty() => {
            let end = rest.iter().position(|byte| (0x40..0x7f).contains(byte));
            let end = end.unwrap_or(rest.len() - 1);
            (parse_escape(&rest[..end], rest[end]), 3 + end)
        }
        [0x1b, ..] => (Key::Esc, 1),
        [b'\r' | b'\n', ..] => (Key::Enter, 1),
        [0x7f | 0x08, ..] => (Key::Backspace, 1),
        [control @ 1..0x1b, ..] => (Key::Ctrl((b'a' + control - 1) as char), 1),
        [first, ..] => {
            let length = match first {
                0xc0..0xe0 => 2,
                0xe0..0xf0 => 3,
                0xf0.. => 4,
                _ => 1,
            };
            let text = bytes.get(..length).and_then(|bytes| str::from_utf8(bytes).ok());
            let c = text.and_then(|text| text.chars().next()).filter(|c| !c.is_control());
            c.map_or((Key::Other, 1), |c| (Key::Char(c), length))
        }
    })
}

/// Returns the key that an escape sequence stands for. The sequence is given by its parameters and its last
/// byte.
fn parse_escape(parameters: &[u8], last: u8) -> Key {
    match (last, parameters) {
        (b'A', _) => Key::Up,
        (b'B', _) => Key::Down,
        (b'C', _) => Key::Right,
        (b'D', _) => Key::Left,
        (b'H', _) | (b'~', b"1" | b"7") => Key::Home,
        (b'F', _) | (b'~', b"4" | b"8") => Key::End,
        (b'~', b"5") => Key::PageUp,
        (b'~', b"6") => Key::PageDown,
        _ => Key::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_keys() {
        let mut input = KeyInput::default();
        input.bytes.extend(b"q\r\x1b[A\x1bOB\x1b[5~\x1b[1;5C\x1b[4~\x7f\x03\xc3\xa9\xff\x1b");
        let keys: Vec<Key> = std::iter::from_fn(|| input.next_key()).collect();
        assert_eq!(
            keys,
            [
                Key::Char('q'),
                Key::Enter,
                Key::Up,
                Key::Down,
                Key::PageUp,
                Key::Right,
                Key::End,
                Key::Backspace,
                Key::Ctrl('c'),
                Key::Char('\u{e9}'),
                Key::Other,
                Key::Esc
            ]
        );
    }

    #[test]
    fn the_rest_of_a_key_is_waited_for() {
        let unfinished: [&[u8]; 4] = [b"\x1b", b"\x1b[", b"\x1bO", b"\x1b[1;"];
        assert!(unfinished.iter().all(|bytes| is_unfinished(bytes)));
        let finished: [&[u8]; 4] = [b"", b"q", b"\x1b[A", b"\x1b[1;5C"];
        assert!(!finished.iter().any(|bytes| is_unfinished(bytes)));
    }
}
