//! The lines of source of one ELF file, from its DWARF: which functions were inlined at an address, and where each stands.
//!
//! What belongs here: reading and asking the debugging information of a file. What does not: which files count, which is
//! [`super`]'s, and functions without debugging information, which are [`super::table`]'s.
//!
//! Sections are read, not mapped, because truncating a mapped file would kill us. Those of the largest libraries have
//! gigabytes, most of which no address leads to: beyond a limit they are left out, and that is said.

use super::{LONGEST_NAME, demangle, short};
use addr2line::Context;
use gimli::{EndianArcSlice, LittleEndian, SectionId};
use object::read::ReadCache;
use object::{Object, ObjectSection};
use schemars::JsonSchema;
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

type Reader = EndianArcSlice<LittleEndian>;

/// The most debugging information that is read of a file: about a second's work.
const MOST_BYTES: u64 = 1 << 30;
/// The most functions that are inlined in one another.
const MOST_INLINED: usize = 32;

/// A line of source, and the function that it stands in.
#[derive(Serialize, JsonSchema, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SourceLine {
    /// The function, as its programmer wrote it.
    pub function: Option<String>,
    /// The file, as the compiler had it.
    pub file: String,
    /// The line; 0 where the compiler says of none.
    pub line: u32,
}

impl SourceLine {
    /// `main.c:12 in f`.
    pub fn text(&self) -> String {
        let file = self.file.rsplit('/').next().unwrap_or(&self.file);
        let line = if self.line > 0 { format!(":{}", self.line) } else { String::new() };
        let function = self.function.as_ref().map(|name| format!(" in {}", short(name, LONGEST_NAME)));
        format!("{file}{line}{}", function.unwrap_or_default())
    }
}

/// What the debugging information of a file answers.
pub struct Lines(Context<Reader>);

/// Why there are no lines.
pub enum Without {
    /// The file has none; elsewhere there may be some.
    Stripped,
    /// It has more than is read: so many bytes.
    TooLarge(u64),
    /// It cannot be read.
    Unreadable(String),
}

impl Lines {
    /// Reads the debugging information of a file.
    pub fn read(file: &File) -> Result<Lines, Without> {
        let unreadable = |error: &dyn std::fmt::Display| Without::Unreadable(error.to_string());
        let copy = file.try_clone().map_err(|error| unreadable(&error))?;
        let data = ReadCache::new(copy);
        let elf = object::File::parse(&data).map_err(|error| unreadable(&error))?;
        if elf.section_by_name(".debug_line").is_none() || elf.section_by_name(".debug_info").is_none() {
            return Err(Without::Stripped);
        }
        let all = NEEDED.iter().filter_map(|id| elf.section_by_name(id.name()));
        let bytes = all.fold(0, |sum: u64, section| sum.saturating_add(uncompressed(&section)));
        if bytes > MOST_BYTES {
            return Err(Without::TooLarge(bytes));
        }
        let load = |id: SectionId| -> Result<Reader, object::read::Error> {
            let section = NEEDED.contains(&id).then(|| elf.section_by_name(id.name())).flatten();
            let bytes = section.map(|section| section.uncompressed_data()).transpose()?;
            let bytes: Arc<[u8]> = bytes.unwrap_or_default().into();
            Ok(Reader::new(bytes, LittleEndian))
        };
        let dwarf = gimli::Dwarf::load(load).map_err(|error| unreadable(&error))?;
        Context::from_dwarf(dwarf).map(Lines).map_err(|error| unreadable(&error))
    }

    /// The lines at an address as the file has it, those of inlined functions first.
    pub fn at(&self, address: u64) -> Vec<SourceLine> {
        let mut lines = Vec::new();
        let Ok(mut frames) = self.0.find_frames(address).skip_all_loads() else { return lines };
        while let Ok(Some(frame)) = frames.next() {
            let Some(location) = frame.location else { continue };
            let Some(file) = location.file else { continue };
            let name = frame.function.and_then(|name| Some(name.raw_name().ok()?.into_owned()));
            lines.push(SourceLine {
                function: name.map(|name| demangle::readable(name.as_bytes())),
                // Paths are shown on terminals.
                file: file.replace(char::is_control, "?"),
                line: location.line.unwrap_or(0),
            });
            if lines.len() == MOST_INLINED {
                break;
            }
        }
        lines
    }
}

/// What lines are found with.
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

fn uncompressed<'data>(section: &impl ObjectSection<'data>) -> u64 {
    section.compressed_file_range().map_or(0, |range| range.uncompressed_size)
}

/// Where a file says that its debugging information lies (`.gnu_debuglink`), as gdb looks for it.
pub fn linked(file: &File, path: &Path, debug: &Path) -> Vec<PathBuf> {
    let name = || -> Option<Vec<u8>> {
        let data = ReadCache::new(file.try_clone().ok()?);
        let elf = object::File::parse(&data).ok()?;
        Some(elf.gnu_debuglink().ok()??.0.to_vec())
    };
    let name = name().and_then(|name| String::from_utf8(name).ok());
    let (Some(name), Some(directory)) = (name.filter(|name| !name.contains('/')), path.parent()) else {
        return Vec::new();
    };
    let below = directory.strip_prefix("/").unwrap_or(directory);
    [directory.join(&name), directory.join(".debug").join(&name), debug.join(below).join(&name)]
        .into_iter()
        .filter(|candidate| candidate != path)
        .collect()
}
