//! Sums of calls by function, result, and caller: counts and durations.
//!
//! The memory is proportional to the number of callers, not to callers times processes: the sums of a process are
//! merged as soon as it has been read. The caller is the place that called the driver; in a program that uses the
//! runtime as a shared library, that place is in the runtime.

use crate::follow::functions::{CallDurations, CallEnd, FunctionCounts, Number};
use cupeer_record::Process;
use cupeer_report::durations::Durations;
use cupeer_report::model::{Caller, Place};
use cupeer_report::places::PlaceTable;
use cupeer_report::results;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Number of combinations of function, result, and caller with a sum of their own; calls of further ones are only
/// counted.
const MOST_CALLERS: usize = 1 << 14;

/// Sums of the calls of one process while its events are read.
#[derive(Default)]
pub struct ProcessCallers(HashMap<ProcessKey, (u64, CallTotals), foldhash::fast::RandomState>);

/// Key of a sum in one process: the function, the result, and the address of the caller.
type ProcessKey = (Number, Option<i32>, u64);

/// Sums of the calls of all processes that have been read.
#[derive(Default)]
pub struct JobCallers {
    sums: HashMap<JobKey, (Sighting, CallTotals)>,
    /// Number of calls that are in no sum, because there were too many callers.
    more: u64,
}

/// Key of a sum over all processes: the function, the result, and the caller as the library and the offset in it, or as an
/// address without a library.
type JobKey = (Number, Option<i32>, Option<(String, Vec<u8>)>, u64);

/// A sighting of a caller, from which its name is found: the process, the time, and the address.
type Sighting = (usize, u64, u64);

#[derive(Default, Clone, Serialize, Deserialize)]
pub struct CallTotals {
    calls: u64,
    processes: u64,
    #[serde(flatten)]
    durations: Durations,
}

impl ProcessCallers {
    /// Adds a call, and the calls that repeated it, to the sum of its caller.
    #[inline]
    pub fn count_call(&mut self, number: Number, end: CallEnd, times: CallDurations, caller: u64, ticks: u64) {
        let result = if let CallEnd::Returned(result) = end { Some(result) } else { None };
        let (_, sum) = self.0.entry((number, result, caller)).or_insert_with(|| (ticks, CallTotals::default()));
        sum.calls = sum.calls.saturating_add(times.add_to(&mut sum.durations));
    }
}

impl JobCallers {
    /// Adds the sums of a process that has been read.
    pub fn add_process(&mut self, index: usize, process: &Process, own: ProcessCallers) {
        for ((number, result, address), (ticks, mut sum)) in own.0 {
            sum.processes = 1;
            let library = process.library_at(address, ticks);
            let place = library.map_or(address, |library| address.wrapping_sub(library.base));
            let library = library.map(|library| (library.path.clone(), library.build_id.clone()));
            let key = (number, result, library, place);
            let has_room = self.sums.len() < MOST_CALLERS;
            match self.sums.get_mut(&key) {
                Some((_, known)) => known.merge(&sum),
                None if has_room => {
                    self.sums.insert(key, ((index, ticks, address), sum));
                }
                None => self.more = self.more.saturating_add(sum.calls),
            }
        }
    }

    /// Returns the sums with names in place of numbers and addresses, and the number of calls that are in no sum.
    pub fn resolve_names(self, functions: &FunctionCounts, places: &mut PlaceTable) -> (Vec<CallerSum>, u64) {
        let mut sums = Vec::new();
        for ((number, result, ..), ((process, ticks, address), sum)) in self.sums {
            let (caller, _) = places.place_by_addresses(process, ticks, &[address]);
            let function = functions.name(number);
            let result = result.map(|result| results::result_name(FunctionCounts::id(number), result));
            sums.push(CallerSum { function, result, caller, sum });
        }
        (merge_equal_callers(sums), self.more)
    }
}

impl CallTotals {
    fn merge(&mut self, other: &CallTotals) {
        self.calls = self.calls.saturating_add(other.calls);
        self.processes = self.processes.saturating_add(other.processes);
        self.durations.merge(&other.durations);
    }
}

/// The sum of the calls of one caller, in a form that can be added to the sums of other parts of a job.
#[derive(Serialize, Deserialize)]
pub struct CallerSum {
    function: Rc<str>,
    result: Option<String>,
    caller: Place,
    sum: CallTotals,
}

/// Adds up the sums with the same function, result, and caller.
pub fn merge_equal_callers(sums: Vec<CallerSum>) -> Vec<CallerSum> {
    let mut joined: BTreeMap<_, CallTotals> = BTreeMap::new();
    for CallerSum { function, result, caller, sum } in sums {
        joined.entry((function, result, caller)).or_default().merge(&sum);
    }
    let sum = |((function, result, caller), sum)| CallerSum { function, result, caller, sum };
    joined.into_iter().map(sum).collect()
}

/// Returns the rows of the report, sorted by total duration, the longest first.
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
