//! The rows of the report: all tables but those of calls and marks.
//!
//! Maps the fields of the report to columns, one host after the other, because each host has its own files.

use crate::calls::{ReadResults, global_stack_number};
use crate::keys::{ProcessKeys, table_time};
use crate::options::Redact;
use crate::parts::ExportPlan;
use crate::places::StackNumbering;
use crate::table::{NOBODY, Table, TablePart, Tables};
use crate::tables::{
    Device, Devices, Fault, Faults, Finding, Findings, Frames, Object, Objects, Opening, Openings, Pair, Pairs,
    Process, Processes, Stacks,
};
use anyhow::Result;
use cupeer_record::{self as record, Job};
use cupeer_report::model::{self, ExitKind, Report};
use cupeer_report::places::PlaceTable;
use cupeer_report::symbols::Symbols;
use cupeer_spec::record::meta;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

pub struct ReportRows<'a> {
    pub job: &'a Job,
    pub report: &'a Report,
    /// Results of reading the processes, in the order of the processes.
    pub read: &'a [ReadResults],
    pub keys: &'a Arc<Vec<ProcessKeys>>,
    pub plan: &'a ExportPlan,
    pub redact: &'a dyn Redact,
}

/// Destination of the rows of a node.
struct NodeTables<'a> {
    directory: &'a Path,
    name: &'a str,
    keys: &'a Arc<Vec<ProcessKeys>>,
    is_first: bool,
    tables: &'a mut Tables,
}

impl NodeTables<'_> {
    fn create_part<T: Table>(&self) -> Result<TablePart<T>> {
        TablePart::create(self.directory, self.name, 0, self.keys)
    }

    /// Writes one table. `add` writes the rows of one item.
    fn write_table<T: Table, R>(
        &mut self,
        items: impl IntoIterator<Item = R>,
        add: impl Fn(R, &mut TablePart<T>) -> Result<()>,
    ) -> Result<()> {
        let mut part = self.create_part()?;
        items.into_iter().try_for_each(|item| add(item, &mut part))?;
        part.finish(self.is_first, self.tables)
    }
}

/// Rows of the report by node, each with the index of its process.
type OfNode<'a, T> = Vec<Vec<(u32, &'a T)>>;

impl ReportRows<'_> {
    pub fn write_tables(&self, symbols: &mut Symbols, directory: &Path, tables: &mut Tables) -> Result<()> {
        let indexes = self.keys.iter().enumerate().map(|(index, keys)| (&*keys.proc, index as u32));
        let indexes: HashMap<&str, u32> = indexes.collect();
        let node_of = self.plan.nodes_of_processes();
        let index = |proc: &model::Proc| indexes.get(&**proc).copied();
        let report = self.report;
        let processes = self.rows_by_node(&report.processes, &node_of, |row| index(&row.proc).into_iter().collect());
        let handles = self.rows_by_node(&report.handles, &node_of, |row| owners(row, &index));
        let opens: Vec<(&model::Handle, &model::Open)> =
            report.handles.iter().flat_map(|handle| handle.opens.iter().map(move |open| (handle, open))).collect();
        let opens = self.rows_by_node(&opens, &node_of, |(_, open)| index(&open.proc).into_iter().collect());
        let findings = self.rows_by_node(&report.findings, &node_of, |row| index(&row.proc).into_iter().collect());
        let peers = self.rows_by_node(&report.peers, &node_of, |row| index(&row.proc).into_iter().collect());
        let mut numbered = StackNumbering::new(self.redact);
        let mut places = PlaceTable::new(&self.job.processes, symbols);
        for (node, (name, members)) in self.plan.nodes.iter().enumerate() {
            let mut to = NodeTables { directory, name, keys: self.keys, is_first: node == 0, tables };
            let mut seen: (TablePart<Stacks>, TablePart<Frames>) = (to.create_part()?, to.create_part()?);
            for process in members {
                let stacks = &self.read[*process].stacks;
                for stack in stacks.numbers() {
                    let (caller, frames) = places.place_and_stack(stacks, stack);
                    let number = global_stack_number(*process, stack.index());
                    numbered.add_stack_rows(node, *process as u32, number, &caller, &frames, &mut seen)?;
                }
            }
            let mut part: TablePart<Findings> = to.create_part()?;
            for (process, row) in &findings[node] {
                let stack = numbered.number_stack(node, *process, &row.caller, &row.stack, &mut seen)?;
                part.push_row(*process, &finding_row(row, stack, &to_json(&row.ranks)))?;
            }
            part.finish(to.is_first, to.tables)?;
            seen.0.finish(to.is_first, to.tables)?;
            seen.1.finish(to.is_first, to.tables)?;
            to.write_table(&processes[node], |(process, row), part| self.add_process(*process, row, part))?;
            to.write_table(&handles[node], |(process, row), part| {
                add_object(if row.exporter.is_some() { *process } else { NOBODY }, row, part)
            })?;
            to.write_table(&opens[node], |(process, (handle, open)), part| {
                let exporter = handle.exporter.as_ref().and_then(index);
                add_opening(*process, handle, open, exporter.map(|index| &self.keys[index as usize]), part)
            })?;
            to.write_table(&peers[node], |(process, row), part| {
                add_pair(*process, row, self.keys[*process as usize].start_ns, part)
            })?;
            to.write_table(members, |process, part| self.add_devices(*process, part))?;
            // Faults belong to the whole job, so only the first host has their rows.
            to.write_table(report.faults.iter().filter(|_| node == 0), |row, part| self.add_fault(row, part))?;
        }
        Ok(())
    }

    /// Groups rows by the node of the first of their processes. A row without a process belongs to the first
    /// node.
    fn rows_by_node<'t, T>(
        &self,
        rows: &'t [T],
        node_of: &[usize],
        processes: impl Fn(&T) -> Vec<u32>,
    ) -> OfNode<'t, T> {
        let mut all: OfNode<T> = self.plan.nodes.iter().map(|_| Vec::new()).collect();
        for row in rows {
            let process = processes(row).first().copied().unwrap_or(NOBODY);
            let node = node_of.get(process as usize).copied().unwrap_or(0);
            all[node].push((process, row));
        }
        all
    }

    fn add_process(&self, index: u32, row: &model::Process, part: &mut TablePart<Processes>) -> Result<()> {
        let (keys, read) = (&self.keys[index as usize], &self.read[index as usize]);
        let process = &self.job.processes[index as usize];
        let problem = describe_problem(process, read).map(|problem| self.redact.redact_problem(&problem));
        let arguments: Vec<String> = row.arguments.iter().map(|text| self.redact.redact_argument(text)).collect();
        let variables: BTreeMap<&str, String> = row
            .variables
            .iter()
            .map(|(name, value)| (name.as_str(), self.redact.redact_variable(name, value)))
            .collect();
        let past = self.report.escaped.iter().filter(|escaped| escaped.proc == row.proc);
        let past: Vec<String> =
            past.map(|escaped| format!("{}: {}", self.redact.redact_path(&escaped.library), escaped.way)).collect();
        part.push_row(
            index,
            &Process {
                began_ns: keys.start_ns,
                ppid: row.ppid as i32,
                pid_ns: limit_to_i64(row.pid_ns),
                program: &self.redact.redact_path(&row.program),
                arguments: &to_json(&arguments),
                variables: &to_json(&variables),
                mode: row.mode,
                calls: limit_to_i64(read.calls),
                marks: limit_to_i64(read.marks),
                lost: limit_to_i64(row.lost),
                injected: limit_to_i64(row.injected),
                exit: &json_word(&row.exit.kind),
                exit_code: row.exit.code.map(i32::from),
                exit_signal: row.exit.signal.map(i32::from),
                looked: extent_read(process, row, problem.is_some()),
                problem: problem.as_deref(),
                escaped: (!past.is_empty()).then(|| to_json(&past)).as_deref(),
            },
        )
    }

    fn add_devices(&self, index: usize, part: &mut TablePart<Devices>) -> Result<()> {
        let row = |device: &record::Device| {
            let row = Device {
                began_ns: self.keys[index].start_ns,
                ordinal: device.ordinal,
                uuid: &model::Uuid(device.uuid).to_string(),
                pci: &device.pci,
                name: &device.name,
            };
            part.push_row(index as u32, &row)
        };
        self.job.processes[index].devices.iter().try_for_each(row)
    }

    fn add_fault(&self, row: &model::Fault, part: &mut TablePart<Faults>) -> Result<()> {
        let first = row.hits.iter().map(|hit| hit.time_ns).min();
        part.push_row(
            NOBODY,
            &Fault {
                time_ns: table_time(first.unwrap_or(self.report.record.began_ns)),
                plan: &row.plan,
                name: &row.name,
                rule: row.rule.as_ref().map(|rule| self.redact.redact_rule(rule)).as_deref(),
                matched: row.matched.map(limit_to_i64),
                fired: limit_to_i64(row.fired),
                processes: limit_to_i64(row.processes),
                is_dry_run: row.dry_run,
            },
        )
    }
}

/// Returns the processes that may have the row of a handle: its exporter if known, those that opened it, and
/// those that failed to. The first one has the row.
fn owners(row: &model::Handle, index: &dyn Fn(&model::Proc) -> Option<u32>) -> Vec<u32> {
    let opened = row.opens.iter().map(|open| &open.proc);
    let failed = row.failed.iter().map(|failed| &failed.proc);
    row.exporter.iter().chain(opened).chain(failed).filter_map(index).collect()
}

fn add_object(process: u32, row: &model::Handle, part: &mut TablePart<Objects>) -> Result<()> {
    let opened = row.opens.iter().map(|open| open.opened_ns).min();
    let failed = row.failed.iter().map(|failed| failed.last_ns).min();
    part.push_row(
        process,
        &Object {
            time_ns: table_time(row.exported_ns.or(opened).or(failed).unwrap_or(0)),
            fingerprint: &row.fingerprint.to_string(),
            kind: row.kind,
            state: &row.state.to_string(),
            device: row.device.map(|device| device.to_string()).as_deref(),
            bytes: row.bytes.map(limit_to_i64),
            allocator: row.allocator.map(|allocator| allocator.name),
            exported_ns: row.exported_ns.map(table_time),
            exports: limit_to_i64(row.exports),
            freed_ns: row.freed_ns.map(table_time),
            freed_by: row.freed_by,
            damaged_from: row.damaged_from.map(|print| print.to_string()).as_deref(),
            openings: limit_to_i64(row.opens.len() as u64),
            failed: limit_to_i64(row.failed.iter().flat_map(|failed| failed.codes.values()).sum()),
        },
    )
}

fn add_opening(
    process: u32,
    handle: &model::Handle,
    row: &model::Open,
    exporter: Option<&ProcessKeys>,
    part: &mut TablePart<Openings>,
) -> Result<()> {
    part.push_row(
        process,
        &Opening {
            opened_ns: table_time(row.opened_ns),
            closed_ns: row.closed_ns.map(table_time),
            closed_by: row.closed_by,
            tid: row.tid as i32,
            fingerprint: &handle.fingerprint.to_string(),
            kind: handle.kind,
            state: &row.state.to_string(),
            device: row.device.map(|device| device.to_string()).as_deref(),
            times: limit_to_i64(row.times),
            earlier: limit_to_i64(row.earlier),
            bytes: handle.bytes.map(limit_to_i64),
            allocator: handle.allocator.map(|allocator| allocator.name),
            exporter_proc: exporter.map(|keys| &*keys.proc),
            exporter_host: exporter.map(|keys| &*keys.host),
            exporter_pid: exporter.map(|keys| keys.pid),
            exporter_rank: exporter.and_then(|keys| keys.rank),
            exporter_device: handle.device.map(|device| device.to_string()).as_deref(),
        },
    )
}

fn finding_row<'a>(row: &'a model::Finding, stack: Option<i64>, ranks: &'a str) -> Finding<'a> {
    Finding {
        time_ns: table_time(row.time_ns),
        last_ns: table_time(row.last_ns),
        rule: &row.rule,
        severity: row.severity,
        confidence: row.confidence,
        function: &row.function,
        argument: row.argument,
        result: row.result.as_deref(),
        tid: row.tid as i32,
        seq: limit_to_i64(row.seq),
        times: limit_to_i64(row.count),
        processes: limit_to_i64(row.procs.len() as u64 + row.procs_more),
        ranks,
        message: &row.message,
        sentence: row.sentence,
        hint: &row.hint,
        driver_message: row.driver_message.as_deref(),
        stack,
    }
}

fn add_pair(process: u32, row: &model::Peer, began_ns: i64, part: &mut TablePart<Pairs>) -> Result<()> {
    part.push_row(
        process,
        &Pair {
            began_ns,
            from_device: row.from.map(|device| device.to_string()).as_deref(),
            to_device: row.to.map(|device| device.to_string()).as_deref(),
            asked: limit_to_i64(row.asked),
            can_access: row.can_access,
            enabled: row.enabled,
            enabled_ns: row.enabled_ns.map(table_time),
            disabled_ns: row.disabled_ns.map(table_time),
            mappings: limit_to_i64(row.mappings),
            mappings_now: limit_to_i64(row.mappings_now),
            failed: limit_to_i64(row.failed.values().sum()),
            injected: limit_to_i64(row.injected),
            opened: limit_to_i64(row.opened),
            open_failed: limit_to_i64(row.open_failed.values().sum()),
            copies: limit_to_i64(row.copies),
            copied_bytes: limit_to_i64(row.copied_bytes),
        },
    )
}

/// Describes the problem with the file of a process.
fn describe_problem(process: &record::Process, read: &ReadResults) -> Option<String> {
    let missing = process.text(meta::MISSING).map(str::to_owned);
    let all: Vec<String> = [process.problem.clone(), read.problem.clone(), missing, process.reason_for_early_end()]
        .into_iter()
        .flatten()
        .collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Returns the part of a process that could be read.
fn extent_read(process: &record::Process, row: &model::Process, is_cut: bool) -> &'static str {
    match row.exit.kind {
        _ if is_cut => "cut",
        _ if process.header.lost > 0 => "lost",
        _ if process.has_overwritten() => "ring",
        ExitKind::Running => "running",
        _ => "whole",
    }
}

/// Converts a count or a measure to the range of tables.
fn limit_to_i64(number: u64) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

fn to_json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Returns the word by which JSON names an enumeration's variant.
fn json_word(value: &impl Serialize) -> String {
    to_json(value).trim_matches('"').to_owned()
}
