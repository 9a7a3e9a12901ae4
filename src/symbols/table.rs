//! The functions of one ELF file, ordered by address.
//!
//! It finds the symbol that contains an address. Files can be as large as libtorch_cuda.so, with a million functions
//! and a hundred megabytes of names: names are read when they are needed.

use super::mapped::Bytes;
use cupeer_record::plain::{self, SymbolicLinks};
use object::LittleEndian;
use object::elf::{self, FileHeader64};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader, Sym};
use std::fmt;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

type Elf = FileHeader64<LittleEndian>;
const LE: LittleEndian = LittleEndian;

/// Number of preceding symbols that are searched for one whose range contains an address. Nested functions,
/// which assembly code has, are rare.
const MOST_NESTED: usize = 64;
/// Number of sections above which a file is refused. A sparse file can claim any number without using the disk.
const MOST_SECTIONS: usize = 1 << 18;
/// Number of symbols above which a file is refused.
const MOST_SYMBOLS: usize = 10 << 20;
/// Largest number of bytes of notes that are read per section or segment.
const MOST_NOTES: u64 = 16 << 20;
/// Largest number of bytes of a function's name. Names of templates can come close to this limit.
const LONGEST_NAME: usize = 64 * 1024;

/// Reason why a file is not used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum UnusableFile {
    /// The map's entry names no file, for example the kernel's own code.
    NotAFile,
    /// The file has another build ID than the recorded one, or is newer than the recording.
    Changed,
    /// The file and the recording lack a build ID to compare.
    NoBuildId,
    /// The file cannot be read.
    Unreadable(String),
    /// The file is not a 64-bit ELF file.
    NotElf,
}

impl fmt::Display for UnusableFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnusableFile::NotAFile => f.write_str("is not a file"),
            UnusableFile::Changed => f.write_str("the file has changed since"),
            UnusableFile::NoBuildId => f.write_str("has no build id, so no file can be identified as it"),
            UnusableFile::Unreadable(error) => write!(f, "cannot be read: {error}"),
            UnusableFile::NotElf => f.write_str("is not a readable ELF file"),
        }
    }
}

impl From<object::read::Error> for UnusableFile {
    fn from(_: object::read::Error) -> Self {
        UnusableFile::NotElf
    }
}

/// Opens a file that must have this build id or, if the build id is empty, must be older than the recording.
pub fn open_checked(path: &Path, build_id: &[u8], older_than: Option<SystemTime>) -> Result<Bytes, UnusableFile> {
    let unreadable = |error: std::io::Error| UnusableFile::Unreadable(error.to_string());
    // A recording may name any path. Open regular files only: opening others can have effects, or block
    // forever.
    if !path.is_absolute() {
        return Err(UnusableFile::NotAFile);
    }
    let file = plain::open(path, SymbolicLinks::Followed).map_err(unreadable)?;
    let found = file.metadata().map_err(unreadable)?;
    // The change time shows when the file was put there. Copies keep the modification time.
    let put = Duration::new(found.ctime().try_into().unwrap_or(0), found.ctime_nsec() as u32);
    if older_than.is_some_and(|time| SystemTime::UNIX_EPOCH + put >= time) {
        return Err(UnusableFile::Changed);
    }
    let file = Bytes::map(&file).map_err(unreadable)?;
    let header = Elf::parse(&*file)?;
    if header.endian()? != LE || header.section_headers(LE, &*file)?.len() > MOST_SECTIONS {
        return Err(UnusableFile::NotElf);
    }
    if build_id_of(header, &file)?.unwrap_or_default() != build_id {
        return Err(UnusableFile::Changed);
    }
    Ok(file)
}

/// The functions of a file.
pub struct FunctionTable {
    symbols: Vec<FunctionSymbol>,
    names: Vec<NameSection>,
    is_whole: bool,
}

#[derive(Clone, Copy)]
struct FunctionSymbol {
    start: u64,
    /// Size in bytes, up to 4 GiB.
    size: u32,
    /// Offset of the function's name among the names.
    name: u32,
    /// Index of the string table that contains the function's name.
    names: u8,
    /// Rank of the name. Of several functions that begin at one address, the name with the highest rank is
    /// used.
    rank: u8,
}

struct NameSection {
    file: Bytes,
    range: Range<u64>,
}

impl FunctionTable {
    /// Reads the functions of a file that was opened and checked.
    pub fn read(file: &Bytes) -> Result<FunctionTable, UnusableFile> {
        let header = Elf::parse(&**file)?;
        let mut table = FunctionTable { symbols: Vec::new(), names: Vec::new(), is_whole: false };
        let sections = header.sections(LE, &**file)?;
        for kind in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
            let symbols = sections.symbols(LE, &**file, kind)?;
            if symbols.len() > MOST_SYMBOLS {
                return Err(UnusableFile::NotElf);
            }
            let strings = sections.section(symbols.string_section());
            let Some((start, size)) = strings.ok().and_then(|strings| strings.file_range(LE)) else {
                continue;
            };
            let names = table.names.len() as u8;
            table.symbols.reserve_exact(symbols.iter().filter(|symbol| is_function(symbol)).count());
            for symbol in symbols.iter().filter(|symbol| is_function(symbol)) {
                table.symbols.push(FunctionSymbol {
                    start: symbol.st_value(LE),
                    size: u32::try_from(symbol.st_size(LE)).unwrap_or(u32::MAX),
                    name: symbol.st_name(LE),
                    names,
                    rank: binding_rank(symbol.st_bind()),
                });
            }
            table.is_whole |= kind == elf::SHT_SYMTAB && !symbols.is_empty();
            table.names.push(NameSection { file: file.clone(), range: start..start.saturating_add(size) });
            if table.is_whole {
                // Every dynamic symbol is also in this table.
                break;
            }
        }
        table.sort();
        Ok(table)
    }

    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    pub fn add_symbols_of(&mut self, other: FunctionTable) {
        let names = self.names.len() as u8;
        self.names.extend(other.names);
        self.symbols
            .extend(other.symbols.into_iter().map(|symbol| FunctionSymbol { names: symbol.names + names, ..symbol }));
        self.sort();
    }

    fn sort(&mut self) {
        self.symbols.sort_unstable_by_key(|symbol| (symbol.start, symbol.rank));
    }

    /// Returns the innermost function that contains an address: its mangled name and its start.
    pub fn find_innermost(&self, address: u64) -> Option<(Vec<u8>, u64)> {
        let behind = self.symbols.partition_point(|symbol| symbol.start <= address);
        let before = self.symbols[..behind].iter().rev().take(MOST_NESTED);
        let mut best: Option<&FunctionSymbol> = None;
        for symbol in before.filter(|symbol| address - symbol.start < u64::from(symbol.size)) {
            match best {
                Some(best) if best.start > symbol.start => break,
                Some(found) if found.rank > symbol.rank => {}
                Some(found) if found.rank == symbol.rank => {
                    if self.read_name(symbol) < self.read_name(found) {
                        best = Some(symbol);
                    }
                }
                _ => best = Some(symbol),
            }
        }
        let symbol = best?;
        Some((self.read_name(symbol)?.1, symbol.start))
    }

    /// Returns the name of a function, with a sort key by which the plainest of several names comes first:
    /// fewer leading underscores, then fewer bytes, then alphabetical order.
    fn read_name(&self, symbol: &FunctionSymbol) -> Option<((usize, usize), Vec<u8>)> {
        let names = self.names.get(usize::from(symbol.names))?;
        let at = names.range.start.checked_add(u64::from(symbol.name))?;
        let end = names.range.end.min(at.saturating_add(LONGEST_NAME as u64)).min(names.file.len() as u64);
        let name = names.file.get(at as usize..end as usize)?;
        let name = name.split(|byte| *byte == 0).next()?.to_vec();
        let underscores = name.iter().take_while(|byte| **byte == b'_').count();
        (!name.is_empty()).then_some(((underscores, name.len()), name))
    }
}

/// Returns true if a symbol is a function with a size. Assembly code has functions without one: their range would
/// extend to the next symbol, which a stripped file may lack.
fn is_function(symbol: &elf::Sym64<LittleEndian>) -> bool {
    [elf::STT_FUNC, elf::STT_GNU_IFUNC].contains(&symbol.st_type())
        && symbol.st_shndx(LE) != elf::SHN_UNDEF
        && symbol.st_size(LE) > 0
}

fn binding_rank(binding: elf::SymbolBind) -> u8 {
    match binding {
        elf::STB_GLOBAL => 2,
        elf::STB_WEAK => 1,
        _ => 0,
    }
}

/// Returns the build id of a file. The build id of a debug-only file is found by its sections, because its
/// segments have no contents.
fn build_id_of<'data>(header: &'data Elf, data: &'data [u8]) -> Result<Option<&'data [u8]>, UnusableFile> {
    let sections = header.section_headers(LE, data)?.iter();
    let sections = sections.filter(|one| one.sh_size(LE) <= MOST_NOTES).map(|one| one.notes(LE, data));
    let segments = header.program_headers(LE, data)?.iter();
    let segments = segments.filter(|one| one.p_filesz(LE) <= MOST_NOTES).map(|one| one.notes(LE, data));
    for mut notes in sections.chain(segments).filter_map(|notes| notes.ok()?) {
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(LE) == elf::NT_GNU_BUILD_ID {
                return Ok(Some(note.desc()));
            }
        }
    }
    Ok(None)
}
