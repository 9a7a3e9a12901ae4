//! `cupeer export`: the tables, who reads them, and that the recipes of `docs/fleet` say what `cupeer report` says.

#[path = "export/engines.rs"]
mod engines;
#[path = "export/places.rs"]
mod places;
#[path = "export/tables.rs"]
mod tables;

use crate::report::scene::{Scene, us};
use crate::support;
use cupeer_export::page;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Exports a record, and says what was printed.
#[track_caller]
fn export(record: &Path, out: &Path, options: &[&str]) -> support::Done {
    let ended = support::done(&mut command(record, out, options));
    assert!(ended.status.success(), "{}", ended.stderr);
    ended
}

fn command(record: &Path, out: &Path, options: &[&str]) -> Command {
    let mut command = support::cupeer();
    command.arg("export").arg(record).args(["--to", "parquet", "-o"]).arg(out).args(options);
    command
}

/// Returns the JSON of `cupeer report`.
#[track_caller]
fn report(record: &Path, options: &[&str]) -> Value {
    let mut command = support::cupeer();
    command.arg("report").arg(record).args(["--format", "json"]).args(options);
    serde_json::from_str(&support::stdout(&mut command)).expect("it is JSON")
}

/// A record in which four ranks on two hosts share memory, one rank does something else, something fails, and something
/// grows between two marks.
fn scene() -> Scene {
    let scene = Scene::new();
    for rank in 0..4u32 {
        let mut actor = scene.rank(rank);
        if rank == 3 {
            // As long as a name of a directory must not be, and with what engines give a meaning.
            actor = actor.on("b=eta/../x'\"\u{e9}\n%2F");
        }
        let (own, other) = (0x100 + u64::from(rank), 0x100 + u64::from((rank + 1) % 4));
        actor.export(100 + u64::from(rank), own, 0x7000).export_event(150, own + 0x100, 0xe0);
        let stream = actor.stream;
        actor.open(200, other, 0x9000).close(210, 0x9000).open(220, other, 0x9000);
        actor.writer().mark(stream, us(300), b"warm").expect("room");
        actor.open(310 + u64::from(rank), other + 0x100, 0xa000);
        actor.open_event(330, other + 0x100, 0xe1);
        if rank == 2 {
            actor.fail_to_open(340, (0x999, 0x998), 400).fail_to_open(350, (0x999, 0x998), 400);
            actor.close(360, 0x9000);
        }
        if rank == 1 {
            actor.fail_to_open(345, (0x997, 0x996), 201);
        }
        actor.writer().mark(stream, us(400), "done".as_bytes()).expect("room");
        actor.open(410, other, 0xb000);
        actor.ask(420, 1).enable(430, 0);
        actor.ends();
    }
    scene
}

/// A directory of exports, with the record's as `job`.
fn exports(record: &Path, folder: &Path) -> PathBuf {
    let all = folder.join("exports");
    std::fs::create_dir_all(&all).expect("a directory");
    export(record, &all.join("job"), &["--job", "job"]);
    all
}

#[test]
fn page_of_the_tables_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (path, list) = (root.join("docs/reference/tables.md"), root.join("src/export/columns.txt"));
    let made = page::markdown();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        let new = page::list_columns();
        let there = std::fs::read_to_string(&list).unwrap_or_default();
        let lost = there.lines().find(|line| !new.lines().any(|other| other == *line));
        assert_eq!(lost, None, "a column that was there is gone");
        std::fs::write(&path, &made).expect("the page is writable");
        std::fs::write(&list, new).expect("the list is writable");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == made, "docs/reference/tables.md is stale: run scripts/docs");
}

#[test]
fn the_tables_of_each_engine_are_all() {
    let fleet = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/fleet");
    for engine in ["duckdb", "clickhouse", "spark"] {
        let text = std::fs::read_to_string(fleet.join(format!("{engine}.sql"))).expect("a file");
        for table in page::table_names() {
            assert!(text.contains(&format!("'exports/*/{table}/*/*.parquet'")), "{engine}: {table}");
        }
    }
}
