//! Names for addresses: the function of a library that a call came from, found when the recording is read.
//!
//! Limits apply to the memory for libraries, and to the time for lines. `files` selects the files of a
//! library, `table` and `lines` read an ELF file, and `packed` has the names in a packed recording.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `mapped`: the bytes of files.
//! - `bounded`, `demangle`, `short`: limited reading, and the forms of names.
//! - `symbol`: a name, and its lines.
//! - `source`: the text of lines.
//! - `lines`: the lines in the debugging information of a file.
//! - `table`: the functions of a file.
//! - `packed`, `files`: the names that a recording brings, and the files of libraries.

mod bounded;
mod demangle;
mod files;
mod lines;
pub mod mapped;
mod packed;
mod short;
mod source;
mod symbol;
mod table;

pub use packed::PackedSymbols;
pub use short::shorten_name;
pub use source::SourceFiles;
pub use symbol::{LONGEST_NAME, SourceLine, Symbol, is_libc_or_loader};

use cupeer_record::{Library, Process};
use files::{FileSearch, OpenedLibrary};
use lines::DebugLines;
use std::collections::{BTreeSet, HashMap};
use std::num::NonZero;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};
use table::FunctionTable;

/// Number of symbol tables in memory at once, with their files open. The table of a library with a million
/// functions takes 24 MB.
const MOST_TABLES: usize = 16;

/// Bytes of decompressed debugging information that are kept in memory.
const MOST_KEPT: u64 = lines::MOST_BYTES;

/// The most debugging information of a library that is decompressed while its program runs: some tens of milliseconds'
/// work.
const MOST_WHILE_RUNNING: u64 = 64 << 20;

/// Number of libraries that are read at once. Each takes up to [`lines::MOST_BYTES`].
const MOST_THREADS: usize = 4;

/// Time limit for reading debugging information, over all libraries. A read that has begun is completed.
const LONGEST_READ: Duration = Duration::from_secs(4);

/// Time limit for queries of the debugging information that was read.
const LONGEST_ASKED: Duration = Duration::from_secs(2);

/// Key of a library: its build id and its path.
type LibraryKey = (Vec<u8>, String);

/// Symbols of the libraries of a recording.
pub struct Symbols {
    /// Symbols that a packed recording contains.
    packed: PackedSymbols,
    files: FileSearch,
    known: HashMap<LibraryKey, LibrarySymbols>,
    /// Number of lookups so far, which tells which tables were used last.
    time: u64,
    /// Time left for reading debugging information, and for queries of it.
    left: (Duration, Duration),
    /// Bytes of debugging information that may still be kept.
    room: u64,
    notes: BTreeSet<(String, String)>,
}

#[derive(Default)]
struct LibrarySymbols {
    answers: HashMap<u64, Option<Symbol>>,
    table: Option<FunctionTable>,
    lines: Option<DebugLines>,
    /// True if the library's file is missing or cannot be read.
    is_absent: bool,
    used: u64,
}

impl Symbols {
    /// Finds symbols for the recording of these processes in a directory.
    pub fn of_record(directory: &Path, processes: &[Process]) -> Symbols {
        let mut notes = BTreeSet::new();
        let packed = PackedSymbols::of_record(directory).unwrap_or_else(|error| {
            notes.insert((PackedSymbols::FILE.to_owned(), format!("is left out: {error:#}")));
            Some(PackedSymbols::default())
        });
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let is_ours = packed.is_none() && processes.iter().all(|process| process.host() == host.trim_end());
        let began = processes.iter().map(|process| process.header.first.realtime).min();
        let older_than = began.and_then(|began| SystemTime::UNIX_EPOCH.checked_add(Duration::from_nanos(began)));
        Symbols {
            packed: packed.unwrap_or_default(),
            files: FileSearch::accepting_older_than(older_than.filter(|_| is_ours)),
            known: HashMap::new(),
            time: 0,
            left: (LONGEST_READ, LONGEST_ASKED),
            room: MOST_KEPT,
            notes,
        }
    }

    /// Finds symbols for a program that began at this time and is running: each library is read while a caller waits.
    pub fn of_running(began: SystemTime) -> Symbols {
        let most = MOST_WHILE_RUNNING;
        Symbols {
            packed: PackedSymbols::default(),
            files: FileSearch { most_debug_bytes: most, ..FileSearch::accepting_older_than(Some(began)) },
            known: HashMap::new(),
            time: 0,
            left: (LONGEST_READ, LONGEST_ASKED),
            room: most,
            notes: BTreeSet::new(),
        }
    }

    /// Returns the reader of source lines; `None` for a recording of another host, and for a packed
    /// recording.
    pub fn sources(&self) -> Option<SourceFiles> {
        self.files.older_than.map(SourceFiles::accepting_older_than)
    }

    /// Returns the function of a return address in a process. A return address belongs to the instruction before it,
    /// which may be the last of its function; this is taken into account.
    pub fn find_symbol(&mut self, library: &Library, address: u64) -> Option<Symbol> {
        let place = address.wrapping_sub(library.base);
        if let Some(symbol) = self.packed.find(library, place) {
            return Some(symbol.clone());
        }
        let key = (library.build_id.clone(), library.path.clone());
        let known = self.known.entry(key.clone()).or_default();
        if let Some(answer) = known.answers.get(&place) {
            return answer.clone();
        }
        let answer = self.look_up(&key, place);
        self.known.get_mut(&key)?.answers.insert(place, answer.clone());
        answer
    }

    /// Returns the functions of many addresses at once, in any order: each library is read once.
    pub fn resolve(&mut self, asked: &[(&Library, u64)]) -> Vec<Option<Symbol>> {
        let mut order: Vec<usize> = (0..asked.len()).collect();
        let library = |i: usize| (&asked[i].0.path, &asked[i].0.build_id);
        order.sort_by(|a, b| library(*a).cmp(&library(*b)));
        let libraries: Vec<&[usize]> = order.chunk_by(|a, b| library(*a) == library(*b)).collect();
        let mut names = vec![None; asked.len()];
        for few in libraries.chunks(MOST_THREADS) {
            self.read_libraries(few.iter().copied().flatten().map(|i| asked[*i]));
            for i in few.iter().copied().flatten() {
                names[*i] = self.find_symbol(asked[*i].0, asked[*i].1);
            }
        }
        names
    }

    /// Reads the libraries that will be needed, in parallel.
    pub fn read_libraries<'l>(&mut self, asked: impl Iterator<Item = (&'l Library, u64)>) {
        let mut wanted = BTreeSet::new();
        for (library, address) in asked {
            let place = address.wrapping_sub(library.base);
            let key = (library.build_id.clone(), library.path.clone());
            let is_read =
                |known: &LibrarySymbols| known.is_absent || known.table.is_some() || known.answers.contains_key(&place);
            let is_known = self.known.get(&key).is_some_and(is_read);
            if !is_known && self.packed.find(library, place).is_none() && wanted.len() < MOST_TABLES {
                wanted.insert(key);
            }
        }
        let (files, began, next) = (&self.files, Instant::now(), AtomicUsize::new(0));
        let wanted: Vec<LibraryKey> = wanted.into_iter().collect();
        let (until, opened) = (began + self.left.0, Mutex::new(Vec::new()));
        let work = || {
            while let Some(key) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                let of_key = files.open(&key.0, Path::new(&key.1), until);
                opened.lock().unwrap_or_else(|broken| broken.into_inner()).push((key, of_key));
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
        std::thread::scope(|scope| {
            // If no thread can be started, this thread does all the work.
            let begin = |_| drop(std::thread::Builder::new().spawn_scoped(scope, work));
            (1..threads.min(wanted.len())).for_each(begin);
            work();
        });
        for (key, opened) in opened.into_inner().unwrap_or_else(|broken| broken.into_inner()) {
            self.cache_library(key, opened);
        }
        self.left.0 = self.left.0.saturating_sub(began.elapsed());
    }

    /// Returns the reasons for missing names: for each library its path, and a sentence.
    pub fn notes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.notes.iter().map(|(library, why)| (library.as_str(), why.as_str()))
    }

    fn look_up(&mut self, key: &LibraryKey, place: u64) -> Option<Symbol> {
        if !self.known.get(key)?.is_absent && self.known.get(key)?.table.is_none() {
            let began = Instant::now();
            let opened = self.files.open(&key.0, Path::new(&key.1), began + self.left.0);
            self.left.0 = self.left.0.saturating_sub(began.elapsed());
            self.cache_library(key, opened);
        }
        self.time += 1;
        let known = self.known.get_mut(key)?;
        known.used = self.time;
        let began = Instant::now();
        let until = began + self.left.1;
        let (symbol, is_late) = symbol_at(known.table.as_ref(), known.lines.as_ref(), place, until);
        self.left.1 = self.left.1.saturating_sub(began.elapsed());
        let late = || (key.1.clone(), "some of its lines are left out: they took too long".to_owned());
        self.notes.extend(is_late.then(late));
        symbol
    }

    /// Caches the symbols that were read, and evicts the least recently used ones beyond the limit.
    fn cache_library(&mut self, key: &LibraryKey, OpenedLibrary { table, lines, notes }: OpenedLibrary) {
        self.notes.extend(notes);
        self.time += 1;
        let known = self.known.entry(key.clone()).or_default();
        (known.is_absent, known.used) = (table.is_err(), self.time);
        (known.table, known.lines) = (table.ok(), lines);
        loop {
            let kept = || self.known.iter().filter(|(_, known)| known.table.is_some());
            let bytes = kept().filter_map(|(_, known)| known.lines.as_ref()).map(|lines| lines.bytes);
            let is_too_much = kept().count() > MOST_TABLES || bytes.sum::<u64>() > self.room;
            let oldest = kept().min_by_key(|(_, known)| known.used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest.filter(|oldest| is_too_much && oldest != key) else { return };
            // Without its symbol table, the library is read again as a whole.
            if let Some(known) = self.known.get_mut(&oldest) {
                (known.table, known.lines) = (None, None);
            }
        }
    }
}

/// Returns the symbol at an offset of a library, with lines if time is left, and whether the time was up.
fn symbol_at(
    table: Option<&FunctionTable>,
    lines: Option<&DebugLines>,
    place: u64,
    until: Instant,
) -> (Option<Symbol>, bool) {
    let at = place.wrapping_sub(1);
    let Some((name, start)) = table.and_then(|table| table.find_innermost(at)) else { return (None, false) };
    let is_late = lines.is_some() && Instant::now() >= until;
    let lines = lines.filter(|_| !is_late).map_or_else(Vec::new, |lines| lines.lines_at(at));
    let offset = place.wrapping_sub(start);
    (Some(Symbol { function: demangle::demangle(&name), offset, lines }), is_late)
}

#[cfg(test)]
mod tests;
