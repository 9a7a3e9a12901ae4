//! Names for addresses: the function of a library that a call came from, found when the record is read.
//!
//! What belongs here: which symbols count for a library, and whether they may: only those of the very file that
//! lay in the process, or those that a packed record brings. What does not: how an ELF file is read ([`table`]).
//!
//! A name that may be wrong is worse than none. A file counts where it has the build id that was recorded. One
//! without a build id counts only on the host of the record, and where it is older than the record.

mod demangle;
mod packed;
mod short;
mod table;

pub use packed::PackedSymbols;
pub use short::short;

use cupeer_record::{Library, Process};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use table::{Table, Unusable};

/// How many tables are in memory at once. That of a library with a million functions takes 24 MB.
const MOST_TABLES: usize = 8;

/// Where separate files with symbols lie, by build id.
const DEBUG_FILES: &str = "/usr/lib/debug/.build-id";

/// A function, and where in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Symbol {
    /// Its name as its programmer wrote it.
    pub function: String,
    /// How far behind its start.
    pub offset: u64,
}

/// The symbols of the libraries of a record.
pub struct Symbols {
    /// What a packed record brings.
    packed: PackedSymbols,
    /// What a file without a build id must be older than; `None` where no such file counts.
    older_than: Option<SystemTime>,
    debug_files: PathBuf,
    known: HashMap<(Vec<u8>, String), LibrarySymbols>,
    /// Counts the questions, to tell which tables were used last.
    time: u64,
    notes: BTreeSet<(String, String)>,
}

/// What is known of a library.
#[derive(Default)]
struct LibrarySymbols {
    answers: HashMap<u64, Option<Symbol>>,
    table: Option<Table>,
    /// Whether its file cannot be had.
    is_absent: bool,
    used: u64,
}

impl Symbols {
    /// For the record of these processes in a directory.
    pub fn of_record(directory: &Path, processes: &[Process]) -> Symbols {
        let mut notes = BTreeSet::new();
        let packed = PackedSymbols::of_record(directory).unwrap_or_else(|error| {
            notes.insert((PackedSymbols::FILE.to_owned(), format!("is left out: {error:#}")));
            Some(PackedSymbols::default())
        });
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let is_ours = packed.is_none() && processes.iter().all(|process| process.host() == host.trim_end());
        let began = processes.iter().map(|process| process.header.first.realtime).min();
        let older_than =
            began.and_then(|began| SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(began)));
        Symbols {
            packed: packed.unwrap_or_default(),
            older_than: older_than.filter(|_| is_ours),
            debug_files: DEBUG_FILES.into(),
            known: HashMap::new(),
            time: 0,
            notes,
        }
    }

    /// The function that a return address lies in, and where in it: `f+0x2`.
    pub fn name_of(&mut self, library: &Library, address: u64) -> Option<String> {
        let symbol = self.name(library, address)?;
        Some(format!("{}+{:#x}", symbol.function, symbol.offset))
    }

    /// The function that a return address lies in. The address is as it was in the process. What it returns to was
    /// called by the instruction before, which may be the last of its function: that is accounted for here.
    pub fn name(&mut self, library: &Library, address: u64) -> Option<Symbol> {
        let place = address.wrapping_sub(library.base);
        if let Some(symbol) = self.packed.get(library, place) {
            return Some(symbol.clone());
        }
        let key = (library.build_id.clone(), library.path.clone());
        let known = self.known.entry(key.clone()).or_default();
        if let Some(answer) = known.answers.get(&place) {
            return answer.clone();
        }
        let answer = self.look(&key, place);
        self.known.get_mut(&key)?.answers.insert(place, answer.clone());
        answer
    }

    /// The same for many addresses at once, in whatever order: each library is read once.
    pub fn resolve(&mut self, asked: &[(&Library, u64)]) -> Vec<Option<Symbol>> {
        let mut order: Vec<usize> = (0..asked.len()).collect();
        let library = |i: usize| (&asked[i].0.path, &asked[i].0.build_id);
        order.sort_by(|a, b| library(*a).cmp(&library(*b)));
        let mut names = vec![None; asked.len()];
        for i in order {
            let (library, address) = asked[i];
            names[i] = self.name(library, address);
        }
        names
    }

    /// Why names are missing: for each library its path, and a sentence.
    pub fn notes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.notes.iter().map(|(library, why)| (library.as_str(), why.as_str()))
    }

    fn look(&mut self, key: &(Vec<u8>, String), place: u64) -> Option<Symbol> {
        self.time += 1;
        let time = self.time;
        if !self.known.get(key)?.is_absent && self.known.get(key)?.table.is_none() {
            let opened = self.open(&key.0, Path::new(&key.1));
            if let Err(why) = &opened
                && *why != Unusable::NotAsked
            {
                self.notes.insert((key.1.clone(), why.to_string()));
            }
            self.make_room();
            let known = self.known.get_mut(key)?;
            known.is_absent = opened.is_err();
            known.table = opened.ok();
        }
        let known = self.known.get_mut(key)?;
        known.used = time;
        let (name, start) = known.table.as_ref()?.find(place.wrapping_sub(1))?;
        Some(Symbol { function: demangle::readable(&name), offset: place.wrapping_sub(start) })
    }

    /// Gives up the table that was not used for the longest time, where there are too many.
    fn make_room(&mut self) {
        let tables = || self.known.iter().filter(|(_, known)| known.table.is_some());
        if tables().count() < MOST_TABLES {
            return;
        }
        let oldest = tables().min_by_key(|(_, known)| known.used).map(|(key, _)| key.clone());
        if let Some(known) = oldest.and_then(|key| self.known.get_mut(&key)) {
            known.table = None;
        }
    }

    /// The symbols of a library, and those in a separate file where it was stripped.
    fn open(&self, build_id: &[u8], path: &Path) -> Result<Table, Unusable> {
        let older_than =
            if build_id.is_empty() { Some(self.older_than.ok_or(Unusable::NoBuildId)?) } else { None };
        let own = Table::open(path, build_id, older_than);
        if matches!(&own, Ok(table) if table.is_whole()) || build_id.len() < 2 {
            return own;
        }
        let digits: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let separate = self.debug_files.join(&digits[..2]).join(format!("{}.debug", &digits[2..]));
        match (own, Table::open(&separate, build_id, None)) {
            (Ok(mut own), Ok(separate)) => {
                own.add(separate);
                Ok(own)
            }
            (Err(_), Ok(separate)) => Ok(separate),
            (own, Err(_)) => own,
        }
    }
}

#[cfg(test)]
mod tests;
