//! What the two libraries export: the table and what cupeer.h declares, and nothing else.

use crate::support;
use cupeer_spec::function::{FUNCTIONS, Library, alterable};
use object::{Object, ObjectSymbol, read::elf::ElfFile64};
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
    let code: String =
        code.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line} ")).collect();
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
    wanted.extend(alterable().map(|f| f.name.to_owned()));
    wanted.extend(["dlsym", "dlvsym", "dlclose", "dlerror", "_exit", "_Exit"].map(String::from));
    let executing = "execve execv execvp execvpe execl execlp execle fexecve execveat";
    wanted.extend(executing.split(' ').chain("wait waitpid wait3 wait4 waitid".split(' ')).map(String::from));
    wanted.extend(["InitializeInjectionNvtx2", "__asan_default_options"].map(String::from));
    let exported: BTreeSet<String> = exported(&support::preload_library()).into_keys().collect();
    assert_eq!(exported, wanted);
}

#[test]
fn the_preload_library_loads_no_other_with_it() {
    let maps = |preloaded: &str| {
        let output =
            std::process::Command::new("cat").arg("/proc/self/maps").env("LD_PRELOAD", preloaded).output();
        let maps = String::from_utf8(output.expect("cat runs").stdout).expect("UTF-8");
        maps.lines()
            .filter_map(|line| {
                line.split('/').next_back().filter(|name| name.contains(".so")).map(String::from)
            })
            .collect::<BTreeSet<String>>()
    };
    let library = support::preload_library();
    let added: Vec<String> = maps(library.to_str().expect("UTF-8")).difference(&maps("")).cloned().collect();
    assert_eq!(added, ["libcupeer.so"]);
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
        assert!(exported.contains_key(function.name), "{} is missing", function.name);
    }
    let foreign: Vec<&String> = exported.keys().filter(|name| !name.starts_with("cu")).collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}
