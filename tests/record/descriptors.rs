//! Descriptors of allocations are known by what they refer to, on every way on which they come to a process.

use crate::programs::{open_job, recorded};
use crate::support::{self, compile_c, done, sim_dir, temp_dir, with};
use cupeer_spec::function::FnId;
use serde_json::Value;

/// Runs a program of virtual memory on the simulated driver, under cupeer, and reads its log and its report.
fn run(name: &str) -> (tempfile::TempDir, Vec<Value>, Value) {
    let search = format!("-L{}", sim_dir().display());
    let program = compile_c(&format!("conformance/programs/{name}.c"), &[&search, "-lcuda"]);
    let folder = temp_dir();
    let (record, log) = (folder.path().join("record"), folder.path().join("log"));
    let mut run = with(&["run", "--sim=nvlink:2", "--record", "full", "--log", "json", "--trace", "@vmm"]);
    let ended = done(run.arg("-o").arg(&record).arg("--log-file").arg(&log).arg("--").arg(program));
    assert!(ended.status.success(), "{}", ended.stderr);
    let lines = std::fs::read_to_string(&log).expect("a log");
    let lines = lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let report = support::stdout(with(&["report", "--format", "json"]).arg(&record));
    (folder, lines, serde_json::from_str(&report).expect("JSON"))
}

fn calls<'a>(log: &'a [Value], function: &'a str) -> impl Iterator<Item = &'a Value> {
    log.iter().filter(move |line| line["function"] == function && line["result"] == "CUDA_SUCCESS")
}

/// By a message, as a copy, inherited, taken by another process: under other numbers, at other times, after its
/// descriptors were closed and its owner has released it.
#[test]
fn every_import_is_joined_to_its_export() {
    let (_folder, log, report) = run("descriptors");
    let handles = report["handles"].as_array().expect("handles");
    let opened: Vec<&Value> =
        handles.iter().filter(|handle| handle["opens"].as_array().is_some_and(|opens| !opens.is_empty())).collect();
    let imports = calls(&log, "cuMemImportFromShareableHandle").count();
    assert!(imports >= 7, "{log:?}");
    let times = |handle: &&Value| {
        handle["opens"].as_array().into_iter().flatten().filter_map(|open| open["times"].as_u64()).sum::<u64>()
    };
    assert_eq!(opened.iter().map(times).sum::<u64>(), imports as u64, "each is in the ledger");
    for handle in &opened {
        assert!(handle["exporter"].is_string() && handle["kind"] == "allocation", "{handle}");
        assert!(handle["fingerprint"].as_str().is_some_and(|name| name.starts_with("fd:2c")), "{handle}");
    }
    let by_others = opened.iter().filter(|handle| handle["opens"][0]["proc"] != handle["exporter"]).count();
    assert!(by_others >= 3, "{opened:?}");
    // Each export has a name of its own, which is never the descriptor's number alone.
    let mut names: Vec<&str> = calls(&log, "cuMemExportToShareableHandle")
        .map(|call| call["args"]["shareableHandle"]["handle"].as_str().expect("a name"))
        .collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    // A failed call has none: the number is not a descriptor of an allocation.
    let failed = log.iter().find(|line| line["result"] == "CUDA_ERROR_UNKNOWN").expect("one");
    assert!(failed["args"]["osHandle"]["fd"].is_i64() && failed["args"]["osHandle"]["handle"].is_null());
}

/// Arguments for which a slot has no room stand in the record all the same.
#[test]
fn all_arguments_of_long_calls_are_kept() {
    let (folder, log, _) = run("mapped");
    let (mut created, mut mapped) = (Vec::new(), Vec::new());
    for process in &open_job(&folder.path().join("record")).processes {
        for call in recorded(process) {
            let number = |name: &str| {
                let bytes = call.argument_by_name(name).unwrap_or_else(|| panic!("{name} of {call:?}"));
                bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
            };
            match call.function.filter(|_| call.succeeded()) {
                Some(FnId::cuMemCreate) => {
                    assert_eq!((number("flags"), number("size") % (2 << 20)), (0, 0));
                    let prop: Vec<i32> = call
                        .argument_by_name("prop")
                        .expect("its properties")
                        .chunks_exact(4)
                        .map(|bytes| i32::from_le_bytes(bytes.try_into().expect("four")))
                        .collect();
                    assert_eq!((prop[0], prop[2]), (1, 1), "pinned, on a device");
                    created.push(number("handle"));
                }
                Some(FnId::cuMemImportFromShareableHandle | FnId::cuMemRetainAllocationHandle) => {
                    created.push(number("handle"));
                }
                Some(FnId::cuMemMap) => {
                    assert_eq!((number("offset"), number("flags")), (0, 0));
                    mapped.push(number("handle"));
                }
                _ => {}
            }
        }
    }
    assert!(!mapped.is_empty() && mapped.iter().all(|handle| created.contains(handle)));
    assert_eq!(calls(&log, "cuMemMap").count(), mapped.len());
}
