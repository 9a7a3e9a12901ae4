//! The objects of findings: exports, opens, and releases, from the recording or the handle table.

use super::context::Context;
use crate::follow::collect::{ProcessIdentity, index_by_identity};
use crate::follow::ledger::live::nonzero_uuid;
use crate::follow::ledger::{CallSite, Export, HandleEntry, ObjectEnd, OpenPeriod};
use crate::follow::pending::{PendingAccess, PendingFinding, PendingObject};
use crate::follow::uses::MemoryUse;
use cupeer_record::{self as record, Clock};
use cupeer_report::model::{Fingerprint, Object, Place, Proc, SharedUse, Uuid};
use cupeer_report::places::{PlaceTable, StackNumber};
use cupeer_rules::reason::Ago;
use cupeer_spec::effect::Object as Kind;
use cupeer_spec::record::slot::finding::role;
use std::collections::HashMap;

pub fn export_object(context: &Context, entry: &HandleEntry, export: &Export) -> PendingObject {
    PendingObject {
        device: export.device,
        address: export.address,
        bytes: export.bytes,
        allocator: context.allocator(entry),
        fingerprint: Some(entry.fingerprint),
        ..PendingObject::new(role::EXPORT, export.process, export.last)
    }
}

pub fn opening_object(entry: &HandleEntry, process: usize, time: &OpenPeriod) -> PendingObject {
    PendingObject {
        device: time.device,
        fingerprint: Some(entry.fingerprint),
        ..PendingObject::new(role::OPENING, process, time.first_call())
    }
}

/// Returns the call that opened a handle, and the call that exported it.
pub fn opening_and_export_objects(
    context: &Context,
    entry: &HandleEntry,
    process: usize,
    time: &OpenPeriod,
) -> Vec<PendingObject> {
    let exported = entry.export.iter().map(|of| export_object(context, entry, of));
    std::iter::once(opening_object(entry, process, time)).chain(exported).collect()
}

/// Returns the call by which a process closed a handle.
pub fn closing_object(entry: &HandleEntry, process: usize, ended: &ObjectEnd) -> PendingObject {
    PendingObject {
        fingerprint: Some(entry.fingerprint),
        ..PendingObject::from_optional_site(role::CLOSING, process, ended.site, ended.at)
    }
}

pub fn freeing_object(entry: &HandleEntry, export: &Export, ended: &ObjectEnd) -> PendingObject {
    let is_context = ended.by.is_some_and(|by| by.spec().ended_context().is_some());
    let role = if is_context { role::ENDING } else { role::FREEING };
    PendingObject {
        device: export.device,
        address: export.address,
        bytes: export.bytes,
        fingerprint: Some(entry.fingerprint),
        ..PendingObject::from_optional_site(role, export.process, ended.site, ended.at)
    }
}

/// Returns an object for the first call of a process that exported or imported a descriptor.
pub fn descriptor_object(process: usize, made: CallSite, is_export: bool) -> PendingObject {
    PendingObject::new(if is_export { role::EXPORT } else { role::OPENING }, process, made)
}

/// Returns an object for a call that copied data from the host.
pub fn copying_object(process: usize, copied: &MemoryUse) -> PendingObject {
    PendingObject {
        device: copied.device,
        address: copied.address,
        bytes: Some(copied.bytes),
        ..PendingObject::new(role::COPYING, process, copied.call_site())
    }
}

/// Returns an object for a call that used shared memory.
pub fn using_object(process: usize, call: CallSite, bytes: u64) -> PendingObject {
    PendingObject { bytes: Some(bytes), ..PendingObject::new(role::USING, process, call) }
}

/// Converts pending objects to objects of the report, whose places have names.
pub struct ObjectBuilder<'c, 'a> {
    context: &'c Context<'a>,
    processes: HashMap<ProcessIdentity, usize>,
    /// The stacks with Python lines, by process and return addresses.
    with_python: HashMap<(usize, &'a [u64]), Vec<StackNumber>>,
}

impl<'c, 'a> ObjectBuilder<'c, 'a> {
    pub fn new(context: &'c Context<'a>) -> Self {
        let (stacks, processes) = (&context.all.stacks, index_by_identity(context.job));
        let mut with_python: HashMap<_, Vec<StackNumber>> = HashMap::new();
        for stack in stacks.numbers() {
            let (process, _, frames, python) = stacks.get(stack);
            if !python.is_empty() {
                with_python.entry((*process as usize, &**frames)).or_default().push(stack);
            }
        }
        ObjectBuilder { context, processes, with_python }
    }

    /// Returns the objects of a finding: first those that its process recorded, then the others.
    pub fn objects_of(&self, found: &PendingFinding, places: &mut PlaceTable) -> Vec<Object> {
        let mut all: Vec<Object> = Vec::new();
        all.extend(found.recorded_objects.iter().map(|object| self.build_recorded(object, found.processes[0], places)));
        all.extend(found.objects.iter().map(|object| self.build_pending(object, places)));
        all
    }

    /// Returns the process of an object that another process recorded with its call.
    pub fn process_of(&self, object: &record::FindingObject, process: usize) -> Option<usize> {
        let what = &object.what;
        let boot_id = self.context.job.processes[process].header.boot_id;
        self.processes.get(&(boot_id, what.pid_ns, what.pid, what.started, what.image)).copied()
    }

    /// Returns an object of the report for an object that was recorded with a call of a process.
    fn build_recorded(&self, object: &record::FindingObject, process: usize, places: &mut PlaceTable) -> Object {
        let Context { job, all, .. } = self.context;
        let (what, index) = (&object.what, self.process_of(object, process));
        let clock = job.clock(&job.processes[process]);
        let known = |number: u64| (number != 0).then_some(number);
        let since = |at: u64| {
            let origin = &clock.origin;
            let later = origin.realtime.saturating_add(at.saturating_sub(origin.monotonic));
            later.saturating_sub(origin.monotonic.saturating_sub(at))
        };
        let at = known(what.monotonic).map(since);
        let stack = match index {
            Some(index) if !object.frames.is_empty() => match self.stack_with_python(object, index, at) {
                Some(stack) => places.place_and_stack(&all.stacks, stack),
                None => places.place_by_addresses(index, to_ticks(&clock, what.monotonic), &object.frames),
            },
            _ => Default::default(),
        };
        let device = nonzero_uuid(what.uuid).or_else(|| {
            let device = job.processes[index?].device(what.device)?;
            Some(Uuid(device.uuid))
        });
        let exported = known(what.fingerprint).filter(|_| what.role == role::EXPORT);
        let entry = exported.and_then(|handle| all.ledger.find_of_any_kind(all.domains[process], handle));
        let mut made = Object {
            rank: (what.rank != u32::MAX).then_some(what.rank),
            tid: (what.tid != 0).then_some(what.tid),
            device,
            address: known(what.address),
            bytes: known(what.bytes),
            allocator: entry.and_then(|entry| self.context.allocator(entry)),
            fingerprint: known(what.fingerprint).map(Fingerprint),
            time_ns: at.map(|at| self.find_call_start(object, index, at).unwrap_or(at)),
            ..self.bare_object(what.role, index, stack)
        };
        made.pid = what.pid;
        let library = object.library_name();
        // The record has only the beginning of a long library name.
        let is_its = |place: &&Place| {
            place.offset == what.offset && place.file_name().is_some_and(|name| name.starts_with(&*library))
        };
        let whole = made.stack.iter().find(is_its).and_then(Place::file_name).unwrap_or(&library).into();
        if !library.is_empty() {
            (made.library, made.offset) = (Some(whole), Some(what.offset));
        }
        made
    }

    /// Returns the stack, with its lines of Python, of a call that a process noted after it had returned, at about this time.
    /// The process notes only the return addresses, which differ less than the lines. `None` if no line is known for them.
    fn stack_with_python(
        &self,
        object: &record::FindingObject,
        process: usize,
        about: Option<u64>,
    ) -> Option<StackNumber> {
        let all = self.with_python.get(&(process, &*object.frames))?;
        if let [only] = &all[..] {
            return Some(*only);
        }
        let (about, domain) = (about?, *self.context.all.domains.get(process)?);
        let made = |kind: &Kind| {
            let entry = self.context.all.ledger.find_handle(domain, *kind, object.what.fingerprint)?;
            let is_export = object.what.role == role::EXPORT;
            let export = entry.export.as_ref().filter(|export| is_export && export.process == process);
            let exported = export.into_iter().flat_map(|export| [export.first, export.last]);
            let exported = exported.map(|call| (call.at, call.site.stack));
            let opened = entry.imports.iter().filter(|import| !is_export && import.process == process);
            let times = opened.flat_map(|import| &import.times);
            let opened = times.clone().map(|time| (time.opened, time.site.stack));
            let closed = times.filter_map(|time| Some((time.ended?.at?, time.ended?.site?.stack)));
            let closed = closed.filter(|_| object.what.role == role::CLOSING);
            let opened = opened.filter(|_| object.what.role != role::CLOSING);
            let calls = exported.chain(opened).chain(closed).filter(|(_, stack)| all.contains(stack));
            calls.min_by_key(|(call, _)| (*call > about, call.abs_diff(about)))
        };
        Kind::ALL.iter().find_map(made).map(|(_, stack)| stack)
    }

    /// Returns when a call began that a process noted after it had returned, at about this time. `None` if the handle table does
    /// not have all calls that it can be.
    fn find_call_start(&self, object: &record::FindingObject, process: Option<usize>, about: u64) -> Option<u64> {
        let process = process?;
        let domain = *self.context.all.domains.get(process)?;
        let of_kind = |kind: &Kind| {
            let entry = self.context.all.ledger.find_handle(domain, *kind, object.what.fingerprint)?;
            match object.what.role {
                role::EXPORT => {
                    let export = entry.export.as_ref().filter(|export| export.process == process)?;
                    (export.times <= 2).then(|| vec![export.first.at, export.last.at])
                }
                role::OPENING => entry.import_by(process)?.all_open_times(),
                role::CLOSING | role::FREEING | role::ENDING => {
                    let import = entry.import_by(process).into_iter();
                    let closed = import.flat_map(|import| &import.times).filter_map(|time| time.ended);
                    let export = entry.export.iter().filter(|export| export.process == process);
                    let ended = export.flat_map(|it| it.ended.iter().chain(&it.ended_before).chain(&it.perhaps_ended));
                    Some(closed.chain(ended.copied()).filter_map(|ended| ended.at).collect())
                }
                _ => None,
            }
        };
        // The process noted the call when it returned, so the call began before that.
        let calls = Kind::ALL.iter().find_map(of_kind)?.into_iter();
        calls.min_by_key(|call| (*call > about, call.abs_diff(about)))
    }

    /// Returns a sentence that a process recorded, with its duration ("... ago") corrected by the recorded times of the calls.
    pub fn correct_age(&self, message: String, at: u64, objects: &[Object], process: usize) -> String {
        let parts = message.split_once(" ago").and_then(|(before, after)| {
            let mut words = before.rsplitn(3, ' ');
            let unit = words.next().filter(|unit| ["us", "ms", "s"].contains(unit));
            unit.zip(words.next()?.parse::<f64>().ok())?;
            Some((words.next()?, after))
        });
        let is_end = |object: &&Object| {
            let [export, opening] = [role::EXPORT, role::OPENING].map(role::word);
            ![export, opening].contains(&Some(object.role))
        };
        let ended = |object: &Object| {
            let entry =
                self.context.all.ledger.find_of_any_kind(self.context.all.domains[process], object.fingerprint?.0)?;
            entry.export.as_ref()?.ended?.at.filter(|ended| *ended <= at)
        };
        let past = objects.iter().find(is_end).and_then(|object| object.time_ns);
        let past = past.or_else(|| objects.iter().find_map(|object| ended(object).or(object.time_ns)));
        match parts.zip(past) {
            Some(((before, after), past)) => format!("{before} {} ago{after}", Ago(at.saturating_sub(past))),
            None => message,
        }
    }

    fn build_pending(&self, object: &PendingObject, places: &mut PlaceTable) -> Object {
        let stack =
            object.stack.map(|stack| places.place_and_stack(&self.context.all.stacks, stack)).unwrap_or_default();
        Object {
            tid: object.tid,
            device: object.device,
            address: (object.address != 0).then_some(object.address),
            bytes: object.bytes,
            allocator: object.allocator,
            fingerprint: object.fingerprint.map(Fingerprint),
            time_ns: object.at,
            ..self.bare_object(object.role, Some(object.process), stack)
        }
    }

    /// Returns the uses of shared memory of a finding, with names of their places.
    pub fn shared_uses(&self, found: &PendingFinding, places: &mut PlaceTable) -> Vec<SharedUse> {
        let placed = |access: &PendingAccess| {
            let CallSite { function, site, at } = access.call;
            let (caller, _) = places.place_and_stack(&self.context.all.stacks, site.stack);
            SharedUse {
                proc: self.context.all.fates[access.process].proc.clone(),
                tid: site.tid,
                function: function.spec().name(),
                caller,
                stream: access.stream.clone(),
                bytes: access.bytes,
                offset: access.offset,
                time_ns: at,
            }
        };
        found.accesses.iter().map(placed).collect()
    }

    /// Returns an object of the report with only a role, a process, and a place.
    fn bare_object(&self, role: u32, process: Option<usize>, (caller, stack): (Place, Vec<Place>)) -> Object {
        let process = process.map(|index| &self.context.job.processes[index]);
        let library = caller.calling_place().file_name().map(Into::into);
        Object {
            role: role::word(role).unwrap_or("unknown"),
            proc: process.map(|process| Proc::from(process.proc.as_str())),
            pid: process.map_or(0, |process| process.header.pid),
            rank: process.and_then(record::Process::rank),
            offset: library.is_some().then_some(caller.calling_place().offset),
            library,
            stack,
            caller: Some(caller).filter(|caller| caller.via.is_some()),
            ..Object::default()
        }
    }
}

/// Converts a monotonic time in nanoseconds to ticks of the record's clock.
fn to_ticks(clock: &Clock, monotonic: u64) -> u64 {
    let since = (monotonic as f64 - clock.origin.monotonic as f64) / clock.speed;
    clock.origin.ticks.saturating_add_signed(since as i64)
}
