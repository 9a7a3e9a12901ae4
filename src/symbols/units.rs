//! Reads single units of a file whose debugging information is too large to be read as a whole.
//!
//! It finds the unit of an address by `.debug_aranges`, or else by the ranges that the unit itself has, and reads it.
//! [`super::lines`] queries the unit.
//!
//! Each unit is read as if it were the only one. References to another unit, as after link-time optimization, are
//! unknown: the name of a function is missing, not its line.

use super::beside;
use super::bounded::{Limits, Reader};
use super::sections::{Sections, Without, lines_at, unreadable};
use super::symbol::SourceLine;
use addr2line::Context;
use gimli::{Dwarf, SectionId};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Instant;

/// As much of a unit as its header and the entry that names its ranges take.
const BEGIN: u64 = 1024;

/// How many threads look at the begins of units.
const THREADS: usize = 4;

/// Addresses, and where in `.debug_info` their unit lies.
type OfUnit = (Range<u64>, Range<u64>);

/// The units of a file.
pub struct Units {
    file: File,
    /// Where `.debug_info` begins in the file.
    start: u64,
    /// All other sections.
    others: Others,
    ranges: Vec<OfUnit>,
    read: RefCell<Read>,
}

/// All sections but `.debug_info`.
struct Others {
    read: HashMap<SectionId, Arc<[u8]>>,
    limits: Arc<Limits>,
}

/// What was read of `.debug_info`.
#[derive(Default)]
struct Read {
    units: HashMap<u64, Option<Context<Reader>>>,
    /// How much may still be read.
    left: u64,
}

impl Units {
    /// Finds the units of a file, of which so many bytes may be read.
    pub fn find(sections: &Sections, until: Instant, most: u64) -> Result<Units, Without> {
        let whole = sections.bytes();
        let Some(info) = sections.plain(SectionId::DebugInfo) else { return Err(Without::TooLarge(whole)) };
        // Type units have no lines.
        let is_read = |id| ![SectionId::DebugInfo, SectionId::DebugTypes].contains(&id);
        let left = most.checked_sub(sections.bytes_of(is_read)).ok_or(Without::TooLarge(whole))?;
        let others = Others { read: sections.read(is_read)?, limits: Limits::of(whole) };
        let file = sections.file.try_clone().map_err(unreadable)?;
        let mut units = Units {
            file,
            start: info.start,
            others,
            ranges: Vec::new(),
            read: RefCell::new(Read { units: HashMap::new(), left }),
        };
        let all = units.headers(info.end - info.start, until)?;
        let mut ranges = units.aranges(&all)?;
        // It names units by where they lie, and each of them is read as the first one.
        units.others.read.remove(&SectionId::DebugAranges);
        let named: HashSet<u64> = ranges.iter().map(|(_, unit)| unit.start).collect();
        let silent: Vec<&Range<u64>> = all.iter().filter(|unit| !named.contains(&unit.start)).collect();
        let few = silent.chunks(silent.len().div_ceil(THREADS).max(1));
        let of_units = std::thread::scope(|scope| {
            let units = Begins { file: &units.file, start: units.start, others: &units.others };
            let running: Vec<_> =
                few.map(|few| beside::begin(scope, move || units.ranges(few, until))).collect();
            running
                .into_iter()
                .map(|end| end().unwrap_or(Err(Without::Late)))
                .collect::<Result<Vec<_>, Without>>()
        });
        ranges.extend(of_units?.into_iter().flatten());
        ranges.sort_unstable_by_key(|(addresses, _)| addresses.start);
        units.ranges = ranges;
        Ok(units)
    }

    /// The lines at an address as the file has it, those of inlined functions first.
    pub fn at(&self, address: u64) -> Vec<SourceLine> {
        let last = self.ranges.partition_point(|(addresses, _)| addresses.start <= address);
        // Ranges of different units do not overlap, but for those of code that the linker has left out, which begin at 0.
        let Some((_, unit)) =
            self.ranges[..last].last().filter(|(addresses, _)| addresses.contains(&address))
        else {
            return Vec::new();
        };
        let mut read = self.read.borrow_mut();
        if !read.units.contains_key(&unit.start) {
            let length = unit.end - unit.start;
            let context = read.left.checked_sub(length).and_then(|left| {
                read.left = left;
                Context::from_dwarf(dwarf(&self.others, self.bytes(unit.clone()).ok()?).ok()?).ok()
            });
            read.units.insert(unit.start, context);
        }
        read.units
            .get(&unit.start)
            .and_then(Option::as_ref)
            .map_or_else(Vec::new, |unit| lines_at(unit, &self.others.limits, address))
    }

    /// Where all units lie in `.debug_info`, which has so many bytes.
    fn headers(&self, length: u64, until: Instant) -> Result<Vec<Range<u64>>, Without> {
        let mut all = Vec::new();
        let mut at = 0;
        while at < length {
            let begin = self.bytes(at..length.min(at + 12))?;
            let end =
                unit_length(&begin).and_then(|(_, unit)| at.checked_add(unit)).filter(|end| *end <= length);
            let end = end.ok_or_else(|| unreadable("a unit is cut"))?;
            all.push(at..end);
            at = end;
            if all.len() % 1024 == 0 && Instant::now() >= until {
                return Err(Without::Late);
            }
        }
        Ok(all)
    }

    /// What `.debug_aranges` says of units.
    fn aranges(&self, all: &[Range<u64>]) -> Result<Vec<OfUnit>, Without> {
        let dwarf = dwarf(&self.others, Vec::new().into())?;
        let (mut ranges, mut headers) = (Vec::new(), dwarf.debug_aranges.headers());
        while let Some(header) = headers.next().map_err(unreadable)? {
            let start = header.debug_info_offset().0 as u64;
            let Ok(unit) = all.binary_search_by_key(&start, |unit| unit.start) else { continue };
            let mut entries = header.entries();
            while let Some(entry) = entries.next().map_err(unreadable)? {
                let range = entry.range();
                if range.begin > 0 && range.begin < range.end {
                    ranges.push((range.begin..range.end, all[unit].clone()));
                }
            }
        }
        Ok(ranges)
    }

    fn bytes(&self, range: Range<u64>) -> Result<Arc<[u8]>, Without> {
        bytes(&self.file, self.start, range)
    }
}

/// What the begins of units are read from.
#[derive(Clone, Copy)]
struct Begins<'a> {
    file: &'a File,
    start: u64,
    others: &'a Others,
}

impl Begins<'_> {
    /// The addresses of units, by what they say themselves.
    fn ranges(&self, units: &[&Range<u64>], until: Instant) -> Result<Vec<OfUnit>, Without> {
        let mut all = Vec::new();
        for (i, unit) in units.iter().enumerate() {
            if i % 256 == 0 && Instant::now() >= until {
                return Err(Without::Late);
            }
            // One that cannot be understood has no lines.
            let ranges = self.of_unit(unit).unwrap_or_default();
            all.extend(ranges.into_iter().map(|range| (range, (*unit).clone())));
        }
        Ok(all)
    }

    fn of_unit(&self, unit: &Range<u64>) -> Result<Vec<Range<u64>>, Without> {
        let begin = bytes(self.file, self.start, unit.start..unit.end.min(unit.start + BEGIN))?;
        let mut begin = begin.to_vec();
        // It is as long as what was read of it.
        let (place, _) = unit_length(&begin).ok_or_else(|| unreadable("a unit is cut"))?;
        let length = (begin.len() - place.end) as u64;
        begin[place.clone()].copy_from_slice(&length.to_le_bytes()[..place.len()]);
        let dwarf = dwarf(self.others, begin.into())?;
        let header = dwarf.units().next().map_err(unreadable)?;
        let Some(header) = header.filter(|header| {
            !matches!(header.type_(), gimli::UnitType::Type { .. } | gimli::UnitType::Partial)
        }) else {
            return Ok(Vec::new());
        };
        let unit = dwarf.unit(header).map_err(unreadable)?;
        let (mut ranges, mut all) = (dwarf.unit_ranges(&unit).map_err(unreadable)?, Vec::new());
        while let Some(range) = ranges.next().map_err(unreadable)? {
            if range.begin > 0 && range.begin < range.end {
                all.push(range.begin..range.end);
            }
        }
        Ok(all)
    }
}

/// Where a unit has its length, and how long it is with that.
fn unit_length(begin: &[u8]) -> Option<(Range<usize>, u64)> {
    let word = u32::from_le_bytes(*begin.first_chunk()?);
    if word < 0xffff_fff0 {
        return Some((0..4, 4 + u64::from(word)));
    }
    let long = u64::from_le_bytes(*begin.get(4..)?.first_chunk()?);
    (word == u32::MAX).then_some(())?;
    Some((4..12, long.checked_add(12)?))
}

fn bytes(file: &File, start: u64, range: Range<u64>) -> Result<Arc<[u8]>, Without> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    file.read_exact_at(&mut bytes, start + range.start).map_err(unreadable)?;
    Ok(bytes.into())
}

/// The sections, with one unit.
fn dwarf(others: &Others, unit: Arc<[u8]>) -> Result<Dwarf<Reader>, Without> {
    let load = |id| {
        let section = if id == SectionId::DebugInfo { Some(&unit) } else { others.read.get(&id) };
        Ok(Reader::new(id, section.cloned().unwrap_or_default(), &others.limits))
    };
    Dwarf::load(load).map_err(|error: gimli::Error| unreadable(error))
}
