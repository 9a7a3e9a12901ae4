//! Writes a finding as a paragraph for people, and as JSON with all of its keys.

use super::world::{Call, device_of};
use crate::job::importers::process_of;
use crate::job::python_line::SourceLine;
use crate::settings::key;
use crate::sys::caller::Caller;
use crate::sys::environment;
use crate::sys::line::Line;
use core::fmt::{self, Write};
use cupeer_rules::reason::{Bytes, Handle};
use cupeer_rules::{Basis, RuleSpec, Severity, Tells, label, meaning};
use cupeer_spec::record::live::{Entry, library_name};
use cupeer_spec::record::slot::finding::{Confidence, STALE, role};
use cupeer_spec::value::{Format, quoted, quoted_inside};

/// All that is said of a finding.
pub struct FindingText<'a> {
    pub call: &'a Call<'a>,
    pub rule: &'static RuleSpec,
    /// How bad it is in this library.
    pub severity: Severity,
    pub confidence: Confidence,
    /// The argument that it is about, by its index.
    pub argument: Option<usize>,
    pub message: &'a str,
    pub hint: &'a str,
    /// What it is about, each with its role.
    pub objects: &'a [(u32, Entry)],
    pub caller: &'a Caller,
    /// The line of Python in which the call was made, where there is one.
    pub python: Option<&'a SourceLine>,
    /// Whether further findings of this rule and caller are only counted.
    pub is_last: bool,
}

/// `train.py:118 in exchange`.
fn say_python(line: &SourceLine, out: &mut Line) -> fmt::Result {
    say_line(line.file.text().as_bytes(), line.line, line.function.text().as_bytes(), out)
}

fn say_line(path: &[u8], line: u32, function: &[u8], out: &mut Line) -> fmt::Result {
    quoted_inside(path.rsplit(|byte| *byte == b'/').next().unwrap_or(path), 64, out)?;
    if line > 0 {
        write!(out, ":{line}")?;
    }
    if !function.is_empty() {
        out.write_str(" in ")?;
        quoted_inside(function, 64, out)?;
    }
    Ok(())
}

/// A line of source as JSON, or null.
fn json_line(line: Option<(&[u8], u32, &[u8])>, out: &mut Line) -> fmt::Result {
    let Some((file, line, function)) = line else { return out.write_str("null") };
    out.write_str("{\"file\":")?;
    quoted(file, 512, out)?;
    write!(out, ",\"line\":{line},\"function\":")?;
    quoted(function, 128, out)?;
    out.write_str("}")
}

fn role_word(role: u32) -> &'static str {
    role::word(role).unwrap_or("object")
}

fn result(call: &Call, out: &mut Line) -> fmt::Result {
    match call.id.spec().result_name(call.result) {
        Some(name) => out.write_str(name),
        None => write!(out, "{}", call.result),
    }
}

/// How long a line about a finding may be after `cupeer: `; who and where come on top.
const MOST_BRIEF: usize = 120;

/// What it is, up to the end of the first clause of the sentence. Gives back the others.
fn first_line<'a>(
    said: &FindingText<'a>,
    out: &mut Line,
) -> Result<core::str::Split<'a, &'static str>, fmt::Error> {
    let is_probable = said.confidence == Confidence::Inferred && !said.rule.is_explanation();
    let mut clauses = said.message.split("; ");
    write!(out, "cupeer: {} {}: ", said.severity.word(), said.rule.name())?;
    write!(out, "{}{}", if is_probable { "probably, " } else { "" }, clauses.next().unwrap_or_default())?;
    Ok(clauses)
}

/// One line: what it is, who, and where.
pub fn brief(said: &FindingText, out: &mut Line) -> fmt::Result {
    first_line(said, out)?;
    out.cut("cupeer: ".len() + MOST_BRIEF);
    match environment::rank() {
        // SAFETY: getpid has no preconditions.
        u32::MAX => write!(out, " [process {}, ", unsafe { libc::getpid() })?,
        rank => write!(out, " [rank {rank}, ")?,
    }
    match said.python {
        Some(line) => say_python(line, out)?,
        None => said.place(said.caller.file_name(), 64, out)?,
    }
    out.write_str("]\n")
}

impl FindingText<'_> {
    /// `libx.so+0x12`.
    fn place(&self, library: &[u8], most: usize, out: &mut Line) -> fmt::Result {
        quoted_inside(library, most, out)?;
        write!(out, "+{:#x}", self.caller.offset)
    }
}

/// One paragraph: what it is and what to do come first.
pub fn paragraph(said: &FindingText, out: &mut Line) -> fmt::Result {
    // SAFETY: neither has preconditions.
    let (pid, tid) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid)) };
    let call = said.call;
    for clause in first_line(said, out)? {
        write!(out, "\n    {clause}")?;
    }
    write!(out, "\n    hint: {}", said.hint)?;
    write!(out, "\n    call: {}(", call.id.spec().name())?;
    (call.print)(out, Format { json: false, fingerprint: key::fingerprint })?;
    out.write_str(") = ")?;
    result(call, out)?;
    if !call.is_documented() {
        out.write_str(", which its documentation does not list")?;
    }
    let rank = environment::rank();
    write!(out, "\n    by: process {pid}")?;
    if rank != u32::MAX {
        write!(out, " (rank {rank})")?;
    }
    write!(out, ", thread {tid}, ")?;
    if let Some(line) = said.python {
        say_python(line, out)?;
        out.write_str(", ")?;
    }
    said.place(said.caller.library, 512, out)?;
    for (role, entry) in said.objects {
        write!(out, "\n    {}: ", label(Some(said.rule.id), role_word(*role)))?;
        describe(call, entry, out)?;
    }
    if said.confidence == Confidence::Stale && !said.rule.tells(Tells::ExporterEnded) {
        write!(out, "\n    {STALE}")?;
    }
    if !call.driver_messages.is_empty() {
        out.write_str("\n    the driver says: ")?;
        quoted(call.driver_messages.as_bytes(), 256, out)?;
        if let Some(meaning) = meaning(call.id.spec().name(), call.driver_messages) {
            write!(out, " ({meaning})")?;
        }
    }
    match said.rule.basis_at(Some(call.id)) {
        Basis::Documented(function, sentence) => {
            write!(out, "\n    documentation of {function}: \"{sentence}\"")?;
        }
        Basis::Observed(sentence) => write!(out, "\n    observed with driver 580: {sentence}")?,
        Basis::Practice(sentence) => write!(out, "\n    in practice: {sentence}")?,
    }
    if said.is_last {
        write!(out, "\n    (further findings of this rule at this place are only counted)")?;
    }
    out.write_str("\n")
}

/// Who made something, where, and when.
fn describe(call: &Call, entry: &Entry, out: &mut Line) -> fmt::Result {
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
    if let Some((file, line)) = entry.python() {
        out.write_str(", from ")?;
        say_line(library_name(&file), line, &[], out)?;
    }
    let library = library_name(&entry.library);
    if !library.is_empty() {
        out.write_str(", by ")?;
        quoted_inside(library, 64, out)?;
        write!(out, "+{:#x}", entry.offset)?;
    }
    Ok(())
}

pub fn json(said: &FindingText, out: &mut Line) -> fmt::Result {
    let call = said.call;
    write!(out, "{{\"rule\":\"{}\",\"severity\":\"{}\",", said.rule.name(), said.severity.word())?;
    // SAFETY: neither has preconditions.
    let (pid, tid) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid)) };
    write!(out, "\"confidence\":\"{}\",\"pid\":{pid},\"tid\":{tid},\"rank\":", said.confidence.word())?;
    match environment::rank() {
        u32::MAX => out.write_str("null,")?,
        rank => write!(out, "{rank},")?,
    }
    write!(out, "\"function\":\"{}\",", call.id.spec().name())?;
    match said.argument {
        None => out.write_str("\"argument\":null,")?,
        Some(index) => write!(out, "\"argument\":\"{}\",", call.id.spec().args()[index].name())?,
    }
    out.write_str("\"args\":{")?;
    (call.print)(out, Format { json: true, fingerprint: key::fingerprint })?;
    out.write_str("},\"result\":\"")?;
    result(call, out)?;
    out.write_str("\",\"message\":")?;
    quoted(said.message.as_bytes(), 1024, out)?;
    out.write_str(",\"hint\":")?;
    quoted(said.hint.as_bytes(), 512, out)?;
    out.write_str(",\"sentence\":")?;
    let basis = said.rule.basis_at(Some(call.id));
    quoted(basis.sentence().as_bytes(), 512, out)?;
    write!(out, ",\"source\":\"{}\",\"driver_message\":", basis.source())?;
    match call.driver_messages {
        "" => out.write_str("null")?,
        words => quoted(words.as_bytes(), 256, out)?,
    }
    out.write_str(",\"caller\":\"")?;
    quoted_inside(said.caller.library, 512, out)?;
    write!(out, "+{:#x}\",\"python\":", said.caller.offset)?;
    let python = said.python.map(|python| (python.file.text(), python.line, python.function.text()));
    json_line(python.map(|(file, line, function)| (file.as_bytes(), line, function.as_bytes())), out)?;
    out.write_str(",\"objects\":[")?;
    for (i, (role, entry)) in said.objects.iter().enumerate() {
        let comma = if i > 0 { "," } else { "" };
        let (role, pid, tid) = (role_word(*role), entry.pid, entry.tid);
        write!(out, "{comma}{{\"role\":\"{role}\",\"pid\":{pid},\"tid\":{tid},")?;
        match process_of(entry).rank {
            Some(rank) => write!(out, "\"rank\":{rank},")?,
            None => out.write_str("\"rank\":null,")?,
        }
        write!(out, "\"device\":\"{}\",\"address\":\"{:#x}\",", device_of(entry), entry.address)?;
        write!(out, "\"bytes\":{},\"fingerprint\":\"{}\",", entry.bytes, Handle(entry.fingerprint))?;
        out.write_str("\"caller\":\"")?;
        quoted_inside(library_name(&entry.library), 64, out)?;
        write!(out, "+{:#x}\",\"python\":", entry.offset)?;
        let python = entry.python();
        json_line(python.as_ref().map(|(file, line)| (library_name(file), *line, &[][..])), out)?;
        out.write_str("}")?;
    }
    out.write_str("]}")
}
