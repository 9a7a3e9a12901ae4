//! The processes of a large job that have no file because they shared nothing: those that the file `begun` of a host
//! lists, without those that have files.

use crate::alive::{Host, Who};
use crate::host;
use crate::plain::{self, Links};
use cupeer_spec::record::begun::{self, Begun};
use std::collections::HashSet;
use std::path::Path;

/// The most bytes of a file `begun` that are read: a hundred thousand processes.
pub const LONGEST: u64 = 16 << 20;

/// One of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quiet {
    /// The name that its own file would have.
    pub file: String,
    /// Its user.
    pub uid: u32,
    /// Its rank.
    pub rank: Option<u32>,
    /// The file name of its program.
    pub program: String,
}

impl Quiet {
    /// The processes that a file names. The error is a sentence without a subject.
    pub fn all(path: &Path) -> Result<Vec<Quiet>, String> {
        let bytes = plain::read(path, Links::Refused, LONGEST);
        bytes.map(|bytes| Self::all_of(&bytes)).map_err(|error| format!("cannot be read: {error}"))
    }

    /// Those that what such a file has names.
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

/// Whether a file says which processes have begun: it lies in the folder of a host, or in what was made of it, which a pack
/// numbers.
pub fn is_named(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let is_numbered = || !folder.is_empty() && folder.bytes().all(|byte| byte.is_ascii_digit());
    path.file_name().is_some_and(|name| begun::is_named(&name.to_string_lossy()))
        && (folder.starts_with(begun::FOLDER) || is_numbered())
}

/// Leaves out of those that have begun the ones that have these files, and what is said twice.
pub fn drop_shown<'a>(all: &mut Vec<Quiet>, files: impl Iterator<Item = &'a Path>) {
    let mut known: HashSet<String> =
        files.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect();
    all.retain(|quiet| known.insert(quiet.file.clone()));
}

/// How many of them, of those of this host, may still run.
pub fn running(all: &[Quiet]) -> usize {
    let Some(boot) = host::boot_id() else { return 0 };
    let is_here = |quiet: &&Quiet| quiet.file.starts_with(&host::short(boot));
    let whos: Vec<Who> = all.iter().filter(is_here).filter_map(|quiet| quiet.who(boot)).collect();
    let host = Host::look(whos.iter().copied());
    whos.into_iter().filter(|who| host.runs(*who) != Some(false)).count()
}
