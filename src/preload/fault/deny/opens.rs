//! Denies opening handles of other processes. The device comes from the live table, or else from the handle itself.

use super::{Denied, devices, pairs, peers, refused};
use crate::driver::queries;
use crate::fault::forward::Forward;
use cupeer_spec::deny::Identity;
use cupeer_spec::effect::{Object, Shared};
use cupeer_spec::results::Result;

/// Bytes of a memory handle that contain the device number and the bus number of its GPU on PCI. Observed with driver 580, whose
/// handles are otherwise opaque. Ignored if there is no GPU at that address.
const GPU_BYTES: core::ops::Range<usize> = 32..34;

/// Returns the device of the object that another process exported under a handle.
fn exported_device(call: &Forward, shared: Shared) -> Option<Identity> {
    if let Some(export) = call.export().filter(|export| export.uuid != [0; 16]) {
        return Some(devices::of_uuid(export.uuid));
    }
    let [device, bus] = call.handle().filter(|_| shared.object == Object::Memory)?[GPU_BYTES] else {
        return None;
    };
    devices::at(bus, device)
}

/// Denies opening a handle of a denied device. A handle with a wrong flag, or a null pointer, goes to the driver, which refuses
/// the call.
pub fn before(call: &Forward, shared: Shared) -> Option<Denied> {
    let is_odd = shared.demand.is_some_and(|flags| call.words[flags.by] as u32 != flags.value);
    if call.words[shared.by] == 0 || is_odd {
        return None;
    }
    let device = queries::device();
    if device < 0 {
        return None;
    }
    let to = exported_device(call, shared)?;
    if let Some(which) = pairs().and_then(|pairs| pairs.denies(&devices::of_ordinal(device), &to)) {
        return Some(refused(Result::PEER_ACCESS_UNSUPPORTED, which));
    }
    if shared.object.is_memory() { peers::deny_beyond_limit(queries::context(), device, &to) } else { None }
}

/// Counts the device of the opened object as a peer.
pub fn after(call: &Forward, shared: Shared) {
    if let Some(to) = exported_device(call, shared).filter(|_| shared.object.is_memory()) {
        peers::count_peer(queries::context(), queries::device(), &to);
    }
}
