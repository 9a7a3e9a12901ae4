//! A recording as a C program: its processes, its plan, and its text.

use crate::calls::{self, RecordedCall};
use crate::head::ShrunkFrom;
use crate::plan::{Plan, Planner};
use crate::{head, order, write};
use anyhow::{Result, bail, ensure};
use cupeer_console::output;
use cupeer_record::{Job, Process};
use cupeer_report::Keep;
use cupeer_report::filter::Filter;
use cupeer_report::model::Report;
use cupeer_spec::record::end::RecordedEnd;
use cupeer_topology::PRESETS;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;

/// Returns the machine that the user named or, without one, simulated machines with as many devices as the recording names.
pub fn choose_machines(job: &Job, named: Option<OsString>) -> Vec<Option<OsString>> {
    if named.is_some() {
        return vec![named];
    }
    let ordinals = job.processes.iter().flat_map(|process| &process.devices).map(|device| device.ordinal + 1);
    let devices = ordinals.max().unwrap_or(2).max(2);
    let kinds = PRESETS.iter().filter_map(|preset| preset.pattern.strip_suffix(":N"));
    kinds.map(|kind| Some(format!("{kind}:{devices}").into())).collect()
}

/// A recording as a C program.
pub struct Reproduction<'a> {
    processes: Vec<&'a Process>,
    pub plan: Plan,
    pub report: Report,
    pub shrunk_from: Option<ShrunkFrom>,
}

impl<'a> Reproduction<'a> {
    /// Plans the program.
    pub fn plan(job: &'a Job) -> Result<Reproduction<'a>> {
        for problem in &job.problems {
            output::print_problem(&problem.to_string());
        }
        let mut calls = calls::read_calls(job)?;
        check_same_host(job, &calls)?;
        let processes = number_processes(job, &mut calls);
        let plan = plan_calls(job, &processes, &calls);
        ensure!(plan.call_count() > 0, "the recording has no call that a C program can repeat");
        let report = cupeer_facts::read(job, &Filter::all(job), Keep::default(), None)?;
        Ok(Reproduction { processes, plan, report, shrunk_from: None })
    }

    /// Returns the number of calls that the file does not repeat, although it repeats the whole recording.
    pub fn left_out_count(&self) -> u64 {
        if self.shrunk_from.is_some() { 0 } else { self.plan.left_out.values().sum() }
    }

    /// Returns the C file. A process without steps is not part of it.
    pub fn format(&self) -> String {
        let has_steps = |number: &usize| self.plan.steps.iter().any(|step| step.process == *number);
        let kept: Vec<usize> = (0..self.processes.len()).filter(has_steps).collect();
        let plan = self.plan.with_processes(&kept);
        let processes: Vec<&Process> = kept.iter().map(|number| self.processes[*number]).collect();
        let around = order::plan_waits(&plan.steps, &plan.variables, processes.len());
        let head = head::build_head(&processes, &self.report, &plan, self.shrunk_from.as_ref());
        write::format_file(&head, &processes, &plan, &around)
    }
}

/// Plans the calls of all processes, and their ends.
fn plan_calls(job: &Job, processes: &[&Process], calls: &[RecordedCall]) -> Plan {
    let forked: Vec<bool> = processes.iter().map(|process| process.forked.is_some()).collect();
    let mut planner = Planner::new(calls, &forked);
    let mut ends: Vec<(u64, usize)> =
        processes.iter().enumerate().map(|(number, process)| (end_time(job, process), number)).collect();
    for RecordedCall { process, start, .. } in calls {
        ends[*process].0 = ends[*process].0.max(start + 1);
    }
    ends.sort_unstable();
    let mut ends = ends.into_iter().peekable();
    for recorded in calls {
        while let Some((_, number)) = ends.next_if(|(time, _)| *time < recorded.start) {
            planner.add_end(number, end_statement(processes[number]));
        }
        planner.add_call(recorded);
    }
    ends.for_each(|(_, number)| planner.add_end(number, end_statement(processes[number])));
    planner.finish()
}

/// Fails if a process opens a handle that only a process of another host exported.
fn check_same_host(job: &Job, calls: &[RecordedCall]) -> Result<()> {
    let mut exporters: HashMap<u64, HashSet<[u8; 16]>> = HashMap::new();
    let boot = |process: usize| job.processes[process].header.boot_id;
    for (handle, process) in calls.iter().filter_map(|recorded| recorded.shared(true)) {
        exporters.entry(handle).or_default().insert(boot(process));
    }
    for (handle, process) in calls.iter().filter_map(|recorded| recorded.shared(false)) {
        if exporters.get(&handle).is_some_and(|boots| !boots.contains(&boot(process))) {
            bail!("the recording has processes of several hosts that share memory; one C program runs on one host");
        }
    }
    Ok(())
}

/// Returns the processes with calls, in the order of their ranks, then of their first calls, and numbers the calls so.
fn number_processes<'a>(job: &'a Job, calls: &mut [RecordedCall]) -> Vec<&'a Process> {
    let mut indexes: Vec<usize> = Vec::new();
    for recorded in &*calls {
        if !indexes.contains(&recorded.process) {
            indexes.push(recorded.process);
        }
    }
    indexes.sort_by_key(|index| job.processes[*index].rank().unwrap_or(u32::MAX));
    let numbers: HashMap<usize, usize> = indexes.iter().enumerate().map(|(number, index)| (*index, number)).collect();
    calls.iter_mut().for_each(|recorded| recorded.process = numbers[&recorded.process]);
    indexes.into_iter().map(|index| &job.processes[index]).collect()
}

/// Returns the time when a process ended, in nanoseconds; the largest number if that is unknown.
fn end_time(job: &Job, process: &Process) -> u64 {
    match process.end_time_span().before {
        0 => u64::MAX,
        time => job.clock(process).realtime_of(time),
    }
}

/// Returns the statement that ends a process.
fn end_statement(process: &Process) -> &'static str {
    match process.end() {
        RecordedEnd::Signal(_) => "kill(getpid(), signals[me]);",
        RecordedEnd::Left(_) | RecordedEnd::Unseen => "_exit(0);",
        _ => "",
    }
}
