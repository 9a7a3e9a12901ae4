//! The report as SARIF 2.1.0, for code scanners and reviews.
//!
//! It has one run: the rules of `src/rules` and the kinds of incidents under names of their own, and one result per finding
//! and incident, in the order of the text. Rules that were not checked are notifications. The fingerprint of a result stays the same
//! between runs: it contains no process, address, or time.

use crate::form::{Cleaning, FormInput, FormProperties, ReportForm};
use anyhow::Result;
use cupeer_report::model::{Finding, Object, Place, Process, Report, SuppressedBy};
use cupeer_report::names::{as_sentence, clean};
use cupeer_report::terminal::write_json;
use cupeer_report::verdict::{Incident, KINDS, Verdict, looked, sentence_with_confidence};
use cupeer_rules::{RULES, Rule, RuleSpec};
use cupeer_symbols::SourceLine;
use serde_json::{Map, Value, json};
use std::io::{self, Write};

/// Key of the fingerprint that identifies a result, with its version.
const FINGERPRINT: &str = "cupeer/v1";
/// URL of the page with the rules.
const RULES_PAGES: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/reference/rules");

/// Form `sarif` of the report.
pub struct SarifForm;

impl ReportForm for SarifForm {
    fn properties(&self) -> FormProperties {
        FormProperties { cleaning: Cleaning::Own, ..FormProperties::new("sarif", "SARIF 2.1.0, for code scanning") }
    }

    fn render(&self, given: &mut FormInput, out: &mut dyn Write) -> Result<io::Result<()>> {
        Ok(write_json(out, &log(given.report()?)))
    }
}

/// Returns the SARIF log.
///
/// # Examples
///
/// ```no_run
/// fn write(report: &cupeer_report::model::Report) -> std::io::Result<()> {
///     std::fs::write("cupeer.sarif", cupeer_views::sarif::log(report).to_string())
/// }
/// ```
pub fn log(report: &Report) -> Value {
    let verdict = Verdict::of(report, true);
    let first = verdict.hangs.iter().chain(&verdict.deaths);
    let first = first.flat_map(|problem| &problem.incidents).map(incident_result);
    let findings = report.findings.iter().map(|finding| finding_result(&verdict, finding));
    let others = verdict.other_problems.iter().flat_map(|problem| &problem.incidents).map(incident_result);
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "cupeer",
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rule_objects(),
            } },
            "invocations": [invocation_object(report)],
            "results": first.chain(findings).chain(others).collect::<Vec<_>>(),
            "columnKind": "unicodeCodePoints",
            "properties": { "record": report.record.path, "filters": report.record.filters },
        }],
    })
}

/// Returns the rules of the log: the rules of cupeer, and the kinds of incidents.
fn rule_objects() -> Vec<Value> {
    let kinds = KINDS.iter().map(|kind| {
        json!({
            "id": kind.id,
            "shortDescription": { "text": kind.says },
            "fullDescription": { "text": kind.says },
            "help": { "text": kind.hint },
            "defaultConfiguration": { "level": kind.severity.word() },
        })
    });
    RULES.iter().map(rule_object).chain(kinds).collect()
}

fn rule_object(rule: &RuleSpec) -> Value {
    let mut help = vec![rule.hint().to_owned()];
    help.extend(rule.reason_unchecked().map(|why| format!("It is not checked: {why}.")));
    help.push(format!("Source: {}: \"{}\"", rule.basis().source(), rule.basis().sentence()));
    if !rule.page().seen.is_empty() {
        help.push(format!("Seen in: {}.", rule.page().seen));
    }
    help.retain(|text| !text.is_empty());
    json!({
        "id": rule.name(),
        "shortDescription": { "text": rule.page().says },
        "fullDescription": { "text": format!("{} {}", rule.page().says, rule.page().costs) },
        "help": { "text": help.join("\n") },
        "helpUri": format!("{RULES_PAGES}/{}.md#{}", rule.family().name, rule.name()),
        "defaultConfiguration": { "enabled": rule.is_checked(), "level": rule.severity.word() },
    })
}

/// Returns the index in [`rule_objects`] of a rule or of a kind of incident; `None` for a rule that this version of
/// cupeer does not know.
fn rule_index(id: &str) -> Option<usize> {
    let mut names = RULES.iter().map(|rule| rule.name()).chain(KINDS.iter().map(|kind| kind.id));
    names.position(|name| name == id)
}

/// Describes the run: notifications for what cupeer did not, or could not, check.
fn invocation_object(report: &Report) -> Value {
    let reservations = looked::reasons_for_doubt(report).into_iter();
    let lacks = reservations.map(|text| json!({ "level": "warning", "message": { "text": text } }));
    let left_out = looked::excluded_rules(report)
        .into_iter()
        .map(|(why, rules)| json!({ "level": "note", "message": { "text": format!("{}: {why}", rules.join(", ")) } }));
    json!({
        "executionSuccessful": true,
        "toolExecutionNotifications": lacks.collect::<Vec<_>>(),
        "toolConfigurationNotifications": left_out.collect::<Vec<_>>(),
    })
}

fn finding_result(verdict: &Verdict, finding: &Finding) -> Value {
    let mut text = verdict.who_and_how_often(finding);
    if !finding.message.is_empty() {
        text += &format!(": {}", clean(&sentence_with_confidence(finding)));
    }
    let about = [&finding.rule, &finding.function];
    let mut result = new_result(
        &finding.rule,
        finding.severity,
        &text,
        finding.count,
        fingerprint(&about.map(|text| &**text), Some(&finding.caller)),
    );
    // The caller is not always the first frame, because the CUDA runtime makes calls for other libraries.
    add_location(&mut result, Some(&finding.caller), &finding.stack);
    let related = (1..)
        .zip(&finding.objects)
        .map(|(id, object)| related_location(verdict, id, (Rule::of(&finding.rule), object)));
    result.insert("relatedLocations".into(), related.collect());
    let processes = finding.procs.iter().map(|proc| verdict.names.process(proc));
    // Leave the property out if the report has no suppressions: an empty list would state that somebody
    // decided about the result.
    if !verdict.report.suppressions.is_empty() {
        let by = finding.suppressed_by.iter().map(suppression_object).collect::<Vec<_>>();
        result.insert("suppressions".into(), by.into());
    }
    result.insert(
        "properties".into(),
        json!({
            "confidence": finding.confidence,
            "function": finding.function,
            "result": finding.result,
            "processes": processes.collect::<Vec<_>>(),
            "hint": finding.hint,
        }),
    );
    result.into()
}

fn incident_result(incident: &Incident) -> Value {
    let Incident { kind, message, process, function, result: ended, stack, count } = incident;
    let who = process.map(Process::name_in_every_run).unwrap_or_default();
    let about = [kind.id, &who, function.unwrap_or_default(), ended.unwrap_or_default()];
    let mut result = new_result(kind.id, kind.severity.word(), message, *count, fingerprint(&about, stack.first()));
    add_location(&mut result, stack.first(), stack);
    result.insert("properties".into(), json!({ "function": function, "result": ended }));
    result.into()
}

fn new_result(id: &str, severity: &str, text: &str, count: u64, fingerprint: String) -> Map<String, Value> {
    let mut result = Map::new();
    result.insert("ruleId".into(), id.into());
    if let Some(index) = rule_index(id) {
        result.insert("ruleIndex".into(), index.into());
    }
    result.insert("level".into(), severity.into());
    result.insert("message".into(), json!({ "text": as_sentence(text) }));
    // The count must be at least 1, and readers support at most 31 bits.
    result.insert("occurrenceCount".into(), count.clamp(1, i32::MAX as u64).into());
    result.insert("partialFingerprints".into(), json!({ FINGERPRINT: fingerprint }));
    result
}

/// Adds the location of a result: its caller, and its stack.
fn add_location(result: &mut Map<String, Value>, caller: Option<&Place>, stack: &[Place]) {
    let locations: Vec<Value> = caller.and_then(location_object).into_iter().collect();
    result.insert("locations".into(), locations.into());
    if stack.len() > 1 {
        let frame = |place: &Place| {
            let location = location_object(place).unwrap_or_else(|| json!({}));
            json!({ "location": location, "module": place.file_name().unwrap_or_default() })
        };
        let frames: Vec<Value> = stack.iter().map(frame).collect();
        result.insert("stacks".into(), json!([{ "frames": frames }]));
    }
}

/// Returns a location: the source line or, if unknown, the library as a file; with the function or the
/// offset.
fn location_object(place: &Place) -> Option<Value> {
    let line = place.source();
    let file = line.map(|line| &*line.file).or(place.library.as_deref())?;
    let mut physical = json!({ "artifactLocation": { "uri": format_uri(file) } });
    if let Some(line) = line.filter(|line| line.line > 0) {
        physical["region"] = json!({ "startLine": line.line });
    }
    Some(json!({ "physicalLocation": physical, "logicalLocations": [logical_location(place)] }))
}

fn logical_location(place: &Place) -> Value {
    if let Some(line) = &place.python {
        let name = line.function.as_deref().unwrap_or_default();
        return json!({ "name": name, "fullyQualifiedName": name, "kind": "function" });
    }
    let module = place.file_name().unwrap_or_default();
    if let [SourceLine { function: Some(inlined), .. }, _, ..] = &*place.lines {
        return json!({ "name": inlined, "fullyQualifiedName": format!("{module}!{inlined}"), "kind": "function" });
    }
    match &place.function {
        Some(function) => json!({
            "name": place.symbol(),
            "fullyQualifiedName": format!("{module}!{function}"),
            "kind": "function",
        }),
        None => json!({ "name": place.short(), "fullyQualifiedName": place.short(), "kind": "module" }),
    }
}

/// Returns a suppression: the entry of a suppression file that matches a finding.
fn suppression_object(by: &SuppressedBy) -> Value {
    let place = json!({ "artifactLocation": { "uri": format_uri(&by.file) }, "region": { "startLine": by.line } });
    let mut entry = json!({ "kind": "external", "status": "accepted", "location": { "physicalLocation": place } });
    if let Some(reason) = by.reason.as_deref().filter(|reason| !reason.is_empty()) {
        entry["justification"] = reason.into();
    }
    entry
}

/// Returns the related location of an object of a finding: the place of its creation.
fn related_location(verdict: &Verdict, id: u64, (rule, object): (Option<Rule>, &Object)) -> Value {
    let mut related = json!({ "id": id, "message": { "text": verdict.describe_object(rule, object) } });
    if let Some(Value::Object(place)) = object.call_place().or(object.stack.first()).and_then(location_object) {
        place.into_iter().for_each(|(key, value)| related[key] = value);
    }
    related
}

/// Returns a hash by which a result is recognized in other runs: of the kind and the place of the result,
/// without addresses.
fn fingerprint(about: &[&str], caller: Option<&Place>) -> String {
    let place = caller.and_then(|place| {
        let file = place.file_name()?;
        Some(match place.symbol() {
            Some(symbol) => format!("{file}!{symbol}"),
            None => place.short(),
        })
    });
    let parts = about.iter().copied().filter(|part| !part.is_empty());
    parts.chain(place.as_deref()).collect::<Vec<_>>().join("|")
}

/// Formats a path as a URI. Special characters are percent-encoded.
fn format_uri(path: &str) -> String {
    let scheme = if path.starts_with('/') { "file://" } else { "" };
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(byte);
    let byte = |byte: u8| if is_plain(&byte) { char::from(byte).into() } else { format!("%{byte:02X}") };
    scheme.to_owned() + &path.bytes().map(byte).collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cupeer_rules::Severity;

    #[test]
    fn paths_are_references() {
        assert_eq!(format_uri("/opt/a b/libx.so.1"), "file:///opt/a%20b/libx.so.1");
        assert_eq!(format_uri("a:b%c"), "a%3Ab%25c");
        assert_eq!(format_uri("/ä\n"), "file:///%C3%A4%0A");
    }

    #[test]
    fn a_fingerprint_has_no_address() {
        let place = |library: Option<&str>, function: Option<&str>| Place {
            library: library.map(Into::into),
            offset: 0x7f00_1234,
            function: function.map(Into::into),
            ..Place::default()
        };
        let of = |place: &Place| fingerprint(&["rule", "f", ""], Some(place));
        assert_eq!(of(&place(Some("/a/libx.so"), Some("g(int)+0x12"))), "rule|f|libx.so!g(int)");
        assert_eq!(of(&place(Some("/a/libx.so"), None)), "rule|f|libx.so+0x7f001234");
        assert_eq!(of(&place(None, None)), "rule|f", "code without a library lies elsewhere in each run");
        assert_eq!(fingerprint(&["rule"], None), "rule");
    }

    #[test]
    fn severities_are_levels() {
        let levels = [Severity::Error, Severity::Warning, Severity::Note].map(Severity::word);
        assert_eq!(levels, ["error", "warning", "note"]);
    }

    #[test]
    fn every_rule_and_kind_has_its_place() {
        let rules = rule_objects();
        for (i, rule) in rules.iter().enumerate() {
            assert_eq!(rule_index(rule["id"].as_str().unwrap()), Some(i));
        }
        assert_eq!(rules.len(), RULES.len() + KINDS.len());
        assert_eq!(rule_index("ipc-of-tomorrow"), None);
    }
}
