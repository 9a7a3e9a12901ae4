//! The place of a finding is the line that a person would change: not that of a wrapper, a header, a helper, or a library.
//!
//! Each program of `tests/programs/places` makes one mistake, in a line that ends in `@`.

use crate::support::{compile_c, compile_shared, cupeer, done, sim_dir, stdout, temp_dir, with};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The programs, each with the rule that it breaks.
const PROGRAMS: [(&str, &str); 22] = [
    ("inline.c", "use-after-close"),
    ("helper.c", "ipc-free-import"),
    ("library.c", "ipc-event-flags"),
    ("pointer.c", "ipc-closed-twice"),
    ("callback.c", "ipc-freed-while-open"),
    ("own.c", "vmm-released-twice"),
    ("descriptor.c", "fd-leak"),
    ("copied.cpp", "ipc-closed-twice"),
    ("deleter.cpp", "ipc-freed-while-open"),
    ("template.cpp", "ipc-closed-twice"),
    ("lambda.cpp", "ipc-closed-twice"),
    ("stages.cpp", "ipc-event-flags"),
    ("thread.cpp", "no-current-context"),
    ("operator.cpp", "use-after-unmap"),
    ("resource.cpp", "ipc-free-import"),
    ("module.py", "ipc-closed-twice"),
    ("with.py", "ipc-closed-twice"),
    ("partial.py", "ipc-free-import"),
    ("generator.py", "use-after-close"),
    ("deleted.py", "vmm-released-twice"),
    ("property.py", "ipc-event-flags"),
    ("package.py", "ipc-leak"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/places")
}

/// Returns the compiler's command for a program with inlining.
fn command(name: &str) -> Vec<String> {
    let folder = folder();
    let text = |path: PathBuf| path.to_str().expect("UTF-8").to_owned();
    if name.ends_with(".py") {
        return vec!["python3".into(), text(folder.join(name))];
    }
    let source = fs::read_to_string(folder.join(name)).expect("a program");
    let (search, headers) = (format!("-L{}", sim_dir().display()), format!("-I{}", folder.display()));
    let mut flags: Vec<String> = ["-O2", "-Wno-unused-function", &headers, &search].map(Into::into).into();
    if source.contains("\"mini.h\"") {
        flags.push(text(folder.join("mini.c")));
    }
    if source.contains("\"wrap.h\"") {
        flags.push(text(compile_shared("programs/places/wrap.c", &["-O2", &headers, &search, "-lcuda"])));
    }
    flags.push("-lcuda".into());
    if name.ends_with(".cpp") {
        flags.extend(["-std=c++17".into(), "-lstdc++".into()]);
    }
    vec![text(compile_c(&format!("programs/places/{name}"), &flags.iter().map(|flag| &**flag).collect::<Vec<_>>()))]
}

/// The file and the number of the line that a place in JSON is about.
fn line(place: &Value) -> (String, u64) {
    let line = if place["python"].is_object() { &place["python"] } else { &place["lines"][0] };
    let file = line["file"].as_str().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    (file.to_owned(), line["line"].as_u64().unwrap_or(0))
}

#[test]
fn the_place_is_the_line_that_a_person_would_change() {
    let (record_of, mut wrong) = (temp_dir(), Vec::new());
    for (name, rule) in PROGRAMS {
        let record = record_of.path().join(name);
        let ended = done(cupeer().args(["run", "--sim=nvlink:2", "-o"]).arg(&record).arg("--").args(command(name)));
        let report = stdout(cupeer().arg("report").arg(&record).args(["--format", "json"]));
        let report: Value = serde_json::from_str(&report).expect("JSON");
        let findings = report["findings"].as_array().expect("findings");
        let found = findings.iter().find(|finding| finding["rule"] == rule);
        let (file, number) = found.map_or_else(Default::default, |found| line(&found["caller"]));
        let text = fs::read_to_string(folder().join(name)).expect("a program");
        let told = text.lines().nth((number as usize).wrapping_sub(1)).unwrap_or_default();
        if file != name || !["/*@*/", "# @"].iter().any(|mark| told.ends_with(mark)) {
            wrong.push(format!("{name}: {file}:{number}: {told}\n{}", ended.stderr));
        }
        // Those who read the summary see the same place.
        let at = format!(" at {name}:{number} in ");
        if found.is_some_and(|found| found["severity"] != "note") && !ended.stderr.contains(&at) {
            wrong.push(format!("{name}: not {at}: {}", ended.stderr));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A handle that two functions close.
const TWICE: &str = r#"import ctypes, os
cuda = ctypes.CDLL("libcuda.so.1")
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]
cuda.cuIpcOpenMemHandle_v2.argtypes = [ctypes.c_void_p, Handle, ctypes.c_uint]
cuda.cuIpcCloseMemHandle.argtypes = [ctypes.c_uint64]
def begin():
    context = ctypes.c_void_p()
    cuda.cuInit(0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    cuda.cuCtxSetCurrent(context)
def first(mapped):
    cuda.cuIpcCloseMemHandle(mapped)
def second(mapped):
    cuda.cuIpcCloseMemHandle(mapped)
here, there = os.pipe()
pointer, handle = ctypes.c_uint64(), Handle()
if os.fork() == 0:
    begin()
    cuda.cuIpcOpenMemHandle_v2(ctypes.byref(pointer), Handle.from_buffer_copy(os.read(here, 64)), 1)
    first(pointer)
    second(pointer)
    os._exit(0)
begin()
cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(4096))
cuda.cuIpcGetMemHandle(ctypes.byref(handle), pointer)
os.write(there, bytes(handle))
os.wait()
"#;

#[test]
fn the_line_of_source_stands_below_its_place_while_it_is_the_one_that_ran() {
    let folder = temp_dir();
    let (script, record) = (folder.path().join("train.py"), folder.path().join("record"));
    fs::write(&script, TWICE).expect("a script");
    let run = |more: &[&str], record: &Path| {
        let mut command = with(&["run", "--sim", "-o"]);
        done(command.arg(record).args(more).args(["--", "python3"]).arg(&script)).stderr
    };
    let code = "15 | cuda.cuIpcCloseMemHandle(mapped)\n";
    let said = run(&[], &record);
    assert!(said.contains(&format!(" at train.py:15 in second\ncupeer:        {code}")), "{said}");
    let told = |more: &[&str]| stdout(cupeer().arg("report").arg(&record).args(more));
    let text = told(&[]);
    assert!(text.contains(&format!("     {code}")), "{text}");
    // The first close, too, has its line of Python.
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("closed: process ") && words.contains(" from train.py:13 in first,"), "{text}");
    assert!(words.contains("; the last close was ") && !words.contains(" at libffi"), "{text}");
    assert!(told(&["--format", "html"]).contains("15 | cuda.cuIpcCloseMemHandle(mapped)"));
    let json: Value = serde_json::from_str(&told(&["--format", "json"])).expect("JSON");
    assert_eq!(json["source_lines"].as_array().map(Vec::len), Some(3), "{}", json["source_lines"]);
    assert!(!told(&["--no-source"]).contains(code));
    assert!(!run(&["--no-source"], &folder.path().join("other")).contains(code));
    // A packed recording has none, and neither has a file that was changed since.
    let packed = folder.path().join("packed.tar.gz");
    assert!(done(cupeer().arg("pack").arg(&record).arg("-o").arg(&packed)).status.success());
    assert!(!stdout(cupeer().arg("report").arg(&packed)).contains(code));
    fs::write(&script, TWICE.replace("(mapped)", "(another)")).expect("a script");
    assert!(!told(&[]).contains(" | cuda"), "{}", told(&[]));
}

#[test]
fn a_finding_stands_below_the_one_that_it_follows_from() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let ended = done(cupeer().args(["run", "--sim", "-o"]).arg(&record).arg("--").args(command("helper.c")));
    let follows = "(follows from ipc-free-import above)";
    assert!(ended.stderr.contains("  error ipc-free-import: "), "{}", ended.stderr);
    let text = stdout(cupeer().arg("report").arg(&record));
    let (_, below) = text.split_once("\n- error ipc-free-import: ").expect("the root");
    // The faster process decides whether the handle is open when the exporter frees, or until the importer exits.
    let below = below.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(below.contains("- error ipc-freed-while-open: ") || below.contains("- note ipc-never-closed: "), "{below}");
    assert!(below.contains(follows), "{below}");
    let report = stdout(cupeer().arg("report").arg(&record).args(["--format", "json"]));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let findings = report["findings"].as_array().expect("findings");
    for finding in findings {
        let root = finding["follows"].as_u64().map(|number| &findings[number as usize - 1]["rule"]);
        let wanted = (finding["rule"] != "ipc-free-import").then_some("ipc-free-import");
        assert_eq!(root.and_then(Value::as_str), wanted, "{finding}");
    }
    assert!(findings.len() > 1, "{findings:?}");
}

/// Two mistakes in functions that are inlined into `main`.
#[test]
fn an_entry_for_an_inlined_function_suppresses_no_other() {
    let folder = temp_dir();
    let (record, known) = (folder.path().join("record"), folder.path().join("known.toml"));
    done(cupeer().args(["run", "--sim", "-o"]).arg(&record).arg("--").args(command("inline.c")));
    let text = stdout(cupeer().arg("report").arg(&record).arg("--suggest-suppressions"));
    assert!(text.contains("caller = \"refill\"\n") && !text.contains("\"main\""), "{text}");
    fs::write(&known, &text).expect("a file");
    let sarif = stdout(cupeer().arg("report").arg(&record).args(["--format", "sarif"]));
    let sarif: Value = serde_json::from_str(&sarif).expect("JSON");
    let place = &sarif["runs"][0]["results"][0]["locations"][0];
    assert_eq!(place["logicalLocations"][0]["name"], "refill", "{place}");
    let count = |known: &Path| {
        let mut command = cupeer();
        done(command.arg("report").arg(&record).args(["--error-on", "all", "--suppressions"]).arg(known)).status.code()
    };
    assert_eq!(count(&known), Some(0));
    fs::write(&known, text.replace("\"refill\"", "\"consumer\"").replace("use-after-close", "vmm-*")).expect("a file");
    assert_eq!(count(&known), Some(1));
}
