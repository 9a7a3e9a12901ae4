//! Results of a run: its end, and the observations about its processes.

use crate::child::ProgramEnd;
use crate::hang::FinalHang;
use crate::orphans::Orphan;
use cupeer_launch::job::Ends;
use cupeer_report::names::counted;
use cupeer_spec::record::end;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A program that has run, and the observations about its processes.
pub struct FinishedRun {
    /// End of the started program.
    pub end: ProgramEnd,
    /// Pid and start time of the started process.
    pub process: (libc::pid_t, u64),
    /// Time on CLOCK_MONOTONIC, in nanoseconds, at which the program had ended.
    pub ended: u64,
    /// Descendants that ended as orphans of this run, with their ends.
    pub orphans: Vec<Orphan>,
    /// Spans of time in which descendants ended: from the last time at which each was seen running.
    pub ends: BTreeMap<(libc::pid_t, u64), end::EndSpan>,
    /// Number of processes that reached the driver under cupeer.
    pub reached: u32,
    /// The hang in which the run ended, if any.
    pub hung: Option<FinalHang>,
    /// Number of warnings and errors at calls; `None` if they could not be counted.
    pub findings: Option<u32>,
    /// Number of processes that could not record everything.
    pub record_lost: u32,
    /// Number of processes that could not record everything and have no recording at all.
    pub unrecorded: u32,
    /// Processes that used a driver without the preload library, each with the path of that driver.
    pub bypasses: Vec<(String, PathBuf)>,
    /// Sentences about places at which the preload library did not take effect.
    pub notes: Vec<String>,
    /// Sentences about why no process reached the driver. They hold only if nothing was recorded either, because a cupeer
    /// inside this run has its own page.
    pub unreached: Vec<String>,
    /// Sentence for a run in which no process loaded a driver although nothing prevented it.
    pub unused: Option<String>,
    /// Number of processes that loaded a driver without a call that cupeer saw.
    pub unseen_processes: u32,
    /// Number of libraries whose calls bypassed cupeer, counted once per process.
    pub bypassing_libraries: u32,
}

impl FinishedRun {
    /// Returns the known ends of the started program and of its descendants. `end` is the program's end.
    pub fn all_ends(&self, end: end::RecordedEnd) -> Ends {
        let mut all: Ends = self.ends.iter().map(|(process, span)| (*process, (None, *span))).collect();
        let reaped = self.orphans.iter().copied().chain([(self.process, end, self.ended)]);
        for (process, end, before) in reaped {
            let (known, span) = all.entry(process).or_default();
            *known = Some(end);
            *span = span.combine(end::EndSpan { after: 0, before });
        }
        all
    }

    /// Returns true if a driver was loaded, and no call was seen in any process.
    pub fn has_no_seen_call(&self) -> bool {
        self.unseen_processes > 0 && self.unseen_processes >= self.reached
    }

    /// Returns sentences about calls that bypassed cupeer, for a run whose recording does not report them.
    pub fn bypass_sentences(&self) -> Vec<String> {
        let hint = "'cupeer doctor -- PROGRAM' looks for the reason";
        // Programs have helpers that call other functions, so other processes are no reason for a note.
        let unseen = self.has_no_seen_call().then(|| {
            let processes = counted(self.unseen_processes.into(), "process");
            format!("libcuda was loaded in {processes}, but cupeer saw no call that it records; {hint}")
        });
        let escaped = (self.bypassing_libraries > 0 && unseen.is_none()).then(|| {
            format!("calls of {} escaped cupeer; {hint}", counted(self.bypassing_libraries.into(), "library"))
        });
        unseen.into_iter().chain(escaped).collect()
    }
}
