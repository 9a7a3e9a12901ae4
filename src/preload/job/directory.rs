//! The directory of the job, created if it does not exist, and the key of its fingerprints.

use crate::settings::{self, key};
use crate::sys::allocate::allocate;
use crate::sys::clock;
use crate::sys::errno::errno;
use crate::sys::files::{self, PATH_MAX};
use crate::sys::line::{LineBuffer, ShortText};
use crate::sys::opened::{FileInfo, OpenedFile};
use crate::sys::process;
use crate::sys::process::{boot_id, tid};
use core::ffi::{CStr, c_int};
use core::fmt::Write;
use cupeer_spec::record::begun::HostFolder;
use cupeer_spec::record::job;

/// A path that ends in NUL. It is large for the stack, but few functions have one, and they run once per process.
pub type Path = [u8; PATH_MAX];

pub struct Directory {
    pub path: Path,
    /// Mode of new files in the directory.
    pub mode: libc::mode_t,
}

impl Directory {
    /// Returns the path of the file `name` in the directory. Fails if the path is too long.
    pub fn path_of(&self, name: &str) -> Result<Path, c_int> {
        let length = self.path.iter().position(|byte| *byte == 0).unwrap_or(0);
        let mut path = self.path;
        let place = path.get_mut(length..length + 1 + name.len() + 1).ok_or(libc::ENAMETOOLONG)?;
        place[0] = b'/';
        place[1..=name.len()].copy_from_slice(name.as_bytes());
        place[name.len() + 1] = 0;
        Ok(path)
    }

    /// Runs `work` with the subdirectory for this host, which is created if it does not exist. Tries again if another process
    /// removed the subdirectory in between.
    pub fn in_folder<T>(&self, mut work: impl FnMut(&Directory) -> Result<T, c_int>) -> Result<T, c_int> {
        for _ in 0..8 {
            let folder = self.folder_of_host()?;
            create(&folder.path, self.mode != OWN);
            match work(&folder) {
                Err(libc::ENOENT) => {}
                done => return done,
            }
        }
        Err(libc::ENOENT)
    }

    /// Returns the subdirectory for this host, which may not exist.
    pub fn folder_of_host(&self) -> Result<Directory, c_int> {
        let path = self.path_of(ShortText::<24>::new(format_args!("{}", HostFolder(boot_id()))).text())?;
        Ok(Directory { path, mode: self.mode })
    }

    /// Opens a file of the directory for reading and writing, if the file's owner is trusted.
    pub fn open(&self, path: &Path) -> Result<OpenedFile, c_int> {
        let file = OpenedFile::open(c_path(path), libc::O_RDWR)?;
        if self.trusts(file.info().ownership.owner) { Ok(file) } else { Err(libc::EPERM) }
    }

    /// Adds a line to a file of the directory, which is created if it does not exist. The line is written at once, because other
    /// processes may add lines at the same time.
    pub fn add_line(&self, name: &str, line: &[u8]) -> Result<(), c_int> {
        let path = self.path_of(name)?;
        for _ in 0..4 {
            let file = match OpenedFile::open(c_path(&path), libc::O_WRONLY | libc::O_APPEND) {
                Err(libc::ENOENT) => {
                    create_complete_file(self, &path, ".new", |_| Ok(()))?;
                    continue;
                }
                found => found?,
            };
            if !self.trusts(file.info().ownership.owner) {
                return Err(libc::EPERM);
            }
            files::write(file.descriptor(), line)?;
            // A command that reduces the recording removes the file, and then reads it a last time. So the line is lost only if
            // the file has no name any more.
            if FileInfo::of(file.descriptor()).is_none_or(|about| about.ownership.names != 0) {
                return Ok(());
            }
        }
        Err(libc::ENOENT)
    }

    /// Returns true if a file of this owner can be mapped: the file belongs to us, or the recording is shared with other users.
    /// If another user shortened a mapped file, reading it would end the program.
    pub fn trusts(&self, owner: u32) -> bool {
        let is_shared = settings::get().record.as_ref().is_some_and(|record| record.shared);
        is_shared || self.is_of_user(owner)
    }

    /// Returns true if a file of this owner belongs to our user or to root, even if the recording is shared.
    pub fn is_of_user(&self, owner: u32) -> bool {
        // SAFETY: geteuid has no preconditions.
        owner == unsafe { libc::geteuid() } || owner == 0 || self.owner_of_new() == Some(owner)
    }

    /// Returns the owner of a new file that we create here. A network file system can map root to another user, and containers
    /// map users.
    fn owner_of_new(&self) -> Option<u32> {
        let path = self.temporary_path(".owner").ok()?;
        let made = OpenedFile::create(c_path(&path), self.mode).ok()?;
        // SAFETY: the path ends in NUL.
        unsafe { libc::unlink(c_path(&path).as_ptr()) };
        Some(made.info().ownership.owner)
    }

    /// Returns the path of a temporary file that no other thread uses.
    fn temporary_path(&self, prefix: &str) -> Result<Path, c_int> {
        self.path_of(ShortText::<64>::new(format_args!("{prefix}-{}-{:x}", tid(), clock::realtime())).text())
    }
}

/// Returns a path as a C string.
pub fn c_path(path: &Path) -> &CStr {
    CStr::from_bytes_until_nul(path).unwrap_or_default()
}

/// Returns the directory of this process's record. Creates the directory and its key if they do not exist.
pub fn directory() -> Result<Directory, c_int> {
    let record = settings::get().record.as_ref().ok_or(libc::ENOENT)?;
    let directory = configured_directory().ok_or(libc::ENAMETOOLONG)?;
    create(&directory.path, record.shared);
    adopt_or_create_key(&directory)?;
    Ok(directory)
}

/// Returns the directory of this process's record without creating it; `None` if the settings ask for no record, or if its path
/// is too long.
pub fn configured_directory() -> Option<Directory> {
    let record = settings::get().record.as_ref()?;
    let mut path = [0; PATH_MAX];
    files::expand(&record.directory, process::recording_owner_pid(), &mut path)?;
    Some(Directory { path, mode: if record.shared { 0o660 } else { OWN } })
}

/// Mode of files that only our user can read and write.
const OWN: libc::mode_t = 0o600;

/// Creates a directory if it does not exist. `shared` is true if other users may write to it.
fn create(path: &Path, shared: bool) {
    let mode = if shared { 0o2770 } else { 0o700 };
    // SAFETY: the path ends in NUL.
    if unsafe { libc::mkdir(c_path(path).as_ptr(), mode) } == 0 && shared {
        // umask may have cleared bits of the mode. They are restored through a descriptor, because another user may have put a
        // link at the path.
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        // SAFETY: the path ends in NUL; if it cannot be opened, the other calls fail.
        unsafe {
            let made = libc::open(c_path(path).as_ptr(), flags);
            libc::fchmod(made, mode);
            libc::close(made);
        }
    }
}

/// Returns true if a directory is on a network file system: there, shared mappings on several hosts are not the same memory.
pub fn is_remote(directory: &Path) -> bool {
    /// Types of network file systems, as statfs returns them: NFS, SMB (three), AFS, Ceph, GPFS, Lustre, BeeGFS, 9P, and Coda.
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
        libc::statfs(c_path(directory).as_ptr(), &mut about) == 0 && REMOTE.contains(&(about.f_type & 0xffff_ffff))
    }
}

/// Adopts the key for fingerprints from the file of the job. If there is no such file, creates it with the key of this process.
fn adopt_or_create_key(directory: &Directory) -> Result<(), c_int> {
    let file = directory.path_of(job::FILE)?;
    let mut text = [0; 512];
    match read_job(directory, &file, &mut text) {
        Err(libc::ENOENT) => {}
        read => {
            take_key(&text[..read?]);
            return Ok(());
        }
    }
    let mut key = settings::get().fingerprint_key;
    if key == [0; 16] {
        // The system call is made by its number, because glibc has a function for it only since 2.25.
        // SAFETY: the buffer has the length that is given.
        unsafe { libc::syscall(libc::SYS_getrandom, key.as_mut_ptr(), key.len(), 0) };
    }
    let mut line = LineBuffer::new();
    let _ = writeln!(line, "{}\n{}={:032x}", job::FIRST_LINE, job::KEY, u128::from_be_bytes(key));
    create_complete_file(directory, &file, ".job", |new| files::write(new.descriptor(), line.bytes()))?;
    let length = read_job(directory, &file, &mut text)?;
    take_key(&text[..length]);
    Ok(())
}

/// Reads the file of the job into `text`, if it belongs to the directory's owner or to us, or if the recording is shared. Returns
/// the length.
fn read_job(directory: &Directory, path: &Path, text: &mut [u8]) -> Result<usize, c_int> {
    let file = OpenedFile::open(c_path(path), libc::O_RDONLY)?;
    let owner = file.info().ownership.owner;
    let is_owners = || FileInfo::at(c_path(&directory.path), 0).is_some_and(|about| about.ownership.owner == owner);
    if directory.trusts(owner) || is_owners() { files::read_from(file.descriptor(), text) } else { Err(libc::EPERM) }
}

fn take_key(text: &[u8]) {
    if let Some(found) = job::find_key_digits(text).and_then(job::parse_key) {
        key::adopt(found);
    }
}

/// Creates a file of the directory. Fills it under a temporary name first, so that other processes only see it complete. If
/// another process created the file first, that file stays.
pub fn create_complete_file(
    directory: &Directory,
    path: &Path,
    prefix: &str,
    fill: impl FnOnce(&OpenedFile) -> Result<(), c_int>,
) -> Result<(), c_int> {
    let temporary = directory.temporary_path(prefix)?;
    let file = OpenedFile::create(c_path(&temporary), directory.mode)?;
    let made = fill(&file);
    // SAFETY: the paths end in NUL; the descriptor was opened above.
    unsafe {
        // umask may have cleared bits of the mode.
        libc::fchmod(file.descriptor(), directory.mode);
        drop(file);
        let (from, to) = (c_path(&temporary).as_ptr(), c_path(path).as_ptr());
        if made.is_ok() && libc::link(from, to) != 0 && errno() != libc::EEXIST {
            // The file system has no hard links.
            libc::rename(from, to);
        }
        libc::unlink(from);
    }
    made
}

/// Creates a file as [`create_complete_file`] does. It has `size` bytes, which are zero at first. `fill` receives the
/// address of the mapped file.
pub fn create_mapped_file(
    directory: &Directory,
    path: &Path,
    prefix: &str,
    size: usize,
    fill: impl FnOnce(*mut u8),
) -> Result<(), c_int> {
    create_complete_file(directory, path, prefix, |file| {
        allocate(file.descriptor(), 0, size as u64)?;
        let mapped = file.map(0, size)?;
        fill(mapped);
        // SAFETY: mapped above with this size.
        unsafe { libc::munmap(mapped.cast(), size) };
        Ok(())
    })
}
