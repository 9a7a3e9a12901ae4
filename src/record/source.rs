//! The source of bytes: a file or memory.
//!
//! A read at a position returns as many bytes as exist. Files are read and never mapped, because truncating a mapped
//! file kills the reader.

use crate::plain::{self, SymbolicLinks};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Source of bytes.
#[derive(Clone, Debug)]
pub enum Source {
    /// File, opened when it is read.
    File(PathBuf),
    /// Bytes in memory.
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
    /// Returns the current size in bytes; 0 if it cannot be read.
    pub fn size(&self) -> u64 {
        self.open().and_then(|opened| opened.size()).unwrap_or(0)
    }

    pub(crate) fn open(&self) -> io::Result<OpenSource> {
        match self {
            Source::File(path) => Ok(OpenSource::File(plain::open(path, SymbolicLinks::Refused)?)),
            Source::Bytes(bytes) => Ok(OpenSource::Bytes(bytes.clone())),
        }
    }
}

/// Source that was opened.
#[derive(Debug)]
pub(crate) enum OpenSource {
    File(File),
    Bytes(Arc<[u8]>),
    /// Contents of the file at several times. Each call of [`OpenSource::size`] goes on to the next one.
    #[cfg(test)]
    Growing(std::sync::Mutex<std::collections::VecDeque<Arc<[u8]>>>),
}

impl OpenSource {
    /// Returns the current size in bytes.
    pub(crate) fn size(&self) -> io::Result<u64> {
        match self {
            OpenSource::File(file) => Ok(file.metadata()?.len()),
            OpenSource::Bytes(bytes) => Ok(bytes.len() as u64),
            #[cfg(test)]
            OpenSource::Growing(states) => {
                let mut states = states.lock().unwrap();
                let size = states[0].len() as u64;
                if states.len() > 1 {
                    states.pop_front();
                }
                Ok(size)
            }
        }
    }

    /// Fills the buffer from a position on, and returns the number of bytes: less than the buffer only at the end.
    pub(crate) fn read(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            OpenSource::File(file) => {
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
            OpenSource::Bytes(bytes) => {
                let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..)).unwrap_or(&[]);
                let had = rest.len().min(buffer.len());
                buffer[..had].copy_from_slice(&rest[..had]);
                Ok(had)
            }
            #[cfg(test)]
            OpenSource::Growing(states) => OpenSource::Bytes(states.lock().unwrap()[0].clone()).read(buffer, at),
        }
    }

    /// Returns the first position, at or after `at`, that is not in a hole. Files are extended before they
    /// are written, so an unwritten rest is a hole.
    pub(crate) fn next_data(&self, at: u64) -> u64 {
        match self {
            OpenSource::File(file) => plain::next_data_offset(file, at),
            _ => at,
        }
    }

    /// Fills the whole buffer. Returns false if there are not enough bytes.
    pub(crate) fn read_all(&self, buffer: &mut [u8], at: u64) -> io::Result<bool> {
        Ok(self.read(buffer, at)? == buffer.len())
    }
}
