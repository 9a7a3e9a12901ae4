//! Tests of debugging information that is damaged, or crafted to keep its reader busy.

use super::{library, recorded, symbols};
use cupeer_record::Library;
use object::{Object, ObjectSection};
use std::collections::HashMap;
use std::env;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

/// Set in the processes that do the work of a test.
const WORKER: &str = "CUPEER_TEST_WORKER";

/// Returns true in a process with little memory, time, and stack. In others, it runs the test in such a process.
fn is_limited(test: &str) -> bool {
    if env::var_os(WORKER).is_some() {
        return true;
    }
    let mut worker = Command::new("sh");
    worker.args(["-c", "ulimit -v 3000000; ulimit -t 100; exec \"$@\"", "sh"]);
    worker.arg(env::current_exe().unwrap()).args(["--exact", &format!("tests::damaged::{test}")]);
    let ended = worker.env(WORKER, "1").output().unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(
        ended.status.success() && said.contains("1 passed"),
        "{}: {said}{}",
        ended.status,
        String::from_utf8_lossy(&ended.stderr)
    );
    false
}

/// Builds a library with a function `plain`, and with this debugging information.
fn assembled(directory: &Path, sections: &str, flags: &[&str]) -> (Library, HashMap<String, u64>) {
    let quoted = sections.lines().map(|line| format!("{:?}\n", line.to_owned() + "\n"));
    let source =
        format!("int plain(int x) {{ return x + 1; }}\n__asm__({}\".text\\n\");\n", quoted.collect::<String>());
    recorded(&library(directory, &source, flags))
}

/// Returns sections: an abbreviation for a unit, and the rest of the abbreviations; the units, with their
/// entries; and a line program.
fn sections(abbreviations: &str, units: (u32, &str), lines: &str) -> String {
    let (count, entries) = units;
    format!(
        ".section .debug_abbrev,\"\",@progbits
abbreviations: .uleb128 1, 0x11; .byte 1; .uleb128 0x10, 0x17, 0x11, 1, 0x12, 7, 0, 0
{abbreviations}
.byte 0
.section .debug_line,\"\",@progbits
lines: .long 9f - 1f
1: .short {lines}
9:
.section .debug_info,\"\",@progbits
.rept {count}
.long 5f - 4f
4: .short 4; .long abbreviations; .byte 8
.uleb128 1; .long lines; .quad plain, 16
{entries}
.byte 0
5:
.endr"
    )
}

/// The head of a program of lines in DWARF 4, with these directories and files.
fn lines_with(files: &str, program: &str) -> String {
    format!(
        "4; .long 3f - 2f
2: .byte 1, 1, 1, -5, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1
{files}
3: .byte 0, 9, 2; .quad 0x10000000
{program}
.byte 0, 1, 1"
    )
}

/// Checks that the function of crafted information is named, without more memory or stack.
#[track_caller]
fn assert_named(test: &str, sections: &str, flags: &[&str]) {
    if !is_limited(test) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (library, functions) = assembled(directory.path(), sections, flags);
    let mut symbols = symbols(directory.path());
    let symbol = symbols.find_symbol(&library, functions["plain"] + 1).expect("a name");
    assert_eq!((&*symbol.function, symbol.lines.len()), ("plain", 0));
}

const NO_LINES: &str = ".byte 0, 0";

#[test]
fn inlined_functions_may_be_nested_without_end() {
    let function = ".uleb128 2, 0x2e; .byte 1; .uleb128 0x11, 1, 0x12, 7, 0, 0
.uleb128 3, 0x1d; .byte 1, 0, 0";
    let entries = ".uleb128 2; .quad plain, 16
.fill 1000000, 1, 3
.fill 1000001, 1, 0";
    let all = sections(function, (1, entries), &lines_with(NO_LINES, ""));
    assert_named("inlined_functions_may_be_nested_without_end", &all, &[]);
}

#[test]
fn units_may_share_an_address_and_their_lines() {
    let all = sections("", (3000, ""), &lines_with(NO_LINES, ".fill 1000000, 1, 0x4b"));
    assert_named("units_may_share_an_address_and_their_lines", &all, &[]);
}

#[test]
fn functions_may_share_their_ranges() {
    let function = ".uleb128 2, 0x2e; .byte 0; .uleb128 0x55, 0x17, 0, 0";
    let entries = ".rept 100000
.uleb128 2; .long 0
.endr
.section .debug_ranges,\"\",@progbits
.rept 100000
.quad 0x100000, 0x100001
.endr
.quad 0, 0
.section .debug_info,\"\",@progbits";
    let all = sections(function, (1, entries), &lines_with(NO_LINES, ""));
    assert_named("functions_may_share_their_ranges", &all, &[]);
}

#[test]
fn files_may_share_a_long_directory() {
    let files = ".fill 1000000, 1, 'd'
.byte 0, 0
.rept 100000
.byte 'f', 0, 1, 0, 0
.endr
.byte 0";
    let all = sections("", (1, ""), &lines_with(files, ".fill 10, 1, 0x4b"));
    assert_named("files_may_share_a_long_directory", &all, &[]);
}

#[test]
fn entries_may_have_attributes_that_take_no_bytes() {
    let flags = ".uleb128 2, 0x34; .byte 0
.rept 1000000
.byte 0x3f, 0x19
.endr
.byte 0, 0";
    let all = sections(flags, (1, ".fill 1000000, 1, 2"), &lines_with(NO_LINES, ""));
    assert_named("entries_may_have_attributes_that_take_no_bytes", &all, &[]);
}

/// A file takes hundreds of bytes for each byte that is left, before any is read.
#[test]
fn a_program_of_lines_may_claim_any_number_of_files() {
    let lines = "5; .byte 8, 0; .long 3f - 2f
2: .byte 1, 1, 1, -5, 14, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1
.byte 1; .uleb128 1, 0x08, 0
.byte 1; .uleb128 1, 0x08, 0x7fffffffffffffff
.fill 40000000, 1, 0xff
3:";
    let all = sections("", (1, ""), lines);
    assert_named("a_program_of_lines_may_claim_any_number_of_files", &all, &[]);
}

#[test]
fn sections_may_be_compressed_to_nearly_nothing() {
    let all = sections("", (4, ""), &lines_with(NO_LINES, ".fill 50000000, 1, 0x4b"));
    assert_named("sections_may_be_compressed_to_nearly_nothing", &all, &["-Wl,--compress-debug-sections=zlib"]);
}

/// Debugging information as compilers write it, with inlined functions. If it is damaged, its references can
/// form loops.
const SOURCE: &str = r#"
static inline __attribute__((always_inline)) int inner(int *x) { __asm__ volatile("" : "+m"(*x)); return *x; }
static inline __attribute__((always_inline)) int middle(int *x) { return inner(x) + inner(x); }
int plain(int x) { return middle(&x) + 1; }
int other(int x) { return inner(&x) * plain(x); }
"#;

/// Numbers that look random, the same for a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() % most.max(1) as u64) as usize
    }
}

/// Damages a part of a file.
fn damage(bytes: &mut Vec<u8>, part: &Range<usize>, random: &mut Random) {
    for _ in 0..1 + random.below(8) {
        let at = part.start + random.below(part.len());
        let Some(rest) = bytes.get_mut(at..) else { return };
        let few = random.below(9).min(rest.len());
        match random.below(5) {
            0 => rest[0] ^= 1 << random.below(8),
            1 => rest[..few].fill(0),
            2 => rest[..few].fill(0xff),
            3 => rest[..few].copy_from_slice(&random.next().to_le_bytes()[..few.min(8)].repeat(2)[..few]),
            _ => rest[0] = random.next() as u8,
        }
    }
    if random.below(16) == 0 {
        bytes.truncate(part.start + random.below(part.len()));
    }
}

/// All names and lines of every place in a library: they are limited, whatever was damaged.
fn look_at_all(directory: &Path, library: &Library, functions: &HashMap<String, u64>) -> Option<String> {
    let mut symbols = symbols(directory);
    symbols.files.most_debug_bytes = 1 << 20;
    for place in functions["plain"]..functions["plain"] + 64 {
        let Some(symbol) = symbols.find_symbol(library, place) else { continue };
        assert!(symbol.lines.len() <= 32 && symbol.function.len() <= 64 << 10, "{symbol:?}");
    }
    Some(symbols.find_symbol(library, functions["plain"] + 1)?.function)
}

#[test]
fn damaged_files_do_no_harm_and_functions_keep_their_names() {
    if !is_limited("damaged_files_do_no_harm_and_functions_keep_their_names") {
        return;
    }
    let rounds = if env::var_os("FULL_SIZE").is_some() { 20_000 } else { 150 };
    for (flags, is_apart) in [
        (&["-gdwarf-4"][..], false),
        (&["-gdwarf-5"], false),
        (&["-gdwarf-5", "-gz=zlib"], false),
        (&["-gdwarf-5", "-gdwarf64"], true),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let built = library(directory.path(), SOURCE, flags);
        let (library, functions) = recorded(&built);
        let damaged = if is_apart {
            let apart = directory.path().join("library.debug");
            let run = |program: &str, args: &[&str]| {
                let mut command = Command::new(program);
                command.current_dir(directory.path()).args(args);
                assert!(command.status().unwrap().success(), "{program} {args:?}");
            };
            run("objcopy", &["--only-keep-debug", "library.so", "library.debug"]);
            run("strip", &["library.so"]);
            run("objcopy", &["--add-gnu-debuglink=library.debug", "library.so"]);
            apart
        } else {
            built
        };
        let whole = fs::read(&damaged).unwrap();
        let file = object::File::parse(&*whole).unwrap();
        let of_section = |section: object::Section<'_, '_>| {
            let (at, length) = section.file_range()?;
            Some((section.name().unwrap().to_owned(), at as usize..(at + length) as usize))
        };
        let mut parts: Vec<_> = file.sections().filter_map(of_section).collect();
        parts.retain(|(name, part)| {
            !part.is_empty() && (name.starts_with(".debug") || name.ends_with("tab") || name == ".gnu_debuglink")
        });
        let is_debug = |name: &str| name.starts_with(".debug");
        assert!(parts.iter().filter(|(name, _)| is_debug(name)).count() >= 5, "{parts:?}");
        let headers = u64::from_le_bytes(whole[40..48].try_into().unwrap()) as usize;
        parts.push(("sections".into(), headers..whole.len()));
        parts.push(("file".into(), 0..64));
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        for round in 0..rounds {
            let (name, part) = &parts[random.below(parts.len())];
            let mut bytes = whole.clone();
            damage(&mut bytes, part, &mut random);
            fs::write(&damaged, &bytes).unwrap();
            let found = look_at_all(directory.path(), &library, &functions);
            if is_debug(name) && bytes.len() == whole.len() {
                assert_eq!(found.as_deref(), Some("plain"), "{flags:?}, round {round}, {name}");
            }
        }
    }
}
