//! The sections below the problems: tables of the model, and the text report's own sections for rare contents.

use super::finding::is_short;
use super::table::{Cell, Row, Table, count, markup, none, ordered, text};
use super::{LINKS_KEYS, LIVES_KEYS, OPENINGS_KEYS, PAIRS_KEYS, Page, legend, picture};
use crate::text::matrix;
use crate::text::processes::program;
use crate::text::tables::{DEVICES, PAIRS};
use crate::text::wrong::MOST as BRIEF;
use cupeer_report::endings;
use cupeer_report::model::{FailureGroup, Handle, Process};
use cupeer_report::moments::{bytes, duration, number};
use cupeer_report::names::{codes, result};
use cupeer_report::verdict::{severity_of, whose};
use cupeer_rules::Severity;
use maud::{Markup, html};

/// The most rows of a table.
const MOST: usize = 2000;
/// The most lines of a section as the text has it.
const MOST_LINES: usize = 500;

impl Page<'_> {
    /// A moment since the begin of the record.
    pub fn at(&self, moment: u64) -> Cell {
        ordered(self.brief.at(moment), moment)
    }

    pub fn processes(&self) -> Markup {
        let all = &self.report.processes;
        let has_ranks = all.iter().any(|process| process.rank.is_some());
        let pid = |process: &Process, is_shown: bool| match is_shown {
            true => ordered(self.brief.names.pid(process), process.pid.into()),
            false => none(),
        };
        let row = |(place, process): (usize, &Process)| Row {
            id: format!("p{place}"),
            class: self.state(process).class(),
            cells: vec![
                process.rank.map_or_else(none, |rank| count(rank.into())),
                pid(process, !has_ranks),
                text(endings::ended(process)),
                pid(process, has_ranks),
                text(&process.host),
                text(program(process)),
                count(process.events),
                process.last_call.as_ref().map_or_else(none, |call| self.at(call.at_ns)),
                process.last_call.as_ref().map_or_else(none, |call| text(&*call.function)),
                self.pending(process),
                text(self.brief.devices_of(process)),
            ],
        };
        // Processes with problems come first.
        let mut rows: Vec<(usize, &Process)> = all.iter().enumerate().collect();
        rows.sort_by_key(|(_, process)| self.state(process));
        let table = Table {
            id: "all-processes",
            label: "Processes",
            columns: &[
                "#rank",
                "#pid",
                "how it ended",
                "#pid",
                "host",
                "program",
                "#events",
                "#last call at",
                "last call",
                "has not returned",
                "devices",
            ],
            rows: rows.into_iter().take(MOST).map(row).collect(),
            more: all.len().saturating_sub(MOST) as u64,
        };
        html! { h2 { "Processes" } (table.show()) }
    }

    /// The calls of a process that have not returned, with their stacks.
    fn pending(&self, process: &Process) -> Cell {
        if process.pending.is_empty() {
            return text("");
        }
        markup(html! {
            @for call in process.pending.iter().take(BRIEF) {
                details {
                    summary { (call.function) ", " (duration(call.age_ns)) }
                    p { (self.brief.called(call)) @if let Some(rule) = &call.injected_by { ", held by " (rule) } }
                    @if !is_short(&call.stack) { (self.stack(&call.stack)) }
                }
            }
            @if process.pending.len() > BRIEF { (process.pending.len() - BRIEF) " more" }
        })
    }

    pub fn devices(&self) -> Markup {
        // A matrix of two says no more than the tables.
        let is_many = self.report.devices.len() > 2;
        let has_pairs =
            is_many && self.report.peers.iter().any(|peer| peer.from.is_some() && peer.to.is_some());
        let has_opens = self.report.processes.len() > 2
            && self
                .report
                .handles
                .iter()
                .any(|handle| !(handle.opens.is_empty() && handle.failed.is_empty()));
        html! {
            @if !self.report.devices.is_empty() {
                h2 { "Devices and their links" }
                (table_of("all-devices", "Devices", &DEVICES, self.report.devices.iter().map(|device| self.brief.device_row(device).to_vec())))
                div.beside {
                    figure hidden[!has_pairs] { figcaption { (matrix::TITLE) " " (legend(PAIRS_KEYS)) } (picture("pairs", "Matrix of devices; the table of pairs has it in words")) }
                    figure hidden[!has_opens] { figcaption { "Handles by exporter and importer, with how often they were opened " (legend(OPENINGS_KEYS)) } (picture("openings", "Matrix of exporters and importers; the table of handles has the same as text")) }
                    figure.whole hidden[self.report.devices.len() < 2] { figcaption { "Where processes are, and how their devices are linked " (legend(LINKS_KEYS)) } (picture("links", "Processes on their devices, with links between devices")) }
                }
                (table_of("all-pairs", "Pairs of devices", &PAIRS, self.brief.pair_rows().into_iter()))
            }
        }
    }

    pub fn handles(&self) -> Markup {
        let row = |(place, line): (usize, &super::ledger::Line)| {
            let handle = line.handle;
            let alike =
                if line.alike > 0 { format!(" and {} similar", number(line.alike)) } else { String::new() };
            Row {
                id: format!("h{place}"),
                class: self.class_of(handle),
                cells: vec![
                    markup(html! { code { (handle.fingerprint) } (alike) }),
                    text(handle.kind),
                    handle.bytes.map_or_else(none, |size| ordered(bytes(size), size)),
                    ordered(handle.state.to_string(), handle.state as u64),
                    handle.exporter.as_ref().map_or_else(|| text("unknown"), |proc| markup(self.link(proc))),
                    text(self.brief.names.device(handle.device)),
                    handle.exported_ns.map_or_else(none, |at| self.at(at)),
                    text(self.brief.importers(handle)),
                    text(self.brief.accesses(handle)),
                    handle.freed_ns.map_or_else(none, |at| self.at(at)),
                ],
            }
        };
        let lines = &self.ledger.lines;
        let folded: u64 = lines.iter().map(|line| line.alike).sum();
        let table = Table {
            id: "ledger",
            label: "Ledger of handles",
            columns: &[
                "handle",
                "of",
                "#size",
                "state",
                "exporter",
                "device",
                "#exported",
                "opened by",
                "bytes used by copies",
                "#freed",
            ],
            rows: lines.iter().enumerate().map(row).collect(),
            more: self.ledger.left_out,
        };
        let title = self.brief.handles().lines().nth(1).unwrap_or("Handles").to_owned();
        html! {
            @if !lines.is_empty() {
                h2 { (title) }
                @if folded > 0 { p.hint { (number(folded)) " handles are grouped into rows of similar handles" } }
                figure { figcaption { "From export to close " span #lived {} " " (legend(LIVES_KEYS)) } (picture("lives", "Lives of the handles of the ledger, in its order")) }
                p.tools { input #which type="search" placeholder="Search the ledger" aria-label="Search the ledger"; }
                (table.show())
            }
        }
    }

    pub fn calls(&self) -> Markup {
        let time = |ns: Option<u64>| ns.map_or_else(none, |ns| ordered(duration(ns), ns));
        let functions = Table {
            id: "functions",
            label: "Functions",
            columns: &[
                "function",
                "#calls",
                "#failed",
                "#total",
                "#p50",
                "#p99",
                "#max",
                "ranks",
                "#injected",
                "results",
            ],
            rows: self
                .report
                .functions
                .iter()
                .take(MOST)
                .enumerate()
                .map(|(place, function)| Row {
                    id: format!("c{place}"),
                    class: if function.wrong() > 0 { "warning" } else { "" },
                    cells: vec![
                        text(&*function.function),
                        count(function.calls),
                        ordered(self.report.failed(function), function.failed()),
                        time(Some(function.total_ns)),
                        time(function.p50_ns),
                        time(function.p99_ns),
                        time(function.max_ns),
                        function
                            .ranks
                            .as_ref()
                            .map_or_else(none, |r| text(format!("{}/{}/{}", r.least, r.median, r.most))),
                        count(function.injected),
                        text(codes(&function.failures)),
                    ],
                })
                .collect(),
            more: self.report.functions.len().saturating_sub(MOST) as u64,
        };
        let stacks = self.stacks_of_failures();
        let failure = |(place, group): (usize, &FailureGroup)| {
            let stack = stacks.get(&(&*group.function, &*group.result, &group.caller));
            Row {
                id: format!("e{place}"),
                class: if group.usual || group.is_on_purpose() { "" } else { "error" },
                cells: vec![
                    count(group.count),
                    text(&*group.function),
                    text(result(&group.result)),
                    text(self.brief.group_procs(group)),
                    self.at(group.first_ns),
                    self.at(group.last_ns),
                    text(whose(group.injected, group.injected_by.as_deref(), group.follows_fault).trim()),
                    markup(self.place_in(&group.caller, stack.copied().unwrap_or_default())),
                ],
            }
        };
        let groups = &self.report.failure_groups;
        let failures = Table {
            id: "failures",
            label: "Failures",
            columns: &["#times", "function", "result", "who", "#first", "#last", "whose", "from"],
            rows: groups.iter().take(MOST).enumerate().map(failure).collect(),
            more: groups.len().saturating_sub(MOST) as u64,
        };
        let marks = &self.report.marks;
        let most_marks = MOST / 2;
        let told = Table {
            id: "marks",
            label: "Marks",
            columns: &["#time", "who", "mark"],
            rows: marks
                .iter()
                .take(most_marks)
                .enumerate()
                .map(|(place, mark)| Row {
                    id: format!("m{place}"),
                    class: "",
                    cells: vec![self.at(mark.time_ns), markup(self.link(&mark.proc)), text(&mark.text)],
                })
                .collect(),
            more: marks.len().saturating_sub(most_marks) as u64 + self.report.marks_more,
        };
        html! {
            @if !self.report.functions.is_empty() {
                h2 { "Calls" }
                h3 { "Functions" @if self.report.functions.iter().any(|function| function.ranks.is_some()) { " (ranks: least/median/most calls)" } }
                (functions.show())
                @if !groups.is_empty() { h3 { "Failures" } (failures.show()) }
                @if !marks.is_empty() { h3 { "Marks" } (told.show()) }
            }
        }
    }

    /// Sections that few recordings have, as text.
    pub fn more(&self) -> Markup {
        let leaks = if self.report.leaks.is_empty() { String::new() } else { self.brief.leaks() };
        let sections = [
            leaks,
            self.brief.suppressed(),
            self.brief.virtual_memory(),
            self.brief.pools(),
            self.brief.escaped(),
            self.brief.unnamed(),
        ];
        html! {
            @if sections.iter().any(|text| !text.is_empty()) {
                h2 { "More" }
                @for section in &sections { (self.lines(section)) }
            }
        }
    }

    /// A section of the text form, unchanged.
    pub fn lines(&self, section: &str) -> Markup {
        let section = section.trim_matches('\n');
        let (title, text) = section.split_once('\n').unwrap_or((section, ""));
        let left = text.lines().count().saturating_sub(MOST_LINES);
        let shown: Vec<&str> = text.lines().take(MOST_LINES).collect();
        html! {
            @if !section.is_empty() {
                details.text open[shown.len() < 12] {
                    summary { h3 { (title) } }
                    pre tabindex="0" { (shown.join("\n")) }
                    @if left > 0 { p.hint { (left) " more lines are left out; cupeer report has them" } }
                }
            }
        }
    }

    /// Returns the style class for the state of a handle. It is empty if nothing is wrong, because libraries
    /// also free memory that others have open.
    fn class_of(&self, handle: &Handle) -> &'static str {
        let severity = severity_of(handle.state).filter(|_| !self.headline.is_empty());
        severity.map_or("", Severity::word)
    }
}

/// A table of the text, with a title.
fn table_of(
    id: &str,
    label: &str,
    head: &[&str],
    rows: impl ExactSizeIterator<Item = Vec<String>>,
) -> Markup {
    let columns: Vec<String> = head.iter().map(|name| name.to_lowercase()).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let more = rows.len().saturating_sub(MOST) as u64;
    let row = |(place, cells): (usize, Vec<String>)| Row {
        id: format!("{id}-{place}"),
        class: "",
        cells: cells.into_iter().map(text).collect(),
    };
    let table =
        Table { id, label, columns: &columns, rows: rows.take(MOST).enumerate().map(row).collect(), more };
    html! { @if !table.rows.is_empty() { h3 { (label) } (table.show()) } }
}
