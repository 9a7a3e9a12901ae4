//! Notes how much memory a device has left when a call fails because there is too little.

use crate::driver::facts::Note;
use crate::driver::{counted, queries};
use crate::log::status;
use crate::sys::every_call::epoch;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use cupeer_spec::record::slot::detail;

/// The number of failures that are all noted. Later ones are noted if their number is a power of two, because some programs ask for
/// less and less memory until they get it.
const MANY: u64 = 64;

/// Passes the memory that is left to `note`, and wakes the launcher if the driver itself failed the call. Creates no context, so one
/// must be current.
pub fn note_memory(is_real: bool, note: Note) {
    static RECORD: AtomicU64 = AtomicU64::new(0);
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let epoch = epoch();
    if RECORD.swap(epoch, Relaxed) != epoch {
        CALLS.store(0, Relaxed);
    }
    let number = CALLS.fetch_add(1, Relaxed) + 1;
    if number > MANY && !number.is_power_of_two() {
        return;
    }
    if let Some((device, [free, total])) = queries::left() {
        let (bytes, count) = counted::on_device(device);
        let words = [device as u64, free, total, bytes, count];
        note(detail::LEFT, words.map(u64::to_le_bytes).as_flattened());
    }
    if is_real {
        status::exhausted();
    }
}
