//! The processes of a large job that have no file because they shared nothing. A host's file `begun` lists
//! all processes, including those with files.

use crate::alive::{Host, Who};
use crate::host;
use crate::plain::{self, Links};
use cupeer_spec::record::begun::{self, Begun};
use std::collections::HashSet;
use std::path::Path;

/// Largest size in bytes of a file `begun` that is read: enough for a hundred thousand processes.
pub const LONGEST: u64 = 16 << 20;

/// Process of a large job that shared nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quiet {
    /// Name that the file of the process would have.
    pub file: String,
    /// User id of the process.
    pub uid: u32,
    /// Rank of the process.
    pub rank: Option<u32>,
    /// File name of the program.
    pub program: String,
}

impl Quiet {
    /// Reads the processes that a file lists.
    ///
    /// # Errors
    ///
    /// The error is a sentence without a subject.
    pub fn all(path: &Path) -> Result<Vec<Quiet>, String> {
        let bytes = plain::read(path, Links::Refused, LONGEST);
        bytes.map(|bytes| Self::all_of(&bytes)).map_err(|error| format!("cannot be read: {error}"))
    }

    /// Returns the processes that the bytes of a file `begun` list.
    pub fn all_of(bytes: &[u8]) -> Vec<Quiet> {
        let one = |begun: Begun| Quiet {
            file: begun.file.to_owned(),
            uid: begun.uid,
            rank: begun.rank,
            program: begun.program.to_owned(),
        };
        String::from_utf8_lossy(bytes).lines().filter_map(Begun::parse).map(one).collect()
    }

    fn who(&self, boot_id: [u8; 16]) -> Option<Who> {
        let begun = Begun { file: &self.file, uid: self.uid, rank: None, program: "" };
        let (pid_ns, pid, started) = begun.process()?;
        Some(Who { boot_id, pid_ns, pid, started, uid: self.uid })
    }
}

/// Returns true if a file lists the processes that have begun: a file in the directory of a host, or a file derived
/// from it, which a pack numbers.
pub fn is_named(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let is_numbered = || !folder.is_empty() && folder.bytes().all(|byte| byte.is_ascii_digit());
    path.file_name().is_some_and(|name| begun::is_named(&name.to_string_lossy()))
        && (folder.starts_with(begun::FOLDER) || is_numbered())
}

/// Removes the processes that have these files, and duplicates.
pub fn drop_shown<'a>(all: &mut Vec<Quiet>, files: impl Iterator<Item = &'a Path>) {
    let mut known: HashSet<String> =
        files.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
    all.retain(|quiet| known.insert(quiet.file.clone()));
}

/// Returns the number of processes of this host that may still be running.
pub fn running(all: &[Quiet]) -> usize {
    let Some(boot) = host::boot_id() else { return 0 };
    let is_here = |quiet: &&Quiet| quiet.file.starts_with(&host::short(boot));
    let whos: Vec<Who> = all.iter().filter(is_here).filter_map(|quiet| quiet.who(boot)).collect();
    let host = Host::read(whos.iter().copied());
    whos.into_iter().filter(|who| host.runs(*who) != Some(false)).count()
}
