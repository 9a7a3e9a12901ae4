//! The programs and libraries that a process has mapped: where their unwind tables are, and what symbols need.

use super::memory::RemoteMemory;
use cupeer_launch::elf::{ElfFile, Segments};
use cupeer_record::Library;
use cupeer_stacks::Memory;
use object::elf::NT_GNU_BUILD_ID;
use procfs::process::{MMapPath, MemoryMap, MemoryMaps};
use std::collections::HashMap;
use std::ffi::CStr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file that processes have mapped; they share this value.
pub struct ParsedElf {
    /// Path from which the file's symbols are read.
    pub path: String,
    /// Path or name of the file in messages.
    pub shown: String,
    pub build_id: Vec<u8>,
    segments: Segments,
    /// Addresses and sizes of the symbols that lead to Python frames, if the file is an interpreter or a program that may
    /// contain one.
    python: HashMap<&'static CStr, (u64, u64)>,
}

/// An ELF file that one process has mapped.
pub struct MappedFile {
    pub range: Range<u64>,
    pub base: u64,
    pub file: Arc<ParsedElf>,
}

/// Symbols that lead to Python frames.
const PYTHON: [&CStr; 9] = [
    c"_PyRuntime",
    c"_PyEval_EvalFrameDefault",
    c"PyCode_Type",
    c"PyUnicode_Type",
    c"PyBytes_Type",
    c"PyFrame_Type",
    c"Py_Version",
    c"PyIter_Send",
    c"PyThreadState_GetFrame",
];

/// Variable of the C library that points to the current environment.
const ENVIRONMENT: &CStr = c"environ";

/// Files that were read, so that each file is read once for all processes.
#[derive(Default)]
pub struct ParsedElfCache {
    known: HashMap<(String, (i32, i32), u64), Arc<ParsedElf>>,
}

impl ParsedElfCache {
    /// Returns the mapped files of a process, in the order of their addresses. `root` is a prefix for their paths if the
    /// process has another root directory than cupeer.
    pub fn mapped_files(&mut self, pid: u32, root: &str, maps: &MemoryMaps, memory: &RemoteMemory) -> Vec<MappedFile> {
        let mut objects: Vec<MappedFile> = Vec::new();
        let mut last: Option<(&PathBuf, u64)> = None;
        for map in maps {
            match &map.pathname {
                MMapPath::Path(path) if last != Some((path, map.inode)) => {
                    last = Some((path, map.inode));
                    objects.extend(self.mapped_file(pid, root, path, map));
                }
                MMapPath::Path(_) => {
                    if let Some(object) = objects.last_mut().filter(|object| object.range.start < map.address.0) {
                        object.range.end = map.address.1;
                    }
                }
                MMapPath::Vdso => objects.extend(read_vdso(map, memory)),
                _ => {}
            }
        }
        objects
    }

    fn mapped_file(&mut self, pid: u32, root: &str, path: &Path, map: &MemoryMap) -> Option<MappedFile> {
        // The first mapping of a library starts with its ELF header. Data files are mapped as well, but have no ELF header.
        let shown = path.to_string_lossy().into_owned();
        let key = (format!("{root}{shown}"), map.dev, map.inode);
        let file = match self.known.get(&key) {
            Some(known) => known.clone(),
            None => {
                let path = path_of_deleted(pid, &shown, map).unwrap_or_else(|| key.0.clone());
                let read = Arc::new(ParsedElf::read(path, shown));
                self.known.insert(key, read.clone());
                read
            }
        };
        let base = file.segments.load_bias(map.address.0, map.offset)?;
        Some(MappedFile { range: map.address.0..map.address.1, base, file })
    }
}

impl ParsedElf {
    fn read(path: String, shown: String) -> ParsedElf {
        let elf = ElfFile::open(Path::new(&path)).ok().flatten();
        let segments = elf.as_ref().and_then(|elf| elf.read_segments().ok()).unwrap_or_default();
        let build_id = elf.as_ref().and_then(|elf| elf.find_note(b"GNU\0", NT_GNU_BUILD_ID.0).ok().flatten());
        // Libraries with other names than Python's are not searched: some have millions of symbols.
        let name = shown.rsplit('/').next().unwrap_or_default();
        let may_be_python = !name.contains(".so") || name.starts_with("libpython");
        let is_libc_or_loader = name.starts_with("libc.so") || name.starts_with("libc-2");
        let wanted = if is_libc_or_loader { &[ENVIRONMENT][..] } else { &PYTHON };
        let symbols = elf.filter(|_| may_be_python || is_libc_or_loader).and_then(|elf| elf.find_symbols(wanted).ok());
        let python = symbols.unwrap_or_default();
        ParsedElf { path, shown, build_id: build_id.unwrap_or_default(), segments, python }
    }
}

/// Returns a path at which the file of a process can still be read, although it was deleted or replaced.
fn path_of_deleted(pid: u32, shown: &str, map: &MemoryMap) -> Option<String> {
    shown.strip_suffix(" (deleted)")?;
    let program = format!("/proc/{pid}/exe");
    // The kernel shows links to other mapped files only to the administrator.
    let is_program = std::fs::read_link(&program).is_ok_and(|link| link.as_os_str() == shown);
    let (start, end) = map.address;
    Some(if is_program { program } else { format!("/proc/{pid}/map_files/{start:x}-{end:x}") })
}

/// Returns the vDSO: the code that the kernel maps into each process.
fn read_vdso(map: &MemoryMap, memory: &RemoteMemory) -> Option<MappedFile> {
    let mut bytes = vec![0; (map.address.1 - map.address.0).min(1 << 16) as usize];
    let length = memory.copy(map.address.0 as usize, &mut bytes);
    let segments = Segments::from_bytes(&bytes[..length]).ok()?;
    let base = segments.load_bias(map.address.0, 0)?;
    let file = ParsedElf {
        path: "[vdso]".into(),
        shown: "[vdso]".into(),
        build_id: Vec::new(),
        segments,
        python: HashMap::new(),
    };
    Some(MappedFile { range: map.address.0..map.address.1, base, file: Arc::new(file) })
}

impl MappedFile {
    /// Returns the mapped file that contains an address.
    pub fn containing(objects: &[MappedFile], address: u64) -> Option<&MappedFile> {
        let behind = objects.partition_point(|object| object.range.start <= address);
        objects[..behind].last().filter(|object| object.range.contains(&address))
    }

    /// Returns the address of the file's sorted table of functions (.eh_frame_hdr).
    pub fn unwind_table(&self) -> Option<usize> {
        Some(self.base.wrapping_add(self.file.segments.unwind?) as usize)
    }

    /// Returns the address and size of a symbol of Python.
    pub fn python_symbol(&self, name: &CStr) -> Option<(usize, usize)> {
        let (address, size) = self.file.python.get(name)?;
        Some((self.base.wrapping_add(*address) as usize, *size as usize))
    }

    /// Returns the current environment variables of a process, including its own changes, as NAME=VALUE.
    pub fn read_environment(objects: &[MappedFile], memory: &RemoteMemory) -> Vec<String> {
        const MOST: u64 = 1024;
        let place = objects.iter().find_map(|object| object.python_symbol(ENVIRONMENT));
        let array = place.and_then(|(address, _)| memory.u64_at(address as u64)).unwrap_or(0);
        let entries = (0..MOST).map_while(|index| memory.u64_at(array + 8 * index).filter(|entry| *entry != 0));
        if array == 0 { Vec::new() } else { entries.filter_map(|entry| memory.text_at(entry)).collect() }
    }

    /// Returns the library for the names of its functions.
    pub fn to_library(&self) -> Library {
        Library {
            base: self.base,
            range: self.range.clone(),
            since: 0,
            build_id: self.file.build_id.clone(),
            path: self.file.path.clone(),
        }
    }
}
