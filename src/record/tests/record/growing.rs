//! Reading a record while it is written.

use super::{call, which};
use cupeer_record::writer::{About, Writer};
use cupeer_record::{Event, Process};
use cupeer_spec::record::{BLOCK, META_START, first_ring_number};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

/// Stops the writer, even if a reading fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Reads repeatedly while another thread writes to two streams. Passes the last reading to `check`.
fn read_while_written(about: About, check: impl Fn(&[Vec<u64>], u64)) {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(dir.path(), About { at_once: true, ..about.clone() }).unwrap();
    let streams = [writer.stream(1).unwrap(), writer.stream(2).unwrap()];
    let path = dir.path().join(about.proc() + ".cupeer");
    let (enough, written) = (AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut i = 0;
            // Bounded, so that a reading takes less time than the writer needs to outgrow it.
            while !enough.load(SeqCst) && i < 40_000 {
                for stream in streams {
                    let number = writer.begin(stream, &call(i, i)).unwrap();
                    writer.end(stream, number, &call(i, i)).unwrap();
                }
                i += 1;
                written.store(i, SeqCst);
            }
        });
        let _stop = Stop(&enough);
        let mut readings = 0;
        while readings < 40 {
            let before = written.load(SeqCst);
            if before < 100 {
                thread::yield_now();
                continue;
            }
            readings += 1;
            let process = Process::open(&path).unwrap();
            let mut of = [Vec::new(), Vec::new()];
            for event in process.events().unwrap() {
                let Event::Call(call) = event else { panic!("{event:?}") };
                let first = if about.ring.is_some() { first_ring_number(call.stream) } else { 0 };
                assert_eq!(which(&call) + first, call.seq);
                of[call.stream as usize].push(which(&call));
            }
            check(&of, before);
        }
    });
}

#[test]
fn a_full_record_has_all_that_was_there_when_it_was_asked_for() {
    read_while_written(About::default(), |streams, before| {
        for seqs in streams {
            let count = seqs.len() as u64;
            assert!(seqs.iter().copied().eq(0..count), "there is a gap");
            assert!(count >= before, "{count} of {before}");
        }
    });
}

#[test]
fn a_ring_has_no_event_twice_and_none_that_is_torn() {
    read_while_written(About { ring: Some(16), ..About::default() }, |streams, _| {
        for seqs in streams {
            assert!(seqs.is_sorted_by(|a, b| a < b));
        }
    });
}

#[test]
fn early_readers_learn_the_functions_later() {
    let dir = tempfile::tempdir().unwrap();
    let about = About { at_once: true, ..About::default() };
    let path = dir.path().join(about.proc() + ".cupeer");
    let mut writer = Writer::create(dir.path(), about).unwrap();
    let stream = writer.stream(1).unwrap();
    writer.call(stream, &call(1, 7)).unwrap();
    drop(writer);
    let whole = fs::read(&path).unwrap();
    let mut begun = whole.clone();
    begun[META_START..BLOCK].fill(0);
    fs::write(&path, begun).unwrap();
    let process = Process::open(&path).unwrap();
    assert!(process.functions.is_empty());
    fs::write(&path, whole).unwrap();
    let Some(Event::Call(call)) = process.events().unwrap().next() else { panic!("there is a call") };
    assert_eq!(which(&call), 7);
}
