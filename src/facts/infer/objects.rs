//! The objects of findings: exports, opens, and releases, from the recording or the handle table.

use crate::follow::allocator::Allocators;
use crate::follow::collect::reading::Staged;
use crate::follow::collect::{Collected, Identity, identities};
use crate::follow::judged::Earlier;
use crate::follow::ledger::descriptors::Made;
use crate::follow::ledger::live::uuid;
use crate::follow::ledger::{Ended, Entry, Export, Ledger, Realm, Site, Time};
use cupeer_record::{self as record, Clock, Job};
use cupeer_report::model::{Allocator, Fingerprint, Object, Place, Proc, Uuid};
use cupeer_report::places::{Places, Stack, Stacks};
use cupeer_rules::reason;
use cupeer_spec::effect::Object as Kind;
use cupeer_spec::record::slot::finding::role;
use std::collections::HashMap;

pub struct Objects<'a> {
    job: &'a Job,
    stacks: &'a Stacks,
    allocators: &'a Allocators,
    ledger: &'a Ledger,
    realms: &'a [Realm],
    processes: HashMap<Identity, usize>,
    /// The stacks with lines of Python, by process and return addresses.
    with_python: HashMap<(usize, &'a [u64]), Vec<Stack>>,
}

impl<'a> Objects<'a> {
    /// Of a job, of which this was collected.
    pub fn new(job: &'a Job, all: &'a Collected) -> Self {
        let Collected { stacks, allocators, ledger, realms, .. } = all;
        let mut with_python: HashMap<_, Vec<Stack>> = HashMap::new();
        for stack in stacks.numbers() {
            let (process, _, frames, python) = stacks.get(stack);
            if !python.is_empty() {
                with_python.entry((*process as usize, &**frames)).or_default().push(stack);
            }
        }
        Objects { job, stacks, allocators, ledger, realms, processes: identities(job), with_python }
    }

    /// One that was recorded with a call of a process.
    pub fn recorded(&self, object: &record::Object, process: usize, places: &mut Places) -> Object {
        let what = &object.what;
        let teller = &self.job.processes[process];
        let key = (teller.header.boot_id, what.pid_ns, what.pid, what.started, what.image);
        let index = self.processes.get(&key).copied();
        let clock = self.job.clock(teller);
        let known = |number: u64| (number != 0).then_some(number);
        let since = |at: u64| {
            let origin = &clock.origin;
            let later = origin.realtime.saturating_add(at.saturating_sub(origin.monotonic));
            later.saturating_sub(origin.monotonic.saturating_sub(at))
        };
        let at = known(what.monotonic).map(since);
        let stack = match index {
            Some(index) if !object.frames.is_empty() => match self.in_python(object, index, at) {
                Some(stack) => places.stack(self.stacks, stack),
                None => places.named(index, ticks(&clock, what.monotonic), &object.frames),
            },
            _ => Default::default(),
        };
        let device = uuid(what.uuid).or_else(|| {
            let device = self.job.processes[index?].device(what.device)?;
            Some(Uuid(device.uuid))
        });
        let mut made = Object {
            rank: (what.rank != u32::MAX).then_some(what.rank),
            tid: (what.tid != 0).then_some(what.tid),
            device,
            address: known(what.address),
            bytes: known(what.bytes),
            fingerprint: known(what.fingerprint).map(Fingerprint),
            time_ns: at.map(|at| self.called(object, index, at).unwrap_or(at)),
            ..self.object(what.role, index, stack)
        };
        made.pid = what.pid;
        let library = object.library();
        if !library.is_empty() {
            (made.library, made.offset) = (Some(library.into()), Some(what.offset));
        }
        made
    }

    /// Returns the stack, with its lines of Python, of a call that a process noted after it had returned, at about this time.
    /// The process notes only the return addresses, which differ less than the lines. `None` if no line is known for them.
    fn in_python(&self, object: &record::Object, process: usize, about: Option<u64>) -> Option<Stack> {
        let all = self.with_python.get(&(process, &*object.frames))?;
        if let [only] = &all[..] {
            return Some(*only);
        }
        let (about, realm) = (about?, *self.realms.get(process)?);
        let made = |kind: &Kind| {
            let entry = self.ledger.handle(realm, *kind, object.what.fingerprint)?;
            let is_export = object.what.role == role::EXPORT;
            let export =
                entry.export.as_ref().filter(|export| is_export && export.process as usize == process);
            let first = export.and_then(|export| Some((export.first.1, export.made?.1.stack)));
            let last = export.and_then(|export| Some((export.last.1, export.stack?)));
            let opened =
                entry.imports.iter().filter(|import| !is_export && import.process as usize == process);
            let opened = opened.flat_map(|import| &import.times).map(|time| (time.opened, time.site.stack));
            let calls = first.into_iter().chain(last).chain(opened).filter(|(_, stack)| all.contains(stack));
            calls.min_by_key(|(call, _)| (*call > about, call.abs_diff(about)))
        };
        Kind::ALL.iter().find_map(made).map(|(_, stack)| stack)
    }

    /// Returns when a call began that a process noted after it had returned, at about this time. `None` if the handle table does
    /// not have all calls that it can be.
    fn called(&self, object: &record::Object, process: Option<usize>, about: u64) -> Option<u64> {
        let process = process?;
        let realm = *self.realms.get(process)?;
        let of_kind = |kind: &Kind| {
            let entry = self.ledger.handle(realm, *kind, object.what.fingerprint)?;
            match object.what.role {
                role::EXPORT => {
                    let export = entry.export.as_ref().filter(|export| export.process as usize == process)?;
                    (export.times <= 2).then(|| vec![export.first.1, export.last.1])
                }
                role::OPENING => {
                    let import = entry.imports.iter().find(|import| import.process as usize == process)?;
                    import.all_opened()
                }
                _ => None,
            }
        };
        // The call began before the process noted it.
        let calls = Kind::ALL.iter().find_map(of_kind)?.into_iter();
        calls.min_by_key(|call| (*call > about, call.abs_diff(about)))
    }

    pub fn export(&self, entry: &Entry, export: &Export, places: &mut Places) -> Object {
        Object {
            tid: Some(export.last.0),
            device: export.device,
            address: (export.address != 0).then_some(export.address),
            bytes: export.bytes,
            allocator: self.allocator(entry),
            fingerprint: Some(Fingerprint(entry.fingerprint)),
            time_ns: Some(export.last.1),
            ..self.placed(role::EXPORT, export.process as usize, export.stack, places)
        }
    }

    /// Whose memory was exported.
    pub fn allocator(&self, entry: &Entry) -> Option<Allocator> {
        self.allocators.of(entry, &self.job.processes, self.stacks)
    }

    pub fn opening(&self, entry: &Entry, process: u32, time: &Time, places: &mut Places) -> Object {
        Object {
            tid: Some(time.site.tid),
            device: time.device,
            fingerprint: Some(Fingerprint(entry.fingerprint)),
            time_ns: Some(time.opened),
            ..self.placed(role::OPENING, process as usize, Some(time.site.stack), places)
        }
    }

    /// Where a process closed what it had opened.
    pub fn closing(&self, entry: &Entry, process: u32, ended: &Ended, places: &mut Places) -> Object {
        Object {
            tid: ended.site.map(|site| site.tid),
            fingerprint: Some(Fingerprint(entry.fingerprint)),
            time_ns: ended.at,
            ..self.placed(role::CLOSING, process as usize, ended.site.map(|site| site.stack), places)
        }
    }

    pub fn freeing(&self, entry: &Entry, export: &Export, ended: &Ended, places: &mut Places) -> Object {
        let is_context = ended.by.is_some_and(|by| by.spec().ends_context().is_some());
        let role = if is_context { role::ENDING } else { role::FREEING };
        Object {
            tid: ended.site.map(|site| site.tid),
            device: export.device,
            address: (export.address != 0).then_some(export.address),
            bytes: export.bytes,
            fingerprint: Some(Fingerprint(entry.fingerprint)),
            time_ns: ended.at,
            ..self.placed(role, export.process as usize, ended.site.map(|site| site.stack), places)
        }
    }

    /// The first call of a process that exported or imported a descriptor.
    pub fn made(&self, process: usize, made: &Made, is_export: bool, places: &mut Places) -> Object {
        let role = if is_export { role::EXPORT } else { role::OPENING };
        Object {
            tid: Some(made.site.tid),
            time_ns: Some(made.at),
            ..self.placed(role, process, Some(made.site.stack), places)
        }
    }

    /// The call of a process that copied something from the host.
    pub fn copying(&self, process: usize, copied: &Staged, places: &mut Places) -> Object {
        Object {
            tid: Some(copied.site.tid),
            device: copied.device,
            address: Some(copied.address),
            bytes: Some(copied.bytes),
            time_ns: Some(copied.at),
            ..self.placed(role::COPYING, process, Some(copied.site.stack), places)
        }
    }

    /// The call of a process that failed to export something.
    pub fn failing(&self, process: usize, site: Site, at: u64, places: &mut Places) -> Object {
        Object {
            tid: Some(site.tid),
            time_ns: Some(at),
            ..self.placed(role::EXPORT, process, Some(site.stack), places)
        }
    }

    /// What a process did earlier.
    pub fn earlier(&self, earlier: &Earlier, process: usize, places: &mut Places) -> Object {
        Object {
            tid: Some(earlier.tid),
            address: (earlier.address != 0).then_some(earlier.address),
            fingerprint: earlier.fingerprint.map(Fingerprint),
            time_ns: Some(earlier.at),
            ..self.placed(earlier.role, process, Some(earlier.stack), places)
        }
    }

    fn placed(&self, role: u32, process: usize, stack: Option<Stack>, places: &mut Places) -> Object {
        let stack = stack.map(|stack| places.stack(self.stacks, stack)).unwrap_or_default();
        self.object(role, Some(process), stack)
    }

    /// Something of a process of which nothing else is known.
    fn object(&self, role: u32, process: Option<usize>, (caller, stack): (Place, Vec<Place>)) -> Object {
        let process = process.map(|index| &self.job.processes[index]);
        let library = caller.file_name().map(Into::into);
        Object {
            role: word(role),
            proc: process.map(|process| Proc::from(process.proc.as_str())),
            pid: process.map_or(0, |process| process.header.pid),
            rank: process.and_then(record::Process::rank),
            offset: library.is_some().then_some(caller.offset),
            library,
            stack,
            ..Object::default()
        }
    }
}

/// The word for a role.
pub fn word(role: u32) -> &'static str {
    role::word(role).unwrap_or("unknown")
}

/// A process, as sentences have it.
pub fn in_words(job: &Job, process: u32) -> reason::Process {
    let process = &job.processes[process as usize];
    reason::Process { pid: process.header.pid, rank: process.rank() }
}

/// When that was on the clock of the record.
fn ticks(clock: &Clock, monotonic: u64) -> u64 {
    let since = (monotonic as f64 - clock.origin.monotonic as f64) / clock.speed;
    clock.origin.ticks.saturating_add_signed(since as i64)
}
