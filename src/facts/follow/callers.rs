//! Sums of calls by function, result, and caller: counts and durations.
//!
//! The memory is proportional to the number of callers, not to callers times processes: the sums of a process are
//! merged as soon as it has been read. The caller is the place that called the driver; in a program that uses the
//! runtime as a shared library, that place is in the runtime.

use crate::follow::functions::{End, Functions, Number, Times};
use cupeer_record::Process;
use cupeer_report::durations::Durations;
use cupeer_report::model::{Caller, Place};
use cupeer_report::places::Places;
use cupeer_report::results;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// The most callers with sums of their own, over all functions and results.
const MOST: usize = 1 << 14;

/// Calls of one process, while it is read.
#[derive(Default)]
pub struct OwnCallers(HashMap<OwnKey, (u64, Sum), foldhash::fast::RandomState>);

/// The function, the result, and the address of the caller.
type OwnKey = (Number, Option<i32>, u64);

/// Calls of all processes that have been read.
#[derive(Default)]
pub struct Callers {
    sums: HashMap<Key, (Seen, Sum)>,
    /// Calls whose callers were too many.
    more: u64,
}

/// The function, the result, and the caller: the library and the offset in it, or the address.
type Key = (Number, Option<i32>, Option<(String, Vec<u8>)>, u64);

/// A process in which a caller was seen, with the time and the address.
type Seen = (usize, u64, u64);

#[derive(Default, Clone, Serialize, Deserialize)]
pub struct Sum {
    calls: u64,
    processes: u64,
    #[serde(flatten)]
    durations: Durations,
}

impl OwnCallers {
    /// Counts a call, and the calls that repeated it.
    #[inline]
    pub fn count(&mut self, number: Number, end: End, times: Times, caller: u64, ticks: u64) {
        let result = if let End::Returned(result) = end { Some(result) } else { None };
        let (_, sum) = self.0.entry((number, result, caller)).or_insert_with(|| (ticks, Sum::default()));
        sum.calls = sum.calls.saturating_add(times.add_to(&mut sum.durations));
    }
}

impl Callers {
    /// Adds those of a process that has been read.
    pub fn add(&mut self, index: usize, process: &Process, own: OwnCallers) {
        for ((number, result, address), (ticks, mut sum)) in own.0 {
            sum.processes = 1;
            let library = process.library_at(address, ticks);
            let place = library.map_or(address, |library| address.wrapping_sub(library.base));
            let library = library.map(|library| (library.path.clone(), library.build_id.clone()));
            let key = (number, result, library, place);
            let has_room = self.sums.len() < MOST;
            match self.sums.get_mut(&key) {
                Some((_, known)) => known.merge(&sum),
                None if has_room => {
                    self.sums.insert(key, ((index, ticks, address), sum));
                }
                None => self.more = self.more.saturating_add(sum.calls),
            }
        }
    }

    /// The sums by what can be told to others, and how many calls are in none.
    pub fn named(self, functions: &Functions, places: &mut Places) -> (Vec<CallerSum>, u64) {
        let mut sums = Vec::new();
        for ((number, result, ..), ((process, ticks, address), sum)) in self.sums {
            let (caller, _) = places.named(process, ticks, &[address]);
            let function = functions.name(number);
            let result = result.map(|result| results::name(Functions::id(number), result));
            sums.push(CallerSum { function, result, caller, sum });
        }
        (joined(sums), self.more)
    }
}

impl Sum {
    fn merge(&mut self, other: &Sum) {
        self.calls = self.calls.saturating_add(other.calls);
        self.processes = self.processes.saturating_add(other.processes);
        self.durations.merge(&other.durations);
    }
}

/// Calls of one caller, in a form that can be added to those of other parts of a job.
#[derive(Serialize, Deserialize)]
pub struct CallerSum {
    function: Rc<str>,
    result: Option<String>,
    caller: Place,
    sum: Sum,
}

/// Each function, result and caller once.
pub fn joined(sums: Vec<CallerSum>) -> Vec<CallerSum> {
    let mut joined: BTreeMap<_, Sum> = BTreeMap::new();
    for CallerSum { function, result, caller, sum } in sums {
        joined.entry((function, result, caller)).or_default().merge(&sum);
    }
    let sum = |((function, result, caller), sum)| CallerSum { function, result, caller, sum };
    joined.into_iter().map(sum).collect()
}

/// The rows, those with the most time first.
pub fn rows(sums: Vec<CallerSum>) -> Vec<Caller> {
    let row = |CallerSum { function, result, caller, sum }: CallerSum| Caller {
        function,
        result,
        calls: sum.calls,
        processes: sum.processes,
        total_ns: sum.durations.total_ns,
        p50_ns: sum.durations.quantile(0.5),
        p99_ns: sum.durations.quantile(0.99),
        max_ns: sum.durations.longest(),
        caller,
    };
    let mut rows: Vec<Caller> = sums.into_iter().map(row).collect();
    rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.function.cmp(&b.function)));
    rows
}
