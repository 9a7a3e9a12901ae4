//! The input of all findings that only the whole recording shows.

use super::touched::{self, Ranges, Touched};
use crate::follow::collect::Collected;
use crate::follow::holdings::Holdings;
use cupeer_record::Job;
use cupeer_report::filter::Filter;
use std::cell::OnceCell;

/// What findings follow from.
pub struct Context<'a> {
    pub job: &'a Job,
    pub all: &'a Collected,
    /// What is asked for.
    pub filter: &'a Filter,
    /// Whether others will be put together with it.
    pub is_part: bool,
    holdings: OnceCell<Holdings<'a>>,
    ranges: OnceCell<Ranges<'a>>,
    touched: OnceCell<Vec<Touched<'a>>>,
}

impl<'a> Context<'a> {
    pub fn new(job: &'a Job, all: &'a Collected, filter: &'a Filter, is_part: bool) -> Self {
        let (holdings, ranges, touched) = (OnceCell::new(), OnceCell::new(), OnceCell::new());
        Context { job, all, filter, is_part, holdings, ranges, touched }
    }

    /// Returns the state of all memory of the processes of the job.
    pub fn holdings(&self) -> &Holdings<'a> {
        self.holdings.get_or_init(|| {
            let all = self.all;
            let knows_all = |process: usize| all.knows_all(all.realms[process]);
            Holdings::new(&all.virtual_memory, &all.ledger, &all.fates, knows_all)
        })
    }

    /// Returns the memory that processes exported, or have open.
    pub fn ranges(&self) -> &Ranges<'a> {
        self.ranges.get_or_init(|| touched::ranges(self.all))
    }

    /// Returns the shared memory that recorded copies used.
    pub fn touched(&self) -> &[Touched<'a>] {
        self.touched.get_or_init(|| touched::touched(self.all, self.ranges()))
    }
}
