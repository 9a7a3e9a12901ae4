//! The directory of the job, created if it does not exist, with the key of its fingerprints.

use crate::settings::{self, key};
use crate::sys::allocate::allocate;
use crate::sys::clock;
use crate::sys::errno::errno;
use crate::sys::files::{self, PATH_MAX};
use crate::sys::line::{Line, Short};
use crate::sys::opened::{FileInfo, Opened};
use crate::sys::process;
use crate::sys::process::boot_id;
use core::ffi::{CStr, c_int};
use core::fmt::Write;
use cupeer_spec::record::begun::Folder;
use cupeer_spec::record::job;

/// A path, on the stack of whoever makes a file: once a process.
pub type Path = [u8; PATH_MAX];

/// The directory.
pub struct Directory {
    pub path: Path,
    /// The mode of its files.
    pub mode: libc::mode_t,
}

impl Directory {
    /// The path of a file in it. `None` where that is too long.
    pub fn file(&self, name: &str) -> Result<Path, c_int> {
        let length = self.path.iter().position(|byte| *byte == 0).unwrap_or(0);
        let mut path = self.path;
        let place = path.get_mut(length..length + 1 + name.len() + 1).ok_or(libc::ENAMETOOLONG)?;
        place[0] = b'/';
        place[1..=name.len()].copy_from_slice(name.as_bytes());
        place[name.len() + 1] = 0;
        Ok(path)
    }

    /// Does something in the folder of this host, which is made if it does not exist, and once more if somebody else has taken it
    /// away meanwhile.
    pub fn in_folder<T>(&self, mut work: impl FnMut(&Directory) -> Result<T, c_int>) -> Result<T, c_int> {
        for _ in 0..8 {
            match work(&self.of_host()?) {
                Err(libc::ENOENT) => {}
                done => return done,
            }
        }
        Err(libc::ENOENT)
    }

    /// The folder in it of this host, made if it does not exist.
    fn of_host(&self) -> Result<Directory, c_int> {
        let path = self.file(Short::<24>::new(format_args!("{}", Folder(boot_id()))).text())?;
        make(&path, self.mode != OWN);
        Ok(Directory { path, mode: self.mode })
    }

    /// Opens a file in it for reading and writing, if its owner may be trusted.
    pub fn open(&self, path: &Path) -> Result<Opened, c_int> {
        let file = Opened::open(c_path(path), libc::O_RDWR)?;
        if self.trusts(file.about().found.owner) { Ok(file) } else { Err(libc::EPERM) }
    }

    /// Adds a line to a file in it, which is made where it is not there. As a whole: others may add theirs at the same time.
    pub fn add_line(&self, name: &str, line: &[u8]) -> Result<(), c_int> {
        let path = self.file(name)?;
        for _ in 0..4 {
            let file = match Opened::open(c_path(&path), libc::O_WRONLY | libc::O_APPEND) {
                Err(libc::ENOENT) => {
                    publish(self, &path, ".new", |_| Ok(()))?;
                    continue;
                }
                found => found?,
            };
            if !self.trusts(file.about().found.owner) {
                return Err(libc::EPERM);
            }
            files::write(file.descriptor(), line)?;
            // Who reduces the record removes it, and then looks for the last time what is in it.
            if FileInfo::of(file.descriptor()).is_none_or(|about| about.found.names != 0) {
                return Ok(());
            }
        }
        Err(libc::ENOENT)
    }

    /// Whether a file in it that belongs to this user is one of ours, or of somebody who may take part. What another user
    /// may cut short is not mapped: to touch what is missing would end the program.
    pub fn trusts(&self, owner: u32) -> bool {
        let is_shared = settings::get().record.as_ref().is_some_and(|record| record.shared);
        is_shared || self.is_of_user(owner)
    }

    /// Whether a file in it belongs to this user, whoever takes part.
    pub fn is_of_user(&self, owner: u32) -> bool {
        // SAFETY: geteuid has no preconditions.
        owner == unsafe { libc::geteuid() } || owner == 0 || self.owner_of_new() == Some(owner)
    }

    /// To whom a file belongs that we make here: over a network root is somebody else, and in containers whoever the
    /// file system says.
    fn owner_of_new(&self) -> Option<u32> {
        let path = self.temporary(".owner").ok()?;
        let made = Opened::create(c_path(&path), self.mode).ok()?;
        // SAFETY: the path ends in NUL.
        unsafe { libc::unlink(c_path(&path).as_ptr()) };
        Some(made.about().found.owner)
    }

    /// The path of a file that nobody else makes.
    fn temporary(&self, prefix: &str) -> Result<Path, c_int> {
        // SAFETY: gettid has no preconditions.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) };
        self.file(Short::<64>::new(format_args!("{prefix}-{tid}-{:x}", clock::realtime())).text())
    }
}

/// A path for C.
pub fn c_path(path: &Path) -> &CStr {
    CStr::from_bytes_until_nul(path).unwrap_or_default()
}

/// The directory of this process's record.
pub fn directory() -> Result<Directory, c_int> {
    let record = settings::get().record.as_ref().ok_or(libc::ENOENT)?;
    let directory = named().ok_or(libc::ENAMETOOLONG)?;
    make(&directory.path, record.shared);
    share_key(&directory)?;
    Ok(directory)
}

/// The same, whether or not it is there; `None` where none is asked for, or its path is too long.
pub fn named() -> Option<Directory> {
    let record = settings::get().record.as_ref()?;
    let mut path = [0; PATH_MAX];
    files::expand(&record.directory, process::owner(), &mut path)?;
    Some(Directory { path, mode: if record.shared { 0o660 } else { OWN } })
}

/// The mode of files that are only for the user.
const OWN: libc::mode_t = 0o600;

/// Makes a directory, if it is not there.
fn make(path: &Path, shared: bool) {
    let mode = if shared { 0o2770 } else { 0o700 };
    // SAFETY: the path ends in NUL.
    if unsafe { libc::mkdir(c_path(path).as_ptr(), mode) } == 0 && shared {
        // What umask has taken away; of the directory itself, in whose place somebody may have put a link.
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: the path ends in NUL; where it cannot be opened, the other calls fail.
        unsafe {
            let made = libc::open(c_path(path).as_ptr(), flags);
            libc::fchmod(made, mode);
            libc::close(made);
        }
    }
}

/// Whether a directory lies on a file system of which several hosts, or caches of one, may show different
/// content: a shared mapping is not one memory there.
pub fn is_remote(directory: &Path) -> bool {
    /// What statfs calls them: NFS, SMB (three of them), AFS, Ceph, GPFS, Lustre, BeeGFS, 9P and Coda.
    const REMOTE: &[i64] = &[
        0x6969,
        0x517b,
        0xff53_4d42,
        0xfe53_4d42,
        0x5346_414f,
        0x00c3_6400,
        0x4750_4653,
        0x0bd0_0bd0,
        0x1983_0326,
        0x0102_1997,
        0x7375_7245,
    ];
    // SAFETY: all-zero bytes are a statfs; the path ends in NUL, and the call writes to a variable of ours.
    unsafe {
        let mut about: libc::statfs = core::mem::zeroed();
        libc::statfs(c_path(directory).as_ptr(), &mut about) == 0
            && REMOTE.contains(&(about.f_type & 0xffff_ffff))
    }
}

/// Takes over the key of the job, or brings our own.
fn share_key(directory: &Directory) -> Result<(), c_int> {
    let file = directory.file(job::FILE)?;
    let mut text = [0; 512];
    match read_job(directory, &file, &mut text) {
        Err(libc::ENOENT) => {}
        read => {
            take_key(&text[..read?]);
            return Ok(());
        }
    }
    let mut key = settings::get().job;
    if key == [0; 16] {
        // By the number of the call, because glibc has a function for it only since 2.25.
        // SAFETY: the buffer has the length that is given.
        unsafe { libc::syscall(libc::SYS_getrandom, key.as_mut_ptr(), key.len(), 0) };
    }
    let mut line = Line::new();
    let _ = writeln!(line, "{}\n{}={:032x}", job::FIRST_LINE, job::KEY, u128::from_be_bytes(key));
    publish(directory, &file, ".job", |new| files::write(new.descriptor(), line.bytes()))?;
    let length = read_job(directory, &file, &mut text)?;
    take_key(&text[..length]);
    Ok(())
}

/// Reads what the directory's owner or we have put there, or with `--share` anybody.
fn read_job(directory: &Directory, path: &Path, text: &mut [u8]) -> Result<usize, c_int> {
    let file = Opened::open(c_path(path), libc::O_RDONLY)?;
    let owner = file.about().found.owner;
    let is_owners =
        || FileInfo::at(c_path(&directory.path), 0).is_some_and(|about| about.found.owner == owner);
    if directory.trusts(owner) || is_owners() {
        files::read_from(file.descriptor(), text)
    } else {
        Err(libc::EPERM)
    }
}

fn take_key(text: &[u8]) {
    if let Some(found) = job::key_in(text).and_then(job::key) {
        key::adopt(found);
    }
}

/// Makes a file of the directory, which `fill` fills by its descriptor, under a name of its own first: who finds the file
/// finds it whole. Where another process was faster, its file stays.
pub fn publish(
    directory: &Directory,
    path: &Path,
    prefix: &str,
    fill: impl FnOnce(&Opened) -> Result<(), c_int>,
) -> Result<(), c_int> {
    let temporary = directory.temporary(prefix)?;
    let file = Opened::create(c_path(&temporary), directory.mode)?;
    let made = fill(&file);
    // SAFETY: the paths end in NUL; the descriptor was opened above.
    unsafe {
        // What umask has taken away.
        libc::fchmod(file.descriptor(), directory.mode);
        drop(file);
        let (from, to) = (c_path(&temporary).as_ptr(), c_path(path).as_ptr());
        if made.is_ok() && libc::link(from, to) != 0 && errno() != libc::EEXIST {
            // A file system without links.
            libc::rename(from, to);
        }
        libc::unlink(from);
    }
    made
}

/// The same of a file of so many zeros, which `fill` finds mapped.
pub fn publish_mapped(
    directory: &Directory,
    path: &Path,
    prefix: &str,
    size: usize,
    fill: impl FnOnce(*mut u8),
) -> Result<(), c_int> {
    publish(directory, path, prefix, |file| {
        allocate(file.descriptor(), 0, size as u64)?;
        let mapped = file.map(0, size)?;
        fill(mapped);
        // SAFETY: mapped above with this size.
        unsafe { libc::munmap(mapped.cast(), size) };
        Ok(())
    })
}
