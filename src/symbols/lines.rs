//! The lines of source of one ELF file, from its DWARF: the functions that were inlined at an address, and the line of
//! each.
//!
//! It reads the debugging information of a file. [`super::files`] selects the files, and [`super::table`] handles
//! functions without debugging information.

use super::bounded::{LimitedReader, ReadLimits};
use super::demangle;
use super::mapped::Bytes;
use super::symbol::SourceLine;
use addr2line::{Context, Location};
use gimli::{Dwarf, SectionId};
use object::read::{CompressedData, CompressedFileRange, CompressionFormat};
use object::{Object, ObjectSection};
use std::fmt::Display;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

/// Largest number of bytes of debugging information that are decompressed for a report. Four times as many
/// may be read: about a second of work.
pub const MOST_BYTES: u64 = 1 << 30;

/// Number of functions inlined in one another, the innermost ones, whose lines are returned.
const MOST_INLINED: usize = 32;
/// Highest accepted compression ratio of a section that is larger than [`SMALL`]. Sections that compilers
/// write have a ratio below 20.
const MOST_COMPRESSED: u64 = 64;
/// Size in bytes up to which a section may have any compression ratio.
const SMALL: u64 = 16 << 20;
/// Size in bytes of the longest accepted list of attributes in an abbreviation. Every entry with the
/// abbreviation has all of these attributes, and may store no byte for them.
const LONGEST_LIST: usize = 1024;

/// Sections in which lines are looked up.
const NEEDED: [SectionId; 11] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugTypes,
];

/// Reason why there are no lines.
pub enum NoLines {
    /// The file has no debugging information. Another file may have it.
    Stripped,
    /// Reading the lines would require decompressing this many bytes, which is over the limit.
    TooLarge(u64),
    /// No time is left for reading the lines.
    Late,
    /// The debugging information cannot be read, for this reason.
    Unreadable(String),
}

/// Lines of source of a file, from its debugging information.
pub struct DebugLines {
    context: Context<LimitedReader>,
    limits: Arc<ReadLimits>,
    /// Size in bytes of the debugging information that was decompressed.
    pub bytes: u64,
}

impl DebugLines {
    /// Reads the debugging information of a file, and the information that `dwz` moved to the file that
    /// `shared` finds.
    pub fn read(
        file: &Bytes,
        until: Instant,
        most: u64,
        shared: impl FnOnce() -> Option<Bytes>,
    ) -> Result<DebugLines, NoLines> {
        let sections = DebugSections::of_file(file)?;
        if ![SectionId::DebugLine, SectionId::DebugInfo].iter().all(|id| sections.find_section(*id).is_some()) {
            return Err(NoLines::Stripped);
        }
        if Instant::now() >= until {
            return Err(NoLines::Late);
        }
        let apart = shared();
        let shared = apart.as_ref().map(DebugSections::of_file).transpose()?;
        let sum = |is_counted: fn(CompressionFormat) -> bool| {
            let all = sections.all.iter().chain(shared.iter().flat_map(|shared| &shared.all));
            let sizes = all.filter(|(_, range)| is_counted(range.format));
            let sizes = sizes.map(|(_, range)| range.uncompressed_size.max(range.compressed_size));
            sizes.fold(0, u64::saturating_add)
        };
        let bytes = sum(|format| format != CompressionFormat::None);
        if bytes > most {
            return Err(NoLines::TooLarge(bytes));
        }
        let limits = ReadLimits::for_size(sum(|_| true).min(MOST_BYTES));
        let mut dwarf = sections.load_dwarf(&limits)?;
        if let Some(shared) = shared {
            dwarf.set_sup(shared.load_dwarf(&limits)?);
        }
        Ok(DebugLines { context: Context::from_dwarf(dwarf).map_err(unreadable_error)?, limits, bytes })
    }

    /// Returns the lines at an address of the file, those of inlined functions first.
    pub fn lines_at(&self, address: u64) -> Vec<SourceLine> {
        self.limits.begin_lookup();
        let mut lines = Vec::new();
        let mut put = |location: Option<Location>, function: Option<String>| {
            let Some((file, line)) = location.and_then(|place| Some((place.file?, place.line.unwrap_or(0)))) else {
                return;
            };
            // Replace control characters, because paths are shown on terminals.
            lines.push(SourceLine { function, file: file.replace(char::is_control, "?"), line });
        };
        match self.context.find_frames(address).skip_all_loads() {
            Ok(mut frames) => {
                for _ in 0..MOST_INLINED {
                    let Ok(Some(frame)) = frames.next() else { break };
                    let name = frame.function.and_then(|name| Some(name.raw_name().ok()?.into_owned()));
                    put(frame.location, name.map(|name| demangle::demangle(name.as_bytes())));
                }
            }
            // A function whose name cannot be read still has a line.
            Err(_) => put(self.context.find_location(address).ok().flatten(), None),
        }
        lines
    }
}

/// Debugging sections of a file.
struct DebugSections<'a> {
    file: &'a Bytes,
    all: Vec<(SectionId, CompressedFileRange)>,
}

impl<'a> DebugSections<'a> {
    fn of_file(file: &'a Bytes) -> Result<DebugSections<'a>, NoLines> {
        let elf = object::File::parse(&**file).map_err(unreadable_error)?;
        let mut all = Vec::new();
        for id in NEEDED {
            let Some(section) = elf.section_by_name(id.name()) else { continue };
            let range = section.compressed_file_range().map_err(unreadable_error)?;
            let most = range.compressed_size.saturating_mul(MOST_COMPRESSED).saturating_add(SMALL);
            if range.uncompressed_size > most {
                return Err(unreadable_error("a section is compressed too much"));
            }
            // A separate debug file lists the sections of the library with their names and sizes, but without
            // contents.
            all.extend((range.uncompressed_size > 0).then_some((id, range)));
        }
        Ok(DebugSections { file, all })
    }

    fn find_section(&self, id: SectionId) -> Option<&CompressedFileRange> {
        self.all.iter().find(|(known, _)| *known == id).map(|(_, range)| range)
    }

    fn load_dwarf(&self, limits: &Arc<ReadLimits>) -> Result<Dwarf<LimitedReader>, NoLines> {
        Dwarf::load(|id| {
            let (bytes, range) = self.section_bytes(id)?;
            if id == SectionId::DebugAbbrev && has_long_list(&bytes[range.clone()]) {
                return Err(unreadable_error("an abbreviation has too many attributes"));
            }
            Ok(LimitedReader::new(id, bytes, range, limits))
        })
    }

    /// Returns the bytes that contain a section, and the range of the section in them.
    fn section_bytes(&self, id: SectionId) -> Result<(Bytes, Range<usize>), NoLines> {
        let Some(range) = self.find_section(id) else { return Ok((Bytes::from(Vec::new()), 0..0)) };
        let end = range.offset.checked_add(range.compressed_size);
        let end = end.filter(|end| *end <= self.file.len() as u64).ok_or_else(|| unreadable_error("it is cut"))?;
        let place = range.offset as usize..end as usize;
        let (format, uncompressed_size) = (range.format, range.uncompressed_size);
        if format == CompressionFormat::None {
            return Ok((self.file.clone(), place));
        }
        let compressed = CompressedData { format, data: &self.file[place], uncompressed_size };
        let bytes = compressed.decompress().map_err(unreadable_error)?.into_owned();
        let whole = 0..bytes.len();
        Ok((bytes.into(), whole))
    }
}

/// Returns true if a list of attributes is longer than any list that a compiler writes. Two zero bytes in a
/// row end a list, whatever byte reading starts at.
fn has_long_list(abbreviations: &[u8]) -> bool {
    if abbreviations.len() as u64 > MOST_BYTES {
        return true;
    }
    let mut begin = 0;
    for (at, two) in abbreviations.windows(2).enumerate() {
        if two == [0, 0] {
            begin = at;
        } else if at - begin > LONGEST_LIST {
            return true;
        }
    }
    false
}

/// Returns the reason for debugging information that cannot be read.
fn unreadable_error(error: impl Display) -> NoLines {
    NoLines::Unreadable(error.to_string())
}
