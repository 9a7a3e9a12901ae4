//! Suggestions for a mistyped name.

/// The name nearest to `typed`, where one is near enough to be what was meant.
pub fn nearest<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_ascii_lowercase();
    let limit = (typed.len() / 3).clamp(1, 4);
    names
        .into_iter()
        .map(|name| (distance(&typed, &name.to_ascii_lowercase()), name))
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// The Levenshtein distance in bytes: names are ASCII.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant_and_nothing_far_away() {
        let names = ["cuIpcGetMemHandle", "cuIpcOpenMemHandle", "cuCtxEnablePeerAccess"];
        assert_eq!(nearest("cuIpcOpenMemHandel", names), Some("cuIpcOpenMemHandle"));
        assert_eq!(nearest("CUIPCGETMEMHANDLE", names), Some("cuIpcGetMemHandle"));
        assert_eq!(nearest("printf", names), None);
        assert_eq!(nearest("", names), None);
    }

    #[test]
    fn distance_is_levenshtein() {
        for (a, b, d) in [("", "", 0), ("a", "", 1), ("kitten", "sitting", 3), ("flaw", "lawn", 2)] {
            assert_eq!(distance(a, b), d, "{a} {b}");
        }
    }
}
