//! As much of ELF as it takes to say, before anything is started, whether the dynamic loader will run in
//! a program, and whether a file can be a driver. Reads what it needs and no more: programs are large.

use cupeer_record::plain::{self, Links};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// `e_machine` of this build.
#[cfg(target_arch = "x86_64")]
const NATIVE: u16 = 62;
/// `e_machine` of this build.
#[cfg(target_arch = "aarch64")]
const NATIVE: u16 = 183;

const ET_DYN: u16 = 3;
const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_SONAME: u64 = 14;
const DT_GNU_HASH: u64 = 0x6fff_fef5;

/// No table that we read is larger: a file that says otherwise is damaged.
const MOST: u64 = 1 << 20;

/// An ELF file of this machine, or what is known of another.
pub struct Elf {
    file: File,
    /// Whether this is a 64-bit little-endian file.
    pub wide: bool,
    /// Its machine, by its number.
    pub machine: u16,
    kind: u16,
    segments: Vec<Segment>,
}

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

/// Reads little-endian numbers from a file.
fn number<const N: usize>(file: &File, offset: u64) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

fn u16_at(file: &File, offset: u64) -> io::Result<u16> {
    number(file, offset).map(u16::from_le_bytes)
}

fn u32_at(file: &File, offset: u64) -> io::Result<u32> {
    number(file, offset).map(u32::from_le_bytes)
}

fn u64_at(file: &File, offset: u64) -> io::Result<u64> {
    number(file, offset).map(u64::from_le_bytes)
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the ELF file is damaged")
}

impl Elf {
    /// Reads the headers; `None` where the file is no ELF file at all.
    pub fn open(path: &Path) -> io::Result<Option<Elf>> {
        let file = plain::open(path, Links::Followed)?;
        let mut ident = [0; 20];
        if file.read_exact_at(&mut ident, 0).is_err() || !ident.starts_with(b"\x7fELF") {
            return Ok(None);
        }
        let (kind, machine) = (u16_at(&file, 16)?, u16_at(&file, 18)?);
        let wide = ident[4] == 2 && ident[5] == 1;
        let mut segments = Vec::new();
        if wide {
            let (start, size) = (u64_at(&file, 32)?, u64::from(u16_at(&file, 54)?));
            for i in 0..u64::from(u16_at(&file, 56)?) {
                let at = i.checked_mul(size).and_then(|at| at.checked_add(start)).ok_or_else(damaged)?;
                segments.push(Segment {
                    kind: u32_at(&file, at)?,
                    offset: u64_at(&file, at + 8)?,
                    address: u64_at(&file, at + 16)?,
                    size: u64_at(&file, at + 32)?,
                });
            }
        }
        Ok(Some(Elf { file, wide, machine, kind, segments }))
    }

    /// Whether the file is for this machine.
    pub fn is_native(&self) -> bool {
        self.wide && self.machine == NATIVE
    }

    /// What the file is for, where it is not this machine.
    pub fn foreign(&self) -> String {
        if self.wide { format!("a program for machine {}", self.machine) } else { "no 64-bit program".into() }
    }

    /// The dynamic loader that the program asks for.
    pub fn interpreter(&self) -> io::Result<Option<String>> {
        let Some(segment) = self.segments.iter().find(|s| s.kind == PT_INTERP) else { return Ok(None) };
        self.text(segment.offset, segment.size.min(4096)).map(Some)
    }

    /// Whether this is a shared library (or a position-independent program).
    pub fn is_shared(&self) -> bool {
        self.kind == ET_DYN && self.segments.iter().any(|s| s.kind == PT_DYNAMIC)
    }

    /// The name that the library goes by.
    pub fn soname(&self) -> io::Result<Option<String>> {
        match (self.dynamic(DT_SONAME)?, self.table(DT_STRTAB)?) {
            (Some(name), Some(strings)) => self.text(strings + name, 256).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether the library defines a dynamic symbol of this name.
    pub fn exports(&self, name: &str) -> io::Result<bool> {
        let (Some(symbols), Some(strings)) = (self.table(DT_SYMTAB)?, self.table(DT_STRTAB)?) else {
            return Ok(false);
        };
        let is_it = |index: u64| -> io::Result<bool> {
            let at = symbols + index * 24;
            let defined = u16_at(&self.file, at + 6)? != 0;
            let same =
                self.text(strings + u64::from(u32_at(&self.file, at)?), name.len() as u64 + 1)? == name;
            Ok(defined && same)
        };
        if let Some(table) = self.table(DT_GNU_HASH)? {
            let header: Vec<u64> =
                (0..3).map(|i| u32_at(&self.file, table + i * 4).map(u64::from)).collect::<Result<_, _>>()?;
            let (buckets, first, bloom) = (header[0].clamp(1, MOST), header[1], header[2].min(MOST));
            let hash = gnu_hash(name);
            let start = table + 16 + bloom * 8;
            let mut index = u64::from(u32_at(&self.file, start + u64::from(hash) % buckets * 4)?);
            while index >= first && index < first + MOST {
                let entry = u32_at(&self.file, start + buckets * 4 + (index - first) * 4)?;
                if entry | 1 == hash | 1 && is_it(index)? {
                    return Ok(true);
                }
                if entry & 1 == 1 {
                    break;
                }
                index += 1;
            }
        } else if let Some(table) = self.table(DT_HASH)? {
            for index in 0..u64::from(u32_at(&self.file, table + 4)?).min(MOST) {
                if is_it(index)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// A value of the dynamic section.
    fn dynamic(&self, tag: u64) -> io::Result<Option<u64>> {
        let Some(segment) = self.segments.iter().find(|s| s.kind == PT_DYNAMIC) else { return Ok(None) };
        for i in 0..segment.size.min(MOST) / 16 {
            let at = segment.offset + i * 16;
            match u64_at(&self.file, at)? {
                0 => break,
                found if found == tag => return u64_at(&self.file, at + 8).map(Some),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Where in the file a table of the dynamic section begins.
    fn table(&self, tag: u64) -> io::Result<Option<u64>> {
        let Some(address) = self.dynamic(tag)? else { return Ok(None) };
        let within = |s: &&Segment| s.kind == PT_LOAD && address >= s.address && address - s.address < s.size;
        let segment = self.segments.iter().find(within).ok_or_else(damaged)?;
        Ok(Some(segment.offset + (address - segment.address)))
    }

    /// A text that ends with a NUL byte, or after `most` bytes.
    fn text(&self, offset: u64, most: u64) -> io::Result<String> {
        let mut bytes = vec![0; usize::try_from(most).map_err(|_| damaged())?];
        let read = self.file.read_at(&mut bytes, offset)?;
        let text = bytes[..read].split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(text).into_owned())
    }
}

fn gnu_hash(name: &str) -> u32 {
    name.bytes().fold(5381, |hash: u32, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_this_program_and_its_libc() {
        let own = Elf::open(&std::env::current_exe().unwrap()).unwrap().unwrap();
        assert!(own.is_native() && own.interpreter().unwrap().unwrap().contains("/ld-linux"));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let libc =
            maps.lines().filter_map(|l| l.find('/').map(|at| &l[at..])).find(|p| p.contains("/libc.so.6"));
        let libc = Elf::open(Path::new(libc.unwrap())).unwrap().unwrap();
        assert!(libc.is_shared() && libc.exports("printf").unwrap() && !libc.exports("cuInit").unwrap());
        assert_eq!(libc.soname().unwrap().as_deref(), Some("libc.so.6"));
    }

    #[test]
    fn damaged_files_are_refused_and_nothing_panics() {
        let whole = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let path = std::env::temp_dir().join(format!("cupeer-elf-{}", std::process::id()));
        for at in (0..1024).step_by(3) {
            let mut bytes = whole[..whole.len().min(1 << 16)].to_vec();
            bytes[at] = !bytes[at];
            std::fs::write(&path, &bytes).unwrap();
            if let Ok(Some(elf)) = Elf::open(&path) {
                let _ = (elf.interpreter(), elf.soname(), elf.exports("cuInit"));
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
}
