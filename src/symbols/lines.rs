//! The lines of source of one ELF file, from its DWARF: the functions that were inlined at an address, and the line of
//! each.
//!
//! It reads the debugging information of a file. [`super::files`] selects the files, and [`super::table`] handles
//! functions without debugging information.
//!
//! Sections are read, not mapped, because truncating a mapped file would kill us. Those of the largest libraries have
//! gigabytes, most of which no address needs: beyond a limit, only the units that are needed are read
//! ([`super::units`]).

use super::bounded::{Limits, Reader};
use super::sections::{Sections, Without, lines_at, unreadable};
use super::symbol::SourceLine;
use super::units::Units;
use addr2line::Context;
use gimli::SectionId;
use std::fs::File;
use std::sync::Arc;
use std::time::Instant;

/// The most debugging information that is read of a file for a report: about a second's work.
pub const MOST_BYTES: u64 = 1 << 30;
/// Lines of source of a file, from its debugging information.
pub struct Lines {
    all: All,
    /// Size in bytes of the debugging information that is in memory, or may be read later.
    pub bytes: u64,
}

enum All {
    Whole(Context<Reader>, Arc<Limits>),
    ByUnit(Units),
}

impl Lines {
    /// Reads the debugging information of a file, and what that has in common with other files where it is kept apart
    /// (`dwz`): in the one that `shared` finds.
    pub fn read(
        file: &File,
        until: Instant,
        most: u64,
        shared: impl FnOnce() -> Option<File>,
    ) -> Result<Lines, Without> {
        let sections = Sections::of(file)?;
        if !sections.has(SectionId::DebugLine) || !sections.has(SectionId::DebugInfo) {
            return Err(Without::Stripped);
        }
        if Instant::now() >= until {
            return Err(Without::Late);
        }
        let apart = shared();
        let shared = apart.as_ref().map(Sections::of).transpose()?;
        let bytes = sections.bytes().saturating_add(shared.as_ref().map_or(0, Sections::bytes));
        if bytes > most {
            if shared.is_some() {
                return Err(Without::TooLarge(bytes));
            }
            return Ok(Lines { all: All::ByUnit(Units::find(&sections, until, most)?), bytes: most });
        }
        let limits = Limits::of(bytes);
        let mut dwarf = sections.dwarf(&limits)?;
        if let Some(shared) = shared {
            dwarf.set_sup(shared.dwarf(&limits)?);
        }
        let context = Context::from_dwarf(dwarf).map_err(unreadable)?;
        Ok(Lines { all: All::Whole(context, limits), bytes })
    }

    /// The lines at an address as the file has it, those of inlined functions first.
    pub fn at(&self, address: u64) -> Vec<SourceLine> {
        match &self.all {
            All::Whole(context, limits) => lines_at(context, limits, address),
            All::ByUnit(units) => units.at(address),
        }
    }
}
