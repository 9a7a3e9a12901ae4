//! ELF files of programs and drivers, before anything is started: whether a program has a dynamic loader, and whether a file can
//! be a driver. Reads only the parts that it needs: programs are large.

use cupeer_record::plain::{self, SymbolicLinks};
use cupeer_report::symbols::mapped::Bytes;
use object::LittleEndian as LE;
use object::elf::{self, FileHeader64};
use object::read::Result;
use object::read::elf::{FileHeader, ProgramHeader, Sym};
use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::path::Path;

/// Machine architecture of this build.
#[cfg(target_arch = "x86_64")]
const NATIVE: elf::Machine = elf::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const NATIVE: elf::Machine = elf::EM_AARCH64;

pub struct ElfFile {
    data: Bytes,
    /// Machine architecture of the file; `None` if the file is not a little-endian 64-bit ELF file.
    machine: Option<elf::Machine>,
}

impl ElfFile {
    /// Opens a file; returns `None` if the file is not an ELF file.
    pub fn open(path: &Path) -> io::Result<Option<ElfFile>> {
        let data = Bytes::map(&plain::open(path, SymbolicLinks::Followed)?)?;
        if !data.starts_with(&elf::ELFMAG) {
            return Ok(None);
        }
        let header = FileHeader64::<LE>::parse(&*data).and_then(|header| header.endian().map(|_| header));
        let machine = header.ok().map(|header| header.e_machine(LE));
        Ok(Some(ElfFile { data, machine }))
    }

    fn header(&self) -> Result<&FileHeader64<LE>> {
        FileHeader64::parse(&*self.data)
    }

    pub fn is_native(&self) -> bool {
        self.machine == Some(NATIVE)
    }

    /// Returns the name of the file's machine architecture, for a file of another architecture than this build.
    pub fn describe_architecture(&self) -> String {
        self.machine.map_or("not a 64-bit program".into(), |machine| format!("a program for machine {}", machine.0))
    }

    /// Returns the path of the dynamic loader that the program requests.
    pub fn interpreter(&self) -> Result<Option<String>> {
        for segment in self.header()?.program_headers(LE, &*self.data)? {
            if let Some(path) = segment.interpreter(LE, &*self.data)? {
                return Ok(Some(String::from_utf8_lossy(path).into_owned()));
            }
        }
        Ok(None)
    }

    /// Reads the addresses of the file's segments in memory.
    pub fn read_segments(&self) -> Result<Segments> {
        Segments::from_headers(self.header()?.program_headers(LE, &*self.data)?)
    }

    /// Returns the named dynamic symbols that the file defines: for each, its address in the file, and its size in bytes.
    pub fn find_symbols(&self, names: &[&'static CStr]) -> Result<HashMap<&'static CStr, (u64, u64)>> {
        let symbols = self.header()?.sections(LE, &*self.data)?.symbols(LE, &*self.data, elf::SHT_DYNSYM)?;
        let defined = symbols.iter().filter(|symbol| !symbol.is_undefined(LE));
        let named = defined.filter_map(|symbol| {
            let found = symbol.name(LE, symbols.strings()).ok()?;
            let name = names.iter().find(|name| name.to_bytes() == found)?;
            Some((*name, (symbol.st_value(LE), symbol.st_size(LE))))
        });
        Ok(named.collect())
    }

    /// Returns true for a shared library, and for a position-independent program.
    pub fn is_shared_object(&self) -> bool {
        let is_dynamic = |header: &FileHeader64<LE>| {
            let segments = header.program_headers(LE, &*self.data).unwrap_or_default();
            header.e_type(LE) == elf::ET_DYN && segments.iter().any(|one| one.p_type(LE) == elf::PT_DYNAMIC)
        };
        self.header().is_ok_and(is_dynamic)
    }

    /// Returns true if the file contains everything that the dynamic loader maps: a program that maps an incomplete library ends
    /// by SIGBUS.
    pub fn is_complete(&self) -> bool {
        let length = self.data.len() as u64;
        let is_there = |segment: &elf::ProgramHeader64<LE>| {
            let end = segment.p_offset(LE).checked_add(segment.p_filesz(LE));
            segment.p_type(LE) != elf::PT_LOAD || end.is_some_and(|end| end <= length)
        };
        let segments = self.header().and_then(|header| header.program_headers(LE, &*self.data));
        segments.is_ok_and(|segments| segments.iter().all(is_there))
    }

    /// Returns the names of the libraries that the file needs (DT_NEEDED).
    pub fn needed_libraries(&self) -> Result<Vec<String>> {
        let dynamic = self.header()?.sections(LE, &*self.data)?.dynamic_table(LE, &*self.data)?;
        let needed = dynamic.iter().filter(|entry| entry.tag == elf::DT_NEEDED);
        needed.map(|entry| Ok(String::from_utf8_lossy(dynamic.string(entry)?).into_owned())).collect()
    }

    pub fn soname(&self) -> Result<Option<String>> {
        let dynamic = self.header()?.sections(LE, &*self.data)?.dynamic_table(LE, &*self.data)?;
        let Some(name) = dynamic.iter().find(|entry| entry.tag == elf::DT_SONAME) else { return Ok(None) };
        dynamic.string(name).map(|name| Some(String::from_utf8_lossy(name).into_owned()))
    }

    /// Returns the contents of the first note with an owner (including its final NUL) and a type.
    pub fn find_note(&self, owner: &[u8], kind: u32) -> Result<Option<Vec<u8>>> {
        for segment in self.header()?.program_headers(LE, &*self.data)? {
            let Some(mut notes) = segment.notes(LE, &*self.data)? else { continue };
            while let Some(note) = notes.next()? {
                if note.name_bytes() == owner && note.n_type(LE) == elf::NoteType(kind) {
                    return Ok(Some(note.desc().to_owned()));
                }
            }
        }
        Ok(None)
    }

    pub fn exports_symbol(&self, name: &str) -> Result<bool> {
        let symbols = self.header()?.sections(LE, &*self.data)?.symbols(LE, &*self.data, elf::SHT_DYNSYM)?;
        let is_it = |symbol: &elf::Sym64<LE>| {
            !symbol.is_undefined(LE) && symbol.name(LE, symbols.strings()) == Ok(name.as_bytes())
        };
        Ok(symbols.iter().any(is_it))
    }
}

/// Addresses of a file's segments in memory.
#[derive(Default)]
pub struct Segments {
    /// Loaded segments: for each, its offset in the file and its address.
    loads: Vec<(u64, u64)>,
    /// Address of the sorted table of functions (.eh_frame_hdr).
    pub unwind: Option<u64>,
}

impl Segments {
    fn from_headers(headers: &[elf::ProgramHeader64<LE>]) -> Result<Segments> {
        let of_kind = |kind| headers.iter().filter(move |header| header.p_type(LE) == kind);
        Ok(Segments {
            loads: of_kind(elf::PT_LOAD).map(|header| (header.p_offset(LE), header.p_vaddr(LE))).collect(),
            unwind: of_kind(elf::PT_GNU_EH_FRAME).map(|header| header.p_vaddr(LE)).next(),
        })
    }

    /// Reads the segments of a file that is completely in memory.
    pub fn from_bytes(bytes: &[u8]) -> Result<Segments> {
        Segments::from_headers(FileHeader64::<LE>::parse(bytes)?.program_headers(LE, bytes)?)
    }

    /// Returns the difference between addresses in memory and in the file. `address` and `offset` are those of one mapping of
    /// the file.
    pub fn load_bias(&self, address: u64, offset: u64) -> Option<u64> {
        const PAGE: u64 = 4096;
        let whole = |number: u64| number & !(PAGE - 1);
        let of = |(start, _): &&(u64, u64)| whole(*start) == offset;
        let (start, at) = self.loads.iter().find(of)?;
        Some(address.wrapping_sub(whole(*at)).wrapping_sub(offset - whole(*start)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_program_and_its_libc() {
        let own = ElfFile::open(&std::env::current_exe().unwrap()).unwrap().unwrap();
        assert!(own.is_native() && own.interpreter().unwrap().unwrap().contains("/ld-linux"));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc = maps.lines().filter_map(|l| l.find('/').map(|at| &l[at..])).find(|p| p.contains("/libc.so.6"));
        let libc = ElfFile::open(Path::new(libc.unwrap())).unwrap().unwrap();
        assert!(
            libc.is_shared_object()
                && libc.exports_symbol("printf").unwrap()
                && !libc.exports_symbol("cuInit").unwrap()
        );
        assert_eq!(libc.soname().unwrap().as_deref(), Some("libc.so.6"));
        // Its build id, 20 bytes in all distributions.
        assert_eq!(libc.find_note(b"GNU\0", elf::NT_GNU_BUILD_ID.0).unwrap().map(|id| id.len()), Some(20));
    }

    #[test]
    fn damaged_files_are_refused_and_nothing_panics() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let path = std::env::temp_dir().join(format!("cupeer-elf-{}", std::process::id()));
        for at in (0..1024).step_by(3) {
            let mut bytes = whole[..whole.len().min(1 << 16)].to_vec();
            bytes[at] = !bytes[at];
            std::fs::write(&path, &bytes).unwrap();
            if let Ok(Some(elf)) = ElfFile::open(&path) {
                let _ = (elf.interpreter(), elf.soname(), elf.exports_symbol("cuInit"), elf.find_note(b"GNU\0", 3));
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
}
