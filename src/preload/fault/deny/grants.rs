//! Access to virtual memory that devices are given: the driver tells whose memory it is, or else the live table.

use super::{Denied, devices, pairs, refused};
use crate::driver::questions;
use crate::fault::inject::Forward;
use crate::record;
use crate::sys::program_memory::copy;
use cupeer_spec::deny::Identity;
use cupeer_spec::effect::{Grant, Object};
use cupeer_spec::results::Result;

/// CU_MEM_LOCATION_TYPE_DEVICE.
const DEVICE: i32 = 1;

/// What a device is to be allowed: a `CUmemAccessDesc`. The type of its place, the number of that, and the rights.
type Wish = [i32; 3];

/// The wish at an index of the program's array; `None` where it cannot be read.
fn wish(array: u64, index: u64) -> Option<Wish> {
    let mut bytes = [0; size_of::<Wish>()];
    let place = index.checked_mul(bytes.len() as u64).and_then(|offset| array.checked_add(offset))?;
    let is_read = copy(place as usize, &mut bytes) == bytes.len();
    let words = bytes.as_chunks::<4>().0;
    is_read.then(|| core::array::from_fn(|index| i32::from_le_bytes(words[index])))
}

/// The device of what is mapped at an address.
fn device_at(address: u64) -> Option<Identity> {
    let (handle, device) = questions::mapped_allocation(address)?;
    if device >= 0 {
        return Some(devices::of_ordinal(device));
    }
    // This process does not see it.
    let import = record::imported(Object::Allocation, handle)?;
    (import.uuid != [0; 16]).then(|| devices::of_uuid(import.uuid))
}

/// What the driver would refuse anyway, it shall say itself: unknown rights, a range that does not begin and end with
/// mappings. Where there are holes, it looks at what lies before the first.
pub fn before(call: &Forward, grant: Grant) -> Option<Denied> {
    let (pairs, function) = (pairs()?, call.id.spec());
    let (start, size, array) = (call.words[grant.by], call.words[grant.size?], call.words[grant.to]);
    let count = function.args[grant.to].count.and_then(|count| function.argument(count));
    let count = count.map_or(1, |(index, _)| call.words[index]);
    let end = start.checked_add(size).filter(|_| array != 0)?;
    let mut denied = None;
    for index in 0..count {
        let [kind, ordinal, rights] = wish(array, index)?;
        if !matches!(rights, 0 | 1 | 3) {
            return None;
        }
        if kind != DEVICE || rights == 0 || denied.is_some() {
            continue;
        }
        let from = devices::of_ordinal(ordinal);
        if pairs.touches(&from).is_none() {
            continue;
        }
        let mut address = start;
        while let Some(mapped) = questions::mapping(address).filter(|_| address < end) {
            if mapped.start != address || mapped.end > end {
                return None;
            }
            denied = denied.or_else(|| pairs.denies(&from, &device_at(address)?));
            address = mapped.end;
        }
    }
    denied.map(|which| refused(Result::INVALID_DEVICE, which))
}
