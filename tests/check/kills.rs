//! Processes that share by the rules and are killed at random moments: the others go on, and nothing is said that is
//! not so.

use super::scenes::{program, report};
use crate::support::{cupeer, done, temp_dir};

/// How many are killed at a time: each leaves a file behind.
const AT_A_TIME: u32 = 200;
/// How often.
const TIMES: u32 = 5;

#[test]
fn a_thousand_that_are_killed_lead_to_no_false_finding() {
    let program = program("kills");
    let mut opened_too_late = 0;
    for seed in 1..=TIMES {
        let folder = temp_dir();
        let record = folder.path().join("record");
        let mut command = cupeer();
        command
            .args(["run", "--check=notes", "--sim=nvlink:2", "--out"])
            .arg(&record)
            .arg("--")
            .arg(&program);
        let done = done(command.arg(AT_A_TIME.to_string()).arg(seed.to_string()));
        let said = format!("seed {seed}: {}\n{}", done.status, done.stderr);
        assert!(done.status.success() && done.stdout == format!("killed {AT_A_TIME}\n"), "{said}");
        let report = report(&record);
        let processes = report["processes"].as_array().unwrap();
        assert!(processes.len() > AT_A_TIME as usize, "{} processes", processes.len());
        for finding in report["findings"].as_array().unwrap() {
            if finding["rule"] == "ipc-exporter-gone" {
                // That is so: it was killed between the export and the opening.
                opened_too_late += finding["count"].as_u64().unwrap();
                continue;
            }
            let is_harmless = finding["severity"] == "note" || finding["confidence"] != "certain";
            assert!(is_harmless, "seed {seed}: {finding:#}");
        }
    }
    // Who is killed between two steps of the others is found out, or nothing was checked at all.
    assert!(opened_too_late > 0);
}
