//! The file of a process on its way into the archive, block by block.

use super::addresses::{LibraryAddresses, ProcessAddresses};
use super::archive::PackArchive;
use super::files::PackedFile;
use super::meta;
use super::reading::{self, LiveFileReader};
use super::redact::Redaction;
use anyhow::Result;
use cupeer_record::Process;
use cupeer_record::plain::{self, SymbolicLinks};
use cupeer_spec::record::{BLOCK, BlockHeader, META_START, block};
use std::time::SystemTime;

/// Adds the file of a process to the archive. Returns problems: sentences without a subject.
pub fn add_process_file(
    member: &PackedFile,
    process: &Process,
    redaction: &Redaction,
    addresses: &mut LibraryAddresses,
    archive: &mut PackArchive,
) -> Result<Vec<String>> {
    let is_live = process.is_alive() != Some(false);
    let opened = plain::open(&member.path, SymbolicLinks::Refused).and_then(|file| {
        let modified = file.metadata()?.modified()?;
        Ok((LiveFileReader::open(file, is_live)?, modified))
    });
    let (file, modified) = match opened {
        Ok(opened) => opened,
        Err(error) => return Ok(vec![format!("cannot be read: {error}")]),
    };
    let modified = modified.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    archive.begin_file(&member.name, file.size, modified)?;
    let mut found = ProcessAddresses::default();
    let mut problems = Vec::new();
    let mut buffer = vec![0; BLOCK];
    let mut crowded = 0;
    for number in 0..file.size.div_ceil(BLOCK as u64) {
        let at = number * BLOCK as u64;
        let bytes = &mut buffer[..(file.size - at).min(BLOCK as u64) as usize];
        let problem = match file.read_block(number, bytes) {
            Ok(Some(())) => None,
            Ok(None) => Some("changed faster than it could be read: some events are missing".to_owned()),
            Err(error) => Some(format!("cannot be read completely: {error}")),
        };
        if let Some(problem) = problem {
            bytes.fill(0);
            if !problems.contains(&problem) {
                problems.push(problem);
            }
        }
        let start = entries_offset(number, bytes, redaction);
        match start {
            Some(start) => {
                crowded += meta::redact_block(bytes, start, redaction, |library| found.libraries.push(library))
            }
            None => found.add_block(bytes),
        }
        archive.write_bytes(bytes)?;
    }
    if crowded > 0 {
        problems.push(format!("{crowded} of its entries about the process do not fit, and are left out"));
    }
    addresses.add_process(process, found);
    Ok(problems)
}

/// Returns the offset of the entries about the process in a block that has some. Erases a block that cannot be redacted.
fn entries_offset(number: u64, bytes: &mut [u8], redaction: &Redaction) -> Option<usize> {
    match reading::block_header(bytes).map(|header| header.kind) {
        _ if number == 0 => Some(META_START),
        Some(block::META) => Some(size_of::<BlockHeader>()),
        Some(block::WINDOW | block::CHUNK | block::RING) => None,
        // The block belongs to a later version of cupeer, and its meaning is unknown.
        Some(1..) if redaction.redacted_kinds().is_empty() => None,
        // The block has no header yet, but may contain data already.
        _ => {
            bytes.fill(0);
            None
        }
    }
}
