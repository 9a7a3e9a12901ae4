//! Collects a recording: reads the events of one process after the other, and adds the tables of what is open.
//!
//! [`reader`] reads one process into a [`stats`], and [`signals`] the signals from outside. Nothing here grows with the number
//! of events.

mod reader;
mod signals;
mod stats;

use crate::follow::allocator::Allocators;
use crate::follow::callers::JobCallers;
use crate::follow::failures::Failures;
use crate::follow::faults::FiredFaults;
use crate::follow::functions::FunctionCounts;
use crate::follow::judged::CallFindings;
use crate::follow::ledger::live;
use crate::follow::ledger::settle::ProcessEnd;
use crate::follow::ledger::{DamagedHandles, HandleDomain, HandleEntry, HandleTable, Site};
use crate::follow::marks::Marks;
use crate::follow::memory::ProcessMemory;
use crate::follow::peers::PeerMatrix;
use crate::follow::pools;
use crate::follow::runtime::RuntimeParents;
use crate::follow::virtual_memory::ImportGraph;
use anyhow::{Context, Result};
use cupeer_record::{ForkOrigin, Job, Process};
use cupeer_report::Keep;
use cupeer_report::endings::{KILL, is_end_request};
use cupeer_report::filter::Filter;
use cupeer_report::lives::{end_and_executed_program, process_start};
use cupeer_report::model::Exit;
use cupeer_report::places::StackTable;
use cupeer_rules::Scope;
use cupeer_spec::effect::Object;
use cupeer_spec::record::end::RecordedEnd;
use cupeer_spec::record::live::kind;
use cupeer_spec::record::mode;
use reader::ProcessReader;
pub use stats::ProcessStats;
use std::collections::HashMap;

/// The facts that were read from the events of all processes.
#[derive(Default)]
pub struct Collected {
    pub functions: FunctionCounts,
    pub callers: JobCallers,
    pub failures: Failures,
    pub findings: CallFindings,
    pub ledger: HandleTable,
    pub fired: FiredFaults,
    pub peers: PeerMatrix,
    pub stacks: StackTable,
    /// The memory of each process, in the order of the job.
    pub memories: Vec<ProcessMemory>,
    pub made_by: RuntimeParents,
    pub marks: Marks,
    /// The facts from the events of each process, in the order of the job.
    pub stats: Vec<ProcessStats>,
    /// The end of each process.
    pub fates: Vec<ProcessEnd>,
    /// The domain of each process, in which fingerprints are comparable.
    pub domains: Vec<HandleDomain>,
    /// True if some processes have no recording.
    pub lacks_processes: bool,
    /// For each process, the place and time of the fork that created it, if its parent had initialized the driver before.
    pub forks: Vec<Option<(Site, u64)>>,
    /// The libraries in each process that may have allocated the shared memory.
    pub allocators: Allocators,
}

/// Reads all events of a recording.
pub fn collect(job: &Job, filter: &Filter, keep: Keep) -> Result<Collected> {
    let mut all = Collected::new(job, keep);
    // This is read before the calls: a process that has ended by now has written all its calls and its end.
    let alive = job.are_alive();
    for (index, process) in job.processes.iter().enumerate() {
        let mut reading = ProcessReader::new(&mut all, filter, index, process, job.clock(process), keep);
        reading.read_events().with_context(|| format!("failed to read {}", process.path.display()))?;
        let stats = reading.finish();
        all.stats.push(stats);
        let fork = find_fork(job, index, process, &mut all.stacks);
        all.forks.push(fork);
    }
    all.failures.settle_open_probes();
    let processes = job.processes.iter().zip(&all.stats).zip(alive);
    all.fates = processes.map(|((process, stats), alive)| process_end(job, filter, process, stats, alive)).collect();
    if filter.until().is_none() {
        all.add_live_tables(job);
    }
    let Collected { peers, ledger, memories, .. } = &mut all;
    peers.add_ipc_opens(ledger);
    ImportGraph::new(memories).add_mapping_access(peers);
    pools::add_pool_access(memories, peers);
    Ok(all)
}

/// Returns the place and time of the fork that created a process, if its parent is known to have initialized the driver before.
fn find_fork(job: &Job, index: usize, process: &Process, stacks: &mut StackTable) -> Option<(Site, u64)> {
    let ForkOrigin { monotonic, frames, python, .. } = process.forked.as_ref()?;
    // The process describes its libraries when its record begins, which is later than the fork.
    let stack = stacks.find_or_add(index, u64::MAX, frames, python);
    let at = if frames.is_empty() { process_start(job, process) } else { job.clock(process).realtime_of(*monotonic) };
    Some((Site { tid: process.header.pid, seq: 0, stack, is_judged: false }, at))
}

/// Returns the end of a process, as far as the time range of the filter shows it.
fn process_end(job: &Job, filter: &Filter, process: &Process, stats: &ProcessStats, alive: Option<bool>) -> ProcessEnd {
    // The recorder writes its clock from time to time, even if the process makes no calls.
    let [begun, later] =
        [process.header.first, process.header.last].map(|moment| job.clock(process).realtime(moment.ticks));
    // The filter may end at a time at which the process was still running.
    let goes_on = stats.goes_on || !filter.is_before_end(later);
    let later = filter.until().map_or(later, |until| later.min(until));
    // The pid may belong to another program by now.
    let (end, _) = end_and_executed_program(process, stats.last_seen, job.clock(process));
    let alive = if end == RecordedEnd::Executed { Some(false) } else { alive };
    let is_ended_on_purpose = !goes_on && alive != Some(true) && stats.is_ended_on_purpose;
    let alive = if goes_on { Some(true) } else { alive };
    let (exit, span) = (Exit::of(alive, end, false), process.end_time_span());
    let [after, before] = [span.after, span.before].map(|time| job.clock(process).realtime_of(time));
    let ended_by = Some(before).filter(|_| span.before != 0 && alive != Some(true));
    let last_seen = stats.last_seen.unwrap_or(begun).max(later);
    let ran_until = if span.after == 0 || goes_on { last_seen } else { last_seen.max(after) };
    // The launcher saw the end of the process. The clock of the calls may be a little ahead of the launcher's clock.
    let is_ahead = |ended: &u64| ran_until > *ended;
    let ran_until = ended_by.filter(is_ahead).map_or(ran_until, |ended| after.max(begun).min(ended));
    let asked = signals::find_ending_signal(job, process, exit, (ran_until, ended_by));
    let is_fault = asked.is_none() && exit.signal.is_none_or(|signal| signal != KILL && !is_end_request(signal));
    ProcessEnd {
        proc: process.proc.as_str().into(),
        alive,
        last_seen,
        ran_until,
        ended_by,
        ending_signal: asked,
        is_full: process.header.mode == mode::FULL,
        has_lost: process.has_losses() || stats.problem.is_some(),
        has_gaps: process.has_overwritten(),
        is_ended_on_purpose,
        has_failed: !is_ended_on_purpose && is_fault && exit.is_failure(),
    }
}

/// Returns the domain of each process: a number for each pair of a host's boot and a key of fingerprints.
fn number_domains(job: &Job) -> Vec<HandleDomain> {
    let mut known = HashMap::new();
    let mut number = |process: &Process| {
        let next = known.len() as HandleDomain;
        *known.entry((process.header.boot_id, process.header.key_check)).or_insert(next)
    };
    job.processes.iter().map(&mut number).collect()
}

/// The identity of a process: boot, pid namespace, pid, start time, and number of its program image.
pub type ProcessIdentity = ([u8; 16], u64, u32, u64, u32);

/// Returns the index of each process by its identity.
pub fn index_by_identity(job: &Job) -> HashMap<ProcessIdentity, usize> {
    let identity = |(index, process): (usize, &Process)| {
        let header = &process.header;
        ((header.boot_id, header.pid_ns, header.pid, header.started, header.image), index)
    };
    job.processes.iter().enumerate().map(identity).collect()
}

impl Collected {
    /// Returns the empty facts of a job before its events are read.
    fn new(job: &Job, keep: Keep) -> Collected {
        let damage = DamagedHandles::new(job.faults.iter().flat_map(|file| &file.damaged).copied());
        Collected {
            functions: FunctionCounts::new(),
            failures: Failures::new(keep.failures),
            findings: CallFindings::new(&job.processes),
            ledger: HandleTable::with(damage),
            domains: number_domains(job),
            lacks_processes: job.lacks_processes(),
            allocators: Allocators::new(&job.processes),
            ..Collected::default()
        }
    }

    /// Returns the handle with a fingerprint in the domain of a process.
    pub fn find_handle(&self, process: usize, kind: Object, fingerprint: u64) -> Option<&HandleEntry> {
        self.ledger.find_handle(self.domains[process], kind, fingerprint)
    }

    /// Returns true if all calls of all processes in a domain were recorded. Otherwise, a process may have exported, opened, or
    /// added something that the recording does not show.
    pub fn has_all_calls_of(&self, domain: HandleDomain) -> bool {
        let of_domain = self.fates.iter().zip(&self.domains).filter(|(_, its)| **its == domain);
        !self.lacks_processes && of_domain.into_iter().all(|(fate, _)| fate.has_all_calls())
    }

    /// Returns true if the recording lacks calls that a rule depends on for calls of these processes.
    pub fn lacks_calls(&self, scope: Scope, processes: &[usize]) -> bool {
        let is_of_domain = |other: usize| processes.iter().any(|its| self.domains[*its] == self.domains[other]);
        match scope {
            Scope::Arguments | Scope::Call | Scope::EarlierCall | Scope::CallElsewhere => false,
            Scope::Process => processes.iter().any(|process| self.fates[*process].has_lost),
            Scope::Processes => {
                self.lacks_processes
                    || (0..self.fates.len()).any(|other| self.fates[other].has_lost && is_of_domain(other))
            }
        }
    }

    fn add_live_tables(&mut self, job: &Job) {
        let processes = index_by_identity(job);
        for table in &job.tables {
            for (index, process) in job.processes.iter().enumerate() {
                // A live table that was full at some time does not have all open handles.
                if process.header.boot_id == table.boot_id && !self.fates[index].is_full && table.refused == 0 {
                    self.ledger.close_all_of_process(index);
                }
            }
            for entry in &table.entries {
                let key = (table.boot_id, entry.pid_ns, entry.pid, entry.started, entry.image);
                let Some(index) = processes.get(&key).copied() else { continue };
                let at = job.clock(&job.processes[index]).realtime(entry.since);
                let is_full = self.fates[index].is_full;
                if kind::is_enabled_access(entry.kind) {
                    if !is_full {
                        self.peers.add_live_access(
                            index,
                            live::nonzero_uuid(entry.uuid),
                            live::nonzero_uuid(entry.peer_uuid),
                            at,
                        );
                    }
                    continue;
                }
                let stack = self.stacks.find_or_add(index, entry.since, entry.return_addresses(), &[]);
                self.ledger.add_live_entry(entry, index, self.domains[index], at, stack, is_full);
            }
        }
    }
}
