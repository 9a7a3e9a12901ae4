//! Denies multicast objects, which reach the memory of several devices over NVLink without peer access. A device that
//! is part of a denied pair has no multicast.

use super::{Denied, denial_with_result, devices, pairs};
use crate::driver::queries;
use crate::fault::forward::ForwardedCall;
use crate::sys::program_memory::is_readable;
use cupeer_spec::effect::AddedDevice;
use cupeer_spec::results::Result;

/// Denies adding a device to a multicast object. A device that this process does not see goes to the driver, which refuses it.
pub fn deny_join(call: &ForwardedCall, joined: AddedDevice) -> Option<Denied> {
    let ordinal = call.words[joined.device] as i32;
    let is_seen = queries::device_count().is_some_and(|count| (0..count).contains(&ordinal));
    let which = pairs()?.find_entry_with(&devices::of_ordinal(ordinal)).filter(|_| is_seen)?;
    Some(denial_with_result(Result::NOT_SUPPORTED, which))
}

/// Denies creating a multicast object, whose devices are not known yet. Arguments that cannot be read go to the driver, which
/// refuses them.
pub fn deny_creation(call: &ForwardedCall) -> Option<Denied> {
    let readable = |word: &u64| is_readable(*word as *const u8, 1);
    if !call.words[..call.id.spec().args().len()].iter().all(readable) {
        return None;
    }
    let pairs = pairs()?;
    let which = (0..queries::device_count()?).find_map(|device| pairs.find_entry_with(&devices::of_ordinal(device)))?;
    Some(denial_with_result(Result::NOT_SUPPORTED, which))
}
