//! Distributes the calls of processes among threads and files.

use crate::calls::{self, ReadResults};
use crate::keys::{ProcessKeys, node_directory};
use crate::options::Options;
use crate::table::{TablePart, Tables};
use crate::tables::{Calls, Marks};
use anyhow::{Error, Result};
use cupeer_record::Job;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Smallest number of bytes of a recording for which a part of its own is worthwhile.
const LEAST: u64 = 64 << 20;

/// Hosts of a recording, and the parts into which their calls are divided.
pub struct ExportPlan {
    /// Name of each host's directory, and the indexes of the processes on that host.
    pub nodes: Vec<(String, Vec<usize>)>,
    /// Planned parts, the largest one first.
    parts: Vec<PlannedPart>,
}

struct PlannedPart {
    node: usize,
    number: usize,
    processes: Vec<usize>,
    bytes: u64,
}

impl ExportPlan {
    pub fn new(job: &Job, keys: &[ProcessKeys], threads: usize) -> ExportPlan {
        let mut by_node: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        keys.iter().enumerate().for_each(|(i, keys)| by_node.entry(node_directory(&keys.host)).or_default().push(i));
        let nodes: Vec<(String, Vec<usize>)> = by_node.into_iter().collect();
        let size = |process: &usize| job.processes[*process].source.size();
        let mut parts = Vec::new();
        for (node, (_, processes)) in nodes.iter().enumerate() {
            let mut sized: Vec<(u64, usize)> = processes.iter().map(|i| (size(i), *i)).collect();
            let all: u64 = sized.iter().map(|(bytes, _)| bytes).sum();
            // Plan more parts than threads, so that all threads have work until the end.
            let count = (all / LEAST).clamp(1, 2 * threads as u64).min(sized.len() as u64);
            let mut of_node: Vec<PlannedPart> = (0..count as usize)
                .map(|number| PlannedPart { node, number, processes: Vec::new(), bytes: 0 })
                .collect();
            sized.sort_by_key(|(bytes, i)| (std::cmp::Reverse(*bytes), *i));
            for (bytes, process) in sized {
                if let Some(least) = of_node.iter_mut().min_by_key(|part| (part.bytes, part.number)) {
                    least.bytes += bytes;
                    least.processes.push(process);
                }
            }
            of_node.iter_mut().for_each(|part| part.processes.sort_unstable());
            parts.extend(of_node);
        }
        parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
        ExportPlan { nodes, parts }
    }

    /// Returns for each process the index of its host's directory.
    pub fn nodes_of_processes(&self) -> Vec<usize> {
        let mut of = vec![0; self.nodes.iter().map(|(_, processes)| processes.len()).sum()];
        for (node, (_, processes)) in self.nodes.iter().enumerate() {
            processes.iter().for_each(|process| of[*process] = node);
        }
        of
    }
}

/// Work of an export: the parts, and what was written.
pub struct ExportWork<'a> {
    plan: &'a ExportPlan,
    job: &'a Job,
    keys: &'a Arc<Vec<ProcessKeys>>,
    options: &'a Options<'a>,
    directory: &'a Path,
    next: AtomicUsize,
    is_stopped: AtomicBool,
    done: Mutex<FinishedParts>,
}

#[derive(Default)]
struct FinishedParts {
    read: BTreeMap<usize, ReadResults>,
    tables: Tables,
    error: Option<Error>,
}

impl<'a> ExportWork<'a> {
    pub fn new(
        plan: &'a ExportPlan,
        job: &'a Job,
        keys: &'a Arc<Vec<ProcessKeys>>,
        options: &'a Options<'a>,
        directory: &'a Path,
    ) -> Self {
        let (next, is_stopped, done) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::default());
        ExportWork { plan, job, keys, options, directory, next, is_stopped, done }
    }

    /// Writes parts in this thread until no part is left.
    pub fn write_parts(&self) {
        while let Some(part) = self.plan.parts.get(self.next.fetch_add(1, Relaxed)) {
            if self.is_stopped.load(Relaxed) {
                return;
            }
            if let Err(error) = self.write_part(part) {
                self.stop();
                self.lock_done().error.get_or_insert(error);
            }
        }
    }

    /// Makes all threads stop before their next part.
    pub fn stop(&self) {
        self.is_stopped.store(true, Relaxed);
    }

    fn lock_done(&self) -> std::sync::MutexGuard<'_, FinishedParts> {
        self.done.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write_part(&self, part: &PlannedPart) -> Result<()> {
        let node = &self.plan.nodes[part.node].0;
        let mut calls: TablePart<Calls> = TablePart::create(self.directory, node, part.number, self.keys)?;
        let mut marks: TablePart<Marks> = TablePart::create(self.directory, node, part.number, self.keys)?;
        let went_on = |events: u64| {
            (self.options.report_progress)(events);
            !self.is_stopped.load(Relaxed)
        };
        for index in &part.processes {
            let process = &self.job.processes[*index];
            let clock = self.job.clock(process);
            let read = calls::read_process(*index, process, clock, &mut calls, &mut marks, &went_on)?;
            self.lock_done().read.insert(*index, read);
        }
        // Each table has at least one file, because readers take the columns from that file, even if it has
        // no rows.
        let is_first = part.node == 0 && part.number == 0;
        let mut tables = Tables::new();
        calls.finish(is_first, &mut tables)?;
        marks.finish(is_first, &mut tables)?;
        let mut done = self.lock_done();
        tables.into_iter().for_each(|(name, written)| done.tables.entry(name).or_default().add(written));
        Ok(())
    }

    /// Returns the results of all processes, in their order, and the sizes of the tables.
    pub fn into_results(self) -> Result<(Vec<ReadResults>, Tables)> {
        let done = self.done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        match done.error {
            Some(error) => Err(error),
            None => Ok((done.read.into_values().collect(), done.tables)),
        }
    }
}
