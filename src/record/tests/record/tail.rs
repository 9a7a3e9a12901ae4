//! Following a recording while it is written gives the same calls as reading all of it.

use super::call;
use cupeer_record::tail::{Counts, Unreturned};
use cupeer_record::writer::{About, Writer};
use cupeer_record::{Call, Details, Event, Follower, Outcome, Process};
use cupeer_spec::record::SLOTS;
use proptest::prelude::*;
use std::collections::HashMap;
use std::path::Path;

/// Actions on a recording, each with the number of a stream.
#[derive(Clone, Debug)]
enum Op {
    Calls(u8, u16),
    /// Makes a call that fails, with details of this many bytes.
    Failed(u8, u16),
    Begin(u8),
    /// Ends one of the calls that were begun.
    End(u8, i32),
    Thread(u8, u16),
    Skip(u8),
    Empty(u8),
    /// Looks.
    Look(u8),
}

fn op() -> impl Strategy<Value = Op> {
    let stream = || 0..3u8;
    prop_oneof![
        3 => (stream(), 1..1500u16).prop_map(|(stream, count)| Op::Calls(stream, count)),
        2 => (stream(), 0..700u16).prop_map(|(stream, bytes)| Op::Failed(stream, bytes)),
        2 => stream().prop_map(Op::Begin),
        2 => (any::<u8>(), 0..2i32).prop_map(|(which, result)| Op::End(which, result)),
        1 => (stream(), 1..1000u16).prop_map(|(stream, tid)| Op::Thread(stream, tid)),
        1 => stream().prop_map(Op::Skip),
        1 => stream().prop_map(Op::Empty),
        3 => (0..3u8).prop_map(Op::Look),
    ]
}

/// Returns the counts of a full reading.
fn read(path: &Path) -> (Counts, Vec<Unreturned>) {
    let mut counts = Counts::default();
    let mut open: HashMap<(u32, u64), Unreturned> = HashMap::new();
    for event in Process::open(path).unwrap().events().unwrap() {
        match event {
            Event::Call(Call { outcome, stream, seq, number, tid, start, .. }) => {
                counts.calls += 1;
                match outcome {
                    Outcome::Pending => {
                        open.insert((stream, seq), Unreturned { function: number, tid, start });
                    }
                    Outcome::Returned(result) => counts.failed += u64::from(result != 0),
                    Outcome::Unwound => {}
                }
            }
            Event::LateEnd { stream, seq, outcome, .. } => {
                open.remove(&(stream, seq)).expect("it was begun");
                counts.failed += u64::from(outcome != Outcome::Returned(0));
            }
            Event::Mark { .. } | Event::Use(_) => {}
        }
    }
    (counts, sorted(open.into_values()))
}

fn sorted(calls: impl Iterator<Item = Unreturned>) -> Vec<Unreturned> {
    let mut all: Vec<Unreturned> = calls.collect();
    all.sort_unstable_by_key(|call| (call.start, call.tid));
    all
}

fn seen(follower: &Follower) -> (Counts, Vec<Unreturned>) {
    (follower.counts(), sorted(follower.unreturned().copied()))
}

struct Run {
    writer: Writer,
    streams: Vec<u32>,
    begun: Vec<(u32, u64, Call)>,
    time: u64,
}

impl Run {
    fn new(dir: &Path, about: About) -> Run {
        let mut writer = Writer::create(dir, about).unwrap();
        let streams = (0..3).map(|i| writer.stream(100 + i).unwrap()).collect();
        Run { writer, streams, begun: Vec::new(), time: 0 }
    }

    fn call(&mut self, result: i32) -> Call {
        self.time += 1;
        Call { outcome: Outcome::Returned(result), ..call(self.time, self.time) }
    }

    fn play(&mut self, op: &Op) {
        let stream = |stream: &u8| u32::from(*stream);
        match op {
            Op::Calls(of, count) => {
                for _ in 0..*count {
                    let call = self.call(0);
                    self.writer.call(self.streams[*of as usize], &call).unwrap();
                }
            }
            Op::Failed(of, bytes) => {
                let mut call = self.call(1);
                call.details = Details { message: Some(vec![b'x'; (*bytes).into()]), ..Details::default() }.into();
                self.writer.call(stream(of), &call).unwrap();
            }
            Op::Begin(of) => {
                let call = self.call(0);
                let number = self.writer.begin(stream(of), &call).unwrap();
                self.begun.push((stream(of), number, call));
            }
            Op::End(which, result) if !self.begun.is_empty() => {
                let (stream, number, call) = self.begun.swap_remove(usize::from(*which) % self.begun.len());
                let call = Call { outcome: Outcome::Returned(*result), end: self.time, ..call };
                self.writer.end(stream, number, &call).unwrap();
            }
            Op::Thread(of, tid) => self.writer.add_thread_change(stream(of), self.time, (*tid).into()).unwrap(),
            Op::Skip(of) => self.writer.skip(stream(of)).unwrap(),
            Op::Empty(of) => self.writer.flush_window(stream(of)).unwrap(),
            Op::End(..) | Op::Look(_) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn at_every_look_it_has_what_there_is(before in proptest::collection::vec(op(), 0..12), ops in proptest::collection::vec(op(), 1..40)) {
        let dir = tempfile::tempdir().unwrap();
        let about = About { at_once: true, ..About::default() };
        let path = dir.path().join(about.proc() + ".cupeer");
        let mut run = Run::new(dir.path(), about);
        before.iter().for_each(|op| run.play(op));
        let mut follower = Follower::new(&Process::open(&path).unwrap()).unwrap();
        let old = read(&path).0;
        follower.look(0).unwrap();
        for op in &ops {
            run.play(op);
            if let Op::Look(most) = op {
                follower.look((*most).into()).unwrap();
                if follower.is_complete() {
                    prop_assert_eq!(seen(&follower), read(&path));
                    prop_assert_eq!(follower.recent_counts().calls, follower.counts().calls - old.calls);
                }
            }
        }
        follower.look(usize::MAX).unwrap();
        prop_assert!(follower.is_complete());
        prop_assert_eq!(seen(&follower), read(&path));
        prop_assert_eq!(follower.recent_counts().calls, follower.counts().calls - old.calls);
    }
}

#[test]
fn overwritten_ring_slots_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let about = About { at_once: true, ring: Some(8), ..About::default() };
    let path = dir.path().join(about.proc() + ".cupeer");
    let mut run = Run::new(dir.path(), about);
    let mut follower = Follower::new(&Process::open(&path).unwrap()).unwrap();
    follower.look(0).unwrap();
    assert!(follower.is_complete());
    for (count, is_complete) in [(100, true), (3 * SLOTS, true), (40 * SLOTS, false), (5, false)] {
        let had = follower.recent_counts().calls;
        (0..count).for_each(|_| run.play(&Op::Calls(0, 1)));
        follower.look(0).unwrap();
        let counts = (follower.recent_counts().calls - had, follower.is_complete());
        assert_eq!(counts, (count as u64, is_complete));
    }
    // A follower that starts later knows that calls are missing.
    let mut late = Follower::new(&Process::open(&path).unwrap()).unwrap();
    late.look(usize::MAX).unwrap();
    assert!(!late.is_complete() && late.counts().calls < follower.counts().calls);
    assert_eq!(late.recent_counts(), Counts::default());
}

#[test]
fn calls_that_returned_in_an_overwritten_block_are_not_pending() {
    let dir = tempfile::tempdir().unwrap();
    let about = About { at_once: true, ring: Some(8), ..About::default() };
    let path = dir.path().join(about.proc() + ".cupeer");
    let mut writer = Writer::create(dir.path(), about).unwrap();
    let stream = writer.stream(1).unwrap();
    let begun = writer.begin(stream, &call(1, 1)).unwrap();
    let mut follower = Follower::new(&Process::open(&path).unwrap()).unwrap();
    follower.look(0).unwrap();
    assert_eq!(follower.unreturned().count(), 1);
    writer.end(stream, begun, &call(1, 1)).unwrap();
    for i in 0..40 * SLOTS as u64 {
        writer.call(stream, &call(2 + i, i)).unwrap();
    }
    follower.look(0).unwrap();
    assert_eq!(follower.unreturned().count(), 0);
    assert!(!follower.is_complete() && follower.counts().calls == 1 + 40 * SLOTS as u64);
}

#[test]
fn counts_do_not_decrease() {
    let dir = tempfile::tempdir().unwrap();
    let about = About { at_once: true, ring: Some(8), ..About::default() };
    let path = dir.path().join(about.proc() + ".cupeer");
    let mut run = Run::new(dir.path(), about);
    let mut follower = Follower::new(&Process::open(&path).unwrap()).unwrap();
    let mut had = 0;
    // Calls of one slot, most of which are overwritten; then calls of several slots, all of which are read.
    for (op, count) in [(Op::Calls(0, 1), 100), (Op::Calls(0, 1), 40 * SLOTS), (Op::Failed(0, 600), 100)] {
        (0..count).for_each(|_| run.play(&op));
        follower.look(0).unwrap();
        assert_eq!(follower.counts().calls, had + count as u64);
        had = follower.counts().calls;
    }
}

#[test]
fn slots_behind_a_skipped_slot_are_read_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let about = About { at_once: true, ..About::default() };
    let path = dir.path().join(about.proc() + ".cupeer");
    let mut run = Run::new(dir.path(), about);
    // As many slots as a look reads first. The last one is skipped.
    [Op::Calls(0, 63), Op::Skip(0), Op::Calls(0, 1)].iter().for_each(|op| run.play(op));
    let mut follower = Follower::new(&Process::open(&path).unwrap()).unwrap();
    follower.look(usize::MAX).unwrap();
    assert_eq!(follower.counts().calls, 64);
}
