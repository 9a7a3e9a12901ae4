//! What is seen of a run when it has ended.

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
    /// How the started program ended.
    pub end: End,
    /// The process that was started: its pid, and when it was started.
    pub process: (libc::pid_t, u64),
    /// When it had ended, on CLOCK_MONOTONIC.
    pub ended: u64,
    /// The descendants that ended when nobody else could wait for them.
    pub orphans: Vec<Orphan>,
    /// When descendants ran, and were seen to have ended.
    pub ends: BTreeMap<(libc::pid_t, u64), end::Span>,
    /// How many processes met the driver under cupeer.
    pub reached: u32,
    /// That it hung until it ended.
    pub hung: Option<Hung>,
    /// How many findings at calls are warnings or errors; `None` where they could not be counted.
    pub findings: Option<u32>,
    /// How many processes could not record everything.
    pub record_lost: u32,
    /// How many of them have no record.
    pub unrecorded: u32,
    /// Processes that used a driver without our library, and the driver.
    pub bypasses: Vec<(String, PathBuf)>,
    /// Where the preload library did not take effect, a sentence each.
    pub notes: Vec<String>,
    /// Why no process reached the driver, a sentence each. A cupeer within this one has its own page: only where nothing was
    /// recorded either is this so.
    pub unreached: Vec<String>,
    /// That no process loaded a driver, where nothing stood in its way: a sentence.
    pub unused: Option<String>,
    /// How many processes had a driver of which no watched call was seen.
    pub unseen: u32,
    /// How many libraries' calls went past us, counted once a process.
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

    /// Whether a driver was loaded, and no call seen in any process.
    pub fn is_unseen(&self) -> bool {
        self.unseen > 0 && self.unseen >= self.reached
    }

    /// What went past us, where no record tells it.
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
