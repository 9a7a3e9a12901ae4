//! The debugging information of a file: its sections, and the lines in what was read of them.

use super::bounded::{Limits, Reader};
use super::limited::{Limited, MOST_OF_HEADERS};
use super::symbol::SourceLine;
use super::{beside, demangle};
use addr2line::{Context, Location};
use gimli::{Dwarf, SectionId};
use object::read::{CompressedData, CompressedFileRange, CompressionFormat};
use object::{Object, ObjectSection};
use std::collections::HashMap;
use std::fmt::Display;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// The most functions that are inlined in one another.
const MOST_INLINED: usize = 32;

/// The most bytes for which one of a compressed section stands, beyond [`SMALL`]. Compilers' output is below 20.
const MOST_COMPRESSED: u64 = 64;
const SMALL: u64 = 16 << 20;
/// The longest list of attributes of an abbreviation, in bytes. Each entry repeats it, and may have no byte for it.
const LONGEST_LIST: usize = 1024;

/// Reason why there are no lines.
pub enum Without {
    /// The file has none; elsewhere there may be some.
    Stripped,
    /// It has more than is read: so many bytes.
    TooLarge(u64),
    /// There is no time for it.
    Late,
    /// It cannot be read.
    Unreadable(String),
}

/// The debugging information of a file, which has not been read yet.
pub struct Sections<'a> {
    /// The file.
    pub file: &'a File,
    all: Vec<(SectionId, CompressedFileRange)>,
}

impl<'a> Sections<'a> {
    /// Finds the debugging information of a file.
    pub fn of(file: &'a File) -> Result<Sections<'a>, Without> {
        let data = Limited::new(file.try_clone().map_err(unreadable)?, MOST_OF_HEADERS);
        let elf = object::File::parse(&data).map_err(unreadable)?;
        let mut all = Vec::new();
        for id in NEEDED {
            let Some(section) = elf.section_by_name(id.name()) else { continue };
            let range = section.compressed_file_range().map_err(unreadable)?;
            let most = range.compressed_size.saturating_mul(MOST_COMPRESSED).saturating_add(SMALL);
            if range.uncompressed_size > most {
                return Err(unreadable("a section is compressed too much"));
            }
            // A separate file has a section's name and size, and nothing at its place, for all that is not its own.
            all.extend((range.uncompressed_size > 0).then_some((id, range)));
        }
        Ok(Sections { file, all })
    }

    /// Returns the size of the debugging information in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes_of(|_| true)
    }

    /// Returns the size in bytes of some sections, in the file or after decompression.
    pub fn bytes_of(&self, which: impl Fn(SectionId) -> bool) -> u64 {
        let sizes = self
            .all
            .iter()
            .filter(|(id, _)| which(*id))
            .map(|(_, range)| range.uncompressed_size.max(range.compressed_size));
        sizes.fold(0, u64::saturating_add)
    }

    /// Returns the position of a section in the file; `None` if it is compressed or cut off.
    pub fn plain(&self, id: SectionId) -> Option<Range<u64>> {
        let (_, range) = self.all.iter().find(|(known, _)| *known == id)?;
        let end = range.offset.checked_add(range.compressed_size)?;
        let is_whole = self.file.metadata().is_ok_and(|file| end <= file.len());
        (range.format == CompressionFormat::None && is_whole).then_some(range.offset..end)
    }

    pub fn has(&self, id: SectionId) -> bool {
        self.all.iter().any(|(known, _)| *known == id)
    }

    /// Reads sections, side by side: those of the largest libraries take seconds, most of all to decompress.
    pub fn read(&self, which: impl Fn(SectionId) -> bool) -> Result<HashMap<SectionId, Arc<[u8]>>, Without> {
        let read = std::thread::scope(|scope| {
            let begin = |(id, range): &(SectionId, CompressedFileRange)| {
                let (id, range, file) = (*id, *range, self.file);
                (id, beside::begin(scope, move || section(file, &range)))
            };
            let running: Vec<_> = self.all.iter().filter(|(id, _)| which(*id)).map(begin).collect();
            let ended = running
                .into_iter()
                .map(|(id, end)| Ok((id, end().unwrap_or_else(|_| Err("damaged".to_owned()))?)));
            ended.collect::<Result<HashMap<SectionId, Arc<[u8]>>, String>>()
        });
        let read = read.map_err(Without::Unreadable)?;
        let of_lists = read.get(&SectionId::DebugAbbrev).map_or(&[][..], |bytes| bytes);
        if has_long_list(of_lists) {
            return Err(unreadable("an abbreviation has too many attributes"));
        }
        Ok(read)
    }

    /// All of it.
    pub fn dwarf(&self, limits: &Arc<Limits>) -> Result<Dwarf<Reader>, Without> {
        let mut read = self.read(|_| true)?;
        let load = |id| Ok(Reader::new(id, read.remove(&id).unwrap_or_default(), limits));
        Dwarf::load(load).map_err(|error: gimli::Error| unreadable(error))
    }
}

/// Returns true if a list of attributes is longer than any of a compiler. Two zeros in a row end a list, wherever one
/// begins to read.
fn has_long_list(abbreviations: &[u8]) -> bool {
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
pub fn unreadable(error: impl Display) -> Without {
    Without::Unreadable(error.to_string())
}

/// Reads a section.
fn section(file: &File, range: &CompressedFileRange) -> Result<Arc<[u8]>, String> {
    let text = |error: &dyn Display| error.to_string();
    let end = range.offset.checked_add(range.compressed_size);
    let length = file.metadata().map_err(|error| text(&error))?.len();
    if end.is_none_or(|end| end > length) {
        return Err("it is cut".to_owned());
    }
    let mut bytes: Arc<[u8]> = std::iter::repeat_n(0, range.compressed_size as usize).collect();
    let whole = Arc::get_mut(&mut bytes).unwrap_or_default();
    file.read_exact_at(whole, range.offset).map_err(|error| text(&error))?;
    if range.format == CompressionFormat::None {
        return Ok(bytes);
    }
    let (format, uncompressed_size) = (range.format, range.uncompressed_size);
    let compressed = CompressedData { format, data: &bytes, uncompressed_size };
    compressed.decompress().map(|bytes| bytes.into()).map_err(|error| text(&error))
}

/// The lines at an address.
pub fn lines_at(context: &Context<Reader>, limits: &Limits, address: u64) -> Vec<SourceLine> {
    limits.begin();
    let mut lines = Vec::new();
    let mut put = |location: Option<Location>, function: Option<String>| {
        let Some((file, line)) = location.and_then(|place| Some((place.file?, place.line.unwrap_or(0))))
        else {
            return;
        };
        // Paths are shown on terminals.
        lines.push(SourceLine { function, file: file.replace(char::is_control, "?"), line });
    };
    match context.find_frames(address).skip_all_loads() {
        Ok(mut frames) => {
            for _ in 0..MOST_INLINED {
                let Ok(Some(frame)) = frames.next() else { break };
                let name = frame.function.and_then(|name| Some(name.raw_name().ok()?.into_owned()));
                put(frame.location, name.map(|name| demangle::readable(name.as_bytes())));
            }
        }
        // A function whose name lies in a unit that was not read has a line all the same.
        Err(_) => put(context.find_location(address).ok().flatten(), None),
    }
    lines
}

/// Sections in which lines are looked up.
pub const NEEDED: [SectionId; 11] = [
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
