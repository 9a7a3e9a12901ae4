//! The tracks: the numbers and names of processes and threads in the trace.

use super::writer::{TraceEventWriter, Track};
use cupeer_record::{Job, Process};
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};

/// Numbers of processes and threads.
///
/// These are the processes' own numbers, if they are unique. Processes of several hosts or pid namespaces,
/// and programs that one process executed one after the other, may share numbers. Then the exporter assigns
/// its own.
pub struct Tracks {
    pids: Vec<u32>,
    keeps_tids: bool,
    threads: HashMap<(usize, u32), u32>,
    named: HashSet<usize>,
}

/// First thread id that the exporter assigns itself, for threads whose own id is not unique.
const FIRST_THREAD: u32 = 1_000_000;

impl Tracks {
    pub fn new(job: &Job) -> Self {
        let pids: HashSet<u32> = job.processes.iter().map(|process| process.header.pid).collect();
        let domains: HashSet<_> =
            job.processes.iter().map(|process| (process.header.boot_id, process.header.pid_ns)).collect();
        let keeps_tids = pids.len() == job.processes.len() && domains.len() == 1;
        let number = |(index, process): (usize, &Process)| {
            if keeps_tids { process.header.pid } else { index as u32 + 1 }
        };
        let pids = job.processes.iter().enumerate().map(number).collect();
        Tracks { pids, keeps_tids, threads: HashMap::new(), named: HashSet::new() }
    }

    pub fn write_process_name(
        &mut self,
        index: usize,
        process: &Process,
        out: &mut TraceEventWriter<impl Write>,
    ) -> io::Result<()> {
        if !self.named.insert(index) {
            return Ok(());
        }
        let program = process.program().rsplit('/').next().unwrap_or_default();
        let rank = process.rank().map_or(String::new(), |rank| format!("rank {rank}: "));
        let name = format!("{rank}{program} {} on {}", process.header.pid, process.host());
        let order = process.rank().unwrap_or(u32::MAX >> 1);
        let track = self.process_track(index);
        out.write_name(track, "process_name", &name.into())?;
        out.write_name(track, "process_sort_index", &order.into())
    }

    /// Returns the track of a process. Viewers show a thread for every number, and the first thread has the
    /// number of the process.
    pub fn process_track(&self, process: usize) -> Track {
        Track { pid: self.pids[process], tid: self.pids[process] }
    }

    /// Returns the track of a thread. Writes the name of the thread at the first call for that thread.
    pub fn thread_track(
        &mut self,
        process: usize,
        tid: u32,
        out: &mut TraceEventWriter<impl Write>,
    ) -> io::Result<Track> {
        let pid = self.pids[process];
        let next = FIRST_THREAD + self.threads.len() as u32;
        let mut is_new = false;
        let number = *self.threads.entry((process, tid)).or_insert_with(|| {
            is_new = true;
            if self.keeps_tids { tid } else { next }
        });
        let track = Track { pid, tid: number };
        if is_new {
            out.write_name(track, "thread_name", &format!("thread {tid}").into())?;
        }
        Ok(track)
    }
}
