//! Contents of the tables, read with Parquet's own reader.

use super::{command, export, report, scene};
use crate::report::scene::{Scene, us};
use crate::support::{self, done, temp_dir};
use cupeer_record::writer::About;
use cupeer_spec::function::FnId;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

type Row = BTreeMap<String, Value>;

/// The files of a table.
pub fn files(out: &Path, table: &str) -> Vec<PathBuf> {
    let entries = |path: PathBuf| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries(out.join(table)).flat_map(entries).collect();
    files.sort();
    files
}

/// The rows of a table, file after file.
pub fn rows(out: &Path, table: &str) -> Vec<Row> {
    let value = |field: &Field| match field {
        Field::Null => Value::Null,
        Field::Bool(flag) => json!(flag),
        Field::Int(number) => json!(number),
        Field::Long(number) => json!(number),
        Field::Str(text) => json!(text),
        other => panic!("{other:?} is in no table"),
    };
    let of = |path: PathBuf| {
        let reader = SerializedFileReader::new(File::open(&path).expect("a file")).expect("a file of Parquet");
        let rows = reader.get_row_iter(None).expect("rows").map(move |row| {
            row.expect("a row").get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
        });
        rows.collect::<Vec<Row>>()
    };
    files(out, table).into_iter().flat_map(of).collect()
}

#[test]
fn the_tables_say_what_the_report_says() {
    let (scene, folder) = (scene(), temp_dir());
    let out = folder.path().join("out");
    let said = export(&scene.dir(), &out, &["--job", "job"]).stdout;
    let report = report(&scene.dir(), &["--all"]);
    let calls = rows(&out, "call");
    assert!(said.contains(&format!("has 4 processes, {} calls, ", calls.len())), "{said}");
    for function in report["functions"].as_array().unwrap() {
        let of = |row: &&Row| row["function"] == function["function"];
        let all: Vec<&Row> = calls.iter().filter(of).collect();
        assert_eq!(json!(all.len()), function["calls"]);
        let sum: i64 = all.iter().filter_map(|row| row["duration_ns"].as_i64()).sum();
        assert_eq!(json!(sum), function["total_ns"]);
    }
    let handles = report["handles"].as_array().unwrap();
    let objects = rows(&out, "object");
    assert_eq!(objects.len(), handles.len());
    for object in &objects {
        let is_it =
            |handle: &&Value| handle["fingerprint"] == object["fingerprint"] && handle["kind"] == object["kind"];
        let handle = handles.iter().find(is_it).expect("the handle of an object");
        for name in ["state", "bytes", "device", "exported_ns", "exports", "freed_ns"] {
            assert_eq!(object[name], handle[name], "{name}");
        }
        assert_eq!(object["proc"], handle["exporter"]);
    }
    let opens: usize = handles.iter().map(|handle| handle["opens"].as_array().unwrap().len()).sum();
    assert_eq!(rows(&out, "opening").len(), opens);
    let findings = rows(&out, "finding");
    assert_eq!(findings.len(), report["findings"].as_array().unwrap().len());
    assert_eq!(rows(&out, "mark").len(), report["marks"].as_array().unwrap().len());
    assert_eq!(rows(&out, "pair").len(), report["peers"].as_array().unwrap().len());
    assert_eq!(rows(&out, "device").len(), 8);
    // A failure with its stack, down to the frames.
    let failure = &report["failures"][0];
    let call = calls.iter().find(|row| row["time_ns"] == failure["time_ns"] && row["proc"] == failure["proc"]);
    let call = call.expect("the call that failed");
    assert_eq!((&call["result"], &call["tid"]), (&failure["result"], &failure["tid"]));
    let stacks = rows(&out, "stack");
    let frames: Vec<&Row> = stacks.iter().filter(|row| row["stack"] == call["stack"]).collect();
    assert_eq!(frames.len(), failure["stack"].as_array().unwrap().len());
    assert_eq!(frames.iter().filter(|row| row["is_caller"] == true).count(), 1);
    let places = rows(&out, "frame");
    for (frame, place) in frames.iter().zip(failure["stack"].as_array().unwrap()) {
        let row = places.iter().find(|row| row["frame"] == frame["frame"]).expect("the frame");
        assert_eq!((&row["library"], &row["build_id"]), (&place["library"], &place["build_id"]));
        assert_eq!(format!("{:#x}", row["library_offset"].as_i64().unwrap()), place["offset"].as_str().unwrap());
    }
}

#[test]
fn groups_are_sorted_and_hosts_apart() {
    let (scene, folder) = (scene(), temp_dir());
    let out = folder.path().join("out");
    export(&scene.dir(), &out, &[]);
    let nodes = support::names(&out.join("call"));
    assert_eq!(nodes, ["node=alpha", "node=b_eta_.._x_____2F"]);
    for file in files(&out, "call") {
        let reader = SerializedFileReader::new(File::open(&file).unwrap()).unwrap();
        let metadata = reader.metadata();
        let pairs = metadata.file_metadata().key_value_metadata().unwrap();
        let of = |key: &str| pairs.iter().find(|pair| pair.key == key).and_then(|pair| pair.value.clone());
        assert_eq!(of("cupeer.schema").as_deref(), Some(cupeer_export::VERSION));
        assert_eq!(of("cupeer.table").as_deref(), Some("call"));
        for group in metadata.row_groups() {
            let by = group.sorting_columns().expect("an order")[0].column_idx as usize;
            assert_eq!(group.column(by).column_path().string(), "time_ns");
        }
        let times: Vec<i64> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| {
                let row = row.unwrap();
                let (_, time) = row.get_column_iter().find(|(name, _)| *name == "time_ns").unwrap();
                if let Field::Long(time) = time { *time } else { panic!("no time") }
            })
            .collect();
        assert!(times.is_sorted() && !times.is_empty());
    }
    let hosts: Vec<Value> = rows(&out, "process").into_iter().map(|row| row["host"].clone()).collect();
    assert_eq!(hosts.iter().filter(|host| **host == "alpha").count(), 3);
    assert!(hosts.contains(&json!("b=eta/../x'\"\u{e9}\n%2F")), "{hosts:?}");
}

#[test]
fn a_call_that_returns_late_or_never_is_there_once() {
    let (scene, folder) = (Scene::new(), temp_dir());
    let mut actor = scene.rank(0);
    let mut late = actor.makes(FnId::cuIpcCloseMemHandle, 100);
    let number = actor.begins(&late);
    for at in 0..40 {
        actor.ask(200 + at, 1);
    }
    late.end = us(900);
    actor.returns(number, &late);
    let never = actor.makes(FnId::cuIpcCloseMemHandle, 950);
    actor.hang(&never);
    actor.ends();
    let out = folder.path().join("out");
    export(&scene.dir(), &out, &[]);
    let calls = rows(&out, "call");
    assert_eq!(calls.len(), 42);
    assert_eq!((&calls[0]["function"], &calls[0]["duration_ns"]), (&json!("cuIpcCloseMemHandle"), &json!(800_000)));
    let last = &calls[41];
    assert_eq!(
        (&last["outcome"], &last["duration_ns"], &last["result"]),
        (&json!("pending"), &Value::Null, &Value::Null)
    );
    assert_eq!(report(&scene.dir(), &[])["processes"][0]["events"], 42);
}

#[test]
fn an_empty_record_has_all_tables_without_rows() {
    let (scene, folder) = (Scene::new(), temp_dir());
    scene.rank(0).ends();
    let out = folder.path().join("out");
    let said = export(&scene.dir(), &out, &[]).stdout;
    assert!(said.contains("has 1 process, 0 calls, 0 openings and 0 findings: "), "{said}");
    for table in cupeer_export::page::table_names() {
        assert_eq!(files(&out, table).len(), 1, "{table}");
        let expected = match table {
            "process" => 1,
            "device" => 2,
            _ => 0,
        };
        assert_eq!(rows(&out, table).len(), expected, "{table}");
    }
    assert_eq!(rows(&out, "process")[0]["looked"], "whole");
}

#[test]
fn a_cut_record_exports_what_the_report_reads_and_says_so() {
    let (scene, folder) = (scene(), temp_dir());
    let cut = fs::read_dir(scene.dir()).unwrap().map(|entry| entry.unwrap().path());
    let cut = cut.filter(|path| path.extension().is_some_and(|end| end == "cupeer")).min().unwrap();
    let size = fs::metadata(&cut).unwrap().len();
    File::options().write(true).open(&cut).unwrap().set_len(size - 40_000).unwrap();
    fs::write(scene.dir().join("nonsense.cupeer"), "nothing").unwrap();
    fs::write(scene.dir().join("notes.txt"), "mine").unwrap();
    let out = folder.path().join("out");
    let said = export(&scene.dir(), &out, &[]).stderr;
    let report = report(&scene.dir(), &[]);
    let problems = report["record"]["problems"].as_array().unwrap();
    assert!(problems.len() >= 2, "{problems:?}");
    for problem in problems {
        assert!(said.contains(&format!("cupeer: {}\n", problem.as_str().unwrap())), "{said}");
    }
    let about: Value = serde_json::from_slice(&fs::read(out.join("_cupeer.json")).unwrap()).unwrap();
    assert_eq!(about["problems"].as_array().unwrap().len(), problems.len());
    let processes = rows(&out, "process");
    let marks = rows(&out, "mark").len() as u64;
    let events: u64 = report["processes"].as_array().unwrap().iter().map(|row| row["events"].as_u64().unwrap()).sum();
    assert_eq!(rows(&out, "call").len() as u64 + marks, events);
    let looked: Vec<&Value> = processes.iter().map(|row| &row["looked"]).collect();
    assert_eq!(looked.iter().filter(|word| **word == "cut").count(), 1, "{looked:?}");
}

#[test]
fn a_record_that_is_being_written_is_exported_so_far() {
    let (scene, folder) = (Scene::new(), temp_dir());
    let running = Scene::new().running(0).about;
    let about = About { at_once: true, ..running };
    let mut actor = scene.process(about).on("alpha");
    actor.ask(100, 1).ask(200, 1);
    let out = folder.path().join("out");
    export(&scene.dir(), &out, &[]);
    assert_eq!(rows(&out, "call").len(), 2);
    assert_eq!(rows(&out, "process")[0]["looked"], "running");
}

#[test]
fn a_packed_record_exports_the_same() {
    let (scene, folder) = (scene(), temp_dir());
    let packed = folder.path().join("scene.cupeer.tar.gz");
    support::stdout(support::cupeer().arg("pack").arg(scene.dir()).arg("-o").arg(&packed));
    let [plain, from_pack] = ["plain", "packed"].map(|name| folder.path().join(name));
    export(&scene.dir(), &plain, &["--job", "same"]);
    export(&packed, &from_pack, &["--job", "same"]);
    for table in cupeer_export::page::table_names() {
        assert_eq!(rows(&plain, table), rows(&from_pack, table), "{table}");
    }
    let named = folder.path().join("named");
    export(&packed, &named, &[]);
    assert_eq!(rows(&named, "call")[0]["job"], "scene");
}

#[test]
fn redacted_words_are_in_no_table() {
    let (scene, folder) = (scene(), temp_dir());
    let secret = scene.folder().file_name().unwrap().to_str().unwrap().to_owned();
    let mut actor = scene.process(About { pid: 77, ..About::default() }).on("wonderland.example");
    actor.writer().argument("--token=cheshire").unwrap();
    actor.writer().variable("NCCL_SOCKET_IFNAME", "rabbit0").unwrap();
    actor.writer().variable("UCX_API_TOKEN", "jabberwock").unwrap();
    actor.ask(100, 1);
    actor.ends();
    let all = |out: &Path| {
        let tables = cupeer_export::page::table_names().into_iter().flat_map(|table| rows(out, table));
        let rows: String = tables.map(|row| serde_json::to_string(&row).unwrap()).collect();
        rows + &fs::read_to_string(out.join("_cupeer.json")).unwrap() + &support::names(&out.join("call")).concat()
    };
    let (plain, redacted) = (folder.path().join("plain"), folder.path().join("redacted"));
    export(&scene.dir(), &plain, &[]);
    export(&scene.dir(), &redacted, &["--redact", "all"]);
    let (plain, redacted) = (all(&plain), all(&redacted));
    for word in ["wonderland", "cheshire", "rabbit0", "/opt/app/bin", "alpha", "cupeer-run-1"] {
        assert!(plain.contains(word), "{word} is what is tested");
        assert!(!redacted.contains(word), "{word}");
    }
    assert!(!plain.contains("jabberwock") && !redacted.contains(&secret));
    assert!(redacted.contains("\"host-1\""), "{redacted}");
}

#[test]
fn a_thousand_hosts_need_few_open_files() {
    let (scene, folder) = (Scene::new(), temp_dir());
    for number in 0..1000u32 {
        let about = About { pid: 1000 + number, boot_id: u128::from(number).to_le_bytes(), ..About::default() };
        let mut actor = scene.process(about).on(&format!("node-{number}"));
        actor.ask(100, 1);
        actor.ends();
    }
    let out = folder.path().join("out");
    let mut limited = support::plain("sh");
    let export = command(&scene.dir(), &out, &[]);
    limited.args(["-c", "ulimit -n 64; exec \"$@\"", "sh"]).arg(export.get_program()).args(export.get_args());
    let ended = done(&mut limited);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert_eq!(rows(&out, "call").len(), 1000);
    assert_eq!(files(&out, "call").len(), 1000);
    assert_eq!(files(&out, "finding").len(), 1, "of a table without rows there is one file");
}
