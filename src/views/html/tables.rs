//! The sections below the problems: tables of the model, and the text report's own sections for rare contents.

use super::finding::is_short;
use super::table::{Cell, Row, Table, count, known, markup, none, ordered, text};
use super::{LINKS_KEYS, LIVES_KEYS, OPENINGS_KEYS, PAIRS_KEYS, Page, legend, picture};
use crate::text::matrix;
use crate::text::processes::program;
use crate::text::tables::{DEVICES, FUNCTION_NUMBERS, FUNCTIONS, PAIRS};
use crate::text::wrong::MOST as BRIEF;
use cupeer_report::endings;
use cupeer_report::model::{FailureGroup, Function, Handle, Mark, Process};
use cupeer_report::moments::{bytes, duration, number};
use cupeer_report::names::result;
use cupeer_report::verdict::{severity_of, whose};
use cupeer_rules::Severity;
use maud::{Markup, html};

/// Largest number of rows of a table.
const MOST: usize = 2000;
/// Largest number of lines of a section that is taken from the text form.
const MOST_LINES: usize = 500;

impl Page<'_> {
    /// Returns a cell with a time since the start of the recording.
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
                known(process.rank.map(u64::from), number),
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
        // List processes with problems first.
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

    /// Returns a cell with the calls of a process that have not returned, and their stacks.
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
        // A matrix of two devices shows no more than the tables do.
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
        let row = |line: &super::ledger::Line| {
            let handle = line.handle;
            let alike =
                if line.alike > 0 { format!(" and {} similar", number(line.alike)) } else { String::new() };
            let cells = vec![
                markup(html! { code { (handle.fingerprint) } (alike) }),
                text(handle.kind),
                known(handle.bytes, bytes),
                ordered(handle.state.to_string(), handle.state as u64),
                handle.exporter.as_ref().map_or_else(|| text("unknown"), |proc| markup(self.link(proc))),
                text(self.brief.names.device(handle.device)),
                known(handle.exported_ns, |at| self.brief.at(at)),
                text(self.brief.importers(handle)),
                text(self.brief.accesses(handle)),
                known(handle.freed_ns, |at| self.brief.at(at)),
            ];
            (self.class_of(handle), cells)
        };
        const COLUMNS: [&str; 10] = [
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
        ];
        let lines = &self.ledger.lines;
        let folded: u64 = lines.iter().map(|line| line.alike).sum();
        let table = Table::of(("ledger", "Ledger of handles", "h"), &COLUMNS, usize::MAX, lines.iter(), row);
        let table = Table { more: self.ledger.left_out, ..table };
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
        let has_ranks = self.report.functions.iter().any(|function| function.ranks.is_some());
        html! {
            @if !self.report.functions.is_empty() {
                h2 { "Calls" }
                h3 { "Functions" @if has_ranks { " (ranks: least/median/most calls)" } }
                (self.functions())
                @if !self.report.failure_groups.is_empty() { h3 { "Failures" } (self.failures()) }
                @if !self.report.marks.is_empty() { h3 { "Marks" } (self.marks()) }
            }
        }
    }

    fn functions(&self) -> Markup {
        let mut columns = FUNCTIONS.map(str::to_lowercase);
        FUNCTION_NUMBERS.iter().for_each(|number| columns[*number].insert(0, '#'));
        let row = |function: &Function| {
            let orders = [
                None,
                Some(function.calls),
                Some(function.failed()),
                Some(function.total_ns),
                function.p50_ns,
                function.p99_ns,
                function.max_ns,
                None,
                Some(function.injected),
                None,
            ];
            let cells = self.brief.function_row(function).into_iter().zip(orders);
            let cells = cells.map(|(shown, order)| Cell { order, ..text(shown) });
            (if function.wrong() > 0 { "warning" } else { "" }, cells.collect())
        };
        let names = ("functions", "Functions", "c");
        Table::of(names, &columns.each_ref().map(String::as_str), MOST, self.report.functions.iter(), row)
            .show()
    }

    fn failures(&self) -> Markup {
        let stacks = self.stacks_of_failures();
        let row = |group: &FailureGroup| {
            let stack = stacks.get(&(&*group.function, &*group.result, &group.caller));
            let cells = vec![
                count(group.count),
                text(&*group.function),
                text(result(&group.result)),
                text(self.brief.group_procs(group)),
                self.at(group.first_ns),
                self.at(group.last_ns),
                text(whose(group.injected, group.injected_by.as_deref(), group.follows_fault).trim()),
                markup(self.place_in(&group.caller, stack.copied().unwrap_or_default())),
            ];
            (if group.usual || group.is_on_purpose() { "" } else { "error" }, cells)
        };
        let columns = ["#times", "function", "result", "who", "#first", "#last", "whose", "from"];
        let groups = self.report.failure_groups.iter();
        Table::of(("failures", "Failures", "e"), &columns, MOST, groups, row).show()
    }

    fn marks(&self) -> Markup {
        let row =
            |mark: &Mark| ("", vec![self.at(mark.time_ns), markup(self.link(&mark.proc)), text(&mark.text)]);
        let marks = self.report.marks.iter();
        let table = Table::of(("marks", "Marks", "m"), &["#time", "who", "mark"], MOST / 2, marks, row);
        Table { more: table.more + self.report.marks_more, ..table }.show()
    }

    /// Returns the sections that few recordings have, as text.
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

    /// Returns a section of the text form, unchanged.
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

    /// Returns the style class for the state of a handle; empty if nothing is wrong. Libraries also free
    /// memory that other processes have open, so that alone has no class.
    fn class_of(&self, handle: &Handle) -> &'static str {
        let severity = severity_of(handle.state).filter(|_| !self.headline.is_empty());
        severity.map_or("", Severity::word)
    }
}

/// Returns a table of the text form, with a title.
fn table_of(
    id: &str,
    label: &str,
    head: &[&str],
    rows: impl ExactSizeIterator<Item = Vec<String>>,
) -> Markup {
    let columns: Vec<String> = head.iter().map(|name| name.to_lowercase()).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let row = |cells: Vec<String>| ("", cells.into_iter().map(text).collect());
    let table = Table::of((id, label, &format!("{id}-")), &columns, MOST, rows, row);
    html! { @if !table.rows.is_empty() { h3 { (label) } (table.show()) } }
}
