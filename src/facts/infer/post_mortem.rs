//! The facts that a recording has about the world around a call after all processes have been read: the calls of
//! others.

use super::context::Context;
use super::objects::{export_object, opening_object};
use crate::follow::judged::{ASSUMED_LIFETIME, device_count, ordinal_of_uuid, uuid_of_ordinal};
use crate::follow::ledger::{self, CallSite, CurrentContext, HandleDomain, HandleEntry, Import, OpenPeriod, Site};
use crate::follow::pending::{PendingFinding, PendingObject};
use cupeer_record::Process;
use cupeer_report::model::{Fingerprint, Uuid};
use cupeer_rules::Confidence;
use cupeer_rules::decide::{
    self, Call, EndedObject, Export, FreedExport, ObjectEnd, OpenerLibraries, Opening, ProcessLife, Violation, World,
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
    Exported(&'a HandleEntry, &'a ledger::Export),
    /// The open of a handle by a process.
    Opened(&'a HandleEntry, usize, &'a OpenPeriod),
}

impl ObjectRef<'_> {
    fn to_pending_object(self, context: &Context) -> PendingObject {
        match self {
            ObjectRef::Exported(entry, of) => export_object(context, entry, of),
            ObjectRef::Opened(entry, process, time) => opening_object(entry, process, time),
        }
    }
}

/// Facts of the whole recording that all calls share.
pub struct JobFacts<'a, 'c> {
    context: &'c Context<'a>,
    originals: HashMap<(HandleDomain, &'static str, u64), Fingerprint>,
    /// The handles that each process opened, each with the import.
    imports: HashMap<usize, Vec<(&'a HandleEntry, &'a Import)>>,
}

impl<'a, 'c> JobFacts<'a, 'c> {
    pub fn new(context: &'c Context<'a>) -> Self {
        let mut imports: HashMap<usize, Vec<(&HandleEntry, &Import)>> = HashMap::new();
        for entry in context.all.ledger.handles() {
            for import in entry.imports.iter().filter(|import| !import.times.is_empty()) {
                imports.entry(import.process).or_default().push((entry, import));
            }
        }
        JobFacts { context, originals: context.all.ledger.originals_of_copies(), imports }
    }

    /// Returns true if the recording has all exports of a domain.
    fn knows_all(&self, domain: HandleDomain) -> bool {
        self.context.all.has_all_calls_of(domain)
    }
}

/// The facts around a call on a handle, after all processes have been read.
pub struct JobWorld<'a, 'c> {
    pub facts: &'c JobFacts<'a, 'c>,
    pub entry: &'a HandleEntry,
    pub process: usize,
    pub at: u64,
    pub current: CurrentContext,
    /// For a second open of an open handle: the libraries of both opens, the number of opens, and the first open.
    pub earlier_open: Option<(&'c str, &'c str, u64, &'a OpenPeriod)>,
    pub ending: Option<EndedObject<ObjectRef<'a>>>,
    /// For an export: the former export of its address that other processes still have open.
    pub freed_before: Option<FreedExport<ObjectRef<'a>>>,
}

impl<'a> JobWorld<'a, '_> {
    fn calling_process(&self) -> &'a Process {
        &self.facts.context.job.processes[self.process]
    }

    pub fn to_export(&self, entry: &'a HandleEntry, export: &'a ledger::Export) -> Export<ObjectRef<'a>> {
        let job = self.facts.context.job;
        // For a call before the last export, the earlier end of the object counts.
        let ended = match export.last.at <= self.at {
            true => export.ended.as_ref(),
            false => export.ended_before.iter().rev().find(|ended| ended.at.is_some_and(|at| at < self.at)),
        };
        let ended = ended.filter(|ended| ended.exported_again_at.is_none_or(|anew| anew > self.at));
        let ended = ended.map(|ended| ObjectEnd {
            is_before: ended.at.is_some_and(|at| at < self.at),
            ago: ended.at.and_then(|at| self.at.checked_sub(at)).map(Ago),
            with_context: ended.by.is_some_and(|by| by.spec().ended_context().is_some()),
        });
        Export {
            fingerprint: entry.fingerprint,
            owner: self.facts.context.named_process(export.process),
            exporter_id: export.process as u64,
            pid_ns: job.processes[export.process].header.pid_ns,
            is_own: export.process == self.process,
            address: export.address,
            device: Device {
                ordinal: export.ordinal.unwrap_or(-1),
                uuid: export.device.map_or([0; 16], |uuid| uuid.0),
            },
            pointer_offset: export.offset_at(self.at),
            ago: self.at.checked_sub(export.last.at).map(Ago),
            ended,
            object: ObjectRef::Exported(entry, export),
        }
    }

    /// Decides about the call at a place: what is opened, or the address of what ended.
    pub fn judge_call(&self, function: FnId, result: i32, site: Site) -> Vec<PendingFinding> {
        let (spec, mut args) = (function.spec(), [0; MOST_ARGS]);
        let mut put = |index: usize, bytes: &[u8]| {
            let place = args.get_mut(spec.argument_byte_range(index)).unwrap_or_default();
            place.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        };
        if let Some(shared) = spec.opens().or(spec.exports()) {
            let words = [self.entry.fingerprint, self.entry.checked].map(u64::to_le_bytes);
            put(shared.handle, words.as_flattened());
        }
        // Violations by arguments were found when the call was read.
        if let Some(demand) = spec.required_value() {
            put(demand.by, &demand.value.to_le_bytes());
        }
        let mut all = Vec::new();
        let call = Call { function, result, args: &args, shape: 0, elements: &[] };
        decide::check_call(&call, self, &mut |found: &Violation<ObjectRef>| {
            let argument = found.argument.map(|index| spec.args()[index].name());
            let objects = found.objects.iter().map(|(_, thing)| thing.to_pending_object(self.facts.context)).collect();
            let call = CallSite { function, site, at: self.at };
            let found = PendingFinding::new(&found.reason, found.confidence, self.process, call, result);
            all.push(PendingFinding { argument, objects, ..found });
        });
        all
    }
}

impl<'a> World for JobWorld<'a, '_> {
    type Object = ObjectRef<'a>;

    fn pid_and_namespace(&self) -> (u32, u64) {
        (self.calling_process().header.pid, self.calling_process().header.pid_ns)
    }
    fn current_context(&self) -> Option<(i32, u64)> {
        self.current.context.map(|context| (0, context))
    }
    fn current_device(&self) -> i32 {
        self.current.device.unwrap_or(-1)
    }
    fn device_count(&self) -> Option<i32> {
        device_count(self.calling_process())
    }
    fn uuid(&self, ordinal: i32) -> [u8; 16] {
        uuid_of_ordinal(self.calling_process(), ordinal)
    }
    fn ordinal(&self, uuid: [u8; 16]) -> i32 {
        ordinal_of_uuid(self.calling_process(), uuid)
    }
    fn can_access(&self, from: i32, to: i32) -> Option<bool> {
        let [from, to] = [from, to].map(|ordinal| Uuid(uuid_of_ordinal(self.calling_process(), ordinal)));
        self.facts.context.all.peers.can_access(self.process, from, to)
    }
    fn with_variable(&self, name: &str, work: &mut dyn FnMut(Option<&str>)) {
        work(self.calling_process().variable(name));
    }

    fn has_all_exports(&self) -> bool {
        self.facts.knows_all(self.entry.domain)
    }
    fn find_export(&self, object: Object, fingerprint: u64) -> Option<Export<ObjectRef<'a>>> {
        let ledger = &self.facts.context.all.ledger;
        let entry = if (object, fingerprint) == (self.entry.kind, self.entry.fingerprint) {
            self.entry
        } else {
            ledger.find_handle(self.entry.domain, object, fingerprint)?
        };
        Some(self.to_export(entry, entry.export.as_deref()?))
    }
    fn find_original(&self, object: Object, _: u64, checked: u64) -> Option<(Export<ObjectRef<'a>>, bool)> {
        let key = (self.entry.domain, object.word(), checked);
        Some((self.find_export(object, self.facts.originals.get(&key)?.0)?, true))
    }
    fn exporter_life(&self, export: &Export<ObjectRef<'a>>) -> ProcessLife {
        let all = self.facts.context.all;
        let fate = &all.fates[export.exporter_id as usize];
        if fate.alive == Some(true) || self.at <= fate.last_seen {
            return ProcessLife::Runs;
        }
        // The exporter has ended since, perhaps only after the call. It probably ended before the call, unless the importer had
        // checks enabled, which would have found that.
        let is_late = self.at > fate.last_seen.saturating_add(ASSUMED_LIFETIME);
        match fate.alive {
            _ if fate.is_ended_on_purpose => ProcessLife::Unknown,
            Some(_) if is_late => ProcessLife::Gone,
            Some(_) if !all.findings.was_checked(self.process) => ProcessLife::Vanished,
            None if is_late => ProcessLife::Vanished,
            _ => ProcessLife::Unknown,
        }
    }
    fn exporter_confidence(&self, _: &Export<ObjectRef<'a>>) -> Confidence {
        Confidence::Certain
    }
    fn each_opening(&self, object: Object, work: &mut dyn FnMut(&Opening<ObjectRef<'a>>)) {
        let imports = self.facts.imports.get(&self.process).into_iter().flatten();
        for &(entry, import) in imports.filter(|(entry, _)| entry.kind == object) {
            let is_open = |time: &&OpenPeriod| {
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

    fn is_open_already(&self, work: &mut dyn FnMut(OpenerLibraries<ObjectRef<'a>>)) -> bool {
        if let Some((first, second, count, time)) = self.earlier_open.filter(|(first, second, ..)| first != second) {
            let opening = ObjectRef::Opened(self.entry, self.process, time);
            work(OpenerLibraries { first, second, count: count as u32, opening });
        }
        self.earlier_open.is_some()
    }
    fn find_freed_before(&self) -> Option<FreedExport<ObjectRef<'a>>> {
        self.freed_before
    }
    fn ended_while_open(&self) -> Option<EndedObject<ObjectRef<'a>>> {
        self.ending
    }
}
