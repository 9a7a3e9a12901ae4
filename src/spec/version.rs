//! The version that a library carries in its file, as an ELF note: the command reads it before it leads a program there,
//! and `readelf -n` shows it.

/// Owner of the ELF note.
pub const OWNER: &[u8; 7] = b"cupeer\0";
/// Type of the ELF note, which stands for the version of cupeer.
pub const KIND: u32 = 1;
const LONGEST: usize = 32;

/// ELF note with the version, as it is in the file of the library.
#[repr(C, align(4))]
pub struct VersionNote {
    owner_size: u32,
    text_size: u32,
    kind: u32,
    owner: [u8; OWNER.len().next_multiple_of(4)],
    text: [u8; LONGEST],
}

impl VersionNote {
    /// Note of this version: the version in Cargo.toml, followed by NULs.
    pub const OWN: VersionNote = VersionNote {
        owner_size: OWNER.len() as u32,
        text_size: LONGEST as u32,
        kind: KIND,
        owner: pad_with_nul(OWNER),
        text: pad_with_nul(env!("CARGO_PKG_VERSION").as_bytes()),
    };
}

const fn pad_with_nul<const N: usize>(bytes: &[u8]) -> [u8; N] {
    assert!(bytes.len() < N);
    let mut all = [0; N];
    all.split_at_mut(bytes.len()).0.copy_from_slice(bytes);
    all
}

/// Returns the version in the text of a note; `None` if the text is not a version.
pub fn read_version(text: &[u8]) -> Option<&str> {
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
        assert_eq!(read_version(&VersionNote::OWN.text), Some(env!("CARGO_PKG_VERSION")));
        assert_eq!(read_version(b"1.2.3-rc.1+x"), Some("1.2.3-rc.1+x"));
        for wrong in [&b""[..], b"\x001.0", b"1.0\x1b[2J", b"1 0", &[b'1'; LONGEST]] {
            assert_eq!(read_version(wrong), None, "{wrong:?}");
        }
    }
}
