//! The section about memory: a chart for each device over time, and tables of its owners when calls failed.

use super::table::{Cell, Table, count_cell, empty_cell, markup_cell, sorted_cell, text_cell};
use super::{Page, finding};
use crate::text::device_memory::name_other_process;
use cupeer_report::model::{Memory, MemoryOverTime, MemoryRow};
use cupeer_report::moments::bytes;
use maud::{Markup, html};
use serde::Serialize;

/// Largest number of devices with a chart, and of calls with a table.
const MOST: usize = 8;
/// Number of charts from which a chart without a failed call takes only a part of the page's width.
const FEW: usize = 3;
/// Word of the report for memory that is simply in use, which needs no label.
const IN_USE: &str = "in use";

/// Changes of a value: the index of a time, and the value from this time on.
type Changes = Vec<(usize, u64)>;

/// Memory of a device over time.
#[derive(Serialize)]
pub struct MemoryChart {
    /// Size of the device's memory in bytes; `None` if it is unknown.
    total: Option<u64>,
    times_ns: Vec<u64>,
    /// Areas of the chart: process, state unless the memory is simply in use, and changes of the number of
    /// bytes.
    series: Vec<(Option<usize>, &'static str, Changes)>,
    /// Failed calls: the time of each, a description, and the link to its details.
    failures: Vec<(u64, String, String)>,
}

impl Page<'_> {
    /// Returns the devices with charts: first those on which calls failed, then those with the most memory in
    /// use.
    fn charted_devices(&self) -> Vec<&MemoryOverTime> {
        let most = |one: &MemoryOverTime| one.series.iter().flat_map(|line| &line.bytes).copied().max();
        let mut all: Vec<&MemoryOverTime> =
            self.report.memory_over_time.iter().filter(|one| most(one) > Some(0)).collect();
        all.sort_by_key(|one| (one.failures.is_empty(), std::cmp::Reverse(most(one))));
        all.truncate(MOST);
        all.sort_by_key(|one| one.device);
        all
    }

    /// Returns the calls that failed for lack of memory, each of which has a table, with their indexes.
    fn failed_calls(&self) -> impl Iterator<Item = (usize, &Memory)> {
        self.report.memory.iter().filter(|memory| memory.at_ns.is_some()).take(MOST).enumerate()
    }

    pub fn memory_charts(&self) -> Vec<MemoryChart> {
        self.charted_devices().into_iter().map(|one| self.memory_chart(one)).collect()
    }

    fn memory_chart(&self, one: &MemoryOverTime) -> MemoryChart {
        let tables = |failure: &cupeer_report::model::MemoryFailure| {
            self.failed_calls()
                .find(|(_, memory)| memory.at_ns == Some(failure.at_ns) && memory.seq == Some(failure.seq))
        };
        let failure = |failure: &cupeer_report::model::MemoryFailure| {
            let table = tables(failure);
            let function = table.and_then(|(_, memory)| memory.function.as_deref()).unwrap_or("a call");
            let text = format!("{function} failed in {}", self.brief_view.name_process(&failure.proc));
            (self.ns_since_start(failure.at_ns), text, table.map_or(String::new(), |(number, _)| format!("o{number}")))
        };
        // The end of a process may be known only as later than the end of the recording: leave such times
        // out.
        let lasted = one.times_ns.partition_point(|at| *at <= self.report.record.ended_ns);
        let series = one.series.iter().map(|line| {
            let state = if line.state == IN_USE { "" } else { line.state };
            (self.process_index(&line.proc), state, keep_changes(&line.bytes[..lasted]))
        });
        MemoryChart {
            total: self.device_memory_size(one),
            times_ns: one.times_ns[..lasted].iter().map(|at| self.ns_since_start(*at)).collect(),
            series: series.collect(),
            failures: one.failures.iter().map(failure).collect(),
        }
    }

    /// Returns the size of a device's memory in bytes, as a failed call reported it.
    fn device_memory_size(&self, one: &MemoryOverTime) -> Option<u64> {
        self.report.memory.iter().filter(|memory| memory.device == one.device).find_map(|memory| memory.total)
    }

    pub fn memory_section(&self) -> Markup {
        let charts = self.charted_devices();
        let left = self.report.memory_over_time.len() - charts.len();
        html! {
            @if !charts.is_empty() {
                h2 { "Memory" }
                div.beside { @for (number, one) in charts.iter().enumerate() {
                    @let name = self.brief_view.names.device(Some(one.device));
                    // A chart with a failed call, or one of few charts, takes the full width.
                    figure.whole[charts.len() < FEW || !one.failures.is_empty()] {
                        figcaption { (name) ": memory that recorded processes allocated" }
                        div.picture id={ "memory" (number) } role="application" tabindex="0"
                            aria-label={ "Memory of " (name) " over time, by process. Left and right arrow keys move; the line below has the figures." } {}
                        p.hint id={ "memory" (number) "-at" } role="status" { (self.format_peak(one)) }
                    }
                } }
                @if left > 0 { p.hint { "Devices without a chart: " (left) } }
                @for (number, memory) in self.failed_calls() { (self.owner_table(number, memory)) }
            }
        }
    }

    /// Formats the largest amount of memory in use, for pages without scripts.
    fn format_peak(&self, one: &MemoryOverTime) -> String {
        let sum = |i: usize| one.series.iter().map(|line| line.bytes[i]).sum::<u64>();
        let most = (0..one.times_ns.len()).max_by_key(|i| sum(*i)).unwrap_or(0);
        let of = self.device_memory_size(one).map_or(String::new(), |total| format!(" of {}", bytes(total)));
        format!("At most {}{of}, at {}", bytes(sum(most)), self.brief_view.at(one.times_ns[most]))
    }

    /// Returns a table of the owners of a device's memory at a failed call. The rows add up to the memory of
    /// the device.
    fn owner_table(&self, number: usize, memory: &Memory) -> Markup {
        let size = |amount: u64| sorted_cell(bytes(amount), amount);
        let of_row = |one: &MemoryRow| {
            let kept = self.brief_view.names.processes(one.holders.iter().map(|proc| &**proc));
            vec![
                markup_cell(self.process_link(&one.proc)),
                size(one.bytes),
                if one.count > 0 { count_cell(one.count) } else { empty_cell() },
                text_cell(if one.kind == "small" { "small allocations" } else { one.state }),
                if kept.is_empty() { empty_cell() } else { text_cell(kept) },
                one.frames.first().map_or_else(empty_cell, |place| markup_cell(finding::format_place(place))),
            ]
        };
        let others = memory.other_processes.iter().map(|one| (name_other_process(one), one.bytes));
        let rest = memory.unaccounted.map(|rest| ("contexts, the driver, and others".to_owned(), rest));
        let free = memory.free.map(|free| ("free".to_owned(), free));
        let all = others.chain(rest.filter(|(_, rest)| *rest > 0)).chain(free);
        let all = all.map(|(who, amount)| {
            vec![text_cell(who), size(amount), empty_cell(), empty_cell(), empty_cell(), empty_cell()]
        });
        let cells: Vec<Vec<Cell>> = memory.rows.iter().map(of_row).chain(all).collect();
        let columns = ["owner", "#size", "#allocations", "state", "kept by", "from"];
        let (id, prefix) = (format!("owners{number}"), format!("o{number}-"));
        let names = (&*id, "Owners of the memory", &*prefix);
        let table = Table::of(names, &columns, usize::MAX, cells.into_iter(), |cells| ("", cells));
        let asked = memory.wanted.map_or_else(String::new, |wanted| format!(", which asked for {}", bytes(wanted)));
        html! {
            h3 id={ "o" (number) } tabindex="-1" {
                (memory.function.as_deref().unwrap_or("A call")) " failed in "
                (memory.proc.as_deref().map_or_else(String::new, |proc| self.brief_view.name_process(proc)))
                " at " (self.brief_view.at(memory.at_ns.unwrap_or(0))) (asked) ": memory of " (self.brief_view.names.device(Some(memory.device)))
                @if let Some(total) = memory.total { ", " (bytes(total)) " in all" }
            }
            (table.render())
        }
    }
}

/// Returns only the values that differ from the value before them, with their indexes, because most values
/// stay the same most of the time.
fn keep_changes(bytes: &[u64]) -> Changes {
    let is_new = |(i, value): &(usize, u64)| *value != i.checked_sub(1).map_or(0, |before| bytes[before]);
    bytes.iter().copied().enumerate().filter(is_new).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn only_changes_are_written() {
        assert_eq!(super::keep_changes(&[0, 0, 5, 5, 7, 0, 0]), [(2, 5), (4, 7), (5, 0)]);
        assert_eq!(super::keep_changes(&[3, 3]), [(0, 3)]);
        assert_eq!(super::keep_changes(&[]), []);
    }
}
