//! Decides what the entries of the handle table mean after all processes have been read.

use super::{Entry, Export, Import, Ledger, Realm, Time};
use cupeer_report::model::{
    Allocator, Asked, Codes, FailedOpen, Fingerprint, Handle, HandleAccess, Open, Proc, State, Unknown,
};
use cupeer_report::results;
use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::rc::Rc;

/// What is known of a process at the end of its record.
pub struct Fate {
    pub proc: Proc,
    /// Whether it runs; `None` where that cannot be known.
    pub alive: Option<bool>,
    /// When it was last seen at work.
    pub last_seen: u64,
    /// Until when it is known to have run: also without a call.
    pub ran_until: u64,
    /// By when it had ended; `None` if it runs, or that is not known.
    pub ended_by: Option<u64>,
    /// Whether all of its events were to be kept.
    pub is_full: bool,
    /// Whether some of them, or what they returned, could not be kept or read.
    pub has_lost: bool,
    /// Whether some of them were overwritten: those of busy threads, while what a thread has done that rests is still there.
    pub has_gaps: bool,
    pub is_ended_on_purpose: bool,
    /// The signal from outside after which it ended.
    pub asked: Option<Asked>,
    /// True if it ended with an error or crashed: not on purpose, and not because of something outside.
    pub has_failed: bool,
}

impl Fate {
    /// Returns true if what the process has not given up, as far as its recording shows, was left by the program itself.
    pub fn shows_what_is_left(&self) -> bool {
        self.alive.is_some() && self.is_full && !self.has_lost && !self.is_ended_on_purpose
    }
}

impl Ledger {
    /// Returns the rows of the report. `accesses` has what processes did with the bytes of each handle, by its number, in their order.
    pub fn rows(
        self,
        fates: &[Fate],
        accesses: Vec<(usize, Vec<HandleAccess>)>,
        allocator: impl Fn(&Entry) -> Option<Allocator>,
    ) -> Vec<Handle> {
        let originals = self.originals();
        drop(self.numbers);
        let damage = self.damage;
        let (mut alike, mut accesses) = (Alike::default(), accesses.into_iter().peekable());
        let row = |(number, entry)| Handle {
            allocator: allocator(&entry),
            accesses: accesses.next_if(|(of, _)| *of == number).map(|(_, its)| its).unwrap_or_default(),
            ..row(&entry, fates, &originals, damage.is_of(&entry), &mut alike)
        };
        let mut rows: Vec<Handle> = self.handles.into_iter().enumerate().map(row).collect();
        rows.sort_by_key(Handle::order);
        rows
    }

    /// The exported handles that have the checked bytes of handles that nobody exported.
    pub fn originals(&self) -> HashMap<(Realm, &'static str, u64), Fingerprint> {
        let mut originals = HashMap::new();
        for entry in self.handles.iter().filter(|entry| entry.export.is_none()) {
            originals.insert((entry.realm, entry.kind.word(), entry.checked), None);
        }
        if originals.is_empty() {
            return HashMap::new();
        }
        for entry in self.handles.iter().filter(|entry| entry.export.is_some()) {
            if let Some(original) = originals.get_mut(&(entry.realm, entry.kind.word(), entry.checked)) {
                *original = Some(Fingerprint(entry.fingerprint));
            }
        }
        originals.into_iter().filter_map(|(key, original)| Some((key, original?))).collect()
    }
}

/// What many handles have in common, once.
#[derive(Default)]
struct Alike {
    codes: HashSet<Rc<Codes>>,
    unknown: HashSet<Rc<Unknown>>,
}

/// The value of a set that is like another; so many that sharing saves nothing are not kept.
fn shared<T: Eq + Hash>(all: &mut HashSet<Rc<T>>, value: T) -> Rc<T> {
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
    entry: &Entry,
    fates: &[Fate],
    originals: &HashMap<(Realm, &'static str, u64), Fingerprint>,
    is_on_purpose: bool,
    alike: &mut Alike,
) -> Handle {
    let kind = entry.kind.word();
    let export = entry.export.as_deref();
    let mut opens = Vec::with_capacity(entry.imports.iter().map(|import| import.times.len()).sum());
    let fails = |import: &&Import| !import.failed.is_empty();
    let mut failed = Vec::with_capacity(entry.imports.iter().filter(fails).count());
    for import in &entry.imports {
        let fate = &fates[import.process as usize];
        for (i, time) in import.times.iter().enumerate() {
            opens.push(open(import, i, time, entry, fates));
        }
        if !import.failed.is_empty() {
            let codes = shared(&mut alike.codes, results::named(None, &import.failed));
            let proc = fate.proc.clone();
            let injected = import.injected;
            failed.push(FailedOpen { proc, codes, injected, last_ns: import.last_failed });
        }
    }
    opens.sort_by_key(|open| open.opened_ns);
    let worst = opens.iter().map(|open| open.state).max();
    let damaged_from = match export {
        Some(_) => None,
        None => originals.get(&(entry.realm, kind, entry.checked)).copied(),
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
        exporter: export.map(|export| fates[export.process as usize].proc.clone()),
        device: export.and_then(|export| export.device),
        bytes: export.and_then(|export| export.bytes),
        allocator: None,
        exported_ns: export.map(|export| export.first.1),
        exports: export.map_or(0, |export| export.times),
        freed_ns: export.and_then(|export| export.ended?.at),
        freed_by: export.and_then(|export| Some(export.ended?.by?.spec().name())),
        damaged_from,
        opens,
        failed,
        accesses: Vec::new(),
        unknown: shared(&mut alike.unknown, unknown(entry, damaged_from.is_some(), fates)),
    }
}

/// Why nothing is known of an allocation.
const NOT_MADE: &str = "the call that made it is not in the recording";

fn unknown(entry: &Entry, is_damaged: bool, fates: &[Fate]) -> Unknown {
    let mut unknown = Unknown::new();
    match entry.export.as_deref() {
        None => {
            let why = if is_damaged {
                "its bytes were damaged where the driver does not check them"
            } else if fates.iter().all(|fate| fate.is_full && !fate.has_lost) {
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

fn open(import: &Import, index: usize, time: &Time, entry: &Entry, fates: &[Fate]) -> Open {
    let fate = &fates[import.process as usize];
    Open {
        proc: fate.proc.clone(),
        state: state(time, entry, fate, fates),
        opened_ns: time.opened,
        closed_ns: time.ended.and_then(|ended| ended.at),
        closed_by: time.ended.and_then(|ended| Some(ended.by?.spec().name())),
        device: time.device,
        tid: time.site.tid,
        times: time.times,
        earlier: if index == 1 { import.left_out } else { 0 },
    }
}

fn state(time: &Time, entry: &Entry, opener: &Fate, fates: &[Fate]) -> State {
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
        return if time.is_kept(opener) { State::OpenOnPurpose } else { State::Open };
    }
    // What a process has open that is gone was certainly open when it was last seen.
    let until = if opener.alive == Some(true) { u64::MAX } else { opener.last_seen };
    if freed_between(time.kept.map_or(until, |kept| kept.min(until))) {
        return State::FreedWhileOpen;
    }
    if time.is_kept(opener) {
        return State::OpenOnPurpose;
    }
    let exporter = export.map(|export| &fates[export.process as usize]);
    // The exit of a process ends its contexts. Recorded on driver 580: what belongs to none can still be used, and imported.
    let ends_with_exporter = entry.kind.belongs_to_context();
    let exporter = exporter.filter(|exporter| ends_with_exporter && !exporter.is_ended_on_purpose);
    match opener.alive {
        Some(false) => State::OpenAtExit,
        Some(true) if exporter.is_some_and(|exporter| exporter.alive == Some(false)) => State::ExporterGone,
        _ => State::Open,
    }
}

impl Time {
    /// Up to when it was certainly open, of what has an end; `None` where nobody saw that. In what was overwritten of a ring it
    /// may have been closed before, and the close that is there be that of a later opening at its address.
    pub fn closed_at(&self, opener: &Fate) -> Option<u64> {
        self.ended?.at.filter(|_| !opener.has_gaps && !opener.has_lost)
    }

    /// Whether a fault plan keeps it from being closed, or has ended who would have closed it.
    pub fn is_kept(&self, opener: &Fate) -> bool {
        self.kept.is_some() || opener.is_ended_on_purpose
    }
}

impl Ledger {
    /// What was opened and not closed, and no fault plan is to blame for that. If calls of the opener are missing, one of them
    /// may have closed it.
    pub fn each_open(&self, fates: &[Fate]) -> impl Iterator<Item = (&Entry, &Import, &Time)> {
        self.handles.iter().flat_map(move |entry| {
            let last = entry.imports.iter().filter_map(|import| Some((import, import.times.last()?)));
            let open = last.filter(|(import, time)| {
                let fate = &fates[import.process as usize];
                time.ended.is_none() && !fate.has_lost && !time.is_kept(fate)
            });
            open.map(move |(import, time)| (entry, import, time))
        })
    }

    /// Which pairs of devices IPC went over: each import of memory, and the export that it is of, where it is known.
    pub fn each_pair(&self) -> impl Iterator<Item = (&Import, Option<&Export>)> {
        let originals = self.originals();
        let is_reached = |entry: &&Entry| entry.kind.is_memory() && !entry.kind.is_granted();
        self.handles.iter().filter(is_reached).flat_map(move |entry| {
            let original = originals.get(&(entry.realm, entry.kind.word(), entry.checked));
            let original = || self.handle(entry.realm, entry.kind, original?.0)?.export.as_deref();
            let export = entry.export.as_deref().or_else(original);
            entry.imports.iter().map(move |import| (import, export))
        })
    }
}
