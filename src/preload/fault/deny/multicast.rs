//! Denies multicast objects, which reach the memory of several devices over NVLink without peer access. A device that
//! is part of a denied pair has no multicast.

use super::{Denied, devices, pairs, refused};
use crate::driver::queries;
use crate::fault::forward::Forward;
use crate::sys::program_memory::is_readable;
use cupeer_spec::effect::AddedDevice;
use cupeer_spec::results::Result;

/// Denies adding a device to an object. The driver refuses a device that the process does not see.
pub fn join(call: &Forward, joined: AddedDevice) -> Option<Denied> {
    let ordinal = call.words[joined.device] as i32;
    let is_seen = queries::device_count().is_some_and(|count| (0..count).contains(&ordinal));
    let which = pairs()?.touches(&devices::of_ordinal(ordinal)).filter(|_| is_seen)?;
    Some(refused(Result::NOT_SUPPORTED, which))
}

/// Denies creating an object, whose devices are not known yet. The driver refuses arguments that cannot be read.
pub fn gather(call: &Forward) -> Option<Denied> {
    let readable = |word: &u64| is_readable(*word as *const u8, 1);
    if !call.words[..call.id.spec().args().len()].iter().all(readable) {
        return None;
    }
    let pairs = pairs()?;
    let which =
        (0..queries::device_count()?).find_map(|device| pairs.touches(&devices::of_ordinal(device)))?;
    Some(refused(Result::NOT_SUPPORTED, which))
}
