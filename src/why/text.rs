//! The text of `cupeer why`: the answer in the first line, then a block per process.

use super::document::{Document, Frame, Process, State, Thread};
use super::syscall::libc_name;
use super::times::format_duration;
use super::{does, helpers};
use cupeer_launch::libraries::PRELOAD;
use cupeer_report::names::counted;
use cupeer_report::style::{Emphasis, Style};
use cupeer_report::symbols::shorten_name;
use cupeer_report::terminal::clean;
use std::fmt::Write;

/// Number of frames of a thread after which the rest is only counted, without --all.
const MOST: usize = 24;
/// Maximum width of a function's name, in columns.
const WIDTH: usize = 44;

/// Returns the text of a document. `all` is true if the stacks of all threads are shown.
pub fn format_document(document: &Document, names: impl Fn(u32) -> String, all: bool, style: Style) -> String {
    let mut text = style.emphasize(Emphasis::Heading, &clean(&document.answer)) + "\n";
    if let Some(without) = document.without_progress_ns {
        let _ = writeln!(text, "No process of the job made progress for {}.", format_duration(without));
    }
    // Processes that only start or serve others are unimportant for the hang.
    let is_shown = |process: &&Process| all || !(helpers::is_servant(process) || helpers::is_wrapper(process));
    let mut count = 0;
    for process in document.processes.iter().filter(is_shown) {
        count += 1;
        text.push('\n');
        write_process(&mut text, process, &names, all, style);
    }
    if let rest @ 1.. = document.processes.len() - count {
        let more = counted(rest as u64, "process").replacen(' ', if count > 0 { " more " } else { " " }, 1);
        let _ = writeln!(
            text,
            "\n{more} only {} others (--all)",
            if rest == 1 { "starts or serves" } else { "start or serve" }
        );
    }
    for unseen in &document.unseen {
        let _ = writeln!(text, "\n{}", style.emphasize(Emphasis::Note, &clean(unseen)));
    }
    text
}

fn write_process(text: &mut String, process: &Process, names: &impl Fn(u32) -> String, all: bool, style: Style) {
    let program = process.program.rsplit('/').next().unwrap_or_default();
    let arguments = process.arguments.iter().skip(1).map(String::as_str).collect::<Vec<_>>().join(" ");
    let command: String = format!("{program} {arguments}").trim_end().chars().take(60).collect();
    let name = names(process.pid);
    let pid =
        if name.contains(&process.pid.to_string()) { String::new() } else { format!("process {}, ", process.pid) };
    let heading = format!("{name} ({pid}{})", clean(&command));
    let _ = writeln!(text, "{}", style.emphasize(Emphasis::Heading, &heading));
    let mut line = |what: &str| writeln!(text, "  {}", clean(what)).unwrap_or_default();
    line(&process.doing);
    process.hint.iter().for_each(|hint| line(&format!("to permit it: {hint}")));
    if let Some(thread) = process.threads.first() {
        for on in &thread.on {
            let peers: Vec<String> = on.peers.iter().map(|pid| names(*pid)).collect();
            let whose = match (peers.is_empty(), &on.unknown) {
                (false, _) => format!("; the other end: {}", peers.join(", ")),
                (_, Some(unknown)) => format!("; {unknown}"),
                _ => String::new(),
            };
            let name = if on.name.is_empty() { String::new() } else { format!(" ({})", on.name) };
            line(&format!("fd {}: {}{name}{whose}", on.fd, on.kind));
        }
    }
    process.owes.iter().for_each(|owed| line(owed));
    for (index, thread) in process.threads.iter().enumerate() {
        if all || index == 0 || is_printed_separately(thread) {
            self::write_thread(text, thread, all);
        }
    }
    if !all {
        write_idle_threads(text, process);
    }
    let more = |count, one, many| {
        let threads = counted(count, "thread").replacen(' ', " more ", 1);
        format!("  {threads} {}", if count == 1 { one } else { many })
    };
    if let running @ 1.. = process.running_more {
        let _ = writeln!(text, "{}; no time was left to read their stacks (--within)", more(running, "runs", "run"));
    }
    if let rest @ 1.. = process.threads_more - process.running_more {
        let _ = writeln!(text, "{}", more(rest, "was not read", "were not read"));
    }
}

/// Returns true if a thread is printed separately: it is in a call, runs, or is in Python.
fn is_printed_separately(thread: &Thread) -> bool {
    let is_python = thread.frames.iter().any(|frame| frame.language == "Python");
    thread.call.is_some() || thread.state == State::Runs || is_python
}

fn write_thread(text: &mut String, thread: &Thread, all: bool) {
    let does = match (thread.state, &thread.call, &thread.syscall) {
        (_, Some(call), _) => format!("is in {}", call.function),
        (State::Runs, ..) => "runs".into(),
        (State::Stopped, ..) => "is stopped".into(),
        (State::Ended, ..) => "ended".into(),
        (_, _, Some(call)) => format!("waits in {}", libc_name(call)),
        _ => "waits".into(),
    };
    let like = if thread.count > 1 { format!(" and {} like it", thread.count - 1) } else { String::new() };
    let since = thread.since_ns.map(|since| format!(" since {}", format_duration(since))).unwrap_or_default();
    let _ = writeln!(text, "  thread {} ({}){like} {}{since}", thread.tid, clean(&thread.name), clean(&does));
    let most = if all { usize::MAX } else { MOST };
    // A frame in a system library is uninformative if it has no name.
    let is_empty = |frame: &Frame| frame.function.is_none() && !frame.is_own() && !frame.is_in_other_library();
    let is_ours = |frame: &Frame| frame.library.as_deref().is_some_and(|path| path.ends_with(PRELOAD));
    let is_shown = |frame: &&Frame| all || !is_ours(frame) && !is_empty(frame);
    let frames: Vec<&Frame> = thread.frames.iter().filter(is_shown).collect();
    for frame in frames.iter().take(most) {
        let _ = writeln!(text, "    {}", clean(&self::format_frame(frame)));
    }
    if frames.len() > most {
        let rest = counted((frames.len() - most) as u64, "frame").replacen(' ', " more ", 1);
        let _ = writeln!(text, "    and {rest}");
    }
    if !thread.complete && thread.state == State::Waits && !is_printed_separately(thread) {
        let _ = writeln!(text, "    (the rest is not known: a thread that waits is not stopped)");
    }
}

/// Adds the threads that are not printed separately, grouped by what they wait in.
fn write_idle_threads(text: &mut String, process: &Process) {
    let rest = process.threads.iter().skip(1).filter(|thread| !is_printed_separately(thread));
    let mut counts: Vec<(String, u64)> = Vec::new();
    for thread in rest {
        let call = thread.syscall.as_deref().map_or("no system call", libc_name);
        let what = format!("{call}{}", does::place_clause(thread));
        match counts.iter_mut().find(|(known, _)| *known == what) {
            Some((_, count)) => *count += thread.count,
            None => counts.push((what, thread.count)),
        }
    }
    counts.sort_by(|a, b| (b.1, &a.0).cmp(&(a.1, &b.0)));
    for (what, count) in counts {
        let waits = if count == 1 { "waits" } else { "wait" };
        let threads = counted(count, "thread").replacen(' ', " more ", 1);
        let _ = writeln!(text, "  {threads} {waits} in {}", clean(&what));
    }
}

fn format_frame(frame: &Frame) -> String {
    let function = frame.function.as_deref().map_or_else(|| "?".to_owned(), |name| shorten_name(name, WIDTH));
    let place = match &frame.library {
        // The function's name is printed beside the place already.
        Some(_) if frame.file.is_none() => Frame { function: None, ..frame.clone() }.place_text(),
        _ => frame.place_text(),
    };
    format!("{function:<WIDTH$}  {place}").trim_end().to_owned()
}
