//! The times of the marks that programs set with `cupeer_mark`.

use crate::words::names::clean;
use anyhow::{Context, Result, anyhow};
use cupeer_record::{Event, Job};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Number of mark names in an error message: the first ones.
const MOST_NAMED: usize = 8;

/// Time of the first and of the last mark of each name.
pub struct MarkTimes(BTreeMap<String, RangeInclusive<u64>>);

impl MarkTimes {
    /// Reads the marks of the selected processes.
    pub fn read(job: &Job, is_chosen: impl Fn(usize) -> bool) -> Result<MarkTimes> {
        let mut all: BTreeMap<String, RangeInclusive<u64>> = BTreeMap::new();
        for (_, process) in job.processes.iter().enumerate().filter(|(index, _)| is_chosen(*index)) {
            let clock = job.clock(process);
            let events = process.events().with_context(|| format!("failed to read {}", process.path.display()))?;
            for event in events {
                let Event::Mark { time, text, .. } = event else { continue };
                let (text, at) = (String::from_utf8_lossy(&text).into_owned(), clock.realtime(time));
                let known = all.entry(text).or_insert(at..=at);
                *known = at.min(*known.start())..=at.max(*known.end());
            }
        }
        Ok(MarkTimes(all))
    }

    /// Returns the time of the first and of the last mark with this name. Fails if no mark has the name.
    pub fn times_of(&self, text: &str) -> Result<&RangeInclusive<u64>> {
        self.0.get(text).ok_or_else(|| {
            let mut known: Vec<_> = self.0.iter().collect();
            known.sort_by_key(|(_, times)| *times.start());
            let named: Vec<_> = known.iter().take(MOST_NAMED).map(|(name, _)| format!("'{}'", clean(name))).collect();
            let more = match known.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            match named.is_empty() {
                true => anyhow!("there is no mark '{text}': the recording has none; cupeer_mark makes them"),
                false => anyhow!("there is no mark '{text}'; there are {}{more}", named.join(", ")),
            }
        })
    }
}
