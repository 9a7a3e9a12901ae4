//! Maps the device numbers of CUDA and the handles of NVML to UUIDs and PCI addresses. Each device is queried once.

use super::ask::{self, text};
use crate::driver::queries;
use crate::sys::arena;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::deny::{self, DeviceIdentity, PciAddress};

/// Devices of this process, by their ordinals in CUDA; null for a device that was not queried yet.
static ORDINALS: [AtomicPtr<DeviceIdentity>; queries::MOST_DEVICES as usize] =
    [const { AtomicPtr::new(ptr::null_mut()) }; queries::MOST_DEVICES as usize];

/// Reads a value that [`store_once`] stored.
fn load_stored<T>(place: &AtomicPtr<T>) -> Option<&'static T> {
    // SAFETY: null, or a value that is never freed.
    unsafe { place.load(Acquire).as_ref() }
}

/// Stores a value forever. If several threads store at the same time, the first one wins.
fn store_once<T: Sync + 'static>(place: &AtomicPtr<T>, value: T) {
    if let Some(kept) = arena::store_permanently(value) {
        let _ = place.compare_exchange(ptr::null_mut(), ptr::from_ref(kept).cast_mut(), Release, Relaxed);
    }
}

/// Returns the identity of a device of this process; unknown if the ordinal is invalid, or the driver is not initialized.
pub fn of_ordinal(ordinal: i32) -> DeviceIdentity {
    let Some(place) = usize::try_from(ordinal).ok().and_then(|ordinal| ORDINALS.get(ordinal)) else {
        return DeviceIdentity::default();
    };
    if let Some(known) = load_stored(place) {
        return *known;
    }
    let (uuid, address) = queries::uuid_and_pci_address(ordinal);
    let identity = DeviceIdentity { uuid, pci: text(&address).and_then(deny::parse_pci) };
    if uuid.is_some() {
        store_once(place, identity);
    }
    identity
}

/// Returns the first device of this process that `is_it` accepts.
fn find_own(is_it: impl Fn(&DeviceIdentity) -> bool) -> Option<DeviceIdentity> {
    (0..queries::device_count()?).map(of_ordinal).find(is_it)
}

/// Returns the identity of the device with a UUID, which this process need not see. Its PCI address is looked up only if a denied
/// pair is given by addresses.
pub fn of_uuid(uuid: [u8; 16]) -> DeviceIdentity {
    if uuid == [0; 16] {
        return DeviceIdentity::default();
    }
    let mut pci = None;
    if super::pairs().is_some_and(|pairs| pairs.has_pci_addresses()) {
        let own = find_own(|device| device.uuid == Some(uuid));
        pci = own.and_then(|device| device.pci).or_else(|| crate::driver::nodes::find_pci_address(&uuid));
    }
    DeviceIdentity { uuid: Some(uuid), pci }
}

/// Returns the device at a place on a PCI bus, in any domain: one that this process sees, or that the kernel module lists.
pub fn find_by_bus_and_device(bus: u8, device: u8) -> Option<DeviceIdentity> {
    let is_it = |pci: PciAddress| (pci.bus, pci.device) == (bus, device);
    find_own(|device| device.pci.is_some_and(is_it)).or_else(|| crate::driver::nodes::uuid_at(is_it).map(of_uuid))
}

/// Devices by the handles that NVML handed out; null for a free place.
static HANDLES: [AtomicPtr<(u64, DeviceIdentity)>; 64] = [const { AtomicPtr::new(ptr::null_mut()) }; 64];

/// Returns the identity of the device with an NVML handle; unknown if the handle is invalid.
pub fn of_handle(handle: u64) -> DeviceIdentity {
    if let Some((_, known)) = HANDLES.iter().map_while(load_stored).find(|(of, _)| *of == handle) {
        return *known;
    }
    let identity = ask::identity(handle);
    // An unknown identity is not kept, because NVML may not be initialized yet.
    if identity != DeviceIdentity::default()
        && let Some(free) = HANDLES.iter().find(|place| load_stored(place).is_none())
    {
        store_once(free, (handle, identity));
    }
    identity
}
