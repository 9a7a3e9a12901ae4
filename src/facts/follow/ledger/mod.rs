//! The handle table: the exporter of each handle, its openers, and its end.
//!
//! It contains the entries, joined across processes by the fingerprint of the handle. [`follow`] builds entries from
//! events, [`live`] adds the live table, and [`settle`] decides what entries mean after all processes have been read.
//! [`mod@descriptors`] tracks the descriptors of each process.
//!
//! The memory is proportional to the number of distinct handles and of processes that opened each, however often they
//! did.

pub mod descriptors;
pub mod follow;
pub mod live;
pub mod process_history;
pub mod settle;
mod take;
mod taken;

use cupeer_record::Call;
use cupeer_report::model::Uuid;
use cupeer_report::places::StackNumber;
use cupeer_report::results;
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use std::collections::{HashMap, HashSet};
use taken::WaitingHandle;

/// Number of stored periods in which one process had one handle open: the first, and the latest ones.
const MOST_TIMES: usize = 4;

/// A set of processes whose fingerprints are comparable: one boot of one host, and one key.
pub type HandleDomain = u16;

#[derive(Default)]
pub struct HandleTable {
    numbers: HashMap<(HandleDomain, Object, u64), u32, foldhash::fast::RandomState>,
    handles: Vec<HandleEntry>,
    /// The fingerprints of handles that fault plans damaged.
    pub damage: DamagedHandles,
}

/// The fingerprints of handles that fault plans damaged.
#[derive(Default)]
pub struct DamagedHandles {
    /// The fingerprints that the plans list.
    listed: HashSet<u64>,
    /// Fingerprints that fault plans wrote into outputs. A handle with such a fingerprint and without an exporter is damaged.
    changed: HashSet<u64>,
}

impl DamagedHandles {
    /// Creates the set from the fingerprints in the files of fault plans.
    pub fn new(listed: impl Iterator<Item = u64>) -> DamagedHandles {
        DamagedHandles { listed: listed.collect(), changed: HashSet::new() }
    }

    /// Returns true if the files of fault plans list a fingerprint as damaged.
    pub fn has_listed(&self, fingerprint: u64) -> bool {
        !self.listed.is_empty() && self.listed.contains(&fingerprint)
    }

    /// Returns true if a handle is damaged according to the files of fault plans, or to the events of all processes.
    pub fn has_damaged(&self, entry: &HandleEntry) -> bool {
        self.has_listed(entry.fingerprint) || entry.export.is_none() && self.changed.contains(&entry.fingerprint)
    }
}

pub struct HandleEntry {
    pub domain: HandleDomain,
    pub kind: Object,
    pub fingerprint: u64,
    /// The fingerprint of the bytes that the driver checks.
    pub checked: u64,
    pub export: Option<Box<Export>>,
    pub imports: Vec<Import>,
}

/// The exports of a handle by one process.
pub struct Export {
    pub process: usize,
    /// The first call that exported the handle.
    pub first: CallSite,
    pub last: CallSite,
    pub times: u64,
    /// The start of the allocation, or the event; 0 if unknown.
    pub address: u64,
    pub bytes: Option<u64>,
    pub device: Option<Uuid>,
    pub ended: Option<ObjectEnd>,
    /// The ends of the object after which the same handle was exported again; at most [`MOST_TIMES`].
    pub ended_before: Vec<ObjectEnd>,
    /// Possible ends of the object; at most [`MOST_TIMES`].
    pub perhaps_ended: Vec<ObjectEnd>,
    /// True if the live table says that the object was freed while others had it open. Set only if events of the exporter are
    /// missing.
    pub freed_while_open: bool,
    /// The ordinal of the device in the exporter.
    pub ordinal: Option<i32>,
    /// Offsets of the exported pointers in the allocation, each with the time of its first export; at most [`MOST_TIMES`].
    pub inside: Vec<(u64, u64)>,
}

/// The end of an object, and the call that ended it, as far as known.
#[derive(Clone, Copy)]
pub struct ObjectEnd {
    pub at: Option<u64>,
    pub by: Option<FnId>,
    pub site: Option<Site>,
    /// Time at which the same handle was next exported again.
    pub exported_again_at: Option<u64>,
}

#[derive(Clone, Copy)]
pub struct Site {
    pub seq: u64,
    pub tid: u32,
    pub stack: StackNumber,
    /// True if the call has a finding already.
    pub is_judged: bool,
}

impl Export {
    /// Returns the offset in the allocation of the last pointer that was exported before a time, in bytes.
    pub fn offset_at(&self, at: u64) -> u64 {
        let before = self.inside.iter().rev().find(|(since, _)| *since <= at).or(self.inside.first());
        before.map_or(0, |(_, inside)| *inside)
    }

    /// Adds the offset of an exported pointer in its allocation, in bytes.
    fn add_offset(&mut self, at: u64, inside: u64) {
        if self.inside.last().is_none_or(|(_, known)| *known != inside) {
            if self.inside.len() == MOST_TIMES {
                self.inside.remove(0);
            }
            self.inside.push((at, inside));
        }
    }
}

impl Site {
    pub fn new(call: &Call, stack: StackNumber, is_judged: bool) -> Site {
        Site { seq: call.seq, tid: call.tid, stack, is_judged }
    }
}

/// A call that a finding or a row can name: its function, its place, and when it began.
#[derive(Clone, Copy)]
pub struct CallSite {
    pub function: FnId,
    pub site: Site,
    pub at: u64,
}

/// The opens of one handle by one process.
#[derive(Default)]
pub struct Import {
    pub process: usize,
    pub device: Option<Uuid>,
    pub times: Vec<OpenPeriod>,
    /// Number of periods that are not stored: those between the first and the second stored one.
    times_left_out: u64,
    pub opened: u64,
    /// Opens of the handle after it had been closed.
    pub reopened: Reopened,
    pub failed: Vec<(i32, u64)>,
    last_failed: u64,
    /// Number of opens that failed because of a fault plan, or because a fault plan had damaged the handle.
    pub injected: u64,
    /// Time of the last open that failed without a fault plan.
    pub last_uninjected_failure: Option<u64>,
    /// The failures by result and caller; at most [`MOST_TIMES`].
    pub open_failures: Vec<OpenFailures>,
}

/// Opens of a handle after its last close: their number, the longest time between, and the duration of all calls that opened
/// and closed it.
#[derive(Clone, Copy, Default)]
pub struct Reopened {
    pub times: u64,
    pub longest: u64,
    pub spent: u64,
}

/// Failures of one process to open one handle, with one result and from one place.
pub struct OpenFailures {
    /// The first of the failed calls.
    pub call: CallSite,
    /// Time at which the last of the failed calls began.
    pub last: u64,
    pub result: i32,
    pub count: u64,
    /// True if a fault plan caused the failure, or damaged the handle.
    pub is_injected: bool,
    pub message: Option<Box<[u8]>>,
    /// The current context of the first of the failed calls, and its device.
    pub current: CurrentContext,
}

/// The current context of a call, and its device as the process numbers it.
#[derive(Clone, Copy, Default)]
pub struct CurrentContext {
    pub context: Option<u64>,
    pub device: Option<i32>,
}

/// A period in which a process had a handle open: from its first open until it was closed as often as it was opened.
pub struct OpenPeriod {
    pub opened: u64,
    pub ended: Option<ObjectEnd>,
    /// Time since which a fault plan prevents the close.
    pub close_prevented_since: Option<u64>,
    /// The function of the first open; for an entry of the live table, the function that programs usually call.
    pub function: FnId,
    pub site: Site,
    pub times: u64,
    /// Time of the last open.
    pub last: u64,
    /// Number of opens without a close.
    pub count: u64,
    /// Number of closes after which the handle was still open, and the time of the last of these closes.
    pub closes: (u64, u64),
    pub device: Option<Uuid>,
    /// The address at which the handle was opened.
    pub address: u64,
    /// The current context at the first open, and its device.
    pub current: CurrentContext,
    /// Further opens from other places than the first, by place; at most [`MOST_TIMES`].
    pub opens_elsewhere: Vec<OpensElsewhere>,
}

/// Opens of a handle that is open already, from one place other than that of the first open.
pub struct OpensElsewhere {
    pub site: Site,
    /// Time of the first of the opens.
    pub first: u64,
    pub last: u64,
    pub count: u64,
    /// Number of the opens that were closed. It is known only for events, because each open of an event returns a new
    /// event.
    pub closed: u64,
    /// Number of opens of the handle without a close when the last of the opens was made.
    pub open: u64,
}

/// A call that exported a handle.
#[derive(Clone, Copy)]
pub struct ExportCall {
    /// Index of the exporting process.
    pub process: usize,
    /// Thread of the call.
    pub tid: u32,
    /// Time at which the call began.
    pub at: u64,
}

impl HandleTable {
    /// Creates an empty handle table, with the fingerprints of damaged handles.
    pub fn with(damage: DamagedHandles) -> HandleTable {
        HandleTable { damage, ..HandleTable::default() }
    }

    pub fn handles(&self) -> &[HandleEntry] {
        &self.handles
    }

    /// Returns the handles that fault plans did not damage.
    pub fn undamaged_handles(&self) -> impl Iterator<Item = &HandleEntry> {
        self.handles.iter().filter(|entry| !self.damage.has_damaged(entry))
    }

    /// Returns the handles that processes exported and that fault plans did not damage.
    pub fn undamaged_exports(&self) -> impl Iterator<Item = (&HandleEntry, &Export)> {
        self.undamaged_handles().filter_map(|entry| Some((entry, entry.export.as_deref()?)))
    }

    pub fn find_handle(&self, domain: HandleDomain, kind: Object, fingerprint: u64) -> Option<&HandleEntry> {
        self.numbers.get(&(domain, kind, fingerprint)).map(|number| &self.handles[*number as usize])
    }

    /// Returns the handle with a fingerprint, for any kind of object.
    pub fn find_of_any_kind(&self, domain: HandleDomain, fingerprint: u64) -> Option<&HandleEntry> {
        Object::ALL.iter().find_map(|kind| self.find_handle(domain, *kind, fingerprint))
    }

    /// Returns the number of the handle with two fingerprints, which is added if it is new.
    fn number_or_add(&mut self, domain: HandleDomain, kind: Object, (fingerprint, checked): (u64, u64)) -> u32 {
        *self.numbers.entry((domain, kind, fingerprint)).or_insert_with(|| {
            let (export, imports) = (None, Vec::new());
            self.handles.push(HandleEntry { domain, kind, fingerprint, checked, export, imports });
            (self.handles.len() - 1) as u32
        })
    }

    /// Returns the last stored call that exported a handle before a time.
    pub fn last_export_before(
        &self,
        domain: HandleDomain,
        kind: Object,
        fingerprint: u64,
        opened: u64,
    ) -> Option<ExportCall> {
        let export = self.find_handle(domain, kind, fingerprint)?.export.as_ref()?;
        let call = if export.last.at <= opened { export.last } else { export.first };
        Some(ExportCall { process: export.process, tid: call.site.tid, at: call.at })
    }
}

impl HandleEntry {
    /// Returns the opens of the handle by a process.
    pub fn import_by(&self, process: usize) -> Option<&Import> {
        self.imports.iter().find(|import| import.process == process)
    }

    /// Returns all times in which processes had the handle open.
    pub fn open_periods(&self) -> impl Iterator<Item = (&Import, &OpenPeriod)> {
        self.imports.iter().flat_map(|import| import.times.iter().map(move |time| (import, time)))
    }

    /// Returns the import of a process, which is added if there is none. Processes are read one after the other.
    fn import_or_add(&mut self, process: usize) -> &mut Import {
        let index = self.import_index_or_add(process);
        &mut self.imports[index]
    }

    /// Returns the index of the import of a process, which is added if there is none. Imports are never removed.
    fn import_index_or_add(&mut self, process: usize) -> usize {
        let known = self.imports.iter().rposition(|import| import.process == process);
        known.unwrap_or_else(|| {
            // Most handles are opened by one process.
            reserve_one(&mut self.imports);
            self.imports.push(Import { process, ..Import::default() });
            self.imports.len() - 1
        })
    }
}

/// Reserves memory for exactly one element in an empty list: most lists never get a second element.
fn reserve_one<T>(list: &mut Vec<T>) {
    if list.capacity() == 0 {
        list.reserve_exact(1);
    }
}

impl OpenPeriod {
    /// Returns the first call that opened the handle in this time.
    pub fn first_call(&self) -> CallSite {
        CallSite { function: self.function, site: self.site, at: self.opened }
    }

    /// Returns the number of opens and of closes before the time `at`; zeros if unknown.
    pub fn opens_and_closes_before(&self, at: u64) -> (u64, u64) {
        if self.last < at && self.closes.1 < at { (self.times, self.closes.0) } else { (0, 0) }
    }

    /// Returns the opens from another place than the first.
    fn opens_from(&mut self, stack: StackNumber) -> Option<&mut OpensElsewhere> {
        self.opens_elsewhere.iter_mut().find(|again| again.site.stack == stack)
    }

    /// Returns the place with the most opens that were not closed. For events, it may be another place than that of the first
    /// open.
    pub fn place_with_most_open(&self, kind: Object) -> Site {
        let left = |again: &OpensElsewhere| again.count - again.closed;
        let others: u64 = self.opens_elsewhere.iter().map(left).sum();
        let most = self.opens_elsewhere.iter().max_by_key(|again| left(again)).filter(|_| kind == Object::Event);
        most.filter(|most| left(most) > self.count.saturating_sub(others)).map_or(self.site, |most| most.site)
    }

    fn add_repeated_open(&mut self, taken: &WaitingHandle) {
        let CallSite { site, at, .. } = taken.call;
        if site.stack == self.site.stack {
            return;
        }
        if let Some(known) = self.opens_elsewhere.iter_mut().find(|again| again.site.stack == site.stack) {
            known.count += 1;
            known.last = at;
        } else if self.opens_elsewhere.len() < MOST_TIMES {
            reserve_one(&mut self.opens_elsewhere);
            self.opens_elsewhere.push(OpensElsewhere {
                site,
                first: at,
                last: at,
                count: 1,
                closed: 0,
                open: self.count,
            });
        }
    }
}

impl Import {
    /// Adds an open of the handle.
    fn add_open(&mut self, taken: &WaitingHandle) {
        self.opened += 1;
        self.reopened.spent += taken.took;
        self.device = taken.uuid;
        match self.times.last_mut() {
            Some(time) if time.ended.is_none() => {
                time.times += 1;
                time.count += 1;
                time.last = time.last.max(taken.call.at);
                time.add_repeated_open(taken);
            }
            last => {
                if let Some(closed) = last.and_then(|time| time.ended?.at) {
                    self.reopened.times += 1;
                    self.reopened.longest = self.reopened.longest.max(taken.call.at.saturating_sub(closed));
                }
                if self.times.len() == MOST_TIMES {
                    self.times.remove(1);
                    self.times_left_out += 1;
                }
                reserve_one(&mut self.times);
                self.times.push(taken.new_period(1));
            }
        }
    }

    /// Returns the time of each open; `None` if not all times are stored.
    pub fn all_open_times(&self) -> Option<Vec<u64>> {
        let is_known = self.times_left_out == 0 && self.times.iter().all(|time| time.times <= 2);
        is_known.then(|| self.times.iter().flat_map(|time| [time.opened, time.last]).collect())
    }

    /// Counts an open of the same object by a damaged copy of the handle.
    fn count_damaged_copy(&mut self) {
        if let Some(time) = self.times.last_mut() {
            time.count += 1;
        }
    }

    /// Returns the last time at which the handle is known to have been open; 0 if it was never open.
    pub fn open_until(&self) -> u64 {
        self.times.last().map_or(0, |time| time.ended.map_or(u64::MAX, |ended| ended.at.unwrap_or(time.opened)))
    }

    /// Adds a close: of one open or, if `for_good`, of all opens. Returns true if the handle is not open any more.
    fn add_close(&mut self, ended: ObjectEnd, for_good: bool) -> bool {
        let Some(time) = self.times.last_mut().filter(|time| time.ended.is_none()) else { return true };
        time.count = if for_good { 0 } else { time.count.saturating_sub(1) };
        if time.count == 0 {
            time.ended = Some(ended);
        } else {
            time.closes = (time.closes.0 + 1, ended.at.unwrap_or(u64::MAX));
        }
        time.count == 0
    }

    fn note_prevented_close(&mut self, at: u64) {
        if let Some(time) = self.times.last_mut().filter(|time| time.ended.is_none()) {
            time.close_prevented_since.get_or_insert(at);
        }
    }

    fn add_failure(&mut self, failing: OpenFailures, device: Option<Uuid>) {
        self.device = device;
        self.last_failed = self.last_failed.max(failing.call.at);
        self.injected += u64::from(failing.is_injected);
        if !failing.is_injected {
            self.last_uninjected_failure = self.last_uninjected_failure.max(Some(failing.call.at));
        }
        results::add_count(&mut self.failed, failing.result, failing.count);
        let key = |failing: &OpenFailures| {
            (failing.result, failing.call.site.stack, failing.call.site.is_judged, failing.is_injected)
        };
        let alike = |known: &&mut OpenFailures| key(known) == key(&failing);
        if let Some(known) = self.open_failures.iter_mut().find(alike) {
            known.count = known.count.saturating_add(failing.count);
            known.last = known.last.max(failing.last);
        } else if self.open_failures.len() < MOST_TIMES {
            reserve_one(&mut self.open_failures);
            self.open_failures.push(failing);
        }
    }
}
