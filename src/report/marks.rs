//! The marks that programs set with `cupeer_mark`.

use super::filter::Filter;
use super::ledger::settle::Fate;
use super::model::Mark;
use super::names::clean;
use anyhow::{Context, Result, anyhow};
use cupeer_record::{Event, Job};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// The most that are kept.
pub const MOST: usize = 10_000;

/// Marks as they are read.
#[derive(Default)]
pub struct Marks {
    kept: Vec<(u64, u32, u32, String)>,
    more: u64,
}

impl Marks {
    /// One of a process.
    pub fn add(&mut self, process: usize, tid: u32, at: u64, text: &[u8]) {
        if self.kept.len() < MOST {
            self.kept.push((at, process as u32, tid, String::from_utf8_lossy(text).into_owned()));
        } else {
            self.more += 1;
        }
    }

    /// Marks that differ only in digits, of one process each: as a program that goes through iterations sets them.
    pub fn repeated(&self) -> Repeated<'_> {
        let mut all = Repeated::new();
        for (at, process, _, text) in &self.kept {
            let digits = |c: char| c.is_ascii_digit();
            let plain = text.chars().filter(|c| !digits(*c)).collect();
            let (_, times) = all.entry((*process, plain)).or_insert((text, Vec::new()));
            times.push(*at);
        }
        all.retain(|_, (_, times)| times.len() > 1);
        all.values_mut().for_each(|(_, times)| times.sort_unstable());
        all
    }

    /// The rows in order of time, and how many more marks there are.
    pub fn rows(mut self, fates: &[Fate]) -> (Vec<Mark>, u64) {
        self.kept.sort();
        let row = |(time_ns, process, tid, text): (u64, u32, u32, String)| Mark {
            proc: fates[process as usize].proc.clone(),
            tid,
            time_ns,
            text,
        };
        (self.kept.into_iter().map(row).collect(), self.more)
    }
}

/// Marks by process and by what they say without digits: the first of them, and when they were made.
pub type Repeated<'a> = BTreeMap<(u32, String), (&'a str, Vec<u64>)>;

/// How many names an error lists.
const MOST_NAMED: usize = 8;

/// When marks were made, by what they say: the first one and the last.
pub struct Moments(BTreeMap<String, RangeInclusive<u64>>);

impl Moments {
    /// Those of the chosen processes.
    pub fn read(job: &Job, filter: &Filter) -> Result<Moments> {
        let mut all: BTreeMap<String, RangeInclusive<u64>> = BTreeMap::new();
        for (_, process) in job.processes.iter().enumerate().filter(|(index, _)| filter.process(*index)) {
            let clock = job.clock(process);
            let events =
                process.events().with_context(|| format!("failed to read {}", process.path.display()))?;
            for event in events {
                let Event::Mark { time, text, .. } = event else { continue };
                let (text, at) = (String::from_utf8_lossy(&text).into_owned(), clock.realtime(time));
                let known = all.entry(text).or_insert(at..=at);
                *known = at.min(*known.start())..=at.max(*known.end());
            }
        }
        Ok(Moments(all))
    }

    /// When marks of this name were made.
    pub fn named(&self, text: &str) -> Result<&RangeInclusive<u64>> {
        self.0.get(text).ok_or_else(|| {
            let mut known: Vec<_> = self.0.iter().collect();
            known.sort_by_key(|(_, times)| *times.start());
            let named: Vec<_> =
                known.iter().take(MOST_NAMED).map(|(name, _)| format!("'{}'", clean(name))).collect();
            let more = match known.len() - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            match named.is_empty() {
                true => anyhow!("there is no mark '{text}': the record has none; cupeer_mark makes them"),
                false => anyhow!("there is no mark '{text}'; there are {}{more}", named.join(", ")),
            }
        })
    }
}
