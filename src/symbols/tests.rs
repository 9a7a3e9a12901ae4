//! Tests of names that are found, and of names that must not be found.

mod damaged;
mod lines;
mod sizes;

use super::{PackedSymbols, SourceLine, Symbol, Symbols};
use cupeer_record::Library;
use object::{Object, ObjectSymbol};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// `open` is a C++ function by its name, `hidden` is not exported, and `plain` has another name too.
const SOURCE: &str = r#"
int open_pool(int x) __asm__("_ZN4acme4poolIiE4openEi");
int open_pool(int x) { return x + 1; }
__attribute__((noinline)) static int hidden(int x) { __asm__ volatile(""); return x * 3; }
int plain(int x) { return hidden(x) + 1; }
int __plain(int x) __attribute__((alias("plain")));
__asm__(".globl empty\n.type empty, @function\nempty:\n.text\n");
__attribute__((noinline)) static int behind(int x) { __asm__ volatile(""); return x * 5; }
int last(int x) { return behind(x) + 1; }
"#;

fn library(directory: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let (text, built) = (directory.join("library.c"), directory.join("library.so"));
    std::fs::write(&text, source).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let done = Command::new(compiler)
        .args(["-shared", "-fPIC", "-O1", "-Wl,--build-id=sha1"])
        .args(flags)
        .arg(&text)
        .arg("-o")
        .arg(&built)
        .status();
    assert!(done.unwrap().success());
    built
}

/// Returns a library as a process had it, and the addresses of its functions.
fn recorded(path: &Path) -> (Library, HashMap<String, u64>) {
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let base = 0x7f00_0000_0000;
    let build_id = file.build_id().unwrap().unwrap_or_default().to_vec();
    let functions =
        file.symbols().filter(|s| s.is_definition()).map(|s| (s.name().unwrap().into(), base + s.address()));
    let library = Library { base, range: base..base + (1 << 20), since: 0, build_id, path: path.display().to_string() };
    (library, functions.collect())
}

fn symbols(directory: &Path) -> Symbols {
    let mut symbols = Symbols::of_record(directory, &[]);
    symbols.files.debug = directory.join("debug");
    symbols
}

#[test]
fn functions_are_named_by_where_calls_return_to() {
    let directory = tempfile::tempdir().unwrap();
    let (library, at) = recorded(&library(directory.path(), SOURCE, &[]));
    let mut symbols = symbols(directory.path());
    let mut name = |address| name_of(&mut symbols, &library, address);
    assert_eq!(name(at["_ZN4acme4poolIiE4openEi"] + 3).as_deref(), Some("acme::pool<int>::open(int)+0x3"));
    assert_eq!(name(at["hidden"] + 1).as_deref(), Some("hidden+0x1"));
    assert_eq!(name(at["plain"] + 2).as_deref(), Some("plain+0x2"));
    // A return address at the start of a function comes from no call of that function.
    let names: Vec<_> = ["hidden", "plain"].iter().filter_map(|f| name(at[*f])).collect();
    assert!(names.iter().all(|name| !name.ends_with("+0x0")), "{names:?}");
    assert_eq!((name(library.base), name(library.range.end), name(0)), (None, None, None));
    assert_eq!(symbols.notes().count(), 0);
}

#[test]
fn this_program_has_readable_rust_names() {
    let (library, at) = recorded(&std::env::current_exe().unwrap());
    let (_, address) = at.iter().find(|(name, _)| name.contains("this_program_has_readable")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut symbols = symbols(directory.path());
    // If the linker adds no build IDs, only the age of a file counts.
    symbols.files.older_than = SystemTime::now().checked_add(Duration::from_secs(1 << 20));
    let name = name_of(&mut symbols, &library, address + 1).unwrap();
    assert!(name.starts_with("cupeer_symbols::tests::this_program_has_readable_rust_names"), "{name}");
}

#[test]
fn a_stripped_library_shows_what_it_exports_and_what_is_kept_apart() {
    let directory = tempfile::tempdir().unwrap();
    let built = library(directory.path(), SOURCE, &[]);
    let (library, at) = recorded(&built);
    let digits: String = library.build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let apart = directory.path().join("debug/.build-id").join(&digits[..2]);
    std::fs::create_dir_all(&apart).unwrap();
    let apart = apart.join(format!("{}.debug", &digits[2..]));
    let run = |program: &str, args: &[&Path]| Command::new(program).args(args).status().unwrap().success();
    assert!(run("objcopy", &[Path::new("--only-keep-debug"), &built, &apart]) && run("strip", &[&built]));
    let kept_apart = name_of(&mut symbols(directory.path()), &library, at["hidden"] + 1);
    assert_eq!(kept_apart.as_deref(), Some("hidden+0x1"));
    std::fs::write(&apart, "damaged").unwrap();
    let mut symbols = symbols(directory.path());
    for hidden in ["hidden", "behind"] {
        assert_eq!(name_of(&mut symbols, &library, at[hidden] + 1), None, "{hidden}");
    }
    assert_eq!(name_of(&mut symbols, &library, at["plain"] + 1).as_deref(), Some("plain+0x1"));
}

#[test]
fn a_library_that_is_another_one_now_is_not_named() {
    let directory = tempfile::tempdir().unwrap();
    let built = library(directory.path(), SOURCE, &[]);
    let (recorded, at) = recorded(&built);
    library(directory.path(), &SOURCE.replace("x + 1", "x + 2"), &[]);
    let mut symbols = symbols(directory.path());
    assert_eq!(name_of(&mut symbols, &recorded, at["plain"] + 1), None);
    let notes: Vec<_> = symbols.notes().collect();
    assert_eq!(notes, [(built.to_str().unwrap(), "the file has changed since")]);
}

#[test]
fn without_a_build_id_the_file_must_be_older_than_the_record_and_of_this_host() {
    let directory = tempfile::tempdir().unwrap();
    let (library, at) = recorded(&library(directory.path(), SOURCE, &["-Wl,--build-id=none"]));
    assert!(library.build_id.is_empty());
    let day = Duration::from_secs(24 * 60 * 60);
    for (older_than, is_named) in
        [(None, false), (SystemTime::now().checked_sub(day), false), (SystemTime::now().checked_add(day), true)]
    {
        let mut symbols = symbols(directory.path());
        symbols.files.older_than = older_than;
        assert_eq!(name_of(&mut symbols, &library, at["plain"] + 1).is_some(), is_named);
        assert_eq!(symbols.notes().count(), usize::from(!is_named));
    }
}

#[test]
fn names_that_a_record_brings_count_first_and_alone_without_build_ids() {
    let directory = tempfile::tempdir().unwrap();
    let (library, at) = recorded(&library(directory.path(), SOURCE, &[]));
    let nameless = Library { build_id: Vec::new(), path: "/~1234/other.so".into(), ..library.clone() };
    let mut names = PackedSymbols::default();
    let symbol = |function: &str| Symbol { function: function.into(), offset: 7, ..Symbol::default() };
    names.insert(&library.build_id, &library.path, at["plain"] + 1 - library.base, symbol("from the pack\x1b"));
    names.insert(&[], "/~1234/other.so", 16, symbol("other"));
    std::fs::write(directory.path().join(PackedSymbols::FILE), names.to_json()).unwrap();
    let mut symbols = symbols(directory.path());
    assert_eq!(name_of(&mut symbols, &library, at["plain"] + 1).as_deref(), Some("from the pack?+0x7"));
    assert_eq!(name_of(&mut symbols, &library, at["plain"] + 2).as_deref(), Some("plain+0x2"));
    assert_eq!(name_of(&mut symbols, &nameless, nameless.base + 16).as_deref(), Some("other+0x7"));
    assert_eq!(name_of(&mut symbols, &nameless, nameless.base + 17), None);
}

#[test]
fn damaged_names_are_a_note_and_no_files_without_build_ids_count() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(PackedSymbols::FILE), "{").unwrap();
    let symbols = symbols(directory.path());
    assert_eq!((symbols.notes().count(), symbols.files.older_than), (1, None));
}

#[test]
fn many_libraries_are_asked_at_once_and_few_tables_are_kept() {
    let directory = tempfile::tempdir().unwrap();
    let built = library(directory.path(), SOURCE, &[]);
    let (first, at) = recorded(&built);
    let libraries: Vec<Library> = (0..3 * super::MOST_TABLES)
        .map(|i| {
            let path = directory.path().join(format!("copy-{i}.so"));
            std::fs::copy(&built, &path).unwrap();
            Library { path: path.display().to_string(), ..first.clone() }
        })
        .collect();
    let asked: Vec<_> = [1, 2].into_iter().flat_map(|by| libraries.iter().map(move |l| (l, by))).collect();
    let asked: Vec<_> = asked.into_iter().map(|(library, by)| (library, at["plain"] + by)).collect();
    let mut symbols = symbols(directory.path());
    let names = symbols.resolve(&asked);
    for ((_, address), name) in asked.iter().zip(names) {
        assert_eq!(name, Some(Symbol { function: "plain".into(), offset: address - at["plain"], ..Symbol::default() }));
    }
    assert_eq!(symbols.known.values().filter(|known| known.table.is_some()).count(), super::MOST_TABLES);
}

#[test]
fn paths_of_anything_but_files_are_left_alone_and_damaged_files_do_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let built = library(directory.path(), SOURCE, &[]);
    let (recorded, at) = recorded(&built);
    for path in ["linux-vdso.so.1", "", "/dev/null", "/", "/no/such/file"] {
        let other = Library { path: path.into(), ..recorded.clone() };
        assert_eq!(name_of(&mut symbols(directory.path()), &other, at["plain"] + 1), None, "{path}");
    }
    let whole = std::fs::read(&built).unwrap();
    for at_byte in (0..whole.len()).step_by(61).chain(0..64) {
        let mut bytes = whole.clone();
        bytes[at_byte] = !bytes[at_byte];
        std::fs::write(&built, &bytes).unwrap();
        let _ = name_of(&mut symbols(directory.path()), &recorded, at["plain"] + 1);
        std::fs::write(&built, &whole[..at_byte]).unwrap();
        let _ = name_of(&mut symbols(directory.path()), &recorded, at["plain"] + 1);
    }
}

#[test]
fn packed_lines_are_read_again() {
    let line = |function: &str, line| SourceLine { function: Some(function.into()), file: "/src/a.c".into(), line };
    let symbol = Symbol { function: "f".into(), offset: 7, lines: vec![line("g", 3), line("f", 9)] };
    let mut packed = PackedSymbols::default();
    packed.insert(&[1, 2], "/lib/a.so", 0x10, symbol.clone());
    packed.insert(&[1, 2], "/lib/a.so", 0x20, Symbol { function: "h".into(), ..Symbol::default() });
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join(PackedSymbols::FILE), packed.to_json()).unwrap();
    let read = PackedSymbols::of_record(directory.path()).unwrap().expect("it is packed");
    let (base, range) = (0, 0..u64::MAX);
    let library = Library { base, range, since: 0, build_id: vec![1, 2], path: "/lib/a.so".into() };
    assert_eq!(read.find(&library, 0x10), Some(&symbol));
    assert!(read.find(&library, 0x20).is_some_and(|symbol| symbol.lines.is_empty()));
}

/// `f+0x2`.
fn name_of(symbols: &mut Symbols, library: &Library, address: u64) -> Option<String> {
    let symbol = symbols.find_symbol(library, address)?;
    Some(format!("{}+{:#x}", symbol.function, symbol.offset))
}
