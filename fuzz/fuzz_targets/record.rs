//! Any bytes are the record of a process, or an error that says why not; and any slots are events, no more than
//! there are slots. The same bytes as a live table, and as what fault plans did.
#![no_main]

use cupeer_record::{Event, FaultFile, LiveTable, Process};
use cupeer_spec::record::{
    self, BLOCK, BLOCK_MAGIC, BlockHeader, MAGIC, META_START, SLOTS, TRAILER_MAGIC, ChunkTrailer, VERSION, faults,
    live,
};
use libfuzzer_sys::fuzz_target;

/// A block: kind, stream, base, entries or slots.
type Block<'a> = (u8, u8, u16, &'a [u8]);

fuzz_target!(|input: (bool, &[u8], &[u8], [Option<Block>; 4])| {
    let (raw, header, entries, blocks) = input;
    let mut bytes = header.to_vec();
    if !raw {
        bytes.resize(META_START, 0);
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[12..16].copy_from_slice(&(BLOCK as u32).to_le_bytes());
        bytes[20] &= 1;
        bytes[21..24].fill(0);
        bytes.extend(&entries[..entries.len().min(BLOCK - META_START)]);
        bytes.resize(BLOCK, 0);
        blocks.into_iter().flatten().for_each(|block| add(&mut bytes, block));
    }
    if let Ok(process) = Process::from_bytes("process.cupeer", bytes.clone()) {
        let slots = bytes.len() / 64;
        let events = process.events().expect("memory can be read");
        let count = events.inspect(|event| look(&process, event)).count();
        assert!(count <= slots, "{count} events in {slots} slots");
        assert!(process.counted().rows.len() <= record::counted::ROWS);
    }
    bytes.resize(bytes.len().max(16), 0);
    bytes[..8].copy_from_slice(&live::MAGIC);
    bytes[8..12].copy_from_slice(&live::VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&(size_of::<live::Entry>() as u32).to_le_bytes());
    let _ = LiveTable::from_bytes("live", bytes.clone());
    bytes[..8].copy_from_slice(&faults::MAGIC);
    bytes[8..12].copy_from_slice(&faults::VERSION.to_le_bytes());
    // Of a plan that is armed while the job is running, processes use no more than the file has.
    if let Some(header) = record::read_plain::<faults::Header>(&bytes).filter(|at| faults::is_header_within(at, bytes.len())) {
        let end = header.counters as usize + header.rules as usize * size_of::<faults::FaultCounter>();
        assert!(end <= bytes.len() && faults::TEXT + header.text as usize <= bytes.len());
    }
    let _ = faults::plan_without_names(&bytes);
    if let Ok(file) = FaultFile::from_bytes("faults", bytes) {
        let _ = FaultFile::from_bytes("faults", file.bytes()).expect("what was read can be written");
    }
});

/// Adds a block whose slots have the right numbers, a chunk with the trailer that makes it count.
fn add(bytes: &mut Vec<u8>, (kind, stream, base, content): Block) {
    let header = BlockHeader {
        magic: BLOCK_MAGIC,
        kind: (kind % 5).into(),
        stream: (stream % 4).into(),
        base: base.into(),
        used: SLOTS as u32,
        ..BlockHeader::default()
    };
    let trailer = ChunkTrailer {
        magic: TRAILER_MAGIC,
        stream: header.stream,
        base: header.base,
        used: header.used,
        ..ChunkTrailer::default()
    };
    let start = bytes.len();
    bytes.extend(record::plain_bytes(&header));
    bytes.extend(&content[..content.len().min(SLOTS * 64)]);
    bytes.resize(start + BLOCK - 64, 0);
    if header.kind != record::block::META {
        for (i, slot) in (0..).zip(bytes[start + 64..].chunks_exact_mut(64)) {
            slot[4..8].copy_from_slice(&(u32::from(base) + i).to_le_bytes());
        }
    }
    bytes.extend(record::plain_bytes(&trailer));
}

fn look(process: &Process, event: &Event) {
    if let Event::Call(call) = event {
        let args = call.function.map_or(0, |function| function.spec().args().len());
        (0..=args).for_each(|index| assert!(call.argument(index).is_none_or(|bytes| bytes.len() <= 28)));
        assert!(!process.function_name(call.number).is_empty());
        let _ = process.library_at(call.caller, call.start);
        assert!(call.end >= call.start);
        assert!(call.details.hits.iter().all(|hit| !hit.rule.is_empty()));
        for finding in &call.details.findings {
            assert!(!finding.rule.is_empty());
            assert!(
                finding.objects.iter().all(|object| object.library().len() <= 3 * object.what.library.len())
            );
        }
    }
}
