//! Reads one loaded shared object: its name and dependencies, its definitions, and the slots that hold the addresses
//! of other objects' functions.
//!
//! `elf` lists the objects.

use super::arch::{self, Relocation, page_size};
use core::ffi::{CStr, c_char, c_void};
use core::ops::Range;
use libc::{
    Elf64_Ehdr, Elf64_Phdr, Elf64_Rela, Elf64_Sym, PT_DYNAMIC, PT_GNU_EH_FRAME, PT_GNU_RELRO, PT_LOAD, PT_NOTE,
    dl_phdr_info,
};

const DT_PLTRELSZ: u64 = 2;
const DT_NEEDED: u64 = 1;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_RELA: u64 = 7;
const DT_RELASZ: u64 = 8;
const DT_SONAME: u64 = 14;
const DT_DEBUG: u64 = 21;
const DT_JMPREL: u64 = 23;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
const STT_OBJECT: u8 = 1;
const STT_GNU_IFUNC: u8 = 10;

#[derive(Clone, Copy)]
pub struct LoadedObject {
    /// Difference between an address in memory and the address in the object's file.
    pub base: usize,
    /// Address of the first mapped byte of the object.
    pub low: usize,
    /// Address after the last mapped byte of the object.
    pub high: usize,
    /// Address of the object's unwind information; 0 if it has none, or it is unknown.
    pub unwind: usize,
    /// Address range that the loader made read-only after filling it; empty if it is unknown.
    read_only: (usize, usize),
    /// Address and number of the object's program headers; null if they are unknown.
    headers: (*const Elf64_Phdr, usize),
    /// Path of the object; empty for the program itself.
    name: *const c_char,
    dynamic: Dynamic,
}

/// Addresses of the tables that a dynamic section lists; 0 for each table that the object lacks.
#[derive(Clone, Copy, Default)]
struct Dynamic {
    start: usize,
    strtab: usize,
    symtab: usize,
    gnu_hash: usize,
    hash: usize,
    soname: Option<usize>,
    rela: (usize, usize),
    jmprel: (usize, usize),
    debug: usize,
}

#[derive(Clone, Copy)]
pub struct Symbol {
    pub address: usize,
    pub is_data: bool,
    pub size: usize,
}

/// A place in memory where an object keeps the address of a symbol.
pub struct AddressSlot {
    name: *const c_char,
    /// Address of the place; for a copy relocation, address of the copied bytes.
    pub place: *mut usize,
    /// True if the place contains a copy of another object's data instead of an address.
    pub is_copy: bool,
}

impl AddressSlot {
    /// Returns the name of the symbol.
    pub fn name(&self) -> &'static CStr {
        // SAFETY: in the string table of a loaded object, whose texts end in NUL.
        unsafe { CStr::from_ptr(self.name) }
    }
}

/// The public fields at the start of glibc's `struct link_map`.
#[repr(C)]
pub struct LinkMap {
    /// Difference between an address in memory and the address in the object's file.
    pub base: usize,
    pub name: *const c_char,
    pub dynamic: usize,
    pub next: *const LinkMap,
}

impl LoadedObject {
    /// # Safety
    ///
    /// `info` describes a loaded object.
    pub unsafe fn from_phdr_info(info: &dl_phdr_info) -> Self {
        let base = info.dlpi_addr as usize;
        let count = if info.dlpi_phdr.is_null() { 0 } else { usize::from(info.dlpi_phnum) };
        let headers = (info.dlpi_phdr, count);
        let (mut low, mut high, mut dynamic, mut unwind, mut read_only) = (usize::MAX, 0, 0, 0, (0, 0));
        // SAFETY: the loader keeps that many program headers there.
        for header in unsafe { program_headers(headers) } {
            let start = base.wrapping_add(header.p_vaddr as usize);
            let end = start.wrapping_add(header.p_memsz as usize);
            match header.p_type {
                PT_LOAD => (low, high) = (low.min(start), high.max(end)),
                PT_DYNAMIC => dynamic = start,
                PT_GNU_EH_FRAME => unwind = start,
                PT_GNU_RELRO => read_only = (start, end),
                _ => {}
            }
        }
        let dynamic = match dynamic {
            0 => Dynamic::default(),
            // SAFETY: the dynamic section of a loaded object is mapped.
            start => unsafe { Dynamic::read(start, base, low..high) },
        };
        LoadedObject { base, low, high, unwind, read_only, headers, name: info.dlpi_name, dynamic }
    }

    /// Returns the object of an entry in the loader's list, with this address range; 0 and 0 if the range is unknown.
    ///
    /// # Safety
    ///
    /// The map is that of a loaded object.
    pub unsafe fn of_link_map(map: &LinkMap, low: usize, high: usize) -> Self {
        // SAFETY: as promised.
        let dynamic = unsafe { Dynamic::read(map.dynamic, map.base, low..high) };
        let headers = (core::ptr::null(), 0);
        LoadedObject { base: map.base, low, high, unwind: 0, read_only: (0, 0), headers, name: map.name, dynamic }
    }

    /// Returns the part of the object that contains an address: all of it if no page is missing between its segments.
    /// A missing page may belong to another object: the kernel leaves gaps unmapped in the program and the loader.
    #[unsafe(link_section = ".text.startup")]
    pub fn part(&self, address: usize) -> Option<Range<usize>> {
        const PAGE: usize = 4096;
        let all = self.low..self.high;
        if self.headers.1 == 0 || !all.contains(&address) {
            return all.contains(&address).then_some(all);
        }
        let mut part = 0..0usize;
        // SAFETY: the loader keeps them while the object is loaded, as it does the name: see `path`.
        let headers = unsafe { program_headers(self.headers) };
        for header in headers.iter().filter(|header| header.p_type == PT_LOAD) {
            let start = self.base.wrapping_add(header.p_vaddr as usize);
            let end = start.wrapping_add(header.p_memsz as usize);
            // Segments are sorted by their addresses.
            if start / PAGE <= part.end.div_ceil(PAGE) {
                part.end = part.end.max(end);
            } else if part.contains(&address) {
                break;
            } else {
                part = start..end;
            }
        }
        part.contains(&address).then_some(part)
    }

    /// Returns true if an address is in the object.
    pub fn holds(&self, address: usize) -> bool {
        self.part(address).is_some()
    }

    /// Returns a pair that identifies the object, even if another object is loaded at its address later.
    pub fn identity(&self) -> (usize, u64) {
        (self.base, self.path_hash())
    }

    /// Writes an address to a place in which the loader keeps an address for this object.
    ///
    /// # Safety
    ///
    /// The place is one of the object's, and the value what whoever calls by it may reach.
    pub unsafe fn write_slot(&self, place: *mut usize, value: usize) {
        let size = page_size();
        let page = (place as usize & !(size - 1)) as *mut c_void;
        let read_only = self.is_read_only(place);
        // SAFETY: as promised, the page belongs to the object's table of addresses. It is made read-only again where the loader
        // had made it so.
        unsafe {
            if read_only && libc::mprotect(page, size, libc::PROT_READ | libc::PROT_WRITE) != 0 {
                return;
            }
            place.write(value);
            if read_only {
                libc::mprotect(page, size, libc::PROT_READ);
            }
        }
    }

    /// Returns true if the loader made a place of the object read-only.
    pub fn is_read_only(&self, place: *const usize) -> bool {
        (self.read_only.0..self.read_only.1).contains(&(place as usize))
    }

    /// Calls `found` with the name of each object in this object's list of dependencies.
    pub fn each_needed(&self, mut found: impl FnMut(&'static CStr)) {
        if self.dynamic.start == 0 || self.dynamic.strtab == 0 {
            return;
        }
        // SAFETY: the object's own section, with offsets into its string table.
        unsafe {
            Dynamic::entries(self.dynamic.start)
                .filter(|[tag, _]| *tag == DT_NEEDED)
                .for_each(|[_, offset]| found(self.string(offset as usize)));
        }
    }

    /// Returns true if other objects refer to this object by a name.
    pub fn is_referred_to_by(&self, name: &CStr) -> bool {
        let path = self.path().to_bytes();
        let file = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
        self.soname() == Some(name) || path == name.to_bytes() || file == name.to_bytes()
    }

    /// Returns the build id of the object, which its program headers in its first mapped bytes lead to.
    pub fn build_id<'a>(&self, place: &'a mut [u8; 64]) -> &'a [u8] {
        const NT_GNU_BUILD_ID: u32 = 3;
        let size = self.high - self.low;
        if size < size_of::<Elf64_Ehdr>() {
            return &[];
        }
        // SAFETY: the first page of a loaded object is mapped.
        let header = unsafe { (self.low as *const Elf64_Ehdr).read_unaligned() };
        let (start, count) = (header.e_phoff as usize, usize::from(header.e_phnum));
        let is_there = start.saturating_add(count * size_of::<Elf64_Phdr>()) <= size.min(4096);
        if !header.e_ident.starts_with(b"\x7fELF") || !is_there {
            return &[];
        }
        let headers = (self.low + start) as *const Elf64_Phdr;
        for i in 0..count {
            // SAFETY: within the first page, as was checked.
            let segment = unsafe { headers.add(i).read_unaligned() };
            let from = self.base.wrapping_add(segment.p_vaddr as usize);
            let to = from.wrapping_add(segment.p_memsz as usize);
            if segment.p_type != PT_NOTE || from < self.low || to > self.high || from > to {
                continue;
            }
            let mut at = from;
            while at + 12 <= to {
                // SAFETY: within a note segment of a loaded object.
                let [names, bytes, kind] = unsafe { (at as *const [u32; 3]).read_unaligned() };
                let begin = at + 12 + (names as usize).next_multiple_of(4);
                let end = begin.saturating_add(bytes as usize);
                if end > to {
                    break;
                }
                if kind == NT_GNU_BUILD_ID && names == 4 {
                    let length = (bytes as usize).min(place.len());
                    // SAFETY: the name and the bytes behind it end within the note segment of a loaded object, and no more
                    // than `place` has room for is copied.
                    unsafe { core::ptr::copy_nonoverlapping(begin as *const u8, place.as_mut_ptr(), length) };
                    return &place[..length];
                }
                at = end.next_multiple_of(4);
            }
        }
        &[]
    }

    /// Returns the path of the object; empty for the program itself.
    pub fn path(&self) -> &'static CStr {
        if self.name.is_null() {
            return c"";
        }
        // SAFETY: the loader keeps the name while the object is loaded; we use it at once or for objects
        // that stay.
        unsafe { CStr::from_ptr(self.name) }
    }

    pub fn path_hash(&self) -> u64 {
        self.path()
            .to_bytes()
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    }

    /// Returns the name by which other objects refer to this object (DT_SONAME); `None` without one.
    #[unsafe(link_section = ".text.startup")]
    pub fn soname(&self) -> Option<&'static CStr> {
        let offset = self.dynamic.soname?;
        // SAFETY: an offset into the string table of a loaded object.
        (self.dynamic.strtab != 0).then(|| unsafe { self.string(offset) })
    }

    /// # Safety
    ///
    /// `offset` is one that the object's own tables hold.
    unsafe fn string(&self, offset: usize) -> &'static CStr {
        // SAFETY: as promised; the string table is mapped and its texts end in NUL.
        unsafe { CStr::from_ptr((self.dynamic.strtab + offset) as *const c_char) }
    }

    /// Returns an entry of the object's symbol table.
    ///
    /// # Safety
    ///
    /// The table has this index.
    unsafe fn entry(&self, index: usize) -> &Elf64_Sym {
        // SAFETY: as promised.
        unsafe { &*(self.dynamic.symtab as *const Elf64_Sym).add(index) }
    }

    /// Returns true if an entry of the symbol table has this name.
    fn is_named(&self, entry: &Elf64_Sym, wanted: &CStr) -> bool {
        // SAFETY: an offset into the object's string table, whose texts end in NUL.
        unsafe { equals_text((self.dynamic.strtab + entry.st_name as usize) as *const c_char, wanted) }
    }

    /// Returns the address of the loader's `r_debug`, which only the program itself refers to; otherwise 0.
    pub fn loader_debug_address(&self) -> usize {
        self.dynamic.debug
    }

    /// Returns the definition of a name by the object itself, not by its dependencies.
    #[inline(never)]
    #[unsafe(link_section = ".text.startup")]
    pub fn symbol(&self, name: &CStr) -> Option<Symbol> {
        self.symbol_of_hash(|| name, gnu_hash(name.to_bytes()))
    }

    /// Returns the definition of a name by the object itself. `hash` is the [`gnu_hash`] of the name.
    #[inline]
    pub fn symbol_of_hash<'a>(&self, name: impl Fn() -> &'a CStr, hash: u32) -> Option<Symbol> {
        if self.dynamic.symtab == 0 || self.dynamic.strtab == 0 {
            return None;
        }
        match (self.dynamic.gnu_hash, self.dynamic.hash) {
            (0, 0) => None,
            (0, table) => self.symbol_by_hash(table, name()),
            // SAFETY: the object's own table.
            (table, _) if unsafe { may_filter_contain(table, hash) } => self.symbol_by_gnu_hash(table, &name, hash),
            _ => None,
        }
    }

    /// Returns the indexes of those hashes whose names the object may define; for most objects, there are none.
    pub fn candidate_indexes<'a>(&self, hashes: &'a [u32]) -> impl Iterator<Item = usize> + 'a {
        let table = self.dynamic.gnu_hash;
        // SAFETY: the object's own table.
        let may = move |hash: u32| table == 0 || unsafe { may_filter_contain(table, hash) };
        hashes.iter().enumerate().filter(move |(_, hash)| may(**hash)).map(|(index, _)| index)
    }

    /// Returns the address of the function that the object itself defines with this name.
    pub fn function(&self, name: &CStr) -> Option<usize> {
        self.symbol(name).filter(|symbol| !symbol.is_data).map(|symbol| symbol.address)
    }

    #[inline(never)]
    #[unsafe(link_section = ".text.startup")]
    fn symbol_by_gnu_hash<'a>(&self, table: usize, name: &impl Fn() -> &'a CStr, wanted: u32) -> Option<Symbol> {
        // SAFETY: see `may_filter_contain`. Behind the filter are the buckets, then one hash for each symbol from
        // `first` on, of which the last of a chain has its lowest bit set. All of it is mapped, with the symbols and
        // strings that it refers to.
        unsafe {
            let words = table as *const u32;
            let (buckets, first, bloom_size) = (*words, *words.add(1), *words.add(2));
            if buckets == 0 {
                return None;
            }
            let bloom = words.add(4).cast::<u64>();
            let bucket = bloom.add(bloom_size as usize).cast::<u32>();
            let chain = bucket.add(buckets as usize);
            let mut index = *bucket.add((wanted % buckets) as usize);
            while index >= first {
                let hash = *chain.add((index - first) as usize);
                if hash | 1 == wanted | 1
                    && let Some(symbol) = self.definition(index, name())
                {
                    return Some(symbol);
                }
                if hash & 1 == 1 {
                    break;
                }
                index += 1;
            }
        }
        None
    }

    /// Searches the hash table of older linkers (DT_HASH), symbol by symbol.
    fn symbol_by_hash(&self, table: usize, name: &CStr) -> Option<Symbol> {
        // SAFETY: the second word of DT_HASH is the number of symbols.
        let count = unsafe { *(table as *const u32).add(1) };
        // SAFETY: below the number of symbols.
        (1..count).find_map(|index| unsafe { self.definition(index, name) })
    }

    /// Returns the symbol at an index of the symbol table if it defines this name.
    ///
    /// # Safety
    ///
    /// The index is one of the object's symbol table.
    #[unsafe(link_section = ".text.startup")]
    unsafe fn definition(&self, index: u32, name: &CStr) -> Option<Symbol> {
        // SAFETY: as promised.
        let symbol = unsafe { self.entry(index as usize) };
        if symbol.st_shndx == 0 || symbol.st_value == 0 || !self.is_named(symbol, name) {
            return None;
        }
        let mut address = self.base.wrapping_add(symbol.st_value as usize);
        if symbol.st_info & 0xf == STT_GNU_IFUNC {
            // SAFETY: such a symbol is a function that gives the address of the one to use, and the loader
            // has called it for others.
            address = unsafe { arch::resolve_indirect(address) };
        }
        let is_data = symbol.st_info & 0xf == STT_OBJECT;
        Some(Symbol { address, is_data, size: symbol.st_size as usize })
    }

    /// Returns true if the object refers to a name that other objects define. Reads no relocations, of which there may be many:
    /// the hash table begins after the undefined names.
    pub fn refers_to(&self, name: &CStr) -> bool {
        if self.dynamic.symtab == 0 || self.dynamic.strtab == 0 || self.dynamic.gnu_hash == 0 {
            return false;
        }
        // SAFETY: the second word of DT_GNU_HASH is the index of the first symbol that it has.
        let first = unsafe { *(self.dynamic.gnu_hash as *const u32).add(1) };
        (1..first).any(|index| {
            // SAFETY: below the number of symbols.
            let symbol = unsafe { self.entry(index as usize) };
            symbol.st_shndx == 0 && self.is_named(symbol, name)
        })
    }

    /// Calls `found` with each place in which the object keeps the address of a named symbol.
    pub fn each_slot(&self, mut found: impl FnMut(AddressSlot)) {
        if self.dynamic.symtab == 0 || self.dynamic.strtab == 0 {
            return;
        }
        for (start, size) in [self.dynamic.rela, self.dynamic.jmprel] {
            if start == 0 {
                continue;
            }
            // SAFETY: the relocation table of a loaded object stays mapped.
            let relocations =
                unsafe { core::slice::from_raw_parts(start as *const Elf64_Rela, size / size_of::<Elf64_Rela>()) };
            for relocation in relocations {
                let (symbol, kind) = ((relocation.r_info >> 32) as usize, relocation.r_info as u32);
                let Some(kept) = arch::relocation_of(kind).filter(|_| symbol != 0 && relocation.r_addend == 0) else {
                    continue;
                };
                // SAFETY: the index is of the object's own symbol table.
                let name = unsafe { self.entry(symbol) }.st_name as usize;
                let name = (self.dynamic.strtab + name) as *const c_char;
                let place = self.base.wrapping_add(relocation.r_offset as usize) as *mut usize;
                found(AddressSlot { name, place, is_copy: kept == Relocation::Copy });
            }
        }
    }
}

/// Returns true if the Bloom filter of a hash table may contain a hash. For most names it does not.
///
/// # Safety
///
/// The table is the DT_GNU_HASH of a loaded object.
#[inline(always)]
unsafe fn may_filter_contain(table: usize, wanted: u32) -> bool {
    // SAFETY: the table begins with four words and the filter of 64-bit words, so many as the third says, a power of two.
    unsafe {
        let words = table as *const u32;
        let (bloom_size, shift) = (*words.add(2), *words.add(3));
        let bloom = words.add(4).cast::<u64>();
        let filter = bloom.add((wanted / 64) as usize & (bloom_size as usize - 1)).read_unaligned();
        let mask = 1u64 << (wanted % 64) | 1u64 << ((wanted >> shift) % 64);
        filter & mask == mask
    }
}

impl Dynamic {
    /// # Safety
    ///
    /// A loaded object's dynamic section is at `start`, and the object in `range` if that is known.
    #[unsafe(link_section = ".text.startup")]
    unsafe fn read(start: usize, base: usize, range: Range<usize>) -> Self {
        let mut dynamic = Dynamic { start, ..Dynamic::default() };
        // glibc has added the base to the addresses, unless the section is read-only.
        let address = |value: usize| {
            let absolute = if range.is_empty() { value >= base } else { range.contains(&value) };
            if absolute { value } else { value.wrapping_add(base) }
        };
        // SAFETY: as promised.
        for [tag, value] in unsafe { Dynamic::entries(start) } {
            let value = value as usize;
            match tag {
                DT_STRTAB => dynamic.strtab = address(value),
                DT_SYMTAB => dynamic.symtab = address(value),
                DT_GNU_HASH => dynamic.gnu_hash = address(value),
                DT_HASH => dynamic.hash = address(value),
                DT_SONAME => dynamic.soname = Some(value),
                DT_RELA => dynamic.rela.0 = address(value),
                DT_RELASZ => dynamic.rela.1 = value,
                DT_JMPREL => dynamic.jmprel.0 = address(value),
                DT_PLTRELSZ => dynamic.jmprel.1 = value,
                DT_DEBUG => dynamic.debug = value,
                _ => {}
            }
        }
        dynamic
    }

    /// # Safety
    ///
    /// A loaded object's dynamic section lies at `start`.
    unsafe fn entries(start: usize) -> impl Iterator<Item = [u64; 2]> {
        // SAFETY: as promised: it ends with a zero tag, at which the iteration ends.
        let entry = move |i| unsafe { *(start as *const [u64; 2]).add(i) };
        (0..).map(entry).take_while(|[tag, _]| *tag != 0)
    }
}

/// # Safety
///
/// `count` program headers are there for as long as they are used.
unsafe fn program_headers<'a>((start, count): (*const Elf64_Phdr, usize)) -> &'a [Elf64_Phdr] {
    // SAFETY: as promised.
    if count == 0 { &[] } else { unsafe { core::slice::from_raw_parts(start, count) } }
}

/// Returns true if a text is equal to `wanted`. Compares byte by byte, so that the compiler cannot turn this into a call of
/// strlen or memcmp: see `resolve::loader`.
///
/// # Safety
///
/// The text ends in NUL.
pub unsafe fn equals_text(text: *const c_char, wanted: &CStr) -> bool {
    wanted.to_bytes_with_nul().iter().enumerate().all(|(i, wanted)| {
        // SAFETY: as promised; no byte after the NUL is read.
        unsafe { text.add(i).cast::<u8>().read_volatile() == *wanted }
    })
}

/// Returns the hash of a name in the table DT_GNU_HASH.
pub const fn gnu_hash(name: &[u8]) -> u32 {
    let (mut hash, mut index) = (GNU_HASH_OF_NOTHING, 0);
    while index < name.len() {
        hash = gnu_hash_on(hash, name[index]);
        index += 1;
    }
    hash
}

/// The hash of an empty name.
pub const GNU_HASH_OF_NOTHING: u32 = 5381;

/// Returns the hash of a name that has one more byte than the name with this hash.
pub const fn gnu_hash_on(hash: u32, byte: u8) -> u32 {
    hash.wrapping_mul(33).wrapping_add(byte as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loader of Ubuntu 16.04 lies in memory like this; the next library may fill its gap.
    #[test]
    fn gaps_between_the_segments_of_an_object_are_not_its_own() {
        const BASE: usize = 0x7000_0000_0000;
        // SAFETY: all zeros are a program header, and what describes an object.
        let (header, mut info) = unsafe { core::mem::zeroed::<(Elf64_Phdr, dl_phdr_info)>() };
        let segment = |start, size| Elf64_Phdr { p_type: PT_LOAD, p_vaddr: start, p_memsz: size, ..header };
        let headers = [segment(0, 0x1800), segment(0x2800, 0x800), header, segment(0x20_3c00, 0x1000)];
        (info.dlpi_addr, info.dlpi_phdr, info.dlpi_phnum) = (BASE as u64, headers.as_ptr(), headers.len() as u16);
        // SAFETY: the headers are those above, without a dynamic section.
        let object = unsafe { LoadedObject::from_phdr_info(&info) };
        assert_eq!((object.low, object.high), (BASE, BASE + 0x20_4c00));
        let part = |at: usize| object.part(BASE + at).map(|part| (part.start - BASE, part.end - BASE));
        // No page is missing between the first two.
        for at in [0, 0x17ff, 0x1800, 0x2800, 0x2fff] {
            assert_eq!(part(at), Some((0, 0x3000)), "{at:#x}");
        }
        for at in [0x3000, 0x10_0000, 0x20_3bff, 0x20_4c00] {
            assert_eq!(part(at), None, "{at:#x}");
        }
        for at in [0x20_3c00, 0x20_4bff] {
            assert_eq!(part(at), Some((0x20_3c00, 0x20_4c00)), "{at:#x}");
        }
        assert!(!object.holds(BASE - 1) && !object.holds(0));
    }
}
