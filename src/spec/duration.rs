//! Durations: how people write them, and how they read them.

use core::fmt;

/// Longest duration in nanoseconds. A longer duration is a mistake, and the sum of two of these fits in 64
/// bits.
const LONGEST: u64 = 360_000_000_000_000_000;

/// Units of time, each with its number of nanoseconds.
const UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Nanoseconds, shown in at most seven characters: `950ns`, `27.0us`, `1.500s`, `2m05s`, `3h10m`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Duration(pub u64);

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let ns = self.0;
        let seconds = ns / 1_000_000_000;
        match ns {
            0..1_000 => write!(f, "{ns}ns"),
            1_000..1_000_000 => write!(f, "{}.{}us", ns / 1_000, ns / 100 % 10),
            1_000_000..1_000_000_000 => write!(f, "{}.{}ms", ns / 1_000_000, ns / 100_000 % 10),
            _ if seconds < 60 => write!(f, "{}.{:03}s", seconds, ns / 1_000_000 % 1000),
            _ if seconds < 3600 => write!(f, "{}m{:02}s", seconds / 60, seconds % 60),
            _ if seconds < 100 * 3600 => write!(f, "{}h{:02}m", seconds / 3600, seconds / 60 % 60),
            _ => write!(f, "{}d{:02}h", seconds / 86400, seconds / 3600 % 24),
        }
    }
}

/// Parses a number and its unit as nanoseconds. The error is the rest of a sentence.
pub fn parse(text: &str) -> Result<u64, &'static str> {
    const NO_UNIT: &str = "has no unit; write a number and ns, us, ms, s, m or h: 5ms, 1.5s";
    const NO_TIME: &str = "is not a time; write a number and ns, us, ms, s, m or h: 5ms, 1.5s";
    const TOO_LONG: &str = "is too long; the longest time is 100000h";
    const TOO_FINE: &str = "is finer than a nanosecond; 1ns is the shortest";
    let length = text.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
    let (number, unit) = text.split_at(length);
    if unit.is_empty() {
        return Err(NO_UNIT);
    }
    let (_, nanoseconds) = UNITS.iter().find(|(known, _)| *known == unit).ok_or(NO_TIME)?;
    let (whole, part) = match number.split_once('.') {
        Some((whole, part)) if !part.is_empty() => (whole, part),
        Some(_) => return Err(NO_TIME),
        None => (number, ""),
    };
    if whole.is_empty() || part.contains('.') {
        return Err(NO_TIME);
    }
    let whole: u128 = whole.parse().map_err(|_| TOO_LONG)?;
    let part = part.trim_end_matches('0');
    if part.len() > 15 {
        return Err(TOO_FINE);
    }
    let scale = 10u128.pow(part.len() as u32);
    let part: u128 = part.parse().unwrap_or(0);
    let nanoseconds = u128::from(*nanoseconds);
    if !(part * nanoseconds).is_multiple_of(scale) {
        return Err(TOO_FINE);
    }
    let total = whole.checked_mul(nanoseconds).and_then(|total| total.checked_add(part * nanoseconds / scale));
    total.and_then(|total| u64::try_from(total).ok()).filter(|total| *total <= LONGEST).ok_or(TOO_LONG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_short() {
        for (ns, wanted) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_000, "1.0us"),
            (31_449, "31.4us"),
            (999_999, "999.9us"),
            (1_000_000, "1.0ms"),
            (2_500_000_000, "2.500s"),
            (125_000_000_000, "2m05s"),
            (11_400_000_000_000, "3h10m"),
            (864_000_000_000_000, "10d00h"),
        ] {
            assert_eq!(Duration(ns).to_string(), wanted);
        }
    }
}
