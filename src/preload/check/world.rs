//! The facts about a call and about the processes that share with it, from the call itself, the driver, the live
//! table, and the system.

use super::system;
use crate::driver::contexts;
use crate::driver::facts::DriverFacts;
use crate::driver::graphs::{self, AddressRole, NodeLabel};
use crate::driver::model::{self, MODEL};
use crate::driver::queries;
use crate::driver::{batches, nodes, parameters, streams};
use crate::job::importers::{confidence_in_crash, importers, is_own, life_of, process_of};
use crate::job::process::pid_namespace;
use crate::job::{closed, live, tombstones};
use crate::settings::key;
use crate::sys::caller::Caller;
use crate::sys::clock;
use crate::sys::life;
use crate::sys::line::ShortText;
use crate::sys::{descriptors, environment, neighbour};
use core::cell::Cell;
use core::fmt::{self, Write};
use cupeer_model::{BareEntry, ObjectFamily, Pool, View};
use cupeer_rules::decide::{
    self, ClosedBy, ClosedHandle, DeviceNode, EnabledPeers, EndKind, EndedObject, Export, FreedExport, HadContext,
    Importers, NodeUse, ObjectEnd, OpenerLibraries, Opening, PointerAttributes, ProcessLife, Ptrace, World,
};
use cupeer_rules::reason::{Ago, Device, Process};
use cupeer_spec::effect::{Effect, Object};
use cupeer_spec::function::FnId;
use cupeer_spec::record::live::{
    Entry, descriptor_head, ended, fingerprint_key, kind, library_text, owner_in, process_object_key,
};
use cupeer_spec::record::slot::MOST_ARGS;
use cupeer_spec::record::slot::finding::Confidence;
use cupeer_spec::value::{CHECKED, Format};

/// Call that returned, with the facts about it that the rules need.
pub struct CheckedCall<'a> {
    pub id: FnId,
    /// Arguments of the call in the form of the record.
    pub args: &'a [u8; MOST_ARGS],
    /// Flags of each argument: [`cupeer_spec::record::slot::shape`].
    pub shape: u64,
    pub result: i32,
    /// The present time for [`CheckedCall::ago`], in nanoseconds of CLOCK_MONOTONIC; 0 before its first use.
    pub now: Cell<u64>,
    /// Return address of the call.
    pub caller: usize,
    /// Number of the call's slot in the record.
    pub slot: u64,
    /// Fingerprint of the exported object that the call frees or destroys.
    pub taken: Option<u64>,
    /// True if the call closed an open object, as far as is known.
    pub is_closing: bool,
    /// True if the object that the call closed is no longer open.
    pub is_closing_the_last: bool,
    /// The time at which a call that opens an object was forwarded, in nanoseconds of CLOCK_MONOTONIC.
    pub begun: u64,
    /// Bytes of the IPC handle among the arguments.
    pub handle: Option<[u8; 64]>,
    /// First elements of the array argument of the call, in the form of the record.
    pub elements: &'a [u8],
    pub about: DriverFacts,
    /// Messages in the driver's log about the call.
    pub driver_messages: &'a str,
    pub print: &'a dyn Fn(&mut dyn Write, Format) -> fmt::Result,
}

impl CheckedCall<'_> {
    /// Returns true if the documentation of the function lists the result of the call.
    pub fn is_documented(&self) -> bool {
        self.result == 0 || self.id.spec().results().contains(&self.result)
    }

    /// Returns the call in the form in which the rules decide about it.
    pub fn call_for_rules(&self) -> decide::Call<'_> {
        let &CheckedCall { id, args, shape, result, elements, .. } = self;
        decide::Call { function: id, result, args, shape, elements }
    }

    /// Returns the time between an event and the return of the call; `None` if the time is not known. `monotonic` is the time of
    /// the event in nanoseconds of CLOCK_MONOTONIC.
    pub fn ago(&self, monotonic: u64) -> Option<Ago> {
        if self.now.get() == 0 {
            self.now.set(clock::now());
        }
        (monotonic != 0).then(|| Ago(self.now.get().saturating_sub(monotonic)))
    }

    fn export_of(&self, entry: Entry) -> Export<Entry> {
        let ended = (entry.ended != 0).then(|| ObjectEnd {
            is_before: entry.ended_at <= self.begun,
            ago: self.ago(entry.ended_at),
            with_context: entry.ended & ended::WITH_CONTEXT != 0,
        });
        Export {
            fingerprint: entry.fingerprint,
            owner: process_of(&entry),
            exporter_id: owner_in(entry.word),
            pid_ns: entry.pid_ns,
            is_own: is_own(&entry),
            address: entry.address,
            device: device_of(&entry),
            pointer_offset: entry.inside,
            ago: self.ago(entry.monotonic),
            ended,
            object: entry,
        }
    }

    /// Returns the place in the live table of the object that the call opened.
    fn live_entry_of_opened(&self) -> Option<live::EntryRef> {
        let call = self.call_for_rules();
        let (shared, fingerprint, _) = call.opened_handle()?;
        let key = process_object_key(
            live::own_owner_number(),
            kind::opened_kind(shared.object),
            call.number_at(shared.by),
            0,
        );
        live::find_where(key, |place| place.fingerprint() == fingerprint)
    }

    /// Returns an exported object that ended, with the processes that have the object open; `None` if there are no such
    /// processes.
    fn ending_from_entry(&self, place: &live::EntryRef) -> Option<EndedObject<Entry>> {
        let entry = place.read().filter(|entry| entry.count != 0)?;
        let importers = importers(entry.kind, entry.fingerprint)?;
        let (export, bytes) = (self.export_of(entry), entry.bytes);
        let kind = kind::exported_object(entry.kind).unwrap_or(Object::Memory);
        Some(EndedObject { kind, export, bytes, handles: 1, importers, is_sure: true })
    }
}

impl World for CheckedCall<'_> {
    type Object = Entry;

    fn pid_and_namespace(&self) -> (u32, u64) {
        (std::process::id(), pid_namespace())
    }
    fn thread_id(&self) -> u32 {
        // SAFETY: gettid has no preconditions.
        unsafe { libc::syscall(libc::SYS_gettid) as u32 }
    }
    fn initializer_before_fork(&self) -> Option<(Option<u32>, Confidence)> {
        queries::was_initialized_before_fork()
    }
    fn current_context(&self) -> Option<(i32, u64)> {
        Some(queries::current_context())
    }
    fn current_device(&self) -> i32 {
        queries::device_of_current_context()
    }
    fn is_current_destroyed(&self) -> Option<bool> {
        Some(queries::is_current_destroyed())
    }
    fn had_context(&self) -> HadContext {
        if let Some(context) = contexts::last_context_of_thread() {
            let is_ended = contexts::is_ended(context);
            let has_closed = is_ended && closed::has_closed_with_context(context);
            return HadContext::Here { context, is_ended, has_closed };
        }
        if contexts::has_had_context() {
            return HadContext::InOtherThread;
        }
        queries::device_with_active_primary().map_or(HadContext::Unknown, HadContext::Primary)
    }
    fn device_count(&self) -> Option<i32> {
        queries::device_count()
    }
    fn uuid(&self, ordinal: i32) -> [u8; 16] {
        queries::uuid(ordinal)
    }
    fn ordinal(&self, uuid: [u8; 16]) -> i32 {
        queries::ordinal(uuid).unwrap_or(-1)
    }
    fn device_of_peer(&self, context: u64) -> i32 {
        queries::device_of(context)
    }
    fn can_access(&self, from: i32, to: i32) -> Option<bool> {
        queries::can_access(from, to)
    }
    fn with_device_node(&self, uuid: &[u8; 16], work: &mut dyn FnMut(Option<DeviceNode>)) {
        nodes::with_node_of(uuid, work);
    }
    fn pointer_attributes(&self, address: u64) -> Option<PointerAttributes> {
        queries::query_pointer(address)
    }
    fn driver_message(&self) -> &str {
        self.driver_messages
    }
    fn with_variable(&self, name: &str, work: &mut dyn FnMut(Option<&str>)) {
        let mut kept = [0u8; 128];
        let mut length = None;
        environment::each(|variable| {
            let value = variable.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
            if let (Some(value), None) = (value, length) {
                let fits = value.len().min(kept.len());
                for (place, byte) in kept.iter_mut().zip(value) {
                    *place = if byte.is_ascii() { *byte } else { b'?' };
                }
                if fits < value.len() {
                    kept[fits - 3..].copy_from_slice(b"...");
                }
                length = Some(fits);
            }
        });
        work(length.and_then(|length| core::str::from_utf8(&kept[..length]).ok()));
    }

    fn has_all_exports(&self) -> bool {
        live::has_table()
    }
    fn find_export(&self, object: Object, fingerprint: u64) -> Option<Export<Entry>> {
        live::read(fingerprint_key(kind::exported_kind(object), fingerprint)).map(|entry| self.export_of(entry))
    }
    fn find_original(&self, object: Object, fingerprint: u64, checked: u64) -> Option<(Export<Entry>, bool)> {
        let head = self.handle.map_or(0, |handle| key::fingerprint(&handle[..CHECKED.start]));
        let (mut same, mut alike) = (None, None);
        each_exported(object, |entry| {
            if entry.checked == checked && entry.fingerprint != fingerprint {
                same = Some(entry);
            } else if entry.head == head && head != 0 {
                // Several handles of a process may have the same head.
                alike = Some(entry);
            }
        });
        same.or(alike).map(|entry| (self.export_of(entry), same.is_some()))
    }
    fn exporter_life(&self, export: &Export<Entry>) -> ProcessLife {
        life_of(&export.object)
    }
    fn death_confidence(&self, export: &Export<Entry>) -> Option<Confidence> {
        confidence_in_crash(&export.object)
    }
    fn handle_bytes(&self) -> Option<[u8; 64]> {
        self.handle
    }
    fn exporter_with_pid(&self, object: Object, pid: u32) -> Option<Process> {
        let mut found = None;
        each_exported(object, |entry| {
            if entry.pid == pid {
                found = Some(process_of(&entry));
            }
        });
        found
    }
    fn is_recorded_elsewhere(&self, pid: u32) -> bool {
        neighbour::is_recorded_elsewhere(pid)
    }
    fn is_running(&self, pid: u32) -> Option<bool> {
        Some(life::exists(pid))
    }
    fn is_event(&self, event: u64) -> Option<bool> {
        streams::is_event(event)
    }
    fn device_of_stream(&self, stream: u64) -> Option<i32> {
        streams::device_of_stream(stream)
    }
    fn devices_with_contexts(&self) -> u64 {
        queries::devices_with_contexts().unwrap_or(0)
    }
    fn opening_at(&self, object: Object, address: u64) -> Option<Opening<Entry>> {
        if let Some(entry) =
            live::read(process_object_key(live::own_owner_number(), kind::opened_kind(object), address, 0))
        {
            return Some(opening_of(entry));
        }
        let mut found = None;
        if object.is_memory() {
            self.each_opening(object, &mut |opening| {
                if address.wrapping_sub(opening.address) < opening.object.bytes {
                    found = Some(opening_of(opening.object));
                }
            });
        }
        found
    }
    fn each_opening(&self, object: Object, work: &mut dyn FnMut(&Opening<Entry>)) {
        live::each_own(|place| {
            if place.kind() == kind::opened_kind(object) {
                place.read().into_iter().for_each(|entry| work(&opening_of(entry)));
            }
        });
    }
    fn opener_elsewhere(&self, object: Object, address: u64) -> Option<(Process, Entry)> {
        let mut found = None;
        live::each(|place| {
            if place.kind() == kind::opened_kind(object)
                && !place.is_own()
                && let Some(entry) = place.read()
                && entry.address == address
                && entry.count != 0
                && life_of(&entry) == ProcessLife::Runs
            {
                found = Some((process_of(&entry), entry));
            }
        });
        found
    }
    fn closed_at(&self, address: u64) -> Option<ClosedHandle> {
        let closed::LastClose { fingerprint, monotonic, with_context, by, .. } = closed::find(address)?;
        Some(ClosedHandle { fingerprint, ago: self.ago(monotonic), with_context, by })
    }
    fn enabled_access(&self, from: u64, to: u64) -> Option<(Option<Ago>, Entry)> {
        // Access that another thread is disabling at present is not counted.
        let key = process_object_key(live::own_owner_number(), kind::PEER, from, to);
        let entry = live::find_where(key, live::EntryRef::is_open)?.read()?;
        Some((self.ago(entry.monotonic), entry))
    }
    fn peers(&self, device: &Device) -> EnabledPeers<Entry> {
        let mut peers = EnabledPeers { known: 0, processes: 0, is_certain: true, first: None };
        // A device cannot have more peers than this.
        let mut seen = [0; 64];
        live::each(|place| {
            if place.kind() != kind::PEER {
                return;
            }
            let Some(entry) = place.read() else { return };
            let is_of_device = if is_own(&entry) { entry.device == device.ordinal } else { entry.uuid == device.uuid };
            let life = if is_of_device { life_of(&entry) } else { ProcessLife::Gone };
            if life == ProcessLife::Gone {
                return;
            }
            peers.is_certain &= life == ProcessLife::Runs;
            peers.known += 1;
            peers.first = peers.first.or(Some(entry));
            let who = owner_in(entry.word);
            if let Some(place) = seen.iter_mut().find(|seen| [0, who].contains(seen)) {
                peers.processes += u64::from(*place == 0);
                *place = who;
            }
        });
        peers
    }

    fn query_model<T>(&self, ask: impl FnOnce(&dyn View) -> Option<T>) -> Option<T> {
        MODEL.with(|model| ask(model)).flatten()
    }
    fn has_all_calls(&self, family: ObjectFamily) -> bool {
        MODEL.has_all_facts(|model| !model.has_lost(family))
    }
    fn has_multicast(&self, device: i32) -> Option<bool> {
        queries::has_multicast(device)
    }
    fn pool(&self, handle: u64) -> Option<BareEntry<Pool>> {
        model::pool(handle)
    }
    fn has_fabric_channel(&self) -> Option<bool> {
        Some(system::has_fabric_channel())
    }
    fn is_descriptor(&self, fd: i32) -> Option<bool> {
        Some(system::is_descriptor(fd))
    }
    fn exporter_of_descriptor(&self, object: Object, fd: i32) -> Option<(Process, Entry)> {
        let mut found: Option<Entry> = None;
        each_exported(object, |entry| {
            if entry.head == descriptor_head(fd)
                && !is_own(&entry)
                // The newest of several entries is the most likely.
                && found.is_none_or(|found| found.monotonic < entry.monotonic)
            {
                found = Some(entry);
            }
        });
        found.map(|entry| (process_of(&entry), entry))
    }
    fn reached_file_limit(&self) -> Option<Option<u64>> {
        Some(descriptors::reached_limit())
    }
    fn ptrace(&self) -> Option<Ptrace> {
        system::read_ptrace_limits()
    }

    fn allocation_of_call(&self) -> Option<(u64, u64)> {
        self.about.memory
    }
    fn is_open_already(&self, work: &mut dyn FnMut(OpenerLibraries<Entry>)) -> bool {
        let Some(place) = self.live_entry_of_opened() else { return false };
        // All callers of the CUDA runtime share its call site.
        if place.first_frame() == self.caller as u64 && !Caller::at(self.caller).is_runtime() {
            return true;
        }
        let (Some(before), file) = (place.read(), Caller::of(self.caller, self.id, true).file_name_array()) else {
            return true;
        };
        if file != before.library {
            let (first, second) = (library_text(&before.library), library_text(&file));
            work(OpenerLibraries { first, second, count: before.count + 1, opening: before });
        }
        true
    }
    fn has_closed_handle(&self) -> bool {
        self.is_closing
    }
    fn export_of_closed_handle(&self, object: Object, address: u64) -> Option<Export<Entry>> {
        // The end was reported at the last close of the object.
        let key = || process_object_key(live::own_owner_number(), kind::opened_kind(object), address, 0);
        let place = self.is_closing_the_last.then(|| live::find(key())).flatten()?;
        self.find_export(object, place.fingerprint())
    }
    fn find_freed_before(&self) -> Option<FreedExport<Entry>> {
        let (shared, (address, _)) = (self.id.spec().exports()?, self.about.memory?);
        let kind = kind::exported_kind(shared.object);
        let fingerprint = queries::stored_word(self.args, self.id.spec().argument_byte_range(shared.handle).start);
        let is_alive = |place: &live::EntryRef| place.is_own() && place.opens_and_end().ended == 0;
        if live::find_where(fingerprint_key(kind, fingerprint), is_alive).is_some() {
            return None;
        }
        let mut last: Option<Entry> = None;
        live::each_ended_and_open(|place| {
            if place.kind() == kind
                && let Some(entry) = place.read()
                && entry.address == address
                && entry.fingerprint != fingerprint
                && last.is_none_or(|last| last.ended_at < entry.ended_at)
            {
                last = Some(entry);
            }
        });
        let last = last?;
        Some(FreedExport { export: self.export_of(last), importers: importers(kind, last.fingerprint)? })
    }
    fn ended_memory(&self, start: u64, bytes: u64) -> Option<decide::EndedMemory<Entry>> {
        let address = tombstones::first_gone_address(start, bytes)?;
        let tombstones::Tombstone { end_kind: went, with_context, entry } = tombstones::find(address)?;
        let by = ClosedBy { tid: entry.tid, library: entry.library, offset: entry.offset };
        // If another process freed the memory, its export is known, and the time of the free.
        let is_owners = went == EndKind::FreedByOwner;
        Some(decide::EndedMemory {
            end_kind: went,
            owner: process_of(&entry),
            address,
            range: (entry.address, entry.bytes),
            fingerprint: entry.fingerprint,
            ago: self.ago(if is_owners { entry.ended_at } else { entry.monotonic }),
            by: (entry.frame_count != 0 && !is_owners).then_some(by),
            with_context,
            object: if is_owners { Entry { address: entry.key, ..entry } } else { entry },
        })
    }
    fn memory_range_at(&self, address: u64) -> Option<Option<(u64, u64)>> {
        queries::allocation_range_at(address).map(|there| there.map(|range| (range.start, range.end - range.start)))
    }
    fn access_of_device(&self, address: u64, device: i32) -> Option<u64> {
        queries::access_flags(address, device)
    }
    fn device_of_known_context(&self, context: u64) -> Option<i32> {
        queries::device_of_known_context(context)
    }
    fn each_batch_range(&self, work: &mut dyn FnMut(usize, u64, u64)) {
        let Some(batch) = self.id.spec().batch() else { return };
        batches::each_range(self.id, self.args, batch, work);
    }
    fn each_parameter(&self, work: &mut dyn FnMut(&str, usize, u64)) {
        let Some(launched) = self.id.spec().launches() else { return };
        parameters::with_name(queries::numeric_argument(self.id, self.args, launched.function), |name| {
            parameters::each_word(self.id, self.args, launched, &mut |index, word| work(name, index, word));
        });
    }
    fn each_node(&self, work: &mut dyn FnMut(&NodeUse)) {
        let Some(exec) = self.id.spec().graph_argument() else { return };
        let word = |argument| queries::numeric_argument(self.id, self.args, argument);
        let mut hand_over = |it: &graphs::NodeUse| {
            let graphs::NodeUse { label: NodeLabel { index, within }, address, bytes, .. } = *it;
            let (what, parameter) = match it.part {
                AddressRole::CopyTo => ("copy ", ": dst"),
                AddressRole::CopyFrom => ("copy ", ": src"),
                AddressRole::Fill => ("memset ", ": dst"),
                AddressRole::Parameter(_) => ("", ""),
            };
            let outer = within
                .map_or(ShortText::<24>::new(format_args!("")), |node| ShortText::new(format_args!(" in node {node}")));
            let number =
                index.map_or(ShortText::<12>::new(format_args!("")), |node| ShortText::new(format_args!(" {node}")));
            let (number, outer) = (number.text(), outer.text());
            let name = ShortText::<80>::new(format_args!("{what}node{number}{outer}{parameter}"));
            let mut tell = |kernel: Option<(&str, usize)>| work(&NodeUse { name: name.text(), kernel, address, bytes });
            match it.part {
                // A query returns the name of the kernel, so it is made only if the name is needed.
                AddressRole::Parameter(index) if tombstones::first_gone_address(address, bytes).is_some() => {
                    parameters::with_name(it.kernel, |name| tell(Some((name, index as usize))));
                }
                AddressRole::Parameter(_) => {}
                _ => tell(None),
            }
        };
        match self.result {
            0 => graphs::each_use(word(exec), &mut hand_over),
            // The driver may have memory at this address again.
            _ => graphs::each_use_of_refused_graph(self.id, word, &mut |it| {
                if tombstones::is_confirmed_gone(it.address, it.bytes) {
                    hand_over(it);
                }
            }),
        }
    }
    fn ended_while_open(&self) -> Option<EndedObject<Entry>> {
        if !self.id.spec().ends()?.object.is_context() {
            // A free ends memory of its own kind, or memory of a pool.
            return self.id.spec().effects().iter().find_map(|effect| {
                let Effect::Ends(end) = effect else { return None };
                let key = fingerprint_key(kind::exported_kind(end.object), self.taken?);
                self.ending_from_entry(&live::find(key).filter(live::EntryRef::is_own)?)
            });
        }
        if self.about.ended == 0 {
            return None;
        }
        // The same processes may have several handles open: counts the processes of one handle.
        let mut all: Option<EndedObject<Entry>> = None;
        live::each_own(|place| {
            let is_export = kind::exported_object(place.kind()).is_some();
            if !is_export || place.opens_and_end().ended != 0 || !place.ends_with(self.about.ended) {
                return;
            }
            let Some(one) = self.ending_from_entry(&place) else { return };
            let known = all.get_or_insert(EndedObject { handles: 0, ..one });
            known.handles += 1;
            let (before, now) = (known.importers, one.importers);
            let worth = |of: &Importers<Entry>| (of.cache.is_none(), of.running > 0, of.running + of.unknown);
            if worth(&now) > worth(&before) {
                *known = EndedObject { handles: known.handles, ..one };
            }
        });
        all
    }
}

/// Hands over the entries in the live table of all exported objects of a kind.
fn each_exported(object: Object, mut work: impl FnMut(Entry)) {
    live::each(|place| {
        if place.kind() == kind::exported_kind(object) {
            place.read().into_iter().for_each(&mut work);
        }
    });
}

fn opening_of(entry: Entry) -> Opening<Entry> {
    let Entry { fingerprint, address, peer, device, .. } = entry;
    Opening { fingerprint, address, context: peer, device, object: entry }
}

/// Returns the device of an entry, with its ordinal in the process that made the entry.
pub fn device_of(entry: &Entry) -> Device {
    Device { ordinal: entry.device, uuid: entry.uuid }
}
