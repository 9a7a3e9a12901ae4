//! Memory pools: who made, imported and destroyed them, and who may use them; from runs on the simulated driver.

use super::json::assert_valid;
use crate::support::{self, compile_c, cupeer, done, temp_dir};
use serde_json::{Value, json};
use std::path::Path;

/// Runs a pair of functions of `sharing` in two processes, and gives the report.
fn shared(export: &str, open: &str, record: &Path) -> Value {
    let program = compile_c("programs/sharing.c", &["-ldl"]);
    let mut command = cupeer();
    command.args(["run", "--sim=nvlink:2", "-o"]).arg(record).arg("--").arg(program).args([export, open]);
    assert!(done(&mut command).status.success());
    let report: Value =
        serde_json::from_str(&support::stdout(cupeer().arg("report").arg(record).args(["--format", "json"]))).unwrap();
    assert_valid(&report);
    report
}

#[test]
fn a_pool_has_its_owner_its_importers_and_their_pointers() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let report = shared("cuMemPoolExportPointer", "cuMemPoolImportPointer", &record);
    let pools = report["pools"].as_array().unwrap();
    let [made, imported] = &pools[..] else { panic!("{pools:#?}") };
    assert_eq!((&made["origin"], &imported["origin"]), (&json!("made"), &json!("imported")));
    assert_eq!(made["handle_types"], json!(["CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR"]));
    assert_eq!((&made["owner"], &imported["owner"]), (&made["proc"], &made["proc"]));
    assert_eq!(made["importers"], json!([imported["proc"]]));
    assert_eq!(made["exports"], json!([imported["imported_as"]]));
    // The importer has another device.
    assert_eq!((&made["location"], &made["device"]), (&json!("device"), &imported["device"]));
    assert_eq!(made["device"], report["devices"][0]["uuid"]);
    assert_eq!((&imported["pointers"], &imported["pointers_imported"]), (&json!(0), &json!(2)));
    // The owner leaves its own, and the importer what it has destroyed.
    assert_eq!((&made["left"], &imported["left"]), (&json!(true), &json!(false)));
    assert!(made["destroyed_ns"].is_null() && imported["destroyed_ns"].is_u64());

    let text = support::stdout(cupeer().arg("report").arg(&record).env("COLUMNS", "160"));
    let section = text.split("\nMemory pools\n").nth(1).expect("the section");
    let rows: Vec<&str> = section.lines().take_while(|line| !line.is_empty()).collect();
    assert_eq!(rows.len(), 3, "{section}");
    assert!(rows[1].contains("made") && rows[1].contains("POSIX_FILE_DESCRIPTOR"), "{section}");
    assert!(rows[1].ends_with("left") && rows[2].ends_with("destroyed"), "{section}");
}

#[test]
fn filters_take_pools_out() {
    let folder = temp_dir();
    let record = folder.path().join("record");
    let report = shared("cuMemPoolExportToShareableHandle", "cuMemPoolImportFromShareableHandle", &record);
    let proc = report["pools"][0]["proc"].as_str().unwrap();
    let rows = |options: &[&str]| {
        let mut command = cupeer();
        command.arg("report").arg(&record).args(["--format", "json"]).args(options);
        let report: Value = serde_json::from_str(&support::stdout(&mut command)).unwrap();
        let count = |section: &str| report[section].as_array().unwrap().len();
        (count("pools"), count("handles"))
    };
    assert_eq!(rows(&[]), (2, 1));
    assert_eq!(rows(&["--process", proc]), (1, 1));
    assert_eq!(rows(&["--function", "@pool"]), (2, 1));
    assert_eq!(rows(&["--function", "@vmm"]), (0, 0));
    assert_eq!(rows(&["--failed"]), (0, 0));
}
