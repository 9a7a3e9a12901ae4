//! Names for addresses: the function of a library that a call came from, found when the record is read.
//!
//! What belongs here: which symbols count for a library, and whether they may: only those of the very file that
//! lay in the process, or those that a packed record brings. What does not: how an ELF file is read ([`table`]).
//!
//! A name that may be wrong is worse than none. A file counts where it has the build id that was recorded. One
//! without a build id counts only on the host of the record, and where it is older than the record.

mod demangle;
mod lines;
mod packed;
mod short;
mod table;

pub use lines::SourceLine;
pub use packed::PackedSymbols;
pub use short::short;

use cupeer_record::{Library, Process};
use lines::{Lines, Without};
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use table::{Table, Unusable};

/// How many characters of a function's name people are shown.
pub const LONGEST_NAME: usize = 80;

/// How many tables are in memory at once. That of a library with a million functions takes 24 MB.
const MOST_TABLES: usize = 8;

/// The debugging information of how many libraries is in memory at once.
const MOST_LINES: usize = 4;

/// Where separate files with symbols lie: by build id in `.build-id`, and by the paths of what they belong to.
const DEBUG_FILES: &str = "/usr/lib/debug";

/// Whether a library is libc or the loader, which start threads and are called by everybody: its functions tell enough.
pub fn is_libc(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    ["libc.so", "ld-linux"].iter().any(|begin| name.starts_with(begin))
}

/// A function, and where in it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Symbol {
    /// Its name as its programmer wrote it.
    pub function: String,
    /// How far behind its start.
    pub offset: u64,
    /// The lines of source, those of functions that were inlined there first; none where they are not known.
    pub lines: Vec<SourceLine>,
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
    lines: Option<Lines>,
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
            (known.table, known.lines) = opened.map_or((None, None), |(table, lines)| (Some(table), lines));
        }
        let known = self.known.get_mut(key)?;
        known.used = time;
        let at = place.wrapping_sub(1);
        let lines = known.lines.as_ref().map_or_else(Vec::new, |lines| lines.at(at));
        let (name, start) = known.table.as_ref()?.find(at)?;
        Some(Symbol { function: demangle::readable(&name), offset: place.wrapping_sub(start), lines })
    }

    /// Gives up what was not used for the longest time, where there is too much.
    fn make_room(&mut self) {
        let oldest = |known: &HashMap<_, LibrarySymbols>, most, has: fn(&LibrarySymbols) -> bool| {
            let with = || known.iter().filter(|(_, known)| has(known));
            let oldest = || {
                with()
                    .min_by_key(|(_, known)| known.used)
                    .map(|(key, _): (&(Vec<u8>, String), _)| key.clone())
            };
            (with().count() >= most).then(oldest).flatten()
        };
        // Without its table, it is read again as a whole.
        for key in [
            oldest(&self.known, MOST_TABLES, |known| known.table.is_some()),
            oldest(&self.known, MOST_LINES, |known| known.lines.is_some()),
        ] {
            if let Some(known) = key.and_then(|key| self.known.get_mut(&key)) {
                (known.table, known.lines) = (None, None);
            }
        }
    }

    /// The symbols of a library, and those in a separate file where it was stripped; its lines, where there are any.
    fn open(&mut self, build_id: &[u8], path: &Path) -> Result<(Table, Option<Lines>), Unusable> {
        let older_than =
            if build_id.is_empty() { Some(self.older_than.ok_or(Unusable::NoBuildId)?) } else { None };
        let own = table::open(path, build_id, older_than);
        let table = own.as_ref().map_err(Clone::clone).and_then(Table::read);
        if is_libc(&path.to_string_lossy()) {
            return Ok((table?, None));
        }
        let lines = own.as_ref().map(|file| self.lines(path, file)).unwrap_or_default();
        if matches!(&table, Ok(table) if table.is_whole()) && lines.is_some() || build_id.len() < 2 {
            return Ok((table?, lines));
        }
        let digits: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let by_id =
            self.debug_files.join(".build-id").join(&digits[..2]).join(format!("{}.debug", &digits[2..]));
        let by_link =
            own.as_ref().map_or_else(|_| Vec::new(), |file| lines::linked(file, path, &self.debug_files));
        let separate = [by_id].into_iter().chain(by_link).find_map(|path| {
            let file = table::open(&path, build_id, None).ok()?;
            Some((Table::read(&file).ok()?, file, path))
        });
        let Some((more, file, debug)) = separate else { return Ok((table?, lines)) };
        let lines = lines.or_else(|| self.lines(&debug, &file));
        match table {
            Ok(mut table) => {
                if !table.is_whole() {
                    table.add(more);
                }
                Ok((table, lines))
            }
            Err(_) => Ok((more, lines)),
        }
    }

    /// The lines of a file. Notes why there are none, where that is not usual.
    fn lines(&mut self, path: &Path, file: &std::fs::File) -> Option<Lines> {
        let why = match Lines::read(file) {
            Ok(lines) => return Some(lines),
            Err(Without::Stripped) => return None,
            Err(Without::TooLarge(bytes)) => {
                format!(
                    "has {} MiB of debugging information, more than is read: its lines are unknown",
                    bytes >> 20
                )
            }
            Err(Without::Unreadable(error)) => format!("its debugging information cannot be read: {error}"),
        };
        self.notes.insert((path.display().to_string(), why));
        None
    }
}

#[cfg(test)]
mod tests;
