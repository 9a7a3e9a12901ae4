//! Calls that a rule matches, compared with a model that counts like strace, and knows nothing of the library.

use super::client::{self, Ran, run};
use crate::support::temp_dir;
use proptest::prelude::*;
use std::collections::HashMap;

/// The letters of `faults.c` that call something without a state, and the functions that they call.
const CALLS: [(char, &str); 3] =
    [('c', "cuDeviceCanAccessPeer"), ('r', "cuDeviceCanAccessPeer"), ('a', "cuDeviceGetP2PAttribute")];

/// Part of a rule that counts.
#[derive(Clone, Debug)]
struct Counting {
    when: Option<(u64, Option<u64>, Option<u64>)>,
    times: Option<u64>,
    per: &'static str,
    together: bool,
    only_forward: bool,
}

impl Counting {
    fn text(&self) -> String {
        let mut text = String::from("cuDeviceCanAccessPeer,cuDeviceGetP2PAttribute");
        if self.only_forward {
            text += ":dev=0";
        }
        if let Some((first, last, step)) = self.when {
            text += &format!(":when={first}");
            text += &last.map(|last| format!("..{last}")).unwrap_or_default();
            text += &step.map(|step| format!("+{step}")).unwrap_or_default();
        }
        text += &self.times.map(|times| format!(":times={times}")).unwrap_or_default();
        let rule = if self.together { "/rule" } else { "" };
        text + &format!(":per={}{rule}:error=INVALID_DEVICE", self.per)
    }

    /// Returns true if the n-th call fails: only a first one, or all from it on with a step, as in strace.
    fn chooses(&self, n: u64) -> bool {
        let Some((first, last, step)) = self.when else { return true };
        let last = last.unwrap_or(if step.is_some() { u64::MAX } else { first });
        (first..=last).contains(&n) && (n - first).is_multiple_of(step.unwrap_or(1))
    }

    /// The results that each process and thread sees, which take turns.
    fn model(&self, processes: usize, threads: usize, word: &str) -> Vec<Vec<String>> {
        let mut counted: HashMap<(usize, usize, &str), (u64, u64)> = HashMap::new();
        let mut all = Vec::new();
        for process in 0..processes {
            for thread in 0..threads {
                let mut results = Vec::new();
                for letter in word.chars() {
                    let function = CALLS.iter().find(|(known, _)| *known == letter).unwrap().1;
                    let function = if self.together { "" } else { function };
                    let key = match self.per {
                        "process" => (process, 0, function),
                        "thread" => (process, thread, function),
                        _ => (0, 0, function),
                    };
                    let is_matched = !self.only_forward || letter != 'r';
                    let (count, fired) = counted.entry(key).or_default();
                    *count += u64::from(is_matched);
                    let fires = is_matched && self.chooses(*count) && self.times.is_none_or(|times| *fired < times);
                    *fired += u64::from(fires);
                    results.push(if fires { "101" } else { "0" }.to_owned());
                }
                all.push(results);
            }
        }
        all
    }
}

fn counting() -> impl Strategy<Value = Counting> {
    let when = proptest::option::of((1u64..9, proptest::option::of(0u64..9), proptest::option::of(1u64..5)));
    let when = when.prop_map(|when| when.map(|(first, more, step)| (first, more.map(|more| first + more), step)));
    let per = proptest::sample::select(vec!["process", "thread", "job"]);
    (when, proptest::option::of(1u64..7), per, any::<bool>(), any::<bool>())
        .prop_map(|(when, times, per, together, only_forward)| Counting { when, times, per, together, only_forward })
}

fn results(ran: &Ran) -> Vec<Vec<String>> {
    ran.lines.iter().map(|(_, words)| words.clone()).collect()
}

fn compare(counting: &Counting, how: &str, processes: usize, threads: usize, word: &str) {
    let text = counting.text();
    let ran = run(&text, &[how, &processes.to_string(), &threads.to_string(), word]);
    assert_eq!(ran.done.stderr, "", "{text}");
    assert_eq!(results(&ran), counting.model(processes, threads, word), "{text} {processes} {threads} {word}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn one_process_counts_as_the_model(counting in counting(), threads in 1usize..4, word in "[cra]{1,24}") {
        compare(&counting, "turns", 1, threads, &word);
    }

    #[test]
    fn four_processes_count_as_the_model(counting in counting(), word in "[cra]{1,16}") {
        compare(&counting, "turns", 4, 1, &word);
    }

    /// All at once: who gets which number is chance, how many fail is not.
    #[test]
    fn a_crowd_counts_each_call_once(counting in counting(), threads in 1usize..5, word in "[ca]{1,16}") {
        let counting = Counting { per: "job", only_forward: false, ..counting };
        let ran = run(&counting.text(), &["crowd", "4", &threads.to_string(), &word]);
        prop_assert_eq!(&ran.done.stderr, "");
        let failed = |all: &[Vec<String>]| all.iter().flatten().filter(|result| *result == "101").count();
        prop_assert_eq!(failed(&results(&ran)), failed(&counting.model(4, threads, &word)));
    }
}

/// The results of one process that makes many calls, by chance.
fn chance(rule: &str, processes: &str, calls: usize, rank: Option<&str>) -> Vec<Vec<String>> {
    let words = vec!["c".repeat(100); calls / 100];
    let mut arguments = vec!["turns", processes, "1"];
    arguments.extend(words.iter().map(String::as_str));
    let folder = temp_dir();
    let mut command = client::command(folder.path(), rule, &arguments);
    command.envs(rank.map(|rank| ("RANK", rank)));
    results(&client::ran(&mut command))
}

#[test]
fn chance_is_the_same_in_every_run_and_process_with_a_seed() {
    let rule = |seed: u32| format!("cuDeviceCanAccessPeer:p=20%:seed={seed}:error=INVALID_DEVICE");
    let first = chance(&rule(7), "4", 2000, None);
    assert_eq!(first.len(), 4);
    assert!(first.iter().all(|process| *process == first[0]), "every process sees the same");
    assert_eq!(chance(&rule(7), "1", 2000, None)[0], first[0], "and every run");
    let failed = first[0].iter().filter(|result| *result == "101").count();
    // Five standard deviations on either side.
    assert!((311..=489).contains(&failed), "{failed} of 2000 at 20%");
    let longest = first[0].chunk_by(|a, b| a == b).filter(|run| run[0] == "101").map(<[_]>::len).max();
    assert!((2..=9).contains(&longest.unwrap_or(0)), "a run of {longest:?} failures is not chance");
    let others = [chance(&rule(8), "1", 2000, None), chance(&rule(7), "1", 2000, Some("3"))];
    assert!(others.iter().all(|other| other[0] != first[0]), "another seed, another rank: another chance");
}

#[test]
fn chance_comes_after_when_and_before_times() {
    let all = &chance("cuDeviceCanAccessPeer:p=30%:seed=5:error=INVALID_DEVICE", "1", 400, None)[0];
    let some = "cuDeviceCanAccessPeer:p=30%:seed=5:when=11..300+3:times=20:error=INVALID_DEVICE";
    let mut left = 20;
    let model: Vec<&str> = (1..=400)
        .map(|n: usize| {
            let is_chosen = (11..=300).contains(&n) && (n - 11).is_multiple_of(3) && all[n - 1] == "101" && left > 0;
            left -= usize::from(is_chosen);
            if is_chosen { "101" } else { "0" }
        })
        .collect();
    assert_eq!(left, 0, "the rule is to reach its limit");
    assert_eq!(chance(some, "1", 400, None)[0], model);
}

#[test]
fn extremes_of_chance() {
    let failed = |p: &str| {
        let rule = format!("cuDeviceCanAccessPeer:p={p}:seed=1:error=INVALID_DEVICE");
        chance(&rule, "1", 1000, None)[0].iter().filter(|result| *result == "101").count()
    };
    assert_eq!((failed("100%"), failed("0.0000001%")), (1000, 0));
}

#[test]
fn contexts_and_ranks_count_for_themselves() {
    let rule = "cuDeviceCanAccessPeer:when=2:per=ctx:error=INVALID_DEVICE";
    assert_eq!(run(rule, &["turns", "1", "1", "cc1c0c1cc"]).first(), ["0", "101", "0", "0", "101", "0"]);
    let rule = "cuDeviceCanAccessPeer:when=3:per=rank:error=INVALID_DEVICE";
    let folder = temp_dir();
    let with_rank = |rank: &str| {
        let mut command = client::command(folder.path(), rule, &["turns", "2", "1", "cc"]);
        results(&client::ran(command.env("RANK", rank)))
    };
    // The two processes of a rank count together; those of another rank begin anew.
    assert_eq!(with_rank("0"), [["0", "0"], ["101", "0"]]);
    assert_eq!(with_rank("1"), [["0", "0"], ["101", "0"]]);
    assert_eq!(with_rank("0"), [["0", "0"], ["0", "0"]]);
}

/// Threads that come and go: each counts for itself, and none is one too many.
#[test]
fn a_rule_counts_by_thread_however_many_there_are() {
    const THREADS: usize = 6000;
    let plan = "cuDeviceCanAccessPeer:per=thread:when=2:error=INVALID_DEVICE";
    let ran = run(plan, &["turns", "1", &THREADS.to_string(), "cc"]);
    let hit = ran.lines.iter().filter(|(_, words)| words[..] == ["0", "101"]).count();
    assert_eq!((ran.done.stderr.as_str(), hit), ("", THREADS));
}
