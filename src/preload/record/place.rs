//! The directory of the job: made where it is not there, with the key of its fingerprints.

use crate::files::{self, PATH_MAX, errno};
use crate::log;
use crate::settings::{self, job_key};
use core::ffi::{CStr, c_int};
use core::fmt::Write;
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
}

/// A path for C.
pub fn c_path(path: &Path) -> &CStr {
    CStr::from_bytes_until_nul(path).unwrap_or_default()
}

/// The directory of this process's record.
pub fn directory() -> Result<Directory, c_int> {
    let record = settings::get().record.as_ref().ok_or(libc::ENOENT)?;
    // SAFETY: getpid has no preconditions.
    let pid = unsafe { libc::getpid() } as u32;
    let mut path = [0; PATH_MAX];
    files::expand(&record.directory, pid, &mut path).ok_or(libc::ENAMETOOLONG)?;
    let (mode, folder_mode) = if record.shared { (0o660, 0o2770) } else { (0o600, 0o700) };
    let directory = Directory { path, mode };
    // SAFETY: the path ends in NUL.
    if unsafe { libc::mkdir(c_path(&path).as_ptr(), folder_mode) } == 0 && record.shared {
        // What umask has taken away.
        // SAFETY: as above.
        unsafe { libc::chmod(c_path(&path).as_ptr(), folder_mode) };
    }
    share_key(&directory)?;
    Ok(directory)
}

/// Whether the directory of a file lies on a file system of which several hosts, or caches of one, may show different
/// content: a shared mapping is not one memory there.
pub fn is_remote(file: &Path) -> bool {
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
    let mut directory = *file;
    let end = c_path(file).to_bytes().iter().rposition(|byte| *byte == b'/').unwrap_or(0);
    directory[end] = 0;
    // SAFETY: all-zero bytes are a statfs; the path ends in NUL, and the call writes to a variable of ours.
    unsafe {
        let mut about: libc::statfs = core::mem::zeroed();
        libc::statfs(c_path(&directory).as_ptr(), &mut about) == 0
            && REMOTE.contains(&(about.f_type & 0xffff_ffff))
    }
}

/// Takes over the key of the job, or brings our own.
fn share_key(directory: &Directory) -> Result<(), c_int> {
    let file = directory.file(job::FILE)?;
    let mut text = [0; 512];
    if let Ok(length) = read(c_path(&file), &mut text) {
        take_key(&text[..length]);
        return Ok(());
    }
    let mut key = settings::get().job;
    if key == [0; 16] {
        // SAFETY: the buffer has the length that is given.
        unsafe { libc::getrandom(key.as_mut_ptr().cast(), key.len(), 0) };
    }
    let mut line = log::Line::new();
    let _ = writeln!(line, "{}", job::FIRST_LINE);
    let _ = write!(line, "{}=", job::KEY);
    for byte in key {
        let _ = write!(line, "{byte:02x}");
    }
    let _ = writeln!(line);
    publish(directory, &file, ".job", |new| files::write(new, line.bytes()))?;
    let length = read(c_path(&file), &mut text)?;
    take_key(&text[..length]);
    Ok(())
}

fn take_key(text: &[u8]) {
    let mut lines = text.split(|byte| *byte == b'\n');
    let key = lines.find_map(|line| line.strip_prefix(job::KEY.as_bytes())?.strip_prefix(b"="));
    if let Some(key) = key.and_then(job_key) {
        log::use_key(key);
    }
}

/// Makes a file of the directory, which `fill` fills by its descriptor, under a name of its own first: who finds the file
/// finds it whole. Where another process was faster, its file stays.
pub fn publish(
    directory: &Directory,
    path: &Path,
    prefix: &str,
    fill: impl FnOnce(c_int) -> Result<(), c_int>,
) -> Result<(), c_int> {
    // SAFETY: gettid has no preconditions.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) };
    let name = log::Short::<64>::new(format_args!("{prefix}-{tid}-{:x}", log::realtime()));
    let temporary = directory.file(name.text())?;
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
    // SAFETY: the path ends in NUL.
    let file = unsafe { libc::open(c_path(&temporary).as_ptr(), flags, directory.mode) };
    if file < 0 {
        return Err(errno());
    }
    let made = fill(file);
    // SAFETY: the paths end in NUL; the descriptor was opened above.
    unsafe {
        // What umask has taken away.
        libc::fchmod(file, directory.mode);
        libc::close(file);
        let (from, to) = (c_path(&temporary).as_ptr(), c_path(path).as_ptr());
        if made.is_ok() && libc::link(from, to) != 0 && errno() != libc::EEXIST {
            // A file system without links.
            libc::rename(from, to);
        }
        libc::unlink(from);
    }
    made
}

/// Reads the begin of a file, as much as there is room for.
pub fn read(path: &CStr, place: &mut [u8]) -> Result<usize, c_int> {
    // SAFETY: the path ends in NUL.
    let file = unsafe {
        libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK)
    };
    if file < 0 {
        return Err(errno());
    }
    let mut length = 0;
    while length < place.len() {
        let rest = &mut place[length..];
        // SAFETY: the rest has that many bytes.
        let read = unsafe { libc::read(file, rest.as_mut_ptr().cast(), rest.len()) };
        if read <= 0 {
            break;
        }
        length += read as usize;
    }
    // SAFETY: opened above.
    unsafe { libc::close(file) };
    Ok(length)
}
