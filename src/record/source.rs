//! Where bytes come from: a file, or memory.
//!
//! What belongs here: reading at a place, as far as there is something to read. Files are read and never mapped,
//! because a mapped file that somebody truncates kills the reader.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Something that is read.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file, which is opened when it is read.
    File(PathBuf),
    /// Bytes.
    Bytes(Arc<[u8]>),
}

impl From<&Path> for Source {
    fn from(path: &Path) -> Source {
        Source::File(path.to_path_buf())
    }
}

impl From<Vec<u8>> for Source {
    fn from(bytes: Vec<u8>) -> Source {
        Source::Bytes(bytes.into())
    }
}

impl Source {
    /// Opens it for reading.
    pub(crate) fn open(&self) -> io::Result<Opened> {
        match self {
            Source::File(path) => {
                let file = File::open(path)?;
                // To open a pipe would wait for somebody to write; `job` looks before, this is for the rest.
                if !file.metadata()?.is_file() {
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
                }
                Ok(Opened::File(file))
            }
            Source::Bytes(bytes) => Ok(Opened::Bytes(bytes.clone())),
        }
    }
}

/// What was opened.
#[derive(Debug)]
pub(crate) enum Opened {
    File(File),
    Bytes(Arc<[u8]>),
}

impl Opened {
    /// How many bytes there are, now.
    pub(crate) fn size(&self) -> io::Result<u64> {
        match self {
            Opened::File(file) => Ok(file.metadata()?.len()),
            Opened::Bytes(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Fills the buffer from a place on, and says how far that went: less than all only at the end.
    pub(crate) fn read(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            Opened::File(file) => {
                let mut had = 0;
                while had < buffer.len() {
                    match file.read_at(&mut buffer[had..], at.saturating_add(had as u64)) {
                        Ok(0) => break,
                        Ok(more) => had += more,
                        Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                        Err(error) => return Err(error),
                    }
                }
                Ok(had)
            }
            Opened::Bytes(bytes) => {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
                let had = rest.len().min(buffer.len());
                buffer[..had].copy_from_slice(&rest[..had]);
                Ok(had)
            }
        }
    }

    /// Where, from a place on, there is something: files are made longer before they are written, and what was
    /// not written is a hole.
    pub(crate) fn next_data(&self, at: u64) -> u64 {
        let Opened::File(file) = self else { return at };
        let Ok(offset) = libc::off_t::try_from(at) else { return at };
        // SAFETY: the descriptor is open, and the call touches no memory of ours. Nobody uses the file's position.
        let data = unsafe { libc::lseek(file.as_raw_fd(), offset, libc::SEEK_DATA) };
        match u64::try_from(data) {
            Ok(data) => data.max(at),
            Err(_) if io::Error::last_os_error().raw_os_error() == Some(libc::ENXIO) => u64::MAX,
            Err(_) => at,
        }
    }

    /// Fills the whole buffer, or says false.
    pub(crate) fn read_all(&self, buffer: &mut [u8], at: u64) -> io::Result<bool> {
        Ok(self.read(buffer, at)? == buffer.len())
    }
}
