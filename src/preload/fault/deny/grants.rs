//! Decides about access to virtual memory and to pools. The device of the memory comes from the driver or else from
//! the live table; the device of a pool comes from its creator.

use super::{Denied, denial_with_result, devices, pairs};
use crate::driver::model;
use crate::driver::queries;
use crate::fault::forward::ForwardedCall;
use crate::recorder;
use crate::sys::program_memory::{copy, copy_value};
use cupeer_model::alloc_props::AllocationProps;
use cupeer_spec::abi::{CUmemAccessDesc, CUmemLocation};
use cupeer_spec::deny::DeviceIdentity;
use cupeer_spec::effect::{Grant, Object};
use cupeer_spec::results::Result;

/// Returns the access that a program asks for, at an index of the call's array; `None` if the array cannot be read.
fn wanted_access(array: u64, index: u64) -> Option<CUmemAccessDesc> {
    let offset = index.checked_mul(size_of::<CUmemAccessDesc>() as u64)?;
    copy_value(array.checked_add(offset)? as *const CUmemAccessDesc)
}

/// Returns the identity of the device with the memory that is mapped at an address.
fn device_of_mapping(address: u64) -> Option<DeviceIdentity> {
    let (handle, device) = queries::mapped_allocation(address)?;
    if device >= 0 {
        return Some(devices::of_ordinal(device));
    }
    // This process does not see the device.
    let import = recorder::find_live_import(Object::Allocation, handle)?;
    (import.uuid != [0; 16]).then(|| devices::of_uuid(import.uuid))
}

/// Returns the identity of a pool's device. The driver has no query for that: the call that created the pool shows the device, or
/// else the live table does.
fn device_of_pool(pool: u64) -> Option<DeviceIdentity> {
    if let Some(device) = model::pool(pool).and_then(|known| known.device) {
        return Some(devices::of_ordinal(device));
    }
    let import = recorder::find_live_import(Object::Pool, pool)?;
    (import.uuid != [0; 16]).then(|| devices::of_uuid(import.uuid))
}

/// Returns the denied pair because of which a device gets no access to the mappings in a range; `Some(None)` if no pair denies
/// it. `None` for a range that the driver itself refuses: a range that does not begin and end with mappings. If the range has
/// holes, the driver uses the part before the first hole.
fn pair_denying_range(from: &DeviceIdentity, start: u64, size: u64) -> Option<Option<usize>> {
    let (pairs, end) = (pairs()?, start.checked_add(size)?);
    let (mut denied, mut address) = (None, start);
    while let Some(mapped) = queries::mapping(address).filter(|_| address < end) {
        if mapped.start != address || mapped.end > end {
            return None;
        }
        denied = denied.or_else(|| pairs.find_denial(from, &device_of_mapping(address)?));
        address = mapped.end;
    }
    Some(denied)
}

/// Denies a grant of access, if a pair is denied. A grant with unknown access flags goes to the driver, which refuses the grant;
/// so does a grant of read-only access to a pool.
pub fn deny_grant(call: &ForwardedCall, grant: Grant) -> Option<Denied> {
    let (pairs, function) = (pairs()?, call.id.spec());
    let (by, array) = (call.words[grant.by], call.words[grant.to]);
    let count = function.args()[grant.to].count_argument().map_or(1, |count| call.words[count]);
    let size = grant.size.map(|size| call.words[size]);
    let may_only_read = size.is_some();
    let mut denied = None;
    for index in 0..count {
        let CUmemAccessDesc { location, flags } = wanted_access(array, index).filter(|_| array != 0)?;
        let is_known = matches!(flags.0, 0 | 3) || flags.0 == 1 && may_only_read;
        if !is_known {
            return None;
        }
        if location.kind.0 != CUmemLocation::DEVICE || flags.0 == 0 || denied.is_some() {
            continue;
        }
        let from = devices::of_ordinal(location.id);
        if pairs.find_entry_with(&from).is_none() {
            continue;
        }
        denied = match size {
            Some(size) => pair_denying_range(&from, by, size)?,
            None => device_of_pool(by).and_then(|home| pairs.find_denial(&from, &home)),
        };
    }
    denied.map(|which| denial_with_result(Result::INVALID_DEVICE, which))
}

/// Remembers the device of a pool that a call created. `by` and `of` are the arguments with the pool and with its properties.
pub fn note_pool(call: &ForwardedCall, by: usize, of: usize) {
    let mut bytes = [0; 16];
    if let Some(handle) = copy_value(call.words[by] as *const u64)
        && copy(call.words[of] as usize, &mut bytes) == bytes.len()
    {
        model::note_created_pool(handle, AllocationProps::from_bytes(&bytes).and_then(|wanted| wanted.device));
    }
}
