//! The rows of the report: all tables but those of calls and marks.
//!
//! Maps the fields of the report to columns, one host after the other, because each host has its own files.

use crate::calls::{Read, stack_number};
use crate::keys::{Keys, moment};
use crate::options::Redact;
use crate::parts::Plan;
use crate::places::Numbered;
use crate::table::{NOBODY, Part, Table, Tables};
use crate::tables::{
    Device, Devices, Fault, Faults, Finding, Findings, Frames, Object, Objects, Opening, Openings, Pair,
    Pairs, Process, Processes, Stacks,
};
use anyhow::Result;
use cupeer_record::{self as record, Job};
use cupeer_report::model::{self, ExitKind, Report};
use cupeer_report::places::Places;
use cupeer_report::symbols::Symbols;
use cupeer_spec::record::meta;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

pub struct Rows<'a> {
    pub job: &'a Job,
    pub report: &'a Report,
    /// Results of reading the processes, in the order of the processes.
    pub read: &'a [Read],
    pub keys: &'a Arc<Vec<Keys>>,
    pub plan: &'a Plan,
    pub redact: &'a dyn Redact,
}

/// Destination of the rows of a node.
struct Node<'a> {
    directory: &'a Path,
    name: &'a str,
    keys: &'a Arc<Vec<Keys>>,
    is_first: bool,
    tables: &'a mut Tables,
}

impl Node<'_> {
    fn part<T: Table>(&self) -> Result<Part<T>> {
        Part::create(self.directory, self.name, 0, self.keys)
    }

    /// Writes one table. `add` writes the rows of one item.
    fn table<T: Table, R>(
        &mut self,
        items: impl IntoIterator<Item = R>,
        add: impl Fn(R, &mut Part<T>) -> Result<()>,
    ) -> Result<()> {
        let mut part = self.part()?;
        items.into_iter().try_for_each(|item| add(item, &mut part))?;
        part.finish(self.is_first, self.tables)
    }
}

/// Rows of the report by node, each with the index of its process.
type OfNode<'a, T> = Vec<Vec<(u32, &'a T)>>;

impl Rows<'_> {
    pub fn write(&self, symbols: &mut Symbols, directory: &Path, tables: &mut Tables) -> Result<()> {
        let indexes = self.keys.iter().enumerate().map(|(index, keys)| (&*keys.proc, index as u32));
        let indexes: HashMap<&str, u32> = indexes.collect();
        let node_of = self.plan.node_of();
        let index = |proc: &model::Proc| indexes.get(&**proc).copied();
        let report = self.report;
        let processes =
            self.of_nodes(&report.processes, &node_of, |row| index(&row.proc).into_iter().collect());
        let handles = self.of_nodes(&report.handles, &node_of, |row| owner(row, &index));
        let opens: Vec<(&model::Handle, &model::Open)> = report
            .handles
            .iter()
            .flat_map(|handle| handle.opens.iter().map(move |open| (handle, open)))
            .collect();
        let opens = self.of_nodes(&opens, &node_of, |(_, open)| index(&open.proc).into_iter().collect());
        let findings =
            self.of_nodes(&report.findings, &node_of, |row| index(&row.proc).into_iter().collect());
        let peers = self.of_nodes(&report.peers, &node_of, |row| index(&row.proc).into_iter().collect());
        let mut numbered = Numbered::new(self.redact);
        let mut places = Places::new(&self.job.processes, symbols);
        for (node, (name, members)) in self.plan.nodes.iter().enumerate() {
            let mut to = Node { directory, name, keys: self.keys, is_first: node == 0, tables };
            let mut seen: (Part<Stacks>, Part<Frames>) = (to.part()?, to.part()?);
            for process in members {
                let stacks = &self.read[*process].stacks;
                for stack in stacks.numbers() {
                    let (caller, frames) = places.stack(stacks, stack);
                    let number = stack_number(*process, stack.index());
                    numbered.add(node, *process as u32, number, &caller, &frames, &mut seen)?;
                }
            }
            let mut part: Part<Findings> = to.part()?;
            for (process, row) in &findings[node] {
                let stack = numbered.stack(node, *process, &row.caller, &row.stack, &mut seen)?;
                part.push(*process, &finding(row, stack, &json(&row.ranks)))?;
            }
            part.finish(to.is_first, to.tables)?;
            seen.0.finish(to.is_first, to.tables)?;
            seen.1.finish(to.is_first, to.tables)?;
            to.table(&processes[node], |(process, row), part| self.process(*process, row, part))?;
            to.table(&handles[node], |(process, row), part| {
                object(if row.exporter.is_some() { *process } else { NOBODY }, row, part)
            })?;
            to.table(&opens[node], |(process, (handle, open)), part| {
                let exporter = handle.exporter.as_ref().and_then(index);
                opening(*process, handle, open, exporter.map(|index| &self.keys[index as usize]), part)
            })?;
            to.table(&peers[node], |(process, row), part| {
                pair(*process, row, self.keys[*process as usize].start_ns, part)
            })?;
            to.table(members, |process, part| self.devices(*process, part))?;
            // Faults belong to the whole job, so only the first host has their rows.
            to.table(report.faults.iter().filter(|_| node == 0), |row, part| self.fault(row, part))?;
        }
        Ok(())
    }

    /// Rows by the node of the first of these processes; by the first node if there is none.
    fn of_nodes<'t, T>(
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

    fn process(&self, index: u32, row: &model::Process, part: &mut Part<Processes>) -> Result<()> {
        let (keys, read) = (&self.keys[index as usize], &self.read[index as usize]);
        let process = &self.job.processes[index as usize];
        let problem = problem(process, read).map(|problem| self.redact.problem(&problem));
        let arguments: Vec<String> = row.arguments.iter().map(|text| self.redact.argument(text)).collect();
        let variables: BTreeMap<&str, String> = row
            .variables
            .iter()
            .map(|(name, value)| (name.as_str(), self.redact.variable(name, value)))
            .collect();
        let past = self.report.escaped.iter().filter(|escaped| escaped.proc == row.proc);
        let past: Vec<String> =
            past.map(|escaped| format!("{}: {}", self.redact.path(&escaped.library), escaped.way)).collect();
        part.push(
            index,
            &Process {
                began_ns: keys.start_ns,
                ppid: row.ppid as i32,
                pid_ns: long(row.pid_ns),
                program: &self.redact.path(&row.program),
                arguments: &json(&arguments),
                variables: &json(&variables),
                mode: row.mode,
                calls: long(read.calls),
                marks: long(read.marks),
                lost: long(row.lost),
                injected: long(row.injected),
                exit: &word(&row.exit.kind),
                exit_code: row.exit.code.map(i32::from),
                exit_signal: row.exit.signal.map(i32::from),
                looked: looked(process, row, problem.is_some()),
                problem: problem.as_deref(),
                escaped: (!past.is_empty()).then(|| json(&past)).as_deref(),
            },
        )
    }

    fn devices(&self, index: usize, part: &mut Part<Devices>) -> Result<()> {
        let row = |device: &record::Device| {
            let row = Device {
                began_ns: self.keys[index].start_ns,
                ordinal: device.ordinal,
                uuid: &model::Uuid(device.uuid).to_string(),
                pci: &device.pci,
                name: &device.name,
            };
            part.push(index as u32, &row)
        };
        self.job.processes[index].devices.iter().try_for_each(row)
    }

    fn fault(&self, row: &model::Fault, part: &mut Part<Faults>) -> Result<()> {
        let first = row.hits.iter().map(|hit| hit.time_ns).min();
        part.push(
            NOBODY,
            &Fault {
                time_ns: moment(first.unwrap_or(self.report.record.began_ns)),
                plan: &row.plan,
                name: &row.name,
                rule: row.rule.as_ref().map(|rule| self.redact.rule(rule)).as_deref(),
                matched: row.matched.map(long),
                fired: long(row.fired),
                processes: long(row.processes),
                is_dry_run: row.dry_run,
            },
        )
    }
}

/// Returns the owner of a handle: its exporter or, if unknown, the processes that opened it or failed to.
fn owner(row: &model::Handle, index: &dyn Fn(&model::Proc) -> Option<u32>) -> Vec<u32> {
    let opened = row.opens.iter().map(|open| &open.proc);
    let failed = row.failed.iter().map(|failed| &failed.proc);
    row.exporter.iter().chain(opened).chain(failed).filter_map(index).collect()
}

fn object(process: u32, row: &model::Handle, part: &mut Part<Objects>) -> Result<()> {
    let opened = row.opens.iter().map(|open| open.opened_ns).min();
    let failed = row.failed.iter().map(|failed| failed.last_ns).min();
    part.push(
        process,
        &Object {
            time_ns: moment(row.exported_ns.or(opened).or(failed).unwrap_or(0)),
            fingerprint: &row.fingerprint.to_string(),
            kind: row.kind,
            state: &row.state.to_string(),
            device: row.device.map(|device| device.to_string()).as_deref(),
            bytes: row.bytes.map(long),
            allocator: row.allocator.map(|allocator| allocator.name),
            exported_ns: row.exported_ns.map(moment),
            exports: long(row.exports),
            freed_ns: row.freed_ns.map(moment),
            freed_by: row.freed_by,
            damaged_from: row.damaged_from.map(|print| print.to_string()).as_deref(),
            openings: long(row.opens.len() as u64),
            failed: long(row.failed.iter().flat_map(|failed| failed.codes.values()).sum()),
        },
    )
}

fn opening(
    process: u32,
    handle: &model::Handle,
    row: &model::Open,
    exporter: Option<&Keys>,
    part: &mut Part<Openings>,
) -> Result<()> {
    part.push(
        process,
        &Opening {
            opened_ns: moment(row.opened_ns),
            closed_ns: row.closed_ns.map(moment),
            closed_by: row.closed_by,
            tid: row.tid as i32,
            fingerprint: &handle.fingerprint.to_string(),
            kind: handle.kind,
            state: &row.state.to_string(),
            device: row.device.map(|device| device.to_string()).as_deref(),
            times: long(row.times),
            earlier: long(row.earlier),
            bytes: handle.bytes.map(long),
            allocator: handle.allocator.map(|allocator| allocator.name),
            exporter_proc: exporter.map(|keys| &*keys.proc),
            exporter_host: exporter.map(|keys| &*keys.host),
            exporter_pid: exporter.map(|keys| keys.pid),
            exporter_rank: exporter.and_then(|keys| keys.rank),
            exporter_device: handle.device.map(|device| device.to_string()).as_deref(),
        },
    )
}

fn finding<'a>(row: &'a model::Finding, stack: Option<i64>, ranks: &'a str) -> Finding<'a> {
    Finding {
        time_ns: moment(row.time_ns),
        last_ns: moment(row.last_ns),
        rule: &row.rule,
        severity: row.severity,
        confidence: row.confidence,
        function: &row.function,
        argument: row.argument,
        result: row.result.as_deref(),
        tid: row.tid as i32,
        seq: long(row.seq),
        times: long(row.count),
        processes: long(row.procs.len() as u64 + row.procs_more),
        ranks,
        message: &row.message,
        sentence: row.sentence,
        hint: &row.hint,
        driver_message: row.driver_message.as_deref(),
        stack,
    }
}

fn pair(process: u32, row: &model::Peer, began_ns: i64, part: &mut Part<Pairs>) -> Result<()> {
    part.push(
        process,
        &Pair {
            began_ns,
            from_device: row.from.map(|device| device.to_string()).as_deref(),
            to_device: row.to.map(|device| device.to_string()).as_deref(),
            asked: long(row.asked),
            can_access: row.can_access,
            enabled: row.enabled,
            enabled_ns: row.enabled_ns.map(moment),
            disabled_ns: row.disabled_ns.map(moment),
            mappings: long(row.mappings),
            mappings_now: long(row.mappings_now),
            failed: long(row.failed.values().sum()),
            injected: long(row.injected),
            opened: long(row.opened),
            open_failed: long(row.open_failed.values().sum()),
            copies: long(row.copies),
            copied_bytes: long(row.copied_bytes),
        },
    )
}

/// Describes the problem with the file of a process.
fn problem(process: &record::Process, read: &Read) -> Option<String> {
    let missing = process.text(meta::MISSING).map(str::to_owned);
    let all: Vec<String> = [process.problem.clone(), read.problem.clone(), missing, process.ends_early()]
        .into_iter()
        .flatten()
        .collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Returns the part of a process that could be read.
fn looked(process: &record::Process, row: &model::Process, is_cut: bool) -> &'static str {
    match row.exit.kind {
        _ if is_cut => "cut",
        _ if process.header.lost > 0 => "lost",
        _ if process.has_dropped() => "ring",
        ExitKind::Running => "running",
        _ => "whole",
    }
}

/// Converts a count or a measure to the range of tables.
fn long(number: u64) -> i64 {
    number.try_into().unwrap_or(i64::MAX)
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// Returns the word by which JSON names an enumeration's variant.
fn word(value: &impl Serialize) -> String {
    json(value).trim_matches('"').to_owned()
}
