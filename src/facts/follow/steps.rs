//! The steps of a process: its recorded calls that release nothing, and its recorded uses of shared memory. Growth is measured in
//! steps instead of seconds, so that no finding depends on the speed of the machine.

/// Number of times from which on only every second one is stored (then every fourth, and so on).
const MOST_TIMES: usize = 1 << 13;

/// The times of steps. If there are too many, only every second step is stored, then every fourth, and so on.
#[derive(Default)]
pub struct StepTimes {
    times: Vec<u64>,
    count: u64,
    shift: u32,
}

impl StepTimes {
    /// Adds a step, which must be later than all steps before.
    pub fn add(&mut self, at: u64) {
        if self.count & ((1 << self.shift) - 1) == 0 {
            if self.times.len() == MOST_TIMES {
                let mut index = 0;
                self.times.retain(|_| (index % 2 == 0, index += 1).0);
                self.shift += 1;
            }
            self.times.push(at);
        }
        self.count += 1;
    }

    /// Returns the number of steps until a time.
    pub fn count_until(&self, at: u64) -> u64 {
        let kept = self.times.partition_point(|time| *time <= at);
        ((kept as u64) << self.shift).min(self.count)
    }

    /// Returns the number of steps after a time.
    pub fn count_after(&self, at: u64) -> u64 {
        self.count - self.count_until(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_steps_need_little_memory() {
        let mut steps = StepTimes::default();
        (0..1_000_000).for_each(|at| steps.add(at));
        assert!(steps.times.len() <= MOST_TIMES);
        for at in [0u64, 999, 500_000, 999_999] {
            assert!(steps.count_until(at).abs_diff(at + 1) <= 1 << steps.shift, "{at}");
        }
        assert_eq!(steps.count_after(999_999), 0);
    }
}
