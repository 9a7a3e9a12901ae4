//! Changes what NVML returns about devices: a denied pair has neither peer access nor NVLink, and appears as far apart
//! as possible.

use super::{Denied, devices, links, pairs};
use crate::fault::forward::ForwardedCall;
use cupeer_spec::abi::*;
use cupeer_spec::function::FnId;
use cupeer_spec::results::nvml::Result;

/// Denies a query about the device at the other end of a hidden link.
pub fn deny_link_query(call: &ForwardedCall) -> Option<Denied> {
    let [device, link, place, ..] = *call.words;
    let is_about_remote = matches!(
        call.id,
        FnId::nvmlDeviceGetNvLinkRemotePciInfo
            | FnId::nvmlDeviceGetNvLinkRemotePciInfo_v2
            | FnId::nvmlDeviceGetNvLinkRemoteDeviceType
    );
    // NVML refuses a null pointer itself.
    if !is_about_remote || place == 0 {
        return None;
    }
    let which = links::pair_hiding_link(device, link as u32)?;
    Some(Denied { result: Result::NOT_SUPPORTED as i32, which })
}

/// Changes the outputs of a call that succeeded. Returns the denied pair if any output changed.
pub fn change_nvml_outputs(call: &ForwardedCall) -> Option<usize> {
    let [first, second, third, fourth, ..] = *call.words;
    let pair = || pairs()?.find_denial(&devices::of_handle(first), &devices::of_handle(second));
    let touched = || pairs()?.find_entry_with(&devices::of_handle(first));
    let hidden = || links::pair_hiding_link(first, second as u32);
    /// Peer status `NVML_P2P_STATUS_NOT_SUPPORTED`.
    const NO_PEERS: nvmlGpuP2PStatus_t = nvmlGpuP2PStatus_t(5);
    /// Topology level `NVML_TOPOLOGY_SYSTEM`.
    const FAR_APART: nvmlGpuTopologyLevel_t = nvmlGpuTopologyLevel_t(50);
    // SAFETY: NVML wrote to the outputs, which have these types: numbers, for which zeros are valid.
    unsafe {
        match call.id {
            FnId::nvmlDeviceGetP2PStatus => replace_output(pair, fourth as *mut nvmlGpuP2PStatus_t, NO_PEERS),
            FnId::nvmlDeviceGetTopologyCommonAncestor => {
                replace_output(pair, third as *mut nvmlGpuTopologyLevel_t, FAR_APART)
            }
            FnId::nvmlDeviceGetNvLinkState => {
                replace_output(hidden, third as *mut nvmlEnableState_t, nvmlEnableState_t(0))
            }
            FnId::nvmlDeviceGetNvLinkCapability => replace_output(hidden, fourth as *mut u32, 0),
            FnId::nvmlDeviceGetGpuFabricInfo => {
                replace_output(touched, second as *mut nvmlGpuFabricInfo_t, core::mem::zeroed())
            }
            FnId::nvmlDeviceGetGpuFabricInfoV => hide_fabric(touched, second as *mut nvmlGpuFabricInfoV_t),
            FnId::nvmlDeviceGetFieldValues => links::hide_fields(first, third as *mut nvmlFieldValue_t, second as i32),
            _ => None,
        }
    }
}

/// Replaces the value of an output, if a pair is denied. Returns the denied pair if the value changed.
///
/// # Safety
///
/// `place` is null, or points to a value that NVML wrote.
unsafe fn replace_output<T: Copy + PartialEq>(
    which: impl FnOnce() -> Option<usize>,
    place: *mut T,
    value: T,
) -> Option<usize> {
    let which = which()?;
    // SAFETY: the caller's promise.
    unsafe {
        let differs = !place.is_null() && place.read_unaligned() != value;
        if differs {
            place.write_unaligned(value);
        }
        differs.then_some(which)
    }
}

/// Makes a device appear outside of any fabric.
///
/// # Safety
///
/// As of [`replace_output`].
unsafe fn hide_fabric(which: impl FnOnce() -> Option<usize>, place: *mut nvmlGpuFabricInfoV_t) -> Option<usize> {
    if place.is_null() {
        return None;
    }
    // SAFETY: not null, and as of this function: every version begins with its number.
    let version = unsafe { (&raw const (*place).version).read_unaligned() };
    // Later versions may have another layout.
    if !matches!(version >> 24, 2..=3) {
        return None;
    }
    // SAFETY: as of this function; it is numbers, and from the third version on a byte with a health summary follows.
    unsafe {
        let nowhere = nvmlGpuFabricInfoV_t { version, ..core::mem::zeroed() };
        let changed = replace_output(which, place, nowhere)?;
        if version >> 24 >= 3 {
            place.cast::<u8>().add(size_of::<nvmlGpuFabricInfoV_t>()).write(0);
        }
        Some(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_is_changed_once() {
        let (mut value, which) = (5, || Some(7));
        // SAFETY: null, or a variable.
        let changed = unsafe {
            [
                replace_output(which, core::ptr::null_mut(), 0),
                replace_output(which, &mut value, 0),
                replace_output(which, &mut value, 0),
            ]
        };
        assert_eq!((changed, value), ([None, Some(7), None], 0));
    }
}
