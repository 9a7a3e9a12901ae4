//! The slots that count, and the calls that they belong to.

use super::{all_calls, call, calls, events, fill, one_stream, read, which};
use cupeer_record::{CopyContent, Details, DeviceMemoryState, Event, Outcome, writer};
use cupeer_spec::record::slot::{self, PythonLine, detail};
use cupeer_spec::record::{self, BLOCK, BlockHeader, SLOTS};

/// Returns the offset of slot `i` of a block.
fn slot_place(block: usize, i: usize) -> usize {
    block * BLOCK + (1 + i) * 64
}

#[test]
fn a_torn_chunk_does_not_count_and_its_window_does() {
    let (mut writer, stream) = one_stream();
    fill(&mut writer, stream, 0..2 * SLOTS as u64);
    // The window is full. Simulate a process that died while it copied the window.
    let mut bytes = writer.into_bytes();
    let mut chunk = bytes[BLOCK..2 * BLOCK].to_vec();
    let mut header: BlockHeader = record::read_plain(&chunk).unwrap();
    header.kind = record::block::CHUNK;
    header.used = SLOTS as u32;
    chunk[..64].copy_from_slice(record::plain_bytes(&header));
    let half = BLOCK / 2;
    chunk[half..].fill(0);
    bytes.extend(&chunk);
    let process = read(bytes.clone());
    assert_eq!(process.events().unwrap().count(), 2 * SLOTS);
    // The file may also end within it.
    bytes.truncate(bytes.len() - half);
    let process = read(bytes);
    assert_eq!(process.problem, None);
    assert_eq!(process.events().unwrap().count(), 2 * SLOTS);
}

#[test]
fn slots_that_stand_in_window_and_chunk_are_taken_once() {
    let (mut writer, stream) = one_stream();
    fill(&mut writer, stream, 0..SLOTS as u64 + 5);
    // As if the process had died after copying the window and before reusing it: window and chunk are equal.
    let mut bytes = writer.into_bytes();
    let mut chunk = bytes[2 * BLOCK..3 * BLOCK].to_vec();
    let mut header: BlockHeader = record::read_plain(&chunk).unwrap();
    header.kind = record::block::WINDOW;
    chunk[..64].copy_from_slice(record::plain_bytes(&header));
    bytes[BLOCK..2 * BLOCK].copy_from_slice(&chunk);
    assert!(all_calls(bytes).iter().map(which).eq(0..SLOTS as u64));
}

#[test]
fn chunks_that_lie_in_disorder_are_brought_into_order() {
    let (mut writer, stream) = one_stream();
    fill(&mut writer, stream, 0..4 * SLOTS as u64);
    let mut bytes = writer.into_bytes();
    let (before, after) = bytes.split_at_mut(4 * BLOCK);
    before[2 * BLOCK..3 * BLOCK].swap_with_slice(&mut after[..BLOCK]);
    assert!(all_calls(bytes).iter().map(which).eq(0..4 * SLOTS as u64));
}

#[test]
fn stale_and_empty_slots_are_skipped() {
    let (mut writer, stream) = one_stream();
    fill(&mut writer, stream, 0..SLOTS as u64);
    // The window is reused here, and keeps its old slots.
    for i in 0..10 {
        writer.call(stream, &call(1000 + i, 1000 + i)).unwrap();
        writer.skip(stream).unwrap();
    }
    let expected = (0..SLOTS as u64).chain(1000..1010);
    assert!(all_calls(writer.into_bytes()).iter().map(which).eq(expected));
}

#[test]
fn old_details_are_not_read_as_calls() {
    let (mut writer, stream) = one_stream();
    writer.call(stream, &call(1, 1)).unwrap();
    writer.skip(stream).unwrap();
    let mut bytes = writer.into_bytes();
    // A return address in the right place: state 2, but not one slot.
    let word = slot::slot_word(slot::RETURNED, 0x73, 0x1f2b, 1);
    bytes[slot_place(1, 1)..][..8].copy_from_slice(&word.to_le_bytes());
    assert_eq!(events(bytes).len(), 1);
}

#[test]
fn details_belong_to_their_call() {
    let (mut writer, stream) = one_stream();
    let details = Details {
        arguments: (0..40).collect(),
        frames: (0..12).map(|i| 0x7f00_0000_0000 + i).collect(),
        python: (0..24).map(|i| PythonLine { function: i, line: 7 * i, frame: i as u8 }).collect(),
        elements: vec![(1, vec![1, 0, 0, 0, 2, 0, 0, 0])],
        texts: vec![(0, b"cuInit".to_vec())],
        memory: Some((0x1000, 0x2000)),
        devices: (Some(1), None),
        context: Some(0x77),
        owner: Some((0x78, -1)),
        contexts: Some(0b101),
        current: Some(2 << 48 | 0x77),
        nodes: vec![3; 8],
        ranges: vec![(0x1000, 64), (0x2000, 1 << 63 | 128)],
        content: Some(CopyContent { hash: 0x79, device: 1, is_constant: true }),
        device_memory: Some(DeviceMemoryState { device: 1, free: 2, total: 3 << 40, counted_bytes: 4, counted: 5 }),
        message: Some(b"no such thing".to_vec()),
        findings: Vec::new(),
        hits: Vec::new(),
        repeats: None,
        stack_of: None,
    };
    let with = writer::call(cupeer_spec::function::FnId::cuCtxDetach, 5, 9);
    let with = cupeer_record::Call { details: details.clone().into(), outcome: Outcome::Returned(201), ..with };
    let number = writer.call(stream, &with).unwrap();
    for i in 0..7 {
        writer.call(stream, &call(20 + i, i)).unwrap();
    }
    // An end of an earlier call, behind a signal handler's calls.
    let late = Details { texts: vec![(3, b"late".to_vec())], ..Details::default() };
    writer.details(stream, number, &late).unwrap();
    writer.call(stream, &call(40, 40)).unwrap();
    writer.call(stream, &call(41, 41)).unwrap();
    // An end of a call that was returned long ago, and one of no call.
    writer.details(stream, number, &late).unwrap();
    writer.details(stream, 1 << 40, &late).unwrap();
    let calls = all_calls(writer.into_bytes());
    assert_eq!(calls.len(), 10);
    let mut expected = details;
    expected.texts.extend(late.texts);
    assert_eq!(calls[0].details, expected);
    assert!(calls[1..].iter().all(|call| call.details == Details::default()));
}

#[test]
fn an_argument_for_which_the_slot_has_no_room_is_whole() {
    let mut call = writer::call(cupeer_spec::function::FnId::cuMemMap, 5, 9);
    call.slot.args = [0xff; slot::ARGS];
    call.details = Details { arguments: (0..40).collect(), ..Details::default() }.into();
    // Three words fit; of the fourth there would be a half.
    let all = call.arguments();
    assert!(all[..24].iter().all(|byte| *byte == 0xff) && (24..40).all(|at| all[at] == at as u8), "{all:?}");
}

#[test]
fn a_detail_whose_slots_leave_the_block_says_nothing() {
    let (mut writer, stream) = one_stream();
    fill(&mut writer, stream, 0..SLOTS as u64 - 1);
    let mut bytes = writer.into_bytes();
    let last = SLOTS - 1;
    let word = slot::slot_word(slot::DETAIL, 2, 0, last as u32);
    let place = slot_place(1, last);
    bytes[place..place + 8].copy_from_slice(&word.to_le_bytes());
    bytes[place + 8..place + 16].copy_from_slice(&(last as u64 - 1).to_le_bytes());
    bytes[place + 16] = detail::CONTEXT;
    bytes[place + 18] = 8;
    let calls = all_calls(bytes);
    assert_eq!(calls.len(), last);
    assert!(calls.iter().all(|call| call.details == Details::default()));
}

#[test]
fn an_end_that_comes_late_finds_its_call_or_comes_alone() {
    let (mut writer, stream) = one_stream();
    let begin = |writer: &mut writer::Writer, which| {
        let mut pending = call(10, which);
        writer::set_shape(&mut pending, "ctx", slot::shape::UNREAD);
        pending.caller = 0x1234;
        (writer.begin(stream, &pending).unwrap(), pending)
    };
    let (far, pending) = begin(&mut writer, 1);
    for i in 0..SLOTS as u64 - 3 {
        writer.call(stream, &call(20 + i, i)).unwrap();
    }
    let (near, _) = begin(&mut writer, 2);
    let (never, _) = begin(&mut writer, 3);
    // The window is reused here.
    let end = |end, which, result| {
        let mut ended = call(10, which);
        ended.end = end;
        ended.outcome = Outcome::Returned(result);
        ended.injected = true;
        ended.details.context = Some(which);
        ended
    };
    writer.call(stream, &call(900, 900)).unwrap();
    writer.end(stream, near, &end(1000, 2, 2)).unwrap();
    writer.end(stream, far, &end(1001, 1, 1)).unwrap();
    // A second end, and the end of an unseen call.
    writer.end(stream, far, &end(1002, 1, 1)).unwrap();
    let number = slot::slot_word(slot::LATE_END, 1, 0, 0);
    writer.slot(stream, slot::Slot { word: number, start: 1 << 50, ..pending.slot }).unwrap();

    let events = events(writer.into_bytes());
    let all = calls(&events);
    let find = |seq| all.iter().copied().find(|call| call.seq == seq).unwrap();
    assert_eq!((find(near).outcome, find(near).end, find(near).injected), (Outcome::Returned(2), 1000, true));
    assert_eq!((which(find(near)), find(near).caller), (2, 0x1234));
    assert_eq!(find(near).details.context, Some(2));
    assert_eq!((find(never).outcome, find(never).end), (Outcome::Pending, 10));
    assert_eq!(find(far).outcome, Outcome::Pending);
    let late: Vec<&Event> = events.iter().filter(|event| matches!(event, Event::LateEnd { .. })).collect();
    assert_eq!(late.len(), 1);
    assert_eq!(late[0].start(), 1001);
    let mut finished = find(far).clone();
    assert!(!find(never).clone().apply_late_end(late[0]));
    assert!(finished.apply_late_end(late[0]));
    assert_eq!((finished.outcome, finished.end, finished.start), (Outcome::Returned(1), 1001, 10));
    assert_eq!((which(&finished), finished.caller, finished.injected), (1, 0x1234, true));
    assert_eq!(finished.details.context, Some(1));
    assert_eq!(finished.slot.state(), slot::RETURNED);
}

#[test]
fn unknown_kinds_are_skipped_with_all_their_slots() {
    let (mut writer, stream) = one_stream();
    writer.call(stream, &call(1, 1)).unwrap();
    // Contains bytes that look like a call.
    let inner = slot::slot_word(slot::RETURNED, 1, 0, 2);
    let mut items = vec![0; 48];
    items.extend(inner.to_le_bytes());
    writer.items(stream, 77, 5, &items).unwrap();
    writer.call(stream, &call(6, 6)).unwrap();
    assert!(all_calls(writer.into_bytes()).iter().map(which).eq([1, 6]));
}

#[test]
fn an_unwound_call_says_so() {
    let (mut writer, stream) = one_stream();
    let unwound = cupeer_record::Call { outcome: Outcome::Unwound, ..call(1, 1) };
    writer.call(stream, &unwound).unwrap();
    let number = writer.begin(stream, &call(3, 3)).unwrap();
    writer.end(stream, number, &call(3, 3)).unwrap();
    let outcomes: Vec<Outcome> = all_calls(writer.into_bytes()).iter().map(|call| call.outcome).collect();
    assert_eq!(outcomes, [Outcome::Unwound, Outcome::Returned(0)]);
}

#[test]
fn functions_are_known_by_their_names_and_sizes() {
    let (mut writer, stream) = one_stream();
    writer.function(3000, "cuOfTheFuture", 8).unwrap();
    writer.function(3001, "cuIpcCloseMemHandle", 8).unwrap();
    writer.function(3002, "cuIpcCloseMemHandle", 12).unwrap();
    for number in 3000..3004 {
        writer.call(stream, &cupeer_record::Call { number, ..call(number.into(), 1) }).unwrap();
    }
    let process = read(writer.into_bytes());
    let functions: Vec<_> = process
        .events()
        .unwrap()
        .map(|event| match event {
            Event::Call(call) => {
                (call.function.map(|id| id.spec().name()), process.function_name(call.number).to_string())
            }
            _ => unreachable!(),
        })
        .collect();
    let close = "cuIpcCloseMemHandle".to_string();
    assert_eq!(functions[0], (None, "cuOfTheFuture".to_string()));
    assert_eq!(functions[1], (Some("cuIpcCloseMemHandle"), close.clone()));
    assert_eq!(functions[2], (None, close));
    assert_eq!(functions[3], (None, "?".to_string()));
}
