//! Suggestions for a mistyped name, and mistakes in what users write.

use core::fmt;

/// Mistake in a text of the user, with its position.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TextError {
    /// Column of the first wrong byte, from 1.
    pub column: usize,
    /// Error message with a correction.
    pub message: String,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "column {}: {}", self.column, self.message)
    }
}

/// Returns the name nearest to `typed`, if it is near enough for a suggestion.
pub fn find_nearest_name<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Limit on the length of a name in bytes. All known names are shorter.
    const LONGEST: usize = 100;
    let typed = typed.get(..LONGEST + 1).map_or(typed, |_| "").to_ascii_lowercase();
    let limit = (typed.len() / 3).clamp(1, 4);
    names
        .into_iter()
        .map(|name| (edit_distance(&typed, &name.to_ascii_lowercase()), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns the Levenshtein distance of two ASCII names in bytes. Two neighboring bytes that were swapped
/// count once.
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    let (mut before, mut next) = (row.clone(), row.clone());
    for i in 0..a.len() {
        next.clear();
        next.push(i + 1);
        for j in 0..b.len() {
            let mut least = (row[j] + usize::from(a[i] != b[j])).min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        core::mem::swap(&mut before, &mut row);
        core::mem::swap(&mut row, &mut next);
    }
    row[b.len()]
}

/// Returns true if a name matches a pattern in which `*` stands for any bytes and `?` for one. It backtracks
/// only to the last `*`, so that no pattern is slow.
pub fn matches_pattern(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((at, from)) = star else { return false };
                star = Some((at, from + 1));
                (p, n) = (at + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant_and_nothing_far_away() {
        let names = ["cuIpcGetMemHandle", "cuIpcOpenMemHandle", "cuCtxEnablePeerAccess"];
        assert_eq!(find_nearest_name("cuIpcOpenMemHandel", names), Some("cuIpcOpenMemHandle"));
        assert_eq!(find_nearest_name("CUIPCGETMEMHANDLE", names), Some("cuIpcGetMemHandle"));
        assert_eq!(find_nearest_name("printf", names), None);
        assert_eq!(find_nearest_name("", names), None);
    }

    #[test]
    fn distance_is_levenshtein_with_swaps() {
        for (a, b, d) in [
            ("", "", 0),
            ("a", "", 1),
            ("kitten", "sitting", 3),
            ("flaw", "lawn", 2),
            ("dealy", "delay", 1),
            ("ab", "ba", 1),
        ] {
            assert_eq!(edit_distance(a, b), d, "{a} {b}");
        }
    }
}
