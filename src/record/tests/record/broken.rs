//! Damaged bytes: reading never panics, and never returns more events than there are slots.

use super::call;
use cupeer_record::writer::{About, Writer};
use cupeer_record::{Call, Details, Finding, FindingObject, FiredFault, Follower, LiveTable, Outcome, Process};
use cupeer_spec::record::slot::finding::Severity;
use cupeer_spec::record::slot::{self, finding::Confidence};
use cupeer_spec::record::{BLOCK, counted, live, meta};
use proptest::prelude::*;

/// Reads all data, and calls all queries.
fn read_all(bytes: Vec<u8>) -> Result<(), TestCaseError> {
    let slots = bytes.len() / 64 + 1;
    let Ok(process) = Process::from_bytes("a.cupeer", bytes) else { return Ok(()) };
    let _ = (process.rank(), process.host(), process.program());
    prop_assert!(process.counted_memory().rows.len() <= counted::ROWS);
    let mut events = process.events().expect("memory can be read");
    let mut count = 0;
    for event in &mut events {
        count += 1;
        prop_assert!(count <= slots, "more events than slots");
        if let cupeer_record::Event::Call(call) = &event {
            let args = call.function.map_or(0, |function| function.spec().args().len());
            (0..args + 1).for_each(|index| drop(call.argument(index).map(<[u8]>::to_vec)));
            let _ = (process.function_name(call.number), process.library_at(call.caller, call.start));
            let objects = call.details.findings.iter().flat_map(|finding| &finding.objects);
            objects.for_each(|object| drop(object.library_name()));
            let _ = (call.injecting_fault(), call.stopping_fault());
            prop_assert!(
                call.details.hits.iter().all(|hit| !hit.fault_name.is_empty() && hit.effect_words().count() <= 16)
            );
        }
    }
    prop_assert!(events.first_error().is_none());
    // A follower sees no more than a reader, however often it looks.
    let mut follower = Follower::new(&process).expect("memory can be read");
    for _ in 0..2 {
        while follower.look(1).is_ok() && follower.unread_blocks() > 0 {}
        let most = slots as u64 * (1 + slot::RepeatedCalls::MOST);
        prop_assert!(follower.unreturned().count() <= slots && follower.counts().failed <= most);
    }
    Ok(())
}

/// A record with everything in it, of about ten blocks.
fn good(ring: bool) -> Vec<u8> {
    let mut writer = Writer::in_memory(About { ring: ring.then_some(9), ..About::default() });
    let streams = [1, 2, 3].map(|tid| writer.stream(tid).unwrap());
    writer.text("host", "node").unwrap();
    let table: Vec<u8> = (0..=counted::WORDS as u64).flat_map(|word| (8 + word % 3).to_le_bytes()).collect();
    writer.entry(meta::COUNTED, &[&table]).unwrap();
    let mut begun = Vec::new();
    for i in 0..1500u64 {
        let stream = streams[i as usize % 3];
        let details = Details {
            frames: vec![1, 2, 3],
            texts: vec![(0, vec![b'x'; 200])],
            message: Some(b"no".to_vec()),
            findings: vec![Finding {
                confidence: Confidence::Stale,
                severity: Severity::Error,
                argument: Some(2),
                rule: "ipc-flags".into(),
                message: "Flags is 0".into(),
                hint: "Pass 1.".into(),
                objects: vec![FindingObject { what: slot::finding::FindingObject::default(), frames: vec![1, 2] }],
            }],
            hits: vec![FiredFault {
                what: slot::hit::FiredFault { did: 257, count: i, ..Default::default() },
                fault_name: "a/1".into(),
            }],
            ..Details::default()
        };
        let call = Call { details: details.into(), outcome: Outcome::Returned(1), ..call(10 * i, i) };
        match i % 10 {
            0 => writer.call(stream, &call).map(drop).unwrap(),
            1 => begun.push((stream, writer.begin(stream, &call).unwrap())),
            2 if i > 1000 => {
                let (stream, number) = begun.remove(0);
                writer.end(stream, number, &call).unwrap();
            }
            3 => writer.mark(stream, 10 * i, b"a mark").unwrap(),
            4 => writer.add_thread_change(stream, 10 * i, 77).unwrap(),
            _ => drop(writer.call(stream, &super::call(10 * i, i)).unwrap()),
        }
    }
    writer.into_bytes()
}

/// Damage to a file. Places are fractions of the file, in 65536ths.
#[derive(Clone, Debug)]
enum Damage {
    /// A byte of the header, of the head of a block, of its end, or of a slot's first word.
    Header(u8, u8),
    Head(u8, u8, u8),
    Trailer(u8, u8, u8),
    Word(u16, u8, u8),
    Any(u16, u8),
    /// Duplicates a block, or swaps two blocks.
    Copy(u8, u8),
    Swap(u8, u8),
    Fill(u8, u8),
    Cut(u16),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        (any::<u8>(), any::<u8>()).prop_map(|(at, byte)| Damage::Header(at, byte)),
        (any::<u8>(), 0..64u8, any::<u8>()).prop_map(|(block, at, byte)| Damage::Head(block, at, byte)),
        (any::<u8>(), 0..24u8, any::<u8>()).prop_map(|(block, at, byte)| Damage::Trailer(block, at, byte)),
        (any::<u16>(), 0..16u8, any::<u8>()).prop_map(|(slot, at, byte)| Damage::Word(slot, at, byte)),
        (any::<u16>(), any::<u8>()).prop_map(|(at, byte)| Damage::Any(at, byte)),
        (any::<u8>(), any::<u8>()).prop_map(|(from, to)| Damage::Copy(from, to)),
        (any::<u8>(), any::<u8>()).prop_map(|(from, to)| Damage::Swap(from, to)),
        (any::<u8>(), any::<u8>()).prop_map(|(block, byte)| Damage::Fill(block, byte)),
        any::<u16>().prop_map(Damage::Cut),
    ]
}

fn hurt(bytes: &mut Vec<u8>, damage: &Damage) {
    let blocks = bytes.len() / BLOCK;
    if blocks == 0 {
        return;
    }
    let block = |number: u8| usize::from(number) % blocks * BLOCK;
    let mut set = |at: usize, byte: u8| bytes.iter_mut().skip(at).take(1).for_each(|place| *place = byte);
    match *damage {
        Damage::Header(at, byte) => set(at.into(), byte),
        Damage::Head(number, at, byte) => set(block(number) + usize::from(at), byte),
        Damage::Trailer(number, at, byte) => set(block(number) + BLOCK - 64 + usize::from(at), byte),
        Damage::Word(slot, at, byte) => set(usize::from(slot) * 64 + usize::from(at), byte),
        Damage::Any(at, byte) => set(usize::from(at) * ((blocks * BLOCK) >> 16), byte),
        Damage::Copy(from, to) => bytes.copy_within(block(from)..block(from) + BLOCK, block(to)),
        Damage::Swap(from, to) => (0..BLOCK).for_each(|i| bytes.swap(block(from) + i, block(to) + i)),
        Damage::Fill(number, byte) => bytes[block(number)..][..BLOCK].fill(byte),
        Damage::Cut(at) => bytes.truncate(usize::from(at) * ((blocks * BLOCK) >> 16)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_record_breaks_nothing(
        ring in any::<bool>(),
        damages in proptest::collection::vec(damage(), 1..12),
    ) {
        let mut bytes = good(ring);
        damages.iter().for_each(|damage| hurt(&mut bytes, damage));
        read_all(bytes)?;
    }

    #[test]
    fn random_blocks_break_nothing(
        heads in proptest::collection::vec((1..5u8, 0..3u8, any::<u8>(), any::<u64>()), 1..8),
    ) {
        let mut bytes = good(false);
        bytes.truncate(BLOCK);
        for (kind, stream, base, seed) in heads {
            let start = bytes.len();
            let mut state = seed;
            bytes.extend((0..BLOCK).map(|_| {
                state = live::mix_bits(state.wrapping_add(1));
                state as u8
            }));
            let head = [b'C', b'U', b'P', b'B', kind, 0, 0, 0, stream, 0, 0, 0];
            bytes[start..start + head.len()].copy_from_slice(&head);
            // Slots that are there by their numbers, and random otherwise.
            bytes[start + 16..start + 24].copy_from_slice(&u64::from(base).to_le_bytes());
            for i in 0..BLOCK / 64 - 2 {
                let place = start + 64 * (1 + i);
                bytes[place] &= 0x0f;
                bytes[place + 4..place + 8].copy_from_slice(&(u32::from(base) + i as u32).to_le_bytes());
            }
            bytes[start + 24..start + 28].copy_from_slice(&500u32.to_le_bytes());
            let trailer = start + BLOCK - 64;
            bytes[trailer..trailer + 4].copy_from_slice(b"CUPE");
            bytes.copy_within(start + 8..start + 12, trailer + 4);
            bytes.copy_within(start + 16..start + 28, trailer + 8);
        }
        read_all(bytes)?;
    }

    #[test]
    fn random_bytes_are_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..3000), begins in any::<bool>()) {
        let mut bytes = bytes;
        if begins && bytes.len() > 20 {
            bytes[..8].copy_from_slice(&cupeer_spec::record::MAGIC);
            bytes[8..16].copy_from_slice(&[1, 0, 0, 0, 0, 0x80, 0, 0]);
        }
        read_all(bytes.clone())?;
        if begins && bytes.len() > 20 {
            bytes[..8].copy_from_slice(&live::MAGIC);
            bytes[8..12].copy_from_slice(&live::VERSION.to_le_bytes());
            bytes[12..16].copy_from_slice(&(size_of::<live::Entry>() as u32).to_le_bytes());
        }
        let _ = LiveTable::from_bytes("live", bytes);
    }
}
