//! The facts that a recording has about the world around a call after all processes have been read: the calls of
//! others.

use super::context::Context;
use super::objects::{export, in_words, opening};
use crate::follow::judged::{UNSEEN, device_count, ordinal, uuid};
use crate::follow::ledger::{self, Current, Entry, Import, Realm, Site, Time};
use crate::follow::pending::{PendingFinding, PendingObject};
use cupeer_record::Process;
use cupeer_report::model::{Fingerprint, Uuid};
use cupeer_rules::Confidence;
use cupeer_rules::decide::{
    self, Call, Ended, Ending, Export, FreedBefore, Life, Openers, Opening, Violation, World,
};
use cupeer_rules::reason::{Ago, Device};
use cupeer_spec::effect::Object;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::MOST_ARGS;
use std::collections::HashMap;

/// Something that a finding is about.
#[derive(Clone, Copy)]
pub enum Thing<'a> {
    /// A handle, as it was exported.
    Exported(&'a Entry, &'a ledger::Export),
    /// The opening of one by a process.
    Opened(&'a Entry, u32, &'a Time),
}

impl Thing<'_> {
    fn pending(self, context: &Context) -> PendingObject {
        match self {
            Thing::Exported(entry, of) => export(context, entry, of),
            Thing::Opened(entry, process, time) => opening(entry, process, time),
        }
    }
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
            inside: export.inside(self.at),
            ago: self.at.checked_sub(export.last.1).map(Ago),
            ended,
            object: Thing::Exported(entry, export),
        }
    }

    /// Decides about the call at a place: what is opened, or the address of what ended.
    pub fn look(&self, function: FnId, result: i32, site: Site) -> Vec<PendingFinding> {
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
        if let Some(demand) = spec.demands() {
            put(demand.by, &demand.value.to_le_bytes());
        }
        let mut all = Vec::new();
        let call = Call { function, result, args: &args, shape: 0, elements: &[] };
        decide::look(&call, self, &mut |found: &Violation<Thing>| {
            let argument = found.argument.map(|index| spec.args()[index].name());
            let objects = found.objects.iter().map(|(_, thing)| thing.pending(self.whole.context)).collect();
            let (call, at) = ((function, result), (site, self.at));
            let found = PendingFinding::of(&found.reason, found.confidence, call, self.process, at);
            all.push(PendingFinding { argument, objects, ..found });
        });
        all
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
