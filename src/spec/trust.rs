//! Decides which files of other users may be written to, in directories where everybody can create files.
//!
//! The rules are those of the kernel's `protected_symlinks`, `protected_regular`, and `protected_fifos`,
//! which may be disabled, and a little more. Callers query the files.

/// Ownership and permissions of a file, directory, or link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileOwnership {
    /// User id of the owner.
    pub owner: u32,
    /// File type and permissions.
    pub mode: u32,
    /// Number of hard links to the file.
    pub names: u64,
}

const KIND: u32 = 0o170_000;
const PLAIN: u32 = 0o100_000;
const PIPE: u32 = 0o010_000;
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;

/// Returns true if a user may follow a link in a directory: the user's own link, one of root's, or one of the
/// directory's owner if only the owner can create files there.
pub fn can_follow_link(link: FileOwnership, directory: FileOwnership, user: u32) -> bool {
    let is_private = directory.mode & (GROUP_WRITES | OTHERS_WRITE) == 0;
    [user, 0].contains(&link.owner) || is_private && link.owner == directory.owner
}

/// Returns true if a user may append to an existing file. In a directory where everybody can create files,
/// another user's file would let that user read the output, and a file with two hard links may be the user's
/// own, linked there by somebody else. Terminals and other devices are safe.
pub fn can_append(file: FileOwnership, directory: FileOwnership, user: u32) -> bool {
    if directory.mode & OTHERS_WRITE == 0 || ![PLAIN, PIPE].contains(&(file.mode & KIND)) {
        return true;
    }
    [user, 0, directory.owner].contains(&file.owner) && file.names <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(owner: u32, mode: u32) -> FileOwnership {
        FileOwnership { owner, mode, names: 1 }
    }

    #[test]
    fn links_of_others_are_not_followed() {
        let (shared, group, private) = (found(0, 0o041_777), found(7, 0o042_775), found(7, 0o040_755));
        for (owner, directory, follows) in [
            (1, shared, true),
            (0, shared, true),
            (2, shared, false),
            (2, group, false),
            (7, group, false),
            (7, private, true),
            (2, private, false),
        ] {
            assert_eq!(can_follow_link(found(owner, 0o120_777), directory, 1), follows, "{owner} {directory:?}");
        }
    }

    #[test]
    fn files_of_others_are_left_alone_where_everybody_makes_them() {
        let (shared, group) = (found(0, 0o041_777), found(7, 0o042_775));
        assert!(can_append(found(1, 0o100_600), shared, 1) && can_append(found(0, 0o010_666), shared, 1));
        assert!(!can_append(found(2, 0o100_666), shared, 1) && !can_append(found(2, 0o010_666), shared, 1));
        assert!(!can_append(FileOwnership { names: 2, ..found(1, 0o100_600) }, shared, 1));
        assert!(can_append(found(2, 0o100_664), group, 1) && can_append(found(2, 0o020_620), shared, 1));
    }
}
