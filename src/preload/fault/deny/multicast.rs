//! Denies multicast objects, which reach the memory of several devices over NVLink without peer access. A device that
//! is part of a denied pair has no multicast.

use super::{Denied, devices, pairs, refused};
use crate::driver::queries;
use crate::fault::forward::Forward;
use crate::sys::program_memory::is_readable;
use cupeer_spec::effect::AddedDevice;
use cupeer_spec::results::Result;

/// Denies adding a device to a multicast object. A device that this process does not see goes to the driver, which refuses it.
pub fn deny_join(call: &Forward, joined: AddedDevice) -> Option<Denied> {
    let ordinal = call.words[joined.device] as i32;
    let is_seen = queries::device_count().is_some_and(|count| (0..count).contains(&ordinal));
    let which = pairs()?.touches(&devices::of_ordinal(ordinal)).filter(|_| is_seen)?;
    Some(refused(Result::NOT_SUPPORTED, which))
}

/// Denies creating a multicast object, whose devices are not known yet. Arguments that cannot be read go to the driver, which
/// refuses them.
pub fn deny_creation(call: &Forward) -> Option<Denied> {
    let readable = |word: &u64| is_readable(*word as *const u8, 1);
    if !call.words[..call.id.spec().args().len()].iter().all(readable) {
        return None;
    }
    let pairs = pairs()?;
    let which =
        (0..queries::device_count()?).find_map(|device| pairs.touches(&devices::of_ordinal(device)))?;
    Some(refused(Result::NOT_SUPPORTED, which))
}
