//! Findings about processes that were forked after the driver was initialized, and made no recorded call: they failed, or
//! outlived the parent whose device files they inherited.

use super::context::Context;
use crate::follow::collect::Collected;
use crate::follow::functions::FunctionCounts;
use crate::follow::holdings::MemoryHolding;
use crate::follow::ledger::CallSite;
use crate::follow::pending::{PendingFinding, PendingObject};
use cupeer_record::{Job, Process};
use cupeer_report::lives::recording_start;
use cupeer_report::model::Exit;
use cupeer_rules::reason::{Ago, Reason};
use cupeer_rules::{Confidence, Rule, Severity};
use cupeer_spec::function::FnId;
use cupeer_spec::record::meta;
use cupeer_spec::record::slot::finding::role;
use std::cmp::Reverse;

/// A process that was forked after the driver was initialized, and made no recorded call.
pub struct ForkedChild {
    process: usize,
    /// The pid of the process that initialized the driver.
    parent: u32,
    code: Option<u8>,
    /// True if the forked process exited with an error.
    pub has_failed: bool,
}

/// Returns the processes that were certainly forked after the driver was initialized, and made no recorded call.
pub fn forked_after_init<'a>(job: &'a Job, all: &'a Collected) -> impl Iterator<Item = ForkedChild> + 'a {
    let is_silent = |process: &usize| all.stats[*process].events == 0 && all.forks[*process].is_some();
    (0..job.processes.len()).filter(is_silent).filter_map(|process| {
        let of = &job.processes[process];
        let code = Exit::of(all.fates[process].alive, of.end(), false).code;
        let parent = of.forked.as_ref()?.initializer;
        let has_failed = of.text(meta::OUTLIVED).is_none() && code.is_some_and(|code| code != 0);
        Some(ForkedChild { process, parent, code, has_failed })
    })
}

pub fn find_used_after_fork(context: &Context) -> Vec<PendingFinding> {
    forked_after_init(context.job, context.all).filter_map(|late| build_finding(context, &late)).collect()
}

fn build_finding(context: &Context, late: &ForkedChild) -> Option<PendingFinding> {
    let Context { job, all, .. } = context;
    let (process, parent) = (&job.processes[late.process], late.parent);
    let pid = process.header.pid;
    let asked = all.findings.settings[late.process].severity(Rule::UsedAfterFork.spec(), "", None)?;
    let mut holding = Vec::new();
    let (reason, most) = match late.code.filter(|_| late.has_failed) {
        Some(code) => {
            let is_planned = all.stats.iter().any(|stats| stats.injected > 0);
            let most = if is_planned { Severity::Note } else { Severity::Warning };
            (Reason::ForkedAndFailed { pid, parent, code }, most)
        }
        None => {
            let owner = owner_of_files(job, process, parent);
            let noted = process.text(meta::OUTLIVED)?.parse().ok().filter(|ago| *ago != 0);
            let seen = || {
                let ended = job.processes[owner?].end_time_span().before;
                (ended != 0).then(|| process.end_time_span().before.saturating_sub(ended))
            };
            let ago: Option<u64> = noted.or_else(seen);
            if ago.is_some_and(|ago| ago < meta::LEAST_OUTLIVED) {
                return None;
            }
            holding = owner.map_or_else(Vec::new, |owner| memory_at_end(context, owner));
            let (allocations, bytes) = holding.iter().fold((0, 0), |sum, row| (sum.0 + row.count, sum.1 + row.bytes));
            let most = if ago.is_some() { Severity::Warning } else { Severity::Note };
            (Reason::ForkedAndKept { pid, parent, ago: ago.map(Ago), allocations, bytes }, most)
        }
    };
    // The recording of the child began later than the fork.
    let (site, at) = all.forks[late.process]?;
    let call = CallSite { function: FnId::at(0), site, at: at.max(recording_start(job)) };
    let found = PendingFinding::new(&reason, Confidence::Certain, late.process, call, 0);
    // The place that allocated the most memory.
    let made = holding.first().map(|row| PendingObject {
        stack: row.stack,
        bytes: Some(row.bytes),
        ..PendingObject::from_optional_site(role::ALLOCATION, row.process, None, None)
    });
    let (function, objects) = (FunctionCounts::FORK, made.into_iter().collect());
    Some(PendingFinding { function, result: None, objects, recorded_severity: Some(asked.min(most)), ..found })
}

/// Returns the process with a pid whose device files a forked process inherited.
fn owner_of_files(job: &Job, of: &Process, pid: u32) -> Option<usize> {
    let is_it = |other: &Process| {
        (other.header.boot_id, other.header.pid_ns, other.header.pid) == (of.header.boot_id, of.header.pid_ns, pid)
            && other.header.first.monotonic <= of.header.first.monotonic
    };
    job.processes.iter().rposition(is_it)
}

/// Returns the device memory that a process had when it ended, the largest first.
fn memory_at_end(context: &Context, owner: usize) -> Vec<MemoryHolding> {
    let (holdings, fate) = (context.holdings(), &context.all.fates[owner]);
    let at = fate.ended_by.map_or(fate.ran_until.max(fate.last_seen), |end| end.saturating_sub(1));
    let of_device = |device| holdings.memory_at(device, at, |process| process == owner);
    let mut rows: Vec<MemoryHolding> =
        holdings.devices(|process| process == owner).into_iter().flat_map(of_device).collect();
    rows.retain(|row| row.process == owner && row.holders.is_empty());
    rows.sort_by_key(|row| Reverse(row.bytes));
    rows
}

/// Returns the place at which a process was forked after the driver was initialized.
pub fn fork_place(all: &Collected, process: usize) -> Option<PendingObject> {
    let (site, at) = all.forks[process].filter(|(site, _)| !all.stacks.get(site.stack).2.is_empty())?;
    Some(PendingObject::from_optional_site(role::FORKING, process, Some(site), Some(at)))
}
