//! The functions: how often each was called, how that ended, and how long it took.
//!
//! What belongs here: sums that need the same memory however many calls there are.

use super::deviation;
use super::model::{Codes, Function};
use super::results;
use cupeer_spec::function::{FUNCTION_COUNT, FUNCTIONS, FnId};
use hdrhistogram::Histogram;
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
    total_ns: u64,
    max_ns: u64,
    durations: Histogram<u64>,
    /// Calls by the index of the process.
    by_process: Vec<u64>,
}

/// How a call counts.
#[derive(Clone, Copy)]
pub enum End {
    /// It has not.
    Pending,
    /// An exception went through it.
    Unwound,
    /// With a result, after so many nanoseconds.
    Returned(i32, u64),
}

impl Functions {
    pub fn new() -> Self {
        let names: Vec<Rc<str>> = FUNCTIONS.iter().map(|f| f.name.into()).collect();
        Functions { names, sums: (0..FUNCTION_COUNT).map(|_| None).collect() }
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
            End::Unwound => sum.unwound += 1,
            End::Returned(result, ns) => {
                sum.total_ns = sum.total_ns.saturating_add(ns);
                sum.max_ns = sum.max_ns.max(ns);
                // It grows as far as it has to, and fails for what no 64 bits can tell apart.
                let _ = sum.durations.record(ns);
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

    /// The calls of a function by process; processes that are not there have none.
    pub fn by_process(&self, number: Number) -> &[u64] {
        self.sums[number].as_ref().map_or(&[], |sum| &sum.by_process)
    }

    /// The rows, the function with the most time first. `rank_of` has the ranks of the processes that count for
    /// the comparison of ranks.
    pub fn finish(&self, rank_of: &[Option<u32>]) -> Vec<Function> {
        let rows = self.sums.iter().enumerate().filter_map(|(number, sum)| Some((sum.as_ref()?, number)));
        let mut rows: Vec<Function> = rows.map(|(sum, number)| sum.finish(self, number, rank_of)).collect();
        rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.function.cmp(&b.function)));
        rows
    }
}

impl Sum {
    fn new() -> Box<Self> {
        // Two digits: a percentile is right to a hundredth. Never fails for so few.
        let mut durations = Histogram::new(2).unwrap_or_else(|_| unreachable!());
        durations.auto(true);
        Box::new(Sum {
            calls: 0,
            failures: Vec::new(),
            wrong: Vec::new(),
            injected: 0,
            pending: 0,
            unwound: 0,
            total_ns: 0,
            max_ns: 0,
            durations,
            by_process: Vec::new(),
        })
    }

    fn finish(&self, functions: &Functions, number: Number, rank_of: &[Option<u32>]) -> Function {
        let mut by_rank = BTreeMap::new();
        for (process, rank) in rank_of.iter().enumerate() {
            if let Some(rank) = rank {
                *by_rank.entry(*rank).or_default() += self.by_process.get(process).copied().unwrap_or(0);
            }
        }
        let id = Functions::id(number);
        let failures: Codes = results::named(id, &self.failures);
        // A percentile stands for all durations within a hundredth, of which some are above the maximum.
        let percentile = |q: f64| {
            (!self.durations.is_empty()).then(|| self.durations.value_at_quantile(q).min(self.max_ns))
        };
        Function {
            function: functions.name(number),
            calls: self.calls,
            failures,
            wrong: results::named(id, &self.wrong),
            injected: self.injected,
            pending: self.pending,
            unwound: self.unwound,
            total_ns: self.total_ns,
            p50_ns: percentile(0.5),
            p99_ns: percentile(0.99),
            max_ns: (!self.durations.is_empty()).then_some(self.max_ns),
            ranks: deviation::spread(&by_rank),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_a_hundredth() {
        let mut functions = Functions::new();
        for i in 1..=1000 {
            functions.count(0, 0, End::Returned(0, i * 1000), false, false);
        }
        functions.count(0, 1, End::Pending, false, false);
        let row = &functions.finish(&[None, None])[0];
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
        functions.count(number, 0, End::Returned(999_999, 1), true, false);
        let row = &functions.finish(&[Some(0)])[0];
        assert_eq!((&*row.function, row.injected, row.failed()), ("cuFuture", 1, 1));
        assert_eq!(row.failures["999999"], 1);
    }
}
