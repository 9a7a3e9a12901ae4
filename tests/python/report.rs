//! Output for people: the line of Python comes first, in every form of a report.

use crate::support::{done, temp_dir, with};
use serde_json::Value;

const PROGRAM: &str = r#"
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
def pushed():
    return cuda.cuCtxCreate_v2(ctypes.byref(ctypes.c_void_p()), 0, 0)
def memory():
    pointer = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), 1 << 21) == 0
    return pointer
def share(pointer):
    handle = (ctypes.c_char * 64)()
    assert cuda.cuIpcGetMemHandle(handle, pointer) == 0
    return handle
def twice(pointer):
    return cuda.cuIpcGetMemHandle(ctypes.c_void_p(), ctypes.c_uint64(7))
def main():
    cuda.cuInit(0)
    pushed()
    share(memory())
    twice(0)
main()
"#;

fn reported(arguments: &[&str], record: &str) -> String {
    done(&mut with(&[&["report"], arguments, &[record]].concat())).stdout
}

#[test]
fn a_line_of_python_comes_first() {
    let folder = temp_dir();
    let script = folder.path().join("train.py");
    std::fs::write(&script, PROGRAM).expect("a script");
    let (script, record) = (script.display().to_string(), folder.path().join("record").display().to_string());
    let run = ["run", "--sim", "--check=full", "-o", &record, "--", "python3", &script];
    let ended = done(&mut with(&run));
    assert!(ended.status.success(), "{}", ended.stderr);
    // As it happens, and in the summary.
    assert!(ended.stderr.contains("train.py:15 in twice, /"), "{}", ended.stderr);
    let text = reported(&[], &record).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("from train.py:15 in twice,"), "{text}");
    let all = reported(&["--failed", "--all"], &record);
    assert!(all.contains("      train.py:20 in main\n") && !all.contains(" 0x0\n"), "{all}");
    let json: Value = serde_json::from_str(&reported(&["--format", "json"], &record)).expect("JSON");
    let finding = &json["findings"][0];
    let line =
        |file: &str, line, function: &str| serde_json::json!({ "file": file, "line": line, "function": function });
    assert_eq!(finding["caller"]["python"], line(&script, 15, "twice"), "{finding}");
    assert!(finding["caller"]["library"].as_str().is_some_and(|library| !library.contains("python3.")), "{finding}");
    let stack = finding["stack"].as_array().expect("a stack");
    let lines: Vec<&Value> =
        stack.iter().filter(|place| place["library"].is_null()).map(|place| &place["python"]).collect();
    let expected = [(15, "twice"), (20, "main"), (21, "<module>")].map(|(at, name)| line(&script, at, name));
    assert_eq!(lines, expected.iter().collect::<Vec<_>>());
    // The interpreter's own are folded.
    let is_of_loop = |place: &Value| place["function"].as_str().is_some_and(|name| name.contains("EvalFrame"));
    assert!(!stack.iter().any(is_of_loop), "{finding}");
    let sarif: Value = serde_json::from_str(&reported(&["--format", "sarif"], &record)).expect("SARIF");
    let place = &sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["region"]["startLine"], 15, "{place}");
    assert!(place["artifactLocation"]["uri"].as_str().is_some_and(|uri| uri.ends_with("train.py")), "{place}");
    let packed = folder.path().join("packed.tar.gz").display().to_string();
    let ended = done(&mut with(&["pack", &record, "-o", &packed, "--redact=paths"]));
    assert!(ended.status.success(), "{}", ended.stderr);
    let unpacked = reported(&["--format", "json"], &packed);
    let json: Value = serde_json::from_str(&unpacked).expect("JSON");
    let line = &json["findings"][0]["caller"]["python"];
    assert_eq!((&line["line"], &line["function"]), (&15.into(), &"twice".into()), "{unpacked}");
    assert!(line["file"].as_str().is_some_and(|file| file.ends_with("/train.py")), "{line}");
    assert!(!unpacked.contains(&script), "{unpacked}");
}

const LEAKING: &str = r#"
import ctypes
import os
import sys
cuda = ctypes.CDLL("libcuda.so.1")
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]
def begin():
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
def export(end):
    pointer, handle = ctypes.c_uint64(), Handle()
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 21)) == 0
    assert cuda.cuIpcGetMemHandle(ctypes.byref(handle), pointer) == 0
    os.write(end, bytes(handle))
def receive(end):
    mapped = ctypes.c_uint64()
    handle = Handle.from_buffer_copy(os.read(end, 64))
    assert cuda.cuIpcOpenMemHandle_v2(ctypes.byref(mapped), handle, 1) == 0
here, there = os.pipe()
back, done = os.pipe()
if os.fork() == 0:
    begin()
    receive(here)
    os.write(done, b".")
    os._exit(0)
begin()
export(there)
os.read(back, 1)
os.wait()
"#;

#[test]
fn a_leak_is_where_python_opened_it() {
    let folder = temp_dir();
    let script = folder.path().join("train.py");
    std::fs::write(&script, LEAKING).expect("a script");
    let (script, record) = (script.display().to_string(), folder.path().join("record").display().to_string());
    let ended = done(&mut with(&["run", "--sim", "-o", &record, "--", "python3", &script]));
    assert!(ended.status.success(), "{}", ended.stderr);
    let leaks = reported(&["--leaks"], &record);
    let stack: Vec<&str> = leaks.lines().skip_while(|line| !line.contains("1 mapping")).skip(1).collect();
    let at = |text: &str| 1 + LEAKING.lines().position(|line| line == text).expect("a line");
    let [opened, called] =
        ["    assert cuda.cuIpcOpenMemHandle_v2(ctypes.byref(mapped), handle, 1) == 0", "    receive(here)"].map(at);
    let is_first = stack[0].starts_with(&format!("      train.py:{opened} in receive, "));
    assert!(is_first && stack[1] == format!("      train.py:{called} in <module>"), "{leaks}");
}

const SHARING: &str = r#"
import ctypes
import os
cuda = ctypes.CDLL("libcuda.so.1")
class Handle(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]
def begin():
    context = ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
def allocated():
    pointer = ctypes.c_uint64()
    assert cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 21)) == 0
    return pointer
def one(pointer, handle):
    assert cuda.cuIpcGetMemHandle(ctypes.byref(handle), pointer) == 0
def two(pointer, handle):
    assert cuda.cuIpcGetMemHandle(ctypes.byref(handle), pointer) == 0
def unsent(pointer, handle):
    assert cuda.cuIpcGetMemHandle(ctypes.byref(handle), pointer) == 0
def export(how, end):
    pointer, handle = allocated(), Handle()
    how(pointer, handle)
    os.write(end, bytes(handle))
    return pointer
def keep(end):
    mapped, handle = ctypes.c_uint64(), Handle.from_buffer_copy(os.read(end, 64))
    assert cuda.cuIpcOpenMemHandle_v2(ctypes.byref(mapped), handle, 1) == 0
def hold(end):
    mapped, handle = ctypes.c_uint64(), Handle.from_buffer_copy(os.read(end, 64))
    assert cuda.cuIpcOpenMemHandle_v2(ctypes.byref(mapped), handle, 1) == 0
def late(end):
    mapped, handle = ctypes.c_uint64(), Handle.from_buffer_copy(os.read(end, 64))
    cuda.cuIpcOpenMemHandle_v2(ctypes.byref(mapped), handle, 1)
def wrong(handle):
    cuda.cuIpcOpenMemHandle_v2(ctypes.byref(ctypes.c_uint64()), ctypes.byref(handle), 1)
here, there = os.pipe()
back, done = os.pipe()
if os.fork() == 0:
    begin()
    keep(here)
    hold(here)
    os.write(done, b".")
    late(here)
    wrong(Handle())
    os._exit(0)
begin()
export(one, there)
held = export(two, there)
freed, lost = allocated(), Handle()
os.read(back, 1)
unsent(freed, lost)
assert cuda.cuMemFree_v2(held) == 0
assert cuda.cuMemFree_v2(freed) == 0
os.write(there, bytes(lost))
os.wait()
"#;

/// The other sites of a finding name the line of Python, too, although several lines have the same return addresses.
#[test]
fn both_sites_of_a_finding_are_lines_of_python() {
    let folder = temp_dir();
    let script = folder.path().join("train.py");
    std::fs::write(&script, SHARING).expect("a script");
    let (script, record) = (script.display().to_string(), folder.path().join("record").display().to_string());
    let ended = done(&mut with(&["run", "--sim", "-o", &record, "--", "python3", &script]));
    assert!(ended.status.success(), "{}", ended.stderr);
    let line_in = |function: &str, text: &str| {
        let lines: Vec<&str> = SHARING.lines().collect();
        let start = lines.iter().position(|line| line.starts_with(&format!("def {function}("))).expect("it");
        1 + start + lines[start..].iter().position(|line| line.contains(text)).expect("a line")
    };
    let (exported, opened) = ("cuIpcGetMemHandle", "cuIpcOpenMemHandle");
    let json: Value = serde_json::from_str(&reported(&["--format", "json"], &record)).expect("JSON");
    let (text, html) = (reported(&[], &record), reported(&["--format", "html"], &record));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for (rule, role, word, function, call) in [
        ("ipc-freed-while-open", "opening", "opened", "hold", opened),
        ("ipc-open-after-free", "export", "exported", "unsent", exported),
    ] {
        let findings = json["findings"].as_array().expect("findings");
        let finding = findings.iter().find(|finding| finding["rule"] == rule).expect(rule);
        let objects = finding["objects"].as_array().expect("objects");
        let object = objects.iter().find(|object| object["role"] == role).expect(role);
        let line = line_in(function, call);
        let python = &object["stack"][0]["python"];
        assert_eq!((&python["line"], &python["function"]), (&line.into(), &function.into()), "{object}");
        let wanted = format!("from train.py:{line} in {function},");
        for shown in [&text, &html] {
            let (_, of_role) = shown.split_once(&format!("{word}: ")).expect("the object");
            assert!(of_role.contains(&wanted), "{wanted}: {of_role}");
        }
        // In the summary, too.
        assert!(ended.stderr.contains(&format!(" at train.py:{line} in {function}\n")), "{}", ended.stderr);
    }
    // And as it happens, in paragraphs.
    let full = folder.path().join("full").display().to_string();
    let full = done(&mut with(&["run", "--sim", "--check=full", "-o", &full, "--", "python3", &script]));
    for (rule, word, function, call) in [
        ("error ipc-freed-while-open", "opened", "hold", opened),
        ("error ipc-freed-while-open", "exported", "two", exported),
        ("error ipc-open-after-free", "exported", "unsent", exported),
    ] {
        let paragraph = full.stderr.split_once(rule).map_or("", |(_, rest)| rest);
        let paragraph = paragraph.split("cupeer: ").next().unwrap_or_default();
        let wanted = format!(", from train.py:{}, by libffi", line_in(function, call));
        let object = paragraph.lines().find(|line| line.trim_start().starts_with(&format!("{word}: ")));
        assert!(object.is_some_and(|line| line.contains(&wanted)), "{wanted}: {}", full.stderr);
    }
    if cfg!(target_arch = "x86_64") {
        // Elsewhere, the processor's convention passes 64 bytes by their address.
        let said = "Flags must be 1 (is ";
        let rest = ended.stderr.split_once(said).map_or("", |(_, rest)| rest);
        assert!(rest.contains("): the handle is probably passed by pointer"), "{}", ended.stderr);
        let hint = "In ctypes, pass a Structure of 64 bytes without byref";
        assert!(text.contains(hint), "{text}");
    }
}

/// As it happens, too, the line of the user's own code stands for the call, not that of the package between.
#[test]
fn the_users_own_line_is_told_as_it_happens() {
    let folder = temp_dir();
    let package = folder.path().join("lib/python3/site-packages/torch");
    std::fs::create_dir_all(&package).expect("a directory");
    std::fs::write(package.join("shared.py"), PROGRAM.replace("\nmain()\n", "\n")).expect("a package");
    let script = folder.path().join("train.py");
    let text = format!(
        "import sys\nsys.path.insert(0, {package:?})\nimport shared\ndef exchange():\n    shared.main()\nexchange()\n"
    );
    std::fs::write(&script, text).expect("a script");
    let (script, record) = (script.display().to_string(), folder.path().join("record").display().to_string());
    let ended = done(&mut with(&["run", "--sim", "-o", &record, "--", "python3", &script]));
    assert!(ended.status.success(), "{}", ended.stderr);
    let first = ended.stderr.lines().find(|line| line.contains("cupeer: error")).unwrap_or("");
    assert!(first.ends_with(", train.py:5 in exchange]"), "{}", ended.stderr);
}
