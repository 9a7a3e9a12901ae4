//! The steps of a process: its recorded calls that give nothing back, and its recorded uses of shared memory. They are the clock by
//! which growth is measured, so that no verdict depends on the speed of the machine.

/// The most times that are kept.
const MOST: usize = 1 << 13;

/// The times of steps: all, or of very many each second, fourth, and so on.
#[derive(Default)]
pub struct Steps {
    times: Vec<u64>,
    count: u64,
    shift: u32,
}

impl Steps {
    /// Adds a step that is later than those before.
    pub fn add(&mut self, at: u64) {
        if self.count & ((1 << self.shift) - 1) == 0 {
            if self.times.len() == MOST {
                let mut index = 0;
                self.times.retain(|_| (index % 2 == 0, index += 1).0);
                self.shift += 1;
            }
            self.times.push(at);
        }
        self.count += 1;
    }

    /// The number of steps until a time.
    pub fn until(&self, at: u64) -> u64 {
        let kept = self.times.partition_point(|time| *time <= at);
        ((kept as u64) << self.shift).min(self.count)
    }

    /// The number of steps after a time.
    pub fn after(&self, at: u64) -> u64 {
        self.count - self.until(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_steps_need_little_memory() {
        let mut steps = Steps::default();
        (0..1_000_000).for_each(|at| steps.add(at));
        assert!(steps.times.len() <= MOST);
        for at in [0u64, 999, 500_000, 999_999] {
            assert!(steps.until(at).abs_diff(at + 1) <= 1 << steps.shift, "{at}");
        }
        assert_eq!(steps.after(999_999), 0);
    }
}
