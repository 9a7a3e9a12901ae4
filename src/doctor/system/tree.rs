//! Reads the kernel's files about itself, below a root that tests create. Reading leaves the root only through the
//! kernel's own links.

use std::ffi::{CString, OsStr};
use std::fmt;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Maximum number of bytes of a file that are read; the rest is ignored.
const LONGEST_FILE: u64 = 1 << 20;

/// Root directory of the kernel's files: `/`, or a test's directory with the same structure.
pub struct KernelFileTree {
    root: PathBuf,
}

/// Reason why a file could not be read.
#[derive(Debug)]
pub struct ReadFailure {
    path: String,
    error: io::Error,
}

impl ReadFailure {
    /// Returns true if the file does not exist, rather than being unreadable.
    pub fn is_not_found(&self) -> bool {
        matches!(self.error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    }

    /// Returns the system's error number, if the reason is an error of the system.
    pub fn errno(&self) -> Option<i32> {
        self.error.raw_os_error()
    }
}

impl fmt::Display for ReadFailure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.is_not_found() {
            return write!(f, "there is no {}", self.path);
        }
        let text = self.error.to_string();
        write!(f, "{}: {}", self.path, text.split(" (os error").next().unwrap_or(&text))
    }
}

pub type Readable<T> = Result<T, ReadFailure>;

impl KernelFileTree {
    pub fn new(root: impl Into<PathBuf>) -> KernelFileTree {
        KernelFileTree { root: root.into() }
    }

    /// Returns the path below this root for an absolute path of the machine.
    pub fn full_path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn with_path<T>(path: &str, result: io::Result<T>) -> Readable<T> {
        result.map_err(|error| ReadFailure { path: path.to_owned(), error })
    }

    /// Returns the bytes of a file.
    pub fn read_bytes(&self, path: &str) -> Readable<Vec<u8>> {
        let mut bytes = Vec::new();
        let read = std::fs::File::open(self.full_path(path)).and_then(|f| f.take(LONGEST_FILE).read_to_end(&mut bytes));
        KernelFileTree::with_path(path, read.map(|_| bytes))
    }

    /// Returns the text of a file, without white space around it.
    pub fn read_text(&self, path: &str) -> Readable<String> {
        Ok(String::from_utf8_lossy(&self.read_bytes(path)?).trim().to_owned())
    }

    /// Returns the target of a link.
    pub fn read_link(&self, path: &str) -> Readable<String> {
        let target = KernelFileTree::with_path(path, std::fs::read_link(self.full_path(path)))?;
        Ok(target.to_string_lossy().into_owned())
    }

    /// Returns the last part of the target of a link.
    pub fn read_link_name(&self, path: &str) -> Readable<String> {
        let target = self.read_link(path)?;
        Ok(target.rsplit('/').next().unwrap_or_default().to_owned())
    }

    /// Returns the sorted names of the entries of a directory.
    pub fn list_directory(&self, path: &str) -> Readable<Vec<String>> {
        let entries = KernelFileTree::with_path(path, std::fs::read_dir(self.full_path(path)))?;
        let mut names: Vec<String> =
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names)
    }

    pub fn exists(&self, path: &str) -> bool {
        self.full_path(path).symlink_metadata().is_ok()
    }

    /// Checks that this process may read and write a device, without opening it. The kernel checks the mode (EACCES)
    /// and the cgroup's list of devices (EPERM).
    pub fn check_access(&self, path: &str) -> Readable<()> {
        let text = c_path(&self.full_path(path));
        // SAFETY: the path is NUL-terminated.
        let result = unsafe { libc::access(text.as_ptr(), libc::R_OK | libc::W_OK) };
        KernelFileTree::with_path(path, if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) })
    }

    /// Returns the device, the size, and the free bytes of the file system that contains a path.
    pub fn file_system_of(&self, path: &str) -> Readable<FileSystemInfo> {
        use std::os::unix::fs::MetadataExt;
        let device = KernelFileTree::with_path(path, self.full_path(path).metadata())?.dev();
        let text = c_path(&self.full_path(path));
        // SAFETY: all-zero bytes are a valid statvfs, which the call fills; the path is NUL-terminated.
        let (result, stat) = unsafe {
            let mut stat: libc::statvfs = std::mem::zeroed();
            (libc::statvfs(text.as_ptr(), &mut stat), stat)
        };
        KernelFileTree::with_path(path, if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) })?;
        Ok(FileSystemInfo {
            device: format!("{}:{}", libc::major(device), libc::minor(device)),
            size: stat.f_blocks.saturating_mul(stat.f_frsize),
            free: stat.f_bavail.saturating_mul(stat.f_frsize),
        })
    }
}

pub struct FileSystemInfo {
    pub device: String,
    pub size: u64,
    pub free: u64,
}

fn c_path(path: &Path) -> CString {
    let bytes: &OsStr = path.as_os_str();
    CString::new(bytes.as_bytes()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_and_refused_files_are_told_apart() {
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(place.path().join("proc/driver")).unwrap();
        let tree = KernelFileTree::new(place.path());
        let absent = tree.read_text("/proc/cmdline").unwrap_err();
        assert_eq!((absent.is_not_found(), absent.to_string().as_str()), (true, "there is no /proc/cmdline"));
        let refused = tree.read_text("/proc/driver").unwrap_err();
        assert_eq!((refused.is_not_found(), refused.to_string().as_str()), (false, "/proc/driver: Is a directory"));
    }
}
