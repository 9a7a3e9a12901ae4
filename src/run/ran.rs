//! Results of a run: its end, and the observations about its processes.

use crate::child::End;
use crate::hang::Hung;
use crate::orphans::Orphan;
use cupeer_launch::job::Ends;
use cupeer_report::names::counted;
use cupeer_spec::record::end;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A program that has run, and what was seen of its processes.
pub struct Run {
    /// End of the started program.
    pub end: End,
    /// The process that was started: its pid, and when it was started.
    pub process: (libc::pid_t, u64),
    /// When it had ended, on CLOCK_MONOTONIC.
    pub ended: u64,
    /// The descendants that ended when nobody else could wait for them.
    pub orphans: Vec<Orphan>,
    /// When descendants ran, and were seen to have ended.
    pub ends: BTreeMap<(libc::pid_t, u64), end::Span>,
    /// Number of processes that met the driver under cupeer.
    pub reached: u32,
    /// That it hung until it ended.
    pub hung: Option<Hung>,
    /// Number of warnings and errors at calls; `None` if they could not be counted.
    pub findings: Option<u32>,
    /// Number of processes that could not record everything.
    pub record_lost: u32,
    /// Number of these that have no recording.
    pub unrecorded: u32,
    /// Processes that used a driver without our library, and the driver.
    pub bypasses: Vec<(String, PathBuf)>,
    /// Sentences about places at which the preload library did not take effect.
    pub notes: Vec<String>,
    /// Why no process reached the driver, a sentence each. A cupeer within this one has its own page: only where nothing was
    /// recorded either is this so.
    pub unreached: Vec<String>,
    /// That no process loaded a driver, where nothing stood in its way: a sentence.
    pub unused: Option<String>,
    /// Number of processes that loaded a driver without a call that cupeer saw.
    pub unseen: u32,
    /// Number of libraries whose calls bypassed cupeer, counted once per process.
    pub escaped: u32,
}

impl Run {
    /// The ends of the started program and of its descendants, as far as they were seen.
    pub fn all_ends(&self, end: end::End) -> Ends {
        let mut all: Ends = self.ends.iter().map(|(process, span)| (*process, (None, *span))).collect();
        let reaped = self.orphans.iter().copied().chain([(self.process, end, self.ended)]);
        for (process, end, before) in reaped {
            let (known, span) = all.entry(process).or_default();
            *known = Some(end);
            *span = span.and(end::Span { after: 0, before });
        }
        all
    }

    /// Returns true if a driver was loaded, and no call was seen in any process.
    pub fn is_unseen(&self) -> bool {
        self.unseen > 0 && self.unseen >= self.reached
    }

    /// Returns sentences about calls that bypassed cupeer, for a run whose recording does not report them.
    pub fn blind(&self) -> Vec<String> {
        let hint = "'cupeer doctor -- PROGRAM' looks for the reason";
        // Others that called have nobody to be said of: programs have such helpers.
        let unseen = self.is_unseen().then(|| {
            let processes = counted(self.unseen.into(), "process");
            format!("libcuda was loaded in {processes}, but cupeer saw no call that it records; {hint}")
        });
        let escaped = (self.escaped > 0 && unseen.is_none())
            .then(|| format!("calls of {} escaped cupeer; {hint}", counted(self.escaped.into(), "library")));
        unseen.into_iter().chain(escaped).collect()
    }
}
