//! Opens files in directories where other users may create theirs, and beside threads that close or reuse our
//! descriptors.
//!
//! It follows no link of another user, never waits for the other end of a pipe, and maps only the file that was
//! opened, with the bytes that it has.

use super::errno::errno;
use super::{descriptors, pages};
use core::ffi::{CStr, c_int};
use core::mem::MaybeUninit;
use core::ptr;
use cupeer_spec::trust::{self, FileOwnership};

#[derive(Clone, Copy)]
pub struct FileInfo {
    /// Device and inode of the file.
    pub identity: (u64, u64),
    pub size: u64,
    /// Owner, mode, and number of hard links of the file.
    pub ownership: FileOwnership,
}

fn query_file_info(ask: impl FnOnce(*mut libc::stat) -> c_int) -> Option<FileInfo> {
    let mut about = MaybeUninit::<libc::stat>::uninit();
    if ask(about.as_mut_ptr()) != 0 {
        return None;
    }
    // SAFETY: the call has succeeded, and has filled it.
    let about = unsafe { about.assume_init() };
    Some(FileInfo {
        identity: (about.st_dev, about.st_ino),
        size: about.st_size as u64,
        ownership: FileOwnership { owner: about.st_uid, mode: about.st_mode, names: about.st_nlink as _ },
    })
}

impl FileInfo {
    /// Returns the information about the file of a descriptor.
    pub fn of(file: c_int) -> Option<FileInfo> {
        // SAFETY: the pointer is that of a stat.
        query_file_info(|about| unsafe { libc::fstat(file, about) })
    }

    /// Returns the information about the file at a path.
    pub fn at(path: &CStr, flags: c_int) -> Option<FileInfo> {
        // SAFETY: the path ends in NUL, and the pointer is that of a stat.
        query_file_info(|about| unsafe { libc::fstatat(libc::AT_FDCWD, path.as_ptr(), about, flags) })
    }

    fn is_plain(&self) -> bool {
        self.ownership.mode & libc::S_IFMT == libc::S_IFREG
    }
}

/// Returns the device and the inode of the file of a descriptor.
pub fn identity(file: c_int) -> Option<(u64, u64)> {
    FileInfo::of(file).map(|about| about.identity)
}

/// An open plain file of ours, with a high descriptor. It is closed when the value is dropped.
pub struct OpenedFile {
    descriptor: c_int,
    about: FileInfo,
}

impl OpenedFile {
    /// Creates a new file. Fails if a file with this path exists.
    pub fn create(path: &CStr, mode: libc::mode_t) -> Result<OpenedFile, c_int> {
        OpenedFile::open_with(path, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW, mode)
    }

    /// Creates a file without a name in a directory. The file gets a name when its descriptor is linked.
    pub fn create_unnamed(directory: &CStr, mode: libc::mode_t) -> Result<OpenedFile, c_int> {
        OpenedFile::open_with(directory, libc::O_RDWR | libc::O_TMPFILE, mode)
    }

    /// Creates a file in memory, for file systems without unnamed files. The file never gets a name.
    pub fn create_in_memory() -> Result<OpenedFile, c_int> {
        OpenedFile::open_with_high_descriptor(|| {
            // The system call is made by its number, because glibc has a function for it only since 2.27.
            // SAFETY: the name ends in NUL.
            unsafe { libc::syscall(libc::SYS_memfd_create, c"cupeer".as_ptr(), libc::MFD_CLOEXEC) as c_int }
        })
    }

    /// Opens an existing file with the flags `access`. Follows no link of another user.
    pub fn open(path: &CStr, access: c_int) -> Result<OpenedFile, c_int> {
        OpenedFile::open_with(path, access | libc::O_NOFOLLOW, 0)
    }

    /// Opens a file at a path that the user or the launcher chose, and that may be a link.
    pub fn open_following_links(path: &CStr, access: c_int) -> Result<OpenedFile, c_int> {
        OpenedFile::open_with(path, access, 0)
    }

    fn open_with(path: &CStr, flags: c_int, mode: libc::mode_t) -> Result<OpenedFile, c_int> {
        let flags = flags | libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC;
        let mut made = 0;
        OpenedFile::open_with_high_descriptor(|| {
            // SAFETY: the path ends in NUL.
            let low = unsafe { libc::open(path.as_ptr(), flags & !made, libc::c_uint::from(mode)) };
            // A second call must not create the file again.
            made = libc::O_CREAT | libc::O_EXCL;
            low
        })
    }

    /// Opens a file, and duplicates its descriptor to a high number.
    fn open_with_high_descriptor(mut open: impl FnMut() -> c_int) -> Result<OpenedFile, c_int> {
        for _ in 0..8 {
            let low = open();
            if low < 0 {
                return Err(errno());
            }
            let Some(about) = FileInfo::of(low) else { continue };
            let opened = OpenedFile { descriptor: low, about };
            if !about.is_plain() {
                return Err(libc::EINVAL);
            }
            let high = descriptors::duplicate_high(low);
            if high < 0 {
                // A low descriptor suffices, unless it is that of a standard stream: text that the program writes to a stream
                // that it closed must not go to our file.
                return if low > libc::STDERR_FILENO { Ok(opened) } else { Err(libc::EMFILE) };
            }
            let moved = OpenedFile { descriptor: high, about };
            if moved.is_unchanged() {
                return Ok(moved);
            }
        }
        Err(libc::ESTALE)
    }

    pub fn info(&self) -> FileInfo {
        self.about
    }

    /// Returns the descriptor. It may be used only for a call that is made immediately.
    pub fn descriptor(&self) -> c_int {
        self.descriptor
    }

    /// Returns true if our descriptor still refers to the file that was opened.
    fn is_unchanged(&self) -> bool {
        identity(self.descriptor) == Some(self.about.identity)
    }

    /// Returns the descriptor, and leaves it open.
    pub fn keep_open(self) -> c_int {
        let descriptor = self.descriptor;
        core::mem::forget(self);
        descriptor
    }

    /// Maps existing bytes of the file as shared memory.
    pub fn map(&self, at: u64, size: usize) -> Result<*mut u8, c_int> {
        map(ptr::null_mut(), self.descriptor, self.about.identity, at, size)
    }
}

impl Drop for OpenedFile {
    fn drop(&mut self) {
        if self.is_unchanged() {
            // SAFETY: ours, as was just looked at.
            unsafe { libc::close(self.descriptor) };
        }
    }
}

/// Maps bytes of a file as shared memory, if the descriptor still refers to the file with this identity. If `place` is not null,
/// the mapping replaces the memory there. [`libc::ESTALE`] means that the descriptor refers to another file.
pub fn map(place: *mut u8, descriptor: c_int, identity: (u64, u64), at: u64, size: usize) -> Result<*mut u8, c_int> {
    let fixed = if place.is_null() { 0 } else { libc::MAP_FIXED };
    let mapped = pages::map(place.cast(), size, libc::MAP_SHARED | fixed, descriptor, at)?;
    // The checks must come after the mapping, which has the file of that moment. Accessing bytes that the file lacks raises
    // SIGBUS.
    let error = match FileInfo::of(descriptor) {
        Some(now) if now.identity != identity => libc::ESTALE,
        Some(now) if now.size < at + size as u64 => libc::EIO,
        Some(_) => return Ok(mapped),
        None => libc::ESTALE,
    };
    if place.is_null() {
        // SAFETY: mapped above with this size, and nobody else's yet.
        unsafe { libc::munmap(mapped.cast(), size) };
    } else {
        // Other threads may still read that memory: they then find zeros.
        let _ = pages::map(place.cast(), size, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | fixed, -1, 0);
    }
    Err(error)
}

/// Opens the file of a log for appending, after creating it if it does not exist. The user named the file, so it may be a link, a
/// pipe, or a terminal; only a file that another user may have put there is refused. Returns a low descriptor.
pub fn open_log_file(path: &mut [u8]) -> Result<c_int, c_int> {
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CLOEXEC | libc::O_NOCTTY | libc::O_NONBLOCK;
    // SAFETY: geteuid has no preconditions.
    let user = unsafe { libc::geteuid() };
    let directory = ownership_of_directory(path).ok_or(libc::ENOENT)?;
    let path = CStr::from_bytes_until_nul(path).map_err(|_| libc::ENAMETOOLONG)?;
    // SAFETY: the path ends in NUL.
    let open = |flags: c_int| match unsafe { libc::open(path.as_ptr(), flags, 0o600) } {
        file if file < 0 => Err(errno()),
        file => Ok(file),
    };
    for _ in 0..4 {
        let file = match open(flags | libc::O_NOFOLLOW) {
            Err(libc::ENOENT) => match open(flags | libc::O_CREAT | libc::O_EXCL) {
                Err(libc::EEXIST) => continue,
                made => return made,
            },
            Err(libc::ELOOP) => {
                let link = FileInfo::at(path, libc::AT_SYMLINK_NOFOLLOW).ok_or(libc::ELOOP)?;
                if !trust::can_follow_link(link.ownership, directory, user) {
                    return Err(libc::ELOOP);
                }
                return open(flags | libc::O_CREAT);
            }
            other => other?,
        };
        if FileInfo::of(file).is_some_and(|about| trust::can_append(about.ownership, directory, user)) {
            return Ok(file);
        }
        // SAFETY: opened above.
        unsafe { libc::close(file) };
        return Err(libc::EPERM);
    }
    Err(libc::EEXIST)
}

/// Returns the owner and the mode of the directory that contains a path.
fn ownership_of_directory(path: &mut [u8]) -> Option<FileOwnership> {
    let end = path.iter().position(|byte| *byte == 0)?;
    let Some(slash) = path[..end].iter().rposition(|byte| *byte == b'/') else {
        return FileInfo::at(c".", 0).map(|about| about.ownership);
    };
    // A copy of the path would be large for the stack, so the path itself is cut after the slash for a moment.
    let first = core::mem::replace(&mut path[slash + 1], 0);
    let found = CStr::from_bytes_until_nul(path).ok().and_then(|path| FileInfo::at(path, 0));
    path[slash + 1] = first;
    found.map(|about| about.ownership)
}
