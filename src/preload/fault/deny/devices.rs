//! Maps the device numbers of CUDA and the handles of NVML to UUIDs and PCI addresses. Each device is queried once.

use super::ask::{self, text};
use crate::driver::queries;
use crate::sys::arena;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::deny::{self, Identity, Pci};

/// Devices of this process, by their ordinals in CUDA; null for a device that was not queried yet.
static ORDINALS: [AtomicPtr<Identity>; queries::MOST_DEVICES as usize] =
    [const { AtomicPtr::new(ptr::null_mut()) }; queries::MOST_DEVICES as usize];

/// Reads a value that [`keep`] stored.
fn kept<T>(place: &AtomicPtr<T>) -> Option<&'static T> {
    // SAFETY: null, or a value that is never freed.
    unsafe { place.load(Acquire).as_ref() }
}

/// Stores a value forever. If several threads store at the same time, the first one wins.
fn keep<T: Sync + 'static>(place: &AtomicPtr<T>, value: T) {
    if let Some(kept) = arena::keep(value) {
        let _ = place.compare_exchange(ptr::null_mut(), ptr::from_ref(kept).cast_mut(), Release, Relaxed);
    }
}

/// Returns the identity of a device of this process; unknown if the ordinal is invalid, or the driver is not initialized.
pub fn of_ordinal(ordinal: i32) -> Identity {
    let Some(place) = usize::try_from(ordinal).ok().and_then(|ordinal| ORDINALS.get(ordinal)) else {
        return Identity::default();
    };
    if let Some(known) = kept(place) {
        return *known;
    }
    let (uuid, address) = queries::identity(ordinal);
    let identity = Identity { uuid, pci: text(&address).and_then(deny::pci) };
    if uuid.is_some() {
        keep(place, identity);
    }
    identity
}

/// Finds a device among the devices that this process sees.
fn find_own(is_it: impl Fn(&Identity) -> bool) -> Option<Identity> {
    (0..queries::device_count()?).map(of_ordinal).find(is_it)
}

/// Returns the identity of the device with a UUID, which this process need not see. Its PCI address is looked up only if a denied
/// pair is given by addresses.
pub fn of_uuid(uuid: [u8; 16]) -> Identity {
    if uuid == [0; 16] {
        return Identity::default();
    }
    let mut pci = None;
    if super::pairs().is_some_and(|pairs| pairs.has_addresses()) {
        let own = find_own(|device| device.uuid == Some(uuid));
        pci = own.and_then(|device| device.pci).or_else(|| crate::driver::nodes::address_of(&uuid));
    }
    Identity { uuid: Some(uuid), pci }
}

/// Returns the device at a place on a PCI bus, in any domain: one that this process sees, or that the kernel module lists.
pub fn at(bus: u8, device: u8) -> Option<Identity> {
    let is_it = |pci: Pci| (pci.bus, pci.device) == (bus, device);
    find_own(|device| device.pci.is_some_and(is_it))
        .or_else(|| crate::driver::nodes::uuid_at(is_it).map(of_uuid))
}

/// Devices by the handles that NVML handed out; null for a free place.
static HANDLES: [AtomicPtr<(u64, Identity)>; 64] = [const { AtomicPtr::new(ptr::null_mut()) }; 64];

/// Returns the identity of the device with an NVML handle; unknown if the handle is invalid.
pub fn of_handle(handle: u64) -> Identity {
    if let Some((_, known)) = HANDLES.iter().map_while(kept).find(|(of, _)| *of == handle) {
        return *known;
    }
    let identity = ask::identity(handle);
    // An unknown identity is not kept, because NVML may not be initialized yet.
    if identity != Identity::default()
        && let Some(free) = HANDLES.iter().find(|place| kept(place).is_none())
    {
        keep(free, (handle, identity));
    }
    identity
}
