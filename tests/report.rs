//! Reports on recordings: on made ones, all of whose calls are known, and on those of real programs.

// Records to report about.
#[path = "report/scene.rs"]
pub mod scene;

// The JSON form: its schema, and what it says of the record as a whole.
#[path = "report/json.rs"]
pub mod json;

// Calls of the driver that were made in one of the runtime's.
#[path = "report/runtime.rs"]
mod runtime;

// The ledger of handles and the peer matrix.
#[path = "report/ledger.rs"]
mod ledger;

// Virtual memory.
#[path = "report/exhausted.rs"]
mod exhausted;
#[path = "report/holders.rs"]
mod holders;
#[path = "report/memory.rs"]
mod memory;
#[path = "report/multicast.rs"]
mod multicast;

#[path = "report/pools.rs"]
mod pools;

// The lines that findings point to.
#[path = "report/places.rs"]
mod places;

// Copies between devices.
#[path = "report/copies.rs"]
mod copies;

// Owners of memory.
#[path = "report/allocators.rs"]
mod allocators;

// Calls between two marks.
#[path = "report/marks.rs"]
mod marks;

// Open handles that pile up.
#[path = "report/leaks.rs"]
mod leaks;

// Each effect of the table, in both.
#[path = "report/effects.rs"]
mod effects;

// Findings of rules.
#[path = "report/findings.rs"]
mod findings;

// Unusual facts about jobs that failed without a finding.
#[path = "report/clues.rs"]
mod clues;

// Records that lack calls.
#[path = "report/lossy.rs"]
mod lossy;

// Effects of fault plans.
#[path = "report/faults.rs"]
mod faults;

// Functions, ranks, failures, and calls that do not return.
#[path = "report/calls.rs"]
mod calls;

// The text form, as it looks in 80 and in 160 columns.
#[path = "report/text.rs"]
mod text;

// First lines of a report.
#[path = "report/digest.rs"]
mod digest;

// Filters, options, and what is refused.
#[path = "report/options.rs"]
mod options;

// The form for ui.perfetto.dev.
#[path = "report/trace.rs"]
mod trace;

// The page for a browser.
#[path = "report/html.rs"]
pub mod html;

// The annotations of GitHub Actions.
#[path = "report/annotations.rs"]
mod annotations;

// Findings that somebody knows of.
#[path = "report/suppress.rs"]
mod suppress;

// The forms for other tools: SARIF, and JUnit's XML with a reader of it.
#[path = "report/junit.rs"]
mod junit;
#[path = "report/sarif.rs"]
mod sarif;
#[path = "report/xml.rs"]
pub mod xml;

// Records of real programs, on the simulated driver.
#[path = "report/real.rs"]
mod real;

use crate::support;
use scene::Scene;
use serde_json::Value;
use std::path::{Path, PathBuf};

/// The report of a scene as JSON.
#[track_caller]
fn json_of(scene: &Scene, options: &[&str]) -> Value {
    let text = of(scene, &[&["--format", "json"], options].concat());
    let report: Value = serde_json::from_str(&text).expect("it is JSON");
    json::assert_valid(&report);
    let is_for_all = options.is_empty() || options[0] == "--suppressions";
    if is_for_all && report["record"]["running"] == false {
        crate::reduce::assert_the_same(&scene.dir(), options, &report);
    }
    report
}

/// An official schema, where scripts/schemas could fetch it.
fn official(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/schemas").join(name);
    if !path.exists() {
        left_out!("target/schemas/{name} is not there; scripts/schemas fetches it");
        return None;
    }
    Some(path)
}

/// Returns the printed text.
#[track_caller]
fn of(scene: &Scene, options: &[&str]) -> String {
    support::stdout(support::cupeer().arg("report").arg(scene.dir()).args(options))
}
