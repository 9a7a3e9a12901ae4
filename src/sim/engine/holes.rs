//! The free parts of a range of numbers: addresses, or offsets in a device's memory.

use std::collections::BTreeMap;

/// The lengths of the free parts, by their starts. Neighboring free parts are always one part.
#[derive(Default, Debug)]
pub(crate) struct FreeRanges(BTreeMap<u64, u64>);

impl FreeRanges {
    /// Returns the free parts of a range that is entirely free.
    pub(crate) fn of_range(start: u64, length: u64) -> Self {
        let mut holes = FreeRanges::default();
        holes.return_range(start, length);
        holes
    }

    /// Takes the first free part of this size and alignment (a power of two). Returns its start; `None` if
    /// there is none.
    pub(crate) fn take_range(&mut self, size: u64, align: u64) -> Option<u64> {
        let (start, length, at) = self.0.iter().find_map(|(&start, &length)| {
            let at = start.checked_next_multiple_of(align)?;
            (at.checked_add(size)? <= start + length).then_some((start, length, at))
        })?;
        self.0.remove(&start);
        if at > start {
            self.0.insert(start, at - start);
        }
        let rest = start + length - (at + size);
        if rest > 0 {
            self.0.insert(at + size, rest);
        }
        Some(at)
    }

    /// Returns a part that was taken to the free parts.
    pub(crate) fn return_range(&mut self, mut start: u64, mut length: u64) {
        if length == 0 {
            return;
        }
        if let Some((&before, &size)) = self.0.range(..start).next_back()
            && before + size == start
        {
            self.0.remove(&before);
            (start, length) = (before, length + size);
        }
        if let Some(size) = self.0.remove(&(start + length)) {
            length += size;
        }
        self.0.insert(start, length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_parts_do_not_overlap_and_come_back() {
        let mut holes = FreeRanges::of_range(0, 1 << 20);
        let mut taken = Vec::new();
        for i in 0..200u64 {
            if i % 3 == 2 && !taken.is_empty() {
                let (at, size) = taken.remove((i as usize * 7) % taken.len());
                holes.return_range(at, size);
            } else if let Some(at) = holes.take_range(512 * (1 + i % 5), 512) {
                taken.push((at, 512 * (1 + i % 5)));
            }
            let mut sorted = taken.clone();
            sorted.sort();
            assert!(sorted.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0));
        }
        for (at, size) in taken {
            holes.return_range(at, size);
        }
        assert_eq!(holes.0, BTreeMap::from([(0, 1 << 20)]));
    }

    #[test]
    fn alignment_is_kept_and_too_much_is_refused() {
        let mut holes = FreeRanges::of_range(512, 8192);
        assert_eq!(holes.take_range(100, 4096), Some(4096));
        assert_eq!(holes.take_range(512, 512), Some(512));
        assert_eq!(holes.take_range(8192, 1), None);
        assert_eq!(holes.take_range(u64::MAX, 1), None);
    }
}
