use super::*;
use cupeer_spec::record::slot::slot_word;

/// The words of a block: its header, and slots.
type Words = Vec<[u64; SLOT / 8]>;

fn block(base: u64, slots: &[[u64; SLOT / 8]]) -> Words {
    let mut header = BlockHeader { magic: BLOCK_MAGIC, base, ..BlockHeader::default() };
    let start: *mut u64 = (&raw mut header).cast();
    // SAFETY: a header is as large as a slot, and made of plain words.
    let first = core::array::from_fn(|i| unsafe { start.add(i).read() });
    core::iter::once(first).chain(slots.iter().copied()).collect()
}

fn slot(first: u64, calls: u64) -> [u64; SLOT / 8] {
    let mut slot = [0; SLOT / 8];
    (slot[0], slot[core::mem::offset_of!(slot::RepeatedCalls, calls) / 8]) = (first, calls);
    slot
}

fn count(words: &mut Words) -> u64 {
    // SAFETY: the block is this test's, with as many slots after its header.
    unsafe { count_calls_in_block(words.as_mut_ptr().cast(), words.len() - 1) }
}

#[test]
fn only_calls_are_counted() {
    let base = u64::from(u32::MAX);
    let mut words = block(
        base,
        &[
            slot(slot_word(slot::RETURNED, 1, 7, base as u32), 0),
            slot(slot_word(slot::DETAIL, 2, u16::MAX, 0), 0),
            // The second slot of the detail, with addresses of frames.
            slot(0x7f00_1234_5603, u64::MAX),
            slot(slot_word(slot::UNWOUND | slot::INJECTED, 1, 7, 2), 0),
            slot(slot_word(slot::RUN, 1, 7, 3), 2 * 1000 + 1),
            slot(slot_word(slot::LATE_END, 1, 7, 4), 0),
            // One slot from an earlier lap, and one that was never written.
            slot(slot_word(slot::RETURNED, 1, 7, 0x8000_0000), 0),
            slot(0, 0),
        ],
    );
    assert_eq!(count(&mut words), 2 + 1000);
}

#[test]
fn a_detail_ends_at_the_end_of_the_block() {
    let mut words = block(0, &[slot(slot_word(slot::DETAIL, 9, u16::MAX, 0), 0)]);
    assert_eq!(count(&mut words), 0);
}
