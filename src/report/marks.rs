//! The marks that programs have left in the record with `cupeer_mark`.

use super::ledger::settle::Fate;
use super::model::Mark;

/// The most that are kept.
const MOST: usize = 10_000;

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
