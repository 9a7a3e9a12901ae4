//! Exports of the two libraries: the table and the functions of cupeer.h, and nothing else.

use crate::support;
use cupeer_spec::function::{FUNCTIONS, Library, alterable_functions};
use object::elf::DT_NEEDED;
use object::read::elf::{Dyn, ElfFile64};
use object::{Object, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The dynamic symbols that a library defines, with their addresses.
fn exported(library: &Path) -> BTreeMap<String, u64> {
    let bytes = std::fs::read(library).expect("the library is built");
    let elf: ElfFile64 = ElfFile64::parse(&*bytes).expect("it is ELF");
    elf.dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .map(|symbol| (symbol.name().expect("a name").to_owned(), symbol.address()))
        .collect()
}

/// The functions that a header declares.
fn declared() -> BTreeSet<String> {
    let header = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("include/cupeer.h"))
        .expect("it is committed");
    // Without its comments and directives, of which the first parts of the others have neither.
    let code: String = header.split("/*").filter_map(|part| part.split("*/").last()).collect();
    let code: String = code.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line} ")).collect();
    let functions = code.split([';', '{']).filter(|part| part.contains('(') && !part.contains("typedef"));
    let before_parenthesis = functions.map(|function| {
        let name = function.split('(').next().unwrap_or_default();
        name.rsplit([' ', '*']).next().unwrap_or_default().to_owned()
    });
    before_parenthesis.collect()
}

#[test]
fn the_preload_library_exports_the_table_and_its_header_alone() {
    let mut wanted = declared();
    assert!(wanted.contains("cupeer_mark"), "{wanted:?}");
    wanted.extend(alterable_functions().map(|f| f.name().to_owned()));
    wanted.extend(["dlsym", "dlvsym", "dlclose", "dlerror", "_exit", "_Exit"].map(String::from));
    let executing = "execve execv execvp execvpe execl execlp execle fexecve execveat";
    wanted.extend(executing.split(' ').chain("wait waitpid wait3 wait4 waitid".split(' ')).map(String::from));
    wanted.extend(["InitializeInjectionNvtx2", "__asan_default_options"].map(String::from));
    let exported: BTreeSet<String> = exported(&support::preload_library()).into_keys().collect();
    assert_eq!(exported, wanted);
}

#[test]
fn the_preload_library_loads_none_but_libc() {
    let bytes = std::fs::read(support::preload_library()).expect("the library is built");
    let elf: ElfFile64 = ElfFile64::parse(&*bytes).expect("it is ELF");
    let (endian, sections) = (elf.endian(), elf.elf_section_table());
    let (dynamic, strings) = sections.dynamic(endian, &*bytes).expect("a table").expect("it is dynamic");
    let strings = sections.strings(endian, &*bytes, strings).expect("its texts");
    let needed = dynamic.iter().filter(|entry| entry.tag(endian) == DT_NEEDED);
    let needed: BTreeSet<&str> = needed
        .map(|entry| std::str::from_utf8(entry.string(endian, strings).expect("a name")).expect("UTF-8"))
        .collect();
    assert!(needed.contains("libc.so.6"), "{needed:?}");
    // The C library's parts: before version 2.34 they were libraries of their own.
    let is_of_libc = |name: &&str| {
        ["libc.", "ld-linux", "libpthread.", "libdl.", "librt."].iter().any(|part| name.starts_with(part))
    };
    assert!(needed.iter().all(is_of_libc), "{needed:?}");
}

#[test]
fn every_export_has_an_address_of_its_own() {
    for library in [support::preload_library(), support::sim_library()] {
        let mut names: BTreeMap<u64, String> = BTreeMap::new();
        for (name, address) in exported(&library) {
            if let Some(other) = names.insert(address, name.clone()) {
                panic!("{name} and {other} share an address in {}", library.display());
            }
        }
    }
}

#[test]
fn the_simulated_driver_exports_the_table_and_driver_names_alone() {
    let exported = exported(&support::sim_library());
    for function in FUNCTIONS.iter().filter(|function| function.library == Library::Cuda) {
        assert!(exported.contains_key(function.name()), "{} is missing", function.name());
    }
    let foreign: Vec<&String> = exported.keys().filter(|name| !name.starts_with("cu")).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}
