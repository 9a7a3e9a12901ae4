//! The peer matrix: for each process and pair of devices, a sum of its queries, of the access that it enabled, and of
//! IPC.

use crate::follow::ledger::HandleTable;
use crate::follow::ledger::settle::ProcessEnd;
use cupeer_record::{Call, Outcome};
use cupeer_report::model::{Peer, Unknown, Uuid};
use cupeer_report::results;
use cupeer_report::values::EndedContext;
use cupeer_spec::effect::{Object, Query, Subject};
use cupeer_spec::function::{FnId, Group};
use cupeer_spec::results::Result;
use std::collections::{BTreeMap, HashMap};

/// Access of one device to mappings of another device's memory.
#[derive(Clone, Copy, Default)]
pub struct MappingAccess {
    /// Number of mappings to which the device ever got access.
    pub granted: u64,
    /// Number of mappings to which the device has access now.
    pub mappings_now: u64,
    /// Time at which the device last got access.
    pub last_granted: u64,
    /// Time at which the device lost its last access; `None` while it has access.
    pub lost_at: Option<u64>,
}

impl MappingAccess {
    /// Adds the access to further memory of the same device.
    pub fn add(&mut self, other: &MappingAccess) {
        self.granted += other.granted;
        self.mappings_now += other.mappings_now;
        self.last_granted = self.last_granted.max(other.last_granted);
        self.lost_at = self.lost_at.max(other.lost_at).filter(|_| self.mappings_now == 0);
    }
}

/// Two devices: the one that has access, and the one whose memory it accesses. `None` if unknown.
type Devices = (Option<Uuid>, Option<Uuid>);

#[derive(Default)]
pub struct PeerMatrix {
    sums: BTreeMap<(usize, Devices), usize>,
    all: Vec<PairFacts>,
    /// Index of each pair by the process and its device ordinals, which are what calls contain.
    by_ordinals: HashMap<(usize, Ordinals), usize, foldhash::fast::RandomState>,
}

/// Two devices by the ordinals of a process; `None` if unknown.
type Ordinals = (Option<i32>, Option<i32>);

#[derive(Default)]
struct PairFacts {
    queries: u64,
    can_access: Option<bool>,
    enabled: Option<u64>,
    disabled: Option<u64>,
    /// Access to mappings of the other device's memory, as granted by cuMemSetAccess.
    granted: MappingAccess,
    /// The two contexts between which access was last enabled.
    contexts: (Option<u64>, Option<u64>),
    failed: Vec<(i32, u64)>,
    opened: u64,
    open_failed: Vec<(i32, u64)>,
    /// Time of the last failed open that no fault plan caused.
    last_failed: Option<u64>,
    open_until: u64,
    is_exported: bool,
    injected: u64,
    /// Number of copies from the memory of the first device to that of the second.
    copies: u64,
    /// Total bytes of the copies from the memory of the first device to that of the second.
    copied_bytes: u64,
}

impl PairFacts {
    /// Returns the time at which access was last given, by peer access or by cuMemSetAccess, and the time at which both had
    /// ended.
    fn access_span(&self) -> (Option<u64>, Option<u64>) {
        let granted = (self.granted.granted > 0).then_some(self.granted.last_granted);
        let is_on = self.enabled.is_some() && self.disabled.is_none() || self.granted.mappings_now > 0;
        let over = self.disabled.max(self.granted.lost_at);
        (self.enabled.max(granted), over.filter(|_| !is_on))
    }

    /// Adds a call: a copy, a query, or a change of access.
    fn add_call(&mut self, function: FnId, call: &Call, at: u64) {
        let spec = function.spec();
        let Outcome::Returned(result) = call.outcome else { return };
        self.injected += u64::from(call.injected);
        if let Some(copied) = spec.copies() {
            let is_done = result == 0 && !call.injected;
            self.copies += u64::from(is_done);
            let bytes = call.argument_number(copied.size).filter(|_| is_done);
            self.copied_bytes = self.copied_bytes.saturating_add(bytes.unwrap_or(0));
            return;
        }
        if result != 0 {
            results::add_count(&mut self.failed, result, call.call_count());
        }
        if let Some(access) = spec.enables() {
            if result == 0 || result == Result::PEER_ACCESS_ALREADY_ENABLED as i32 {
                self.enabled = Some(at);
                self.disabled = None;
                self.contexts = (call.details.context, call.argument_number(access.by));
            }
        } else if spec.disables().is_some() && result == 0 {
            self.disabled = Some(at);
        } else if let Some(question) = spec.device_query() {
            let ordinal = |argument| call.argument_number(argument).map(|ordinal| ordinal as i32);
            self.queries = self.queries.saturating_add(call.call_count());
            let is_chosen = |(choice, reach)| ordinal(choice) == Some(reach);
            let asks_reach = question.subject == Subject::Reach || question.choice.is_some_and(is_chosen);
            let answer = ordinal(question.answer).filter(|_| result == 0 && asks_reach);
            self.can_access = answer.map(|answer| answer != 0).or(self.can_access);
        }
    }

    /// Returns true if an open between the devices failed without a fault, and none has succeeded since.
    fn has_failed_since_open(&self) -> bool {
        self.last_failed.is_some_and(|last| self.open_until < last)
    }
}

/// Returns true if the peer matrix counts calls of a function.
#[inline]
pub fn concerns(function: FnId) -> bool {
    let function = function.spec();
    function.is_in(Group::Peer)
        || function.is_in(Group::Copy)
        || function.is_in(Group::Lifetime) && function.ended_context().is_some()
}

impl PeerMatrix {
    /// Adds a call to the sums of its pair of devices. `uuid` returns the device of an ordinal of the process.
    pub fn add_call(
        &mut self,
        process: usize,
        function: FnId,
        call: &Call,
        at: u64,
        uuid: impl Fn(Option<i32>) -> Option<Uuid>,
    ) {
        let spec = function.spec();
        // This copy is recorded only because a fault plan chose it. It may stay on one device.
        if spec.uses_memory() && call.details.devices.1.is_none() {
            return;
        }
        let ordinal = |argument| call.argument_number(argument).map(|ordinal| ordinal as i32);
        let pair = match spec.device_query() {
            Some(Query { device, peer: Some(peer), .. }) => (ordinal(device), ordinal(peer)),
            _ if spec.ended_context().is_some() => {
                if let Some(ending) = EndedContext::of(function, call).filter(|_| call.succeeded()) {
                    self.end_context(process, &ending, at, uuid);
                }
                return;
            }
            _ => call.details.devices,
        };
        let number = match self.by_ordinals.get(&(process, pair)) {
            Some(number) => *number,
            None => {
                let number = self.pair_number(process, (uuid(pair.0), uuid(pair.1)));
                self.by_ordinals.insert((process, pair), number);
                number
            }
        };
        self.all[number].add_call(function, call, at);
    }

    fn pair_number(&mut self, process: usize, devices: Devices) -> usize {
        *self.sums.entry((process, devices)).or_insert_with(|| {
            self.all.push(PairFacts::default());
            self.all.len() - 1
        })
    }

    /// Ends the peer access from and to a context that ended.
    fn end_context(
        &mut self,
        process: usize,
        ending: &EndedContext,
        at: u64,
        uuid: impl Fn(Option<i32>) -> Option<Uuid>,
    ) {
        let device = uuid(ending.device);
        let nothing = (None, None);
        for ((_, (from, to)), number) in self.sums.range((process, nothing)..(process + 1, nothing)) {
            let sum = &mut self.all[*number];
            let ends = if ending.context.is_some() {
                [sum.contexts.0, sum.contexts.1].iter().any(|context| ending.ends_object(Object::Peer, *context, None))
            } else {
                device.is_some() && (*from == device || *to == device)
            };
            if ends && sum.enabled.is_some() && sum.disabled.is_none() {
                sum.disabled = Some(at);
            }
        }
    }

    /// Adds peer access that is enabled according to the live table.
    pub fn add_live_access(&mut self, process: usize, from: Option<Uuid>, to: Option<Uuid>, at: u64) {
        let number = self.pair_number(process, (from, to));
        let sum = &mut self.all[number];
        sum.enabled = Some(sum.enabled.map_or(at, |enabled| enabled.max(at)));
        sum.disabled = None;
    }

    pub fn add_ipc_opens(&mut self, ledger: &HandleTable) {
        for (import, export) in ledger.memory_imports() {
            let to = export.and_then(|export| export.device);
            let number = self.pair_number(import.process, (import.device, to));
            let sum = &mut self.all[number];
            sum.opened += import.opened;
            for (result, count) in &import.failed {
                results::add_count(&mut sum.open_failed, *result, *count);
            }
            sum.injected += import.injected;
            sum.last_failed = sum.last_failed.max(import.last_uninjected_failure);
            sum.open_until = sum.open_until.max(import.open_until());
            sum.is_exported |= export.is_some();
        }
    }

    /// Adds access to mappings of another device's memory.
    pub fn add_mapping_access(&mut self, process: usize, from: Option<Uuid>, to: Option<Uuid>, reach: &MappingAccess) {
        let number = self.pair_number(process, (from, to));
        self.all[number].granted.add(reach);
    }

    /// Returns true if a process enabled access between two devices, in either direction.
    pub fn has_enabled(&self, process: usize, one: Uuid, other: Uuid) -> bool {
        let pairs = [(Some(one), Some(other)), (Some(other), Some(one))];
        let enabled = |pair| self.sums.get(&(process, pair)).and_then(|number| self.all[*number].enabled);
        pairs.into_iter().any(|pair| enabled(pair).is_some())
    }

    /// Returns the number of copies of a process from the memory of one device to that of another, and their bytes.
    pub fn copies_and_bytes(&self, process: usize, from: Uuid, to: Uuid) -> (u64, u64) {
        let number = self.sums.get(&(process, (Some(from), Some(to))));
        number.map_or((0, 0), |number| (self.all[*number].copies, self.all[*number].copied_bytes))
    }

    /// Returns the driver's last answer to a process about access from one device to another.
    pub fn can_access(&self, process: usize, from: Uuid, to: Uuid) -> Option<bool> {
        self.all[*self.sums.get(&(process, (Some(from), Some(to))))?].can_access
    }

    /// Returns the pairs of devices between which an open failed, and none has succeeded since: the process, its device, and
    /// the other device.
    pub fn pairs_that_fail_to_open(&self) -> impl Iterator<Item = (usize, Uuid, Uuid)> {
        let unmapped = self.sums.iter().filter(|(_, number)| self.all[**number].has_failed_since_open());
        unmapped.filter_map(|((process, (from, to)), _)| Some((*process, (*from)?, (*to)?)))
    }

    pub fn rows(&self, fates: &[ProcessEnd]) -> Vec<Peer> {
        self.sums
            .iter()
            .map(|((process, (from, to)), number)| {
                let sum = &self.all[*number];
                let mut unknown = Unknown::new();
                let (enabled, disabled) = sum.access_span();
                let no_context = "the device of the context was not known";
                if from.is_none() {
                    unknown.insert("from", no_context);
                }
                if to.is_none() {
                    let tried_ipc = sum.opened > 0 || !sum.open_failed.is_empty();
                    let is_of_others = tried_ipc && !sum.is_exported;
                    let no_export = "no process of this recording exported the handle";
                    unknown.insert("to", if is_of_others { no_export } else { no_context });
                }
                Peer {
                    proc: fates[*process].proc.clone(),
                    from: *from,
                    to: *to,
                    asked: sum.queries,
                    can_access: sum.can_access,
                    enabled: enabled.is_some(),
                    enabled_ns: enabled,
                    disabled_ns: disabled,
                    mappings: sum.granted.granted,
                    mappings_now: sum.granted.mappings_now,
                    failed: results::name_results(None, &sum.failed),
                    injected: sum.injected,
                    opened: sum.opened,
                    open_failed: results::name_results(None, &sum.open_failed),
                    unmapped_since_failure: sum.has_failed_since_open(),
                    copies: sum.copies,
                    copied_bytes: sum.copied_bytes,
                    unknown,
                }
            })
            .collect()
    }
}
