//! Notes how much memory a device has left when a call fails because there is too little.

use crate::driver::facts::Note;
use crate::driver::{counted, queries};
use crate::log::status;
use crate::sys::every_call::recording_epoch;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use cupeer_spec::record::slot::detail;

/// Number of failures that are all noted. Of later failures, the 128th, the 256th, and so on are noted, because some programs ask
/// for less and less memory until they get it.
const ALL_NOTED: u64 = 64;

/// Passes the free memory of the current device to `note`. If the driver itself failed the call (`is_real`), wakes the launcher
/// as well. Requires a current context, because this creates none.
pub fn note_memory(is_real: bool, note: Note) {
    static RECORD: AtomicU64 = AtomicU64::new(0);
    static FAILURES: AtomicU64 = AtomicU64::new(0);
    let epoch = recording_epoch();
    if RECORD.swap(epoch, Relaxed) != epoch {
        FAILURES.store(0, Relaxed);
    }
    let number = FAILURES.fetch_add(1, Relaxed) + 1;
    if number > ALL_NOTED && !number.is_power_of_two() {
        return;
    }
    if let Some((device, [free, total])) = queries::free_memory() {
        let (bytes, count) = counted::sum_on_device(device);
        let words = [device as u64, free, total, bytes, count];
        note(detail::LEFT, words.map(u64::to_le_bytes).as_flattened());
    }
    if is_real {
        status::report_memory_exhausted();
    }
}
