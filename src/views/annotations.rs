//! Writes workflow commands of GitHub Actions, which its runner shows as annotations of the job.
//!
//! Each finding above note that counts, each hang, and each process that ended abnormally, is one line: `::error
//! title=TITLE,file=FILE,line=LINE::MESSAGE`, as "Workflow commands for GitHub Actions" describes it.

use cupeer_report::model::{Place, Report};
use cupeer_report::names::clean;
use cupeer_report::verdict::{Verdict, sentence_with_confidence};
use cupeer_rules::Severity;

/// Largest number of annotations of one severity that GitHub shows per step.
const MOST: usize = 10;

/// Returns the lines: hangs and processes that ended abnormally first, at most ten of each kind. Paths of source files below
/// `root` are relative to it, as those of the repository are.
pub fn format_annotations(report: &Report, root: &str) -> Vec<String> {
    let verdict = Verdict::of(report, true);
    // Leave out processes that exited with an error, because the exit status of the step already reports
    // them.
    let errors = verdict.incidents().filter(|incident| incident.kind.severity == Severity::Error);
    let deaths = errors.map(|incident| {
        let place = incident.stack.first().and_then(|place| format_source(place, root));
        (incident.kind.severity.word(), incident.kind.id.to_owned(), place, incident.message.clone())
    });
    let findings = verdict.findings_above_note().map(|finding| {
        let (who, from) = (verdict.who_and_how_often(finding), clean(&finding.caller.long()));
        let message = match finding.message.is_empty() {
            true => format!("{who}, from {from}"),
            false => format!("{who}, from {from}: {}", clean(&sentence_with_confidence(finding))),
        };
        (finding.severity, finding.rule.to_string(), format_source(&finding.caller, root), message)
    });
    let all: Vec<_> = deaths.chain(findings).collect();
    let of = |severity: Severity| all.iter().filter(move |(kind, ..)| *kind == severity.word()).take(MOST);
    let line = |(kind, id, place, message): &(&str, String, Option<String>, String)| {
        let place = place.as_deref().unwrap_or_default();
        format!(
            "::{kind} title={}{place}::{}",
            escape_property(&format!("cupeer {}", clean(id))),
            escape_message(message)
        )
    };
    of(Severity::Error).chain(of(Severity::Warning)).map(line).collect()
}

/// Formats the source line of a place as properties.
fn format_source(place: &Place, root: &str) -> Option<String> {
    let line = place.source().filter(|line| line.line > 0)?;
    let below = line.file.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
    let file = below.filter(|_| !root.is_empty()).unwrap_or(&line.file);
    Some(format!(",file={},line={}", escape_property(file), line.line))
}

/// Formats a message, with the runner's special characters escaped.
fn escape_message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Formats a property, in which more characters are special than in a message.
fn escape_property(text: &str) -> String {
    escape_message(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_symbols::SourceLine;

    #[test]
    fn runner_commands_are_escaped() {
        assert_eq!(escape_message("50%, a::b\r\n"), "50%25, a::b%0D%0A");
        assert_eq!(escape_property("a:b,c%\n"), "a%3Ab%2Cc%25%0A");
    }

    #[test]
    fn lines_of_source_are_named_from_the_repository() {
        let line = |file: &str, line| SourceLine { function: None, file: file.into(), line };
        let place = |line| Place { lines: [line].into(), ..Place::default() };
        let told = |file, number, root| format_source(&place(line(file, number)), root);
        assert_eq!(told("/work/repo/src/a,b.c", 7, "/work/repo").as_deref(), Some(",file=src/a%2Cb.c,line=7"));
        assert_eq!(told("/work/repository/a.c", 7, "/work/repo").as_deref(), Some(",file=/work/repository/a.c,line=7"));
        assert_eq!(told("/a.c", 7, "").as_deref(), Some(",file=/a.c,line=7"));
        assert_eq!(told("/a.c", 0, ""), None);
        assert_eq!(format_source(&Place::default(), ""), None);
    }
}
