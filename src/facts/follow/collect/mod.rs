//! Collects a recording: reads the events of one process after the other, and adds the tables of what is open.
//!
//! [`reading`] reads one process into a [`tally`], and [`asked`] the signals from outside. Nothing here grows with the number of events.

mod asked;
mod reading;
mod tally;

use crate::follow::allocator::Allocators;
use crate::follow::callers::Callers;
use crate::follow::failures::Failures;
use crate::follow::faults::Fired;
use crate::follow::functions::Functions;
use crate::follow::judged::Findings;
use crate::follow::ledger::live;
use crate::follow::ledger::settle::Fate;
use crate::follow::ledger::{Damage, Ledger, Realm, Site};
use crate::follow::marks::Marks;
use crate::follow::peers::Peers;
use crate::follow::pools;
use crate::follow::runtime::MadeBy;
use crate::follow::virtual_memory::VirtualMemory;
use anyhow::{Context, Result};
use cupeer_record::{Forked, Job, Process};
use cupeer_report::Keep;
use cupeer_report::endings::{KILL, is_asking};
use cupeer_report::filter::Filter;
use cupeer_report::lives::{became, began_at};
use cupeer_report::model::Exit;
use cupeer_report::places::Stacks;
use cupeer_rules::Scope;
use cupeer_spec::record::end::End;
use cupeer_spec::record::live::kind;
use cupeer_spec::record::mode;
use reading::Reading;
use std::collections::HashMap;
pub use tally::Tally;

/// What has been read.
pub struct Collected {
    pub functions: Functions,
    pub callers: Callers,
    pub failures: Failures,
    pub findings: Findings,
    pub ledger: Ledger,
    pub fired: Fired,
    pub peers: Peers,
    pub stacks: Stacks,
    pub virtual_memory: VirtualMemory,
    pub made_by: MadeBy,
    pub marks: Marks,
    /// The processes, in the order of the job.
    pub tallies: Vec<Tally>,
    /// What is known of their ends.
    pub fates: Vec<Fate>,
    /// Where their fingerprints mean the same.
    pub realms: Vec<Realm>,
    /// Whether some processes have no record.
    pub lacks_processes: bool,
    /// The forks to which they owe their existence, where their parents had initialized the driver: place, and time.
    pub forks: Vec<Option<(Site, u64)>>,
    /// What they may have made memory with.
    pub allocators: Allocators,
}

/// Reads the whole record.
pub fn collect(job: &Job, filter: &Filter, keep: Keep) -> Result<Collected> {
    let mut all = Collected::new(job, keep);
    // Before their calls are read: what has ended now has written all of them, and its end.
    let alive = job.alive();
    for (index, process) in job.processes.iter().enumerate() {
        let realm = all.realms[index];
        let mut reading = Reading::new(&mut all, filter, index, process, job.clock(process), realm);
        reading.keep(keep);
        reading.run().with_context(|| format!("failed to read {}", process.path.display()))?;
        let tally = reading.finish();
        all.tallies.push(tally);
        let fork = fork(job, index, process, &mut all.stacks);
        all.forks.push(fork);
    }
    all.failures.settle();
    let processes = job.processes.iter().zip(&all.tallies).zip(alive);
    all.fates = processes.map(|((process, tally), alive)| fate(job, filter, process, tally, alive)).collect();
    if filter.until().is_none() {
        all.add_tables(job);
    }
    let Collected { peers, ledger, virtual_memory, .. } = &mut all;
    peers.add_ipc(ledger);
    virtual_memory.add_reach(peers);
    pools::add_reach(virtual_memory.processes(), peers);
    Ok(all)
}

/// The fork to which a process owes its existence, if its parent is known to have initialized the driver.
fn fork(job: &Job, index: usize, process: &Process, stacks: &mut Stacks) -> Option<(Site, u64)> {
    let Forked { monotonic, frames, python, .. } = process.forked.as_ref()?;
    // Its libraries are described when its record begins, later than the fork.
    let stack = stacks.number(index, u64::MAX, frames, python);
    let at =
        if frames.is_empty() { began_at(job, process) } else { job.clock(process).realtime_of(*monotonic) };
    Some((Site { tid: process.header.pid, seq: 0, stack, is_judged: false }, at))
}

/// The end of a process, as far as the time that is asked for shows it.
fn fate(job: &Job, filter: &Filter, process: &Process, tally: &Tally, alive: Option<bool>) -> Fate {
    // The recorder looks at the clock from time to time, also where nothing is called.
    let [begun, later] =
        [process.header.first, process.header.last].map(|moment| job.clock(process).realtime(moment.ticks));
    // What is asked for may be a time at which it still ran.
    let goes_on = tally.goes_on || !filter.is_past(later);
    let later = filter.until().map_or(later, |until| later.min(until));
    // Its pid may live on as that of another program.
    let (end, _) = became(process, tally.last_seen, job.clock(process));
    let alive = if end == End::Executed { Some(false) } else { alive };
    let is_ended_on_purpose = !goes_on && alive != Some(true) && tally.is_ended_on_purpose;
    let alive = if goes_on { Some(true) } else { alive };
    let (exit, span) = (Exit::of(alive, end, false), process.ended());
    let [after, before] = [span.after, span.before].map(|time| job.clock(process).realtime_of(time));
    let ended_by = Some(before).filter(|_| span.before != 0 && alive != Some(true));
    let last_seen = tally.last_seen.unwrap_or(begun).max(later);
    let ran_until = if span.after == 0 || goes_on { last_seen } else { last_seen.max(after) };
    // The clock of the calls may be a little ahead of the launcher's, which knows until when it ran.
    let is_ahead = |ended: &u64| ran_until > *ended;
    let ran_until = ended_by.filter(is_ahead).map_or(ran_until, |ended| after.max(begun).min(ended));
    let asked = asked::of(job, process, exit, (ran_until, ended_by));
    let is_fault = asked.is_none() && exit.signal.is_none_or(|signal| signal != KILL && !is_asking(signal));
    Fate {
        proc: process.proc.as_str().into(),
        alive,
        last_seen,
        ran_until,
        ended_by,
        asked,
        is_full: process.header.mode == mode::FULL,
        has_lost: process.has_losses() || tally.problem.is_some(),
        has_gaps: process.has_dropped(),
        is_ended_on_purpose,
        has_failed: !is_ended_on_purpose && is_fault && exit.is_failure(),
    }
}

/// Numbers for what fingerprints have in common: the boot of a host, and a key.
fn realms(job: &Job) -> Vec<Realm> {
    let mut known = HashMap::new();
    let mut number = |process: &Process| {
        let next = known.len() as Realm;
        *known.entry((process.header.boot_id, process.header.key_check)).or_insert(next)
    };
    job.processes.iter().map(&mut number).collect()
}

/// What tells a process from all others: boot, pid namespace, pid, start, and which program it executes.
pub type Identity = ([u8; 16], u64, u32, u64, u32);

/// The processes by their identities.
pub fn identities(job: &Job) -> HashMap<Identity, usize> {
    let identity = |(index, process): (usize, &Process)| {
        let header = &process.header;
        ((header.boot_id, header.pid_ns, header.pid, header.started, header.image), index)
    };
    job.processes.iter().enumerate().map(identity).collect()
}

impl Collected {
    /// Nothing yet, of a job.
    fn new(job: &Job, keep: Keep) -> Collected {
        let damage = Damage::of(job.faults.iter().flat_map(|file| &file.damaged).copied());
        Collected {
            functions: Functions::new(),
            callers: Callers::default(),
            failures: Failures::new(keep.failures),
            findings: Findings::new(&job.processes),
            ledger: Ledger::with(damage),
            fired: Fired::default(),
            peers: Peers::default(),
            stacks: Stacks::default(),
            virtual_memory: VirtualMemory::default(),
            made_by: MadeBy::default(),
            marks: Marks::default(),
            tallies: Vec::new(),
            fates: Vec::new(),
            realms: realms(job),
            lacks_processes: job.lacks_processes(),
            forks: Vec::new(),
            allocators: Allocators::new(&job.processes),
        }
    }

    /// Whether all calls were kept of the processes whose fingerprints mean the same: else one may have exported, or joined,
    /// something without a trace.
    pub fn knows_all(&self, realm: Realm) -> bool {
        let of_realm = self.fates.iter().zip(&self.realms).filter(|(_, its)| **its == realm);
        !self.lacks_processes && of_realm.into_iter().all(|(fate, _)| fate.is_full && !fate.has_lost)
    }

    /// Whether calls are missing from the record on which a rule may rest in a call of these processes.
    pub fn lacks_calls(&self, scope: Scope, processes: &[usize]) -> bool {
        let is_of_realm = |other: usize| processes.iter().any(|its| self.realms[*its] == self.realms[other]);
        match scope {
            Scope::Arguments | Scope::Call | Scope::EarlierCall | Scope::CallElsewhere => false,
            Scope::Process => processes.iter().any(|process| self.fates[*process].has_lost),
            Scope::Processes => {
                self.lacks_processes
                    || (0..self.fates.len()).any(|other| self.fates[other].has_lost && is_of_realm(other))
            }
        }
    }

    fn add_tables(&mut self, job: &Job) {
        let processes = identities(job);
        for table in &job.tables {
            for (index, process) in job.processes.iter().enumerate() {
                // A table that was full does not know all.
                if process.header.boot_id == table.boot_id && !self.fates[index].is_full && table.refused == 0
                {
                    self.ledger.forget_open(index);
                }
            }
            for entry in &table.entries {
                let key = (table.boot_id, entry.pid_ns, entry.pid, entry.started, entry.image);
                let Some(index) = processes.get(&key).copied() else { continue };
                let at = job.clock(&job.processes[index]).realtime(entry.since);
                let is_full = self.fates[index].is_full;
                if kind::is_access(entry.kind) {
                    if !is_full {
                        self.peers.live(index, live::uuid(entry.uuid), live::uuid(entry.peer_uuid), at);
                    }
                    continue;
                }
                let stack = self.stacks.number(index, entry.since, entry.return_addresses(), &[]);
                self.ledger.live(entry, index, self.realms[index], at, stack, is_full);
            }
        }
    }
}
