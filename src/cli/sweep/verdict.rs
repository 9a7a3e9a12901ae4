//! What a run with a fault shows, beside the runs without.
//!
//! What belongs here: the verdicts, and which one a run gets. What was seen of the run is handed in.

use super::count::Counted;
use super::launch::{End, Ran};
use super::state::Baseline;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a fault does to the program.
#[derive(ValueEnum, Serialize, Deserialize, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The same status and output as without faults.
    Same,
    /// It ends with an error.
    Clean,
    /// The call was not made in this run.
    NotReached,
    /// A signal ends it.
    Crash,
    /// It does not end.
    Hang,
    /// It says that all is well, and the result is another.
    Wrong,
    /// Something stays open that is closed without faults.
    Leak,
    /// It goes on as if the call had succeeded, and breaks a rule.
    Misuse,
    /// Two runs with the same fault get different verdicts.
    NotRepeatable,
}

impl Verdict {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Same => "same",
            Verdict::Clean => "clean",
            Verdict::NotReached => "not reached",
            Verdict::Crash => "crash",
            Verdict::Hang => "hang",
            Verdict::Wrong => "wrong",
            Verdict::Leak => "leak",
            Verdict::Misuse => "misuse",
            Verdict::NotRepeatable => "not repeatable",
        }
    }

    /// Whether something is wrong with the program.
    pub fn is_bad(self) -> bool {
        !matches!(self, Verdict::Same | Verdict::Clean | Verdict::NotReached)
    }
}

/// A verdict, and what it rests on.
#[derive(Serialize, Deserialize, Clone, PartialEq, Eq, Debug)]
pub struct Judged {
    /// The verdict.
    pub verdict: Verdict,
    /// What was seen, without a full stop.
    pub seen: String,
}

impl Judged {
    fn new(verdict: Verdict, seen: impl Into<String>) -> Judged {
        Judged { verdict, seen: seen.into() }
    }
}

/// Signals by which a shell or another parent says, in an exit status, that a child crashed.
const CRASHES: [i32; 5] = [libc::SIGSEGV, libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// The verdict on a run. `right` is what the user's own command says of its output, where there is one.
pub fn judge(baseline: &Baseline, ran: &Ran, counted: &Counted, right: Option<bool>) -> Judged {
    let judged = judge_run(baseline, ran, counted, right);
    match (counted.fired, judged.verdict) {
        (false, Verdict::Same) => Judged::new(Verdict::NotReached, "the call was not made in this run"),
        (false, _) => Judged::new(Verdict::NotRepeatable, format!("without the fault: {}", judged.seen)),
        _ => judged,
    }
}

fn judge_run(baseline: &Baseline, ran: &Ran, counted: &Counted, right: Option<bool>) -> Judged {
    match ran.end {
        End::TimedOut => {
            let place = counted.pending.first();
            let place = place.map_or("outside recorded calls".to_owned(), |call| format!("in {call}"));
            return Judged::new(Verdict::Hang, format!("did not end, {place}"));
        }
        End::Killed(signal) if ran.end != baseline.end => {
            return Judged::new(Verdict::Crash, format!("killed by {}", signal_name(signal)));
        }
        End::Exited(code) if ran.end != baseline.end => {
            if let Some(signal) = CRASHES.into_iter().find(|signal| i32::from(code) == 128 + signal) {
                let name = signal_name(signal);
                return Judged::new(
                    Verdict::Crash,
                    format!("a process was killed by {name} (status {code})"),
                );
            }
        }
        _ => {}
    }
    if ran.left_over > baseline.left_over {
        let seen = format!("the program ended, but {} of its processes did not", ran.left_over);
        return Judged::new(Verdict::Hang, seen);
    }
    let ended = match ran.end {
        End::Exited(0) if baseline.end != End::Exited(0) => {
            return Judged::new(Verdict::Wrong, "exits 0, unlike the run without faults");
        }
        end => ended(end, ran.said.as_deref()),
    };
    if ran.end == baseline.end {
        match right {
            Some(false) => {
                return Judged::new(Verdict::Wrong, format!("{ended}, but --compare rejects the result"));
            }
            None if baseline.is_comparable && ran.output != baseline.output => {
                return Judged::new(Verdict::Wrong, format!("{ended}, with different output"));
            }
            _ => {}
        }
    }
    if let Some(left) = more(&counted.open, &baseline.open) {
        return Judged::new(Verdict::Leak, format!("{ended}; left open: {left}"));
    }
    if ran.shm.len() > baseline.shm.len() {
        return Judged::new(Verdict::Leak, format!("{ended}; left in /dev/shm: {}", ran.shm.join(", ")));
    }
    if let Some(broken) = counted.broken.iter().find(|rule| !baseline.broken.contains(*rule)) {
        return Judged::new(Verdict::Misuse, format!("{ended}; breaks {broken}"));
    }
    if ran.end == baseline.end {
        Judged::new(Verdict::Same, ended)
    } else {
        Judged::new(Verdict::Clean, ended)
    }
}

/// How it ended, in words.
fn ended(end: End, said: Option<&str>) -> String {
    match (end, said) {
        (End::Exited(0), _) => "status 0".to_owned(),
        (End::Exited(code), Some(said)) => format!("status {code}: {said}"),
        (End::Exited(code), None) => format!("status {code}, without a message"),
        (End::Killed(_) | End::TimedOut, _) => "ends as it does without faults".to_owned(),
    }
}

/// What there is more of than without faults.
fn more(open: &BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> Option<String> {
    let more = open.iter().filter(|(what, count)| **count > before.get(*what).copied().unwrap_or(0));
    let more: Vec<&str> = more.map(|(what, _)| what.as_str()).collect();
    (!more.is_empty()).then(|| more.join(", "))
}

/// The verdict on the runs without faults: something may be wrong already.
pub fn judge_baseline(baseline: &Baseline) -> Option<Judged> {
    match baseline.end {
        End::TimedOut => return Some(Judged::new(Verdict::Hang, "does not end")),
        End::Killed(signal) => {
            return Some(Judged::new(Verdict::Crash, format!("killed by {}", signal_name(signal))));
        }
        End::Exited(1..) => {
            return Some(Judged::new(Verdict::Wrong, ended(baseline.end, baseline.said.as_deref())));
        }
        End::Exited(0) => {}
    }
    if baseline.left_over > 0 {
        let seen = format!("the program ended, but {} of its processes did not", baseline.left_over);
        return Some(Judged::new(Verdict::Hang, seen));
    }
    if let Some(left) = more(&baseline.open, &BTreeMap::new()) {
        return Some(Judged::new(Verdict::Leak, format!("left open: {left}")));
    }
    if !baseline.shm.is_empty() {
        return Some(Judged::new(Verdict::Leak, format!("left in /dev/shm: {}", baseline.shm.join(", "))));
    }
    baseline.broken.first().map(|broken| Judged::new(Verdict::Misuse, format!("breaks {broken}")))
}

/// The name of a signal, as `kill -l` has it.
pub fn signal_name(signal: i32) -> String {
    const NAMES: [(i32, &str); 12] = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGTERM, "SIGTERM"),
    ];
    let name = NAMES.iter().find(|(number, _)| *number == signal);
    name.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::time::Duration;

    fn baseline() -> Baseline {
        Baseline {
            end: End::Exited(0),
            output: (1, 10),
            said: None,
            is_comparable: true,
            open: BTreeMap::from([("peer access (app+0x1)".to_owned(), 1)]),
            shm: Vec::new(),
            left_over: 0,
            broken: ["ipc-flags at f".to_owned()].into(),
            time: Duration::ZERO,
            cost: Duration::ZERO,
            processes: 1,
            places: Vec::new(),
            has_programs: false,
            notes: Vec::new(),
        }
    }

    fn ran(end: End) -> Ran {
        Ran {
            end,
            output: (1, 10),
            said: None,
            left_over: 0,
            shm: Vec::new(),
            time: Duration::ZERO,
            directory: "/nowhere".into(),
        }
    }

    /// A call failed, and what is open and broken without faults is so now.
    fn counted() -> Counted {
        let Baseline { open, broken, .. } = baseline();
        Counted { fired: true, open, broken, ..Counted::default() }
    }

    #[track_caller]
    fn assert_judged(ran: &Ran, counted: &Counted, wanted: (Verdict, &str)) {
        let judged = judge(&baseline(), ran, counted, None);
        assert_eq!((judged.verdict, judged.seen.as_str()), wanted);
    }

    #[test]
    fn how_it_ends_comes_first() {
        use Verdict::*;
        let pending = Counted { pending: vec!["cuIpcOpenMemHandle_v2".into()], ..counted() };
        assert_judged(&ran(End::Exited(0)), &counted(), (Same, "status 0"));
        assert_judged(&ran(End::Exited(3)), &counted(), (Clean, "status 3, without a message"));
        let said = Ran { said: Some("no peer".into()), ..ran(End::Exited(3)) };
        assert_judged(&said, &counted(), (Clean, "status 3: no peer"));
        assert_judged(&ran(End::Killed(libc::SIGSEGV)), &counted(), (Crash, "killed by SIGSEGV"));
        let by_child = "a process was killed by SIGABRT (status 134)";
        assert_judged(&ran(End::Exited(134)), &counted(), (Crash, by_child));
        assert_judged(&ran(End::TimedOut), &pending, (Hang, "did not end, in cuIpcOpenMemHandle_v2"));
        let left = Ran { left_over: 2, ..ran(End::Exited(1)) };
        assert_judged(&left, &counted(), (Hang, "the program ended, but 2 of its processes did not"));
        let always = Baseline { left_over: 2, ..baseline() };
        assert_eq!(judge(&always, &left, &counted(), None).verdict, Clean, "as without faults");
    }

    #[test]
    fn what_is_wrong_is_more_than_without_faults() {
        use Verdict::*;
        let other = Ran { output: (2, 10), ..ran(End::Exited(0)) };
        assert_judged(&other, &counted(), (Wrong, "status 0, with different output"));
        let other = Ran { output: (2, 10), ..ran(End::Exited(1)) };
        assert_judged(&other, &counted(), (Clean, "status 1, without a message"));
        let mut open = counted();
        open.open.insert("memory of another process (app+0x2)".into(), 1);
        let left = "status 0; left open: memory of another process (app+0x2)";
        assert_judged(&ran(End::Exited(0)), &open, (Leak, left));
        let shm = Ran { shm: vec!["x".into()], ..ran(End::Exited(1)) };
        assert_judged(&shm, &counted(), (Leak, "status 1, without a message; left in /dev/shm: x"));
        let mut broken = counted();
        broken.broken.insert("peer-not-enabled at g".into());
        assert_judged(&ran(End::Exited(0)), &broken, (Misuse, "status 0; breaks peer-not-enabled at g"));
    }

    #[test]
    fn the_users_own_word_replaces_the_comparison() {
        let other = Ran { output: (2, 10), ..ran(End::Exited(0)) };
        let verdict = |right| judge(&baseline(), &other, &counted(), right).verdict;
        assert_eq!(
            [None, Some(false), Some(true)].map(verdict),
            [Verdict::Wrong, Verdict::Wrong, Verdict::Same]
        );
    }

    #[test]
    fn a_call_that_is_not_made_says_nothing_of_the_program() {
        let without = Counted { fired: false, ..counted() };
        let not_made = "the call was not made in this run";
        assert_judged(&ran(End::Exited(0)), &without, (Verdict::NotReached, not_made));
        let seen = "without the fault: killed by SIGSEGV";
        assert_judged(&ran(End::Killed(libc::SIGSEGV)), &without, (Verdict::NotRepeatable, seen));
    }

    #[test]
    fn the_program_itself_may_be_wrong() {
        let clean = Baseline { open: BTreeMap::new(), broken: BTreeSet::new(), ..baseline() };
        assert_eq!(judge_baseline(&clean), None);
        let verdict = |baseline: Baseline| judge_baseline(&baseline).map(|judged| judged.verdict);
        assert_eq!(verdict(Baseline { end: End::TimedOut, ..clean.clone() }), Some(Verdict::Hang));
        assert_eq!(verdict(Baseline { end: End::Killed(11), ..clean.clone() }), Some(Verdict::Crash));
        assert_eq!(verdict(Baseline { end: End::Exited(3), ..clean.clone() }), Some(Verdict::Wrong));
        assert_eq!(verdict(Baseline { left_over: 1, ..clean.clone() }), Some(Verdict::Hang));
        assert_eq!(verdict(Baseline { shm: vec!["x".into()], ..clean.clone() }), Some(Verdict::Leak));
        assert_eq!(verdict(Baseline { broken: baseline().broken, ..clean }), Some(Verdict::Misuse));
        assert_eq!(verdict(baseline()), Some(Verdict::Leak));
    }
}
