//! What rules found, a line per kind, over all ranks.

use super::super::findings::is_explanation;
use super::super::model::{Finding, Report};
use super::super::text::findings::{is_noted, is_told, times};
use super::super::text::names::{clean, counted, in_words};
use super::MOST_LINES;
use cupeer_rules::Severity;
use cupeer_spec::env;
use std::collections::{BTreeMap, BTreeSet};

/// What rules have found, a line a kind, and how many kinds there are.
pub fn lines(report: &Report) -> (Vec<String>, usize) {
    let mut kinds: Vec<Vec<&Finding>> = Vec::new();
    for finding in report.findings.iter().filter(|finding| is_told(finding)) {
        let is_alike = |kind: &&mut Vec<&Finding>| {
            (&kind[0].rule, &kind[0].function) == (&finding.rule, &finding.function)
        };
        match kinds.iter_mut().find(is_alike) {
            Some(kind) => kind.push(finding),
            None => kinds.push(vec![finding]),
        }
    }
    let line = |kind: &Vec<&Finding>| {
        let first = kind[0];
        let count = kind.iter().map(|finding| finding.count).sum();
        let message = if is_explanation(&first.rule) { begin(&first.message) } else { &first.message };
        let sure = match first.confidence {
            "inferred" if !is_explanation(&first.rule) => "probably, ",
            "stale" => "(known from a process that has ended) ",
            _ => "",
        };
        format!(
            "  {} {}: {}, {} in {}: {sure}{}",
            first.severity,
            clean(&first.rule),
            clean(&first.function),
            times(count),
            who(report, kind),
            clean(message)
        )
    };
    (kinds.iter().take(MOST_LINES).map(line).collect(), kinds.len())
}

/// The ranks of findings; their processes, where not all have one.
fn who(report: &Report, kind: &[&Finding]) -> String {
    let ranks: BTreeSet<u32> = kind.iter().flat_map(|finding| &finding.ranks).copied().collect();
    let procs: BTreeSet<&str> = kind.iter().flat_map(|finding| &finding.procs).map(|proc| &**proc).collect();
    let pids: BTreeMap<&str, u32> =
        report.processes.iter().map(|process| (&*process.proc, process.pid)).collect();
    let more: u64 = kind.iter().map(|finding| finding.procs_more).sum();
    match procs.first() {
        _ if ranks.len() >= procs.len() => in_words(ranks.into_iter()),
        Some(proc) if procs.len() == 1 => format!("process {}", pids.get(proc).copied().unwrap_or(0)),
        _ => counted(procs.len() as u64 + more, "process"),
    }
}

/// What failed: what was ruled out, and what remains, is the report's.
fn begin(explanation: &str) -> &str {
    explanation.split("; ").next().unwrap_or(explanation)
}

/// How many notes there are, where the run was asked to check, and did not show them.
pub fn notes(report: &Report) -> Option<String> {
    let levels = report.processes.iter().filter_map(|process| process.variables.get(env::CHECK));
    let levels: BTreeSet<&str> = levels.map(String::as_str).filter(|level| !level.is_empty()).collect();
    let notes = report.findings.iter().filter(|finding| is_noted(finding)).map(|finding| finding.count).sum();
    let are_hidden = levels.iter().any(|level| env::level(level) != Some(Severity::Note));
    let text = || format!("  {}; --check=notes or the report shows them", counted(notes, "note"));
    (are_hidden && notes > 0).then(text)
}

#[cfg(test)]
mod tests {
    use cupeer_record::writer::{self, About, Writer};
    use cupeer_record::{Finding, Outcome};
    use cupeer_rules::Severity;
    use cupeer_spec::function::FnId::{self, *};
    use cupeer_spec::record::slot::finding::Confidence;

    /// What ranks do: the rank, the function, the rule that it breaks, how bad that is, and the message.
    type Act<'a> = (Option<u32>, FnId, &'a str, Severity, &'a str);

    /// The lines about findings after a run of these, in which checks report findings this severe.
    fn lines(level: &str, acts: &[Act]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        writer::job(folder.path()).unwrap();
        for (i, (rank, function, rule, severity, message)) in (0..).zip(acts) {
            let about = About { pid: 1000 + i, ..About::default() };
            let mut writer = Writer::create(folder.path(), about).unwrap();
            writer.variable("CUPEER_CHECK", level).unwrap();
            if let Some(rank) = rank {
                writer.variable("RANK", &rank.to_string()).unwrap();
            }
            let stream = writer.stream(1000).unwrap();
            let mut call = writer::call(*function, 10, 20);
            call.outcome = Outcome::Returned(1);
            call.caller = 0x1000 + u64::from(i);
            call.details.findings = vec![Finding {
                confidence: Confidence::Certain,
                severity: *severity,
                argument: None,
                rule: (*rule).into(),
                message: (*message).into(),
                hint: String::new(),
                objects: Vec::new(),
            }];
            writer.call(stream, &call).unwrap();
            writer.call(stream, &call).unwrap();
            writer.finish().unwrap();
        }
        let is_about = |line: &String| !line.contains("calls, ") && !line.contains(" calls: ");
        super::super::lines(folder.path()).into_iter().filter(is_about).collect()
    }

    #[test]
    fn a_kind_is_one_line_over_all_ranks_and_places() {
        let acts: Vec<Act> = (0..8)
            .map(|rank| {
                (Some(rank), cuIpcOpenMemHandle_v2, "ipc-flags", Severity::Error, "Flags is 0; so it is")
            })
            .chain([
                (None, cuIpcCloseMemHandle, "ipc-closed-twice", Severity::Warning, "closed\x1b[2J twice"),
                (Some(8), cuIpcCloseMemHandle, "call-failed", Severity::Note, "it failed; ruled out: all"),
                (Some(9), cuIpcGetMemHandle, "ipc-offset-not-added", Severity::Note, "perhaps"),
            ])
            .collect();
        let expected = [
            "  error ipc-flags: cuIpcOpenMemHandle_v2, 16 times in ranks 0 to 7: Flags is 0; so it is",
            "  warning ipc-closed-twice: cuIpcCloseMemHandle, 2 times in process 1008: closed\u{fffd}[2J twice",
            "  note call-failed: cuIpcCloseMemHandle, 2 times in rank 8: it failed",
            "  2 notes; --check=notes or the report shows them",
        ];
        assert_eq!(lines("warnings", &acts), expected);
        assert_eq!(lines("notes", &acts), expected[..3], "they were shown");
        assert_eq!(lines("", &acts), expected[..3], "nobody asked for them");
    }

    #[test]
    fn there_are_four_lines_at_most() {
        let more = ["null-argument", "ipc-equal-pids"];
        let rules = ["ipc-flags", "ipc-closed-twice", "peer-flags", "ipc-reexport", more[0], more[1]];
        let acts = rules.map(|rule| (None, cuIpcOpenMemHandle_v2, rule, Severity::Error, "broken"));
        let lines = lines("errors", &acts);
        assert_eq!(lines.iter().filter(|line| line.starts_with("  error ")).count(), 4);
        assert!(lines.contains(&"  and 2 more kinds of finding".to_owned()), "{lines:?}");
    }
}
