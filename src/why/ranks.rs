//! Adds to processes what others know of them: their ranks, and how those ended that their parents have not waited for.

use super::document::{Ended, Process, State};
use super::ledger::RecordedJob;
use super::process::ProcessReading;

/// Number of ended processes of the recording that are listed beside the processes that were read.
const MOST: usize = 16;

pub fn add_recorded_ranks(processes: &mut Vec<Process>, seen: &[ProcessReading], ledger: Option<&RecordedJob>) {
    for process in processes.iter_mut() {
        let Some((proc, ledger)) = process.proc.as_deref().zip(ledger) else { continue };
        // A program may set its own rank before it reaches the driver.
        process.rank = ledger.rank(proc).or(process.rank);
        let recorded = ledger.process_end(proc);
        if process.state == State::Ended {
            process.ended = process.ended.take().or(recorded);
        }
    }
    set_missing_rank(processes, seen);
    let is_alive = processes.iter().any(Process::is_alive);
    if let Some(ledger) = ledger.filter(|_| is_alive) {
        let known: Vec<String> = processes.iter().filter_map(|process| process.proc.clone()).collect();
        processes.extend(
            ledger
                .ended_processes()
                .filter(|process| {
                    process.proc.as_ref().is_some_and(|proc| !known.contains(proc))
                        && (process.has_failed() || process.rank.is_some())
                })
                .take(MOST),
        );
    }
}

/// Finds the missing rank of a job. If exactly one rank is missing, and exactly one child of the launcher has ended and has no
/// readable environment, that child has the missing rank.
fn set_missing_rank(processes: &mut [Process], seen: &[ProcessReading]) {
    let worlds = seen.iter().filter_map(|seen| Some((seen.about.parent, seen.about.world?)));
    let Some((parent, world)) = worlds.max() else { return };
    let has = |rank: &u32| processes.iter().any(|process| process.rank == Some(*rank));
    let without: Vec<u32> = (0..world.min(4096)).filter(|rank| !has(rank)).collect();
    let mut gone = processes
        .iter_mut()
        .filter(|process| process.state == State::Ended && process.parent == parent && process.rank.is_none());
    if let ([rank], Some(process), None) = (without.as_slice(), gone.next(), gone.next()) {
        process.rank = Some(*rank);
    }
}

impl Ended {
    /// Returns the end of a process from its recording. `ago_ns` is the time since then in nanoseconds.
    pub fn from_exit(exit: cupeer_report::model::Exit, ago_ns: Option<u64>) -> Ended {
        let signal = exit.signal.map(|signal| cupeer_report::names::signal_name(signal.into()));
        Ended { status: exit.code.map(i32::from).filter(|_| signal.is_none()), signal, ago_ns }
    }
}
