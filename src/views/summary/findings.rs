//! The findings of a run: one line per kind, over all ranks.

use super::{MOST_LINES, SummaryLine};
use cupeer_report::model::{Finding, Object, Place, Process, Report};
use cupeer_report::names::{clean, counted};
use cupeer_report::style::Emphasis;
use cupeer_report::verdict::{FindingGroup, Verdict, clue, times};
use cupeer_rules::{Found, Rule, Severity, object_label};

/// Largest number of other sites that are listed per finding.
const MOST_SITES: usize = 3;
const MOST_CLUES: usize = 3;

/// Returns the lines about the first kinds of findings, and the number of all kinds, without notes about costs.
/// Adds hints, which the lines that the run printed itself lack.
pub fn finding_lines(verdict: &Verdict) -> (Vec<SummaryLine>, usize) {
    let (report, mut groups) = (verdict.report, verdict.main_finding_groups());
    let kinds = groups.len();
    groups.extend(verdict.cost_note_groups());
    let mut levels = report.processes.iter().filter_map(Process::check_level);
    let is_hint_due = levels.any(|level| level.is_brief);
    let mut lines = |group: &FindingGroup| {
        let (first, count, who) = (group.first_finding(), times(group.call_count()), group.name_ranks(verdict));
        let (severity, rule, function) = (first.severity, clean(&first.rule), clean(&first.function));
        let mark = Emphasis::of_severity(severity);
        // For other rules, libcupeer.so printed the fix when it found the mistake.
        let is_new = Rule::of(&first.rule).is_some_and(|rule| rule.spec().found == Found::InRecordings);
        let is_hint_due = (is_hint_due || is_new && mark != Emphasis::Note) && !first.hint.is_empty();
        let message = Some(format!("    {}", clean(&group.message_with_confidence())));
        let at = first.caller.line();
        // Show all lines only for the first group; otherwise, the summary would be longer than the report.
        let is_first = groups.first().is_some_and(|group| std::ptr::eq(group.first_finding(), first));
        let code = report.quoted_source_line(&first.caller).filter(|_| is_first);
        // Places at which the object was created, freed, or closed.
        let mut others: Vec<String> = Vec::new();
        for object in &first.objects {
            let line = object.call_place().and_then(Place::line);
            let (word, elsewhere) =
                (object_label(Rule::of(&first.rule), object.role), format_other_process(report, first, object));
            // The place of the call itself is already shown.
            let line = line.filter(|line| !elsewhere.is_empty() || at.as_ref() != Some(line));
            let line = line.map(|line| format!("    {word}{elsewhere} at {}", clean(&line)));
            others.extend(line.filter(|line| others.len() < MOST_SITES && !others.contains(line)));
        }
        let hint = is_hint_due.then(|| format!("    hint: {}", clean(&first.hint)));
        let more = message
            .into_iter()
            .chain(at.map(|line| format!("    at {}", clean(&line))))
            .chain(code.map(|line| format!("    {}", clean(&line))))
            .chain(others)
            .chain(hint)
            .map(|text| SummaryLine { is_about_problem: mark != Emphasis::Note, ..text.into() });
        [SummaryLine::about_problem(
            mark,
            format!("  {severity} {rule}: {function}, {count} in {who}{}", verdict.format_root(first)),
        )]
        .into_iter()
        .chain(more)
        .collect::<Vec<SummaryLine>>()
    };
    (groups.iter().take(MOST_LINES).flat_map(&mut lines).collect(), kinds)
}

/// Returns the first few unusual facts if nothing explains why processes failed.
pub fn clue_lines(report: &Report) -> Vec<SummaryLine> {
    let all = report.clues.iter().take(MOST_CLUES);
    all.map(|one| format!("  {}", clue(one, Place::line)).into()).collect()
}

/// Names the process of an object if it is not the process of the finding: ` in rank 3` or ` in process 17`.
/// Compares more than pids, because processes of two pid namespaces can have the same pid.
fn format_other_process(report: &Report, finding: &Finding, object: &Object) -> String {
    let has_its_pid = |process: &Process| process.proc == finding.proc && process.pid == object.pid;
    match (object.rank, object.pid) {
        _ if object.proc.as_ref() == Some(&finding.proc) => String::new(),
        (Some(rank), _) => format!(" in rank {rank}"),
        (None, 0) => String::new(),
        (None, pid) if report.processes.iter().any(has_its_pid) => format!(" in the other process {pid}"),
        (None, pid) => format!(" in process {pid}"),
    }
}

/// Returns the number of notes, if the run checked rules and did not print them.
pub fn note_count_line(verdict: &Verdict) -> Option<String> {
    let mut levels = verdict.report.processes.iter().filter_map(Process::check_level);
    let notes = verdict.other_findings.iter().map(|finding| finding.count).sum();
    let are_hidden = levels.any(|level| !level.is_brief && level.severity != Severity::Note);
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

    /// Call of a rank in a finding: the rank, the function, the broken rule, its severity, and the message.
    type Act<'a> = (Option<u32>, FnId, &'a str, Severity, &'a str);

    /// The lines about findings after a run of these, in which checks report findings this severe.
    fn lines(level: &str, acts: &[Act]) -> Vec<String> {
        lines_of(level, acts, Confidence::Certain)
    }

    fn lines_of(level: &str, acts: &[Act], confidence: Confidence) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        writer::write_job_file(folder.path()).unwrap();
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
                confidence,
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
        super::super::lines(folder.path(), "DIR").into_iter().map(|line| line.text).filter(is_about).collect()
    }

    #[test]
    fn a_kind_is_one_line_over_all_ranks_and_places() {
        let acts: Vec<Act> = (0..8)
            .map(|rank| (Some(rank), cuIpcOpenMemHandle_v2, "ipc-flags", Severity::Error, "Flags is 0; so it is"))
            .chain([
                (None, cuIpcCloseMemHandle, "ipc-closed-twice", Severity::Warning, "closed\x1b[2J twice"),
                (Some(8), cuIpcCloseMemHandle, "call-failed", Severity::Note, "it failed; most likely that; or this"),
                (Some(9), cuIpcGetMemHandle, "ipc-offset-not-added", Severity::Note, "perhaps"),
            ])
            .collect();
        let expected = [
            "  error ipc-flags: cuIpcOpenMemHandle_v2, 16 times in ranks 0 to 7",
            "    Flags is 0; so it is",
            "  warning ipc-closed-twice: cuIpcCloseMemHandle, 2 times in process 1008",
            "    closed\u{fffd}[2J twice",
            "  note call-failed: cuIpcCloseMemHandle, 2 times in rank 8",
            "    it failed; most likely that",
            "  2 notes; --check=notes or the report shows them",
        ];
        assert_eq!(lines("warnings", &acts), expected);
        assert_eq!(lines("notes", &acts), expected[..6], "they were shown");
        assert_eq!(lines("", &acts), expected[..6], "nobody asked for them");
    }

    #[test]
    fn that_the_exporter_exited_is_said_once() {
        let acts = ["ipc-exporter-gone", "ipc-open-after-free"]
            .map(|rule| (None, cuIpcOpenMemHandle_v2, rule, Severity::Error, "too late"));
        let lines = lines_of("errors", &acts, Confidence::Stale);
        let said: Vec<&str> = lines.iter().filter_map(|line| line.split("too late").nth(1)).collect();
        assert_eq!(said, ["", "; the process that recorded this has exited"]);
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
