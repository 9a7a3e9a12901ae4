//! Rules need no quoting in a shell.

use super::generated::rules;
use crate::fault::parse::keys::KEYS;
use proptest::prelude::*;
use std::process::Command;

/// Returns the words that a shell passes on if they are unquoted, in a directory without files.
fn through(shell: &str, words: &[String]) -> Option<Vec<String>> {
    let empty = std::env::temp_dir().join(format!("cupeer-shell-{}-{shell}", std::process::id()));
    std::fs::create_dir_all(&empty).unwrap();
    let script = format!("printf '%s\\n' {}", words.join(" "));
    let output = Command::new(shell).arg("-c").arg(script).current_dir(&empty).output().ok();
    std::fs::remove_dir(&empty).ok();
    let text = String::from_utf8(output?.stdout).unwrap();
    Some(text.lines().map(Into::into).collect())
}

fn check(words: &[String]) {
    assert_eq!(through("sh", words).as_deref(), Some(words), "sh");
    if let Some(seen) = through("bash", words) {
        assert_eq!(seen, words, "bash");
    }
}

#[test]
fn no_key_and_no_example_needs_quotes() {
    let mut words: Vec<String> =
        KEYS.iter().map(|key| format!("cuIpcOpenMemHandle*,@peer,^@lookup:{}", key.example_clause())).collect();
    let more =
        ["^@lookup,?uIpc*:dev=^0,2..3,-1:delay=5ms~1ms", "all:out=pHandle=flip/24:per=job/rule:when=3..9+2:p=0.1"];
    words.extend(more.map(Into::into));
    check(&words);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn no_rule_needs_quotes(words in proptest::collection::vec(rules(), 40)) {
        check(&words);
    }
}
