use super::book::{ByteRange, IndexedSteps, Step, StepEffect, Stream, UseKind, UseStep};
use super::rounds::{self, OrderViolation, Rounds, UnorderedPair};
use crate::follow::order::{AwaitedWork, OrderEffect, StreamKind};

/// Two processes, each with a legacy default stream, a blocking one, and two others: 0 to 3, and 4 to 7.
fn streams() -> Vec<Stream> {
    let kinds = [StreamKind::Legacy, StreamKind::Blocking, StreamKind::NonBlocking, StreamKind::NonBlocking];
    (0..8).map(|number| Stream { process: number / 4, kind: kinds[number % 4] }).collect()
}

fn uses(how: UseKind, stream: usize, waits: bool) -> StepEffect {
    let bytes = ByteRange { memory: 0, from: 0, to: 4096, has_gaps: false };
    let stream = Some(stream);
    StepEffect::Uses(UseStep { bytes, how, value: None, base: 0, stream, is_done_on_return: Some(waits), origin: 0 })
}

fn writes(stream: usize) -> StepEffect {
    uses(UseKind::Writes, stream, false)
}

fn reads(stream: usize) -> StepEffect {
    uses(UseKind::Reads, stream, false)
}

fn records(stream: usize, event: usize) -> StepEffect {
    StepEffect::Orders(OrderEffect::RecordsEvent { stream, event })
}

fn follows(stream: usize, event: usize) -> StepEffect {
    StepEffect::Orders(OrderEffect::WaitsForEvent { stream, event })
}

fn completes(work: AwaitedWork) -> StepEffect {
    StepEffect::Orders(OrderEffect::Completes { work, perhaps: false })
}

/// The process of a step of [`streams`].
fn process(does: StepEffect) -> usize {
    match does {
        StepEffect::Uses(uses) => uses.stream.unwrap_or(0) / 4,
        StepEffect::Orders(
            OrderEffect::RecordsEvent { stream, .. }
            | OrderEffect::WaitsForEvent { stream, .. }
            | OrderEffect::Tells { stream, .. },
        ) => stream / 4,
        StepEffect::Orders(OrderEffect::Completes { work: AwaitedWork::Stream(stream), .. }) => stream / 4,
        StepEffect::Orders(OrderEffect::Completes { work: AwaitedWork::Process(process), .. }) => process,
        StepEffect::Orders(OrderEffect::Completes { .. }) => 0,
    }
}

/// A book of calls that do not overlap.
fn book(all: &[StepEffect]) -> IndexedSteps {
    let step = |(number, does): (usize, &StepEffect)| {
        let before = 10 * number as u64 + 10;
        Step { process: process(*does), before, after: before + 5, does: *does }
    };
    IndexedSteps::new(all.iter().enumerate().map(step).collect(), streams())
}

#[test]
fn rows_are_compared_by_their_first_and_last_byte() {
    let bytes = |from, to, has_gaps| ByteRange { memory: 0, from, to, has_gaps };
    let rows = bytes(0, 1024, true);
    for (other, is_sure) in [
        (bytes(512, 600, false), false),
        (bytes(512, 1500, false), true),
        (bytes(0, 4096, false), true),
        (bytes(64, 1088, true), false),
        (bytes(0, 4096, true), true),
        (bytes(1024, 2048, false), false),
    ] {
        assert_eq!((rows.surely_overlaps(&other), other.surely_overlaps(&rows)), (is_sure, is_sure), "{other:?}");
        assert!(!rows.contains(&other));
    }
}

fn pairs(book: &IndexedSteps) -> Vec<(OrderViolation, UnorderedPair)> {
    let is_use = |step: &usize| book.steps[*step].memory_use().is_some();
    let uses: Vec<usize> = (0..book.steps.len()).filter(is_use).collect();
    let mut all = Rounds::new();
    rounds::find_unordered_pairs(book, &uses, |step| step, &mut all);
    all.into_iter().map(|((wrong, ..), round)| (wrong, round.pair)).collect()
}

/// The violations, and whether each is certain.
fn found(all: &[StepEffect]) -> Vec<(OrderViolation, bool)> {
    pairs(&book(all)).into_iter().map(|(wrong, pair)| (wrong, pair.is_sure)).collect()
}

#[test]
fn a_read_of_another_process_waits_for_the_write() {
    let wrong = [(OrderViolation::ReadBeforeWritten, true)];
    assert_eq!(found(&[writes(2), reads(6)]), wrong);
    assert_eq!(found(&[writes(2), uses(UseKind::Reads, 4, true)]), wrong);
    // A wait for another stream, or after the read was enqueued.
    assert_eq!(found(&[writes(2), completes(AwaitedWork::Stream(3)), reads(6)]), wrong);
    assert_eq!(found(&[writes(2), reads(6), completes(AwaitedWork::Stream(2))]), wrong);
    for wait in [AwaitedWork::Stream(2), AwaitedWork::Process(0)] {
        assert_eq!(found(&[writes(2), completes(wait), reads(6)]), []);
    }
    assert_eq!(found(&[uses(UseKind::Writes, 2, true), reads(6)]), []);
}

#[test]
fn events_order_streams_of_any_process() {
    assert_eq!(found(&[writes(2), records(2, 0), follows(6, 0), reads(6)]), []);
    assert_eq!(found(&[writes(2), records(2, 0), follows(7, 0), records(7, 1), follows(6, 1), reads(6)]), []);
    assert_eq!(found(&[writes(2), records(2, 0), completes(AwaitedWork::Event(0)), reads(6)]), []);
    let wrong = [(OrderViolation::ReadBeforeWritten, true)];
    assert_eq!(found(&[records(2, 0), writes(2), follows(6, 0), reads(6)]), wrong);
    assert_eq!(found(&[writes(2), records(2, 0), reads(6), follows(6, 0)]), wrong);
    // It was recorded again before the wait.
    assert_eq!(found(&[writes(2), records(2, 0), records(3, 0), follows(6, 0), reads(6)]), wrong);
}

#[test]
fn the_legacy_default_stream_orders_blocking_ones() {
    assert_eq!(found(&[writes(1), completes(AwaitedWork::Stream(0)), reads(6)]), []);
    assert_eq!(found(&[writes(1), records(0, 0), follows(6, 0), reads(6)]), []);
    assert_eq!(found(&[writes(1), uses(UseKind::Reads, 0, true), reads(6)]), []);
    assert_eq!(found(&[writes(0), records(1, 0), follows(6, 0), reads(6)]), []);
    assert_eq!(
        found(&[writes(2), completes(AwaitedWork::Stream(0)), reads(6)]),
        [(OrderViolation::ReadBeforeWritten, true)]
    );
    // Work of the default stream that is not recorded may have been between.
    assert_eq!(found(&[writes(1), completes(AwaitedWork::Stream(0)), writes(1), reads(6)]).len(), 1);
    let unsure = [(OrderViolation::ReadBeforeWritten, false)];
    let other = Stream { process: 0, kind: StreamKind::Blocking };
    let mut book = book(&[writes(1), completes(AwaitedWork::Stream(2)), reads(6)]);
    book.streams[2] = other;
    assert_eq!(pairs(&book).into_iter().map(|(wrong, pair)| (wrong, pair.is_sure)).collect::<Vec<_>>(), unsure);
}

#[test]
fn completion_may_be_told_in_other_ways() {
    let unsure = [(OrderViolation::ReadBeforeWritten, false)];
    let tells = |is_meant| StepEffect::Orders(OrderEffect::Tells { stream: 2, is_meant });
    assert_eq!(found(&[writes(2), tells(false), reads(6)]), unsure);
    assert_eq!(found(&[writes(2), tells(true), reads(6)]), []);
    let perhaps = StepEffect::Orders(OrderEffect::Completes { work: AwaitedWork::Process(0), perhaps: true });
    assert_eq!(found(&[writes(2), perhaps, reads(6)]), unsure);
    // A flag behind the data, which the other process polls.
    let flag = |how, stream, waits| match uses(how, stream, waits) {
        StepEffect::Uses(uses) => {
            StepEffect::Uses(UseStep { bytes: ByteRange { from: 8192, to: 8196, ..uses.bytes }, ..uses })
        }
        other => other,
    };
    let all = [writes(2), flag(UseKind::Writes, 2, false), flag(UseKind::Reads, 4, true), reads(6)];
    assert_eq!(found(&all), [(OrderViolation::ReadBeforeWritten, false)]);
    let mut cut = book(&[writes(2), reads(6)]);
    cut.gaps = vec![(17, 18)];
    assert_eq!(pairs(&cut), []);
}

#[test]
fn each_kind_has_its_name() {
    assert_eq!(found(&[reads(2), writes(6)]), [(OrderViolation::OverwrittenBeforeRead, true)]);
    assert_eq!(found(&[writes(2), writes(6)]), [(OrderViolation::WrittenTwice, true)]);
    assert_eq!(found(&[reads(2), reads(6)]), []);
    let frees = |stream| match uses(UseKind::Frees, 4, false) {
        StepEffect::Uses(uses) => StepEffect::Uses(UseStep { stream, ..uses }),
        other => other,
    };
    assert_eq!(found(&[reads(2), frees(Some(6))]), [(OrderViolation::FreedInUse, true)]);
    assert_eq!(found(&[reads(2), frees(None)]), []);
    let mut book = book(&[reads(2), frees(None)]);
    book.steps[1].process = 1;
    assert_eq!(pairs(&book).len(), 1);
}

#[test]
fn a_loop_is_one_finding() {
    let round = [writes(2), reads(6), completes(AwaitedWork::Process(0)), completes(AwaitedWork::Process(1))];
    let all: Vec<StepEffect> = round.iter().copied().cycle().take(4 * 10_000).collect();
    let (book, mut rounds) = (book(&all), Rounds::new());
    let uses: Vec<usize> = (0..book.steps.len()).filter(|step| book.steps[*step].memory_use().is_some()).collect();
    rounds::find_unordered_pairs(&book, &uses, |step| book.steps[step].process, &mut rounds);
    let all: Vec<_> = rounds.values().map(|round| (round.count, round.apart)).collect();
    assert_eq!(all, [(10_000, (10, 10))]);
}

/// The order of work by all edges between calls that do not overlap.
fn comes_before(all: &[StepEffect]) -> Vec<Vec<bool>> {
    // The nodes are the returns of the calls, and then their work.
    let (count, streams) = (all.len(), streams());
    let mut edges = vec![vec![]; 2 * count + 1];
    let stream = |does: &StepEffect| match does {
        StepEffect::Uses(uses) => uses.stream,
        StepEffect::Orders(OrderEffect::RecordsEvent { stream, .. } | OrderEffect::WaitsForEvent { stream, .. }) => {
            Some(*stream)
        }
        StepEffect::Orders(_) => None,
    };
    let waits = |one: usize, other: usize| {
        let (a, b) = (streams[one], streams[other]);
        let is_apart = [a, b].iter().any(|it| it.kind == StreamKind::NonBlocking);
        let is_legacy = [a, b].iter().any(|it| it.kind == StreamKind::Legacy);
        one == other || a.process == b.process && is_legacy && !is_apart
    };
    for (number, does) in all.iter().enumerate() {
        edges[number].push(number + 1);
        if number > 0 {
            edges[number - 1].push(count + 1 + number);
        }
        if matches!(does, StepEffect::Uses(uses) if uses.is_done_on_return == Some(true)) {
            edges[count + 1 + number].push(number);
        }
        let recorded = |event| {
            all[..number].iter().rposition(
                |it| matches!(it, StepEffect::Orders(OrderEffect::RecordsEvent { event: of, .. }) if *of == event),
            )
        };
        for (earlier, before) in all[..number].iter().enumerate() {
            let is_before = |other| stream(before).is_some_and(|its| waits(its, other));
            let is_done = match *does {
                StepEffect::Orders(OrderEffect::Completes { work: AwaitedWork::Stream(of), .. }) => is_before(of),
                StepEffect::Orders(OrderEffect::Completes { work: AwaitedWork::Process(of), .. }) => {
                    stream(before).is_some_and(|its| streams[its].process == of)
                }
                StepEffect::Orders(OrderEffect::Completes { work: AwaitedWork::Event(of), .. }) => {
                    recorded(of) == Some(earlier)
                }
                _ => false,
            };
            if is_done {
                edges[count + 1 + earlier].push(number);
            }
            let follows = matches!(does, StepEffect::Orders(OrderEffect::WaitsForEvent { event, .. }) if recorded(*event) == Some(earlier));
            if follows || stream(does).is_some_and(is_before) {
                edges[count + 1 + earlier].push(count + 1 + number);
            }
        }
    }
    let reached = |from: usize| {
        let (mut seen, mut due) = (vec![false; edges.len()], vec![from]);
        while let Some(node) = due.pop() {
            due.extend(edges[node].iter().copied().filter(|next| !std::mem::replace(&mut seen[*next], true)));
        }
        seen[count + 1..].to_vec()
    };
    (0..count).map(|number| reached(count + 1 + number)).collect()
}

#[test]
fn pairs_are_those_between_which_no_path_leads() {
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % below) as usize
    };
    let mut wrong = 0;
    for _ in 0..3000 {
        let all: Vec<StepEffect> = (0..4 + random(10))
            .map(|_| match random(9) {
                0..3 => uses([UseKind::Reads, UseKind::Writes][random(2)], random(8), random(8) == 0),
                3 => records(random(8), random(2)),
                4 | 5 => follows(random(8), random(2)),
                6 => completes(AwaitedWork::Stream(random(8))),
                7 => completes(AwaitedWork::Event(random(2))),
                _ => completes(AwaitedWork::Process(random(2))),
            })
            .collect();
        let (before, found) = (comes_before(&all), pairs(&book(&all)));
        for (first, second) in (0..all.len()).flat_map(|second| (0..second).map(move |first| (first, second))) {
            let (StepEffect::Uses(one), StepEffect::Uses(other)) = (all[first], all[second]) else {
                continue;
            };
            let conflicts = one.how == UseKind::Writes || other.how == UseKind::Writes;
            let is_open = conflicts && one.stream != other.stream && !before[first][second];
            let is_found = found.iter().any(|(_, pair)| (pair.first, pair.second) == (first, second));
            assert_eq!(is_found, is_open, "{first} and {second} of {all:#?}");
            wrong += usize::from(is_found);
        }
    }
    assert!(wrong > 500, "{wrong}");
}
