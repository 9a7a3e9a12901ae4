//! Quantiles of durations in constant memory: exact to one percent, however many there are, and mergeable across
//! processes.

use hdrhistogram::Histogram;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Durations of calls that returned.
#[derive(Clone, Default, Serialize, Deserialize)]
pub struct Durations {
    /// Sum of the durations in nanoseconds.
    pub total_ns: u64,
    max_ns: u64,
    #[serde(rename = "durations")]
    spread: DurationHistogram,
}

impl Durations {
    /// Adds a duration in nanoseconds.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        self.total_ns = self.total_ns.saturating_add(ns);
        self.max_ns = self.max_ns.max(ns);
        // The histogram grows as needed, so recording a 64-bit value cannot fail.
        let _ = self.spread.0.record(ns);
    }

    /// Adds `count` durations of which only the sum and the longest are known, in nanoseconds.
    pub fn add_repeated(&mut self, count: u64, total_ns: u64, longest_ns: u64) {
        self.total_ns = self.total_ns.saturating_add(total_ns);
        self.max_ns = self.max_ns.max(longest_ns);
        // Record each of these durations as their mean.
        let _ = self.spread.0.record_n(total_ns / count.max(1), count);
    }

    /// Adds all durations of another process.
    pub fn merge(&mut self, other: &Durations) {
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        let _ = self.spread.0.add(&other.spread.0);
    }

    /// Returns the duration in nanoseconds that a share (0 to 1) of the durations does not exceed; `None`
    /// without durations.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        // The histogram returns the upper end of a range one percent wide, which can exceed the longest
        // duration.
        self.longest().map(|longest| self.spread.0.value_at_quantile(share).min(longest))
    }

    /// Returns the longest duration; `None` without durations.
    pub fn longest(&self) -> Option<u64> {
        (!self.spread.0.is_empty()).then_some(self.max_ns)
    }
}

#[derive(Clone)]
struct DurationHistogram(Histogram<u64>);

impl Default for DurationHistogram {
    fn default() -> Self {
        // Two significant digits. Creating a histogram fails only for more than five.
        let mut histogram = Histogram::new(2).unwrap_or_else(|_| unreachable!());
        histogram.auto(true);
        DurationHistogram(histogram)
    }
}

/// Serialized as pairs: a duration, and the number of durations within a hundredth of it.
impl Serialize for DurationHistogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let recorded = self.0.iter_recorded();
        serializer.collect_seq(recorded.map(|step| (step.value_iterated_to(), step.count_since_last_iteration())))
    }
}

impl<'de> Deserialize<'de> for DurationHistogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut sketch = DurationHistogram::default();
        for (ns, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            sketch.0.record_n(ns, count).map_err(D::Error::custom)?;
        }
        Ok(sketch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_survive_writing_and_reading() {
        let mut sketch = DurationHistogram::default();
        for ns in (0..100_000).map(|i: u64| i * i % 9_999_991).chain([u64::MAX, 0]) {
            sketch.0.record(ns).unwrap();
        }
        let text = serde_json::to_string(&sketch).unwrap();
        let read: DurationHistogram = serde_json::from_str(&text).unwrap();
        let quantiles =
            |sketch: &DurationHistogram| [0.0, 0.5, 0.99, 1.0].map(|share| sketch.0.value_at_quantile(share));
        assert_eq!(quantiles(&read), quantiles(&sketch));
        assert_eq!(serde_json::to_string(&read).unwrap(), text);
        assert!(serde_json::from_str::<DurationHistogram>("[[1]]").is_err());
    }

    #[test]
    fn two_together_are_as_one_of_all() {
        let [mut all, mut one, mut other] = [(); 3].map(|()| Durations::default());
        for ns in 0..10_000 {
            all.add(ns * 7);
            if ns % 3 == 0 { one.add(ns * 7) } else { other.add(ns * 7) }
        }
        one.merge(&other);
        assert!(one.spread.0 == all.spread.0);
        assert_eq!(Durations::default().quantile(0.5), None);
    }
}
