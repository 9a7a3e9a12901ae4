//! Times, as sentences have them.

/// Formats nanoseconds: `38 s`, `2 min 5 s`.
pub fn format_duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds {
        0 => format!("{} ms", ns / 1_000_000),
        1..10 => format!("{}.{} s", seconds, ns / 100_000_000 % 10),
        10..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let times = [5_000_000, 1_250_000_000, 38_900_000_000, 125_000_000_000, 7_300_000_000_000].map(format_duration);
        assert_eq!(times, ["5 ms", "1.2 s", "38 s", "2 min 5 s", "2 h 1 min"]);
    }
}
