//! Reduced files: what is kept of a node's records gives the report that the records would.

use crate::report::scene::Scene;
use crate::support::{self, cupeer, stdout, temp_dir};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

/// The end of a reduced file's name.
const SUFFIX: &str = ".cupeer.json.gz";

/// Checks that a record, and the same on two hosts, is reported from reduced files as from the records.
#[track_caller]
pub fn assert_the_same(record: &Path, options: &[&str], report: &Value) {
    let folder = temp_dir();
    let one = reduce(record, folder.path(), "one");
    let text = stdout(cupeer().arg("report").arg(&one).args(["--format", "json"]).args(options));
    assert_alike(&serde_json::from_str(&text).expect("it is JSON"), report);
    if !options.is_empty() {
        return;
    }
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
pub fn copy(record: &Path, to: &Path, number: u8) {
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

/// Two processes that share memory on a simulated machine, in a record, with these options of `run`.
#[track_caller]
fn share_on(machine: &str, record: &Path, options: &[&str]) -> support::Done {
    let program = support::compile_c("../scripts/demo.d/share.c", &["-ldl"]);
    let mut run = cupeer();
    run.args(["run", &format!("--sim={machine}"), "-o"]).arg(record).args(options).arg("--").arg(program);
    support::done(&mut run)
}

#[track_caller]
fn share(record: &Path, options: &[&str]) -> support::Done {
    share_on("nvlink:2", record, options)
}

#[test]
fn a_run_leaves_one_small_file_in_the_place_of_its_records() {
    let folder = temp_dir();
    let record = folder.path().join("r");
    let done = share(&record, &["--reduce"]);
    let names = support::names(&record);
    let [file, job] = &names[..] else { panic!("{names:?}: {}", done.stderr) };
    assert!(file.ends_with(&format!("-1{SUFFIX}")) && job == "job", "{names:?}");
    assert!(done.stderr.contains("2 processes reduced to"), "{}", done.stderr);
    let report = report_of(&[&record]);
    crate::report::json::assert_valid(&report);
    assert_eq!(report["processes"].as_array().expect("a list").len(), 2);
    assert_eq!(report["handles"][0]["state"], "closed");
    let opens = report["callers"].as_array().expect("a list").iter();
    let opens: Vec<&Value> = opens.filter(|row| row["function"] == "cuIpcOpenMemHandle_v2").collect();
    let library = opens[0]["caller"]["library"].as_str().expect("a library");
    assert_eq!((&opens[0]["result"], opens[0]["calls"].as_u64()), (&"CUDA_SUCCESS".into(), Some(1)));
    assert!(library.contains("share"), "{library}");
    let text = stdout(cupeer().arg("report").arg(&record));
    assert!(text.contains("No rule was broken by the 12 calls that were recorded."), "{text}");
    // Another run in the same directory is another file, and a page says that they were told apart.
    share(&record, &["--reduce"]);
    assert_eq!(support::names(&record).len(), 3);
    let report = report_of(&[&record]);
    assert_eq!(report["processes"].as_array().expect("a list").len(), 4);
    let problems = report["record"]["problems"].to_string();
    assert!(problems.contains("handles cannot be followed between them"), "{problems}");
    // At home, too, it is a record that can be listed and removed.
    assert!(cupeer_is_own(&record));
}

/// Returns true if all files of a directory are cupeer's, so that `cupeer clean` would delete a recording with these files.
fn cupeer_is_own(record: &Path) -> bool {
    let home = temp_dir();
    let at_home = home.path().join("cupeer/share-1");
    fs::create_dir_all(&at_home).expect("a directory");
    for entry in fs::read_dir(record).expect("it is there").flatten() {
        fs::copy(entry.path(), at_home.join(entry.file_name())).expect("it can be copied");
    }
    let listed = stdout(cupeer().arg("ls").env("XDG_STATE_HOME", home.path()));
    // 2 processes and 2 more, that returned 0.
    listed.lines().any(|line| line.starts_with("share-1") && line.contains(" 4 ") && line.contains("exit 0"))
}

#[test]
fn a_group_that_takes_part_can_read_the_file() {
    let folder = temp_dir();
    for (options, mode) in [(&["--reduce"][..], 0o600), (&["--reduce", "--share", "group"], 0o660)] {
        let record = folder.path().join(format!("{mode:o}"));
        share(&record, options);
        let file = support::names(&record).into_iter().find(|name| name.ends_with(SUFFIX)).expect("a file");
        assert_eq!(support::mode(&record.join(file)) & 0o777, mode);
    }
}

#[test]
fn records_beside_reduced_files_are_reported_together() {
    let folder = temp_dir();
    let record = folder.path().join("r");
    share(&record, &["--reduce"]);
    share(&record, &[]);
    let report = report_of(&[&record]);
    assert_eq!(report["processes"].as_array().expect("a list").len(), 4);
    let calls = |name: &str| {
        let rows = report["functions"].as_array().expect("a list").iter();
        rows.filter(|row| row["function"] == name).map(|row| row["calls"].as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!(calls("cuIpcGetMemHandle"), 2);
    // Commands that need calls refuse a recording of which a part was reduced.
    for command in [&["export", "--to", "parquet", "-o"][..], &["pack", "-o"]] {
        let done = support::done(cupeer().args(command).arg(folder.path().join("made")).arg(&record));
        assert!(!done.status.success() && done.stderr.contains("reduced"), "{command:?}: {}", done.stderr);
        assert!(!folder.path().join("made").exists());
    }
}

#[test]
fn files_one_behind_the_other_are_no_file() {
    let folder = temp_dir();
    let record = folder.path().join("r");
    share(&record, &[]);
    let file = reduce(&record, folder.path(), "one");
    let both = folder.path().join(format!("both{SUFFIX}"));
    let bytes = std::fs::read(&file).unwrap();
    for more in [&bytes[..], b"more"] {
        std::fs::write(&both, [&bytes[..], more].concat()).unwrap();
        let done = support::done(cupeer().arg("report").arg(&both));
        assert!(!done.status.success() && done.stderr.contains("it is damaged"), "{}", done.stderr);
    }
}

#[test]
fn nothing_is_removed_that_is_not_reduced() {
    let folder = temp_dir();
    let record = folder.path().join("r");
    // A process lives on.
    let program = support::compile_text(
        "lives_on",
        "#include <unistd.h>\nint cuInit(unsigned);\nint cuDeviceCanAccessPeer(int *, int, int);\n\
         int main(void) {\n  int can, ends[2];\n  cuInit(0);\n  if (pipe(ends)) return 1;\n  if (fork() == 0) {\n    \
         cuDeviceCanAccessPeer(&can, 0, 1);\n    for (int fd = 0; fd <= ends[1]; fd++) close(fd);\n    sleep(600);\n  }\n  \
         close(ends[1]);\n  return read(ends[0], &can, 1);\n}\n",
        &["-L", support::sim_dir().to_str().expect("a path"), "-lcuda"],
    );
    let mut run = cupeer();
    run.args(["run", "--sim", "--reduce", "-o"]).arg(&record).arg("--").arg(program);
    let done = support::done(&mut run);
    let names = support::names(&record);
    let pids: Vec<i32> = names.iter().filter_map(|name| pid_of(name)).collect();
    pids.iter().for_each(|pid| drop(std::process::Command::new("kill").arg(pid.to_string()).status()));
    assert!(
        done.stderr.contains("not reduced, so the recording is as it was: 1 process may still run"),
        "{}",
        done.stderr
    );
    assert!(!names.iter().any(|name| name.ends_with(SUFFIX)), "{names:?}");
    assert!(names.iter().any(|name| name.ends_with(".cupeer")), "{names:?}");
}

/// The pid in the name of a process's file.
fn pid_of(name: &str) -> Option<i32> {
    name.strip_suffix(".cupeer")?.split('-').nth(2)?.parse().ok()
}

#[test]
fn impossible_requests_are_refused_in_a_sentence() {
    let folder = temp_dir();
    let record = folder.path().join("r");
    share(&record, &[]);
    let file = reduce(&record, folder.path(), "one");
    let shown = file.to_str().expect("a path");
    for option in ["--rank 0", "--failed", "--since 1", "--format trace", "--format html", "--function @ipc"] {
        let mut command = cupeer();
        command.args(["report", shown]).args(option.split(' '));
        let done = support::done(&mut command);
        let name = if option.starts_with("--format") { option } else { option.split(' ').next().unwrap_or(option) };
        assert_eq!(done.status.code(), Some(125), "{option}");
        let ended = "one.cupeer.json.gz' is reduced: they are not there
";
        let begun = format!("cupeer: {name} needs the calls, and '");
        assert!(done.stderr.starts_with(&begun) && done.stderr.ends_with(ended), "{}", done.stderr);
    }
    refused(
        &["report", shown, shown],
        "is in more than one of them, and its calls would be counted twice: name each part of a job once",
    );
    let path = record.to_str().expect("a path");
    refused(&["reduce", path, "-o", shown], "exists; --force overwrites it");
    refused(&["export", shown, "--to", "parquet", "-o", "x"], "is reduced: its calls are not there");
    refused(&["pack", shown, "-o", "x"], "is reduced, one file that can be sent as it is");
    refused(&["reduce", path, "-o", "x.gz"], "does not end in .cupeer.json.gz");
    refused(&["reduce", path, shown], "-o FILE names the one to write where there are several");
    refused(&["reduce", "/nowhere"], "/nowhere");
    refused(&["run", "--record", "off", "--reduce", "--", "true"], "--reduce is for a recording");
    stdout(cupeer().args(["reduce", path, "-o", shown, "--force"]));
    // Files that are none, or of another version.
    let whole = fs::read(&file).expect("it is there");
    for (bytes, sentence) in [
        (whole[..whole.len() / 2].to_vec(), "it is damaged, cut off, or no reduced file"),
        (b"nothing".to_vec(), "it is damaged, cut off, or no reduced file"),
        (
            packed(br#"{"schema":"cupeer-reduced/7","made_by":"9.9.9","part":{"new":1}}"#),
            "'cupeer-reduced/7', made by cupeer 9.9.9; this one reads cupeer-reduced/1",
        ),
        (packed(br#"{"schema":"cupeer-reduced/1","made_by":"0.1.0","part":{}}"#), "it is damaged, or no reduced file"),
        (packed(&vec![b' '; 64 << 20]), "far more text than a file of this size can have"),
    ] {
        fs::write(&file, bytes).expect("it can be written");
        refused(&["report", shown], sentence);
    }
}

/// Checks that a command line is refused in one line with this part.
#[track_caller]
fn refused(args: &[&str], part: &str) {
    let done = support::done(cupeer().args(args));
    let is_line = done.stderr.starts_with("cupeer: ") && done.stderr.lines().count() == 1;
    assert!(is_line && done.stderr.contains(part), "{args:?}: {}", done.stderr);
    assert_eq!((done.status.code(), done.stdout.as_str()), (Some(125), ""), "{args:?}");
}

fn packed(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut encoder, text).expect("room");
    encoder.finish().expect("room")
}

#[test]
fn a_record_and_its_reduced_file_do_not_differ() {
    let folder = temp_dir();
    let record = folder.path().join("r");
    share(&record, &[]);
    let file = reduce(&record, folder.path(), "one");
    let diff = |other: &Path| {
        let text = stdout(cupeer().arg("report").arg(&file).arg("--diff").arg(other).args(["--format", "json"]));
        let diff: Value = serde_json::from_str(&text).expect("it is JSON");
        diff["functions"].as_array().expect("a list").iter().filter(|row| row["differs"] == true).count()
    };
    assert_eq!(diff(&record), 0);
    let other = folder.path().join("s");
    share_on("none:2", &other, &[]);
    assert_ne!(diff(&other), 0);
}

#[test]
fn closed_handles_beyond_the_first_thousand_are_counted() {
    let scene = Scene::new();
    let (mut exporter, mut importer) = (scene.gone(0), scene.gone(1));
    for number in 0..1100 {
        exporter.export(10 * number, 0x100 + number, 0x1000 + number);
        importer.open(10_000_000 + 100 * number, 0x100 + number, 0x7000 + number);
        importer.close(10_000_050 + 100 * number, 0x7000 + number);
    }
    importer.export(30_000_000, 0xffff, 0x99);
    exporter.open(30_000_100, 0xffff, 0x88);
    exporter.ends();
    importer.ends();
    let file = reduce(&scene.dir(), scene.folder(), "one");
    let report = report_of(&[&file]);
    let states =
        |state: &str| report["handles"].as_array().expect("a list").iter().filter(|row| row["state"] == state).count();
    assert_eq!((states("closed"), states("open at exit")), (1000, 1));
    assert_eq!((&report["handles_more"], &report["handles_more_bytes"]), (&100.into(), &(100u64 << 21).into()));
    let text = stdout(cupeer().arg("report").arg(&file).env("COLUMNS", "160"));
    assert!(text.contains("Handles: 1 open at exit, 1,100 closed"), "{text}");
    assert!(text.contains("100 more closed handles, 200MiB in all: only counted in what was reduced"), "{text}");
    let all = scene.folder().join(format!("all{SUFFIX}"));
    stdout(cupeer().arg("reduce").arg(scene.dir()).arg("--all").arg("-o").arg(&all));
    let report = stdout(cupeer().arg("report").arg(&all).args(["--all", "--format", "json"]));
    assert!(report.contains("\"handles_more\": 0"), "{report}");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]

    #[test]
    fn any_file_gives_a_report_or_a_sentence(
        changes in proptest::collection::vec((proptest::prelude::any::<proptest::sample::Index>(), 0usize..VALUES.len()), 1..6)
    ) {
        let mut file = example().clone();
        let mut places = Vec::new();
        leaves(&file["part"], &mut String::from("/part"), &mut places);
        for (place, value) in changes {
            if let Some(there) = file.pointer_mut(place.get::<String>(&places)) {
                *there = serde_json::from_str(VALUES[value]).expect("it is JSON");
            }
        }
        let folder = temp_dir();
        let path = folder.path().join(format!("x{SUFFIX}"));
        fs::write(&path, packed(file.to_string().as_bytes())).expect("it can be written");
        for options in [&["--all"][..], &["--leaks"], &["--format", "json"], &["--format", "junit"], &["--format", "sarif"]] {
            let done = support::done(cupeer().arg("report").arg(&path).args(options));
            let is_said = done.stderr.lines().count() == 1 && done.stderr.starts_with("cupeer: ");
            proptest::prop_assert!(done.status.success() || is_said, "{:?}", done.stderr);
        }
    }
}

/// Values that somebody may have put into a file.
const VALUES: [&str; 9] =
    ["null", "0", "18446744073709551615", "-1", "\"\\u001b[2J\"", "[]", "{}", "\"0x12\"", "1e300"];

/// The text of a reduced file with something of each kind.
fn example() -> &'static Value {
    static EXAMPLE: std::sync::OnceLock<Value> = std::sync::OnceLock::new();
    EXAMPLE.get_or_init(|| {
        let folder = temp_dir();
        let record = folder.path().join("r");
        share_on("none:2", &record, &[]);
        let file = reduce(&record, folder.path(), "one");
        let bytes = fs::read(file).expect("it is there");
        serde_json::from_reader(flate2::read::GzDecoder::new(&bytes[..])).expect("it is JSON")
    })
}

/// The places of all values that are not lists or objects, and of all lists.
fn leaves(value: &Value, path: &mut String, all: &mut Vec<String>) {
    let length = path.len();
    let inner = |name: &str, value: &Value, path: &mut String, all: &mut Vec<String>| {
        path.push('/');
        path.push_str(&name.replace('~', "~0").replace('/', "~1"));
        leaves(value, path, all);
        path.truncate(length);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| inner(name, value, path, all)),
        Value::Array(items) => {
            all.push(path.clone());
            items.iter().enumerate().for_each(|(i, value)| inner(&i.to_string(), value, path, all));
        }
        _ => all.push(path.clone()),
    }
}
