//! What a ring holds: calls of its threads alone, each as it was made, without a gap but where a whole block was overwritten.

use super::recording;
use crate::programs::{Scene, linked, mark_of, open_job, recorded};
use crate::support::{self, stdout};
use cupeer_record::{Call, Outcome};
use cupeer_spec::env;
use cupeer_spec::record::{BLOCK, SLOTS};
use std::collections::{BTreeMap, HashSet};

/// Streams are numbered alike: what one thread has left in a block is none of the calls of the next one that has it.
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

/// The marks of whirl.c.
const HANDLER: u64 = 1 << 27;
const THREAD: u32 = 17;

/// What one thread of whirl.c has made, or its handlers, and what the record has of that.
#[derive(Default)]
struct Made<'a> {
    count: u64,
    recorded: Vec<(u64, &'a Call)>,
}

/// What is known of a call besides is looked for behind so many calls that have interrupted it.
const HELD: usize = 8;

/// How many calls of handlers came between the first of these calls and the next one of its thread.
fn interrupting(calls: &[Call]) -> usize {
    let of_stream = calls.iter().filter(|call| call.stream == calls[0].stream).skip(1);
    of_stream.take_while(|call| mark_of(call).is_some_and(|mark| mark & HANDLER != 0)).count()
}

/// Whether what is known of a call besides may have been in a block that was overwritten before the call's own.
fn ends_block(call: &Call) -> bool {
    let origin = u64::from(call.stream) % SLOTS as u64;
    (call.seq - origin) % SLOTS as u64 >= SLOTS as u64 - 16
}

/// Runs whirl.c, and compares.
fn assert_whirl(mode: &str, seed: u32, [threads, at_once, calls, period]: [u32; 4]) {
    let which = format!("{mode}, seed {seed}, {threads} {at_once} {calls} {period}");
    let folder = support::temp_dir();
    let record = folder.path().join("record");
    let numbers = [seed, threads, at_once, calls, period].map(|number| number.to_string());
    let scene = Scene::new(linked("whirl.c", &[])).args(&numbers.each_ref().map(|number| &number[..]));
    let printed = stdout(recording(&scene, &record).env(env::RECORD, mode));
    let job = open_job(&record);
    assert_eq!(job.processes[0].header.lost, 0, "{which}");
    let all = recorded(&job.processes[0]);

    let mut made: BTreeMap<u64, Made> = BTreeMap::new();
    for (thread, line) in (1..).zip(printed.lines()) {
        for (kind, count) in [0, HANDLER].into_iter().zip(line.split(' ')) {
            made.entry(kind | thread << THREAD).or_default().count = count.parse().expect("a number");
        }
    }
    let mut streams: BTreeMap<u64, (u32, u32)> = BTreeMap::new();
    for (i, call) in all.iter().enumerate() {
        assert_eq!(call.outcome, Outcome::Returned(0), "{which}: {call:?}");
        let mark = mark_of(call).expect("a mark");
        let (whose, number) = (mark >> THREAD << THREAD, mark & ((1 << THREAD) - 1));
        let Some(made) = made.get_mut(&whose).filter(|made| number < made.count) else {
            panic!("{which}: nobody has made {call:?}")
        };
        made.recorded.push((number, call));
        let of = streams.entry(whose & !HANDLER).or_insert((call.stream, call.tid));
        assert_eq!(*of, (call.stream, call.tid), "{which}: {call:?}");
        let has_frames = !call.details.frames.is_empty();
        let wants_them = mark.is_multiple_of(8);
        assert!(has_frames <= wants_them, "{which}: {call:?}");
        // Where a handler's call hid who made one, there is nothing to begin with.
        let may_lack_them =
            || call.caller == 0 || interrupting(&all[i..]) >= HELD || mode != "full" && ends_block(call);
        assert!(has_frames || !wants_them || may_lack_them(), "{which}: {call:?}");
    }
    assert_eq!(streams.values().map(|(_, tid)| tid).collect::<HashSet<_>>().len(), streams.len(), "{which}");
    for Made { count, recorded } in made.values() {
        for pair in recorded.windows(2) {
            let [(before, first), (after, second)] = pair else { continue };
            let is_gap = *after != before + 1;
            let is_overwritten = second.seq.saturating_sub(first.seq) > SLOTS as u64;
            assert!(first.seq < second.seq && before < after, "{which}: {first:?} {second:?}");
            assert!(!is_gap || is_overwritten && mode != "full", "{which}: {first:?} {second:?}");
        }
        assert!(mode != "full" || recorded.len() as u64 == *count, "{which}");
    }
}

#[test]
fn whatever_threads_do_what_is_recorded_is_theirs() {
    let rounds = std::env::var("CUPEER_TEST_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(3);
    for seed in 0..rounds {
        assert_whirl("ring:1M", seed, [40, 3, 9000, 100 * (seed % 3)]);
        assert_whirl("ring:4M", seed, [60, 10, 20_000, 100 * (seed % 3)]);
        assert_whirl("full", seed, [30, 10, 5000, 100 * (seed % 3)]);
    }
}
