//! Assembles the document from a sample: holders of memory, sums by device, and calls per second. Reads and draws
//! nothing.

use super::document::{Device, Document, Hold, Job, Other, Owner, Process, SCHEMA, Unreturned, Who};
use super::memory::MemorySnapshot;
use cupeer_record::{MemoryHolder, MemorySample};
use cupeer_recordings::live::{JobSample, LiveSample, ProcessSample};
use cupeer_report::endings::describe_kill;
use cupeer_report::model::{Exit, ExitKind};
use cupeer_spec::record::live::{self, kind};
use cupeer_spec::uuid::{self, Uuid};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Instant;

/// Numbers of calls at the previous sample, by job and process.
pub struct PreviousSample {
    at: Instant,
    calls: HashMap<(String, String), u64>,
}

impl PreviousSample {
    pub fn of(reading: &LiveSample) -> PreviousSample {
        let of = |job: &JobSample| -> Vec<_> {
            let key = |process: &ProcessSample| (job.name.clone(), process.proc.clone());
            job.processes.iter().map(|process| (key(process), process.recent_counts.calls)).collect()
        };
        PreviousSample { at: reading.at, calls: reading.jobs.iter().flat_map(of).collect() }
    }
}

/// Returns the document of a sample. The calls per second are those since the previous sample.
pub fn build_document(reading: &LiveSample, memory: &MemorySnapshot, before: Option<&PreviousSample>) -> Document {
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
        let mut rows = JobRows::of(job);
        rows.link_holders(job, &mut devices);
        rows.set_rates(job, reading.at, before);
        document.jobs.push(rows.job_row(job));
        document.processes.append(&mut rows.processes);
        document.unseen.extend(job.unseen.iter().map(|sentence| format!("{}: {sentence}", job.name)));
    }
    add_memory(reading, memory, &document.processes, &mut devices);
    document.unseen.extend(memory.unseen.iter().cloned());
    document.devices = devices.into_values().map(DeviceRow::into_row).collect();
    document
}

/// Memory of devices by owner; the key is the UUID of the device and the owning process.
type Owners<'a> = BTreeMap<([u8; 16], &'a Who), Owner>;

/// Adds to the document the memory of devices by owner, and the memory of all processes that NVML reports.
fn add_memory(
    reading: &LiveSample,
    memory: &MemorySnapshot,
    processes: &[Process],
    devices: &mut BTreeMap<Option<Uuid>, DeviceRow>,
) {
    let mut owners = memory_by_owner(memory, processes);
    // Devices that no recorded process uses are irrelevant.
    let known = || reading.jobs.iter().flat_map(|job| &job.processes);
    let is_theirs =
        |sample: &&MemorySample| known().any(|seen| seen.devices.iter().any(|device| device.uuid == sample.device));
    for sample in memory.samples.iter().filter(is_theirs) {
        let others = add_nvml_memory(reading, sample, processes, &mut owners);
        let recorded = owners.iter().filter(|((device, _), _)| *device == sample.device);
        let recorded = recorded.map(|(_, row)| row.bytes);
        let accounted = sum_saturating(recorded.chain(others.iter().filter_map(|other| other.bytes)));
        let row = &mut device_row_of_jobs(&reading.jobs, devices, sample.device).row;
        row.total_bytes = Some(sample.total);
        row.used_bytes = Some(sample.used);
        row.unaccounted_bytes = Some(sample.used.saturating_sub(accounted));
        row.others = others;
    }
    for ((device, who), row) in owners {
        let all = &mut device_row_of_jobs(&reading.jobs, devices, device).row.owners;
        all.push(Owner { who: who.clone(), ..row });
        all.sort_by_key(|owner| Reverse(owner.bytes));
    }
}

fn find_process<'a>(processes: &'a [Process], job: &str, proc: &str) -> Option<&'a Process> {
    processes.iter().find(|process| process.who.job == job && process.who.proc == proc)
}

/// Returns the memory that processes allocated and that still exists, by owner.
fn memory_by_owner<'a>(memory: &MemorySnapshot, processes: &'a [Process]) -> Owners<'a> {
    let mut owners = Owners::new();
    for piece in &memory.pieces {
        let Some(owner) = find_process(processes, &piece.job, &piece.proc) else { continue };
        let keepers: Vec<&Process> =
            piece.holders.iter().filter_map(|proc| find_process(processes, &piece.job, proc)).collect();
        // Freed memory exists as long as a running process keeps it open.
        let holders = if keepers.is_empty() { vec![owner] } else { keepers.clone() };
        if holders.iter().all(|process| process.exit.has_ended()) {
            continue;
        }
        let row = owners.entry((piece.device, &owner.who)).or_default();
        add_saturating(&mut row.recorded_bytes, piece.bytes);
        row.bytes = row.recorded_bytes;
        add_saturating(&mut row.count, piece.count);
        if piece.bytes > row.place_bytes {
            (row.place, row.place_bytes) = (piece.place.clone(), piece.bytes);
        }
        if !keepers.is_empty() {
            add_saturating(&mut row.kept_bytes, piece.bytes);
            row.kept_by.extend(keepers.into_iter().map(|process| process.who.clone()));
        }
    }
    owners
}

/// Adds the memory that NVML reports for recorded processes to their rows. Returns the other processes that NVML
/// reports.
fn add_nvml_memory<'a>(
    reading: &LiveSample,
    sample: &MemorySample,
    processes: &'a [Process],
    owners: &mut Owners<'a>,
) -> Vec<Other> {
    let recorded = |holder: &MemoryHolder| {
        let is_it = |seen: &&ProcessSample| holder.process == Some((seen.header.pid, seen.header.started));
        // A program that the process executed has the same identity, and comes later in the list.
        reading
            .jobs
            .iter()
            .rev()
            .find_map(|job| find_process(processes, &job.name, &job.processes.iter().rfind(is_it)?.proc))
    };
    let mut others = Vec::new();
    for holder in sample.holders.iter().flatten() {
        match recorded(holder) {
            Some(owner) => {
                let row = owners.entry((sample.device, &owner.who)).or_default();
                row.bytes = row.bytes.max(holder.bytes.unwrap_or(0));
            }
            None => others.push(Other { pid: holder.pid, program: holder.name.clone(), bytes: holder.bytes }),
        }
    }
    others.sort_by_key(|other| Reverse(other.bytes));
    others
}

/// Returns true if a process crashed or was killed, other than by a signal that asks it to end.
pub fn has_died(exit: &Exit) -> bool {
    describe_kill(*exit).is_some()
}

type ProcessKey = (u64, u32, u64, u32);

fn process_key(entry: &live::Entry) -> ProcessKey {
    (entry.pid_ns, entry.pid, entry.started, entry.image)
}

/// Rows of a job's processes, with indexes for linking them.
struct JobRows {
    processes: Vec<Process>,
    places: HashMap<ProcessKey, usize>,
    /// Exports of the job by kind and fingerprint, by which importers name them.
    exports: HashMap<(u32, u64), usize>,
}

impl JobRows {
    fn of(job: &JobSample) -> JobRows {
        let mut rows = JobRows { processes: Vec::new(), places: HashMap::new(), exports: HashMap::new() };
        for seen in &job.processes {
            let header = &seen.header;
            let key = (header.pid_ns, header.pid, header.started, header.image);
            let who = Who { job: job.name.clone(), rank: seen.rank, pid: header.pid, proc: seen.proc.clone() };
            let unreturned = seen.unreturned.iter().map(|(function, tid, age_ns)| Unreturned {
                function: function.clone(),
                tid: *tid,
                age_ns: *age_ns,
            });
            rows.places.insert(key, rows.processes.len());
            rows.processes.push(Process {
                who,
                program: seen.program.clone(),
                exit: seen.exit,
                calls: Some(seen.counts.calls),
                failed: Some(seen.counts.failed),
                complete: seen.is_complete,
                unreturned: unreturned.collect(),
                hung: seen.hang_activity.clone(),
                lost: seen.header.lost,
                ..Process::default()
            });
        }
        // The live table also lists processes whose recordings cannot be read.
        for entry in &job.entries {
            rows.places.entry(process_key(entry)).or_insert_with(|| {
                let rank = (entry.rank != u32::MAX).then_some(entry.rank);
                let proc = format!("{}-{}-{}", entry.pid_ns, entry.pid, entry.started);
                let who = Who { job: job.name.clone(), rank, pid: entry.pid, proc };
                rows.processes.push(Process { who, ..Process::default() });
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

    /// Returns the export that an entry opened.
    fn export_of<'a>(&self, job: &'a JobSample, entry: &live::Entry) -> Option<&'a live::Entry> {
        let exported = kind::export_kind_of(entry.kind)?;
        self.exports.get(&(exported, entry.fingerprint)).map(|i| &job.entries[*i])
    }

    /// Counts open objects by process and by device, and links holders with owners.
    fn link_holders(&mut self, job: &JobSample, devices: &mut BTreeMap<Option<Uuid>, DeviceRow>) {
        let mut shared = BTreeSet::new();
        let mut held = BTreeSet::new();
        // Objects that processes hold, by the indexes of holder and owner.
        let mut holds: BTreeMap<(usize, Option<usize>), HeldObjects> = BTreeMap::new();
        for entry in &job.entries {
            let place = self.places[&process_key(entry)];
            let has_ended = self.processes[place].exit.has_ended();
            let count = u64::from(entry.count.max(1));
            if kind::exported_object(entry.kind).is_some() {
                // An allocation may have several handles.
                if entry.ended == 0 && shared.insert((place, entry.kind, entry.address)) {
                    self.processes[place].exports += 1;
                    add_saturating(&mut self.processes[place].shared_bytes, entry.bytes);
                    if !has_ended {
                        let row = &mut device_row(job, devices, entry.uuid).row;
                        row.exports += 1;
                        add_saturating(&mut row.shared_bytes, entry.bytes);
                    }
                }
            } else if kind::is_enabled_access(entry.kind) {
                add_saturating(&mut self.processes[place].peers, count);
            } else if let Some(exported) = kind::export_kind_of(entry.kind) {
                add_saturating(&mut self.processes[place].openings, count);
                if has_ended {
                    continue;
                }
                let export = self.export_of(job, entry);
                let owner = export.map(|export| self.places[&process_key(export)]);
                let (object, bytes) = ((exported, entry.fingerprint), open_size(entry, export));
                let one = holds.entry((place, owner)).or_default();
                add_saturating(&mut one.openings, count);
                if one.objects.insert(object) {
                    add_saturating(&mut one.bytes, bytes);
                    add_saturating(&mut self.processes[place].holds_bytes, bytes);
                }
                if let Some(owner) = owner.filter(|_| held.insert(object)) {
                    add_saturating(&mut self.processes[owner].held_bytes, bytes);
                }
                let device = device_row(job, devices, export.map_or(entry.uuid, |export| export.uuid));
                add_saturating(&mut device.row.openings, count);
                device.holders.insert(self.processes[place].who.clone());
                if device.held.insert((job.name.clone(), object)) {
                    add_saturating(&mut device.row.held_bytes, bytes);
                }
            }
        }
        for ((place, owner), HeldObjects { openings, bytes, .. }) in holds {
            let name = |place: usize| self.processes[place].who.clone();
            let (holder, whose) = (name(place), owner.map(name));
            self.processes[place].holds.push(Hold { who: whose, openings, bytes });
            if let Some(owner) = owner {
                self.processes[owner].held_by.push(Hold { who: Some(holder), openings, bytes });
            }
        }
    }

    /// Sets the calls per second of the processes that were in the previous sample.
    fn set_rates(&mut self, job: &JobSample, now: Instant, before: Option<&PreviousSample>) {
        let Some(before) = before else { return };
        for (row, seen) in self.processes.iter_mut().zip(&job.processes) {
            let had = before.calls.get(&(job.name.clone(), seen.proc.clone()));
            // A process that began after the previous sample has only one sample.
            let seconds = (now - before.at).as_secs_f64();
            row.calls_per_second =
                had.map(|had| seen.recent_counts.calls.saturating_sub(*had) as f64 / seconds.max(1e-3));
            if row.exit.has_ended() && row.calls_per_second.is_none() {
                row.calls_per_second = Some(0.0);
            }
        }
    }

    fn job_row(&self, job: &JobSample) -> Job {
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
            calls: sum_saturating(self.processes.iter().filter_map(|one| one.calls)),
            failed: sum_saturating(self.processes.iter().filter_map(|one| one.failed)),
            complete: self.processes.iter().all(|one| one.complete),
        }
    }
}

/// Objects of one process that another process holds.
#[derive(Default)]
struct HeldObjects {
    openings: u64,
    bytes: u64,
    /// Kinds and fingerprints of the objects.
    objects: BTreeSet<(u32, u64)>,
}

/// Row of a device, with the sets of its holders and of the memory that they hold.
#[derive(Default)]
struct DeviceRow {
    row: Device,
    holders: BTreeSet<Who>,
    held: BTreeSet<(String, (u32, u64))>,
}

impl DeviceRow {
    fn into_row(self) -> Device {
        Device { holders: self.holders.into_iter().collect(), ..self.row }
    }
}

/// Returns the row of a device, with the name that a process of any job gives it.
fn device_row_of_jobs<'a>(
    jobs: &[JobSample],
    devices: &'a mut BTreeMap<Option<Uuid>, DeviceRow>,
    uuid: [u8; 16],
) -> &'a mut DeviceRow {
    let knows =
        |job: &&JobSample| job.processes.iter().flat_map(|process| &process.devices).any(|known| known.uuid == uuid);
    let none = JobSample::default();
    device_row(jobs.iter().find(knows).unwrap_or(&none), devices, uuid)
}

/// Returns the row of a device, with the name that a process of the job gives it.
fn device_row<'a>(
    job: &JobSample,
    devices: &'a mut BTreeMap<Option<Uuid>, DeviceRow>,
    uuid: [u8; 16],
) -> &'a mut DeviceRow {
    let uuid = Some(Uuid(uuid)).filter(|uuid| uuid.0 != [0; 16]);
    let device = devices.entry(uuid).or_default();
    if device.row.name.is_empty()
        && let Some(Uuid(bytes)) = uuid
    {
        device.row.uuid = uuid.map(|uuid| uuid.to_string());
        let mut known =
            job.processes.iter().flat_map(|process| process.devices.iter().map(move |known| (process, known)));
        if let Some((process, known)) = known.find(|(_, known)| known.uuid == bytes) {
            (device.row.name, device.row.pci) = (known.name.clone(), known.pci.clone());
            let ordinal = u32::try_from(known.ordinal).ok();
            device.row.number =
                ordinal.and_then(|ordinal| uuid::unrestricted_number(ordinal, process.visible_devices.as_deref()));
        }
    }
    device
}

/// Adds to a sum without overflow, because tables and recordings may contain any number.
fn add_saturating(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

/// Returns a sum without overflow.
pub fn sum_saturating(all: impl Iterator<Item = u64>) -> u64 {
    all.fold(0, u64::saturating_add)
}

/// Returns the size of an open object: its own if known, or that of its export.
fn open_size(entry: &live::Entry, export: Option<&live::Entry>) -> u64 {
    if entry.bytes > 0 { entry.bytes } else { export.map_or(0, |export| export.bytes) }
}
