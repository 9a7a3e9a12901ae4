//! The verdict on a run with a fault, compared with the runs without.
//!
//! What belongs here: the verdicts, and which one a run gets. What was seen of the run is handed in.

use super::baseline::Baseline;
use super::count::RunObservations;
use super::launch::{RunEnd, RunResult};
pub use crate::args::Verdict;
use cupeer_report::names::signal_name;
use std::collections::BTreeMap;

/// A verdict with the observation that it is based on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct JudgedRun {
    pub verdict: Verdict,
    /// The observation, a sentence without a final period.
    pub seen: String,
}

/// Signals that mean a crash of a child if a shell or another parent reports them in its exit status.
const CRASH_SIGNALS: [i32; 5] = [libc::SIGSEGV, libc::SIGABRT, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// Returns the verdict on a run. `right` is the result of the user's --compare command, if any.
pub fn judge_trial(baseline: &Baseline, ran: &RunResult, counted: &RunObservations, right: Option<bool>) -> JudgedRun {
    let (verdict, seen) = judge_run(baseline, ran, counted, right);
    let (verdict, seen) = match (counted.fired, verdict) {
        (true, _) => (verdict, seen),
        (false, Verdict::Same) => (Verdict::NotReached, "the call was not made in this run".into()),
        (false, _) => (Verdict::NotRepeatable, format!("without the fault: {seen}")),
    };
    JudgedRun { verdict, seen }
}

fn judge_run(
    Baseline { ran: before, counted: usual, is_comparable, .. }: &Baseline,
    ran: &RunResult,
    counted: &RunObservations,
    right: Option<bool>,
) -> (Verdict, String) {
    let is_alike = ran.end == before.end;
    match ran.end {
        RunEnd::TimedOut => {
            let place = counted.pending.first();
            let place = place.map_or("outside recorded calls".to_owned(), |call| format!("in {call}"));
            return (Verdict::Hang, format!("did not end, {place}"));
        }
        RunEnd::Killed(signal) if !is_alike => return crash_verdict(signal),
        RunEnd::Exited(code) if !is_alike => {
            if let Some(signal) = CRASH_SIGNALS.into_iter().find(|signal| i32::from(code) == 128 + signal) {
                let name = signal_name(signal);
                return (Verdict::Crash, format!("a process was killed by {name} (status {code})"));
            }
        }
        _ => {}
    }
    if ran.leftover_processes > before.leftover_processes {
        return hang_verdict(ran);
    }
    if ran.end == RunEnd::Exited(0) && !is_alike {
        return (Verdict::Wrong, "exits 0, unlike the run without faults".into());
    }
    let ended = describe_end(ran);
    match right {
        Some(false) if is_alike => {
            return (Verdict::Wrong, format!("{ended}, but --compare rejects the result"));
        }
        None if is_alike && *is_comparable && ran.output != before.output => {
            return (Verdict::Wrong, format!("{ended}, with different output"));
        }
        _ => {}
    }
    let mut left = objects_beyond(&counted.open, &usual.open);
    if left.is_empty() {
        left = objects_beyond(&counted.held, &usual.held);
    }
    // When a failing program ends, the system releases its objects. A program that cleans up must release all of them.
    let is_over = |what: &&String| is_alike || counted.forgotten.contains(*what);
    let forgotten: Vec<&str> = left.iter().copied().filter(is_over).map(String::as_str).collect();
    if !forgotten.is_empty() {
        return (Verdict::Leak, format!("{ended}; left open: {}", forgotten.join(", ")));
    }
    if let Some(broken) = counted.broken.difference(&usual.broken).next() {
        return (Verdict::Misuse, format!("{ended}; breaks {broken}"));
    }
    if is_alike {
        return (Verdict::Same, ended);
    }
    let taken_back: Vec<&str> = counted.reclaimed_objects(left.into_iter()).collect();
    match taken_back.is_empty() {
        true => (Verdict::Clean, ended),
        false => (Verdict::Clean, format!("{ended}; the system takes back: {}", taken_back.join(", "))),
    }
}

fn crash_verdict(signal: i32) -> (Verdict, String) {
    (Verdict::Crash, format!("killed by {}", signal_name(signal)))
}

fn hang_verdict(ran: &RunResult) -> (Verdict, String) {
    (Verdict::Hang, format!("the program ended, but {} of its processes did not", ran.leftover_processes))
}

fn describe_end(ran: &RunResult) -> String {
    match (ran.end, &ran.stderr_line) {
        (RunEnd::Exited(0), _) => "status 0".to_owned(),
        (RunEnd::Exited(code), Some(said)) => format!("status {code}: {said}"),
        (RunEnd::Exited(code), None) => format!("status {code}, without a message"),
        (RunEnd::Killed(_) | RunEnd::TimedOut, _) => "ends as it does without faults".to_owned(),
    }
}

/// Returns the objects of which more are open than without faults.
fn objects_beyond<'a>(open: &'a BTreeMap<String, u64>, before: &BTreeMap<String, u64>) -> Vec<&'a String> {
    let is_more = |(what, count): &(&String, &u64)| **count > before.get(*what).copied().unwrap_or(0);
    open.iter().filter(is_more).map(|(what, _)| what).collect()
}

/// Returns the verdict on the program without faults, if something is wrong already.
pub fn judge_baseline(Baseline { ran, counted, .. }: &Baseline) -> Option<JudgedRun> {
    let (verdict, seen) = match ran.end {
        RunEnd::TimedOut => (Verdict::Hang, "does not end".into()),
        RunEnd::Killed(signal) => crash_verdict(signal),
        RunEnd::Exited(1..) => (Verdict::Wrong, describe_end(ran)),
        RunEnd::Exited(0) if ran.leftover_processes > 0 => hang_verdict(ran),
        RunEnd::Exited(0) => {
            let is_forgotten = |what: &&str| counted.forgotten.contains(*what);
            let left: Vec<&str> = counted.open.keys().map(String::as_str).filter(is_forgotten).collect();
            match counted.broken.first() {
                _ if !left.is_empty() => (Verdict::Leak, format!("left open: {}", left.join(", "))),
                broken => (Verdict::Misuse, format!("breaks {}", broken?)),
            }
        }
    };
    Some(JudgedRun { verdict, seen })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn baseline() -> Baseline {
        let open = BTreeMap::from([("peer access (app+0x1)".to_owned(), 1)]);
        let broken = ["ipc-flags at f".to_owned()].into();
        Baseline {
            ran: ran(RunEnd::Exited(0)),
            counted: RunObservations { processes: 1, open, broken, ..RunObservations::default() },
            is_comparable: true,
            cost: Duration::ZERO,
            places: Vec::new(),
            has_programs: false,
            notes: Vec::new(),
        }
    }

    fn ran(end: RunEnd) -> RunResult {
        let (output, time, directory) = ((1, 10), Duration::ZERO, "/nowhere".into());
        RunResult { end, output, stderr_line: None, leftover_processes: 0, time, directory }
    }

    /// A call failed, and what is open and broken without faults is so now.
    fn counted() -> RunObservations {
        RunObservations { fired: true, ..baseline().counted }
    }

    #[track_caller]
    fn assert_judged(ran: &RunResult, counted: &RunObservations, wanted: (Verdict, &str)) {
        let judged = judge_trial(&baseline(), ran, counted, None);
        assert_eq!((judged.verdict, judged.seen.as_str()), wanted);
    }

    #[test]
    fn the_end_is_judged_first() {
        use Verdict::*;
        let pending = RunObservations { pending: vec!["cuIpcOpenMemHandle_v2".into()], ..counted() };
        assert_judged(&ran(RunEnd::Exited(0)), &counted(), (Same, "status 0"));
        assert_judged(&ran(RunEnd::Exited(3)), &counted(), (Clean, "status 3, without a message"));
        let said = RunResult { stderr_line: Some("no peer".into()), ..ran(RunEnd::Exited(3)) };
        assert_judged(&said, &counted(), (Clean, "status 3: no peer"));
        assert_judged(&ran(RunEnd::Killed(libc::SIGSEGV)), &counted(), (Crash, "killed by SIGSEGV"));
        let by_child = "a process was killed by SIGABRT (status 134)";
        assert_judged(&ran(RunEnd::Exited(134)), &counted(), (Crash, by_child));
        assert_judged(&ran(RunEnd::TimedOut), &pending, (Hang, "did not end, in cuIpcOpenMemHandle_v2"));
        let left = RunResult { leftover_processes: 2, ..ran(RunEnd::Exited(1)) };
        assert_judged(&left, &counted(), (Hang, "the program ended, but 2 of its processes did not"));
        let always = Baseline { ran: RunResult { leftover_processes: 2, ..ran(RunEnd::Exited(0)) }, ..baseline() };
        assert_eq!(judge_trial(&always, &left, &counted(), None).verdict, Clean, "as without faults");
    }

    #[test]
    fn only_more_than_without_faults_is_wrong() {
        use Verdict::*;
        let other = RunResult { output: (2, 10), ..ran(RunEnd::Exited(0)) };
        assert_judged(&other, &counted(), (Wrong, "status 0, with different output"));
        let other = RunResult { output: (2, 10), ..ran(RunEnd::Exited(1)) };
        assert_judged(&other, &counted(), (Clean, "status 1, without a message"));
        let mut open = counted();
        open.open.insert("memory of another process (app+0x2)".into(), 1);
        let left = "status 0; left open: memory of another process (app+0x2)";
        assert_judged(&ran(RunEnd::Exited(0)), &open, (Leak, left));
        let mut held = counted();
        held.held.insert("mapping (app+0x2)".into(), 1);
        let left = "status 0; left open: mapping (app+0x2)";
        assert_judged(&ran(RunEnd::Exited(0)), &held, (Leak, left));
        // A program that fails may leave that to the system, but not if it begins to clean up.
        let taken = "status 1, without a message; the system takes back: mapping (app+0x2)";
        assert_judged(&ran(RunEnd::Exited(1)), &held, (Clean, taken));
        held.forgotten.insert("mapping (app+0x2)".into());
        let left = "status 1, without a message; left open: mapping (app+0x2)";
        assert_judged(&ran(RunEnd::Exited(1)), &held, (Leak, left));
        let mut broken = counted();
        broken.broken.insert("peer-not-enabled at g".into());
        assert_judged(&ran(RunEnd::Exited(0)), &broken, (Misuse, "status 0; breaks peer-not-enabled at g"));
    }

    #[test]
    fn the_users_own_word_replaces_the_comparison() {
        let other = RunResult { output: (2, 10), ..ran(RunEnd::Exited(0)) };
        let verdict = |right| judge_trial(&baseline(), &other, &counted(), right).verdict;
        assert_eq!([None, Some(false), Some(true)].map(verdict), [Verdict::Wrong, Verdict::Wrong, Verdict::Same]);
    }

    #[test]
    fn a_call_that_is_not_made_says_nothing_of_the_program() {
        let without = RunObservations { fired: false, ..counted() };
        let not_made = "the call was not made in this run";
        assert_judged(&ran(RunEnd::Exited(0)), &without, (Verdict::NotReached, not_made));
        let seen = "without the fault: killed by SIGSEGV";
        assert_judged(&ran(RunEnd::Killed(libc::SIGSEGV)), &without, (Verdict::NotRepeatable, seen));
    }

    #[test]
    fn the_program_itself_may_be_wrong() {
        let verdict = |ran: RunResult, counted: RunObservations| {
            judge_baseline(&Baseline { ran, counted, ..baseline() }).map(|judged| judged.verdict)
        };
        let well = || ran(RunEnd::Exited(0));
        for (ran, wanted) in [
            (well(), None),
            (ran(RunEnd::TimedOut), Some(Verdict::Hang)),
            (ran(RunEnd::Killed(11)), Some(Verdict::Crash)),
            (ran(RunEnd::Exited(3)), Some(Verdict::Wrong)),
            (RunResult { leftover_processes: 1, ..well() }, Some(Verdict::Hang)),
        ] {
            assert_eq!(verdict(ran, RunObservations::default()), wanted);
        }
        let counted = baseline().counted;
        // Its own memory, many a program leaves to its end.
        let held = RunObservations {
            open: BTreeMap::new(),
            broken: std::collections::BTreeSet::new(),
            held: BTreeMap::from([("mapping".into(), 1)]),
            ..counted.clone()
        };
        let baseline_held = Baseline { ran: well(), counted: held, ..baseline() };
        assert_eq!(judge_baseline(&baseline_held).map(|judged| judged.verdict), None);
        assert_eq!(verdict(well(), counted.clone()), Some(Verdict::Misuse), "it just ends");
        let right = RunObservations { broken: Default::default(), ..counted.clone() };
        assert_eq!(verdict(well(), right), None);
        let forgotten = counted.open.keys().cloned().collect();
        assert_eq!(verdict(well(), RunObservations { forgotten, ..counted }), Some(Verdict::Leak));
    }
}
