//! Sums by function: how often each was called, its results, and its durations.
//!
//! The memory is constant, however many calls there are.

use cupeer_report::durations::Durations;
use cupeer_report::model::{Codes, Function};
use cupeer_report::{deviation, results};
use cupeer_spec::function::{FUNCTION_COUNT, FUNCTIONS, FnId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The number of a function in a report: its index in the table of functions. Functions that are not in the table have larger
/// numbers.
pub type Number = usize;

#[derive(Default)]
pub struct FunctionCounts {
    names: Vec<Rc<str>>,
    sums: Vec<Option<Box<Totals>>>,
}

#[derive(Default)]
struct Totals {
    calls: u64,
    failures: Vec<(i32, u64)>,
    /// Failures by result, without those that only say that an object had ended already.
    wrong: Vec<(i32, u64)>,
    injected: u64,
    pending: u64,
    unwound: u64,
    durations: Durations,
    /// Number of calls by the index of the process.
    by_process: Vec<u64>,
}

/// The end of a call, for the sums.
#[derive(Clone, Copy)]
pub enum CallEnd {
    /// The call has not ended.
    Pending,
    /// The call may have ended: events that would show it are missing.
    Unknown,
    /// An exception left the call.
    Unwound,
    /// The call returned with this CUresult.
    Returned(i32),
}

/// Durations of a call in nanoseconds, and the number of calls that repeated its failure.
#[derive(Clone, Copy, Default)]
pub struct CallDurations {
    /// Duration in nanoseconds, if the call returned and durations are requested.
    pub ns: Option<u64>,
    pub repeats: u64,
    /// Sum and maximum of the durations of the repeated calls in nanoseconds, if durations are requested.
    pub repeated_ns: Option<(u64, u64)>,
}

impl CallDurations {
    /// Adds the durations to a sum. Returns the number of calls, including repeated ones.
    pub fn add_to(self, durations: &mut Durations) -> u64 {
        self.ns.into_iter().for_each(|ns| durations.add(ns));
        let repeated = self.repeated_ns.into_iter();
        repeated.for_each(|(total, longest)| durations.add_repeated(self.repeats, total, longest));
        self.repeats.saturating_add(1)
    }
}

impl FunctionCounts {
    /// The number of `fork`, which findings name although it is not a function of the driver.
    pub const FORK: Number = FUNCTION_COUNT;

    pub fn new() -> Self {
        let names: Vec<Rc<str>> = FUNCTIONS.iter().map(|f| f.name()).chain(["fork"]).map(Into::into).collect();
        FunctionCounts { sums: names.iter().map(|_| None).collect(), names }
    }

    pub fn number_for(&mut self, name: &str) -> Number {
        self.names.iter().position(|known| **known == *name).unwrap_or_else(|| {
            self.names.push(name.into());
            self.sums.push(None);
            self.names.len() - 1
        })
    }

    pub fn name(&self, number: Number) -> Rc<str> {
        self.names[number].clone()
    }

    /// Returns the function of a number; `None` if the table of functions does not have it.
    pub fn id(number: Number) -> Option<FnId> {
        (number < FUNCTION_COUNT).then(|| FnId::at(number))
    }

    /// Counts a call. If `is_told`, its failure was reported for another call already, and is not counted here.
    pub fn count_call(
        &mut self,
        number: Number,
        process: usize,
        end: CallEnd,
        times: CallDurations,
        injected: bool,
        is_told: bool,
    ) {
        let sum = self.sums[number].get_or_insert_default();
        let calls = times.add_to(&mut sum.durations);
        sum.calls = sum.calls.saturating_add(calls);
        if sum.by_process.len() <= process {
            sum.by_process.resize(process + 1, 0);
        }
        sum.by_process[process] = sum.by_process[process].saturating_add(calls);
        sum.injected += u64::from(injected);
        match end {
            CallEnd::Pending => sum.pending += 1,
            CallEnd::Unknown => {}
            CallEnd::Unwound => sum.unwound += 1,
            CallEnd::Returned(0) => {}
            CallEnd::Returned(result) => {
                results::add_count(&mut sum.failures, result, calls);
                if !is_told && (injected || !is_already_ended(number, result)) {
                    results::add_count(&mut sum.wrong, result, calls);
                }
            }
        }
    }

    /// Subtracts failures that were expected answers to probes.
    pub fn subtract_expected(&mut self, number: Number, result: i32, count: u64) {
        let wrong = self.sums[number].as_mut().map(|sum| &mut sum.wrong);
        wrong.into_iter().for_each(|wrong| {
            wrong.retain_mut(|(known, all)| {
                *all -= if *known == result { count.min(*all) } else { 0 };
                *all > 0
            });
        });
    }

    /// Returns the number of calls of a function by process. The list may be too short: processes beyond its end made no calls.
    pub fn calls_by_process(&self, number: Number) -> &[u64] {
        self.sums[number].as_ref().map_or(&[], |sum| &sum.by_process)
    }

    /// Returns the number of calls of the function with this name by process; `None` for an unknown name.
    pub fn calls_by_process_of(&self, name: &str) -> Option<&[u64]> {
        self.names.iter().position(|known| **known == *name).map(|number| self.calls_by_process(number))
    }

    /// Returns the sums of all functions that were called, in the order of the table.
    pub fn take_sums(&mut self) -> Vec<FunctionSum> {
        let sums = std::mem::take(&mut self.sums).into_iter().enumerate();
        sums.filter_map(|(number, sum)| Some(sum?.with_name(self.name(number), Self::id(number)))).collect()
    }
}

/// Returns true if a result means that an object had ended already.
fn is_already_ended(number: Number, result: i32) -> bool {
    FunctionCounts::id(number).is_some_and(|id| id.spec().is_after_shutdown(result))
}

impl Totals {
    fn with_name(self, function: Rc<str>, id: Option<FnId>) -> FunctionSum {
        FunctionSum {
            function,
            calls: self.calls,
            failures: results::name_results(id, &self.failures),
            wrong: results::name_results(id, &self.wrong),
            injected: self.injected,
            pending: self.pending,
            unwound: self.unwound,
            durations: self.durations,
            by_process: self.by_process,
        }
    }
}

/// The sums of one function, in a form that can be added to those of other parts of a job.
#[derive(Default, Serialize, Deserialize)]
pub struct FunctionSum {
    pub function: Rc<str>,
    pub calls: u64,
    pub failures: Codes,
    pub wrong: Codes,
    pub injected: u64,
    pub pending: u64,
    pub unwound: u64,
    #[serde(flatten)]
    pub durations: Durations,
    /// Number of calls by the index of the process. Processes beyond the end of the list made no calls.
    pub by_process: Vec<u64>,
}

impl FunctionSum {
    /// Adds the sums of the same function in another part of the job, whose processes follow the `processes` of this part.
    pub fn add(&mut self, other: FunctionSum, processes: usize) {
        let add = |sum: &mut u64, more: u64| *sum = sum.saturating_add(more);
        let codes = |all: &mut Codes, more: Codes| {
            more.into_iter().for_each(|(code, count)| add(all.entry(code).or_default(), count));
        };
        add(&mut self.calls, other.calls);
        codes(&mut self.failures, other.failures);
        codes(&mut self.wrong, other.wrong);
        add(&mut self.injected, other.injected);
        add(&mut self.pending, other.pending);
        add(&mut self.unwound, other.unwound);
        self.durations.merge(&other.durations);
        self.by_process.resize(processes, 0);
        self.by_process.extend(other.by_process);
    }

    /// Returns the row of the report. `rank_of` has the rank of each process that takes part in the comparison of ranks.
    fn row(&self, rank_of: &[Option<u32>]) -> Function {
        let mut by_rank = BTreeMap::new();
        for (process, rank) in rank_of.iter().enumerate() {
            if let Some(rank) = rank {
                *by_rank.entry(*rank).or_default() += self.by_process.get(process).copied().unwrap_or(0);
            }
        }
        Function {
            function: self.function.clone(),
            calls: self.calls,
            failures: self.failures.clone(),
            wrong: self.wrong.clone(),
            injected: self.injected,
            pending: self.pending,
            unwound: self.unwound,
            total_ns: self.durations.total_ns,
            p50_ns: self.durations.quantile(0.5),
            p99_ns: self.durations.quantile(0.99),
            max_ns: self.durations.longest(),
            ranks: deviation::summarize_counts(&by_rank),
        }
    }
}

/// Returns the rows of the report, sorted by total duration, the longest first.
pub fn rows(sums: &[FunctionSum], rank_of: &[Option<u32>]) -> Vec<Function> {
    let mut rows: Vec<Function> = sums.iter().map(|sum| sum.row(rank_of)).collect();
    rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.function.cmp(&b.function)));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_a_hundredth() {
        let mut functions = FunctionCounts::new();
        for i in 1..=1000 {
            let times = CallDurations { ns: Some(i * 1000), ..CallDurations::default() };
            functions.count_call(0, 0, CallEnd::Returned(0), times, false, false);
        }
        functions.count_call(0, 1, CallEnd::Pending, CallDurations::default(), false, false);
        let row = &rows(&functions.take_sums(), &[None, None])[0];
        let near = |value: Option<u64>, wanted: u64| value.unwrap().abs_diff(wanted) <= wanted / 100;
        assert!(near(row.p50_ns, 500_000) && near(row.p99_ns, 990_000), "{:?} {:?}", row.p50_ns, row.p99_ns);
        assert_eq!((row.max_ns, row.calls, row.pending), (Some(1_000_000), 1001, 1));
        assert_eq!(row.total_ns, 500_500_000);
    }

    #[test]
    fn functions_that_the_table_does_not_know_keep_their_names() {
        let mut functions = FunctionCounts::new();
        let number = functions.number_for("cuFuture");
        assert_eq!(functions.number_for("cuFuture"), number);
        functions.count_call(number, 0, CallEnd::Returned(999_999), CallDurations::default(), true, false);
        let row = &rows(&functions.take_sums(), &[Some(0)])[0];
        assert_eq!((&*row.function, row.injected, row.failed()), ("cuFuture", 1, 1));
        assert_eq!(row.failures["999999"], 1);
    }
}
