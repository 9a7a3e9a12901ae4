//! Findings: one paragraph each, and one line per note.

use super::super::findings::is_explanation;
use super::super::model::{Finding, Object};
use super::super::moments::{bytes, number};
use super::View;
use super::calls::in_runtime;
use super::names::{clean, counted, in_words};
use crate::style::Mark;
use cupeer_rules::{Basis, Rule, label};
use cupeer_spec::function::FnId;

/// Returns true if the report lists a finding among the problems: its severity is above note, or it explains a failed
/// call.
pub fn is_told(finding: &Finding) -> bool {
    finding.suppressed_by.is_none() && (finding.severity != "note" || is_explanation(&finding.rule))
}

/// Returns true if the report lists a finding among the notes.
pub fn is_noted(finding: &Finding) -> bool {
    finding.suppressed_by.is_none() && !is_told(finding)
}

impl View<'_> {
    /// Returns the findings above note, and the explanations of failed calls.
    pub fn findings(&self) -> String {
        let told: Vec<&Finding> = self.report.findings.iter().filter(|finding| is_told(finding)).collect();
        self.listed(told.iter(), |finding| self.finding(finding))
    }

    pub fn notes(&self) -> String {
        let notes: Vec<&Finding> = self.report.findings.iter().filter(|finding| is_noted(finding)).collect();
        if notes.is_empty() {
            return String::new();
        }
        let most = self.at_most(super::wrong::MOST);
        let note = |(i, finding): (usize, &&Finding)| {
            let (rule, who) = (clean(&finding.rule), self.who_and_how_often(finding));
            let text =
                self.item("- ", &format!("{} {rule}: {who}: {}", finding.severity, clean(&finding.message)));
            let caller = self.item("  ", &format!("at {}", clean(&finding.caller.long())));
            let is_new = notes[..i].iter().all(|before| before.hint != finding.hint);
            text + &caller + &if is_new { self.hint(finding) } else { String::new() }
        };
        let text: String = notes.iter().take(most).enumerate().map(note).collect();
        let more = match notes.len().saturating_sub(most) {
            0 => String::new(),
            more => format!("... {more} more; --all shows them\n"),
        };
        self.title("Notes (informational)") + &text + &more
    }

    /// A finding in a paragraph.
    pub fn finding(&self, finding: &Finding) -> String {
        let Finding { severity, rule, confidence, .. } = finding;
        let sure = if *confidence == "certain" { String::new() } else { format!(" ({confidence})") };
        let head = format!("{severity} {}{sure}: {}", clean(rule), self.who_and_how_often(finding));
        let mut text = self.item("- ", &head);
        text = self.style.mark_in(Mark::of_severity(severity), severity, &text);
        if !finding.message.is_empty() {
            text += &self.item("  ", &sentence(&clean(&finding.message)));
        }
        text += &self.item("  ", &self.call(finding));
        let quote = finding.sentence.zip(finding.source).filter(|_| !is_explanation(rule));
        if let Some((sentence, source)) = quote {
            let basis = Rule::of(rule).map(|rule| rule.spec().basis_at(function(&finding.function)));
            let is_documented = matches!(basis, Some(Basis::Documented(..)));
            let of = if is_documented { "documentation of " } else { "" };
            text += &self.item("  ", &format!("{of}{source}: \"{sentence}\""));
        }
        for object in &finding.objects {
            text += &self.item("  ", &self.object(Rule::of(rule), object));
        }
        if let Some(message) = &finding.driver_message {
            let meaning = cupeer_rules::meaning(message).map(|text| format!(" ({text})")).unwrap_or_default();
            text += &self.item("  ", &format!("the driver says: {}{meaning}", clean(message)));
        }
        text + &self.hint(finding)
    }

    fn hint(&self, finding: &Finding) -> String {
        match &*finding.hint {
            "" => String::new(),
            hint => self.item("  ", &format!("hint: {}", clean(hint))),
        }
    }

    /// `cuIpcOpenMemHandle_v2, 16 times in ranks 0 to 7`.
    pub fn who_and_how_often(&self, finding: &Finding) -> String {
        let function = clean(&finding.function);
        let names = || self.names.processes(finding.procs.iter().map(|proc| &**proc));
        let processes = finding.procs.len() as u64 + finding.procs_more;
        let who = match (finding.ranks.is_empty(), finding.procs_more) {
            (false, _) if finding.ranks.len() as u64 == processes => in_words(finding.ranks.iter().copied()),
            (_, 0) if processes == 1 => self.called_process(&finding.proc),
            (_, 0) => names(),
            _ => format!("{} processes", number(processes)),
        };
        format!("{function}, {} in {who}", times(finding.count))
    }

    /// `rank 3`, or `process 1000`.
    pub fn called_process(&self, proc: &str) -> String {
        let name = self.names.process(proc);
        if name.starts_with("rank ") { name } else { format!("process {name}") }
    }

    /// How it ended, when, and where it was made.
    fn call(&self, finding: &Finding) -> String {
        let result = match finding.result.as_deref() {
            Some(result) => format!("returned {}", clean(result)),
            None => "has not returned".to_owned(),
        };
        let first = if finding.count > 1 { "first " } else { "" };
        let about = finding.argument.map(|name| format!("argument {name}; ")).unwrap_or_default();
        let caller = clean(&finding.caller.long());
        let runtime = in_runtime(finding.runtime.as_ref());
        format!("{about}{result}, {first}at {} from {caller}{runtime}", self.at(finding.time_ns))
    }

    /// An object in a line: what, who, where, how much, when.
    pub fn object(&self, rule: Option<Rule>, object: &Object) -> String {
        let mut parts = vec![match (&object.proc, object.pid, object.rank) {
            (Some(proc), ..) => self.called_process(proc),
            (None, 0, _) => "an unknown process".to_owned(),
            (None, pid, Some(rank)) => format!("process {pid} (rank {rank})"),
            (None, pid, None) => format!("process {pid}"),
        }];
        if object.device.is_some() {
            parts.push(self.names.device(object.device));
        }
        parts.extend(object.address.map(|address| format!("{address:#x}")));
        parts.extend(object.bytes.map(bytes));
        parts.extend(object.allocator.and_then(|allocator| allocator.text()));
        parts.extend(object.fingerprint.map(|handle| handle.to_string()));
        parts.extend(object.time_ns.map(|time| format!("at {}", self.at(time))));
        let caller = match (object.place(), &object.library) {
            (Some(place), _) => Some(place.long()),
            (None, Some(library)) => Some(format!("{library}+{:#x}", object.offset.unwrap_or(0))),
            (None, None) => None,
        };
        parts.extend(caller.map(|caller| format!("from {}", clean(&caller))));
        format!("{}: {}", label(rule, object.role), parts.join(", "))
    }
}

/// `once`, or `16 times`.
pub fn times(count: u64) -> String {
    if count == 1 { "once".to_owned() } else { counted(count, "time") }
}

fn sentence(text: &str) -> String {
    let ends = text.ends_with(['.', '!', '?']);
    if ends { text.to_owned() } else { format!("{text}.") }
}

fn function(name: &str) -> Option<FnId> {
    FnId::all().find(|id| id.spec().name == name)
}
