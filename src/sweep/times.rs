//! Times as people say them.

use std::time::Duration;

pub fn format_duration(time: Duration) -> String {
    match time.as_secs() {
        0 => format!("{} ms", time.as_millis().max(1)),
        seconds @ ..10 => format!("{seconds}.{} s", time.subsec_millis() / 100),
        seconds @ ..100 => format!("{seconds} s"),
        seconds @ ..6000 => format!("{} min", (seconds + 30) / 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_say_them() {
        let texts =
            [0, 12, 400, 2_345, 43_000, 150_000, 9_000_000].map(|ms| format_duration(Duration::from_millis(ms)));
        assert_eq!(texts, ["1 ms", "12 ms", "400 ms", "2.3 s", "43 s", "3 min", "2 h 30 min"]);
    }
}
