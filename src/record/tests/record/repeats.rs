//! Failures that one slot counts, and stacks that several calls share.

use super::{calls, events, one_stream, read};
use cupeer_record::writer::{self, Writer};
use cupeer_record::{Call, Details, Event, Follower, Outcome};
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::{self, RepeatedCalls, Slot};
use cupeer_spec::record::{plain_bytes, read_plain as read_bytes};
use proptest::prelude::*;

const RESULT: i32 = 1;

fn failure(start: u64) -> Call {
    let mut call = writer::call(FnId::cuIpcCloseMemHandle, start, start + 10);
    (call.outcome, call.caller) = (Outcome::Returned(RESULT), 0x1234);
    call
}

/// The slot of a run as a slot of any kind.
fn slot_of(run: &RepeatedCalls) -> Slot {
    let mut all = [0; size_of::<RepeatedCalls>()];
    let words = [run.word, run.call, run.end, run.caller, run.calls, run.total, run.since];
    for (place, word) in all.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    all[56..60].copy_from_slice(&run.longest.to_le_bytes());
    all[60..].copy_from_slice(&run.result.to_le_bytes());
    read_bytes(&all).expect("as many bytes")
}

/// Adds a run after a call, with the number of its calls, and whether another one is in flight.
fn run(writer: &mut Writer, stream: u32, call: u64, example: &Call, counts: u64, flies: bool) -> u64 {
    let word = slot::slot_word(slot::RUN, 1, example.number, 0);
    let (calls, result) = (counts << 1 | u64::from(flies), RESULT);
    let end = example.end + 20 * counts;
    let run = RepeatedCalls {
        word,
        call,
        end,
        caller: example.caller,
        calls,
        total: 10 * counts,
        since: end + 5,
        longest: 12,
        result,
    };
    writer.slot(stream, slot_of(&run)).expect("memory can be written to")
}

#[test]
fn a_run_counts_with_its_example_and_one_in_flight_is_a_call() {
    let (mut writer, stream) = one_stream();
    let example = failure(100);
    let number = writer.call(stream, &example).unwrap();
    let flying = run(&mut writer, stream, number, &example, 1000, true);
    writer.call(stream, &failure(30_000)).unwrap();
    let all = events(writer.into_bytes());
    let [first, pending, last] = calls(&all)[..] else { panic!("{all:?}") };
    assert_eq!((first.call_count(), first.last_end()), (1001, 110 + 20_000));
    let known = first.details.repeats.expect("a run");
    assert_eq!((known.calls, known.total, known.longest), (1000, 10_000, 12));
    assert_eq!((pending.outcome, pending.seq, pending.start), (Outcome::Pending, flying, 20_115));
    assert_eq!((last.call_count(), last.start), (1, 30_000));
}

#[test]
fn the_end_of_one_in_flight_finds_it_wherever_it_stands() {
    let (mut writer, stream) = one_stream();
    let example = failure(100);
    let number = writer.call(stream, &example).unwrap();
    let flying = run(&mut writer, stream, number, &example, 3, true);
    let word = slot::slot_word(slot::LATE_END, 1, example.number, 0);
    let late = Slot { word, start: flying, end: 900, caller: 0, args: example.slot.args, result: 7 };
    writer.slot(stream, late).unwrap();
    let all = events(writer.into_bytes());
    let [_, ended] = calls(&all)[..] else { panic!("{all:?}") };
    assert_eq!((ended.outcome, ended.end, ended.seq), (Outcome::Returned(7), 900, flying));
}

#[test]
fn a_run_without_its_example_still_counts() {
    let (mut writer, stream) = one_stream();
    run(&mut writer, stream, 77, &failure(100), 50, false);
    let all = events(writer.into_bytes());
    let [one] = calls(&all)[..] else { panic!("{all:?}") };
    assert_eq!((one.call_count(), one.outcome, one.caller), (50, Outcome::Returned(RESULT), 0x1234));
    assert_eq!(one.argument_by_name("dptr"), None);
}

#[test]
fn a_call_without_a_stack_has_that_of_the_last_one_of_its_kind() {
    let (mut writer, stream) = one_stream();
    let with = |frames: Vec<u64>| Details { frames, ..Details::default() };
    let mut first = failure(100);
    first.details = with(vec![0x1234, 0x99]).into();
    let number = writer.call(stream, &first).unwrap();
    writer.call(stream, &failure(200)).unwrap();
    let mut elsewhere = failure(300);
    elsewhere.caller = 0x5678;
    writer.call(stream, &elsewhere).unwrap();
    let all = events(writer.into_bytes());
    let [own, like, other] = calls(&all)[..] else { panic!("{all:?}") };
    assert!(own.has_own_stack() && !like.has_own_stack() && !other.has_own_stack());
    assert_eq!((&like.details.frames[..], like.details.stack_of), (&[0x1234, 0x99][..], Some(number)));
    assert!(other.details.frames.is_empty());
}

#[test]
fn followers_count_runs() {
    let (mut writer, stream) = one_stream();
    let example = failure(100);
    let number = writer.call(stream, &example).unwrap();
    run(&mut writer, stream, number, &example, 1_000_000, true);
    let process = read(writer.into_bytes());
    let mut follower = Follower::new(&process).unwrap();
    for _ in 0..3 {
        follower.look(8).unwrap();
        let counts = follower.counts();
        assert_eq!((counts.calls, counts.failed), (1_000_002, 1_000_001));
        assert_eq!(follower.unreturned().count(), 1);
    }
}

proptest! {
    #[test]
    fn no_run_is_believed_beyond_what_can_be(
        words in prop::collection::vec(any::<[u64; 7]>(), 1..20),
        likes in prop::collection::vec(any::<bool>(), 20),
    ) {
        let (mut writer, stream) = one_stream();
        let example = failure(100);
        for (words, is_like) in words.iter().zip(likes) {
            let number = writer.call(stream, &example).unwrap();
            let [call, end, caller, calls, total, since, rest] = *words;
            let (call, caller) = if is_like { (number, example.caller) } else { (call, caller & ((1 << 48) - 1)) };
            let word = slot::slot_word(slot::RUN, 1, example.number, 0);
            let (longest, result) = (rest as u32, if is_like { RESULT } else { (rest >> 32) as i32 });
            writer.slot(stream, slot_of(&RepeatedCalls { word, call, end, caller, calls, total, since, longest, result })).unwrap();
        }
        let all = events(writer.into_bytes());
        for event in &all {
            let Event::Call(call) = event else { continue };
            prop_assert!(call.call_count() <= 1 + RepeatedCalls::MOST && call.last_end() >= call.start);
            if let Some(run) = call.details.repeats {
                prop_assert!(run.longest <= run.total && run.total <= run.end - call.start);
            }
        }
    }
}

#[test]
fn a_run_is_as_large_as_its_slot_says() {
    let run =
        RepeatedCalls { word: 1, call: 2, end: 3, caller: 4, calls: 5, total: 6, since: 7, longest: 8, result: 9 };
    assert_eq!(RepeatedCalls::from_slot(&slot_of(&run)), run);
    assert_eq!(plain_bytes(&slot_of(&run)).len(), 64);
}

#[test]
fn queries_and_failures_that_repeat_bring_nothing_new() {
    let (mut writer, stream) = one_stream();
    let mut query = writer::call(FnId::cuDeviceCanAccessPeer, 100, 110);
    let failure = failure(200);
    for _ in 0..20 {
        writer.call(stream, &query).unwrap();
        writer.call(stream, &failure).unwrap();
    }
    query.slot.args[0] ^= 1;
    writer.call(stream, &query).unwrap();
    // A call that does something counts each time.
    for _ in 0..5 {
        writer.call(stream, &writer::call(FnId::cuIpcGetMemHandle, 300, 310)).unwrap();
    }
    let process = read(writer.into_bytes());
    let mut follower = Follower::new(&process).unwrap();
    follower.look(8).unwrap();
    assert_eq!((follower.counts().calls, follower.productive_calls()), (46, 8));
}
