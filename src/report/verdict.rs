//! Decides how severe each finding counts, and whether it fails a run: once, for all outputs and exit statuses.

use super::model::Report;
use cupeer_rules::{Chosen, Rule, Severity};
use cupeer_spec::env;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Applies a choice of findings that count as errors; without one, that of each run in the recording.
pub fn decide(report: &mut Report, chosen: Option<&Chosen>) {
    let of_run = report.processes.iter().filter_map(|process| {
        let text = process.variables.get(env::ERROR_ON).filter(|text| !text.is_empty())?;
        // What could not be understood was not done.
        Some((process.proc.clone(), Chosen::parse(text).ok()?))
    });
    let of_run: HashMap<_, _> = if chosen.is_none() { of_run.collect() } else { HashMap::new() };
    for finding in &mut report.findings {
        let chosen = chosen.or_else(|| of_run.get(&finding.proc));
        let library = finding.caller.library.as_deref().unwrap_or_default().as_bytes();
        let own = Severity::of(finding.severity).unwrap_or(Severity::Note);
        let severity = chosen.map_or(own, |chosen| chosen.severity(Rule::of(&finding.rule), library, own));
        let least = if chosen.is_some() { Severity::Error } else { Severity::Warning };
        finding.severity = severity.word();
        finding.fails = finding.suppressed_by.is_none() && severity >= least;
    }
    report.findings.sort_by_key(|finding| Reverse(Severity::of(finding.severity)));
}
