//! Memory of devices by owner and place, from the report and from NVML.
//!
//! Reads whole recordings in a thread of its own, which sleeps nine times as long as it worked.

use cupeer_nvidia::nvml::memory::LoadedNvml;
use cupeer_record::{Job, MemorySample};
use cupeer_report::Keep;
use cupeer_report::filter::Filter;
use cupeer_report::model::Place;
use cupeer_report::symbols::Symbols;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Divisor: refreshing uses at most a tenth of a processor.
pub const SHARE: u32 = 10;
/// Size of a recording above which its memory is not shown: it would be read again for each sample.
const LARGEST: u64 = 1 << 30;

/// Memory of all devices at one time.
#[derive(Clone, Default)]
pub struct MemorySnapshot {
    /// Memory that processes allocated, according to the recordings.
    pub pieces: Vec<MemoryPiece>,
    /// Samples from NVML; empty without NVML.
    pub samples: Vec<MemorySample>,
    /// Sentences about data that could not be read.
    pub unseen: Vec<String>,
}

/// Memory of one process that was allocated at one place and is in one state.
#[derive(Clone)]
pub struct MemoryPiece {
    pub job: String,
    pub proc: String,
    pub device: [u8; 16],
    pub bytes: u64,
    pub count: u64,
    pub place: Option<String>,
    /// Names of the processes that keep the memory open, if its owner freed it.
    pub holders: Vec<String>,
}

/// Name and directory of a recording.
type NamedRecording = (String, PathBuf);

/// Handle of the thread that reads the memory.
pub struct MemoryThread {
    asks: SyncSender<Vec<NamedRecording>>,
    last: Arc<Mutex<MemorySnapshot>>,
}

impl MemoryThread {
    pub fn start() -> MemoryThread {
        let (asks, asked) = sync_channel(1);
        let memories = MemoryThread { asks, last: Arc::default() };
        let last = memories.last.clone();
        let thread = std::thread::Builder::new().name("cupeer-memory".into());
        let started = thread.spawn(move || serve_requests(&asked, &last));
        let _ = started.inspect_err(|error| tracing::debug!("memory is not shown: {error}"));
        memories
    }

    /// Asks the thread to read the memory of these recordings; returns the last result at once.
    pub fn request(&self, jobs: Vec<NamedRecording>) -> MemorySnapshot {
        let _ = self.asks.try_send(jobs);
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve_requests(asked: &Receiver<Vec<NamedRecording>>, last: &Mutex<MemorySnapshot>) {
    let nvml = LoadedNvml::load();
    while let Ok(jobs) = asked.recv() {
        let began = Instant::now();
        let found = read_memory(&jobs, &nvml);
        *last.lock().unwrap_or_else(PoisonError::into_inner) = found;
        std::thread::sleep(began.elapsed() * (SHARE - 1));
    }
}

/// Reads the memory of devices from the recordings and from NVML.
pub fn read_memory(jobs: &[NamedRecording], nvml: &Result<LoadedNvml, String>) -> MemorySnapshot {
    let samples = nvml.as_ref().map_err(String::clone).and_then(LoadedNvml::take_samples).unwrap_or_default();
    let mut memory = MemorySnapshot { samples, ..MemorySnapshot::default() };
    for (name, path) in jobs {
        match pieces_of_job(name, path) {
            Ok(pieces) => memory.pieces.extend(pieces),
            Err(error) => memory.unseen.push(format!("{name}: memory by owner: {error:#}")),
        }
    }
    memory
}

fn pieces_of_job(name: &str, path: &Path) -> anyhow::Result<Vec<MemoryPiece>> {
    let sizes = fs::read_dir(path)?.flatten().filter_map(|file| file.metadata().ok()).map(|file| file.len());
    anyhow::ensure!(sizes.sum::<u64>() <= LARGEST, "the recording is larger than 1 GiB; 'cupeer report' shows it");
    let job = &mut Job::open(path)?;
    let symbols = &mut Symbols::of_record(path, &job.processes);
    let report = cupeer_facts::read(job, &Filter::all(job), Keep::default(), Some(symbols))?;
    let now = report.memory.iter().filter(|memory| memory.at_ns.is_none());
    let piece = |device: [u8; 16], row: &cupeer_report::model::MemoryRow| MemoryPiece {
        job: name.to_owned(),
        proc: row.proc.to_string(),
        device,
        bytes: row.bytes,
        count: row.count,
        place: row.frames.first().map(Place::line_or_long),
        holders: row.holders.iter().map(ToString::to_string).collect(),
    };
    Ok(now.flat_map(|memory| memory.rows.iter().map(|row| piece(memory.device.0, row))).collect())
}
