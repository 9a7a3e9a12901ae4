//! Builds the report of a job from the reduced data of all its processes.

use super::JobPart;
use crate::follow::callers;
use crate::follow::functions::{self, FunctionSum};
use crate::infer::ProcessSummary;
use cupeer_report::filter::Filter;
use cupeer_report::model::{Device, Finding, Handle, Process, Report, SCHEMA, State, Uuid};
use cupeer_report::verdict;
use cupeer_rules::Tells;
use cupeer_spec::uuid;
use std::collections::{BTreeMap, HashMap};

impl JobPart {
    /// Returns the report.
    pub fn report(mut self, filter: &Filter) -> Report {
        let members: Vec<ProcessSummary> = self.processes.iter().map(summarize_process).collect();
        let rank_of = |(i, member): (usize, &ProcessSummary)| member.rank.filter(|_| filter.has_process(i));
        let rank_of: Vec<Option<u32>> = members.iter().enumerate().map(rank_of).collect();
        let sums: HashMap<&str, &FunctionSum> = self.functions.iter().map(|sum| (&*sum.function, sum)).collect();
        let rows = self.found.join_rows(&members, |name| sums.get(name).map(|sum| &sum.by_process[..]));
        let findings: Vec<Finding> = rows.into_iter().map(|row| row.finding).collect();
        let suppressed = findings.iter().filter_map(|finding| Some((finding.suppressed_by.as_ref()?, finding.count)));
        let suppressions = filter.suppressions.rows_with_counts(suppressed);
        self.record.hosts = host_names(&self.processes);
        let devices = unique_devices(self.devices, &self.processes);
        let mut report = Report {
            schema: SCHEMA,
            record: self.record,
            functions: functions::rows(&self.functions, &rank_of),
            callers: callers::rows(self.callers),
            callers_more: self.callers_more,
            processes: self.processes,
            devices,
            findings,
            suppressions,
            faults: self.faults,
            handles: self.handles,
            handles_more: self.handles_more,
            handles_more_bytes: self.handles_more_bytes,
            allocations: self.allocations,
            memory: self.memory,
            memory_over_time: self.memory_over_time,
            pools: self.pools,
            leaks: self.leaks,
            peers: self.peers,
            failures: self.failures,
            failures_more: self.failures_more,
            failure_groups: self.failure_groups,
            clues: self.clues,
            marks: self.marks,
            marks_more: self.marks_more,
            escaped: self.escaped,
            unnamed: self.unnamed,
            source_lines: Vec::new(),
        };
        mark_freed_handles(&mut report);
        verdict::grade_findings(&mut report, filter.error_on.as_ref());
        filter.remove_unselected(&mut report);
        verdict::keep_clues(&mut report);
        report.processes.sort_by_key(|process| (process.rank.is_none(), process.rank, process.began_ns));
        report
    }
}

/// Sets the state of handles that were freed while open, according to findings of the freeing calls. For an importer that has
/// ended since, the recording alone does not show how long it had a handle open.
fn mark_freed_handles(report: &mut Report) {
    let told = report.findings.iter().filter(|finding| finding.states_fact(Tells::FreedWhileOpen));
    let freed: Vec<_> = told.flat_map(|finding| &finding.objects).filter_map(|object| object.fingerprint).collect();
    let is_open = |state: State| matches!(state, State::Open | State::OpenAtExit);
    for handle in report.handles.iter_mut().filter(|handle| freed.contains(&handle.fingerprint)) {
        let opens = handle.opens.iter_mut().map(|open| &mut open.state);
        opens
            .chain([&mut handle.state])
            .filter(|state| is_open(**state))
            .for_each(|state| *state = State::FreedWhileOpen);
    }
    report.handles.sort_by_key(Handle::sort_key);
}

fn summarize_process(process: &Process) -> ProcessSummary {
    ProcessSummary { proc: process.proc.clone(), rank: process.rank, has_injected: process.injected > 0 }
}

/// Returns the names of the hosts. If two hosts have the same name, the begin of the boot id is added.
fn host_names(processes: &[Process]) -> Vec<String> {
    let mut boots: BTreeMap<&str, &str> = BTreeMap::new();
    for process in processes {
        boots.entry(&process.boot_id).or_insert(&process.host);
    }
    let host = |(boot, host): (&&str, &&str)| {
        let is_ambiguous = host.is_empty() || boots.values().filter(|other| *other == host).count() > 1;
        let boot = boot.get(..8).unwrap_or(boot);
        match is_ambiguous {
            true => format!("{host}/boot-{boot}").trim_start_matches('/').to_owned(),
            false => (*host).to_owned(),
        }
    };
    let mut hosts: Vec<String> = boots.iter().map(host).collect();
    hosts.sort_unstable();
    hosts
}

/// Returns each device once, with its number.
fn unique_devices(all: Vec<Device>, processes: &[Process]) -> Vec<Device> {
    let mut by_uuid = BTreeMap::new();
    for device in all {
        by_uuid.entry(device.uuid).or_insert(device);
    }
    let mut devices: Vec<Device> = by_uuid.into_values().collect();
    let mut numbers = device_numbers(processes);
    devices.iter_mut().for_each(|device| device.number = numbers.remove(&device.uuid).flatten());
    devices.sort_by(|a, b| (&a.pci, a.uuid).cmp(&(&b.pci, b.uuid)));
    devices
}

/// Returns the number of each device; `None` if processes disagree on the number, or if another device of the host has it, too:
/// processes with different values of CUDA_VISIBLE_DEVICES may disagree.
fn device_numbers(processes: &[Process]) -> HashMap<Uuid, Option<u32>> {
    let mut by_device: HashMap<Uuid, Option<u32>> = HashMap::new();
    let mut by_number: HashMap<(&str, u32), Uuid> = HashMap::new();
    let mut disputed = Vec::new();
    for process in processes {
        let visible = process.variables.get("CUDA_VISIBLE_DEVICES").map(String::as_str);
        for device in &process.devices {
            let number =
                u32::try_from(device.ordinal).ok().and_then(|ordinal| uuid::unrestricted_number(ordinal, visible));
            if *by_device.entry(device.uuid).or_insert(number) != number {
                disputed.push(device.uuid);
            }
            let Some(number) = number else { continue };
            let known = *by_number.entry((&process.boot_id, number)).or_insert(device.uuid);
            if known != device.uuid {
                disputed.extend([known, device.uuid]);
            }
        }
    }
    for uuid in disputed {
        by_device.insert(uuid, None);
    }
    by_device
}
