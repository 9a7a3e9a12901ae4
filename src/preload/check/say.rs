//! Writes a finding as a paragraph for people, and as JSON with all of its keys.

use super::world::{CheckedCall, device_of};
use crate::job::importers::process_of;
use crate::job::python_line::SourceLine;
use crate::settings::key;
use crate::sys::caller::Caller;
use crate::sys::environment;
use crate::sys::line::LineBuffer;
use core::fmt::{self, Write};
use cupeer_rules::decide::World;
use cupeer_rules::reason::{Bytes, Handle};
use cupeer_rules::{Basis, RuleSpec, Severity, Tells, message_meaning, object_label};
use cupeer_spec::record::live::{Entry, library_name};
use cupeer_spec::record::slot::finding::{Confidence, STALE, role};
use cupeer_spec::value::{Format, write_quoted, write_quoted_content};

/// Finding with its formatted texts.
pub struct FindingText<'a> {
    pub call: &'a CheckedCall<'a>,
    pub rule: &'static RuleSpec,
    /// Severity in the calling library.
    pub severity: Severity,
    pub confidence: Confidence,
    /// Index of the argument that the finding is about.
    pub argument: Option<usize>,
    pub message: &'a str,
    pub hint: &'a str,
    /// Objects that the finding is about, each with its role.
    pub objects: &'a [(u32, Entry)],
    pub caller: &'a Caller,
    /// Line of Python code that made the call.
    pub python: Option<&'a SourceLine>,
    /// True if all further findings of this rule and caller are only counted.
    pub is_last: bool,
}

/// Writes a line of Python code, such as `train.py:118 in exchange`.
fn say_python(line: &SourceLine, out: &mut LineBuffer) -> fmt::Result {
    say_line(line.file.text().as_bytes(), line.line, line.function.text().as_bytes(), out)
}

fn say_line(path: &[u8], line: u32, function: &[u8], out: &mut LineBuffer) -> fmt::Result {
    write_quoted_content(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path), 64, out)?;
    if line > 0 {
        write!(out, ":{line}")?;
    }
    if !function.is_empty() {
        out.write_str(" in ")?;
        write_quoted_content(function, 64, out)?;
    }
    Ok(())
}

/// Writes a line of source code as a JSON object, or null.
fn json_line(line: Option<(&[u8], u32, &[u8])>, out: &mut LineBuffer) -> fmt::Result {
    let Some((file, line, function)) = line else { return out.write_str("null") };
    out.write_str("{\"file\":")?;
    write_quoted(file, 512, out)?;
    write!(out, ",\"line\":{line},\"function\":")?;
    write_quoted(function, 128, out)?;
    out.write_str("}")
}

fn role_word(role: u32) -> &'static str {
    role::word(role).unwrap_or("object")
}

fn write_result(call: &CheckedCall, out: &mut LineBuffer) -> fmt::Result {
    match call.id.spec().result_name(call.result) {
        Some(name) => out.write_str(name),
        None => write!(out, "{}", call.result),
    }
}

/// Maximum length in bytes of a brief line after `cupeer: `, without the process and the place.
const MOST_BRIEF: usize = 120;

/// Writes the severity, the rule, and the first clause of the message. Returns the other clauses of the message.
fn write_first_line<'a>(
    finding: &FindingText<'a>,
    out: &mut LineBuffer,
) -> Result<core::str::Split<'a, &'static str>, fmt::Error> {
    let is_probable = finding.confidence == Confidence::Inferred && !finding.rule.is_explanation();
    let mut clauses = finding.message.split("; ");
    write!(out, "cupeer: {} {}: ", finding.severity.word(), finding.rule.name())?;
    write!(out, "{}{}", if is_probable { "probably, " } else { "" }, clauses.next().unwrap_or_default())?;
    Ok(clauses)
}

/// Writes a finding as one line: the message, the process, and the place of the call.
pub fn write_brief_finding(finding: &FindingText, out: &mut LineBuffer) -> fmt::Result {
    write_first_line(finding, out)?;
    out.cut("cupeer: ".len() + MOST_BRIEF);
    match environment::rank() {
        u32::MAX => write!(out, " [process {}, ", std::process::id())?,
        rank => write!(out, " [rank {rank}, ")?,
    }
    match finding.python {
        Some(line) => say_python(line, out)?,
        None => finding.write_call_place(finding.caller.file_name(), 64, out)?,
    }
    out.write_str("]\n")
}

impl FindingText<'_> {
    /// Writes the place of the call, such as `libx.so+0x12`.
    fn write_call_place(&self, library: &[u8], most: usize, out: &mut LineBuffer) -> fmt::Result {
        write_quoted_content(library, most, out)?;
        write!(out, "+{:#x}", self.caller.offset)
    }
}

/// Writes a finding as a paragraph. The message and the hint come first.
pub fn write_finding_paragraph(finding: &FindingText, out: &mut LineBuffer) -> fmt::Result {
    let call = finding.call;
    let (pid, tid) = (std::process::id(), call.thread_id());
    for clause in write_first_line(finding, out)? {
        write!(out, "\n    {clause}")?;
    }
    write!(out, "\n    hint: {}", finding.hint)?;
    write!(out, "\n    call: {}(", call.id.spec().name())?;
    (call.print)(out, Format { json: false, fingerprint: key::fingerprint })?;
    out.write_str(") = ")?;
    write_result(call, out)?;
    if !call.is_documented() {
        out.write_str(", which its documentation does not list")?;
    }
    let rank = environment::rank();
    write!(out, "\n    by: process {pid}")?;
    if rank != u32::MAX {
        write!(out, " (rank {rank})")?;
    }
    write!(out, ", thread {tid}, ")?;
    if let Some(line) = finding.python {
        say_python(line, out)?;
        out.write_str(", ")?;
    }
    finding.write_call_place(finding.caller.library, 512, out)?;
    for (role, entry) in finding.objects {
        write!(out, "\n    {}: ", object_label(Some(finding.rule.id), role_word(*role)))?;
        describe_creation(call, entry, out)?;
    }
    if finding.confidence == Confidence::Stale && !finding.rule.states_fact(Tells::ExporterEnded) {
        write!(out, "\n    {STALE}")?;
    }
    if !call.driver_messages.is_empty() {
        out.write_str("\n    the driver says: ")?;
        write_quoted(call.driver_messages.as_bytes(), 256, out)?;
        if let Some(meaning) = message_meaning(call.id.spec().name(), call.driver_messages) {
            write!(out, " ({meaning})")?;
        }
    }
    match finding.rule.basis_at(Some(call.id)) {
        Basis::Documented(function, sentence) => {
            write!(out, "\n    documentation of {function}: \"{sentence}\"")?;
        }
        Basis::Observed(sentence) => write!(out, "\n    observed with driver 580: {sentence}")?,
        Basis::Practice(sentence) => write!(out, "\n    in practice: {sentence}")?,
    }
    if finding.is_last {
        write!(out, "\n    (further findings of this rule at this place are only counted)")?;
    }
    out.write_str("\n")
}

/// Writes the process, place, and time of the creation of an object.
fn describe_creation(call: &CheckedCall, entry: &Entry, out: &mut LineBuffer) -> fmt::Result {
    write!(out, "{}, thread {}, {}, {:#x}", process_of(entry), entry.tid, device_of(entry), entry.address)?;
    if entry.bytes > 0 {
        write!(out, ", {}", Bytes(entry.bytes))?;
    }
    if entry.fingerprint != 0 {
        write!(out, ", {}", Handle(entry.fingerprint))?;
    }
    if let Some(ago) = call.ago(entry.monotonic) {
        write!(out, ", {ago} ago")?;
    }
    if let Some((file, line)) = entry.python_line() {
        out.write_str(", from ")?;
        say_line(library_name(&file), line, &[], out)?;
    }
    let library = library_name(&entry.library);
    if !library.is_empty() {
        out.write_str(", by ")?;
        write_quoted_content(library, 64, out)?;
        write!(out, "+{:#x}", entry.offset)?;
    }
    Ok(())
}

/// Writes a finding as a JSON object with all of its keys.
pub fn write_finding_json(finding: &FindingText, out: &mut LineBuffer) -> fmt::Result {
    let call = finding.call;
    write!(out, "{{\"rule\":\"{}\",", finding.rule.name())?;
    write!(out, "\"severity\":\"{}\",", finding.severity.word())?;
    write!(out, "\"confidence\":\"{}\",", finding.confidence.word())?;
    write!(out, "\"pid\":{},\"tid\":{},", std::process::id(), call.thread_id())?;
    json_rank(Some(environment::rank()).filter(|rank| *rank != u32::MAX), out)?;
    write!(out, "\"function\":\"{}\",", call.id.spec().name())?;
    match finding.argument {
        None => out.write_str("\"argument\":null,")?,
        Some(index) => write!(out, "\"argument\":\"{}\",", call.id.spec().args()[index].name())?,
    }
    out.write_str("\"args\":{")?;
    (call.print)(out, Format { json: true, fingerprint: key::fingerprint })?;
    out.write_str("},\"result\":\"")?;
    write_result(call, out)?;
    out.write_str("\",\"message\":")?;
    write_quoted(finding.message.as_bytes(), 1024, out)?;
    out.write_str(",\"hint\":")?;
    write_quoted(finding.hint.as_bytes(), 512, out)?;
    out.write_str(",\"sentence\":")?;
    let basis = finding.rule.basis_at(Some(call.id));
    write_quoted(basis.sentence().as_bytes(), 512, out)?;
    write!(out, ",\"source\":\"{}\",\"driver_message\":", basis.source())?;
    match call.driver_messages {
        "" => out.write_str("null")?,
        words => write_quoted(words.as_bytes(), 256, out)?,
    }
    let python = finding.python.map(|python| (python.file.text(), python.line, python.function.text()));
    let python = python.map(|(file, line, function)| (file.as_bytes(), line, function.as_bytes()));
    out.write_str(",")?;
    json_place(finding.caller.library, 512, finding.caller.offset as u64, python, out)?;
    out.write_str(",\"objects\":[")?;
    for (i, (role, entry)) in finding.objects.iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        let (role, pid, tid) = (role_word(*role), entry.pid, entry.tid);
        write!(out, "{comma}{{\"role\":\"{role}\",\"pid\":{pid},\"tid\":{tid},")?;
        json_rank(process_of(entry).rank, out)?;
        write!(out, "\"device\":\"{}\",\"address\":\"{:#x}\",", device_of(entry), entry.address)?;
        write!(out, "\"bytes\":{},\"fingerprint\":\"{}\",", entry.bytes, Handle(entry.fingerprint))?;
        let python = entry.python_line();
        let python = python.as_ref().map(|(file, line)| (library_name(file), *line, &[][..]));
        json_place(library_name(&entry.library), 64, entry.offset, python, out)?;
        out.write_str("}")?;
    }
    out.write_str("]}")
}

fn json_rank(rank: Option<u32>, out: &mut LineBuffer) -> fmt::Result {
    match rank {
        Some(rank) => write!(out, "\"rank\":{rank},"),
        None => out.write_str("\"rank\":null,"),
    }
}

/// Writes the caller and its line of Python code as members of a JSON object.
fn json_place(
    library: &[u8],
    most: usize,
    offset: u64,
    python: Option<(&[u8], u32, &[u8])>,
    out: &mut LineBuffer,
) -> fmt::Result {
    out.write_str("\"caller\":\"")?;
    write_quoted_content(library, most, out)?;
    write!(out, "+{offset:#x}\",\"python\":")?;
    json_line(python, out)
}
