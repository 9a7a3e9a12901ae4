//! Plain files, in directories where other users may create theirs.
//!
//! Opening never waits, creating never follows a link, and the amount that is read has a limit. A named pipe would
//! block, a device or a sparse file would be read until the memory is full, and a link leads to a place that another
//! user chose.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Error, ErrorKind, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Treatment of a symbolic link at the end of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SymbolicLinks {
    /// The link is followed, because a user gave the path.
    Followed,
    /// The link is refused, because cupeer chose the name, and another user may have created the link.
    Refused,
}

/// Opens a plain file for reading. Any other kind of file is an error.
pub fn open(path: &Path, links: SymbolicLinks) -> io::Result<File> {
    open_with(path, links, OpenOptions::new().read(true))
}

/// Opens an existing plain file with these options. Any other kind of file is an error.
pub fn open_with(path: &Path, links: SymbolicLinks, options: &OpenOptions) -> io::Result<File> {
    // Check before opening, because opening a device may have effects; and check again afterwards, because
    // the path may lead to another file by then.
    let link = match links {
        SymbolicLinks::Followed => path.metadata().and_then(|found| check_plain_file(found.file_type())).map(|()| 0),
        SymbolicLinks::Refused => {
            path.symlink_metadata().and_then(|found| check_plain_file(found.file_type())).map(|()| libc::O_NOFOLLOW)
        }
    };
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | link?;
    let file = options.clone().custom_flags(flags).open(path)?;
    check_plain_file(file.metadata()?.file_type())?;
    Ok(file)
}

fn check_plain_file(found: FileType) -> io::Result<()> {
    let what = match found {
        _ if found.is_file() => return Ok(()),
        _ if found.is_dir() => "a directory",
        _ if found.is_symlink() => "a link",
        _ if found.is_fifo() => "a pipe",
        _ => "a device",
    };
    Err(Error::new(ErrorKind::InvalidInput, format!("it is {what}, not a file")))
}

/// Reads a whole plain file of at most `most` bytes. A larger file is an error.
pub fn read(path: &Path, links: SymbolicLinks, most: u64) -> io::Result<Vec<u8>> {
    read_rest(&open(path, links)?, most)
}

/// Reads the rest of an open file. More than `most` bytes are an error.
pub fn read_rest(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // A file may grow while it is being read.
    if file.metadata()?.len() > most || file.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
        let size = if most >> 20 > 0 { format!("{} MiB", most >> 20) } else { format!("{} KiB", most >> 10) };
        return Err(Error::new(ErrorKind::InvalidData, format!("the file is larger than {size}")));
    }
    Ok(bytes)
}

/// Returns the first position from `at` on that is not in a hole of the file. Moves the file's own position.
pub fn next_data_offset(file: &File, at: u64) -> u64 {
    seek(file, at, libc::SEEK_DATA).unwrap_or(at)
}

/// Returns how many bytes of a file are holes, which may take arbitrarily long to read. Changes the position of the
/// file.
pub fn count_hole_bytes(file: &File) -> io::Result<u64> {
    let (mut at, mut holes, size) = (0, 0, file.metadata()?.len());
    while at < size {
        let data = next_data_offset(file, at).min(size);
        holes += data - at;
        at = seek(file, data, libc::SEEK_HOLE).filter(|hole| *hole > data).unwrap_or(size);
    }
    Ok(holes)
}

/// Returns the result of `lseek`; `None` if the file system does not support this kind of seek.
fn seek(file: &File, at: u64, what: libc::c_int) -> Option<u64> {
    let offset = libc::off_t::try_from(at).ok()?;
    // SAFETY: the descriptor is open, and the call touches no memory of ours.
    match u64::try_from(unsafe { libc::lseek(file.as_raw_fd(), offset, what) }) {
        Ok(found) => Some(found.max(at)),
        Err(_) => (Error::last_os_error().raw_os_error() == Some(libc::ENXIO)).then_some(u64::MAX),
    }
}

/// Creates a file for writing. An existing file is an error, and so is a link to nowhere.
pub fn create(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn holes_are_found() {
        use std::os::unix::fs::FileExt;
        let folder = tempfile::tempdir().unwrap();
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(folder.path().join("f")).unwrap();
        file.set_len(1 << 40).unwrap();
        if next_data_offset(&file, 0) == 0 {
            return eprintln!("left out: this file system does not say where holes are");
        }
        file.write_all_at(&[1; 4096], 1 << 30).unwrap();
        assert_eq!((next_data_offset(&file, 0), next_data_offset(&file, (1 << 30) + 4096)), (1 << 30, u64::MAX));
        assert_eq!(count_hole_bytes(&file).unwrap(), (1 << 40) - 4096);
    }

    #[test]
    fn nothing_but_plain_files_of_some_size_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        File::create(at("sparse")).unwrap().set_len(1 << 40).unwrap();
        let pipe = std::ffi::CString::new(at("pipe").into_os_string().into_encoded_bytes()).unwrap();
        // SAFETY: the path ends in NUL.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        let said = |name: &str, links| read(&at(name), links, 2048).unwrap_err().to_string();
        assert_eq!(read(&at("file"), SymbolicLinks::Refused, 4).unwrap(), b"text");
        assert_eq!(read(&at("link"), SymbolicLinks::Followed, 4).unwrap(), b"text");
        assert_eq!(said("link", SymbolicLinks::Refused), "it is a link, not a file");
        assert_eq!(said("pipe", SymbolicLinks::Followed), "it is a pipe, not a file");
        assert_eq!(said("zero", SymbolicLinks::Followed), "it is a device, not a file");
        assert_eq!(said("", SymbolicLinks::Followed), "it is a directory, not a file");
        assert_eq!(said("sparse", SymbolicLinks::Refused), "the file is larger than 2 KiB");
        symlink("nowhere", at("dangling")).unwrap();
        for there in ["file", "link", "dangling", "pipe"] {
            assert_eq!(create(&at(there), 0o600).unwrap_err().kind(), ErrorKind::AlreadyExists, "{there}");
        }
        assert!(create(&at("new"), 0o600).is_ok() && !at("nowhere").exists());
    }
}
