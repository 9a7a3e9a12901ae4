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

/// The number of a function in a report: its index in the table, and from there on what the table does not know.
pub type Number = usize;

pub struct Functions {
    names: Vec<Rc<str>>,
    sums: Vec<Option<Box<Sum>>>,
}

struct Sum {
    calls: u64,
    failures: Vec<(i32, u64)>,
    /// The same without those that had nothing left to end.
    wrong: Vec<(i32, u64)>,
    injected: u64,
    pending: u64,
    unwound: u64,
    durations: Durations,
    /// Calls by the index of the process.
    by_process: Vec<u64>,
}

/// How a call counts.
#[derive(Clone, Copy)]
pub enum End {
    /// It has not.
    Pending,
    /// It may have, and the record lacks what would say so.
    Unknown,
    /// An exception went through it.
    Unwound,
    /// With a result, after so many nanoseconds, where that is asked for.
    Returned(i32, Option<u64>),
}

impl Functions {
    /// The number of fork, of which findings tell, and which is no call.
    pub const FORK: Number = FUNCTION_COUNT;

    pub fn new() -> Self {
        let names: Vec<Rc<str>> =
            FUNCTIONS.iter().map(|f| f.name()).chain(["fork"]).map(Into::into).collect();
        Functions { sums: names.iter().map(|_| None).collect(), names }
    }

    pub fn number(&mut self, name: &str) -> Number {
        self.names.iter().position(|known| **known == *name).unwrap_or_else(|| {
            self.names.push(name.into());
            self.sums.push(None);
            self.names.len() - 1
        })
    }

    pub fn name(&self, number: Number) -> Rc<str> {
        self.names[number].clone()
    }

    /// The function of a number, where the table has it.
    pub fn id(number: Number) -> Option<FnId> {
        (number < FUNCTION_COUNT).then(|| FnId::at(number))
    }

    /// Counts a call. Of one that `is_told` of already, a failure is not the program's second one.
    pub fn count(&mut self, number: Number, process: usize, end: End, injected: bool, is_told: bool) {
        let sum = self.sums[number].get_or_insert_with(Sum::new);
        sum.calls += 1;
        match sum.by_process.get_mut(process) {
            Some(calls) => *calls += 1,
            None => {
                sum.by_process.resize(process + 1, 0);
                sum.by_process[process] = 1;
            }
        }
        sum.injected += u64::from(injected);
        match end {
            End::Pending => sum.pending += 1,
            End::Unknown => {}
            End::Unwound => sum.unwound += 1,
            End::Returned(result, ns) => {
                ns.into_iter().for_each(|ns| sum.durations.add(ns));
                if result != 0 {
                    results::count(&mut sum.failures, result, 1);
                    let is_wrong =
                        || injected || !Self::id(number).is_some_and(|id| id.spec().is_over(result));
                    if !is_told && is_wrong() {
                        results::count(&mut sum.wrong, result, 1);
                    }
                }
            }
        }
    }

    /// So many failures of a function were answers to probes: nothing was wrong.
    pub fn expected(&mut self, number: Number, result: i32, count: u64) {
        let wrong = self.sums[number].as_mut().map(|sum| &mut sum.wrong);
        wrong.into_iter().for_each(|wrong| {
            wrong.retain_mut(|(known, all)| {
                *all -= if *known == result { count.min(*all) } else { 0 };
                *all > 0
            });
        });
    }

    /// Counts calls that failed as one did that was counted before. `took` is how long they took together, and the longest.
    pub fn repeat(
        &mut self,
        number: Number,
        process: usize,
        result: i32,
        calls: u64,
        took: Option<(u64, u64)>,
        is_told: bool,
    ) {
        let Some(sum) = &mut self.sums[number] else { return };
        sum.calls = sum.calls.saturating_add(calls);
        if let Some(own) = sum.by_process.get_mut(process) {
            *own = own.saturating_add(calls);
        }
        took.into_iter().for_each(|(total, longest)| sum.durations.add_run(calls, total, longest));
        results::count(&mut sum.failures, result, calls);
        if !is_told && !Self::id(number).is_some_and(|id| id.spec().is_over(result)) {
            results::count(&mut sum.wrong, result, calls);
        }
    }

    /// The calls of a function by process; processes that are not there have none.
    pub fn by_process(&self, number: Number) -> &[u64] {
        self.sums[number].as_ref().map_or(&[], |sum| &sum.by_process)
    }

    /// The same by the function's name.
    pub fn by_process_of(&self, name: &str) -> Option<&[u64]> {
        self.names.iter().position(|known| **known == *name).map(|number| self.by_process(number))
    }

    /// The sums of all functions that were called, in the order of the table.
    pub fn sums(&mut self) -> Vec<FunctionSum> {
        let sums = std::mem::take(&mut self.sums).into_iter().enumerate();
        sums.filter_map(|(number, sum)| Some(sum?.named(self.name(number), Self::id(number)))).collect()
    }
}

impl Sum {
    fn new() -> Box<Self> {
        Box::new(Sum {
            calls: 0,
            failures: Vec::new(),
            wrong: Vec::new(),
            injected: 0,
            pending: 0,
            unwound: 0,
            durations: Durations::default(),
            by_process: Vec::new(),
        })
    }

    fn named(self, function: Rc<str>, id: Option<FnId>) -> FunctionSum {
        FunctionSum {
            function,
            calls: self.calls,
            failures: results::named(id, &self.failures),
            wrong: results::named(id, &self.wrong),
            injected: self.injected,
            pending: self.pending,
            unwound: self.unwound,
            durations: self.durations,
            by_process: self.by_process,
        }
    }
}

/// What is known of a function, with all that it takes to put it together with what others know.
#[derive(Serialize, Deserialize)]
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
    /// Calls by the index of the process; processes that are not there have none.
    pub by_process: Vec<u64>,
}

impl FunctionSum {
    /// Of one that was not called.
    pub fn none(function: Rc<str>) -> Self {
        Sum::new().named(function, None)
    }

    /// Adds what is known of the same function in other processes, which come behind so many of these.
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

    /// The row. `rank_of` has the ranks of the processes that count for the comparison of ranks.
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
            ranks: deviation::spread(&by_rank),
        }
    }
}

/// The rows, the function with the most time first.
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
        let mut functions = Functions::new();
        for i in 1..=1000 {
            functions.count(0, 0, End::Returned(0, Some(i * 1000)), false, false);
        }
        functions.count(0, 1, End::Pending, false, false);
        let row = &rows(&functions.sums(), &[None, None])[0];
        let near = |value: Option<u64>, wanted: u64| value.unwrap().abs_diff(wanted) <= wanted / 100;
        assert!(near(row.p50_ns, 500_000) && near(row.p99_ns, 990_000), "{:?} {:?}", row.p50_ns, row.p99_ns);
        assert_eq!((row.max_ns, row.calls, row.pending), (Some(1_000_000), 1001, 1));
        assert_eq!(row.total_ns, 500_500_000);
    }

    #[test]
    fn functions_that_the_table_does_not_know_keep_their_names() {
        let mut functions = Functions::new();
        let number = functions.number("cuFuture");
        assert_eq!(functions.number("cuFuture"), number);
        functions.count(number, 0, End::Returned(999_999, Some(1)), true, false);
        let row = &rows(&functions.sums(), &[Some(0)])[0];
        assert_eq!((&*row.function, row.injected, row.failed()), ("cuFuture", 1, 1));
        assert_eq!(row.failures["999999"], 1);
    }
}
