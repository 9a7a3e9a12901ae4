//! Tests of sizes that a file claims and has as a hole.

use super::{SOURCE, library, recorded, symbols};
use object::LittleEndian as LE;
use object::elf::{FileHeader64, PT_NOTE};
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Sets the size in the headers of sections with this name, and of note segments if one is named. Extends the
/// file accordingly.
fn claim(path: &Path, named: &str, size: u64) {
    let bytes = fs::read(path).unwrap();
    let header = FileHeader64::<LE>::parse(&*bytes).unwrap();
    let (at, each) = (header.e_shoff(LE), u64::from(header.e_shentsize(LE)));
    let sections = header.sections(LE, &*bytes).unwrap();
    let file = OpenOptions::new().write(true).open(path).unwrap();
    for (index, section) in sections.iter().enumerate() {
        if sections.section_name(LE, section).unwrap() == named.as_bytes() {
            assert!(section.sh_offset(LE) < bytes.len() as u64);
            file.write_all_at(&size.to_le_bytes(), at + index as u64 * each + 32).unwrap();
        }
    }
    for (index, segment) in header.program_headers(LE, &*bytes).unwrap().iter().enumerate() {
        if segment.p_type(LE) == PT_NOTE && named.starts_with(".note") {
            let place = header.e_phoff(LE) + index as u64 * u64::from(header.e_phentsize(LE)) + 32;
            file.write_all_at(&size.to_le_bytes(), place).unwrap();
        }
    }
    file.set_len(2 * size + bytes.len() as u64).unwrap();
    let about = File::open(path).unwrap().metadata().unwrap();
    assert!(about.blocks() * 512 < size, "it is a hole");
}

#[test]
fn tables_and_notes_that_claim_much_are_not_read() {
    let directory = tempfile::tempdir().unwrap();
    for (named, size) in [(".symtab", 300 << 20), (".note.gnu.build-id", 40 << 20)] {
        let path = library(directory.path(), SOURCE, &[]);
        let (library, functions) = recorded(&path);
        let asked = functions["plain"] + 1;
        assert_eq!(symbols(directory.path()).find_symbol(&library, asked).unwrap().function, "plain");
        claim(&path, named, size);
        let mut symbols = symbols(directory.path());
        assert_eq!(symbols.find_symbol(&library, asked), None, "{named}");
        assert!(symbols.notes().count() > 0, "{named}");
    }
}

#[test]
fn debugging_information_counts_as_much_as_it_claims_to_have_in_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = library(directory.path(), SOURCE, &["-g", "-gz=zlib"]);
    let (library, functions) = recorded(&path);
    let asked = functions["plain"] + 1;
    claim(&path, ".debug_line", 40 << 20);
    let mut symbols = symbols(directory.path());
    symbols.files.most_debug_bytes = 16 << 20;
    let symbol = symbols.find_symbol(&library, asked).unwrap();
    assert_eq!((&*symbol.function, symbol.lines.len()), ("plain", 0));
    let notes: Vec<_> = symbols.notes().map(|(_, why)| why.to_owned()).collect();
    assert!(notes[0].contains("40 MiB of debugging information, more than is read"), "{notes:?}");
}
