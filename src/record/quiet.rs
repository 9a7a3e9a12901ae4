//! The processes of a large job that have no file because they shared nothing. A host's file `begun` lists
//! all processes, including those with files.

use crate::alive::{HostState, ProcessIdentity};
use crate::host;
use crate::plain::{self, SymbolicLinks};
use cupeer_spec::record::begun::{self, BegunLine};
use std::collections::HashSet;
use std::path::Path;

/// Largest size in bytes of a file `begun` that is read: enough for a hundred thousand processes.
pub const MOST_BYTES: u64 = 16 << 20;

/// Process of a large job that shared nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QuietProcess {
    /// Name that the file of the process would have.
    pub file: String,
    /// User id of the process.
    pub uid: u32,
    /// Rank of the process.
    pub rank: Option<u32>,
    /// File name of the program.
    pub program: String,
}

impl QuietProcess {
    /// Reads the processes that a file lists.
    ///
    /// # Errors
    ///
    /// The error is a sentence without a subject.
    pub fn read_all(path: &Path) -> Result<Vec<QuietProcess>, String> {
        let bytes = plain::read(path, SymbolicLinks::Refused, MOST_BYTES);
        bytes.map(|bytes| Self::parse_all(&bytes)).map_err(|error| format!("cannot be read: {error}"))
    }

    /// Returns the processes that the bytes of a file `begun` list.
    pub fn parse_all(bytes: &[u8]) -> Vec<QuietProcess> {
        let one = |begun: BegunLine| QuietProcess {
            file: begun.file.to_owned(),
            uid: begun.uid,
            rank: begun.rank,
            program: begun.program.to_owned(),
        };
        String::from_utf8_lossy(bytes).lines().filter_map(BegunLine::parse).map(one).collect()
    }

    fn identity(&self, boot_id: [u8; 16]) -> Option<ProcessIdentity> {
        let begun = BegunLine { file: &self.file, uid: self.uid, rank: None, program: "" };
        let (pid_ns, pid, started) = begun.process_identity()?;
        Some(ProcessIdentity { boot_id, pid_ns, pid, started, uid: self.uid })
    }
}

/// Returns true if a file lists the processes that have begun: a file in the directory of a host, or a file derived
/// from it, which a pack numbers.
pub fn is_begun_file(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let is_numbered = || !folder.is_empty() && folder.bytes().all(|byte| byte.is_ascii_digit());
    path.file_name().is_some_and(|name| begun::is_begun_file(&name.to_string_lossy()))
        && (folder.starts_with(begun::FOLDER) || is_numbered())
}

/// Removes duplicates, and the processes that have one of these files.
pub fn drop_recorded<'a>(all: &mut Vec<QuietProcess>, files: impl Iterator<Item = &'a Path>) {
    let mut known: HashSet<String> =
        files.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
    all.retain(|quiet| known.insert(quiet.file.clone()));
}

/// Returns the number of processes of this host that may still be running.
pub fn count_running(all: &[QuietProcess]) -> usize {
    let Some(boot) = host::boot_id() else { return 0 };
    let is_here = |quiet: &&QuietProcess| quiet.file.starts_with(&host::short_boot_id(boot));
    let whos: Vec<ProcessIdentity> = all.iter().filter(is_here).filter_map(|quiet| quiet.identity(boot)).collect();
    let host = HostState::read(whos.iter().copied());
    whos.into_iter().filter(|who| host.is_running(*who) != Some(false)).count()
}
