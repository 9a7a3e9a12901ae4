//! What a ring holds: calls of its threads alone, each as it was made, without a gap but where a whole block was overwritten.

use super::recording;
use crate::programs::{Scene, linked, mark_of, open_job, recorded};
use crate::support::{self, rounds, stdout};
use cupeer_record::{Call, Follower, Job, Outcome};
use cupeer_spec::env;
use cupeer_spec::record::{BLOCK, SLOTS, first_in_ring};
use std::collections::{BTreeMap, HashSet};
use std::process::Stdio;
use std::time::Duration;

/// What one thread has left in a block is none of the calls of the next one that has it, although both have made as many.
#[test]
fn what_a_block_of_a_ring_held_before_is_nobodys_call() {
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
        // Of the first thread, all but what was in the blocks that the second one took.
        let taken = second.div_ceil(SLOTS as u64) * SLOTS as u64;
        assert_eq!(of(0).next_back(), Some(FIRST));
        assert!(of(0).count() as u64 >= FIRST - taken, "{}", of(0).count());
    }
}

#[test]
fn whoever_follows_a_ring_knows_whether_he_has_seen_all_of_it() {
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

/// What is known of a call besides is looked for behind so many calls that have interrupted it.
const HELD: usize = 8;

/// How many calls of handlers came between the first of these calls and the next one of its thread.
fn interrupting(calls: &[Call]) -> usize {
    let of_stream = calls.iter().filter(|call| call.stream == calls[0].stream).skip(1);
    of_stream.take_while(|call| mark_of(call).is_some_and(|mark| mark & HANDLER != 0)).count()
}

/// Whether what is known of a call besides may have been in a block that was overwritten before the call's own.
fn ends_block(call: &Call) -> bool {
    (call.seq - first_in_ring(call.stream)) % SLOTS as u64 >= SLOTS as u64 - 16
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
            meanwhile.push(recorded(process));
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
        assert_eq!(call.outcome, Outcome::Returned(0), "{which}: {call:?}");
        // Where a handler's call hid who made one, there is nothing to begin with.
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

/// Whether a call of whirl.c is one of which the record says more.
fn wants_frames(call: &Call) -> bool {
    mark_of(call).is_some_and(|mark| mark.is_multiple_of(8))
}

/// The calls of each thread and of its handlers, which must be theirs, by the numbers that they have there.
fn made_by<'a>(
    which: &str,
    counts: &BTreeMap<u64, u64>,
    all: &'a [Call],
) -> BTreeMap<u64, Vec<(u64, &'a Call)>> {
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
fn whatever_threads_do_what_is_recorded_is_theirs() {
    for seed in 0..rounds(3) {
        assert_whirl("ring:1M", seed, [40, 3, 9000, 100 * (seed % 3)]);
        assert_whirl("ring:4M", seed, [60, 10, 20_000, 100 * (seed % 3)]);
        assert_whirl("full", seed, [30, 10, 5000, 100 * (seed % 3)]);
    }
}
