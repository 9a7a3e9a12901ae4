//! Tests of lines of source: their languages, and their files.

use super::{Symbols, library, recorded, symbols};
use cupeer_record::Library;
use object::{Object, ObjectSection};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

/// In each, `outer` calls `used`, after a function that is inlined there.
const IN_C: &str = r#"
void used(int *x);
static inline __attribute__((always_inline)) void inner(int *x) {
    used(x);
    __asm__ volatile("");
}
int outer(int x) {
    inner(&x);
    return x;
}
"#;
const IN_CPP: &str = r#"
extern "C" void used(int *x);
namespace acme {
template <class T> struct Pool {
    static __attribute__((always_inline)) void open(T *x) {
        used(x);
        __asm__ volatile("");
    }
};
}
extern "C" int outer(int x) {
    acme::Pool<int>::open(&x);
    return x;
}
"#;
const IN_RUST: &str = r#"
unsafe extern "C" { fn used(x: *mut i32); }
mod acme {
    pub struct Pool;
    impl Drop for Pool {
        #[inline(always)]
        fn drop(&mut self) {
            unsafe { super::used(std::ptr::null_mut()) }
        }
    }
}
#[unsafe(no_mangle)]
pub extern "C" fn outer(x: i32) -> i32 {
    drop(acme::Pool);
    x
}
"#;

/// Function, file, line.
type Line = (String, String, u32);

fn line(function: &str, file: &str, line: u32) -> Line {
    (function.into(), file.into(), line)
}

/// Libraries in all languages: how each is built, and which of its own lines the call has.
type Build = fn(&Path, &[&str]) -> PathBuf;

fn languages() -> [(Build, Vec<Line>); 3] {
    [
        (
            |directory, flags| library(directory, IN_C, flags),
            vec![line("inner", "library.c", 4), line("outer", "library.c", 8)],
        ),
        (
            |directory, flags| library(directory, IN_CPP, &[&["-xc++"], flags].concat()),
            vec![line("acme::Pool<int>::open(int*)", "library.c", 6), line("outer", "library.c", 12)],
        ),
        (
            |directory, _| in_rust(directory),
            vec![
                line("<library::acme::Pool as core::ops::drop::Drop>::drop", "library.rs", 8),
                line("outer", "library.rs", 14),
            ],
        ),
    ]
}

fn in_rust(directory: &Path) -> PathBuf {
    let (text, built) = (directory.join("library.rs"), directory.join("library.so"));
    std::fs::write(&text, IN_RUST).unwrap();
    let done = Command::new("rustc")
        .args(["--edition=2024", "--crate-type=cdylib", "-g", "-Copt-level=1", "-Cpanic=abort"])
        .args(["-Clink-arg=-Wl,--build-id=sha1", "-o"])
        .args([&built, &text])
        .status();
    assert!(done.unwrap().success());
    built
}

/// The return address of the call in `outer`: of the only call there is.
fn returned_to(library: &Library, at: &HashMap<String, u64>) -> u64 {
    let bytes = std::fs::read(&library.path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let start = at["outer"] - library.base;
    let text = file.section_by_name(".text").expect("code");
    let code = &text.data().unwrap()[(start - text.address()) as usize..];
    let length = |at: usize| match code[at..] {
        [0xe8, ..] => Some(at + 5),
        // Through a pointer.
        [0xff, 0x15, ..] => Some(at + 6),
        _ => None,
    };
    library.base + start + (0..code.len()).find_map(length).expect("a call") as u64
}

fn lines_at(symbols: &mut Symbols, library: &Library, address: u64) -> Vec<Line> {
    let lines = symbols.find_symbol(library, address).map(|symbol| symbol.lines).unwrap_or_default();
    let file = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let lines = lines.into_iter().map(|line| (line.function.unwrap_or_default(), file(&line.file), line.line));
    // But for those of the standard library.
    lines.filter(|(_, file, _)| ["library.", "lines."].iter().any(|own| file.starts_with(own))).collect()
}

fn run(program: &str, args: &[&Path]) -> bool {
    Command::new(program).args(args).status().unwrap().success()
}

/// Returns the path at which a file with this build ID is expected.
fn by_build_id(directory: &Path, build_id: &[u8]) -> PathBuf {
    let digits: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
    let place = directory.join("debug/.build-id").join(&digits[..2]);
    std::fs::create_dir_all(&place).unwrap();
    place.join(format!("{}.debug", &digits[2..]))
}

#[test]
fn lines_are_found_in_the_file_and_in_what_was_kept_apart_from_it() {
    for (build, wanted) in languages() {
        for flags in [&["-g"][..], &["-g", "-gz=zlib"], &["-g", "-gdwarf-4"]] {
            let directory = tempfile::tempdir().unwrap();
            let built = build(directory.path(), flags);
            let (library, at) = recorded(&built);
            let address = returned_to(&library, &at);
            let found = || lines_at(&mut symbols(directory.path()), &library, address);
            assert_eq!(found(), wanted, "{flags:?}, whole");
            let by_id = by_build_id(directory.path(), &library.build_id);
            assert!(run("objcopy", &[Path::new("--only-keep-debug"), &built, &by_id]));
            assert!(run("strip", &[Path::new("--strip-debug"), &built]));
            assert_eq!(found(), wanted, "{flags:?}, by build id");
            let beside = directory.path().join(".debug");
            std::fs::create_dir(&beside).unwrap();
            let linked = beside.join("library.debug");
            std::fs::rename(&by_id, &linked).unwrap();
            assert_eq!(found(), [], "{flags:?}, nowhere");
            let link = format!("--add-gnu-debuglink={}", linked.display());
            assert!(run("objcopy", &[Path::new(&link), &built]));
            assert_eq!(found(), wanted, "{flags:?}, by its link");
            assert!(run("strip", &[&built]));
            assert!(run("objcopy", &[Path::new(&link), &built]));
            assert_eq!(found(), wanted, "{flags:?}, without any symbols of its own");
            if wanted[0].1.ends_with(".rs") {
                // Flags of the C compiler change nothing here.
                break;
            }
        }
    }
}

/// Flags that make a library of several units.
fn with_another_unit(directory: &Path, flags: &[&str]) -> Vec<String> {
    let another = directory.join("another.c");
    std::fs::write(&another, "int another(int x) {\n    return x + 1;\n}\n").unwrap();
    flags.iter().map(|flag| flag.to_string()).chain([another.display().to_string()]).collect()
}

#[test]
fn oversized_sections_are_left_out_with_a_note() {
    let directory = tempfile::tempdir().unwrap();
    for (flag, is_left_out) in [("-gz=zlib", true), ("-gz=none", false)] {
        let flags = with_another_unit(directory.path(), &["-g", flag]);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let (library, at) = recorded(&library(directory.path(), IN_C, &flags));
        let address = returned_to(&library, &at);
        let mut symbols = symbols(directory.path());
        symbols.files.most_debug_bytes = 1;
        assert_eq!(lines_at(&mut symbols, &library, address).is_empty(), is_left_out);
        let notes: Vec<_> = symbols.notes().map(|(_, why)| why).collect();
        let said = "of debugging information, more than is read: its lines are unknown";
        assert_eq!(notes.iter().filter(|note| note.ends_with(said)).count(), usize::from(is_left_out));
    }
}

#[test]
fn files_with_another_build_id_are_rejected() {
    let directory = tempfile::tempdir().unwrap();
    let built = library(directory.path(), IN_C, &["-g"]);
    let (library, at) = recorded(&built);
    let address = returned_to(&library, &at);
    let linked = directory.path().join("library.debug");
    assert!(run("strip", &[Path::new("--strip-debug"), &built]));
    let kept = directory.path().join("kept.so");
    std::fs::rename(&built, &kept).unwrap();
    super::library(directory.path(), &IN_C.replace("return x;", "return x + 1;"), &["-g"]);
    std::fs::rename(&built, &linked).unwrap();
    let link = format!("--add-gnu-debuglink={}", linked.display());
    assert!(run("objcopy", &[Path::new(&link), &kept, &built]));
    assert_eq!(lines_at(&mut symbols(directory.path()), &library, address), []);
}

/// A library's debugging information after `dwz`: the file that it shares with others describes `outer`.
const OWN: &str = r#"
.text
.globl outer
.type outer, @function
outer:
.file 1 "library.c"
.loc 1 41
call used@PLT
.loc 1 42
ret
.Lend:
.size outer, .Lend - outer
.section .debug_info
.long .Lbehind - .Lbegin
.Lbegin: .value 4
.long .debug_abbrev
.byte 8
.uleb128 1
.quad outer
.quad .Lend - outer
.long .debug_line
.asciz "library.c"
.uleb128 2
.quad outer
.quad .Lend - outer
.long NAMED_AT
.byte 0
.Lbehind:
.section .debug_abbrev
# A unit, with low_pc, high_pc, stmt_list, name.
.uleb128 1, 0x11
.byte 1
.uleb128 0x11, 1, 0x12, 7, 0x10, 0x17, 3, 8, 0, 0
# A function, with low_pc, high_pc, and its origin in the other file (DW_FORM_GNU_ref_alt).
.uleb128 2, 0x2e
.byte 0
.uleb128 0x11, 1, 0x12, 7, 0x31, 0x1f20, 0, 0
.byte 0
"#;
const SHARED: &str = r#"
.section .debug_info
.long .Lbehind - .Lbegin
.Lbegin: .value 4
.long .debug_abbrev
.byte 8
.uleb128 1
.Lnamed: .uleb128 2
.asciz "shared_outer"
.byte 0
.Lbehind:
.section .debug_abbrev
# A partial unit.
.uleb128 1, 0x3c
.byte 1
.uleb128 0, 0
# A function, with name.
.uleb128 2, 0x2e
.byte 0
.uleb128 3, 8, 0, 0
.byte 0
"#;

#[test]
fn shared_debug_information_is_found_in_its_own_file() {
    let directory = tempfile::tempdir().unwrap();
    let assembled = |source: &str| library(directory.path(), source, &["-xassembler", "-nostdlib"]);
    let shared = directory.path().join("shared.debug");
    std::fs::rename(assembled(SHARED), &shared).unwrap();
    // The first unit has a head of eleven bytes and an entry of one.
    let built = assembled(&OWN.replace("NAMED_AT", "12"));
    let (common, _) = recorded(&shared);
    let named = directory.path().join("named");
    std::fs::write(&named, [b"shared.debug\0", &common.build_id[..]].concat()).unwrap();
    let section = format!(".gnu_debugaltlink={}", named.display());
    assert!(run("objcopy", &[Path::new("--add-section"), Path::new(&section), &built]));
    let (library, at) = recorded(&built);
    let address = returned_to(&library, &at);
    let found = || lines_at(&mut symbols(directory.path()), &library, address);
    let wanted = [line("shared_outer", "library.c", 41)];
    assert_eq!(found(), wanted);
    std::fs::rename(&shared, by_build_id(directory.path(), &common.build_id)).unwrap();
    assert_eq!(found(), wanted, "by build id");
    std::fs::remove_file(by_build_id(directory.path(), &common.build_id)).unwrap();
    assert_ne!(found(), wanted, "nowhere");
}

#[test]
fn information_beyond_the_memory_limit_is_read_again() {
    let directory = tempfile::tempdir().unwrap();
    let built = library(directory.path(), IN_C, &["-g", "-gz=zlib"]);
    let (first, at) = recorded(&built);
    let copy = directory.path().join("copy.so");
    std::fs::copy(&built, &copy).unwrap();
    let second = Library { path: copy.display().to_string(), ..first.clone() };
    let place = returned_to(&first, &at);
    let mut symbols = symbols(directory.path());
    symbols.room = 1;
    let kept = |symbols: &Symbols| symbols.known.values().filter(|known| known.lines.is_some()).count();
    for by in 0..3 {
        symbols.read_libraries([(&first, place + by), (&second, place + by)].into_iter());
        for library in [&first, &second] {
            assert!(!lines_at(&mut symbols, library, place + by).is_empty());
            assert_eq!(kept(&symbols), 1, "the last one is kept");
        }
    }
}

#[test]
fn damaged_debugging_information_does_no_harm() {
    for flags in [&["-g"][..], &["-g", "-gz=zlib"]] {
        let directory = tempfile::tempdir().unwrap();
        let flags = with_another_unit(directory.path(), flags);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let built = library(directory.path(), IN_C, &flags);
        let (library, at) = recorded(&built);
        let address = returned_to(&library, &at);
        let whole = std::fs::read(&built).unwrap();
        let elf = object::File::parse(&*whole).unwrap();
        let begin = elf.section_by_name(".debug_info").and_then(|section| section.file_range());
        let begin = begin.expect("it lies in the file").0 as usize;
        for at_byte in (begin..whole.len()).step_by(7) {
            let mut bytes = whole.clone();
            bytes[at_byte] = !bytes[at_byte];
            std::fs::write(&built, &bytes).unwrap();
            let _ = lines_at(&mut symbols(directory.path()), &library, address);
        }
    }
}

#[test]
fn lines_beyond_the_time_limit_are_left_out_with_a_note() {
    let directory = tempfile::tempdir().unwrap();
    let (library, at) = recorded(&library(directory.path(), IN_C, &["-g"]));
    let address = returned_to(&library, &at);
    for (left, said) in [
        ((Duration::ZERO, Duration::MAX / 4), "its lines are left out: those of others took too long"),
        ((Duration::MAX / 4, Duration::ZERO), "some of its lines are left out: they took too long"),
    ] {
        let mut symbols = symbols(directory.path());
        symbols.left = left;
        let symbol = symbols.find_symbol(&library, address).expect("its name takes no time");
        assert_eq!((&*symbol.function, symbol.lines), ("outer", Vec::new()));
        assert_eq!(symbols.notes().collect::<Vec<_>>(), [(&*library.path, said)]);
    }
}

#[test]
fn this_program_has_lines_of_rust() {
    #[inline(never)]
    fn here() -> usize {
        std::hint::black_box(1)
    }
    // Behind its first instruction.
    let address = here as *const () as u64 + 3 * here() as u64;
    let path = std::env::current_exe().unwrap();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let base = maps.lines().find(|line| line.ends_with(path.to_str().unwrap())).expect("it is mapped");
    let base = u64::from_str_radix(base.split('-').next().unwrap(), 16).unwrap();
    let (mut library, _) = recorded(&path);
    (library.base, library.range) = (base, base..u64::MAX);
    let directory = tempfile::tempdir().unwrap();
    let mut symbols = symbols(directory.path());
    symbols.files.older_than = SystemTime::now().checked_add(Duration::from_secs(1 << 20));
    let lines = lines_at(&mut symbols, &library, address);
    let (function, file, line) = lines.last().expect("a line");
    assert!(function.contains("this_program_has_lines_of_rust") && file == "lines.rs" && *line > 0, "{lines:?}");
}
