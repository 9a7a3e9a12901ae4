//! The marks that programs set with `cupeer_mark`.

use crate::follow::ledger::settle::ProcessEnd;
use cupeer_report::model::Mark;
use std::collections::BTreeMap;

/// Number of marks that are kept: the first ones; later marks are only counted.
pub const MOST_MARKS: usize = 10_000;

/// The marks of all processes, as they are read.
#[derive(Default)]
pub struct Marks {
    kept: Vec<(u64, usize, u32, String)>,
    more: u64,
}

impl Marks {
    /// Adds a mark of a process.
    pub fn add(&mut self, process: usize, tid: u32, at: u64, text: &[u8]) {
        if self.kept.len() < MOST_MARKS {
            self.kept.push((at, process, tid, String::from_utf8_lossy(text).into_owned()));
        } else {
            self.more += 1;
        }
    }

    /// Returns the marks in groups: marks of one process that differ only in digits, such as those of the iterations of a loop.
    pub fn group_repeated(&self) -> RepeatedMarks<'_> {
        let mut all = RepeatedMarks::new();
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

    /// Returns the rows of the report in the order of time, and the number of marks that were not kept.
    pub fn rows(mut self, fates: &[ProcessEnd]) -> (Vec<Mark>, u64) {
        self.kept.sort();
        let row = |(time_ns, process, tid, text): (u64, usize, u32, String)| Mark {
            proc: fates[process].proc.clone(),
            tid,
            time_ns,
            text,
        };
        (self.kept.into_iter().map(row).collect(), self.more)
    }
}

/// Groups of marks, by process and text without digits. The value is the text of the first mark, and the times of all.
pub type RepeatedMarks<'a> = BTreeMap<(usize, String), (&'a str, Vec<u64>)>;
