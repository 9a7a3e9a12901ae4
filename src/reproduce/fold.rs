//! Folds statements that a process repeats into a loop, if the program made the calls at the same places: it had a loop there, too.
//!
//! Two runs of statements are alike if they differ only in the numbers of variables, and no variable that differs is used outside of
//! its run. The loop then uses the variables of the first run.

use std::collections::HashMap;
use std::slice;

/// Largest number of statements in a loop.
const MOST_STATEMENTS: usize = 16;
/// Smallest number of repetitions that become a loop.
const FEWEST_REPETITIONS: usize = 3;

/// A statement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Statement {
    pub text: String,
    /// Place of the recorded call in the program; 0 if it is none.
    pub call_site: u64,
}

/// Returns the statements of a body with loops.
pub fn fold_into_loops(lines: Vec<Statement>) -> Vec<String> {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for word in lines.iter().flat_map(|line| split_words(&line.text)) {
        *uses.entry(word).or_default() += 1;
    }
    let mut folded = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let lengths = 1..=MOST_STATEMENTS.min(lines.len() - at);
        let counted = lengths.map(|length| (count_repetitions(&lines[at..], length, &uses), length));
        let best = counted
            .filter(|(count, _)| *count >= FEWEST_REPETITIONS)
            .max_by_key(|(count, length)| (count * length, *count));
        let Some((count, length)) = best else {
            folded.push(lines[at].text.clone());
            at += 1;
            continue;
        };
        let mut run: Vec<String> = lines[at..at + length].iter().map(|line| format!("    {}", line.text)).collect();
        at += count * length;
        let mut repetitions = count;
        if let Some(failed) =
            lines.get(at).and_then(|last| format_failing_call(&lines[at - count * length], last, count, &uses))
        {
            repetitions += 1;
            at += 1;
            run.splice(..1, [format!("    {failed}"), format!("    if (i == {count}) break;")]);
        }
        folded.push(format!("for (int i = 0; i < {repetitions}; i++) {{"));
        folded.append(&mut run);
        folded.push("}".to_owned());
    }
    folded
}

/// Returns the number of runs of `length` lines that are like the first one.
fn count_repetitions(lines: &[Statement], length: usize, uses: &HashMap<&str, usize>) -> usize {
    let mut runs = lines.chunks_exact(length);
    let Some(first) = runs.next() else { return 0 };
    let alike = runs.take_while(|run| is_repetition(first, run, uses)).count();
    // The variables of the first run must be its own, too: it is compared with the second one.
    let is_own = lines.get(length..2 * length).is_some_and(|second| is_repetition(second, first, uses));
    if alike > 0 && is_own { alike + 1 } else { 0 }
}

/// Returns the first call of a loop with two results if `last` is the same call after all `count` runs, and failed.
fn format_failing_call(
    first: &Statement,
    last: &Statement,
    count: usize,
    uses: &HashMap<&str, usize>,
) -> Option<String> {
    let split = |line: &Statement| {
        let (call, result) = line.text.strip_suffix(");")?.rsplit_once(", ")?;
        call.starts_with("expect(").then(|| (call.to_owned(), result.to_owned()))
    };
    let ((call, result), (last_call, failure)) = (split(first)?, split(last)?);
    let again = Statement { text: format!("{last_call}, {result});"), call_site: last.call_site };
    let is_again = is_repetition(slice::from_ref(first), &[again], uses);
    is_again.then(|| format!("{call}, i < {count} ? {result} : {failure});"))
}

/// Returns true if a run is like another one, and the variables that differ are used nowhere else.
fn is_repetition(first: &[Statement], run: &[Statement], uses: &HashMap<&str, usize>) -> bool {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for (one, other) in first.iter().zip(run) {
        let mut others = split_words(&other.text);
        let is_alike = one.call_site == other.call_site
            && remove_words(&one.text) == remove_words(&other.text)
            && split_words(&one.text).all(|word| {
                let Some(now) = others.next() else { return false };
                *counts.entry(now).or_default() += 1;
                *names.entry(word).or_insert(now) == now
                    && (word == now || variable_stem(word) == variable_stem(now) && !variable_stem(word).is_empty())
            });
        if !is_alike || others.next().is_some() {
            return false;
        }
    }
    names.iter().filter(|(word, now)| word != now).all(|(_, now)| counts.get(now) == uses.get(now))
}

/// Returns a line without its words.
fn remove_words(line: &str) -> String {
    line.chars().filter(|c| !is_word_char(*c)).collect()
}

/// Returns the name of a variable without its number; empty for a number, and for other words.
fn variable_stem(word: &str) -> &str {
    let stem = word.trim_end_matches(|c: char| c.is_ascii_digit());
    if stem.len() < word.len() && stem.starts_with(|c: char| c.is_ascii_lowercase()) { stem } else { "" }
}

/// Returns the identifiers and numbers of a text in C.
pub fn split_words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c| !is_word_char(c)).filter(|word| !word.is_empty())
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_statements(text: &str) -> Vec<Statement> {
        text.split(' ').map(|text| Statement { text: text.to_owned(), call_site: 0 }).collect()
    }

    #[track_caller]
    fn assert_stays(all: Vec<Statement>) {
        let texts: Vec<String> = all.iter().map(|line| line.text.clone()).collect();
        assert_eq!(fold_into_loops(all), texts);
    }

    #[test]
    fn repeated_statements_become_a_loop() {
        let folded = fold_into_loops(parse_statements(
            "a(); make(&memory1); use(memory1); make(&memory2); use(memory2); make(&memory3); use(memory3); b();",
        ));
        let expected =
            ["a();", "for (int i = 0; i < 3; i++) {", "    make(&memory1);", "    use(memory1);", "}", "b();"];
        assert_eq!(folded, expected);
    }

    #[test]
    fn call_that_fails_at_last_ends_the_loop() {
        let folded = fold_into_loops(
            (1..=4)
                .map(|i| format!("expect(make(&memory{i}), {});", if i < 4 { "DONE" } else { "FULL" }))
                .map(|text| Statement { text, call_site: 7 })
                .collect(),
        );
        let expected = [
            "for (int i = 0; i < 4; i++) {",
            "    expect(make(&memory1), i < 3 ? DONE : FULL);",
            "    if (i == 3) break;",
            "}",
        ];
        assert_eq!(folded, expected);
    }

    #[test]
    fn other_statements_stay() {
        // A variable is used later.
        assert_stays(parse_statements("make(&memory1); make(&memory2); make(&memory3); use(memory2);"));
        // Numbers are not variables.
        assert_stays(parse_statements("use(1); use(2); use(3);"));
        let mut places = parse_statements("make(&memory1); make(&memory2); make(&memory3);");
        places[1].call_site = 7;
        assert_stays(places);
    }
}
