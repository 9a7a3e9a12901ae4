//! The bytes of a file: mapped, or decompressed.
//!
//! Files are mapped because the largest libraries have gigabytes of debugging information, most of which no address needs.
//! A file that is truncated while it is read ends the command by SIGBUS.

use memmap2::Mmap;
use stable_deref_trait::{CloneStableDeref, StableDeref};
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

/// Bytes of a file, mapped or decompressed, that several readers share.
#[derive(Clone)]
pub struct Bytes(Arc<dyn Deref<Target = [u8]> + Send + Sync>);

impl Bytes {
    /// Maps a whole file into memory.
    pub fn map(file: &File) -> io::Result<Bytes> {
        // SAFETY: the mapping is private and only read. Another process can change the file; readers check all that
        // they take from it.
        Ok(Bytes(Arc::new(unsafe { Mmap::map(file)? })))
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(bytes: Vec<u8>) -> Bytes {
        Bytes(Arc::new(bytes))
    }
}

impl Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

// SAFETY: the bytes are those of a mapping or a vector behind an `Arc`, which nobody changes: they stay at their address.
unsafe impl StableDeref for Bytes {}
// SAFETY: a clone shares the `Arc`, and derefs to the same bytes.
unsafe impl CloneStableDeref for Bytes {}
