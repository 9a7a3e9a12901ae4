//! Reduced files: what is kept of a node's records gives the report that the records would.

use crate::support::{self, cupeer, stdout, temp_dir};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The end of a reduced file's name.
const SUFFIX: &str = ".cupeer.json.gz";

/// Checks that a record, and the same on two hosts, is reported from reduced files as from the records.
#[track_caller]
pub fn assert_the_same(record: &Path, report: &Value) {
    let folder = temp_dir();
    let one = reduce(record, folder.path(), "one");
    assert_alike(&report_of(&[&one]), report);
    if fs::read_dir(record).expect("it is there").flatten().any(|entry| entry.path().is_dir()) {
        // It is of several hosts already.
        return;
    }
    let hosts = folder.path().join("hosts");
    for (number, name) in ["a", "b"].into_iter().enumerate() {
        copy(record, &hosts.join(name), number as u8);
    }
    let parts = ["a", "b"].map(|name| reduce(&hosts.join(name), folder.path(), name));
    let whole = report_of(&[&hosts]);
    assert_alike(&report_of(&[&parts[0], &parts[1]]), &whole);
    // In a tree: what was put together can be put together again.
    let both = folder.path().join(format!("both{SUFFIX}"));
    stdout(cupeer().arg("reduce").args(&parts).arg("-o").arg(&both));
    assert_alike(&report_of(&[&both]), &whole);
}

/// Reduces a record to a file.
#[track_caller]
fn reduce(record: &Path, folder: &Path, name: &str) -> PathBuf {
    let file = folder.join(format!("{name}{SUFFIX}"));
    stdout(cupeer().arg("reduce").arg(record).arg("-o").arg(&file));
    file
}

#[track_caller]
fn report_of(paths: &[&Path]) -> Value {
    let text = stdout(cupeer().arg("report").args(paths).args(["--format", "json"]));
    serde_json::from_str(&text).expect("it is JSON")
}

#[track_caller]
fn assert_alike(one: &Value, other: &Value) {
    let without_path = |report: &Value| {
        let mut report = report.clone();
        report["record"]["path"] = Value::Null;
        // A node tells of all that is wrong with its files before the next does.
        if let Some(problems) = report["record"]["problems"].as_array_mut() {
            problems.sort_by_key(Value::to_string);
        }
        report
    };
    let (one, other) = (without_path(one), without_path(other));
    for (name, value) in other.as_object().expect("an object") {
        assert_eq!(&one[name], value, "{name}");
    }
    assert_eq!(one, other);
}

/// Copies a record as one of another host: with another boot id, in the files and in their names.
fn copy(record: &Path, to: &Path, number: u8) {
    fs::create_dir_all(to).expect("a directory");
    let files: Vec<PathBuf> = fs::read_dir(record)
        .expect("it is there")
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.is_file())
        .collect();
    let boot = |path: &PathBuf| Some(cupeer_record::Process::open(path).ok()?.header.boot_id);
    let boots: Vec<[u8; 16]> = files.iter().filter_map(boot).collect();
    for path in &files {
        let mut bytes = fs::read(path).expect("it can be read");
        for boot in &boots {
            let mut other = *boot;
            other[0] ^= number;
            let places: Vec<usize> =
                (0..bytes.len().saturating_sub(15)).filter(|at| bytes[*at..at + 16] == *boot).collect();
            places.iter().for_each(|at| bytes[*at..at + 16].copy_from_slice(&other));
        }
        let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
        let name = if name == "job" { name.to_owned() } else { name.replacen('-', &format!("-{number}"), 1) };
        fs::write(to.join(name), bytes).expect("it can be written");
    }
}
