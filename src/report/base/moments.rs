//! Writes and reads moments and durations in the form for people.
//!
//! It handles text, and knows nothing of recordings. A moment is nanoseconds of CLOCK_REALTIME.

use anyhow::{Context, Result, bail};
use cupeer_spec::duration::Duration;

/// Formats a duration in nanoseconds as the log does.
///
/// # Examples
///
/// ```
/// assert_eq!(cupeer_report::moments::duration(1_234_567), "1.2ms");
/// ```
pub fn duration(ns: u64) -> String {
    Duration(ns).to_string()
}

/// Formats a size in bytes: `512B`, `2.5KiB`, `16GiB`.
///
/// # Examples
///
/// ```
/// assert_eq!(cupeer_report::moments::bytes(2560), "2.5KiB");
/// ```
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes}B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let digits = if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") };
    format!("{}{}", digits.strip_suffix(".0").unwrap_or(&digits), UNITS[unit])
}

/// Formats a number with commas between its thousands.
pub fn number(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a moment as seconds since the moment `start`: `12.345678`.
pub fn since(start: u64, moment: u64) -> String {
    let sign = if moment < start { "-" } else { "" };
    let us = moment.abs_diff(start) / 1000;
    format!("{sign}{}.{:06}", us / 1_000_000, us % 1_000_000)
}

/// Formats a moment as a date: `2025-11-21 07:43:02 UTC`.
pub fn date(moment: u64) -> String {
    match i64::try_from(moment).ok().and_then(|ns| jiff::Timestamp::from_nanosecond(ns.into()).ok()) {
        Some(moment) => moment.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        None => format!("{moment}ns after 1970"),
    }
}

/// Formats a moment as XML's dateTime in UTC: `2025-11-21T07:43:02Z`.
pub fn iso(moment: u64) -> String {
    let moment = i64::try_from(moment).unwrap_or(i64::MAX);
    let moment = jiff::Timestamp::from_nanosecond(moment.into()).unwrap_or_default();
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Parses a moment: seconds since the moment `start`, or a date and time in the form of RFC 3339.
pub fn parse(text: &str, start: u64) -> Result<u64> {
    if let Ok(seconds) = text.strip_suffix('s').unwrap_or(text).parse::<f64>() {
        if !(0.0..1e9).contains(&seconds) {
            bail!("'{text}' is not a number of seconds since the recording began");
        }
        return Ok(start.saturating_add((seconds * 1e9) as u64));
    }
    let moment: jiff::Timestamp = text.parse().ok().with_context(|| {
        format!("'{text}' is neither seconds since the recording began nor a time like 2025-11-21T07:43:02Z")
    })?;
    Ok(u64::try_from(moment.as_nanosecond()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_numbers() {
        let sizes = [0, 1023, 1024, 2 << 20, 2_500_000, 16 << 30, (1 << 40) - 1, 150 << 20].map(bytes);
        assert_eq!(sizes, ["0B", "1023B", "1KiB", "2MiB", "2.4MiB", "16GiB", "1TiB", "150MiB"]);
        assert_eq!([0, 999, 1000, 1234567].map(number), ["0", "999", "1,000", "1,234,567"]);
    }

    #[test]
    fn moments_are_read_as_they_are_written() {
        let start = 1_763_710_982_000_000_000;
        assert_eq!(date(start), "2025-11-21 07:43:02 UTC");
        assert_eq!(iso(start), "2025-11-21T07:43:02Z");
        assert_eq!(since(start, start + 1_500_000_000), "1.500000");
        assert_eq!(since(start, start - 1_000), "-0.000001");
        assert_eq!(parse("1.5", start).unwrap(), start + 1_500_000_000);
        assert_eq!(parse("1.5s", start).unwrap(), start + 1_500_000_000);
        assert_eq!(parse("2025-11-21T08:43:02+01:00", 0).unwrap(), start);
        for wrong in ["", "-1", "nan", "yesterday", "2025-11-21"] {
            assert!(parse(wrong, start).is_err(), "{wrong}");
        }
    }
}
