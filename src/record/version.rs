//! The versions of a format that this crate reads.

use std::ops::RangeInclusive;

/// Checks that a file's version is among those that this crate reads. The error is the rest of a sentence
/// that begins with the path, such as `was written by a newer cupeer`.
pub(crate) fn check_version(version: u64, read: RangeInclusive<u32>) -> Result<(), String> {
    let (oldest, newest) = (u64::from(*read.start()), u64::from(*read.end()));
    let age = match version {
        0 => return Err("has no version".into()),
        version if version > newest => "a newer",
        version if version < oldest => "an older",
        _ => return Ok(()),
    };
    let reads = if oldest == newest { newest.to_string() } else { format!("{oldest} to {newest}") };
    Err(format!("was written by {age} cupeer (format {version}; this one reads {reads})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_versions_are_named_as_older() {
        assert_eq!(check_version(2, 2..=3), Ok(()));
        let error = |version| check_version(version, 2..=3).unwrap_err();
        assert_eq!(error(1), "was written by an older cupeer (format 1; this one reads 2 to 3)");
        assert_eq!(error(4), "was written by a newer cupeer (format 4; this one reads 2 to 3)");
        assert_eq!(error(0), "has no version");
    }
}
