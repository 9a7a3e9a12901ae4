//! The root of programs that hang, as bugs of other projects made them hang: `tests/programs/hangs/answers.txt` has what the answer
//! must say of each, with cupeer and without.

use super::{Waits, json};
use crate::support::{self, cupeer, plain, temp_dir};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time in which an answer is expected: a program ends by itself after 120 seconds.
const LIMIT: Duration = Duration::from_secs(100);

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/hangs")
}

struct Hang {
    program: String,
    kind: String,
    /// Each with others that may be there in its place.
    facts: Vec<Vec<String>>,
}

fn hangs() -> Vec<Hang> {
    let text = std::fs::read_to_string(folder().join("answers.txt")).unwrap();
    let one = |line: &str| {
        let (program, rest) = line.split_once(' ').unwrap();
        let (kind, rest) = rest.trim_start().split_once(' ').unwrap();
        let mut facts: Vec<Vec<String>> = Vec::new();
        for fact in rest.trim_start().split("; ") {
            match fact.strip_prefix("or ").zip(facts.last_mut()) {
                Some((other, last)) => last.push(other.to_owned()),
                None => facts.push(vec![fact.to_owned()]),
            }
        }
        Hang { program: program.to_owned(), kind: kind.to_owned(), facts }
    };
    text.lines().filter(|line| !line.starts_with('#')).map(one).collect()
}

impl Hang {
    /// Returns the command that runs the program.
    fn words(&self) -> Vec<PathBuf> {
        if self.program.ends_with(".py") {
            return vec!["python3".into(), folder().join(&self.program)];
        }
        let include = format!("-I{}", folder().display());
        let flags = ["-O1", "-pthread", "-Wno-unused-function", "-Wno-unused-result", &include, "-lm", "-lrt"];
        vec![support::compile_c(&format!("programs/hangs/{}", self.program), &flags)]
    }

    /// Why a document is not the answer.
    fn lacks(&self, document: &Value) -> Option<String> {
        let answer = document["answer"].as_str().unwrap_or_default();
        let is_there = |facts: &&Vec<String>| !facts.iter().any(|fact| answer.contains(fact.as_str()));
        let missing: Vec<String> = self.facts.iter().filter(is_there).map(|facts| facts.join(" or ")).collect();
        let kind = document["root"]["kind"].as_str().unwrap_or_default();
        (!missing.is_empty() || kind != self.kind)
            .then(|| format!("{}: {kind}, without {missing:?}: {answer}", self.program))
    }

    /// Starts the program, and asks until the answer is right. Returns what the last one lacked.
    fn check(&self, mut command: Command) -> Option<String> {
        let folder = temp_dir();
        command.current_dir(folder.path());
        let mut waits = Waits::start(command, 0);
        let start = Instant::now();
        let mut lacks;
        loop {
            lacks = self.lacks(&json(&[&waits.pid().to_string()]));
            if lacks.is_none() || start.elapsed() > LIMIT {
                break;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        waits.kill();
        lacks
    }
}

/// Checks all programs, some at the same time.
#[track_caller]
fn check_all(command: impl Fn(&[PathBuf]) -> Command + Sync) {
    let hangs = hangs();
    let (next, wrong) = (Mutex::new(hangs.iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(hang) = next.lock().unwrap().next() else { return };
                    wrong.lock().unwrap().extend(hang.check(command(&hang.words())));
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {} are wrong:\n{}", wrong.len(), hangs.len(), wrong.join("\n"));
}

#[test]
fn the_root_of_a_hang_is_the_answer_without_cupeer() {
    check_all(|words| {
        let mut command = plain(&words[0]);
        command.args(&words[1..]);
        command
    });
}

#[test]
fn the_root_of_a_hang_is_the_answer_under_cupeer() {
    check_all(|words| {
        let mut command = cupeer();
        command.args(["run", "-q", "-o", "r", "--sim", "--"]).args(words);
        command
    });
}
