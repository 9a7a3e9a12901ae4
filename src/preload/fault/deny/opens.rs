//! Denies opening handles of other processes. The device comes from the live table, or else from the handle itself.

use super::{Denied, denial_with_result, devices, pairs, peers};
use crate::driver::queries;
use crate::fault::forward::ForwardedCall;
use cupeer_spec::deny::DeviceIdentity;
use cupeer_spec::effect::{Object, Shared};
use cupeer_spec::results::Result;

/// Bytes of a memory handle that contain the device number and the bus number of its GPU on PCI. Observed with driver 580, whose
/// handles are otherwise opaque. Ignored if there is no GPU at that address.
const GPU_BYTES: core::ops::Range<usize> = 32..34;

/// Returns the device of the object that another process exported under a handle.
fn device_of_exported_object(call: &ForwardedCall, shared: Shared) -> Option<DeviceIdentity> {
    if let Some(export) = call.live_export().filter(|export| export.uuid != [0; 16]) {
        return Some(devices::of_uuid(export.uuid));
    }
    let [device, bus] = call.handle().filter(|_| shared.object == Object::Memory)?[GPU_BYTES] else {
        return None;
    };
    devices::find_by_bus_and_device(bus, device)
}

/// Denies opening a handle of a denied device. A handle with a wrong flag, or a null pointer, goes to the driver, which refuses
/// the call.
pub fn deny_open(call: &ForwardedCall, shared: Shared) -> Option<Denied> {
    let is_odd = shared.demand.is_some_and(|flags| call.words[flags.by] as u32 != flags.value);
    if call.words[shared.by] == 0 || is_odd {
        return None;
    }
    let device = queries::device_of_current_context();
    if device < 0 {
        return None;
    }
    let to = device_of_exported_object(call, shared)?;
    if let Some(which) = pairs().and_then(|pairs| pairs.find_denial(&devices::of_ordinal(device), &to)) {
        return Some(denial_with_result(Result::PEER_ACCESS_UNSUPPORTED, which));
    }
    if shared.object.is_memory() { peers::deny_beyond_limit(queries::context(), device, &to) } else { None }
}

/// Counts the device of the opened object as a peer.
pub fn count_opened_device(call: &ForwardedCall, shared: Shared) {
    if let Some(to) = device_of_exported_object(call, shared).filter(|_| shared.object.is_memory()) {
        peers::count_peer(queries::context(), queries::device_of_current_context(), &to);
    }
}
