//! Decides what the entries of the handle table mean after all processes have been read.

use super::{Export, HandleDomain, HandleEntry, HandleTable, Import, OpenPeriod};
use cupeer_report::model::{
    Allocator, Asked, Codes, FailedOpen, Fingerprint, Handle, HandleAccess, Open, Proc, State, Unknown,
};
use cupeer_report::results;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::rc::Rc;

/// The state of a process at the end of its recording.
pub struct ProcessEnd {
    pub proc: Proc,
    /// True if the process is running; `None` if unknown.
    pub alive: Option<bool>,
    /// Time of the last event of the process.
    pub last_seen: u64,
    /// Time until which the process is known to have run, even without calls.
    pub ran_until: u64,
    /// Time by which the process had ended; `None` if it runs, or if unknown.
    pub ended_by: Option<u64>,
    /// True if the recording was configured to keep all events.
    pub is_full: bool,
    /// True if some events of the process, or their results, could not be recorded or read.
    pub has_lost: bool,
    /// True if some events were overwritten: old events of busy threads, but not those of idle threads.
    pub has_gaps: bool,
    pub is_ended_on_purpose: bool,
    /// The signal from outside because of which the process ended.
    pub ending_signal: Option<Asked>,
    /// True if the process ended with an error or crashed, and nothing outside caused that.
    pub has_failed: bool,
}

impl ProcessEnd {
    /// Returns true if the recording has all calls of the process.
    pub fn has_all_calls(&self) -> bool {
        self.is_full && !self.has_lost
    }

    /// Returns true if objects without a recorded release were really not released by the program.
    pub fn shows_leaks(&self) -> bool {
        self.alive.is_some() && self.has_all_calls() && !self.is_ended_on_purpose
    }
}

impl HandleTable {
    /// Returns the rows of the report. `accesses` has the reads and writes of processes in the memory of each handle, sorted by
    /// the number of the handle.
    pub fn rows(
        self,
        fates: &[ProcessEnd],
        accesses: Vec<(usize, Vec<HandleAccess>)>,
        allocator: impl Fn(&HandleEntry) -> Option<Allocator>,
    ) -> Vec<Handle> {
        let originals = self.originals_of_copies();
        drop(self.numbers);
        let damage = self.damage;
        let (mut alike, mut accesses) = (SharedValues::default(), accesses.into_iter().peekable());
        let row = |(number, entry)| Handle {
            allocator: allocator(&entry),
            accesses: accesses.next_if(|(of, _)| *of == number).map(|(_, its)| its).unwrap_or_default(),
            ..row(&entry, fates, &originals, damage.has_damaged(&entry), &mut alike)
        };
        let mut rows: Vec<Handle> = self.handles.into_iter().enumerate().map(row).collect();
        rows.sort_by_key(Handle::sort_key);
        rows
    }

    /// Returns the exported handles with the same checked bytes as handles without an exporter: these are damaged copies.
    pub fn originals_of_copies(&self) -> HashMap<(HandleDomain, &'static str, u64), Fingerprint> {
        let mut originals = HashMap::new();
        for entry in self.handles.iter().filter(|entry| entry.export.is_none()) {
            originals.insert((entry.domain, entry.kind.word(), entry.checked), None);
        }
        if originals.is_empty() {
            return HashMap::new();
        }
        for entry in self.handles.iter().filter(|entry| entry.export.is_some()) {
            if let Some(original) = originals.get_mut(&(entry.domain, entry.kind.word(), entry.checked)) {
                *original = Some(Fingerprint(entry.fingerprint));
            }
        }
        originals.into_iter().filter_map(|(key, original)| Some((key, original?))).collect()
    }
}

/// Values that are equal in many handles, each stored once.
#[derive(Default)]
struct SharedValues {
    codes: HashSet<Rc<Codes>>,
    unknown: HashSet<Rc<Unknown>>,
}

/// Returns an equal value from a set, to which the value is added if it is new and the set is not too large.
fn share_value<T: Eq + Hash>(all: &mut HashSet<Rc<T>>, value: T) -> Rc<T> {
    const MOST: usize = 1 << 12;
    if let Some(known) = all.get(&value) {
        return known.clone();
    }
    let value = Rc::new(value);
    if all.len() < MOST {
        all.insert(value.clone());
    }
    value
}

fn row(
    entry: &HandleEntry,
    fates: &[ProcessEnd],
    originals: &HashMap<(HandleDomain, &'static str, u64), Fingerprint>,
    is_on_purpose: bool,
    alike: &mut SharedValues,
) -> Handle {
    let kind = entry.kind.word();
    let export = entry.export.as_deref();
    let mut opens = Vec::with_capacity(entry.imports.iter().map(|import| import.times.len()).sum());
    let fails = |import: &&Import| !import.failed.is_empty();
    let mut failed = Vec::with_capacity(entry.imports.iter().filter(fails).count());
    for import in &entry.imports {
        let fate = &fates[import.process];
        for (i, time) in import.times.iter().enumerate() {
            opens.push(open_row(import, i, time, entry, fates));
        }
        if !import.failed.is_empty() {
            let codes = share_value(&mut alike.codes, results::name_results(None, &import.failed));
            let proc = fate.proc.clone();
            let injected = import.injected;
            failed.push(FailedOpen { proc, codes, injected, last_ns: import.last_failed });
        }
    }
    opens.sort_by_key(|open| open.opened_ns);
    let worst = opens.iter().map(|open| open.state).max();
    let damaged_from = match export {
        Some(_) => None,
        None => originals.get(&(entry.domain, kind, entry.checked)).copied(),
    };
    let state = match (export, worst) {
        _ if is_on_purpose => State::DamagedOnPurpose,
        (None, _) if damaged_from.is_some() => State::Damaged,
        (Some(export), _) if export.freed_while_open => State::FreedWhileOpen,
        (_, Some(worst)) => worst,
        (Some(export), None) if export.ended.is_some() => State::Closed,
        (Some(_), None) => State::Exported,
        (None, None) => State::Unknown,
    };
    Handle {
        fingerprint: Fingerprint(entry.fingerprint),
        kind,
        state,
        exporter: export.map(|export| fates[export.process].proc.clone()),
        device: export.and_then(|export| export.device),
        bytes: export.and_then(|export| export.bytes),
        allocator: None,
        exported_ns: export.map(|export| export.first.at),
        exports: export.map_or(0, |export| export.times),
        freed_ns: export.and_then(|export| export.ended?.at),
        freed_by: export.and_then(|export| Some(export.ended?.by?.spec().name())),
        damaged_from,
        opens,
        failed,
        accesses: Vec::new(),
        unknown: share_value(&mut alike.unknown, unknown_fields(entry, damaged_from.is_some(), fates)),
    }
}

/// Reason why the facts about an allocation are unknown.
const NOT_MADE: &str = "the call that made it is not in the recording";

fn unknown_fields(entry: &HandleEntry, is_damaged: bool, fates: &[ProcessEnd]) -> Unknown {
    let mut unknown = Unknown::new();
    match entry.export.as_deref() {
        None => {
            let why = if is_damaged {
                "its bytes were damaged where the driver does not check them"
            } else if fates.iter().all(ProcessEnd::has_all_calls) {
                "no process of this recording exported it"
            } else {
                "no process of this recording exported it, as far as events were kept"
            };
            unknown.insert("exporter", why);
        }
        Some(export) => {
            let is_allocation = entry.kind.outlives_its_maker();
            if export.bytes.is_none() && entry.kind.is_memory() {
                unknown.insert("bytes", "the driver did not say");
            }
            if export.bytes.is_none() && is_allocation {
                unknown.insert("bytes", NOT_MADE);
            }
            if export.device.is_none() {
                let why = if is_allocation { NOT_MADE } else { "the exporter's context was not known" };
                unknown.insert("device", why);
            }
        }
    }
    unknown
}

fn open_row(import: &Import, index: usize, time: &OpenPeriod, entry: &HandleEntry, fates: &[ProcessEnd]) -> Open {
    let fate = &fates[import.process];
    Open {
        proc: fate.proc.clone(),
        state: open_state(time, entry, fate, fates),
        opened_ns: time.opened,
        closed_ns: time.ended.and_then(|ended| ended.at),
        closed_by: time.ended.and_then(|ended| Some(ended.by?.spec().name())),
        device: time.device,
        tid: time.site.tid,
        times: time.times,
        earlier: if index == 1 { import.times_left_out } else { 0 },
    }
}

fn open_state(time: &OpenPeriod, entry: &HandleEntry, opener: &ProcessEnd, fates: &[ProcessEnd]) -> State {
    let export = entry.export.as_deref();
    let is_freed_for_all = !entry.kind.outlives_its_maker();
    let freed_between = |end: u64| {
        let frees = export.iter().flat_map(|export| export.ended_before.iter().chain(&export.ended));
        is_freed_for_all && frees.filter_map(|ended| ended.at).any(|at| time.opened < at && at < end)
    };
    if time.ended.is_some() {
        let freed = time.closed_at(opener).is_some_and(freed_between);
        return if freed { State::FreedWhileOpen } else { State::Closed };
    }
    // The call that closed it may be missing.
    if opener.has_lost {
        return if time.is_kept_by_fault_plan(opener) { State::OpenOnPurpose } else { State::Open };
    }
    // A process that has ended certainly still had its open handles at its last event.
    let until = if opener.alive == Some(true) { u64::MAX } else { opener.last_seen };
    if freed_between(time.close_prevented_since.map_or(until, |kept| kept.min(until))) {
        return State::FreedWhileOpen;
    }
    if time.is_kept_by_fault_plan(opener) {
        return State::OpenOnPurpose;
    }
    let exporter = export.map(|export| &fates[export.process]);
    // The exit of a process ends its contexts. Observed on driver 580: objects without a context can still be used and imported.
    let ends_with_exporter = entry.kind.belongs_to_context();
    let exporter = exporter.filter(|exporter| ends_with_exporter && !exporter.is_ended_on_purpose);
    match opener.alive {
        Some(false) => State::OpenAtExit,
        Some(true) if exporter.is_some_and(|exporter| exporter.alive == Some(false)) => State::ExporterGone,
        _ => State::Open,
    }
}

impl OpenPeriod {
    /// Returns the time until which the handle was certainly open; `None` if it was not closed, or if events of the opener were
    /// overwritten: then the recorded close may belong to a later open at the same address.
    pub fn closed_at(&self, opener: &ProcessEnd) -> Option<u64> {
        self.ended?.at.filter(|_| !opener.has_gaps && !opener.has_lost)
    }

    /// Returns true if a fault plan keeps the handle open, or ended the process that would have closed it.
    pub fn is_kept_by_fault_plan(&self, opener: &ProcessEnd) -> bool {
        self.close_prevented_since.is_some() || opener.is_ended_on_purpose
    }
}

impl HandleTable {
    /// Returns the handles that were opened and not closed, and that no fault plan kept open. Processes whose recording lacks
    /// calls are left out.
    pub fn unclosed_opens(&self, fates: &[ProcessEnd]) -> impl Iterator<Item = (&HandleEntry, &Import, &OpenPeriod)> {
        self.handles.iter().flat_map(move |entry| {
            let last = entry.imports.iter().filter_map(|import| Some((import, import.times.last()?)));
            let open = last.filter(|(import, time)| {
                let fate = &fates[import.process];
                time.ended.is_none() && !fate.has_lost && !time.is_kept_by_fault_plan(fate)
            });
            open.map(move |(import, time)| (entry, import, time))
        })
    }

    /// Returns each import of memory with its export, if known. They show the pairs of devices that IPC connects.
    pub fn memory_imports(&self) -> impl Iterator<Item = (&Import, Option<&Export>)> {
        let originals = self.originals_of_copies();
        let is_reached = |entry: &&HandleEntry| entry.kind.is_memory() && !entry.kind.needs_granted_access();
        self.handles.iter().filter(is_reached).flat_map(move |entry| {
            let original = originals.get(&(entry.domain, entry.kind.word(), entry.checked));
            let original = || self.find_handle(entry.domain, entry.kind, original?.0)?.export.as_deref();
            let export = entry.export.as_deref().or_else(original);
            entry.imports.iter().map(move |import| (import, export))
        })
    }
}
