//! Records of random shapes are read back as they were written.

use super::{call, read, which};
use cupeer_record::writer::{About, Writer};
use cupeer_record::{
    Call, CopyContent, Details, DeviceMemoryState, Event, Finding, FindingObject, FiredFault, Outcome,
};
use cupeer_spec::record::slot::finding::Severity;
use cupeer_spec::record::slot::{self, finding::Confidence};
use proptest::prelude::*;
use std::collections::HashMap;

/// Actions of a thread.
#[derive(Clone, Debug)]
enum Op {
    /// Makes this many calls, without and with details.
    Calls(u16),
    Detailed(Box<Details>, i32),
    Begin,
    /// Ends one of the calls that were begun.
    End(u8, i32),
    Mark(Vec<u8>),
    Thread(u16),
    Skip,
    Empty,
}

fn details() -> impl Strategy<Value = Details> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..300);
    (
        (proptest::collection::vec(any::<u64>(), 0..12), proptest::collection::vec(line(), 0..24)),
        proptest::collection::vec((any::<u8>(), bytes()), 0..3),
        proptest::collection::vec((any::<u8>(), bytes()), 0..3),
        any::<Option<(u64, u64)>>(),
        (proptest::option::of(0..9), proptest::option::of(0..9)),
        (
            any::<Option<u64>>(),
            any::<Option<(u64, i32)>>(),
            any::<Option<u64>>(),
            any::<Option<(u64, i32, bool)>>(),
            any::<Option<(i32, [u64; 4])>>(),
        ),
        proptest::option::of(bytes()),
        proptest::collection::vec(finding(), 0..3),
        proptest::collection::vec(hit(), 0..3),
    )
        .prop_map(
            |(
                (frames, python),
                elements,
                texts,
                memory,
                devices,
                (context, owner, contexts, content, left),
                message,
                findings,
                hits,
            )| Details {
                arguments: Vec::new(),
                frames,
                python,
                elements,
                texts,
                memory,
                devices,
                context,
                owner,
                contexts,
                current: contexts,
                nodes: message.clone().unwrap_or_default(),
                ranges: memory.into_iter().collect(),
                content: content.map(|(hash, device, is_constant)| CopyContent { hash, device, is_constant }),
                device_memory: left.map(|(device, [free, total, counted_bytes, counted])| DeviceMemoryState {
                    device,
                    free,
                    total,
                    counted_bytes,
                    counted,
                }),
                message,
                findings,
                hits,
                repeats: None,
                stack_of: None,
            },
        )
}

fn line() -> impl Strategy<Value = slot::PythonLine> {
    (any::<u32>(), 0..1u32 << 24, any::<u8>()).prop_map(|(function, line, frame)| slot::PythonLine {
        function,
        line,
        frame,
    })
}

fn hit() -> impl Strategy<Value = FiredFault> {
    let what = (any::<[u16; 2]>(), any::<i32>(), any::<[u64; 3]>());
    (what, "[a-z]{1,9}/[a-z0-9-]{1,20}").prop_map(|(([did, process], driver_result, [count, stack, waited]), rule)| {
        FiredFault {
            what: slot::hit::FiredFault { did, process, driver_result, count, stack, waited },
            fault_name: rule,
        }
    })
}

fn finding() -> impl Strategy<Value = Finding> {
    let severity = (0..Severity::ALL.len()).prop_map(|i| Severity::ALL[i]);
    let confidence = prop_oneof![Just(Confidence::Certain), Just(Confidence::Stale), Just(Confidence::Inferred)];
    let object = (1..7u32, any::<[u64; 3]>(), proptest::collection::vec(any::<u64>(), 0..12)).prop_map(
        |(role, [address, fingerprint, monotonic], frames)| {
            let what = slot::finding::FindingObject { role, address, fingerprint, monotonic, ..Default::default() };
            FindingObject { what, frames }
        },
    );
    let texts = ("[a-z-]{1,32}", "[^\0]{0,80}", "[^\0]{0,80}");
    let argument = proptest::option::of(0..4u8);
    (confidence, severity, argument, texts, proptest::collection::vec(object, 0..3)).prop_map(
        |(confidence, severity, argument, (rule, message, hint), objects)| Finding {
            confidence,
            severity,
            argument,
            rule,
            message,
            hint,
            objects,
        },
    )
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (1..200u16).prop_map(Op::Calls),
        4 => (details(), any::<i32>()).prop_map(|(details, result)| Op::Detailed(Box::new(details), result)),
        4 => Just(Op::Begin),
        4 => (any::<u8>(), any::<i32>()).prop_map(|(which, result)| Op::End(which, result)),
        1 => proptest::collection::vec(any::<u8>(), 0..500).prop_map(Op::Mark),
        1 => any::<u16>().prop_map(Op::Thread),
        1 => Just(Op::Skip),
        1 => Just(Op::Empty),
    ]
}

/// A call as the reader must return it.
#[derive(Clone, PartialEq, Debug)]
struct Known {
    which: u64,
    tid: u32,
    start: u64,
    end: u64,
    outcome: Outcome,
    details: Details,
}

fn known(call: &Call, tid: u32) -> Known {
    let end = if call.outcome == Outcome::Pending { call.start } else { call.end };
    let details = (*call.details).clone();
    Known { which: which(call), tid, start: call.start, end, outcome: call.outcome, details }
}

/// Events that the reader must return.
#[derive(Default)]
struct Expected {
    calls: HashMap<(u32, u64), Known>,
    marks: Vec<(u32, u64, Vec<u8>)>,
}

/// Executes the actions, and returns the events that the reader must return.
fn write(writer: &mut Writer, streams: u32, ops: &[(u32, Op)]) -> Expected {
    let mut expected = Expected::default();
    let mut tids: Vec<u32> = (0..streams).collect();
    let mut begun: Vec<Vec<u64>> = vec![Vec::new(); streams as usize];
    tids.iter().for_each(|tid| assert_eq!(writer.stream(*tid).unwrap(), *tid));
    let mut time = 2_000_000;
    for (stream, op) in ops {
        let stream = stream % streams;
        let tid = &mut tids[stream as usize];
        time += 10;
        match op {
            Op::Calls(count) => {
                for _ in 0..*count {
                    time += 10;
                    let call = call(time, time);
                    expected.calls.insert((stream, writer.call(stream, &call).unwrap()), known(&call, *tid));
                }
            }
            Op::Detailed(details, result) => {
                let call = Call {
                    details: Details::clone(details).into(),
                    outcome: Outcome::Returned(*result),
                    ..call(time, time)
                };
                expected.calls.insert((stream, writer.call(stream, &call).unwrap()), known(&call, *tid));
            }
            Op::Begin => {
                let call = Call { outcome: Outcome::Pending, ..call(time, time) };
                let number = writer.begin(stream, &call).unwrap();
                expected.calls.insert((stream, number), known(&call, *tid));
                begun[stream as usize].push(number);
            }
            Op::End(which, result) => {
                let begun = &mut begun[stream as usize];
                if begun.is_empty() {
                    continue;
                }
                let number = begun.remove(usize::from(*which) % begun.len());
                let known = expected.calls.get_mut(&(stream, number)).unwrap();
                (known.end, known.outcome) = (time, Outcome::Returned(*result));
                let call = Call { end: time, outcome: known.outcome, ..call(known.start, known.which) };
                writer.end(stream, number, &call).unwrap();
            }
            Op::Mark(text) => {
                writer.mark(stream, time, text).unwrap();
                expected.marks.push((*tid, time, text.clone()));
            }
            Op::Thread(new) => {
                *tid = u32::from(*new);
                writer.add_thread_change(stream, time, *tid).unwrap();
            }
            Op::Skip => writer.skip(stream).unwrap(),
            Op::Empty => writer.flush_window(stream).unwrap(),
        }
    }
    expected
}

/// Reads the recording back, with late ends in the slots of their calls.
fn read_back(bytes: Vec<u8>) -> Expected {
    let mut back = Expected::default();
    let mut calls: HashMap<(u32, u64), Call> = HashMap::new();
    let mut last = 0;
    for event in read(bytes).events().unwrap() {
        // In order, but for ends that come late: their streams wait for them.
        if !matches!(event, Event::LateEnd { .. }) {
            assert!(event.start() >= last, "{event:?} before {last}");
            last = event.start();
        }
        match event {
            Event::Call(call) => assert!(calls.insert((call.stream, call.seq), call).is_none(), "twice"),
            Event::Use(_) => panic!("{event:?}"),
            Event::Mark { tid, time, text } => back.marks.push((tid, time, text)),
            Event::LateEnd { stream, seq, .. } => {
                assert!(calls.get_mut(&(stream, seq)).expect("its call comes first").apply_late_end(&event));
            }
        }
    }
    back.calls = calls.iter().map(|(key, call)| (*key, known(call, call.tid))).collect();
    back
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_full_record_comes_back(
        streams in 1..5u32,
        ops in proptest::collection::vec((any::<u32>(), op()), 0..150),
    ) {
        let mut writer = Writer::in_memory(About::default());
        let expected = write(&mut writer, streams, &ops);
        let back = read_back(writer.into_bytes());
        prop_assert_eq!(back.marks, expected.marks);
        prop_assert_eq!(back.calls.len(), expected.calls.len());
        for (key, call) in &expected.calls {
            prop_assert_eq!(&back.calls[key], call);
        }
    }

    #[test]
    fn rings_return_their_last_events(
        streams in 1..5u32,
        ops in proptest::collection::vec((any::<u32>(), op()), 0..150),
    ) {
        let mut writer = Writer::in_memory(About { ring: Some(8), ..About::default() });
        let expected = write(&mut writer, streams, &ops);
        let back = read_back(writer.into_bytes());
        for (key, call) in &back.calls {
            prop_assert_eq!(&expected.calls[key], call);
        }
        for mark in &back.marks {
            prop_assert!(expected.marks.contains(mark));
        }
        // No call of a stream is missing before one that is returned.
        for stream in 0..streams {
            let of = |known: &Expected| {
                let mut seqs: Vec<u64> = known.calls.keys().filter(|key| key.0 == stream).map(|key| key.1).collect();
                seqs.sort_unstable();
                seqs
            };
            let (had, all) = (of(&back), of(&expected));
            prop_assert!(all.ends_with(&had), "{had:?} of {all:?}");
        }
    }
}
