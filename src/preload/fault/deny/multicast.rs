//! Denies multicast objects, which reach the memory of several devices over NVLink without peer access. A device that
//! is part of a denied pair has no multicast.

use super::{Denied, devices, pairs, refused};
use crate::driver::questions;
use crate::fault::forward::Forward;
use crate::sys::program_memory::is_readable;
use cupeer_spec::effect::Joined;
use cupeer_spec::results::Result;

/// A device is added. One that the process does not see, the driver shall refuse itself.
pub fn join(call: &Forward, joined: Joined) -> Option<Denied> {
    let ordinal = call.words[joined.device] as i32;
    let is_seen = questions::device_count().is_some_and(|count| (0..count).contains(&ordinal));
    let which = pairs()?.touches(&devices::of_ordinal(ordinal)).filter(|_| is_seen)?;
    Some(refused(Result::NOT_SUPPORTED, which))
}

/// A multicast object is made; for which devices is not said yet. What cannot be read, the driver shall refuse itself.
pub fn gather(call: &Forward) -> Option<Denied> {
    let readable = |word: &u64| is_readable(*word as *const u8, 1);
    if !call.words[..call.id.spec().args().len()].iter().all(readable) {
        return None;
    }
    let pairs = pairs()?;
    let which =
        (0..questions::device_count()?).find_map(|device| pairs.touches(&devices::of_ordinal(device)))?;
    Some(refused(Result::NOT_SUPPORTED, which))
}
