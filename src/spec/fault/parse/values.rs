//! Values: numbers, ranges, sizes, names, patterns, durations and shares.

use super::PlanError;
use super::span::{Span, join_with_or};
use crate::fault::ConditionValues;
use crate::function::FnSpec;
use crate::names::find_nearest_name;
use crate::results::ResultSpec;
use crate::{duration, env};

type Result<T> = core::result::Result<T, PlanError>;

/// Parses a list that may be negated. Returns true if it is, and its items.
pub fn parse_list(value: Span<'_>) -> Result<(bool, Vec<Span<'_>>)> {
    let (not, value) = match value.strip_prefix("^") {
        Some(value) => (true, value),
        None => (false, value),
    };
    let items: Vec<Span> = value.split(',').collect();
    for item in &items {
        if item.text.is_empty() {
            return Err(item.error_at_start("a value is missing here"));
        }
        if item.text.starts_with('^') {
            return Err(item.error_at_start("'^' goes once, in front of all values: it means none of them"));
        }
    }
    Ok((not, items))
}

/// Parses a list of patterns.
pub fn parse_patterns(value: Span) -> Result<(bool, ConditionValues)> {
    let (not, items) = parse_list(value)?;
    Ok((not, ConditionValues::Patterns(items.into_iter().map(|item| item.text.into()).collect())))
}

/// Parses a list of numbers and ranges. `read` parses each number.
pub fn parse_ranges(value: Span, read: &dyn Fn(Span) -> Result<u64>) -> Result<(bool, ConditionValues)> {
    let (not, items) = parse_list(value)?;
    let ranges = items.into_iter().map(|item| parse_range(item, read)).collect::<Result<_>>()?;
    Ok((not, ConditionValues::Numbers(ranges)))
}

fn parse_range(item: Span, read: &dyn Fn(Span) -> Result<u64>) -> Result<(u64, u64)> {
    let Some((first, last)) = item.split_once("..") else {
        let number = read(item)?;
        return Ok((number, number));
    };
    if first.text.is_empty() && last.text.is_empty() {
        return Err(item.error_at_start("a range has a first or a last value: 1.., ..3 or 1..3"));
    }
    for end in [first, last] {
        if end.text.starts_with('-') {
            return Err(end.error_at_start("a negative number cannot be in a range; write each one: -2,-1"));
        }
    }
    let from = if first.text.is_empty() { 0 } else { read(first)? };
    let to = if last.text.is_empty() { u64::MAX } else { read(last)? };
    if from > to {
        let message =
            format!("the range {} ends before it begins; write the smaller number first", item.quoted_for_message());
        return Err(item.error_at_start(message));
    }
    Ok((from, to))
}

/// Parses a number from `least` to `most`, decimal or hexadecimal. The error message suggests `such`, an
/// example.
pub fn parse_number(text: Span, least: u64, most: u64, such: &str) -> Result<u64> {
    check_bounds(text, parse_digits(text, such)?, least, most)
}

/// Parses a size in bytes.
pub fn parse_size(text: Span) -> Result<u64> {
    if !text.text.is_empty() && text.text.bytes().all(|byte| byte.is_ascii_digit()) || is_hex(text) {
        return parse_number(text, 0, u64::MAX, "1M");
    }
    env::parse_size(text.text).ok_or_else(|| {
        text.error_at_start(format!(
            "{} is not a size; a size is a number, or one with K, M or G such as 64K",
            text.quoted_for_message()
        ))
    })
}

/// Parses a number that fits in this many bytes. Returns the bytes of a negative number without its sign.
pub fn parse_word(text: Span, bytes: usize, such: &str) -> Result<u64> {
    let most = if bytes >= 8 { u64::MAX } else { (1 << (8 * bytes)) - 1 };
    let Some(positive) = text.strip_prefix("-") else { return parse_number(text, 0, most, such) };
    let number = check_bounds(text, parse_digits(positive, such)?, 0, most / 2 + 1)?;
    Ok(number.wrapping_neg() & most)
}

/// Parses a fingerprint, which consists of hexadecimal digits.
pub fn parse_fingerprint(text: Span) -> Result<u64> {
    let digits = text.text.strip_prefix("0x").unwrap_or(text.text);
    let number = u64::from_str_radix(digits, 16)
        .ok()
        .filter(|_| digits.len() <= 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
    number.ok_or_else(|| {
        let hint = if text.text == "ipc" { "leave out the 'ipc:' in front of them" } else { "as a report shows them" };
        text.error_at_start(format!(
            "{} is not a fingerprint; write its 16 hexadecimal digits, {hint}",
            text.quoted_for_message()
        ))
    })
}

fn is_hex(text: Span) -> bool {
    text.text.starts_with("0x") || text.text.starts_with("0X")
}

fn parse_digits(text: Span, such: &str) -> Result<u128> {
    let wrong = || {
        if text.text.is_empty() {
            return text.error_at_start(format!("a number is missing here, such as {such}"));
        }
        text.error_at_start(format!("{} is not a number; write {such}, for example", text.quoted_for_message()))
    };
    let (digits, radix) = if is_hex(text) { (&text.text[2..], 16) } else { (text.text, 10) };
    if digits.is_empty() || !digits.bytes().all(|byte| (byte as char).is_digit(radix)) {
        return Err(wrong());
    }
    // A number with too many digits is too large wherever it is used.
    Ok(u128::from_str_radix(digits, radix).unwrap_or(u128::MAX))
}

fn check_bounds(text: Span, number: u128, least: u64, most: u64) -> Result<u64> {
    match u64::try_from(number) {
        Ok(number) if number < least => {
            Err(text.error_at_start(format!("{} is too small; the minimum is {least}", text.quoted_for_message())))
        }
        Ok(number) if number <= most => Ok(number),
        _ => Err(text.error_at_start(format!("{} is too large; the maximum is {most}", text.quoted_for_message()))),
    }
}

/// Parses a duration, and returns it in nanoseconds.
pub fn parse_duration(text: Span) -> Result<u64> {
    if text.text.is_empty() {
        return Err(text.error_at_start("a time is missing here, such as 5ms"));
    }
    duration::parse(text.text).map_err(|what| text.error_at_start(format!("{} {what}", text.quoted_for_message())))
}

/// Parses a share or a probability: above 0, and at most 1.
pub fn parse_share(text: Span) -> Result<f64> {
    let (number, percent) = match text.text.strip_suffix('%') {
        Some(number) => (number, true),
        None => (text.text, false),
    };
    let parts: Vec<&str> = number.split('.').collect();
    let is_number =
        parts.len() <= 2 && parts.iter().all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let number: Option<f64> = if is_number { number.parse().ok() } else { None };
    let Some(number) = number else {
        return Err(
            text.error_at_start(format!("{} is not a share; write 10% or 0.1, for example", text.quoted_for_message()))
        );
    };
    let share = if percent { number / 100.0 } else { number };
    if share <= 0.0 {
        return Err(text.error_at_start("a share must be more than 0; leave out a fault that never fires"));
    }
    if share > 1.0 {
        let meant = if percent { String::new() } else { format!("; with a percent sign it would be {number}%") };
        return Err(text.error_at_start(format!("a share can be at most 1, which is 100%{meant}")));
    }
    Ok(share)
}

/// Parses one of several words, and returns the value that the word stands for. `what` names the value in
/// messages.
pub fn parse_one_of<T: Copy>(text: Span, what: &str, words: &[(T, &str)]) -> Result<T> {
    if let Some((value, _)) = words.iter().find(|(_, word)| *word == text.text) {
        return Ok(*value);
    }
    let known = || words.iter().map(|(_, word)| *word);
    let hint = match find_nearest_name(text.text, known()) {
        Some(meant) => format!("did you mean '{meant}'? Use {}", join_with_or(known())),
        None => format!("use {}", join_with_or(known())),
    };
    Err(text.error_at_start(format!("{} is not a {what}; {hint}", text.quoted_for_message())))
}

/// Returns the error message that no function has a result with this name.
pub fn explain_no_result<'a>(text: Span, functions: impl Iterator<Item = &'a FnSpec>) -> String {
    let typed = text.text.to_ascii_uppercase();
    let bare =
        ["CUDA_", "NVML_", "ERROR_"].iter().fold(&*typed, |bare, prefix| bare.strip_prefix(prefix).unwrap_or(bare));
    let known = functions.flat_map(|function| function.library.results()).map(ResultSpec::short_name);
    match find_nearest_name(bare, known) {
        Some(meant) => format!("there is no result {}; did you mean '{meant}'?", text.quoted_for_message()),
        None => {
            format!("there is no result {}; 'cupeer list errors' lists them all", text.quoted_for_message())
        }
    }
}
