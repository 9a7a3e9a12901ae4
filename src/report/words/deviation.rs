//! Finds the ranks that behave differently from the others.
//!
//! Most collective programs do the same on all ranks, or on all but a few. A rank deviates if its count differs from
//! that of a majority of ranks that agree. Without such a majority, it deviates if it is far from the median: more
//! than three times the usual distance, and more than a tenth of the median.

use crate::model::{Deviation, Ranks};
use std::collections::BTreeMap;

/// Describes the distribution of counts over ranks, with the deviating ranks; `None` without ranks.
pub fn summarize_counts(counts: &BTreeMap<u32, u64>) -> Option<Ranks> {
    let mut sorted: Vec<u64> = counts.values().copied().collect();
    sorted.sort_unstable();
    let (least, most) = (*sorted.first()?, *sorted.last()?);
    let median = lower_median(&sorted);
    Some(Ranks { least, median, most, deviating: find_deviating(counts, &sorted, median) })
}

/// Returns the median; the lower of the two middle values of an even number, because some rank has this
/// count.
fn lower_median(sorted: &[u64]) -> u64 {
    sorted[(sorted.len() - 1) / 2]
}

fn find_deviating(counts: &BTreeMap<u32, u64>, sorted: &[u64], median: u64) -> Vec<Deviation> {
    // If more than half of the ranks have one value, this value is the median.
    let agreeing = sorted.iter().filter(|count| **count == median).count();
    let exact = agreeing * 2 > sorted.len();
    if sorted.len() < 3 {
        return Vec::new();
    }
    let mut distances: Vec<u64> = sorted.iter().map(|count| count.abs_diff(median)).collect();
    distances.sort_unstable();
    // Take the upper of the two middle values, so that neither half deviates if exactly half of the ranks
    // agree.
    let usual = distances[distances.len() / 2];
    let deviates = |count: u64| {
        let distance = count.abs_diff(median);
        if exact { distance > 0 } else { distance > 3 * usual && distance * 10 > median }
    };
    let chosen = counts.iter().filter(|(_, count)| deviates(**count));
    chosen.map(|(rank, count)| Deviation { rank: *rank, calls: *count, others: median, exact }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(counts: &[u64]) -> Vec<(u32, u64, u64, bool)> {
        let counts = (0..).zip(counts.iter().copied()).collect();
        let spread = summarize_counts(&counts).unwrap();
        spread.deviating.iter().map(|d| (d.rank, d.calls, d.others, d.exact)).collect()
    }

    #[test]
    fn one_against_a_majority_or_far_away_where_none_agree() {
        assert_eq!(ranks(&[48, 48, 48, 40, 48, 48, 48, 48]), [(3, 40, 48, true)]);
        assert_eq!(ranks(&[48, 48, 0, 40, 48]), [(2, 0, 48, true), (3, 40, 48, true)]);
        assert_eq!(ranks(&[1, 0, 0, 0]), [(0, 1, 0, true)]);
        assert_eq!(ranks(&[100, 101, 99, 102, 98, 40]), [(5, 40, 99, false)]);
    }

    #[test]
    fn nobody_deviates_from_one_other_from_himself_or_by_little() {
        assert_eq!(ranks(&[1, 2]), []);
        assert_eq!(ranks(&[7]), []);
        assert_eq!(ranks(&[100, 101, 99, 102, 98, 97]), []);
        assert_eq!(ranks(&[1000, 1001, 999, 1002, 998, 1010]), [], "a hundredth is not worth a word");
        assert_eq!(ranks(&[1, 2, 1, 2]), [], "two camps");
        assert!(summarize_counts(&BTreeMap::new()).is_none());
    }
}
