//! The sections below the problems: tables of the model, and the text report's own sections for rare contents.

use super::finding::has_one_frame;
use super::table::{Cell, Row, Table, count_cell, empty_cell, markup_cell, optional_cell, sorted_cell, text_cell};
use super::{LINKS_KEYS, LIVES_KEYS, OPENINGS_KEYS, PAIRS_KEYS, Page, chart_placeholder, legend};
use crate::text::matrix;
use crate::text::processes::name_program;
use crate::text::tables::{DEVICES, FUNCTION_NUMBERS, FUNCTIONS, PAIRS};
use crate::text::wrong::MOST as BRIEF;
use cupeer_report::endings;
use cupeer_report::model::{FailureGroup, Function, Handle, Mark, Process};
use cupeer_report::moments::{bytes, duration, number};
use cupeer_report::names::short_result_name;
use cupeer_report::verdict::{format_fault_cause, state_severity};
use cupeer_rules::Severity;
use maud::{Markup, html};

/// Largest number of rows of a table.
const MOST: usize = 2000;
/// Largest number of lines of a section that is taken from the text form.
const MOST_LINES: usize = 500;

impl Page<'_> {
    /// Returns a cell with a time since the start of the recording.
    pub fn at(&self, moment: u64) -> Cell {
        sorted_cell(self.brief_view.at(moment), moment)
    }

    pub fn process_section(&self) -> Markup {
        let all = &self.report.processes;
        let has_ranks = all.iter().any(|process| process.rank.is_some());
        let pid = |process: &Process, is_shown: bool| match is_shown {
            true => sorted_cell(self.brief_view.names.pid(process), process.pid.into()),
            false => empty_cell(),
        };
        let row = |(place, process): (usize, &Process)| Row {
            id: format!("p{place}"),
            class: self.process_state(process).style_class(),
            cells: vec![
                optional_cell(process.rank.map(u64::from), number),
                pid(process, !has_ranks),
                text_cell(endings::describe_end(process)),
                pid(process, has_ranks),
                text_cell(&process.host),
                text_cell(name_program(process)),
                count_cell(process.events),
                process.last_call.as_ref().map_or_else(empty_cell, |call| self.at(call.at_ns)),
                process.last_call.as_ref().map_or_else(empty_cell, |call| text_cell(&*call.function)),
                self.pending_calls_cell(process),
                text_cell(self.brief_view.format_devices_of(process)),
            ],
        };
        // List processes with problems first.
        let mut rows: Vec<(usize, &Process)> = all.iter().enumerate().collect();
        rows.sort_by_key(|(_, process)| self.process_state(process));
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
        html! { h2 { "Processes" } (table.render()) }
    }

    /// Returns a cell with the calls of a process that have not returned, and their stacks.
    fn pending_calls_cell(&self, process: &Process) -> Cell {
        if process.pending.is_empty() {
            return text_cell("");
        }
        markup_cell(html! {
            @for call in process.pending.iter().take(BRIEF) {
                details {
                    summary { (call.function) ", " (duration(call.age_ns)) }
                    p { (self.brief_view.describe_call_site(call)) @if let Some(rule) = &call.injected_by { ", held by " (rule) } }
                    @if !has_one_frame(&call.stack) { (self.stack_list(&call.stack)) }
                }
            }
            @if process.pending.len() > BRIEF { (process.pending.len() - BRIEF) " more" }
        })
    }

    pub fn device_section(&self) -> Markup {
        // A matrix of two devices shows no more than the tables do.
        let is_many = self.report.devices.len() > 2;
        let has_pairs = is_many && self.report.peers.iter().any(|peer| peer.from.is_some() && peer.to.is_some());
        let has_opens = self.report.processes.len() > 2
            && self.report.handles.iter().any(|handle| !(handle.opens.is_empty() && handle.failed.is_empty()));
        html! {
            @if !self.report.devices.is_empty() {
                h2 { "Devices and their links" }
                (titled_table("all-devices", "Devices", &DEVICES, self.report.devices.iter().map(|device| self.brief_view.device_row(device).to_vec())))
                div.beside {
                    figure hidden[!has_pairs] { figcaption { (matrix::TITLE) " " (legend(PAIRS_KEYS)) } (chart_placeholder("pairs", "Matrix of devices; the table of pairs has it in words")) }
                    figure hidden[!has_opens] { figcaption { "Handles by exporter and importer, with how often they were opened " (legend(OPENINGS_KEYS)) } (chart_placeholder("openings", "Matrix of exporters and importers; the table of handles has the same as text")) }
                    figure.whole hidden[self.report.devices.len() < 2] { figcaption { "Where processes are, and how their devices are linked " (legend(LINKS_KEYS)) } (chart_placeholder("links", "Processes on their devices, with links between devices")) }
                }
                (titled_table("all-pairs", "Pairs of devices", &PAIRS, self.brief_view.pair_rows().into_iter()))
            }
        }
    }

    pub fn handle_section(&self) -> Markup {
        let row = |line: &super::ledger::HandleRow| {
            let handle = line.handle;
            let alike = if line.alike > 0 { format!(" and {} similar", number(line.alike)) } else { String::new() };
            let cells = vec![
                markup_cell(html! { code { (handle.fingerprint) } (alike) }),
                text_cell(handle.kind),
                optional_cell(handle.bytes, bytes),
                sorted_cell(handle.state.to_string(), handle.state as u64),
                handle
                    .exporter
                    .as_ref()
                    .map_or_else(|| text_cell("unknown"), |proc| markup_cell(self.process_link(proc))),
                text_cell(self.brief_view.names.device(handle.device)),
                optional_cell(handle.exported_ns, |at| self.brief_view.at(at)),
                text_cell(self.brief_view.describe_importers(handle)),
                text_cell(self.brief_view.describe_accesses(handle)),
                optional_cell(handle.freed_ns, |at| self.brief_view.at(at)),
            ];
            (self.handle_class(handle), cells)
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
        let title = self.brief_view.handles().lines().nth(1).unwrap_or("Handles").to_owned();
        html! {
            @if !lines.is_empty() {
                h2 { (title) }
                @if folded > 0 { p.hint { (number(folded)) " handles are grouped into rows of similar handles" } }
                figure { figcaption { "From export to close " span #lived {} " " (legend(LIVES_KEYS)) } (chart_placeholder("lives", "Lives of the handles of the ledger, in its order")) }
                p.tools { input #which type="search" placeholder="Search the ledger" aria-label="Search the ledger"; }
                (table.render())
            }
        }
    }

    pub fn call_section(&self) -> Markup {
        let has_ranks = self.report.functions.iter().any(|function| function.ranks.is_some());
        html! {
            @if !self.report.functions.is_empty() {
                h2 { "Calls" }
                h3 { "Functions" @if has_ranks { " (ranks: least/median/most calls)" } }
                (self.function_table())
                @if !self.report.failure_groups.is_empty() { h3 { "Failures" } (self.failure_table()) }
                @if !self.report.marks.is_empty() { h3 { "Marks" } (self.mark_table()) }
            }
        }
    }

    fn function_table(&self) -> Markup {
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
            let cells = self.brief_view.function_row(function).into_iter().zip(orders);
            let cells = cells.map(|(shown, order)| Cell { order, ..text_cell(shown) });
            (if function.wrong_calls() > 0 { "warning" } else { "" }, cells.collect())
        };
        let names = ("functions", "Functions", "c");
        Table::of(names, &columns.each_ref().map(String::as_str), MOST, self.report.functions.iter(), row).render()
    }

    fn failure_table(&self) -> Markup {
        let stacks = self.stacks_of_failures();
        let row = |group: &FailureGroup| {
            let stack = stacks.get(&(&*group.function, &*group.result, &group.caller));
            let cells = vec![
                count_cell(group.count),
                text_cell(&*group.function),
                text_cell(short_result_name(&group.result)),
                text_cell(self.brief_view.name_group_processes(group)),
                self.at(group.first_ns),
                self.at(group.last_ns),
                text_cell(format_fault_cause(group.injected, group.injected_by.as_deref(), group.follows_fault).trim()),
                markup_cell(self.place_with_stack(&group.caller, stack.copied().unwrap_or_default())),
            ];
            (if group.usual || group.is_on_purpose() { "" } else { "error" }, cells)
        };
        let columns = ["#times", "function", "result", "who", "#first", "#last", "whose", "from"];
        let groups = self.report.failure_groups.iter();
        Table::of(("failures", "Failures", "e"), &columns, MOST, groups, row).render()
    }

    fn mark_table(&self) -> Markup {
        let row = |mark: &Mark| {
            ("", vec![self.at(mark.time_ns), markup_cell(self.process_link(&mark.proc)), text_cell(&mark.text)])
        };
        let marks = self.report.marks.iter();
        let table = Table::of(("marks", "Marks", "m"), &["#time", "who", "mark"], MOST / 2, marks, row);
        Table { more: table.more + self.report.marks_more, ..table }.render()
    }

    /// Returns the sections that few recordings have, as text.
    pub fn rare_sections(&self) -> Markup {
        let leaks = if self.report.leaks.is_empty() { String::new() } else { self.brief_view.leaks() };
        let sections = [
            leaks,
            self.brief_view.suppressed(),
            self.brief_view.virtual_memory(),
            self.brief_view.pools(),
            self.brief_view.bypassing_libraries(),
            self.brief_view.unnamed_libraries(),
        ];
        html! {
            @if sections.iter().any(|text| !text.is_empty()) {
                h2 { "More" }
                @for section in &sections { (self.text_section(section)) }
            }
        }
    }

    /// Returns a section of the text form, unchanged.
    pub fn text_section(&self, section: &str) -> Markup {
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
    fn handle_class(&self, handle: &Handle) -> &'static str {
        let severity = state_severity(handle.state).filter(|_| !self.headline.is_empty());
        severity.map_or("", Severity::word)
    }
}

/// Returns a table of the text form, with a title.
fn titled_table(id: &str, label: &str, head: &[&str], rows: impl ExactSizeIterator<Item = Vec<String>>) -> Markup {
    let columns: Vec<String> = head.iter().map(|name| name.to_lowercase()).collect();
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let row = |cells: Vec<String>| ("", cells.into_iter().map(text_cell).collect());
    let table = Table::of((id, label, &format!("{id}-")), &columns, MOST, rows, row);
    html! { @if !table.rows.is_empty() { h3 { (label) } (table.render()) } }
}
