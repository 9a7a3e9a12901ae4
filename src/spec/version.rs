//! The version that a library carries in its file, as an ELF note: the command reads it before it leads a program there,
//! and `readelf -n` shows it.

/// Owner of the note.
pub const OWNER: &[u8; 7] = b"cupeer\0";
/// Kind of note: the version of cupeer.
pub const KIND: u32 = 1;
const LONGEST: usize = 32;

/// The note, as the file has it.
#[repr(C, align(4))]
pub struct Note {
    owner_size: u32,
    text_size: u32,
    kind: u32,
    owner: [u8; OWNER.len().next_multiple_of(4)],
    text: [u8; LONGEST],
}

impl Note {
    /// The note of this version: the text of Cargo.toml, and NUL up to its end.
    pub const OWN: Note = Note {
        owner_size: OWNER.len() as u32,
        text_size: LONGEST as u32,
        kind: KIND,
        owner: padded(OWNER),
        text: padded(env!("CARGO_PKG_VERSION").as_bytes()),
    };
}

const fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    assert!(bytes.len() < N);
    let mut all = [0; N];
    all.split_at_mut(bytes.len()).0.copy_from_slice(bytes);
    all
}

/// Returns the version in the text of a note; `None` if the text is not a version.
pub fn read(text: &[u8]) -> Option<&str> {
    let text = text.split(|byte| *byte == 0).next()?;
    let is_right = |byte: &u8| byte.is_ascii_alphanumeric() || b".+-".contains(byte);
    let text = (!text.is_empty() && text.len() < LONGEST && text.iter().all(is_right)).then_some(text)?;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_values_are_read_back() {
        assert_eq!(read(&Note::OWN.text), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(read(b"1.2.3-rc.1+x"), Some("1.2.3-rc.1+x"));
        for wrong in [&b""[..], b"\x001.0", b"1.0\x1b[2J", b"1 0", &[b'1'; LONGEST]] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
