use super::*;
use crate::sys::program_memory::OwnMemory;
use cupeer_stacks::python::{self, Layout, LineTableForm, PythonText, line_of};
use proptest::prelude::*;
use std::process::Command;

/// Prints for code of the standard library its first line, its table and the line of each instruction, as the interpreter has
/// them: a line of `FIRST TABLE LINE,LINE,...` each.
const ASK: &str = r#"
import ctypes, glob, os, random, sys
line = ctypes.pythonapi.PyCode_Addr2Line
line.argtypes, line.restype = [ctypes.py_object, ctypes.c_int], ctypes.c_int
def each(code):
    yield code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from each(constant)
files = sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py")))
sources = [open(file, encoding="utf-8").read() for file in files[:40]]
sources += ["\n" * 300 + "a\n" + "\n" * 40000 + "b = (c +\n\n\n  d)", "", "x = [\n" + "y,\n" * 500 + "]"]
for source in sources:
    for code in each(compile(source, "f", "exec")):
        table = code.co_lnotab if sys.version_info < (3, 10) else code.co_linetable
        told = [line(code, at) for at in range(0, len(code.co_code), 2)]
        print(code.co_firstlineno, table.hex() or "-", ",".join(map(str, told)))
"#;

/// The forms of tables that interpreters of this machine have, each with what one says.
fn interpreters() -> Vec<(String, LineTableForm, String)> {
    let pyenv = Command::new("pyenv").arg("root").output().ok();
    let root = pyenv.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    let kept = std::fs::read_dir(format!("{root}/versions")).into_iter().flatten().flatten();
    let kept = kept.map(|entry| entry.path().join("bin/python").display().to_string());
    let named = (9..=14).map(|minor| format!("python3.{minor}")).chain(["python3".to_owned()]);
    let form = |python: &String| {
        let version = Command::new(python).args(["-c", "import sys; print(sys.version_info[1])"]).output().ok()?;
        match String::from_utf8_lossy(&version.stdout).trim().parse().ok()? {
            9u32 => Some(LineTableForm::Later),
            10 => Some(LineTableForm::Ranges),
            11..=14 => Some(LineTableForm::Positions),
            _ => None,
        }
    };
    let all = named.chain(kept).filter_map(|python| {
        let form = form(&python)?;
        let told = Command::new(&python).args(["-c", ASK]).output().ok().filter(|told| told.status.success())?;
        Some((python, form, String::from_utf8_lossy(&told.stdout).into_owned()))
    });
    all.collect()
}

#[test]
fn lines_are_those_that_python_has() {
    let all = interpreters();
    assert!(!all.is_empty(), "there is no python3 of a version that is read");
    // `scripts/test --all` reads all code of each, and else a sample.
    let (step, least) = if std::env::var_os("FULL_SIZE").is_some() { (1, 10_000) } else { (4, 2_500) };
    for (python, form, told) in all {
        let mut count = 0;
        for code in told.lines().step_by(step) {
            let words: Vec<&str> = code.split(' ').collect();
            let [first, table, lines] = words[..] else { panic!("{code}") };
            let byte = |at: usize| u8::from_str_radix(&table[at..at + 2], 16).expect("hexadecimal digits");
            let table: Vec<u8> = (0..table.len() / 2 * 2).step_by(2).filter(|_| table != "-").map(byte).collect();
            for (index, expected) in lines.split(',').enumerate() {
                let mut bytes = table.iter().copied();
                let got = line_of(form, first.parse().expect("a line"), 2 * index, || bytes.next());
                // 0 and less are none.
                let expected = expected.parse::<i64>().expect("a line").max(0);
                assert_eq!(got.map_or(0, i64::from), expected, "{python}, instruction {index} of {code}");
                count += 1;
            }
        }
        assert!(count > least, "{python}: {count}");
    }
}

/// The layout of each version that does not publish its own.
fn layouts() -> Vec<Layout> {
    [0x0309_0000, 0x030a_0000, 0x030b_0000, 0x030c_0000]
        .map(|version| Layout::for_version(OwnMemory, version, 0).expect("one"))
        .into()
}

proptest! {
    #[test]
    fn any_bytes_are_a_table(form in 0..3usize, first in any::<i32>(), at in 0..1usize << 40, bytes: Vec<u8>) {
        let form = [LineTableForm::Later, LineTableForm::Ranges, LineTableForm::Positions][form];
        let mut bytes = bytes.into_iter();
        if let Some(line) = line_of(form, first, at, || bytes.next()) {
            prop_assert!(line > 0);
        }
    }

    #[test]
    fn any_memory_is_an_interpreter_or_none(
        which in 0..4usize,
        words in proptest::collection::vec((0..8u8, any::<u64>()), 512),
    ) {
        // Words of which most lead to others, and those that have to be of a kind often are.
        let mut memory: Vec<u64> = vec![0; words.len()];
        let start = memory.as_ptr() as u64;
        let within = |word: u64| start + word % (8 * words.len() as u64) / 8 * 8;
        for (place, (kind, word)) in memory.iter_mut().zip(&words) {
            *place = match kind {
                0 => 0,
                1 => *word,
                2 => thread_description() as u64,
                3 => word % 5,
                _ => within(*word),
            };
        }
        let kind = within(words[0].1) as usize;
        let interpreter = Interpreter {
            runtime: start as usize,
            layout: layouts()[which],
            code: kind,
            text: kind,
            bytes: kind,
            frame: kind,
            eval: 0..0,
            object: 0..0,
        };
        let mut found = 0;
        Pieces::walk_with(|pieces| {
            interpreter.for_each_frame(pieces, thread_description(), 24, |_| false, &mut |_| {
                found += 1;
                true
            })
        });
        prop_assert!(found <= 24);
    }
}

#[test]
fn a_state_that_an_earlier_thread_left_is_not_taken_for_the_own() {
    // The runtime, its interpreter, two states, the frame, its code, a text, and an empty table: where each begins, in words.
    const RUNTIME: usize = 0;
    const INTERPRETER: usize = 8;
    const LIVE: usize = 16;
    const LEFT: usize = 48;
    const FRAME: usize = 80;
    const CODE: usize = 100;
    const TEXT: usize = 120;
    const TABLE: usize = 130;
    let mut memory = [0u64; 140];
    let start = memory.as_ptr() as u64;
    let address = |index: usize| start + 8 * index as u64;
    let own = thread_description() as u64;
    let layout = Layout::for_version(OwnMemory, 0x0309_0000, 0).expect("a layout");
    let text = (1 | 8 | 16) << layout.state_shift;
    for (index, word) in [
        (RUNTIME + layout.interpreters / 8, address(INTERPRETER)),
        (INTERPRETER + layout.threads / 8, address(LIVE)),
        (LIVE + 3, address(FRAME)),
        (LIVE + layout.thread_id / 8, own),
        // Its memory was freed, and the first half belongs to something else now.
        (LEFT + 3, address(TEXT)),
        (LEFT + layout.thread_id / 8, own),
        (FRAME + 1, address(FRAME)),
        (FRAME + layout.code / 8, address(CODE)),
        (CODE + 1, address(CODE)),
        (CODE + layout.first_line / 8, 7),
        (CODE + layout.file / 8, address(TEXT)),
        (CODE + layout.name / 8, address(TEXT)),
        (CODE + layout.table / 8, address(TABLE)),
        (TEXT + 1, address(TEXT)),
        (TEXT + layout.length / 8, 1),
        (TEXT + layout.state / 8, text),
        (TEXT + layout.ascii / 8, u64::from(b'x')),
        (TABLE + 1, address(TABLE)),
    ] {
        memory[index] = word;
    }
    let [runtime, code, text, bytes, frame] = [RUNTIME, CODE, TEXT, TABLE, FRAME].map(|index| address(index) as usize);
    let interpreter = Interpreter { runtime, layout, code, text, bytes, frame, eval: 0..0, object: 0..0 };
    for known in [0, LIVE, LEFT] {
        let mut lines = Vec::new();
        Pieces::walk_with(|pieces| {
            python::MemoryPieces::cache_thread_state(pieces, if known == 0 { 0 } else { address(known) as usize });
            interpreter.for_each_frame(pieces, own as usize, 24, |_| false, &mut |frame| {
                lines.push(frame.first_line);
                true
            })
        });
        assert_eq!(lines, [7], "the state at {known}");
    }
}

#[test]
fn published_layouts_must_be_whole() {
    let mut published = [0u64; 81];
    published[0] = u64::from_le_bytes(*b"xdebugpy");
    published[1] = 0x030e_00f0;
    (3..81).for_each(|index| published[index] = 8 * index as u64);
    let layout = |published: &[u64; 81]| Layout::for_version(OwnMemory, 0x030e_0000, published.as_ptr() as usize);
    let known = layout(&published).expect("a layout");
    assert_eq!((known.interpreters, known.file, known.wide), (40, 320, 656));
    published[26] = 1 << 40;
    assert_eq!(layout(&published), None, "an offset that no structure has");
    published[26] = 8;
    published[1] = 0x030f_0000;
    assert_eq!(layout(&published), None, "a version that is not known");
    (published[1], published[0]) = (0x030e_0000, 0);
    assert_eq!(layout(&published), None);
    assert_eq!(Layout::for_version(OwnMemory, 0x0308_0000, 0), None);
    assert_eq!(Layout::for_version(OwnMemory, 0x030d_0000, 8), None, "what cannot be read");
}

#[test]
fn texts_have_characters_of_one_two_or_four_bytes() {
    let text = |bytes: &[u8], size| PythonText::new(bytes, size).to_string();
    assert_eq!(text(b"train.py", 1), "train.py");
    assert_eq!(text(b"n\xf6", 1), "nö");
    assert_eq!(text(&[0xe5, 0x65, 0x2c, 0x67], 2), "日本");
    assert_eq!(text(b"a\0b", 1), "a\u{fffd}b");
    assert_eq!(text(&[0x0d, 0xf4, 1, 0, 0, 0xd8, 0, 0], 4), "\u{1f40d}\u{fffd}");
}
