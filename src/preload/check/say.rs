//! A finding as a paragraph for people, and as JSON with all of its keys.

use super::emit::is_explanation;
use super::world::{Call, device_of};
use crate::job::importers::process_of;
use crate::settings::{self, key};
use crate::sys::caller::Caller;
use crate::sys::environment;
use crate::sys::line::{Line, Short};
use crate::sys::python;
use core::fmt::{self, Write};
use cupeer_rules::reason::{Bytes, Handle};
use cupeer_rules::{Basis, RuleSpec, Severity, meaning};
use cupeer_spec::record::live::{Entry, library_name};
use cupeer_spec::record::slot::finding::{Confidence, role};
use cupeer_spec::value::{Format, quoted, quoted_inside};

/// All that is said of a finding.
pub struct FindingText<'a> {
    pub call: &'a Call<'a>,
    pub rule: &'static RuleSpec,
    /// How bad it is in this library.
    pub severity: Severity,
    pub confidence: Confidence,
    /// The argument that it is about; empty for none.
    pub argument: &'static str,
    pub message: &'a str,
    pub hint: &'static str,
    /// What it is about, each with its role.
    pub objects: &'a [(u32, Entry)],
    pub caller: &'a Caller,
    /// The line of Python in which the call was made, where there is one.
    pub python: Option<&'a SourceLine>,
    /// Whether further findings of this rule and caller are only counted.
    pub is_last: bool,
}

/// A line of Python.
pub struct SourceLine {
    /// In UTF-8, where a character has up to four bytes.
    file: Short<2048>,
    function: Short<512>,
    line: u32,
}

impl SourceLine {
    /// The innermost one of this thread.
    pub fn innermost() -> Option<SourceLine> {
        let mut innermost = None;
        if settings::get().python {
            python::each_frame(
                1,
                |_| false,
                |frame| {
                    innermost = frame.texts.as_ref().map(|texts| SourceLine {
                        file: Short::new(format_args!("{}", texts.file)),
                        function: Short::new(format_args!("{}", texts.function)),
                        line: frame.line,
                    });
                    false
                },
            );
        }
        innermost
    }

    /// `train.py:118 in exchange`, and a comma behind.
    fn say(&self, out: &mut Line) -> fmt::Result {
        let file = self.file.text();
        quoted_inside(file.rsplit('/').next().unwrap_or(file).as_bytes(), 64, out)?;
        if self.line > 0 {
            write!(out, ":{}", self.line)?;
        }
        out.write_str(" in ")?;
        quoted_inside(self.function.text().as_bytes(), 64, out)?;
        out.write_str(", ")
    }
}

fn role_word(role: u32) -> &'static str {
    role::WORDS.get((role as usize).wrapping_sub(1)).copied().unwrap_or("object")
}

fn result(call: &Call, out: &mut Line) -> fmt::Result {
    match call.id.spec().result_name(call.result) {
        Some(name) => out.write_str(name),
        None => write!(out, "{}", call.result),
    }
}

/// How long a line about a finding may be; who and where come on top.
const MOST_BRIEF: usize = 120;

/// What it is, up to the end of the first clause of the sentence. Gives back the others.
fn first_line<'a>(
    said: &FindingText<'a>,
    out: &mut Line,
) -> Result<core::str::Split<'a, &'static str>, fmt::Error> {
    let is_probable = said.confidence == Confidence::Inferred && !is_explanation(said.rule.id);
    let mut clauses = said.message.split("; ");
    write!(out, "cupeer: {} {}: ", said.severity.word(), said.rule.name)?;
    write!(out, "{}{}", if is_probable { "probably, " } else { "" }, clauses.next().unwrap_or_default())?;
    Ok(clauses)
}

/// One line: what it is, who, and where.
pub fn brief(said: &FindingText, out: &mut Line) -> fmt::Result {
    first_line(said, out)?;
    out.cut(MOST_BRIEF);
    match environment::rank() {
        // SAFETY: getpid has no preconditions.
        u32::MAX => write!(out, " [process {}, ", unsafe { libc::getpid() })?,
        rank => write!(out, " [rank {rank}, ")?,
    }
    said.python.map_or(Ok(()), |line| line.say(out))?;
    let file = said.caller.library.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    quoted_inside(file, 64, out)?;
    writeln!(out, "+{:#x}]", said.caller.offset)
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
    write!(out, "\n    call: {}(", call.id.spec().name)?;
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
    said.python.map_or(Ok(()), |line| line.say(out))?;
    quoted_inside(said.caller.library, 512, out)?;
    write!(out, "+{:#x}", said.caller.offset)?;
    for (role, entry) in said.objects {
        write!(out, "\n    {}: ", role_word(*role))?;
        describe(call, entry, out)?;
    }
    if said.confidence == Confidence::Stale {
        out.write_str("\n    known from what a process that has ended left behind")?;
    }
    if !call.driver_messages.is_empty() {
        out.write_str("\n    the driver says: ")?;
        quoted(call.driver_messages.as_bytes(), 256, out)?;
        if let Some(meaning) = meaning(call.driver_messages) {
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
    write!(out, "{{\"rule\":\"{}\",\"severity\":\"{}\",", said.rule.name, said.severity.word())?;
    // SAFETY: neither has preconditions.
    let (pid, tid) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid)) };
    write!(out, "\"confidence\":\"{}\",\"pid\":{pid},\"tid\":{tid},\"rank\":", said.confidence.word())?;
    match environment::rank() {
        u32::MAX => out.write_str("null,")?,
        rank => write!(out, "{rank},")?,
    }
    write!(out, "\"function\":\"{}\",", call.id.spec().name)?;
    match said.argument {
        "" => out.write_str("\"argument\":null,")?,
        name => write!(out, "\"argument\":\"{name}\",")?,
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
    match said.python {
        Some(SourceLine { file, function, line }) => {
            out.write_str("{\"file\":")?;
            quoted(file.text().as_bytes(), 512, out)?;
            write!(out, ",\"line\":{line},\"function\":")?;
            quoted(function.text().as_bytes(), 128, out)?;
            out.write_str("}")?;
        }
        None => out.write_str("null")?,
    }
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
        write!(out, "+{:#x}\"}}", entry.offset)?;
    }
    out.write_str("]}")
}
