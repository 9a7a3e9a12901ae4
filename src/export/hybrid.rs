//! Numbers of few bits, as Parquet has them: runs of the same number, and between them all bits one after the other.
//!
//! What belongs here: that form, for the numbers of dictionaries and for what says which values there are. The crate
//! `parquet` has it, too, but takes values one at a time; most of our columns are long runs.

/// How long a run is worth one: as many numbers as bits are put together for.
const GROUP: usize = 8;

/// How many bits a number of so many different ones takes; at least one, which all readers understand.
pub fn width(different: usize) -> u32 {
    (usize::BITS - different.saturating_sub(1).leading_zeros()).max(1)
}

/// Appends numbers of at most `width` bits.
pub fn encode(numbers: &[u32], width: u32, out: &mut Vec<u8>) {
    let (mut begun, mut at) = (0, 0);
    while at < numbers.len() {
        let number = numbers[at];
        let run = numbers[at..].iter().take_while(|other| **other == number).count();
        // What is put together is put together by groups.
        let missing = (at - begun).next_multiple_of(GROUP) - (at - begun);
        if run >= GROUP + missing {
            bits(&numbers[begun..at + missing], width, out);
            self::run(number, run - missing, width, out);
            begun = at + run;
        }
        at += run;
    }
    bits(&numbers[begun..], width, out);
}

/// Appends a number that is there several times.
pub fn run(number: u32, times: usize, width: u32, out: &mut Vec<u8>) {
    varint((times as u64) << 1, out);
    out.extend(&number.to_le_bytes()[..width.div_ceil(8) as usize]);
}

fn bits(numbers: &[u32], width: u32, out: &mut Vec<u8>) {
    if numbers.is_empty() {
        return;
    }
    let groups = numbers.len().div_ceil(GROUP);
    varint((groups as u64) << 1 | 1, out);
    let end = out.len() + groups * width as usize;
    let (mut held, mut count) = (0u64, 0);
    for number in numbers {
        held |= u64::from(*number) << count;
        count += width;
        if count >= 32 {
            out.extend(&(held as u32).to_le_bytes());
            (held, count) = (held >> 32, count - 32);
        }
    }
    out.extend(held.to_le_bytes());
    out.resize(end, 0);
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As the specification says that it is read.
    fn decode(mut bytes: &[u8], width: u32, count: usize) -> Vec<u32> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            let (mut head, mut shift) = (0u64, 0);
            loop {
                let byte = bytes[0];
                bytes = &bytes[1..];
                head |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
            if head & 1 == 0 {
                let mut number = [0; 4];
                let size = width.div_ceil(8) as usize;
                number[..size].copy_from_slice(&bytes[..size]);
                bytes = &bytes[size..];
                numbers.extend(std::iter::repeat_n(u32::from_le_bytes(number), (head >> 1) as usize));
            } else {
                let size = (head >> 1) as usize * width as usize;
                for i in 0..(head >> 1) as usize * GROUP {
                    let bit = |bit: usize| u32::from(bytes[bit / 8] >> (bit % 8) & 1);
                    let first = i * width as usize;
                    numbers.push((0..width as usize).map(|at| bit(first + at) << at).sum());
                }
                bytes = &bytes[size..];
            }
        }
        assert!(bytes.is_empty(), "{} bytes too many", bytes.len());
        numbers.truncate(count);
        numbers
    }

    #[test]
    fn a_width_holds_all_numbers() {
        assert_eq!([0, 1, 2, 3, 4, 5, 256, 257].map(width), [1, 1, 1, 2, 2, 3, 8, 9]);
    }

    #[test]
    fn a_run_takes_no_room() {
        let mut out = Vec::new();
        encode(&[3; 100_000], 2, &mut out);
        assert_eq!(out.len(), 4);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(runs in prop::collection::vec((any::<u32>(), 1..40usize), 0..60), width in 1..=20u32) {
            let mask = (1u32 << width) - 1;
            let numbers: Vec<u32> =
                runs.iter().flat_map(|(number, count)| std::iter::repeat_n(number & mask, *count)).collect();
            let mut out = Vec::new();
            encode(&numbers, width, &mut out);
            prop_assert_eq!(decode(&out, width, numbers.len()), numbers);
        }
    }
}
