//! The bytes of a [`detail::NODES`](super::detail::NODES): flags of the graph, 8 bytes, and the ranges that its copies and memsets use.

/// Flag: the graph launches kernels.
pub const KERNELS: u64 = 1;
/// Flag: the graph may copy to host memory, so that a thread may learn of the end of its work without a call.
pub const TELLS: u64 = 2;
/// Largest number of ranges that are recorded.
pub const MOST: usize = 32;

/// Range of shared memory that a graph uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeRange {
    /// Address of the first byte.
    pub address: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// True if the graph writes the range, false if it reads it.
    pub is_write: bool,
    /// The value that a memset writes.
    pub value: Option<u32>,
}

impl NodeRange {
    /// Number of bytes of a range in a recording.
    pub const SIZE: usize = 24;

    /// Returns the range in the form of a recording.
    pub fn to_words(self) -> [u64; 3] {
        let about = u64::from(self.is_write) << 32 | u64::from(self.value.is_some()) << 33;
        [self.address, self.bytes, about | u64::from(self.value.unwrap_or(0))]
    }
}

/// Parses the flags and the ranges.
pub fn read_nodes(bytes: &[u8]) -> Option<(u64, impl Iterator<Item = NodeRange>)> {
    let (words, _) = bytes.as_chunks();
    let (flags, ranges) = words.split_first()?;
    let ranges = ranges.as_chunks().0.iter().map(|words: &[[u8; 8]; 3]| {
        let [address, bytes, about] = words.map(u64::from_le_bytes);
        let value = (about >> 33 & 1 != 0).then_some(about as u32);
        NodeRange { address, bytes, is_write: about >> 32 & 1 != 0, value }
    });
    Some((u64::from_le_bytes(*flags), ranges))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_ranges_are_read_back() {
        let all = [
            NodeRange { address: 0x7000_0000_0000, bytes: 1 << 40, is_write: true, value: Some(u32::MAX) },
            NodeRange { address: 0x7000_0000_1000, bytes: 1, is_write: false, value: None },
        ];
        let words: Vec<u64> = [TELLS].into_iter().chain(all.iter().flat_map(|it| it.to_words())).collect();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (flags, ranges) = read_nodes(&bytes).expect("flags");
        assert_eq!((flags, &ranges.collect::<Vec<_>>()[..]), (TELLS, &all[..]));
        assert!(read_nodes(&bytes[..7]).is_none());
    }
}
