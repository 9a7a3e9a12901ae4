//! The workflow commands of GitHub Actions: a line that its runner shows as an annotation of the job.
//!
//! `::error title=TITLE::MESSAGE`, as "Workflow commands for GitHub Actions" describes it, for each finding above note that
//! counts, and each death.

use super::incidents::{self, DIED};
use super::model::Report;
use super::text::View;
use super::text::findings::is_told;
use super::text::names::clean;
use cupeer_rules::Severity;

/// The most of one kind that GitHub shows of a step.
const MOST: usize = 10;
/// Columns of a text that is not wrapped.
const WIDTH: usize = 1 << 16;

/// The lines: deaths first, at most ten of each kind.
pub fn lines(report: &Report) -> Vec<String> {
    let view = View::new(report, WIDTH, true);
    let deaths = incidents::all(&view).into_iter().filter(|incident| incident.kind.id == DIED.id);
    let deaths = deaths.map(|incident| (incident.kind.severity.word(), DIED.id.to_owned(), incident.message));
    let is_meant = |finding: &&_| is_told(finding) && finding.severity != Severity::Note.word();
    let findings = report.findings.iter().filter(is_meant).map(|finding| {
        let (who, from) = (view.who_and_how_often(finding), clean(&finding.caller.long()));
        let message = match finding.message.is_empty() {
            true => format!("{who}, from {from}"),
            false => format!("{who}, from {from}: {}", clean(&finding.message)),
        };
        (finding.severity, finding.rule.to_string(), message)
    });
    let all: Vec<_> = deaths.chain(findings).collect();
    let of = |severity: Severity| all.iter().filter(move |(kind, ..)| *kind == severity.word()).take(MOST);
    let line = |(kind, id, message): &(&str, String, String)| {
        format!("::{kind} title={}::{}", property(&format!("cupeer {}", clean(id))), data(message))
    };
    of(Severity::Error).chain(of(Severity::Warning)).map(line).collect()
}

/// A message, with what the runner takes for more than text written as it wants it.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property, in which more is taken for more than text.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_runner_would_obey_is_escaped() {
        assert_eq!(data("50%, a::b\r\n"), "50%25, a::b%0D%0A");
        assert_eq!(property("a:b,c%\n"), "a%3Ab%2Cc%25%0A");
    }
}
