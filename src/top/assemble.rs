//! From what a look has seen to what is shown: who holds whose memory, sums by device, calls a second.
//!
//! What belongs here: nothing that reads or draws.

use super::document::{Device, Document, Hold, Job, Other, Owner, Process, SCHEMA, Unreturned, Who};
use super::memory::Memory;
use cupeer_record::Sample;
use cupeer_recordings::live::{OfJob, OfProcess, Reading};
use cupeer_report::endings::killed;
use cupeer_report::model::{Exit, ExitKind};
use cupeer_spec::record::live::{self, kind};
use cupeer_spec::uuid::{self, Uuid};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

/// What the look before has seen: calls so far, by job and process.
pub struct Before {
    at: Instant,
    calls: HashMap<(String, String), u64>,
}

impl Before {
    pub fn of(reading: &Reading) -> Before {
        let of = |job: &OfJob| -> Vec<_> {
            let key = |process: &OfProcess| (job.name.clone(), process.proc.clone());
            job.processes.iter().map(|process| (key(process), process.recent.calls)).collect()
        };
        Before { at: reading.at, calls: reading.jobs.iter().flat_map(of).collect() }
    }
}

/// What is shown of a reading, with calls a second since the one before.
pub fn document(reading: &Reading, memory: &Memory, before: Option<&Before>) -> Document {
    let mut document = Document {
        schema: SCHEMA.to_owned(),
        cupeer: env!("CARGO_PKG_VERSION").to_owned(),
        time_ns: reading.time_ns,
        interval_ns: before.map(|before| (reading.at - before.at).as_nanos() as u64),
        unseen: reading.unseen.clone(),
        ..Document::default()
    };
    let mut devices = BTreeMap::new();
    for job in &reading.jobs {
        let mut rows = Rows::of(job);
        rows.link(job);
        rows.rates(job, reading.at, before);
        rows.devices(job, &mut devices);
        document.jobs.push(rows.sums(job));
        document.processes.append(&mut rows.processes);
        document.unseen.extend(job.unseen.iter().map(|sentence| format!("{}: {sentence}", job.name)));
    }
    add_memory(reading, memory, &document.processes, &mut devices);
    document.unseen.extend(memory.unseen.iter().cloned());
    document.devices = devices.into_values().map(OfDevice::row).collect();
    document
}

/// Adds the memory of devices by owner, and what NVML tells of all processes.
fn add_memory(
    reading: &Reading,
    memory: &Memory,
    processes: &[Process],
    devices: &mut BTreeMap<Option<Uuid>, OfDevice>,
) {
    let who = |job: &str, proc: &str| {
        processes.iter().map(|process| &process.who).find(|who| who.job == job && who.proc == proc)
    };
    let runs = |who: &Who| processes.iter().any(|process| process.who == *who && !process.exit.has_ended());
    let known: Vec<(&OfJob, &OfProcess)> =
        reading.jobs.iter().flat_map(|job| job.processes.iter().map(move |process| (job, process))).collect();
    let mut owners: BTreeMap<([u8; 16], &Who), Owner> = BTreeMap::new();
    for piece in &memory.pieces {
        let Some(owner) = who(&piece.job, &piece.proc) else { continue };
        let keepers: Vec<&Who> = piece.holders.iter().filter_map(|proc| who(&piece.job, proc)).collect();
        // What was freed is there as long as a process that runs keeps it.
        if !(if keepers.is_empty() { vec![owner] } else { keepers.clone() }).into_iter().any(runs) {
            continue;
        }
        let row = owners.entry((piece.device, owner)).or_default();
        add(&mut row.recorded_bytes, piece.bytes);
        row.bytes = row.recorded_bytes;
        add(&mut row.count, piece.count);
        if piece.bytes > row.place_bytes {
            (row.place, row.place_bytes) = (piece.place.clone(), piece.bytes);
        }
        if !keepers.is_empty() {
            add(&mut row.kept_bytes, piece.bytes);
            row.kept_by.extend(keepers.into_iter().cloned());
        }
    }
    // Other devices of the machine have nothing to do with these recordings.
    let is_theirs = |sample: &&Sample| {
        known.iter().any(|(_, seen)| seen.devices.iter().any(|device| device.uuid == sample.device))
    };
    for sample in memory.samples.iter().filter(is_theirs) {
        let mut others = Vec::new();
        for holder in sample.holders.iter().flatten() {
            let is_it = |(_, seen): &&(&OfJob, &OfProcess)| {
                holder.process == Some((seen.header.pid, seen.header.started))
            };
            match known.iter().rfind(is_it).and_then(|(job, seen)| who(&job.name, &seen.proc)) {
                Some(owner) => {
                    let row = owners.entry((sample.device, owner)).or_default();
                    row.bytes = row.bytes.max(holder.bytes.unwrap_or(0));
                }
                None => {
                    others.push(Other { pid: holder.pid, program: holder.name.clone(), bytes: holder.bytes })
                }
            }
        }
        others.sort_by_key(|other| std::cmp::Reverse(other.bytes));
        let mine =
            owners.iter().filter(|((device, _), _)| *device == sample.device).map(|(_, row)| row.bytes);
        let told = sum(mine.chain(others.iter().filter_map(|other| other.bytes)));
        let device = known_device(&reading.jobs, devices, sample.device);
        device.row.total_bytes = Some(sample.total);
        device.row.used_bytes = Some(sample.used);
        device.row.unaccounted_bytes = Some(sample.used.saturating_sub(told));
        device.row.others = others;
    }
    for ((device, who), row) in owners {
        let all = &mut known_device(&reading.jobs, devices, device).row.owners;
        all.push(Owner { who: who.clone(), ..row });
        all.sort_by_key(|owner| std::cmp::Reverse(owner.bytes));
    }
}

/// Returns true if a process was killed, but not by a signal that asks it to end.
pub fn has_died(exit: &Exit) -> bool {
    killed(*exit).is_some()
}

type Key = (u64, u32, u64, u32);

fn key(entry: &live::Entry) -> Key {
    (entry.pid_ns, entry.pid, entry.started, entry.image)
}

/// The processes of a job in the making.
struct Rows {
    processes: Vec<Process>,
    places: HashMap<Key, usize>,
    /// What has been exported, by what names it to those who open it: kind and fingerprint.
    exports: HashMap<(u32, u64), usize>,
}

impl Rows {
    fn of(job: &OfJob) -> Rows {
        let mut rows = Rows { processes: Vec::new(), places: HashMap::new(), exports: HashMap::new() };
        for seen in &job.processes {
            let header = &seen.header;
            let key = (header.pid_ns, header.pid, header.started, header.image);
            let who =
                Who { job: job.name.clone(), rank: seen.rank, pid: header.pid, proc: seen.proc.clone() };
            let unreturned = seen.unreturned.iter().map(|(function, tid, age_ns)| Unreturned {
                function: function.clone(),
                tid: *tid,
                age_ns: *age_ns,
            });
            rows.places.insert(key, rows.processes.len());
            rows.processes.push(Process {
                calls: Some(seen.counts.calls),
                failed: Some(seen.counts.failed),
                complete: seen.is_complete,
                unreturned: unreturned.collect(),
                hung: seen.hung.clone(),
                lost: seen.header.lost,
                ..empty(who, seen.program.clone(), seen.exit)
            });
        }
        // Whose record cannot be read, the table names all the same.
        for entry in &job.entries {
            rows.places.entry(key(entry)).or_insert_with(|| {
                let rank = (entry.rank != u32::MAX).then_some(entry.rank);
                let proc = format!("{}-{}-{}", entry.pid_ns, entry.pid, entry.started);
                let who = Who { job: job.name.clone(), rank, pid: entry.pid, proc };
                let unseen = Exit { kind: ExitKind::Unseen, code: None, signal: None, immediate: false };
                rows.processes.push(empty(who, String::new(), unseen));
                rows.processes.len() - 1
            });
        }
        for (i, entry) in job.entries.iter().enumerate() {
            if kind::exported_object(entry.kind).is_some() {
                rows.exports.insert((entry.kind, entry.fingerprint), i);
            }
        }
        rows
    }

    /// The export that an entry has opened.
    fn export<'a>(&self, job: &'a OfJob, entry: &live::Entry) -> Option<&'a live::Entry> {
        let exported = kind::export_of(entry.kind)?;
        self.exports.get(&(exported, entry.fingerprint)).map(|i| &job.entries[*i])
    }

    /// Counts what is open, and who holds whose.
    fn link(&mut self, job: &OfJob) {
        let mut shared = BTreeSet::new();
        let mut held = BTreeSet::new();
        // By who holds, and by whose it is.
        let mut holds: BTreeMap<(usize, Option<usize>), Held> = BTreeMap::new();
        for entry in &job.entries {
            let place = self.places[&key(entry)];
            if kind::exported_object(entry.kind).is_some() {
                // One piece of memory may have several handles.
                if entry.ended == 0 && shared.insert((place, entry.kind, entry.address)) {
                    self.processes[place].exports += 1;
                    add(&mut self.processes[place].shared_bytes, entry.bytes);
                }
            } else if kind::is_access(entry.kind) {
                add(&mut self.processes[place].peers, u64::from(entry.count.max(1)));
            } else if let Some(exported) = kind::export_of(entry.kind) {
                let count = u64::from(entry.count.max(1));
                let export = self.export(job, entry);
                let owner = export.map(|export| self.places[&key(export)]);
                add(&mut self.processes[place].openings, count);
                if self.processes[place].exit.has_ended() {
                    continue;
                }
                let one = holds.entry((place, owner)).or_default();
                add(&mut one.openings, count);
                let piece = (exported, entry.fingerprint);
                let bytes = size(entry, export);
                if one.pieces.insert(piece) {
                    add(&mut one.bytes, bytes);
                    add(&mut self.processes[place].holds_bytes, bytes);
                }
                if let Some(owner) = owner.filter(|_| held.insert(piece)) {
                    add(&mut self.processes[owner].held_bytes, bytes);
                }
            }
        }
        for ((place, owner), Held { openings, bytes, .. }) in holds {
            let name = |place: usize| self.processes[place].who.clone();
            let (holder, whose) = (name(place), owner.map(name));
            self.processes[place].holds.push(Hold { who: whose, openings, bytes });
            if let Some(owner) = owner {
                self.processes[owner].held_by.push(Hold { who: Some(holder), openings, bytes });
            }
        }
    }

    /// Calls a second, of those that were there at the look before.
    fn rates(&mut self, job: &OfJob, now: Instant, before: Option<&Before>) {
        let Some(before) = before else { return };
        for (row, seen) in self.processes.iter_mut().zip(&job.processes) {
            let had = before.calls.get(&(job.name.clone(), seen.proc.clone()));
            // Who is new since then has been looked at once.
            let seconds = (now - before.at).as_secs_f64();
            row.calls_per_second =
                had.map(|had| seen.recent.calls.saturating_sub(*had) as f64 / seconds.max(1e-3));
            if row.exit.has_ended() && row.calls_per_second.is_none() {
                row.calls_per_second = Some(0.0);
            }
        }
    }

    fn devices(&self, job: &OfJob, devices: &mut BTreeMap<Option<Uuid>, OfDevice>) {
        let mut shared = BTreeSet::new();
        for entry in &job.entries {
            let place = self.places[&key(entry)];
            if self.processes[place].exit.has_ended() {
                continue;
            }
            if kind::exported_object(entry.kind).is_some() {
                if entry.ended == 0 && shared.insert((place, entry.kind, entry.address)) {
                    let row = &mut device(job, devices, entry.uuid).row;
                    row.exports += 1;
                    add(&mut row.shared_bytes, entry.bytes);
                }
            } else if let Some(exported) = kind::export_of(entry.kind) {
                let export = self.export(job, entry);
                let device = device(job, devices, export.map_or(entry.uuid, |export| export.uuid));
                add(&mut device.row.openings, u64::from(entry.count.max(1)));
                device.holders.insert(self.processes[place].who.clone());
                if device.held.insert((job.name.clone(), exported, entry.fingerprint)) {
                    add(&mut device.row.held_bytes, size(entry, export));
                }
            }
        }
    }

    fn sums(&self, job: &OfJob) -> Job {
        let count = |is: fn(&Exit) -> bool| self.processes.iter().filter(|one| is(&one.exit)).count();
        let died = count(has_died);
        Job {
            name: job.name.clone(),
            path: job.path.display().to_string(),
            running: count(|exit| exit.kind == ExitKind::Running),
            ended: count(|exit| exit.has_ended()) - died,
            died,
            hung_since_ns: job.hung_since_ns,
            refused: job.refused,
            calls: sum(self.processes.iter().filter_map(|one| one.calls)),
            failed: sum(self.processes.iter().filter_map(|one| one.failed)),
            complete: self.processes.iter().all(|one| one.complete),
        }
    }
}

/// What one process holds of another.
#[derive(Default)]
struct Held {
    openings: u64,
    bytes: u64,
    /// Kind and fingerprint.
    pieces: BTreeSet<(u32, u64)>,
}

/// A device in the making.
#[derive(Default)]
struct OfDevice {
    row: Device,
    holders: BTreeSet<Who>,
    held: BTreeSet<(String, u32, u64)>,
}

impl OfDevice {
    fn row(self) -> Device {
        Device { holders: self.holders.into_iter().collect(), ..self.row }
    }
}

/// The device with a UUID, under the name that a process of the jobs gives it.
fn known_device<'a>(
    jobs: &[OfJob],
    devices: &'a mut BTreeMap<Option<Uuid>, OfDevice>,
    uuid: [u8; 16],
) -> &'a mut OfDevice {
    let knows = |job: &&OfJob| {
        job.processes.iter().flat_map(|process| &process.devices).any(|known| known.uuid == uuid)
    };
    let none = OfJob::default();
    device(jobs.iter().find(knows).unwrap_or(&none), devices, uuid)
}

/// The device with a UUID, under the name that a process of the job gives it.
fn device<'a>(
    job: &OfJob,
    devices: &'a mut BTreeMap<Option<Uuid>, OfDevice>,
    uuid: [u8; 16],
) -> &'a mut OfDevice {
    let uuid = Some(Uuid(uuid)).filter(|uuid| uuid.0 != [0; 16]);
    let device = devices.entry(uuid).or_default();
    if device.row.name.is_empty()
        && let Some(Uuid(bytes)) = uuid
    {
        device.row.uuid = uuid.map(|uuid| uuid.to_string());
        let mut known = job
            .processes
            .iter()
            .flat_map(|process| process.devices.iter().map(move |known| (process, known)));
        if let Some((process, known)) = known.find(|(_, known)| known.uuid == bytes) {
            (device.row.name, device.row.pci) = (known.name.clone(), known.pci.clone());
            let ordinal = u32::try_from(known.ordinal).ok();
            device.row.number = ordinal.and_then(|ordinal| uuid::number(ordinal, process.visible.as_deref()));
        }
    }
    device
}

/// Adds to a sum: tables and records may say anything.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// The sum of numbers that may be anything.
pub fn sum(all: impl Iterator<Item = u64>) -> u64 {
    all.fold(0, u64::saturating_add)
}

/// The memory that is held by an opening: as it says, or as the export does.
fn size(entry: &live::Entry, export: Option<&live::Entry>) -> u64 {
    if entry.bytes > 0 { entry.bytes } else { export.map_or(0, |export| export.bytes) }
}

fn empty(who: Who, program: String, exit: Exit) -> Process {
    Process {
        who,
        program,
        exit,
        exports: 0,
        shared_bytes: 0,
        held_bytes: 0,
        held_by: Vec::new(),
        holds_bytes: 0,
        holds: Vec::new(),
        openings: 0,
        peers: 0,
        calls: None,
        failed: None,
        complete: false,
        calls_per_second: None,
        unreturned: Vec::new(),
        hung: None,
        lost: 0,
    }
}
