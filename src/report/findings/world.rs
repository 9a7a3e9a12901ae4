//! The facts that a recording has about the world around a call: its answers to [`cupeer_rules::decide`].
//!
//! [`AtCall`] has what is known while the events of a process are read: its own calls. [`Afterwards`] has what is
//! known after all processes have been read: the calls of others. Facts that only the driver could have supplied at
//! the call are unknown.

use super::super::ledger::follow::Follower;
use super::super::ledger::own::Own;
use super::super::ledger::{self, Current, Entry, Import, Ledger, Realm, Time};
use super::super::model::{Fingerprint, Uuid};
use super::MadeCall;
use super::objects::in_words;
use super::rows::Context;
use cupeer_books::{Pool, SpaceView};
use cupeer_record::{Library, Process};
use cupeer_rules::Confidence;
use cupeer_rules::decide::{
    Call, Closed, ClosedBy, Ended, Ending, Export, FreedBefore, HadContext, Life, Openers, Opening, World,
};
use cupeer_rules::reason::{Ago, Device};
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use cupeer_spec::record::live::LIBRARY;
use cupeer_spec::record::slot::MOST_ARGS;
use cupeer_spec::record::{meta, mode};
use cupeer_spec::results::Result;
use cupeer_spec::runtime::is_library;
use std::collections::HashMap;

/// How long a process is taken to live after it was last seen: one that waits makes no calls.
pub const UNSEEN: u64 = 2_000_000_000;

/// The number that a process has for a device; -1 where it does not see it.
pub fn ordinal(process: &Process, uuid: [u8; 16]) -> i32 {
    process.devices.iter().find(|device| device.uuid == uuid).map_or(-1, |device| device.ordinal)
}

/// The UUID of a device, as a process numbers it; zero where it is not known.
pub fn uuid(process: &Process, ordinal: i32) -> [u8; 16] {
    process.device(ordinal).map_or([0; 16], |device| device.uuid)
}

/// Whether a record has all calls of its process.
fn is_whole(process: &Process) -> bool {
    process.header.mode == mode::FULL && !process.has_losses()
}

/// How many devices a process sees, as far as is known.
fn device_count(process: &Process) -> Option<i32> {
    process.devices.iter().map(|device| device.ordinal + 1).max()
}

/// What is known of a process when one of its calls is read.
#[derive(Clone, Copy)]
pub struct Sight<'a> {
    pub follower: &'a Follower,
    pub own: &'a Own,
    pub ledger: &'a Ledger,
}

/// The world of a call that is read.
pub struct AtCall<'a, 'b> {
    pub made: &'a MadeCall<'b>,
    pub sight: Sight<'a>,
    /// Whether the process looks like a child of fork.
    pub is_forked: bool,
}

impl AtCall<'_, '_> {
    fn opening_of(&self, address: u64, held: &ledger::follow::OwnHandle) -> Opening<()> {
        Opening {
            fingerprint: self.sight.ledger.handles()[held.handle as usize].fingerprint,
            address,
            context: held.context.unwrap_or(0),
            device: held.device.unwrap_or(-1),
            object: (),
        }
    }

    /// How long before the call something was.
    fn ago(&self, at: u64) -> Option<Ago> {
        Some(Ago(self.made.at.saturating_sub(at)))
    }
}

impl World for AtCall<'_, '_> {
    type Object = ();

    fn process(&self) -> (u32, u64) {
        (self.made.process.header.pid, self.made.process.header.pid_ns)
    }
    fn thread(&self) -> u32 {
        self.made.call.tid
    }
    fn initialized_before_fork(&self) -> Option<(Option<u32>, Confidence)> {
        let text = |name| self.made.process.text(name);
        let known = text(meta::INITIALIZED_BY).map(|pid| (pid, Confidence::Certain));
        let (pid, confidence) = known.or(text(meta::DEVICES_FROM).map(|pid| (pid, Confidence::Inferred)))?;
        let parent: u32 = pid.parse().ok()?;
        Some(((parent != 0).then_some(parent), confidence))
    }
    fn is_forked(&self) -> (bool, bool) {
        (self.is_forked, false)
    }
    fn current(&self) -> Option<(i32, u64)> {
        match self.made.call.details.context {
            _ if self.made.result() == Some(Result::NOT_INITIALIZED as i32) => {
                Some((Result::NOT_INITIALIZED as i32, 0))
            }
            context => context.map(|context| (0, context)),
        }
    }
    fn device(&self) -> i32 {
        self.made.call.details.devices.0.unwrap_or(-1)
    }
    fn is_current_destroyed(&self) -> Option<bool> {
        let spec = self.made.function.spec();
        let peer = spec.enables().or(spec.disables())?;
        let peer = self.made.call.number(peer.by)?;
        let has_ended = |context| self.sight.own.has_ended(context);
        let current = has_ended(self.made.call.details.context?);
        (current != has_ended(peer)).then_some(current)
    }
    fn had_context(&self) -> HadContext {
        self.sight.own.had_context(self.made.call.tid)
    }
    fn device_count(&self) -> Option<i32> {
        device_count(self.made.process)
    }
    fn uuid(&self, ordinal: i32) -> [u8; 16] {
        uuid(self.made.process, ordinal)
    }
    fn ordinal(&self, uuid: [u8; 16]) -> i32 {
        ordinal(self.made.process, uuid)
    }
    fn device_of(&self, _context: u64) -> i32 {
        self.made.call.details.devices.1.unwrap_or(-1)
    }
    fn driver_message(&self) -> &str {
        let message = self.made.call.details.message.as_deref().unwrap_or_default();
        message.utf8_chunks().next().map_or("", |chunk| chunk.valid())
    }
    fn with_variable(&self, name: &str, work: &mut dyn FnMut(Option<&str>)) {
        work(self.made.process.variable(name));
    }

    fn knows_all(&self) -> bool {
        // Of what is opened, others know.
        is_whole(self.made.process) && self.made.function.spec().opens().is_none()
    }
    fn opening(&self, object: Object, address: u64) -> Option<Opening<()>> {
        let opened = &self.sight.follower.opened;
        if let Some(held) = opened.get(&(object, address)) {
            return Some(self.opening_of(address, held));
        }
        let is_inside = |(place, held): &(&(Object, u64), &ledger::follow::OwnHandle)| {
            place.0 == object && address.wrapping_sub(place.1) < held.bytes
        };
        let ((_, begin), held) = opened.iter().find(is_inside)?;
        Some(self.opening_of(*begin, held))
    }
    fn each_opening(&self, object: Object, work: &mut dyn FnMut(&Opening<()>)) {
        for ((_, address), held) in self.sight.follower.opened.iter().filter(|(at, _)| at.0 == object) {
            work(&self.opening_of(*address, held));
        }
    }
    fn closed(&self, address: u64) -> Option<Closed> {
        let &ledger::own::Closed { fingerprint, at, with_context, ref by, .. } =
            self.sight.own.closed(address)?;
        let by = Some(closed_by(self.made.process, by));
        Some(Closed { fingerprint, ago: self.ago(at), with_context, by })
    }
    fn enabled(&self, from: u64, to: u64) -> Option<(Option<Ago>, ())> {
        Some((self.ago(self.sight.own.enabling(from, to)?.at), ()))
    }

    fn space<T>(&self, ask: impl FnOnce(&SpaceView) -> Option<T>) -> Option<T> {
        ask(&self.sight.own.space.known().view())
    }
    fn knows_space(&self) -> bool {
        is_whole(self.made.process) && !self.sight.own.space.known().has_lost()
    }

    fn pool(&self, handle: u64) -> Option<Pool> {
        self.sight.own.pools.pool(handle)
    }
    fn pointers_of(&self, pool: u64) -> u64 {
        self.sight.own.pools.open(pool)
    }
    fn knows_pools(&self) -> bool {
        is_whole(self.made.process) && !self.sight.own.pools.has_lost()
    }

    fn memory(&self) -> Option<(u64, u64)> {
        self.made.call.details.memory
    }
    fn closed_something(&self) -> bool {
        let closes = self.made.function.spec().closes();
        let place = closes.and_then(|one| Some((one.object, self.made.call.number(one.by)?)));
        place.is_none_or(|place| self.sight.follower.opened.contains_key(&place)) || !self.knows_all()
    }
}

/// A call that has closed something. The CUDA runtime calls for others.
fn closed_by(process: &Process, by: &ledger::own::By) -> ClosedBy {
    let places = || by.frames.iter().map(|frame| (*frame, process.library_at(*frame, by.ticks)));
    let is_outside = |library: &Library| !is_library(library.path.as_bytes());
    let outside = places().find(|(_, library)| library.is_none_or(is_outside));
    let (frame, known) = outside.or_else(|| places().next()).unwrap_or((0, None));
    let mut library = [0; LIBRARY];
    if let Some(known) = known {
        let name = known.path.rsplit('/').next().unwrap_or_default();
        library.iter_mut().zip(name.bytes()).for_each(|(place, byte)| *place = byte);
    }
    ClosedBy { tid: by.tid, library, offset: frame.wrapping_sub(known.map_or(0, |known| known.base)) }
}

/// Something that a finding is about.
#[derive(Clone, Copy)]
pub enum Thing<'a> {
    /// A handle, as it was exported.
    Exported(&'a Entry, &'a ledger::Export),
    /// The opening of one by a process.
    Opened(&'a Entry, u32, &'a Time),
}

/// What follows from the whole record for all calls.
pub struct Whole<'a, 'c> {
    context: &'c Context<'a>,
    originals: HashMap<(Realm, &'static str, u64), Fingerprint>,
    /// What each process has opened: the handle, and which of its imports.
    imports: HashMap<u32, Vec<(u32, u32)>>,
}

impl<'a, 'c> Whole<'a, 'c> {
    pub fn new(context: &'c Context<'a>) -> Self {
        let mut imports: HashMap<u32, Vec<(u32, u32)>> = HashMap::new();
        for (number, entry) in context.all.ledger.handles().iter().enumerate() {
            for (index, import) in entry.imports.iter().enumerate().filter(|(_, i)| !i.times.is_empty()) {
                imports.entry(import.process).or_default().push((number as u32, index as u32));
            }
        }
        Whole { context, originals: context.all.ledger.originals(), imports }
    }

    /// Whether the record has all that processes exported whose handles mean the same.
    fn knows_all(&self, realm: Realm) -> bool {
        self.context.all.knows_all(realm)
    }
}

/// The world of a call on a handle, afterwards.
pub struct Afterwards<'a, 'c> {
    pub whole: &'c Whole<'a, 'c>,
    pub entry: &'a Entry,
    pub process: u32,
    pub at: u64,
    pub current: Current,
    /// Of an opening of what is open already: the libraries of both, how often it is open, and the first.
    pub again: Option<(&'c str, &'c str, u64, &'a Time)>,
    pub ending: Option<Ending<Thing<'a>>>,
    /// Of an export: what was exported from its address before, and who still has that open.
    pub freed_before: Option<FreedBefore<Thing<'a>>>,
}

impl<'a> Afterwards<'a, '_> {
    fn caller(&self) -> &'a Process {
        &self.whole.context.job.processes[self.process as usize]
    }

    pub fn export_of(&self, entry: &'a Entry, export: &'a ledger::Export) -> Export<Thing<'a>> {
        let job = self.whole.context.job;
        // Where it was exported anew, it is as it was before that.
        let ended = match export.last.1 <= self.at {
            true => export.ended.as_ref(),
            false => export.ended_before.iter().rev().find(|ended| ended.at.is_some_and(|at| at < self.at)),
        };
        let ended = ended.filter(|ended| ended.anew.is_none_or(|anew| anew > self.at));
        let ended = ended.map(|ended| Ended {
            is_before: ended.at.is_some_and(|at| at < self.at),
            ago: ended.at.and_then(|at| self.at.checked_sub(at)).map(Ago),
            with_context: ended.by.is_some_and(|by| by.spec().ends_context().is_some()),
        });
        Export {
            fingerprint: entry.fingerprint,
            owner: in_words(job, export.process),
            who: export.process.into(),
            pid_ns: job.processes[export.process as usize].header.pid_ns,
            is_own: export.process == self.process,
            address: export.address,
            device: Device {
                ordinal: export.ordinal.unwrap_or(-1),
                uuid: export.device.map_or([0; 16], |uuid| uuid.0),
            },
            inside: export.inside,
            ago: self.at.checked_sub(export.last.1).map(Ago),
            ended,
            object: Thing::Exported(entry, export),
        }
    }

    /// Decides about the call: what is opened, or the address of what ended.
    pub fn look(
        &self,
        function: FnId,
        result: i32,
        report: &mut dyn FnMut(&cupeer_rules::decide::Found<Thing<'a>>),
    ) {
        let (spec, mut args) = (function.spec(), [0; MOST_ARGS]);
        let mut put = |index: usize, bytes: &[u8]| {
            let place = args.get_mut(spec.place(index)).unwrap_or_default();
            place.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        };
        if let Some(shared) = spec.opens().or(spec.exports()) {
            let words = [self.entry.fingerprint, self.entry.checked].map(u64::to_le_bytes);
            put(shared.handle, words.as_flattened());
        }
        // What is wrong with the arguments was found when the call was read.
        if let Some((index, _)) = spec.argument("Flags") {
            put(index, &1u32.to_le_bytes());
        }
        cupeer_rules::decide::look(
            &Call { function, result, args: &args, shape: 0, elements: &[] },
            self,
            report,
        );
    }
}

impl<'a> World for Afterwards<'a, '_> {
    type Object = Thing<'a>;

    fn process(&self) -> (u32, u64) {
        (self.caller().header.pid, self.caller().header.pid_ns)
    }
    fn current(&self) -> Option<(i32, u64)> {
        self.current.context.map(|context| (0, context))
    }
    fn device(&self) -> i32 {
        self.current.device.unwrap_or(-1)
    }
    fn device_count(&self) -> Option<i32> {
        device_count(self.caller())
    }
    fn uuid(&self, ordinal: i32) -> [u8; 16] {
        uuid(self.caller(), ordinal)
    }
    fn ordinal(&self, uuid: [u8; 16]) -> i32 {
        ordinal(self.caller(), uuid)
    }
    fn can_access(&self, from: i32, to: i32) -> Option<bool> {
        let [from, to] = [from, to].map(|ordinal| Uuid(uuid(self.caller(), ordinal)));
        self.whole.context.all.peers.can_access(self.process as usize, from, to)
    }
    fn with_variable(&self, name: &str, work: &mut dyn FnMut(Option<&str>)) {
        work(self.caller().variable(name));
    }

    fn knows_all(&self) -> bool {
        self.whole.knows_all(self.entry.realm)
    }
    fn export(&self, object: Object, fingerprint: u64) -> Option<Export<Thing<'a>>> {
        let ledger = &self.whole.context.all.ledger;
        let entry = if (object, fingerprint) == (self.entry.kind, self.entry.fingerprint) {
            self.entry
        } else {
            ledger.handle(self.entry.realm, object, fingerprint)?
        };
        Some(self.export_of(entry, entry.export.as_deref()?))
    }
    fn original(&self, object: Object, _: u64, checked: u64) -> Option<(Export<Thing<'a>>, bool)> {
        let key = (self.entry.realm, object.word(), checked);
        Some((self.export(object, self.whole.originals.get(&key)?.0)?, true))
    }
    fn life(&self, export: &Export<Thing<'a>>) -> Life {
        let all = self.whole.context.all;
        let fate = &all.fates[export.who as usize];
        if fate.alive == Some(true) || self.at <= fate.last_seen {
            return Life::Runs;
        }
        // One that has ended since may have waited until then; that it was gone is the likeliest all the same, but where
        // the importer has looked.
        let is_late = self.at > fate.last_seen.saturating_add(UNSEEN);
        match fate.alive {
            _ if fate.is_ended_on_purpose => Life::Unknown,
            Some(_) if is_late => Life::Gone,
            Some(_) if !all.findings.was_checked(self.process as usize) => Life::Silent,
            None if is_late => Life::Silent,
            _ => Life::Unknown,
        }
    }
    fn trust(&self, _: &Export<Thing<'a>>) -> Confidence {
        Confidence::Certain
    }
    fn each_opening(&self, object: Object, work: &mut dyn FnMut(&Opening<Thing<'a>>)) {
        let handles = self.whole.context.all.ledger.handles();
        for (number, index) in self.whole.imports.get(&self.process).into_iter().flatten() {
            let entry = &handles[*number as usize];
            let import: &'a Import = &entry.imports[*index as usize];
            if entry.kind != object {
                continue;
            }
            let is_open = |time: &&Time| {
                let end = time.ended.map(|ended| ended.at.unwrap_or(0));
                time.opened < self.at && end.is_none_or(|end| self.at < end)
            };
            if let Some(time) = import.times.iter().find(is_open) {
                work(&Opening {
                    fingerprint: entry.fingerprint,
                    address: time.address,
                    context: time.current.context.unwrap_or(0),
                    device: time.current.device.unwrap_or(-1),
                    object: Thing::Opened(entry, self.process, time),
                });
            }
        }
    }

    fn open_already(&self, work: &mut dyn FnMut(Openers<Thing<'a>>)) -> bool {
        if let Some((first, second, count, time)) = self.again.filter(|(first, second, ..)| first != second) {
            let opening = Thing::Opened(self.entry, self.process, time);
            work(Openers { first, second, count: count as u32, opening });
        }
        self.again.is_some()
    }
    fn freed_before(&self) -> Option<FreedBefore<Thing<'a>>> {
        self.freed_before
    }
    fn ending(&self) -> Option<Ending<Thing<'a>>> {
        self.ending
    }
}
