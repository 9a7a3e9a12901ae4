//! The recording of a run, as a sweep reads it: the calls that could fail, whether one was made to fail, and the objects that
//! were left.
//!
//! What belongs here: reading. A rule that matches every call and does nothing but be recorded makes each call's stack
//! and process known; it stands in the plan of every run.

use super::held::{self, HeldMemory};
use anyhow::{Result, anyhow};
use cupeer_record::{Event, Job, Outcome, Process};
use cupeer_report::places::PlaceTable;
use cupeer_report::symbols::Symbols;
use cupeer_spec::record::live::{Entry, ended, kind, library_name};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

/// Name of the rule that counts calls.
pub const COUNT: &str = "count";
/// Name of the rule that makes the call of the run fail.
pub const FAIL: &str = "fail";

/// A place that makes calls, described by what is the same in every run.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CallSite {
    /// File name of the program that makes the calls.
    pub program: String,
    pub rank: Option<u32>,
    pub function: String,
    /// Hash of the call stack; 0 if it is unknown.
    pub stack: u64,
}

/// Position of a process in the order in which processes reached the driver, and a place in that process.
pub type SiteOfProcess = (u16, CallSite);

#[derive(Clone, Default, Debug)]
pub struct SiteCalls {
    pub count: u64,
    /// Library or function that makes the calls, and the offset in the library.
    pub caller: Option<(String, u64)>,
}

#[derive(Clone, Default, Debug)]
pub struct RunObservations {
    pub processes: usize,
    pub calls: BTreeMap<SiteOfProcess, SiteCalls>,
    /// True if the fault of the run fired.
    pub fired: bool,
    /// Functions whose calls have not returned.
    pub pending: Vec<String>,
    /// Number of open objects at the end, by description.
    pub open: BTreeMap<String, u64>,
    /// Number of ranges of virtual memory at the end that are not shared, by description. Many programs leave them to the end
    /// of the process.
    pub held: BTreeMap<String, u64>,
    /// Descriptions in `open` and `held` of objects that the program forgot: their process released other objects (after the
    /// fault if there was one). If a process just ends, the system releases its objects, and none of them counts as
    /// forgotten.
    pub forgotten: BTreeSet<String>,
    /// Broken rules, each with the function whose call broke the rule.
    pub broken: BTreeSet<String>,
}

/// Reads the recording of a run. Finds the callers of places for which `known` is false. If no process reached the driver,
/// the result is empty.
pub fn read_recording(directory: &Path, known: &dyn Fn(&CallSite) -> bool) -> Result<RunObservations> {
    let job = match Job::open(directory) {
        Ok(job) => job,
        Err(cupeer_record::Error::NoRecord(_)) => return Ok(RunObservations::default()),
        Err(error) => return Err(anyhow!("{error}")),
    };
    let mut counted = RunObservations { processes: job.processes.len(), ..RunObservations::default() };
    let mut frames = HashMap::new();
    let mut followed = Vec::new();
    for (index, process) in job.processes.iter().enumerate() {
        followed.push(counted.follow_process(index, process, &mut frames)?);
    }
    counted.name_callers(&job, directory, &frames, known);
    // Find the processes that release objects, after the fault if there was one.
    let realtime = |process: &Process, ticks: u64| job.clock(process).realtime(ticks);
    let all = || job.processes.iter().zip(&followed);
    let failed = all().filter_map(|(process, one)| Some(realtime(process, one.fault_time?))).min().unwrap_or(0);
    let gives_back = |process: &Process, one: &ProcessObservations| {
        one.last_release.is_some_and(|ticks| realtime(process, ticks) > failed)
    };
    let who = |process: &Process| {
        let header = &process.header;
        (header.pid_ns, header.pid, header.started, header.image)
    };
    let givers: HashSet<_> =
        all().filter(|(process, one)| gives_back(process, one)).map(|(process, _)| who(process)).collect();
    for (_, one) in all().filter(|(process, _)| givers.contains(&who(process))) {
        counted.forgotten.extend(one.held_at_end.iter().cloned());
    }
    for entry in job.tables.iter().flat_map(|table| &table.entries) {
        if let Some(what) = describe_open_object(entry) {
            if givers.contains(&(entry.pid_ns, entry.pid, entry.started, entry.image)) {
                counted.forgotten.insert(what.clone());
            }
            *counted.open.entry(what).or_default() += u64::from(entry.count.max(1));
        }
    }
    counted.broken = cupeer_facts::find_broken_rules(directory)?;
    Ok(counted)
}

/// First call from each place: the index of the process, the time of the call, and its stack frames.
type FirstCalls = HashMap<SiteOfProcess, (usize, u64, Vec<u64>)>;

/// Observations about one process in addition to the counts.
#[derive(Default)]
struct ProcessObservations {
    /// Time at which the process's call first failed by the fault of the run.
    fault_time: Option<u64>,
    /// Time at which the process last released an object.
    last_release: Option<u64>,
    /// Descriptions of the virtual memory that the process still holds at its end.
    held_at_end: Vec<String>,
}

impl RunObservations {
    /// Returns the open objects that are not forgotten: the system took them back when their processes ended.
    pub fn reclaimed_objects<'a>(&'a self, open: impl Iterator<Item = &'a String>) -> impl Iterator<Item = &'a str> {
        open.filter(|what| !self.forgotten.contains(*what)).map(String::as_str)
    }

    fn follow_process(
        &mut self,
        index: usize,
        process: &Process,
        frames: &mut FirstCalls,
    ) -> Result<ProcessObservations> {
        let mut followed = ProcessObservations::default();
        let (mut pending, mut held) = (BTreeMap::new(), HeldMemory::default());
        let program = file_name(process.program());
        for event in process.events()? {
            let call = match event {
                Event::Call(call) => call,
                Event::LateEnd { stream, seq, .. } => {
                    pending.remove(&(stream, seq));
                    continue;
                }
                Event::Mark { .. } | Event::Use(_) => continue,
            };
            let name = process.function_name(call.number);
            held.follow_call(&call);
            if call.function.is_some_and(|function| function.spec().is_release()) {
                followed.last_release = followed.last_release.max(Some(call.start));
            }
            if call.outcome == Outcome::Pending {
                pending.insert((call.stream, call.seq), name.to_owned());
            }
            for hit in &call.details.hits {
                if is_rule_named(&hit.fault_name, FAIL) {
                    self.fired = true;
                    followed.fault_time = Some(followed.fault_time.map_or(call.start, |at| at.min(call.start)));
                }
                if is_rule_named(&hit.fault_name, COUNT) {
                    let site = CallSite {
                        program: program.to_owned(),
                        rank: process.rank(),
                        function: name.to_owned(),
                        stack: hit.what.stack,
                    };
                    let seen = (hit.what.process, site);
                    frames.entry(seen.clone()).or_insert_with(|| {
                        let own = &call.details.frames;
                        let frames = if own.is_empty() { vec![call.caller] } else { own.clone() };
                        (index, call.start, frames)
                    });
                    self.calls.entry(seen).or_default().count += 1;
                }
            }
        }
        self.pending.extend(pending.into_values());
        self.add_remaining(process, &held, &mut followed.held_at_end);
        Ok(followed)
    }

    /// Adds what a process still held at its end, with the code that got it.
    fn add_remaining(&mut self, process: &Process, held: &HeldMemory, held_at_end: &mut Vec<String>) {
        for (object, holding) in held.remaining_objects() {
            let held::CallOrigin(caller, ticks) = holding.since;
            let library = process.library_at(caller, ticks);
            let offset = caller.wrapping_sub(library.map_or(0, |library| library.base));
            let library = library.map_or("", |library| file_name(&library.path));
            let by = describe_owner(library, offset, process.rank());
            let (open, what) = match holding.is_foreign {
                true => (&mut self.open, format!("{} of another process {by}", object.word())),
                false => (&mut self.held, format!("{} {by}", object.word())),
            };
            held_at_end.push(what.clone());
            *open.entry(what).or_default() += holding.count;
        }
    }

    /// Finds the callers of the counted calls.
    fn name_callers(&mut self, job: &Job, directory: &Path, frames: &FirstCalls, known: &dyn Fn(&CallSite) -> bool) {
        let new = self.calls.iter_mut().filter(|((_, site), _)| !known(site));
        let mut new: Vec<(&SiteOfProcess, &mut SiteCalls)> = new.collect();
        if new.is_empty() {
            return;
        }
        let mut symbols = Symbols::of_record(directory, &job.processes);
        let mut places = PlaceTable::new(&job.processes, &mut symbols);
        for (seen, calls) in &mut new {
            let Some((process, ticks, frames)) = frames.get(*seen) else { continue };
            let (caller, _) = places.place_by_addresses(*process, *ticks, frames);
            calls.caller = Some((caller.long(), caller.offset));
        }
    }
}

/// Returns true if a rule of any plan has this name.
fn is_rule_named(rule: &str, name: &str) -> bool {
    rule.rsplit_once('/').map_or(rule, |(_, own)| own) == name
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns a description of the object of a live table's entry, with its owner; `None` if the object was released.
fn describe_open_object(entry: &Entry) -> Option<String> {
    let is_shared = kind::export_kind_of(entry.kind).is_some();
    let object = kind::exported_object(entry.kind).or(kind::opened_object(entry.kind))?;
    // Virtual memory is followed by the calls instead.
    if object.is_virtual_memory() {
        return None;
    }
    // Access to a peer is not counted.
    if entry.ended & ended::ENDED != 0 || entry.count == 0 && is_shared {
        return None;
    }
    let what = match kind::exported_object(entry.kind) {
        Some(object) => format!("exported {}", object.word()),
        None if is_shared => format!("{} of another process", object.word()),
        None => object.word().to_owned(),
    };
    let library = String::from_utf8_lossy(library_name(&entry.library));
    let rank = (entry.rank != u32::MAX).then_some(entry.rank);
    Some(format!("{what} {}", describe_owner(&library, entry.offset, rank)))
}

/// Returns the owner of an object in words: the place of the call in its library, and the rank of the process.
fn describe_owner(library: &str, offset: u64, rank: Option<u32>) -> String {
    let rank = rank.map_or(String::new(), |rank| format!(", rank {rank}"));
    format!("({library}+{offset:#x}{rank})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_known_by_their_own_names() {
        for (rule, wanted) in [("count", true), ("plan/count", true), ("count/1", false), ("recount", false)] {
            assert_eq!(is_rule_named(rule, COUNT), wanted, "{rule}");
        }
    }
}
