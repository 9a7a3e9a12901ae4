//! The folder of a host, where the processes of a large job record, and the file `begun` in it.
//!
//! A process of a large job creates its file when it first takes part in sharing (it exports, opens, or
//! enables something). A process that never does so has no file. To count it anyway, each process appends a
//! line here when it begins: the name that its file has or would have, its user, its rank or `-`, and its
//! program. A line without a file of that name stands for a process that shared nothing. A process that
//! reduces the recording renames the file, with a number, so that others begin a new one.

use super::SUFFIX;
use core::fmt::{self, Write};

/// Prefix of the name of a host's folder. The start of its boot id follows, as in [`super::ProcessFileName`].
pub const FOLDER: &str = "host-";
/// Name of the file with a line for each process that began.
pub const FILE: &str = "begun";

/// Returns true if a file has this name, or that of a renamed one.
pub fn is_begun_file(name: &str) -> bool {
    let number = name.strip_prefix(FILE).and_then(|rest| rest.strip_prefix('-'));
    let is_number = |text: &str| (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    name == FILE || number.is_some_and(is_number)
}

/// The name of the folder of the host with a boot id.
pub struct HostFolder(
    /// Boot id of the host, as raw bytes.
    pub [u8; 16],
);

impl fmt::Display for HostFolder {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let HostFolder([a, b, c, d, ..]) = *self;
        write!(f, "{FOLDER}{:08x}", u32::from_be_bytes([a, b, c, d]))
    }
}

/// Line about a process that has begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BegunLine<'a> {
    /// Name that the file of the process has or would have.
    pub file: &'a str,
    /// User id of the process.
    pub uid: u32,
    /// Rank of the process; `None` if it has none.
    pub rank: Option<u32>,
    /// File name of the process's program.
    pub program: &'a str,
}

impl fmt::Display for BegunLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} {} ", self.file, self.uid)?;
        match self.rank {
            Some(rank) => write!(f, "{rank} ")?,
            None => f.write_str("- ")?,
        }
        self.program.chars().try_for_each(|c| f.write_char(if c.is_control() { '?' } else { c }))
    }
}

impl<'a> BegunLine<'a> {
    /// Parses a line without its line break.
    pub fn parse(line: &'a str) -> Option<Self> {
        let mut words = line.splitn(4, ' ');
        let file = words.next().filter(|file| file.strip_suffix(SUFFIX).is_some_and(|name| !name.is_empty()))?;
        let uid = words.next()?.parse().ok()?;
        let rank = match words.next()? {
            "-" => None,
            rank => Some(rank.parse().ok()?),
        };
        Some(BegunLine { file, uid, rank, program: words.next()? })
    }

    /// Returns the pid namespace of the process, its pid there, and its start time.
    pub fn process_identity(&self) -> Option<(u64, u32, u64)> {
        let mut words = self.file.strip_suffix(SUFFIX)?.split('-').skip(1);
        Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ProcessFileName;
    use super::*;

    #[test]
    fn written_values_are_read_back() {
        let name = ProcessFileName { boot_id: [0xab; 16], pid_ns: 4_026_531_836, pid: 17, started: 99, image: 2 };
        let file = name.to_string();
        for rank in [None, Some(0), Some(4095)] {
            let begun = BegunLine { file: &file, uid: 1000, rank, program: "my app" };
            let line = begun.to_string();
            assert_eq!(BegunLine::parse(&line), Some(begun), "{line}");
            assert_eq!(begun.process_identity(), Some((4_026_531_836, 17, 99)));
        }
        let odd = BegunLine { file: &file, uid: 0, rank: None, program: "a\nb" };
        assert_eq!(odd.to_string().lines().count(), 1);
        assert_eq!(HostFolder([0xab; 16]).to_string(), "host-abababab");
    }

    proptest::proptest! {
        #[test]
        fn any_line_is_read_or_none(line in "\\PC{0,80}", name in "[a-z0-9-]{0,20}") {
            for line in [line.clone(), format!("{name}.cupeer {line}")] {
                if let Some(begun) = BegunLine::parse(&line) {
                    let again = begun.to_string();
                    proptest::prop_assert_eq!(BegunLine::parse(&again), Some(begun));
                    let _ = begun.process_identity();
                }
            }
        }
    }
}
