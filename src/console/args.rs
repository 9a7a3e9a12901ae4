//! Words and times in command lines of several commands.

use clap::ValueEnum;
use std::time::Duration;

/// Returns the word for a value on the command line.
pub fn value_word(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Quotes a word for a POSIX shell, if necessary.
pub fn shell_quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:=,@%+^".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Reads a time: a number with its unit, such as 90s, 30m, 2h, 500ms.
pub fn duration(text: &str) -> Result<Duration, String> {
    let time = cupeer_spec::duration::parse(text).ok().filter(|time| *time > 0);
    time.map(Duration::from_nanos)
        .ok_or_else(|| "a time is a number above 0 with ms, s, m or h, such as 90s".to_owned())
}

/// Reads the time without progress after which a run counts as hung.
pub fn of_hang(text: &str) -> Result<Duration, String> {
    from_100ms(text, "60s")
}

/// Reads a time of at least 100 ms. The message about a wrong time contains `example`.
pub fn from_100ms(text: &str, example: &str) -> Result<Duration, String> {
    const LEAST: u64 = 100_000_000;
    let time = cupeer_spec::duration::parse(text).ok().filter(|time| *time >= LEAST);
    time.map(Duration::from_nanos)
        .ok_or_else(|| format!("a time is a number with ms, s, m or h, at least 100ms, such as {example}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let ms = |text| duration(text).map(|time| time.as_millis());
        assert_eq!(["90s", "1.5m", "2h", "500ms"].map(ms), [90_000, 90_000, 7_200_000, 500].map(Ok));
        for wrong in ["", "s", "90", "0", "-1s", "1d", "1e99", "1.2.3", "m5"] {
            assert!(ms(wrong).is_err(), "{wrong}");
        }
    }
}
