//! Processes that share by the rules and are killed at random moments: the others go on, and nothing is said that is
//! not so.

use super::scenes::{program, report};
use crate::support::{cupeer, done, temp_dir};

/// Number of killed processes per job: each leaves a file.
const IN_A_JOB: u32 = 200;

/// Number of jobs. Optimized code and KILLS=1000 kill all thousand processes.
fn jobs() -> u32 {
    let asked = std::env::var("KILLS").ok().map(|kills| kills.parse::<u32>().expect("KILLS is a number"));
    asked.unwrap_or(if cfg!(debug_assertions) { IN_A_JOB } else { 1000 }).div_ceil(IN_A_JOB)
}

#[test]
fn processes_that_are_killed_lead_to_no_false_finding() {
    let program = program("kills");
    let mut opened_too_late = 0;
    for seed in 1..=jobs() {
        let folder = temp_dir();
        let record = folder.path().join("record");
        let mut command = cupeer();
        command.args(["run", "--check=notes", "--sim=nvlink:2", "--out"]).arg(&record).arg("--").arg(&program);
        let done = done(command.arg(IN_A_JOB.to_string()).arg(seed.to_string()));
        let said = format!("seed {seed}: {}\n{}", done.status, done.stderr);
        assert!(done.status.success() && done.stdout == format!("killed {IN_A_JOB}\n"), "{said}");
        let report = report(&record);
        let processes = report["processes"].as_array().unwrap();
        // A process that is killed before it has a driver leaves nothing. On a slow machine, these are more.
        assert!(processes.len() > IN_A_JOB as usize / 2, "{} processes", processes.len());
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
    // Some die between two steps of the others, which is found; or nothing was checked at all.
    assert!(opened_too_late > 0);
}
