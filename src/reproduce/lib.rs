//! `cupeer reproduce`: a recording as one C file that makes the same sharing calls, in as many processes.
//!
//! In: a recording. Out: the file. Begin with `text` in this file: `calls` reads the calls of all processes, `plan` makes steps of
//! them, whose objects are variables, `order` adds the waits between processes, and `write` prints the file.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `args`: the options.
//! - `calls`: the recorded calls.
//! - `plan`: the steps.
//! - `order`: the waits between processes.
//! - `fold`: loops.
//! - `head`: the comment at the head of the file.
//! - `write`: the file.

#![allow(missing_docs, reason = "only the command uses this crate")]

pub mod args;
mod calls;
mod fold;
mod head;
mod order;
mod plan;
mod write;

use anyhow::{Result, bail, ensure};
use args::ReproduceArgs;
use calls::RecordedCall;
use cupeer_console::output;
use cupeer_record::{Job, Process};
use cupeer_recordings::made;
use cupeer_report::Keep;
use cupeer_report::filter::Filter;
use cupeer_report::names::counted;
use cupeer_spec::record::end::RecordedEnd;
use plan::Plan;
use std::collections::{HashMap, HashSet};
use std::io::Write;
use std::process::ExitCode;

/// Runs the command on an opened recording.
pub fn command(job: &Job, args: &ReproduceArgs) -> Result<ExitCode> {
    if let Some(output) = &args.output {
        made::refuse_existing(output, args.force)?;
    }
    let (text, left_out) = build_file(job)?;
    if left_out > 0 {
        output::print_note(&format!(
            "{} could not be repeated; the head of the file lists them",
            counted(left_out, "call")
        ));
    }
    let Some(path) = &args.output else { return output::print_as_is(&text) };
    let mut file = made::create_temporary(path, ".reproduce")?;
    file.write_all(text.as_bytes())?;
    made::rename_temporary(file, path, args.force)?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the C file, and the number of calls that it does not repeat.
fn build_file(job: &Job) -> Result<(String, u64)> {
    for problem in &job.problems {
        output::print_problem(&problem.to_string());
    }
    let mut calls = calls::read_calls(job)?;
    check_same_host(job, &calls)?;
    let processes = number_processes(job, &mut calls);
    let forked: Vec<bool> = processes.iter().map(|process| process.forked.is_some()).collect();
    let mut plan = Plan::new(&calls, &forked);
    let mut ends: Vec<(u64, usize)> =
        processes.iter().enumerate().map(|(number, process)| (end_time(job, process), number)).collect();
    for RecordedCall { process, start, .. } in &calls {
        ends[*process].0 = ends[*process].0.max(start + 1);
    }
    ends.sort_unstable();
    let mut ends = ends.into_iter().peekable();
    for recorded in &calls {
        while let Some((_, number)) = ends.next_if(|(time, _)| *time < recorded.start) {
            plan.add_end(number, end_statement(processes[number]));
        }
        plan.add_call(recorded);
    }
    ends.for_each(|(_, number)| plan.add_end(number, end_statement(processes[number])));
    let left_out = plan.left_out.values().sum();
    ensure!(plan.steps.len() > processes.len(), "the recording has no call that a C program can repeat");
    let around = order::plan_waits(&plan.steps, plan.variables(), processes.len());
    let report = cupeer_facts::read(job, &Filter::all(job), Keep::default(), None)?;
    let head = head::build_head(&processes, &report, &plan);
    Ok((write::format_file(&head, &processes, &plan, &around), left_out))
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
