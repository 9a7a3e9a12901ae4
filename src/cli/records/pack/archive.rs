//! The archive being written: compressed as it grows, under a temporary name until it is complete.

use super::FOLDER;
use anyhow::{Context, Result, bail, ensure};
use cupeer_recordings::made;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{BufWriter, Write};
use std::path::Path;
use tar::{EntryType, Header};
use tempfile::NamedTempFile;

/// Block size of an archive in bytes: files are padded to a multiple of it.
const BLOCK: u64 = 512;

/// Compression level. Higher levels take longer and make recordings no smaller.
const LEVEL: u32 = 2;

pub struct PackArchive {
    out: GzEncoder<BufWriter<NamedTempFile>>,
    /// Number of bytes of the current file that are still to be written.
    left: u64,
    padding: u64,
}

impl PackArchive {
    /// Begins an archive as a temporary file beside the output.
    pub fn create(output: &Path) -> Result<PackArchive> {
        let temporary = made::create_temporary(output, ".cupeer-pack-")?;
        let out = GzEncoder::new(BufWriter::with_capacity(1 << 16, temporary), Compression::new(LEVEL));
        Ok(PackArchive { out, left: 0, padding: 0 })
    }

    /// Begins a file of this size in the archive. The names of the file's owner are left out, because they
    /// are private.
    pub fn begin_file(&mut self, name: &str, size: u64, modified: u64) -> Result<()> {
        ensure!(self.left == 0, "the file before {name} is incomplete");
        let mut header = Header::new_gnu();
        header.set_path(format!("{FOLDER}/{name}"))?;
        header.set_entry_type(EntryType::Regular);
        header.set_size(size);
        header.set_mode(0o644);
        header.set_mtime(modified);
        header.set_uid(0);
        header.set_gid(0);
        header.set_cksum();
        self.write_raw(header.as_bytes())?;
        (self.left, self.padding) = (size, size.next_multiple_of(BLOCK) - size);
        self.write_padding()
    }

    /// Writes the next bytes of the current file.
    pub fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else { bail!("there is more than announced") };
        self.write_raw(bytes)?;
        self.left = left;
        self.write_padding()
    }

    pub fn add_file(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        self.begin_file(name, bytes.len() as u64, 0)?;
        if bytes.is_empty() { Ok(()) } else { self.write_bytes(bytes) }
    }

    fn write_padding(&mut self) -> Result<()> {
        if self.left == 0 {
            let padding = std::mem::take(&mut self.padding);
            self.write_raw(&[0; BLOCK as usize][..padding as usize])?;
        }
        Ok(())
    }

    fn write_raw(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).context("failed to write the archive")
    }

    /// Ends the archive, and renames it to the output. Returns its size in bytes.
    pub fn finish(mut self, output: &Path, replace: bool) -> Result<u64> {
        ensure!(self.left == 0, "the last file is incomplete");
        self.write_raw(&[0; 2 * BLOCK as usize])?;
        let failed = || format!("failed to write {}", output.display());
        let file = self.out.finish().with_context(failed)?;
        let file = file.into_inner().map_err(|error| error.into_error()).with_context(failed)?;
        made::rename_temporary(file, output, replace)
    }
}
