//! Decides about access to virtual memory and to pools. The device of the memory comes from the driver or else from
//! the live table; the device of a pool comes from its creator.

use super::{Denied, devices, pairs, refused};
use crate::driver::model;
use crate::driver::questions;
use crate::fault::forward::Forward;
use crate::recorder;
use crate::sys::program_memory::copy;
use cupeer_model::alloc_props::AllocProps;
use cupeer_spec::abi::CUmemLocation;
use cupeer_spec::deny::Identity;
use cupeer_spec::effect::{Grant, Object};
use cupeer_spec::results::Result;

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
    let import = recorder::imported(Object::Allocation, handle)?;
    (import.uuid != [0; 16]).then(|| devices::of_uuid(import.uuid))
}

/// The device of a pool. The driver does not tell: who has made it does, or the live table.
fn device_of_pool(pool: u64) -> Option<Identity> {
    if let Some(device) = model::pool(pool).and_then(|known| known.device) {
        return Some(devices::of_ordinal(device));
    }
    let import = recorder::imported(Object::Pool, pool)?;
    (import.uuid != [0; 16]).then(|| devices::of_uuid(import.uuid))
}

/// Which pair denies a device what is mapped in a range. What the driver would refuse anyway, it shall say itself: a range
/// that does not begin and end with mappings. Where there are holes, it looks at what lies before the first.
fn denied_in(from: &Identity, start: u64, size: u64) -> Option<Option<usize>> {
    let (pairs, end) = (pairs()?, start.checked_add(size)?);
    let (mut denied, mut address) = (None, start);
    while let Some(mapped) = questions::mapping(address).filter(|_| address < end) {
        if mapped.start != address || mapped.end > end {
            return None;
        }
        denied = denied.or_else(|| pairs.denies(from, &device_at(address)?));
        address = mapped.end;
    }
    Some(denied)
}

/// Unknown rights the driver shall refuse itself, and of a pool those to read alone.
pub fn before(call: &Forward, grant: Grant) -> Option<Denied> {
    let (pairs, function) = (pairs()?, call.id.spec());
    let (by, array) = (call.words[grant.by], call.words[grant.to]);
    let count = function.args()[grant.to].count().map_or(1, |count| call.words[count]);
    let size = grant.size.map(|size| call.words[size]);
    let may_only_read = size.is_some();
    let mut denied = None;
    for index in 0..count {
        let [kind, ordinal, rights] = wish(array, index).filter(|_| array != 0)?;
        let is_known = matches!(rights, 0 | 3) || rights == 1 && may_only_read;
        if !is_known {
            return None;
        }
        if kind != CUmemLocation::DEVICE || rights == 0 || denied.is_some() {
            continue;
        }
        let from = devices::of_ordinal(ordinal);
        if pairs.touches(&from).is_none() {
            continue;
        }
        denied = match size {
            Some(size) => denied_in(&from, by, size)?,
            None => device_of_pool(by).and_then(|home| pairs.denies(&from, &home)),
        };
    }
    denied.map(|which| refused(Result::INVALID_DEVICE, which))
}

/// Remembers where a pool is that was made.
pub fn made(call: &Forward, by: usize, of: usize) {
    let (mut handle, mut bytes) = ([0; 8], [0; 16]);
    let is_read = |place: u64, bytes: &mut [u8]| copy(place as usize, bytes) == bytes.len();
    if is_read(call.words[by], &mut handle) && is_read(call.words[of], &mut bytes) {
        let device = AllocProps::of(&bytes).and_then(|wanted| wanted.device);
        model::made_pool(u64::from_le_bytes(handle), device);
    }
}
