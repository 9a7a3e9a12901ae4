//! Contents of a ring: only calls of its threads, each as it was made, with a gap only where a whole block was overwritten.

use super::recording;
use crate::programs::{Scene, linked, mark_of, open_job, recorded};
use crate::support::{self, rounds, stdout};
use cupeer_record::{Call, Event, Follower, Job, Outcome, Process};
use cupeer_spec::env;
use cupeer_spec::function::FnId;
use cupeer_spec::record::{BLOCK, SLOTS, first_ring_number};
use std::collections::{BTreeMap, HashSet};
use std::process::Stdio;
use std::time::Duration;

/// Slots that one thread left in a block are not calls of the next thread with that block, even if both made equally many.
#[test]
fn old_calls_in_a_block_of_a_ring_belong_to_nobody() {
    const BLOCKS: u64 = (1 << 20) / BLOCK as u64 - 1;
    const FIRST: u64 = BLOCKS * SLOTS as u64 - 500;
    for second in [5, 3000] {
        let folder = support::temp_dir();
        let record = folder.path().join("record");
        let scene = Scene::new(linked("followed.c", &[])).args(&[&FIRST.to_string(), &second.to_string()]);
        assert_eq!(stdout(recording(&scene, &record).env(env::RECORD, "ring:1M")), "done\n");
        let job = open_job(&record);
        let calls = recorded(&job.processes[0]);
        let of = |stream| calls.iter().filter(move |call| call.stream == stream).filter_map(mark_of);
        assert_eq!(of(1).collect::<Vec<_>>(), (FIRST + 1..=FIRST + second).collect::<Vec<_>>());
        // All calls of the first thread are left, except those in blocks that the second thread took.
        let taken = second.div_ceil(SLOTS as u64) * SLOTS as u64;
        assert_eq!(of(0).next_back(), Some(FIRST));
        assert!(of(0).count() as u64 >= FIRST - taken, "{}", of(0).count());
    }
}

/// By default, a file has a limit; with `full`, it has none.
#[test]
fn the_default_record_has_a_limit() {
    let folder = support::temp_dir();
    for (mode, blocks) in
        [(None, (256 << 20) / BLOCK as u64), (Some("auto"), (256 << 20) / BLOCK as u64), (Some("full"), 0)]
    {
        let record = folder.path().join(mode.unwrap_or("default"));
        let scene = Scene::new(linked("followed.c", &[])).args(&["10", "5"]);
        let mut command = recording(&scene, &record);
        match mode {
            Some(mode) => command.env(env::RECORD, mode),
            None => command.env_remove(env::RECORD),
        };
        assert_eq!(stdout(&mut command), "done\n");
        let process = &open_job(&record).processes[0];
        assert_eq!((process.header.ring_blocks, process.reached_limit()), (blocks, None), "{mode:?}");
    }
}

/// Behind the marks for which the fake driver fails.
const BEFORE: &str = "1000000";

/// A record that may have a size keeps what was called first, and what was called last, and never exceeds the size.
#[test]
fn at_its_limit_a_record_keeps_the_first_calls_and_the_last() {
    const LIMIT: u64 = 4 << 20;
    let before: u64 = BEFORE.parse().expect("a number");
    const HALF: u64 = LIMIT / BLOCK as u64 / 2;
    let folder = support::temp_dir();
    for (calls, is_full) in [(24 * SLOTS as u64, true), (120_000, false)] {
        let record = folder.path().join(calls.to_string());
        let scene = Scene::new(linked("followed.c", &[])).args(&[&calls.to_string(), "5", BEFORE]);
        assert_eq!(stdout(recording(&scene, &record).env(env::RECORD, "full:4M")), "done\n");
        let job = open_job(&record);
        let process = &job.processes[0];
        assert_eq!((process.has_overwritten(), process.header.lost), (!is_full, 0));
        assert_eq!(process.reached_limit(), (!is_full).then_some(LIMIT));
        assert_eq!(process.header.ring_blocks, LIMIT / BLOCK as u64);
        let size = process.path.metadata().expect("it is there").len();
        assert!(size <= LIMIT && (is_full || size > LIMIT * 3 / 4), "{size}");
        let all = recorded(process);
        let marks = all.iter().filter(|call| call.stream == 0).filter_map(mark_of);
        let marks: Vec<u64> = marks.map(|mark| mark - before).collect();
        let gaps: Vec<_> = marks.windows(2).filter(|pair| pair[1] != pair[0] + 1).collect();
        assert_eq!((marks[0], marks[marks.len() - 1], gaps.len()), (1, calls, usize::from(!is_full)));
        if let [gap] = gaps[..] {
            let each = SLOTS as u64 - 16;
            assert!(gap[0] >= HALF * each && calls - gap[1] >= 7 * each, "{gap:?}");
        }
        assert_eq!(all.iter().filter(|call| call.stream == 1).count(), 5);
        let mut follower = Follower::new(process).expect("it can be read");
        follower.look(usize::MAX).expect("it can be read");
        assert_eq!((follower.is_complete(), follower.counts().calls), (is_full, all.len() as u64));
    }
}

/// The lines after a run, and the report in each form.
#[test]
fn that_a_record_reached_its_limit_is_said() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let sentence = "1 process reached the limit of 1MiB for a recording, which has the first calls, the last calls, and everything \
                    still open";
    let mut run = support::with(&["run", "--record", "full:1M", "--check=off", "--out"]);
    run.arg(&record).arg("--").arg(linked("followed.c", &[])).args(["30000", "5", BEFORE]);
    run.env("LD_LIBRARY_PATH", crate::programs::driver());
    let ended = support::done(&mut run);
    assert_eq!(ended.stdout, "done\n", "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!("{sentence}; --record full keeps all calls\n")), "{}", ended.stderr);
    let report = |form: &str| stdout(support::with(&["report", "--format", form]).arg(&record).env("COLUMNS", "250"));
    let json: serde_json::Value = serde_json::from_str(&report("json")).expect("JSON");
    let process = &json["processes"][0];
    assert_eq!((&process["mode"], &process["reached_limit"]), (&"ring".into(), &(1 << 20).into()));
    assert_eq!(json["record"]["dropped"], true);
    let text = report("text");
    assert!(text.contains(&format!("LIMIT      {sentence}\n")), "{text}");
    assert!(!text.contains("keeps the last events") && text.contains("the first and the last "), "{text}");
}

/// A child has a record of its own, with the same limit. What is open at the end is known, wherever its opening was.
#[test]
fn at_its_limit_a_record_knows_what_is_open_in_each_process() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let words =
        ["ask:12000", "open:90000", "fork", "ask:12000", "open:91000", "open:92000", "ask:30000", "close:92000"];
    let scene = Scene::new(linked("shared.c", &[])).args(&words);
    assert_eq!(stdout(recording(&scene, &record).env(env::RECORD, "full:1M")), "");
    let job = open_job(&record);
    assert_eq!(job.processes.len(), 2);
    for process in &job.processes {
        assert_eq!((process.reached_limit(), process.header.lost), (Some(1 << 20), 0));
        // So small a file holds a few chunks more.
        let size = process.path.metadata().expect("it is there").len();
        assert!(size <= (1 << 20) + 4 * BLOCK as u64, "{size}");
        let is_opening = |call: &Call| call.function == Some(FnId::cuIpcOpenMemHandle_v2);
        assert!(!recorded(process).iter().any(is_opening), "they are in the part that is overwritten");
    }
    let mut report = support::cupeer();
    let report = stdout(report.args(["report", "--format", "json"]).arg(&record));
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    let open = report["handles"].as_array().expect("handles").iter();
    let mut open: Vec<usize> = open.map(|handle| handle["opens"].as_array().map_or(0, Vec::len)).collect();
    open.sort_unstable();
    // One by the parent alone, before the fork, and one by both.
    assert_eq!(open, [1, 2], "{:#}", report["handles"]);
}

/// The calls of a record that is written to, and whether it has a problem.
fn seen(process: &Process) -> (Vec<Call>, bool) {
    let mut events = process.events().expect("it can be read");
    let calls = events.by_ref().filter_map(|event| if let Event::Call(call) = event { Some(call) } else { None });
    (calls.collect(), events.first_error().is_some())
}

/// A follower of such a recording counts each call once.
#[test]
fn at_its_limit_a_record_is_followed() {
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let scene = Scene::new(linked("followed.c", &[])).args(&["90000", "5", BEFORE]);
    let mut command = recording(&scene, &record);
    let mut child =
        command.env(env::RECORD, "full:1M").stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs");
    let is_there = || Job::open(&record).is_ok_and(|job| !job.processes.is_empty());
    support::wait_for("the recording", is_there);
    let mut follower = Follower::new(&open_job(&record).processes[0]).expect("it can be read");
    let mut last = 0;
    while child.try_wait().expect("its state").is_none() {
        follower.look(usize::MAX).expect("it can be read");
        assert!(follower.counts().calls >= last, "{} of {last}", follower.counts().calls);
        last = follower.counts().calls;
        // A reader from the begin has each call once, and knows if there may be more.
        for process in &open_job(&record).processes {
            let (calls, has_problem) = seen(process);
            let marks: Vec<u64> = calls.iter().filter(|call| call.stream == 0).filter_map(mark_of).collect();
            assert!(marks.windows(2).all(|pair| pair[0] < pair[1]), "{marks:?}");
            let has_gap = marks.windows(2).any(|pair| pair[0] + 1 < pair[1]);
            assert!(!has_gap || process.has_overwritten() || has_problem, "{}", marks.len());
        }
    }
    follower.look(usize::MAX).expect("it can be read");
    let counted = follower.counts().calls;
    assert!(counted <= 90_005 && counted >= last, "{counted}");
    assert!(!follower.is_complete());
    assert_eq!(follower.unreturned().count(), 0);
}

#[test]
fn followers_of_a_ring_know_whether_they_saw_all_of_it() {
    for (first, is_complete) in [(100, true), (20_000, false)] {
        let folder = support::temp_dir();
        let record = folder.path().join("record");
        let scene = Scene::new(linked("followed.c", &[])).args(&[&first.to_string(), "5"]);
        assert_eq!(stdout(recording(&scene, &record).env(env::RECORD, "ring:1M")), "done\n");
        let mut follower = Follower::new(&open_job(&record).processes[0]).expect("it can be read");
        follower.look(usize::MAX).expect("it can be read");
        assert_eq!(follower.is_complete(), is_complete);
        let counted = follower.counts().calls;
        assert!(if is_complete { counted == first + 5 } else { counted < first }, "{counted} of {first}");
    }
}

/// The marks of whirl.c.
const HANDLER: u64 = 1 << 27;
const THREAD: u32 = 17;

/// The most interrupting calls among which the details of a call are searched.
const HELD: usize = 8;

/// Returns the number of calls by handlers between the first of these calls and the next one of its thread.
fn interrupting(calls: &[Call]) -> usize {
    let of_stream = calls.iter().filter(|call| call.stream == calls[0].stream).skip(1);
    of_stream.take_while(|call| mark_of(call).is_some_and(|mark| mark & HANDLER != 0)).count()
}

/// Returns true if the details of a call may have been in a block that was overwritten before the block of the call.
fn ends_block(call: &Call) -> bool {
    (call.seq - first_ring_number(call.stream)) % SLOTS as u64 >= SLOTS as u64 - 16
}

/// Runs whirl.c, reads its record meanwhile and at its end, and compares.
fn assert_whirl(mode: &str, seed: u32, [threads, at_once, calls, period]: [u32; 4]) {
    let which = format!("{mode}, seed {seed}, {threads} {at_once} {calls} {period}");
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let numbers = [seed, threads, at_once, calls, period].map(|number| number.to_string());
    let scene = Scene::new(linked("whirl.c", &[])).args(&numbers.each_ref().map(|number| &number[..]));
    let mut command = recording(&scene, &record);
    let child = command.env(env::RECORD, mode).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.expect("it runs");
    let mut meanwhile = Vec::new();
    while child.try_wait().expect("its state").is_none() {
        if meanwhile.len() < 10
            && let Ok(job) = Job::open(&record)
            && let Some(process) = job.processes.first()
        {
            // One that reaches its limit meanwhile says that events are missing.
            meanwhile.push(if mode.starts_with("full:") { seen(process).0 } else { recorded(process) });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().expect("what it says");
    let printed = String::from_utf8(output.stdout).expect("numbers");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{which}: {printed}{said}");
    let mut counts = BTreeMap::new();
    for (thread, line) in (1..).zip(printed.lines()) {
        for (kind, count) in [0, HANDLER].into_iter().zip(line.split(' ')) {
            counts.insert(kind | thread << THREAD, count.parse().expect("a number"));
        }
    }
    for calls in &meanwhile {
        made_by(&which, &counts, calls);
    }

    let job = open_job(&record);
    assert_eq!(job.processes[0].header.lost, 0, "{which}");
    let all = recorded(&job.processes[0]);
    for (i, call) in all.iter().enumerate() {
        // The end of one that handlers have interrupted for longer than a block may be overwritten.
        let may_lack_end = mode.starts_with("full:") && call.outcome == Outcome::Pending;
        assert!(call.outcome == Outcome::Returned(0) || may_lack_end, "{which}: {call:?}");
        // If a call of a handler hid the caller of another one, the frames have no start.
        let may_lack_them =
            || call.caller == 0 || interrupting(&all[i..]) >= HELD || mode != "full" && ends_block(call);
        let has_frames = !call.details.frames.is_empty();
        assert!(has_frames || !wants_frames(call) || may_lack_them(), "{which}: {call:?}");
    }
    for (whose, recorded) in made_by(&which, &counts, &all) {
        for pair in recorded.windows(2) {
            let [(before, first), (after, second)] = pair else { continue };
            let is_overwritten = mode != "full" && second.seq - first.seq > SLOTS as u64;
            assert!(*after == before + 1 || is_overwritten, "{which}: {first:?} {second:?}");
        }
        assert!(mode != "full" || recorded.len() as u64 == counts[&whose], "{which}");
    }
}

/// Returns true if the recording has details of a call of whirl.c.
fn wants_frames(call: &Call) -> bool {
    mark_of(call).is_some_and(|mark| mark.is_multiple_of(8))
}

/// The calls of each thread and of its handlers, which must be theirs, by the numbers that they have there.
fn made_by<'a>(which: &str, counts: &BTreeMap<u64, u64>, all: &'a [Call]) -> BTreeMap<u64, Vec<(u64, &'a Call)>> {
    let mut made: BTreeMap<u64, Vec<(u64, &Call)>> = BTreeMap::new();
    let mut streams: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
    for call in all {
        let Some(mark) = mark_of(call) else { panic!("{which}: without a mark: {call:?}") };
        let (whose, number) = (mark >> THREAD << THREAD, mark & ((1 << THREAD) - 1));
        assert!(number < counts.get(&whose).copied().unwrap_or(0), "{which}: nobody has made {call:?}");
        let of = streams.entry(whose & !HANDLER).or_insert((call.stream, call.tid));
        assert_eq!(*of, (call.stream, call.tid), "{which}: {call:?}");
        assert!(call.details.frames.is_empty() || wants_frames(call), "{which}: {call:?}");
        let made = made.entry(whose).or_default();
        let is_later = made.last().is_none_or(|(before, last)| last.seq < call.seq && *before < number);
        assert!(is_later, "{which}: {:?} {call:?}", made.last());
        made.push((number, call));
    }
    assert_eq!(streams.values().map(|(_, tid)| tid).collect::<HashSet<_>>().len(), streams.len(), "{which}");
    made
}

#[test]
fn recorded_calls_belong_to_their_threads() {
    for seed in 0..rounds(3) {
        assert_whirl("ring:1M", seed, [40, 3, 9000, 100 * (seed % 3)]);
        assert_whirl("ring:4M", seed, [60, 10, 20_000, 100 * (seed % 3)]);
        assert_whirl("full:4M", seed, [60, 10, 20_000, 100 * (seed % 3)]);
        assert_whirl("full", seed, [30, 10, 5000, 100 * (seed % 3)]);
    }
}
