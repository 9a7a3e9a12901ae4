//! The facts that a recording has about the world around a call after all processes have been read: the calls of
//! others.

use super::context::Context;
use super::objects::{export, opening};
use crate::follow::judged::{UNSEEN, device_count, ordinal, uuid};
use crate::follow::ledger::{self, CallSite, Current, Entry, HandleDomain, Import, Site, Time};
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

/// An object of a finding.
#[derive(Clone, Copy)]
pub enum ObjectRef<'a> {
    /// The export of a handle.
    Exported(&'a Entry, &'a ledger::Export),
    /// The open of a handle by a process.
    Opened(&'a Entry, usize, &'a Time),
}

impl ObjectRef<'_> {
    fn pending(self, context: &Context) -> PendingObject {
        match self {
            ObjectRef::Exported(entry, of) => export(context, entry, of),
            ObjectRef::Opened(entry, process, time) => opening(entry, process, time),
        }
    }
}

/// Facts of the whole recording that all calls share.
pub struct JobFacts<'a, 'c> {
    context: &'c Context<'a>,
    originals: HashMap<(HandleDomain, &'static str, u64), Fingerprint>,
    /// The handles that each process opened, each with the import.
    imports: HashMap<usize, Vec<(&'a Entry, &'a Import)>>,
}

impl<'a, 'c> JobFacts<'a, 'c> {
    pub fn new(context: &'c Context<'a>) -> Self {
        let mut imports: HashMap<usize, Vec<(&Entry, &Import)>> = HashMap::new();
        for entry in context.all.ledger.handles() {
            for import in entry.imports.iter().filter(|import| !import.times.is_empty()) {
                imports.entry(import.process).or_default().push((entry, import));
            }
        }
        JobFacts { context, originals: context.all.ledger.originals(), imports }
    }

    /// Returns true if the recording has all exports of a domain.
    fn knows_all(&self, domain: HandleDomain) -> bool {
        self.context.all.knows_all(domain)
    }
}

/// The facts around a call on a handle, after all processes have been read.
pub struct PostMortem<'a, 'c> {
    pub facts: &'c JobFacts<'a, 'c>,
    pub entry: &'a Entry,
    pub process: usize,
    pub at: u64,
    pub current: Current,
    /// For a second open of an open handle: the libraries of both opens, the number of opens, and the first one.
    pub again: Option<(&'c str, &'c str, u64, &'a Time)>,
    pub ending: Option<Ending<ObjectRef<'a>>>,
    /// For an export: the former export of its address that other processes still have open.
    pub freed_before: Option<FreedBefore<ObjectRef<'a>>>,
}

impl<'a> PostMortem<'a, '_> {
    fn caller(&self) -> &'a Process {
        &self.facts.context.job.processes[self.process]
    }

    pub fn export_of(&self, entry: &'a Entry, export: &'a ledger::Export) -> Export<ObjectRef<'a>> {
        let job = self.facts.context.job;
        // For a call before the last export, the earlier end of the object counts.
        let ended = match export.last.at <= self.at {
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
            owner: self.facts.context.who(export.process),
            who: export.process as u64,
            pid_ns: job.processes[export.process].header.pid_ns,
            is_own: export.process == self.process,
            address: export.address,
            device: Device {
                ordinal: export.ordinal.unwrap_or(-1),
                uuid: export.device.map_or([0; 16], |uuid| uuid.0),
            },
            inside: export.inside(self.at),
            ago: self.at.checked_sub(export.last.at).map(Ago),
            ended,
            object: ObjectRef::Exported(entry, export),
        }
    }

    /// Decides about the call at a place: what is opened, or the address of what ended.
    pub fn judge(&self, function: FnId, result: i32, site: Site) -> Vec<PendingFinding> {
        let (spec, mut args) = (function.spec(), [0; MOST_ARGS]);
        let mut put = |index: usize, bytes: &[u8]| {
            let place = args.get_mut(spec.place(index)).unwrap_or_default();
            place.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        };
        if let Some(shared) = spec.opens().or(spec.exports()) {
            let words = [self.entry.fingerprint, self.entry.checked].map(u64::to_le_bytes);
            put(shared.handle, words.as_flattened());
        }
        // Violations by arguments were found when the call was read.
        if let Some(demand) = spec.demands() {
            put(demand.by, &demand.value.to_le_bytes());
        }
        let mut all = Vec::new();
        let call = Call { function, result, args: &args, shape: 0, elements: &[] };
        decide::look(&call, self, &mut |found: &Violation<ObjectRef>| {
            let argument = found.argument.map(|index| spec.args()[index].name());
            let objects = found.objects.iter().map(|(_, thing)| thing.pending(self.facts.context)).collect();
            let call = CallSite { function, site, at: self.at };
            let found = PendingFinding::new(&found.reason, found.confidence, self.process, call, result);
            all.push(PendingFinding { argument, objects, ..found });
        });
        all
    }
}

impl<'a> World for PostMortem<'a, '_> {
    type Object = ObjectRef<'a>;

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
        self.facts.context.all.peers.can_access(self.process, from, to)
    }
    fn with_variable(&self, name: &str, work: &mut dyn FnMut(Option<&str>)) {
        work(self.caller().variable(name));
    }

    fn knows_all(&self) -> bool {
        self.facts.knows_all(self.entry.domain)
    }
    fn export(&self, object: Object, fingerprint: u64) -> Option<Export<ObjectRef<'a>>> {
        let ledger = &self.facts.context.all.ledger;
        let entry = if (object, fingerprint) == (self.entry.kind, self.entry.fingerprint) {
            self.entry
        } else {
            ledger.handle(self.entry.domain, object, fingerprint)?
        };
        Some(self.export_of(entry, entry.export.as_deref()?))
    }
    fn original(&self, object: Object, _: u64, checked: u64) -> Option<(Export<ObjectRef<'a>>, bool)> {
        let key = (self.entry.domain, object.word(), checked);
        Some((self.export(object, self.facts.originals.get(&key)?.0)?, true))
    }
    fn life(&self, export: &Export<ObjectRef<'a>>) -> Life {
        let all = self.facts.context.all;
        let fate = &all.fates[export.who as usize];
        if fate.alive == Some(true) || self.at <= fate.last_seen {
            return Life::Runs;
        }
        // The exporter has ended since, perhaps only after the call. It probably ended before the call, unless the importer had
        // checks enabled, which would have found that.
        let is_late = self.at > fate.last_seen.saturating_add(UNSEEN);
        match fate.alive {
            _ if fate.is_ended_on_purpose => Life::Unknown,
            Some(_) if is_late => Life::Gone,
            Some(_) if !all.findings.was_checked(self.process) => Life::Silent,
            None if is_late => Life::Silent,
            _ => Life::Unknown,
        }
    }
    fn trust(&self, _: &Export<ObjectRef<'a>>) -> Confidence {
        Confidence::Certain
    }
    fn each_opening(&self, object: Object, work: &mut dyn FnMut(&Opening<ObjectRef<'a>>)) {
        let imports = self.facts.imports.get(&self.process).into_iter().flatten();
        for &(entry, import) in imports.filter(|(entry, _)| entry.kind == object) {
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
                    object: ObjectRef::Opened(entry, self.process, time),
                });
            }
        }
    }

    fn open_already(&self, work: &mut dyn FnMut(Openers<ObjectRef<'a>>)) -> bool {
        if let Some((first, second, count, time)) = self.again.filter(|(first, second, ..)| first != second) {
            let opening = ObjectRef::Opened(self.entry, self.process, time);
            work(Openers { first, second, count: count as u32, opening });
        }
        self.again.is_some()
    }
    fn freed_before(&self) -> Option<FreedBefore<ObjectRef<'a>>> {
        self.freed_before
    }
    fn ending(&self) -> Option<Ending<ObjectRef<'a>>> {
        self.ending
    }
}
