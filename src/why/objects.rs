//! The programs and libraries that a process has mapped: where their unwind tables are, and what symbols need.

use super::memory::Outside;
use cupeer_launch::elf::{Elf, Segments};
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
pub struct Mapped {
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

/// A mapped file in one process.
pub struct Object {
    pub range: Range<u64>,
    pub base: u64,
    pub file: Arc<Mapped>,
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
pub struct Files {
    known: HashMap<(String, (i32, i32), u64), Arc<Mapped>>,
}

impl Files {
    /// Returns the mapped files of a process, in the order of their addresses. `root` is a prefix for their paths if the
    /// process has another root directory than cupeer.
    pub fn objects(&mut self, pid: u32, root: &str, maps: &MemoryMaps, memory: &Outside) -> Vec<Object> {
        let mut objects: Vec<Object> = Vec::new();
        let mut last: Option<(&PathBuf, u64)> = None;
        for map in maps {
            match &map.pathname {
                MMapPath::Path(path) if last != Some((path, map.inode)) => {
                    last = Some((path, map.inode));
                    objects.extend(self.object(pid, root, path, map));
                }
                MMapPath::Path(_) => {
                    if let Some(object) =
                        objects.last_mut().filter(|object| object.range.start < map.address.0)
                    {
                        object.range.end = map.address.1;
                    }
                }
                MMapPath::Vdso => objects.extend(vdso(map, memory)),
                _ => {}
            }
        }
        objects
    }

    fn object(&mut self, pid: u32, root: &str, path: &Path, map: &MemoryMap) -> Option<Object> {
        // The first mapping of a library starts with its ELF header. Data files are mapped as well, but have no ELF header.
        let shown = path.to_string_lossy().into_owned();
        let key = (format!("{root}{shown}"), map.dev, map.inode);
        let file = match self.known.get(&key) {
            Some(known) => known.clone(),
            None => {
                let path = deleted(pid, &shown, map).unwrap_or_else(|| key.0.clone());
                let read = Arc::new(Mapped::read(path, shown));
                self.known.insert(key, read.clone());
                read
            }
        };
        let base = file.segments.base(map.address.0, map.offset)?;
        Some(Object { range: map.address.0..map.address.1, base, file })
    }
}

impl Mapped {
    fn read(path: String, shown: String) -> Mapped {
        let elf = Elf::open(Path::new(&path)).ok().flatten();
        let segments = elf.as_ref().and_then(|elf| elf.segments().ok()).unwrap_or_default();
        let build_id = elf.as_ref().and_then(|elf| elf.note(b"GNU\0", NT_GNU_BUILD_ID.0).ok().flatten());
        // Libraries with other names than Python's are not searched: some have millions of symbols.
        let name = shown.rsplit('/').next().unwrap_or_default();
        let may_be_python = !name.contains(".so") || name.starts_with("libpython");
        let is_libc = name.starts_with("libc.so") || name.starts_with("libc-2");
        let wanted = if is_libc { &[ENVIRONMENT][..] } else { &PYTHON };
        let symbols = elf.filter(|_| may_be_python || is_libc).and_then(|elf| elf.symbols(wanted).ok());
        let python = symbols.unwrap_or_default();
        Mapped { path, shown, build_id: build_id.unwrap_or_default(), segments, python }
    }
}

/// Returns a path at which the file of a process can still be read, although it was deleted or replaced.
fn deleted(pid: u32, shown: &str, map: &MemoryMap) -> Option<String> {
    shown.strip_suffix(" (deleted)")?;
    let program = format!("/proc/{pid}/exe");
    // The kernel shows links to other mapped files only to the administrator.
    let is_program = std::fs::read_link(&program).is_ok_and(|link| link.as_os_str() == shown);
    let (start, end) = map.address;
    Some(if is_program { program } else { format!("/proc/{pid}/map_files/{start:x}-{end:x}") })
}

/// Returns the vDSO: the code that the kernel maps into each process.
fn vdso(map: &MemoryMap, memory: &Outside) -> Option<Object> {
    let mut bytes = vec![0; (map.address.1 - map.address.0).min(1 << 16) as usize];
    let length = memory.copy(map.address.0 as usize, &mut bytes);
    let segments = Segments::of_bytes(&bytes[..length]).ok()?;
    let base = segments.base(map.address.0, 0)?;
    let file = Mapped {
        path: "[vdso]".into(),
        shown: "[vdso]".into(),
        build_id: Vec::new(),
        segments,
        python: HashMap::new(),
    };
    Some(Object { range: map.address.0..map.address.1, base, file: Arc::new(file) })
}

impl Object {
    /// Returns the object that contains an address.
    pub fn at(objects: &[Object], address: u64) -> Option<&Object> {
        let behind = objects.partition_point(|object| object.range.start <= address);
        objects[..behind].last().filter(|object| object.range.contains(&address))
    }

    /// Returns the address of the object's sorted table of functions (.eh_frame_hdr).
    pub fn unwind_table(&self) -> Option<usize> {
        Some(self.base.wrapping_add(self.file.segments.unwind?) as usize)
    }

    /// Returns the address and size of a symbol of Python.
    pub fn python(&self, name: &CStr) -> Option<(usize, usize)> {
        let (address, size) = self.file.python.get(name)?;
        Some((self.base.wrapping_add(*address) as usize, *size as usize))
    }

    /// Returns the current environment variables of a process, including its own changes, as NAME=VALUE.
    pub fn environment(objects: &[Object], memory: &Outside) -> Vec<String> {
        const MOST: u64 = 1024;
        let place = objects.iter().find_map(|object| object.python(ENVIRONMENT));
        let array = place.and_then(|(address, _)| memory.word(address as u64)).unwrap_or(0);
        let entries = (0..MOST).map_while(|index| memory.word(array + 8 * index).filter(|entry| *entry != 0));
        if array == 0 { Vec::new() } else { entries.filter_map(|entry| memory.text(entry)).collect() }
    }

    /// Returns the library for the names of its functions.
    pub fn library(&self) -> Library {
        Library {
            base: self.base,
            range: self.range.clone(),
            since: 0,
            build_id: self.file.build_id.clone(),
            path: self.file.path.clone(),
        }
    }
}
