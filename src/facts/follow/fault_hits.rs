//! The calls at which faults fired: the first ones of each fault.
//!
//! It keeps as many as are shown, however often a fault fires.

use crate::follow::functions::{Functions, Number};
use crate::follow::ledger::settle::Fate;
use cupeer_record::{Call, Hit, Outcome, deeds};
use cupeer_report::model::{FaultHit, MOST_HITS};
use cupeer_report::results;
use cupeer_spec::record::slot::hit::did;
use std::collections::BinaryHeap;

/// A call that a rule fired at.
pub struct At<'a> {
    pub at: u64,
    pub process: usize,
    pub number: Number,
    pub call: &'a Call,
}

/// The first calls of one rule.
#[derive(Default)]
pub struct FirstHits {
    first: BinaryHeap<FirstHit>,
    count: u64,
}

/// One of them. The latest is the greatest, by the fields in their order.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct FirstHit {
    at: u64,
    process: usize,
    stream: u32,
    seq: u64,
    count: u64,
    waited: u64,
    did: u16,
    result: Option<i32>,
    tid: u32,
    number: Number,
}

impl FirstHits {
    pub fn add(&mut self, At { at, process, number, call }: &At, hit: &Hit) {
        self.count += 1;
        self.first.push(FirstHit {
            at: *at,
            process: *process,
            stream: call.stream,
            seq: call.seq,
            count: hit.what.count,
            waited: hit.what.waited,
            did: hit.what.did,
            result: driver_result(call, hit),
            tid: call.tid,
            number: *number,
        });
        if self.first.len() > MOST_HITS {
            self.first.pop();
        }
    }

    /// They in the order of time, and how many more there are.
    pub fn rows(self, functions: &Functions, fates: &[Fate]) -> (Vec<FaultHit>, u64) {
        let first = self.first.into_sorted_vec();
        let more = self.count - first.len() as u64;
        let row = |hit: FirstHit| FaultHit {
            time_ns: hit.at,
            proc: fates[hit.process].proc.clone(),
            tid: hit.tid,
            seq: hit.seq,
            function: functions.name(hit.number),
            count: hit.count,
            did: deeds(hit.did).collect(),
            driver_result: hit.result.map(|result| results::name(Functions::id(hit.number), result)),
            waited_ns: hit.waited,
        };
        (first.into_iter().map(row).collect(), more)
    }
}

/// What the driver returned; `None` where it was not called, or has not returned.
fn driver_result(call: &Call, hit: &Hit) -> Option<i32> {
    let Outcome::Returned(result) = call.outcome else { return None };
    let hits = &call.details.hits;
    if hits.iter().any(|hit| hit.has(did::NOT_CALLED)) {
        return None;
    }
    // A hit that is recorded before the call does not know its result.
    let changed = |hit: &&Hit| hit.has(did::ERROR | did::OUT | did::DENIED) && !hit.has(did::DRY);
    let known = hits.iter().find(changed).unwrap_or(hit);
    Some(if call.injected { known.what.driver_result } else { result })
}
