//! Which files of others may be written to: what a path leads to in a directory where everybody puts things.
//!
//! What the kernel's `protected_symlinks`, `protected_regular` and `protected_fifos` forbid where they are switched on,
//! and a little more. What belongs here: the decision. What does not: looking at files.

/// What is known of a file, directory or link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ownership {
    /// Who owns it.
    pub owner: u32,
    /// Its kind and rights.
    pub mode: u32,
    /// How many names it has.
    pub names: u64,
}

const KIND: u32 = 0o170_000;
const PLAIN: u32 = 0o100_000;
const PIPE: u32 = 0o010_000;
const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;

/// Whether a user follows a link that stands where he writes: his own, one of root's, or one of the owner of a directory
/// in which nobody else makes any.
pub fn may_follow(link: Ownership, directory: Ownership, user: u32) -> bool {
    let is_private = directory.mode & (GROUP_WRITES | OTHERS_WRITE) == 0;
    [user, 0].contains(&link.owner) || is_private && link.owner == directory.owner
}

/// Whether a user adds to a file that is there already. Where everybody makes files, another user's would be for that
/// one to read, and one with two names may be a file of the user's own that somebody has put there. Terminals and other
/// devices are nobody's trap.
pub fn may_append(file: Ownership, directory: Ownership, user: u32) -> bool {
    if directory.mode & OTHERS_WRITE == 0 || ![PLAIN, PIPE].contains(&(file.mode & KIND)) {
        return true;
    }
    [user, 0, directory.owner].contains(&file.owner) && file.names <= 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(owner: u32, mode: u32) -> Ownership {
        Ownership { owner, mode, names: 1 }
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
            assert_eq!(may_follow(found(owner, 0o120_777), directory, 1), follows, "{owner} {directory:?}");
        }
    }

    #[test]
    fn files_of_others_are_left_alone_where_everybody_makes_them() {
        let (shared, group) = (found(0, 0o041_777), found(7, 0o042_775));
        assert!(may_append(found(1, 0o100_600), shared, 1) && may_append(found(0, 0o010_666), shared, 1));
        assert!(!may_append(found(2, 0o100_666), shared, 1) && !may_append(found(2, 0o010_666), shared, 1));
        assert!(!may_append(Ownership { names: 2, ..found(1, 0o100_600) }, shared, 1));
        assert!(may_append(found(2, 0o100_664), group, 1) && may_append(found(2, 0o020_620), shared, 1));
    }
}
