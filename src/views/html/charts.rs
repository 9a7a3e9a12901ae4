//! The data of the charts, as JSON in the page: numbers and names, in the order of the report's rows.
//!
//! Moments are nanoseconds since the start of the recording.

use super::timeline::{Timeline, TimelineRow};
use super::{Page, ledger};
use crate::pairs;
use crate::text::matrix;
use cupeer_report::endings;
use cupeer_report::model::{ExitKind, Hang, Peer, Process, SharedUse, Uuid};
use cupeer_report::moments::{bytes, number};
use cupeer_report::verdict::{ASKED_TO_END, EndVerdict, Problem, sentence_with_confidence};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// Largest number of devices, or of processes, in a matrix.
const MOST_IN_MATRIX: usize = 128;
/// Number of moments of one kind that are shown: the first ones.
const MOST_MOMENTS: usize = 500;
/// Number of opens of a handle that are shown: the first ones.
const MOST_OPENINGS: usize = 16;
/// Number of processes above which similar processes share a row.
const MANY_PROCESSES: usize = 12;
/// Smallest number of similar processes that share a row.
const FEWEST_ALIKE: usize = 4;

/// Data of all charts.
#[derive(Serialize)]
pub struct ChartData<'a> {
    lasted_ns: u64,
    processes: Vec<ProcessBar>,
    /// Groups of similar processes: the name of the group, and the indexes of its processes.
    groups: Vec<(String, Vec<usize>)>,
    timeline: &'a Timeline,
    moments: Vec<NotableMoment>,
    /// Periods in which no process made progress: start and end.
    stalls: Vec<(u64, u64)>,
    devices: Vec<String>,
    /// Pairs of devices: index of the accessing device, index of the accessed one, and letters of the matrix
    /// cell in the text form.
    pairs: Vec<(usize, usize, String)>,
    /// Opens between processes: exporter, opener, number of opens, number of handles that are open, number of
    /// failed opens.
    openings: Vec<(usize, usize, u64, u64, u64)>,
    /// Processes on devices: index of the process, index of the device.
    places: Vec<(usize, usize)>,
    handles: Vec<HandleLife>,
    unordered: Vec<UnorderedUses>,
    memory: Vec<super::memory::MemoryChart>,
    /// Number of devices and processes that the matrices leave out.
    left_out: usize,
}

#[derive(Serialize)]
struct ProcessBar {
    name: String,
    began_ns: u64,
    until_ns: u64,
    how: String,
    state: ProcessState,
}

/// State of a process.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "lowercase")]
pub enum ProcessState {
    /// The process crashed or was killed.
    Died,
    /// Other processes of a hanging job wait for this one.
    Stuck,
    /// The process has not returned from a call, or waits in a job that hung.
    Hangs,
    /// The process exited with an error.
    Failed,
    /// The process is running.
    Running,
    /// The process ended normally.
    Ended,
}

impl ProcessState {
    /// Returns the style class of the process's row.
    pub fn style_class(self) -> &'static str {
        match self {
            ProcessState::Died | ProcessState::Stuck => "error",
            ProcessState::Hangs | ProcessState::Failed => "warning",
            ProcessState::Running | ProcessState::Ended => "",
        }
    }
}

#[derive(Serialize)]
struct NotableMoment {
    process: usize,
    at_ns: u64,
    kind: &'static str,
    text: String,
    /// Id of the page element to which the mark links.
    id: String,
}

/// Life of a handle from its export to its end.
#[derive(Serialize)]
struct HandleLife {
    name: String,
    exporter: Option<usize>,
    from_ns: Option<u64>,
    freed_ns: Option<u64>,
    /// Time at which the exporter ended without having freed the memory; `None` if it did free it, or is
    /// running.
    gone_ns: Option<u64>,
    state: String,
    /// True if a finding that is a warning or an error names the handle.
    is_found: bool,
    alike: u64,
    /// Last time at which something happened to one of the similar handles.
    last_ns: u64,
    /// Opens of the handle: the opener, the start, the end, and whether the handle was closed. Otherwise, it
    /// ended with its process, or is still open.
    opens: Vec<(Option<usize>, u64, Option<u64>, bool)>,
    /// Processes that failed to open the handle, and the time of each one's last attempt.
    failed: Vec<(Option<usize>, u64)>,
}

/// Two uses of shared memory without an order between them: the process and the time of each.
#[derive(Serialize)]
struct UnorderedUses {
    uses: Vec<(usize, u64)>,
    text: String,
    /// Id of the card of the finding.
    id: String,
}

impl Page<'_> {
    pub fn collect_data<'a>(&self, timeline: &'a Timeline) -> ChartData<'a> {
        let (devices, pairs, left_out) = self.device_pairs();
        let places = self.devices_of_processes(&devices);
        ChartData {
            lasted_ns: self.report.record.ended_ns.saturating_sub(self.report.record.began_ns).max(1),
            processes: self.lives_of_processes(timeline),
            groups: self.similar_processes(),
            timeline,
            moments: self.notable_moments(timeline),
            stalls: self.report.record.hangs.iter().map(|hang| self.stall_period(hang)).collect(),
            devices: devices.iter().map(|uuid| self.brief_view.names.device(Some(*uuid))).collect(),
            pairs,
            openings: self.openings_by_process(),
            places,
            memory: self.memory_charts(),
            handles: self.ledger.lines.iter().map(|line| self.handle_life(line, timeline)).collect(),
            unordered: self.unordered_uses(),
            left_out,
        }
    }

    /// Returns the pairs of uses of shared memory in the findings about missing order.
    fn unordered_uses(&self) -> Vec<UnorderedUses> {
        let found = self.verdict.main_findings.iter().chain(&self.verdict.other_findings);
        let of = found.filter(|finding| finding.accesses.len() == 2).filter_map(|finding| {
            let uses = finding
                .accesses
                .iter()
                .map(|of| Some((self.process_index(&of.proc)?, self.ns_since_start(of.time_ns))));
            let uses = uses.collect::<Option<Vec<_>>>()?;
            let call = |of: &SharedUse| {
                let who = self.brief_view.name_process(&of.proc);
                format!("{who}: {}, {} at offset {}", of.function, bytes(of.bytes), number(of.offset))
            };
            let [first, second] = [0, 1].map(|which| call(&finding.accesses[which]));
            let text = format!("nothing orders these:\n{first}\n{second}");
            Some(UnorderedUses { uses, text, id: self.finding_id(finding) })
        });
        of.take(MOST_MOMENTS).collect()
    }

    pub fn ns_since_start(&self, moment: u64) -> u64 {
        moment.saturating_sub(self.report.record.began_ns)
    }

    /// Returns the start and the end of a hang, which lasts until the job made progress again or was ended.
    fn stall_period(&self, hang: &Hang) -> (u64, u64) {
        let all = self.report.record.ended_ns;
        (
            self.ns_since_start(hang.began_ns()),
            self.ns_since_start(hang.resumed_ns.or(hang.ended_ns).unwrap_or(all).min(all)),
        )
    }

    pub fn process_index(&self, proc: &str) -> Option<usize> {
        self.process_indexes.get(proc).copied()
    }

    /// Returns the state of a process.
    pub fn process_state(&self, process: &Process) -> ProcessState {
        let has = |list: fn(&Hang) -> &Vec<String>| {
            self.report.lasting_hangs().flat_map(list).any(|proc| **proc == *process.proc)
        };
        match self.verdict.judge_end(process) {
            EndVerdict::Died => ProcessState::Died,
            _ if has(|hang| &hang.roots) => ProcessState::Stuck,
            _ if has(|hang| &hang.waiting) => ProcessState::Hangs,
            _ if process.pending.iter().any(|call| call.injected_by.is_none()) => ProcessState::Hangs,
            EndVerdict::Failed(_) => ProcessState::Failed,
            // The exit status may come from a fault plan. The end is then not a problem, but worth a mark.
            EndVerdict::Unknown(_) if self.has_injected_calls() && process.exit.code.is_some_and(|code| code > 0) => {
                ProcessState::Failed
            }
            _ if process.exit.kind == ExitKind::Running => ProcessState::Running,
            _ => ProcessState::Ended,
        }
    }

    /// Returns true if a fault plan changed calls.
    fn has_injected_calls(&self) -> bool {
        self.report.processes.iter().any(|process| process.injected > 0)
    }

    /// Returns the time at which a process ended if it is known; otherwise, the last time at which the
    /// recording shows the process.
    fn process_end(&self, process: &Process, row: &TimelineRow) -> u64 {
        let all = self.ns_since_start(self.report.record.ended_ns);
        match process.exit.kind {
            ExitKind::Running => all,
            _ => row.until_ns.max(process.ended_by_ns.map_or(0, |ended| self.ns_since_start(ended).min(all))),
        }
    }

    fn lives_of_processes(&self, timeline: &Timeline) -> Vec<ProcessBar> {
        let all = self.report.processes.iter().zip(&timeline.rows);
        let row = |(process, row): (&Process, &TimelineRow)| ProcessBar {
            name: match self.report.record.hosts.len() {
                0 | 1 => self.brief_view.name_process(&process.proc),
                _ => format!("{}, {}", self.brief_view.name_process(&process.proc), process.host),
            },
            began_ns: self.ns_since_start(process.began_ns),
            until_ns: self.process_end(process, row),
            how: endings::describe_end(process),
            state: self.process_state(process),
        };
        all.map(row).collect()
    }

    /// Returns groups of similar processes, which ended in the same way and have no findings.
    fn similar_processes(&self) -> Vec<(String, Vec<usize>)> {
        let told = self.verdict.main_findings.iter().flat_map(|finding| &finding.procs);
        let told: HashSet<&str> = told.map(|proc| &**proc).collect();
        let mut alike: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        let is_many = self.report.processes.len() > MANY_PROCESSES;
        for (place, process) in self.report.processes.iter().enumerate().filter(|_| is_many) {
            let state = self.process_state(process);
            if matches!(state, ProcessState::Running | ProcessState::Ended) && !told.contains(&*process.proc) {
                alike.entry((state, endings::describe_end(process), &process.program)).or_default().push(place);
            }
        }
        let all = alike.into_values().filter(|group| group.len() >= FEWEST_ALIKE);
        let named = all.map(|group| {
            let procs = group.iter().map(|place| &*self.report.processes[*place].proc);
            (self.brief_view.names.processes(procs), group)
        });
        named.collect()
    }

    fn notable_moments(&self, timeline: &Timeline) -> Vec<NotableMoment> {
        let mut all = Vec::new();
        let died = self.verdict.deaths.iter().flat_map(Problem::processes).map(|process| (process, "death"));
        let asked = self.verdict.problem_of_kind(&ASKED_TO_END).into_iter().flat_map(Problem::processes);
        for (process, kind) in died.chain(asked.map(|process| (process, "note"))).take(MOST_MOMENTS) {
            let Some(place) = self.process_index(&process.proc) else { continue };
            let (who, how) = (self.brief_view.name_process(&process.proc), endings::describe_end(process));
            let text = format!("{who} {how}{}", self.brief_view.describe_last_call(process));
            let at_ns = self.process_end(process, &timeline.rows[place]);
            all.push(NotableMoment { process: place, at_ns, kind, text, id: format!("p{place}") });
        }
        // The mark of a process's death already names its last call.
        let lives = self
            .report
            .processes
            .iter()
            .enumerate()
            .filter(|(_, process)| self.process_state(process) != ProcessState::Died);
        for (place, process) in lives {
            for call in process.pending.iter().take(MOST_MOMENTS.saturating_sub(all.len())) {
                let who = self.brief_view.name_process(&process.proc);
                let text = format!(
                    "{who} has not returned from {}, {}",
                    call.function,
                    self.brief_view.describe_call_site(call)
                );
                let at_ns = self.ns_since_start(call.since_ns);
                all.push(NotableMoment { process: place, at_ns, kind: "hang", text, id: format!("p{place}") });
            }
        }
        let most = all.len() + MOST_MOMENTS;
        for finding in self.verdict.main_findings.iter().chain(&self.verdict.other_findings) {
            if all.len() >= most {
                break;
            }
            let who = self.brief_view.who_and_how_often(finding);
            let text = format!("{} {}: {who}: {}", finding.severity, finding.rule, sentence_with_confidence(finding));
            // The finding has no times for other processes. Use the time of the first process for those that
            // were running then.
            for place in finding.procs.iter().filter_map(|proc| self.process_index(proc)) {
                let process = &self.report.processes[place];
                let lived = self.ns_since_start(process.began_ns)..=self.process_end(process, &timeline.rows[place]);
                let at_ns = self.ns_since_start(finding.time_ns).min(*lived.end()).max(*lived.start());
                let (text, id) = (text.clone(), self.finding_id(finding));
                if all.len() < most {
                    all.push(NotableMoment { process: place, at_ns, kind: finding.severity, text, id });
                }
            }
        }
        for (number, mark) in self.report.marks.iter().take(MOST_MOMENTS).enumerate() {
            let Some(place) = self.process_index(&mark.proc) else { continue };
            let at_ns = self.ns_since_start(mark.time_ns);
            all.push(NotableMoment {
                process: place,
                at_ns,
                kind: "mark",
                text: mark.text.clone(),
                id: format!("m{number}"),
            });
        }
        all.sort_by_key(|moment| moment.at_ns);
        all
    }

    /// Returns the devices of the matrix, the accesses of processes from one device to another, and the
    /// number of devices that the matrix leaves out.
    fn device_pairs(&self) -> (Vec<Uuid>, Vec<(usize, usize, String)>, usize) {
        let by_pair = pairs::accesses_by_known_pair(self.report);
        let mut devices = pairs::devices_of_pairs(self.report, by_pair.keys());
        let left_out = devices.len().saturating_sub(MOST_IN_MATRIX);
        devices.truncate(MOST_IN_MATRIX);
        let place = |uuid: &Uuid| devices.iter().position(|known| known == uuid);
        let pair = |((from, to), peers): (&(Uuid, Uuid), &Vec<&Peer>)| {
            Some((place(from)?, place(to)?, matrix::format_cell(peers)))
        };
        let pairs = by_pair.iter().filter_map(pair).collect();
        (devices, pairs, left_out)
    }

    fn openings_by_process(&self) -> Vec<(usize, usize, u64, u64, u64)> {
        let mut all: BTreeMap<(usize, usize), (u64, u64, u64)> = BTreeMap::new();
        for handle in &self.report.handles {
            let Some(exporter) = handle.exporter.as_ref().and_then(|proc| self.process_index(proc)) else {
                continue;
            };
            for open in &handle.opens {
                let Some(opener) = self.process_index(&open.proc) else { continue };
                let sums = all.entry((exporter, opener)).or_default();
                sums.0 += open.times + open.earlier;
                sums.1 += u64::from(open.closed_ns.is_none() && open.state != cupeer_report::model::State::Closed);
            }
            for failed in &handle.failed {
                let Some(opener) = self.process_index(&failed.proc) else { continue };
                all.entry((exporter, opener)).or_default().2 += failed.codes.values().sum::<u64>();
            }
        }
        all.into_iter()
            .map(|((exporter, opener), (times, open, failed))| (exporter, opener, times, open, failed))
            .collect()
    }

    /// Returns the devices of each process: those on which the process exported, opened, or allocated memory,
    /// or the only device that it sees.
    fn devices_of_processes(&self, devices: &[Uuid]) -> Vec<(usize, usize)> {
        let mut used: BTreeSet<(usize, Uuid)> = BTreeSet::new();
        let mut uses = |proc: &str, device: Option<Uuid>| {
            used.extend(self.process_index(proc).zip(device));
        };
        for handle in &self.report.handles {
            if let Some(exporter) = &handle.exporter {
                uses(exporter, handle.device);
            }
            handle.opens.iter().for_each(|open| uses(&open.proc, open.device));
        }
        self.report.allocations.devices.iter().filter(|row| row.made > 0).for_each(|row| uses(&row.proc, row.device));
        for process in &self.report.processes {
            if let [only] = &process.devices[..] {
                uses(&process.proc, Some(only.uuid));
            }
        }
        let place = |uuid: &Uuid| devices.iter().position(|known| known == uuid);
        used.iter().filter_map(|(process, uuid)| Some((*process, place(uuid)?))).collect()
    }

    /// Returns the time at which a process ended; `None` if it is running.
    fn known_end(&self, proc: &str, timeline: &Timeline) -> Option<u64> {
        let place = self.process_index(proc)?;
        let process = &self.report.processes[place];
        let is_running = process.exit.kind == ExitKind::Running;
        (!is_running).then(|| self.process_end(process, &timeline.rows[place]))
    }

    fn handle_life(&self, line: &ledger::HandleRow, timeline: &Timeline) -> HandleLife {
        let handle = line.handle;
        let exporter = handle.exporter.as_ref().filter(|_| handle.freed_ns.is_none());
        HandleLife {
            gone_ns: exporter.and_then(|proc| self.known_end(proc, timeline)),
            name: handle.fingerprint.to_string(),
            exporter: handle.exporter.as_ref().and_then(|proc| self.process_index(proc)),
            from_ns: handle.exported_ns.map(|at| self.ns_since_start(at)),
            freed_ns: handle.freed_ns.map(|at| self.ns_since_start(at)),
            state: handle.state.to_string(),
            is_found: self
                .verdict
                .main_findings
                .iter()
                .flat_map(|finding| &finding.objects)
                .any(|object| object.fingerprint == Some(handle.fingerprint)),
            alike: line.alike,
            last_ns: self.ns_since_start(line.last_ns),
            opens: handle
                .opens
                .iter()
                .take(MOST_OPENINGS)
                .map(|open| {
                    let (from, closed) =
                        (self.ns_since_start(open.opened_ns), open.closed_ns.map(|at| self.ns_since_start(at)));
                    let until = || self.known_end(&open.proc, timeline).map(|at| at.max(from));
                    (self.process_index(&open.proc), from, closed.or_else(until), closed.is_some())
                })
                .collect(),
            failed: handle
                .failed
                .iter()
                .take(MOST_OPENINGS)
                .map(|failed| (self.process_index(&failed.proc), self.ns_since_start(failed.last_ns)))
                .collect(),
        }
    }
}
