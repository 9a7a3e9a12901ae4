//! Rings: the last blocks of all streams.

use super::{all_calls, call, calls, events, fill, which};
use cupeer_record::writer::{About, Writer};
use cupeer_record::{Details, Event, Outcome};
use cupeer_spec::record::{BLOCK, SLOTS};

fn ring(blocks: u32) -> Writer {
    Writer::in_memory(About { ring: Some(blocks), ..About::default() })
}

#[test]
fn the_last_blocks_are_there_in_order() {
    for count in [1, SLOTS - 1, SLOTS, SLOTS + 1, 7 * SLOTS, 7 * SLOTS + 1, 20 * SLOTS + 5] {
        let mut writer = ring(8);
        let stream = writer.stream(11).unwrap();
        fill(&mut writer, stream, 0..count as u64);
        let bytes = writer.into_bytes();
        assert_eq!(bytes.len(), 8 * BLOCK);
        let calls = all_calls(bytes);
        // Six full blocks, and the one that is written to.
        let last = (count - 1) / SLOTS;
        let first = last.saturating_sub(6) * SLOTS;
        assert!(calls.iter().map(|call| (which(call), call.seq)).eq((first..count).map(|i| (i as u64, i as u64))));
    }
}

#[test]
fn streams_share_the_ring() {
    let mut writer = ring(12);
    let streams = [1, 2, 3].map(|tid| writer.stream(tid).unwrap());
    for i in 0..30_000u64 {
        writer.call(streams[i as usize % 7 % 3], &call(i, i)).unwrap();
    }
    let calls = all_calls(writer.into_bytes());
    assert!(calls.is_sorted_by_key(|call| call.start));
    assert!(calls.len() > 8 * SLOTS, "{}", calls.len());
    for stream in streams {
        let of: Vec<u64> = calls.iter().filter(|call| call.stream == stream).map(|call| call.seq).collect();
        assert!(!of.is_empty());
        assert!(of.windows(2).all(|two| two[0] + 1 == two[1]), "stream {stream} has a gap");
    }
}

#[test]
fn ends_and_details_of_calls_that_are_gone_say_nothing() {
    let mut writer = ring(8);
    let stream = writer.stream(11).unwrap();
    let gone = writer.begin(stream, &call(1, 1)).unwrap();
    for i in 0..10 * SLOTS as u64 {
        writer.call(stream, &call(2 + i, i)).unwrap();
    }
    let kept = writer.begin(stream, &call(9000, 1)).unwrap();
    for i in 0..2 * SLOTS as u64 {
        writer.call(stream, &call(10_000 + i, i)).unwrap();
    }
    for number in [gone, kept] {
        let mut ended = call(1, 1);
        ended.end = 20_000;
        ended.details = Details { context: Some(5), ..Details::default() }.into();
        writer.end(stream, number, &ended).unwrap();
    }
    let events = events(writer.into_bytes());
    let late: Vec<_> = events.iter().filter(|event| matches!(event, Event::LateEnd { .. })).collect();
    let [Event::LateEnd { seq, outcome, details, .. }] = late[..] else { panic!("{late:?}") };
    assert_eq!((*seq, *outcome, details.context), (kept, Outcome::Returned(0), Some(5)));
    assert!(calls(&events).iter().all(|call| call.details == Details::default()));
}
