//! Remembers the devices of addresses, so that a program that copies often does not pay for a query per copy.
//!
//! An answer is valid until a call maps, opens, closes, or frees memory, or ends a context, and for [`VALID_FOR`] at most:
//! programs can also change their memory in ways that cupeer does not see. Readers take no lock and write nothing.

use super::queries::{DEVICE_MEMORY, attributes, numeric_argument};
use crate::resolve::needs::{self, HistoryCondition};
use crate::sys::clock;
use crate::sys::guard::guarded;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
    fence,
};
use cupeer_spec::effect::Copied;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::MOST_ARGS;

/// Time for which an answer is valid, in nanoseconds, with an error of a few milliseconds.
const VALID_FOR: u64 = 100_000_000;
/// Number of answers that are remembered. A new answer replaces an earlier one in the same slot.
const MOST: usize = 256;
/// Number of bits of an address within a granule of 2 MiB, the smallest unit that a driver maps. Addresses in the same
/// granule share a slot.
const GRANULE_SHIFT: u32 = 21;

/// Answer of the driver about an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Range of addresses for which the answer is valid: its start address and size in bytes.
    pub range: (u64, u64),
    /// Device of the memory; `None` if the address is not in device memory.
    pub device: Option<i32>,
}

/// Answer that was found in its slot: the device, as in [`Answer`], and the time of the query.
struct RememberedAnswer {
    device: Option<i32>,
    since: u64,
}

struct AnswerSlot {
    /// Version of the slot: odd while a thread writes to it.
    version: AtomicU64,
    start: AtomicU64,
    bytes: AtomicU64,
    /// Ordinal of the device, plus one; 0 for none.
    device: AtomicU64,
    /// Value of [`CHANGES`] when the driver was queried.
    changes: AtomicU64,
    /// Time of the query.
    since: AtomicU64,
}

static PLACES: [AnswerSlot; MOST] = [const {
    AnswerSlot {
        version: AtomicU64::new(0),
        start: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        device: AtomicU64::new(0),
        changes: AtomicU64::new(0),
        since: AtomicU64::new(0),
    }
}; MOST];

/// Number of calls that may have changed the devices of addresses.
static CHANGES: AtomicU64 = AtomicU64::new(0);

/// Counts a call that may have changed the devices of addresses, so that all earlier answers become invalid.
#[inline]
pub fn note_memory_change() {
    CHANGES.fetch_add(1, Release);
}

/// Returns the slot for the answer about an address.
fn slot_for_address(address: u64) -> &'static AnswerSlot {
    let hash = (address >> GRANULE_SHIFT).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - MOST.ilog2());
    &PLACES[hash as usize]
}

/// Returns true if two addresses are known to be on the same device. Makes no query. Valid only in a process that shares memory:
/// see [`device_of_memory`].
#[inline(never)]
pub fn are_on_one_device(one: u64, other: u64) -> bool {
    let changes = CHANGES.load(Acquire);
    let known = |address| slot_for_address(address).read(address, changes).filter(|known| known.device.is_some());
    let both = known(one).zip(known(other)).filter(|(one, other)| one.device == other.device);
    // The age is tested last, because reading the clock takes longer than everything else here.
    both.is_some_and(|(one, other)| is_fresh(one.since.min(other.since), clock::roughly_now()))
}

/// Returns true if an answer from the time `since` is still valid at the time `now`.
fn is_fresh(since: u64, now: u64) -> bool {
    now.wrapping_sub(since) < VALID_FOR
}

/// Returns the device of an address. Calls `ask`, which queries the driver, if no valid answer is remembered.
fn device(address: u64, ask: impl FnOnce() -> Option<Answer>) -> Option<i32> {
    let place = slot_for_address(address);
    let (changes, now) = (CHANGES.load(Acquire), clock::roughly_now());
    if let Some(known) = place.read(address, changes).filter(|known| is_fresh(known.since, now)) {
        return known.device;
    }
    let answer = ask()?;
    place.write(answer, changes, now);
    answer.device
}

/// Returns the source and the destination device of a copy; `None` if both are the same, or are not known. For memory that was
/// opened by a handle, the driver returns the device that opened the memory: `opened`, which gets the start address of the
/// memory, returns the device that the memory is on.
pub fn devices_of_copy(
    id: FnId,
    args: &[u8; MOST_ARGS],
    copied: Copied,
    opened: impl Fn(u64) -> Option<i32>,
) -> Option<[i32; 2]> {
    let place = |argument| device_of_memory(numeric_argument(id, args, argument), &opened);
    let (from, to) = (place(copied.from)?, place(copied.to)?);
    (from != to).then_some([from, to])
}

/// Returns the device that the memory at an address is on; `None` if it is not device memory. `opened` is as for
/// [`devices_of_copy`].
pub fn device_of_memory(address: u64, opened: impl Fn(u64) -> Option<i32>) -> Option<i32> {
    /// Number of bytes for which an answer about host memory is valid: a page.
    const PAGE: u64 = 4096;
    let ask = || {
        // CU_POINTER_ATTRIBUTE_ MEMORY_TYPE, DEVICE_ORDINAL, RANGE_START_ADDR and RANGE_SIZE.
        let [memory_type, device, start, bytes] = attributes([2, 9, 11, 12], address)?;
        Some(match memory_type {
            DEVICE_MEMORY => Answer {
                range: in_granule(address, (start, bytes)),
                device: Some(opened(start).unwrap_or(device as i32)),
            },
            _ => Answer { range: (address & !(PAGE - 1), PAGE), device: None },
        })
    };
    let ask = || {
        let mut answer = None;
        guarded(|| answer = ask());
        answer
    };
    // Until a process shares memory, we do not see its frees, so no answer is remembered.
    if needs::has_met(HistoryCondition::Shared) { device(address, ask) } else { ask()?.device }
}

/// Returns the part of a range that is in the granule of an address. For virtual memory, the driver returns the reserved range, in which
/// several devices may have memory.
fn in_granule(address: u64, (start, bytes): (u64, u64)) -> (u64, u64) {
    let granule = address >> GRANULE_SHIFT << GRANULE_SHIFT;
    let first = start.max(granule);
    let end = start.saturating_add(bytes).min(granule + (1 << GRANULE_SHIFT));
    (first, end.saturating_sub(first))
}

impl AnswerSlot {
    fn read(&self, address: u64, changes: u64) -> Option<RememberedAnswer> {
        let version = self.version.load(Acquire);
        let (start, bytes) = (self.start.load(Relaxed), self.bytes.load(Relaxed));
        let (device, since) = (self.device.load(Relaxed), self.since.load(Relaxed));
        let is_unchanged = self.changes.load(Relaxed) == changes;
        fence(Acquire);
        let is_whole = version & 1 == 0 && self.version.load(Relaxed) == version;
        (is_whole && is_unchanged && address.wrapping_sub(start) < bytes)
            .then(|| RememberedAnswer { device: device.checked_sub(1).map(|device| device as i32), since })
    }

    /// Writes an answer to the place. Writes nothing if another thread is writing, or the call that this signal handler
    /// interrupted.
    fn write(&self, Answer { range: (start, bytes), device }: Answer, changes: u64, now: u64) {
        let version = self.version.load(Relaxed);
        if version & 1 != 0 || self.version.compare_exchange(version, version + 1, Acquire, Relaxed).is_err() {
            return;
        }
        fence(Release);
        self.start.store(start, Relaxed);
        self.bytes.store(bytes, Relaxed);
        self.device.store(device.map_or(0, |device| u64::from(device as u32) + 1), Relaxed);
        self.changes.store(changes, Relaxed);
        self.since.store(now, Relaxed);
        self.version.store(version + 2, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr;

    #[test]
    fn an_answer_for_a_reservation_is_valid_in_one_granule() {
        let reserved = (0x7f00_0010_0000, 1 << 30);
        assert_eq!(in_granule(0x7f00_0010_0008, reserved), (0x7f00_0010_0000, 1 << 20));
        assert_eq!(in_granule(0x7f00_0020_0008, reserved), (0x7f00_0020_0000, 2 << 20));
        assert_eq!(in_granule(0x7f00_0020_0008, (0x7f00_0020_0000, 512)), (0x7f00_0020_0000, 512));
    }

    #[test]
    fn the_driver_is_queried_again_after_a_change_of_memory() {
        let at = 0x7fff_0020_0000;
        let answer = |device| move || Some(Answer { range: (at, 4096), device });
        let unasked = || panic!("the answer is known");
        assert_eq!(device(at + 8, || None), None);
        assert_eq!(device(at + 8, answer(Some(3))), Some(3));
        assert_eq!([device(at, unasked), device(at + 4095, unasked)], [Some(3); 2]);
        // Another allocation in the same granule.
        assert_eq!(device(at + 4096, || Some(Answer { range: (at + 4096, 1), device: Some(1) })), Some(1));
        assert_eq!(device(at, answer(None)), None);
        assert_eq!(device(at, unasked), None);
        note_memory_change();
        assert_eq!(device(at, answer(Some(2))), Some(2));
        // A place that another thread is writing is neither read nor written.
        let place = PLACES.iter().find(|place| place.start.load(Relaxed) == at).unwrap();
        place.version.fetch_add(1, Relaxed);
        assert_eq!(device(at, answer(Some(5))), Some(5));
        place.version.fetch_add(1, Relaxed);
        assert_eq!(device(at, unasked), Some(2));
        // An address with another place.
        let beside = (1..)
            .map(|granule| at + (granule << GRANULE_SHIFT))
            .find(|other| !ptr::eq(super::slot_for_address(*other), place));
        let beside = beside.unwrap();
        assert!(are_on_one_device(at, at + 8) && !are_on_one_device(at, beside));
        let lies_on = |on| device(beside, || Some(Answer { range: (beside, 8), device: on }));
        assert!(lies_on(Some(2)) == Some(2) && are_on_one_device(at, beside + 7) && !are_on_one_device(at, beside + 8));
        note_memory_change();
        assert!(!are_on_one_device(at, at));
        assert_eq!([device(at, answer(Some(2))), lies_on(Some(1))], [Some(2), Some(1)]);
        assert!(!are_on_one_device(beside, at));
        note_memory_change();
        assert_eq!([device(at, answer(Some(2))), lies_on(None)], [Some(2), None]);
        assert!(!are_on_one_device(beside, at) && !are_on_one_device(beside, beside));
        let RememberedAnswer { device, since } = place.read(at, CHANGES.load(Relaxed)).unwrap();
        assert_eq!(device, Some(2));
        assert!(is_fresh(since, since + VALID_FOR - 1) && !is_fresh(since, since + VALID_FOR));
    }
}
