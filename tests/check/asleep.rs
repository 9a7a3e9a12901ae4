//! Virtual memory that is not exportable: allocators that unmap it and map it again.

use super::scenes::report;
use crate::support::{compile_c, cupeer, done, temp_dir};
use serde_json::Value;
use std::fs;
use std::path::Path;

/// Runs a command, and returns the end of its summary with the findings of its recording.
fn run(command: &[&Path], arguments: &[&str]) -> (String, Value) {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let mut cupeer = cupeer();
    cupeer.args(["run", "--sim=nvlink:2", "--check=notes", "-o"]).arg(&record).arg("--");
    let ended = done(cupeer.args(command).args(arguments));
    (ended.stderr, report(&record)["findings"].clone())
}

fn play(arguments: &[&str]) -> (String, Value) {
    run(&[&compile_c("programs/asleep.c", &["-ldl"])], arguments)
}

#[test]
fn a_range_that_sleeps_on_is_named_with_those_that_are_awake() {
    for (way, others) in [
        (
            "partly",
            "of the 5 ranges unmapped there, 3 are mapped again; this is one of the 2 others: map it before use",
        ),
        ("again", "of the 5 ranges unmapped there, 2 are mapped again; this is one of the 3 others: map it before use"),
        ("asleep", "none of the 5 ranges unmapped there is mapped again"),
    ] {
        let (said, findings) = play(&[way]);
        let row = &findings[0];
        assert_eq!(findings.as_array().map(Vec::len), Some(1), "{way}: {findings:#}");
        assert_eq!((&row["rule"], &row["severity"]), (&"use-after-unmap".into(), &"error".into()), "{row:#}");
        assert!(row["message"].as_str().is_some_and(|text| text.ends_with(others)), "{way}: {row:#}");
        assert!(said.contains("    unmapped at asleep.c:") && said.contains("asleep.c:25"), "{said}");
        assert!(said.contains(others), "{said}");
    }
}

#[test]
fn an_allocator_that_wakes_everything_up_yields_nothing() {
    let (said, findings) = play(&["right"]);
    assert_eq!(findings, serde_json::json!([]), "{said}");
}

/// The tombstones of a segment do not pile up: what is mapped again is gone from them.
#[test]
fn segments_that_grow_and_shrink_yield_nothing() {
    let (said, findings) = play(&["segments", "2000"]);
    assert_eq!(findings, serde_json::json!([]), "{said}");
}

/// All calls of an interpreter come from one place: the lines of Python tell them apart.
#[test]
fn the_line_of_python_that_unmapped_a_range_is_named() {
    let text = r#"import ctypes
cu = ctypes.CDLL("libcuda.so.1")
U64, P, S = ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t
class Prop(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("handles", ctypes.c_int), ("place", ctypes.c_int * 2), ("window", P), ("flags", U64)]
for name, types in {"cuMemAddressReserve": [P, S, S, U64, U64], "cuMemCreate": [P, S, P, U64], "cuMemMap": [U64, S, S, U64, U64],
                    "cuMemSetAccess": [U64, S, P, S], "cuMemUnmap": [U64, S], "cuMemRelease": [U64], "cuMemsetD8_v2": [U64, ctypes.c_ubyte, S],
                    "cuDevicePrimaryCtxRetain": [P, ctypes.c_int], "cuCtxSetCurrent": [P]}.items():
    getattr(cu, name).argtypes = types
def ok(result):
    assert result == 0, result
SIZE = 2 << 20
regions = {}
def create(tag):
    handle, prop, access = U64(), Prop(1, 0, (1, 0)), (ctypes.c_int * 3)(1, 0, 3)
    ok(cu.cuMemCreate(ctypes.byref(handle), SIZE, ctypes.byref(prop), 0))
    ok(cu.cuMemMap(regions[tag], SIZE, 0, handle, 0))
    ok(cu.cuMemSetAccess(regions[tag], SIZE, access, 1))
    ok(cu.cuMemRelease(handle))
def sleep():
    for at in regions.values():
        ok(cu.cuMemUnmap(at, SIZE))
context = P()
ok(cu.cuInit(0)); ok(cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)); ok(cu.cuCtxSetCurrent(context))
for tag in ("weights", "cache"):
    at = U64()
    ok(cu.cuMemAddressReserve(ctypes.byref(at), SIZE, 0, 0, 0))
    regions[tag] = at.value
    create(tag)
sleep()
create("weights")
for tag in regions:
    cu.cuMemsetD8_v2(regions[tag], 0, 4096)
"#;
    let folder = temp_dir();
    let program = folder.path().join("engine.py");
    fs::write(&program, text).expect("a file");
    let (said, findings) = run(&[Path::new("python3"), &program], &[]);
    let others = "of the 2 ranges unmapped there, 1 is mapped again; this is the other one: map it before use";
    assert!(findings[0]["message"].as_str().is_some_and(|text| text.ends_with(others)), "{findings:#}");
    let line = 1 + text.lines().position(|line| line.contains("cuMemUnmap(at")).expect("a line");
    assert!(said.contains(&format!("    unmapped at engine.py:{line} in sleep")), "{said}");
}
