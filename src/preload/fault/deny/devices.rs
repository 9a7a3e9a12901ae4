//! Which device something is: what CUDA numbers and what NVML hands out, by UUID and PCI address. Each is asked once.

use super::nvml::ask;
use crate::driver::questions;
use core::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::deny::{self, Identity, Pci};

/// An identity in words that threads share.
struct IdentityCell {
    /// What it belongs to, plus 1; 0 for nothing. Written before `state`.
    of: AtomicU64,
    /// 0 while it is not known, else [`UUID`] and [`PCI`].
    state: AtomicU64,
    uuid: [AtomicU64; 2],
    pci: AtomicU64,
}

const KNOWN: u64 = 1;
const UUID: u64 = 2;
const PCI: u64 = 4;

impl IdentityCell {
    const fn new() -> Self {
        IdentityCell {
            of: AtomicU64::new(0),
            state: AtomicU64::new(0),
            uuid: [const { AtomicU64::new(0) }; 2],
            pci: AtomicU64::new(0),
        }
    }

    fn get(&self) -> Option<Identity> {
        let state = self.state.load(Acquire);
        let word = |word: &AtomicU64| word.load(Relaxed).to_le_bytes();
        let mut uuid = [0; 16];
        uuid.chunks_mut(8).zip(&self.uuid).for_each(|(place, half)| place.copy_from_slice(&word(half)));
        let [device, bus, _, _, domain @ ..] = word(&self.pci);
        let pci = Pci { domain: u32::from_le_bytes(domain), bus, device };
        (state != 0).then_some(Identity {
            uuid: (state & UUID != 0).then_some(uuid),
            pci: (state & PCI != 0).then_some(pci),
        })
    }

    /// Whoever comes at the same time writes the same.
    fn put(&self, identity: &Identity) {
        let mut state = KNOWN;
        if let Some(uuid) = identity.uuid {
            state |= UUID;
            for (word, bytes) in self.uuid.iter().zip(uuid.chunks(8)) {
                word.store(u64::from_le_bytes(bytes.try_into().unwrap_or_default()), Relaxed);
            }
        }
        if let Some(Pci { domain, bus, device }) = identity.pci {
            state |= PCI;
            self.pci.store(u64::from(domain) << 32 | u64::from(bus) << 8 | u64::from(device), Relaxed);
        }
        self.state.store(state, Release);
    }
}

/// The devices that this process numbers.
static ORDINALS: [IdentityCell; questions::MOST_DEVICES as usize] =
    [const { IdentityCell::new() }; questions::MOST_DEVICES as usize];

/// A device of this process; unknown where it is invalid, and before the driver is initialised.
pub fn of_ordinal(ordinal: i32) -> Identity {
    let Some(kept) = usize::try_from(ordinal).ok().and_then(|ordinal| ORDINALS.get(ordinal)) else {
        return Identity::default();
    };
    if let Some(known) = kept.get() {
        return known;
    }
    let (uuid, address) = questions::identity(ordinal);
    let identity = Identity { uuid, pci: text(&address).and_then(deny::pci) };
    if uuid.is_some() {
        kept.put(&identity);
    }
    identity
}

/// A device with a UUID, of whatever process. Its address is looked for where a pair is given by addresses.
pub fn of_uuid(uuid: [u8; 16]) -> Identity {
    if uuid == [0; 16] {
        return Identity::default();
    }
    let mut pci = None;
    if super::pairs().is_some_and(|pairs| pairs.has_addresses()) {
        let own = || (0..questions::device_count().unwrap_or(0)).map(of_ordinal);
        let own = own().find(|device| device.uuid == Some(uuid)).and_then(|device| device.pci);
        pci = own.or_else(|| crate::driver::nodes::address_of(&uuid));
    }
    Identity { uuid: Some(uuid), pci }
}

/// The device at a place on a PCI bus, in whatever domain: one that this process sees, or that the kernel module lists.
pub fn at(bus: u8, device: u8) -> Option<Identity> {
    let is_it = |pci: Pci| (pci.bus, pci.device) == (bus, device);
    let own = || (0..questions::device_count().unwrap_or(0)).map(of_ordinal);
    let own = own().find(|device| device.pci.is_some_and(is_it));
    own.or_else(|| crate::driver::nodes::uuid_at(is_it).map(of_uuid))
}

/// The devices that NVML has handed out.
static HANDLES: [IdentityCell; 64] = [const { IdentityCell::new() }; 64];

/// A device of NVML; unknown where it is invalid.
pub fn of_handle(handle: u64) -> Identity {
    let mark = handle.wrapping_add(1);
    for kept in &HANDLES {
        match kept.of.compare_exchange(0, mark, Release, Acquire) {
            Ok(_) => {
                let identity = ask::identity(handle);
                if identity == Identity::default() {
                    // NVML may not have been initialised yet.
                    kept.of.store(0, Release);
                } else {
                    kept.put(&identity);
                }
                return identity;
            }
            // Where another thread is asking, this one asks as well.
            Err(of) if of == mark => return kept.get().unwrap_or_else(|| ask::identity(handle)),
            Err(_) => {}
        }
    }
    ask::identity(handle)
}

/// The text in a buffer up to its NUL.
pub fn text(buffer: &[u8]) -> Option<&str> {
    let text = buffer.split(|byte| *byte == 0).next()?;
    core::str::from_utf8(text).ok().filter(|text| !text.is_empty())
}

/// Puts another value into an output. Says whether it was another.
///
/// # Safety
///
/// `place` is null, or points to a value of the program's that was written.
pub unsafe fn replace<T: Copy + PartialEq>(place: *mut T, value: T) -> bool {
    // SAFETY: the caller's promise.
    unsafe {
        let differs = !place.is_null() && place.read_unaligned() != value;
        if differs {
            place.write_unaligned(value);
        }
        differs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_comes_back() {
        let kept = IdentityCell::new();
        assert_eq!(kept.get(), None);
        let uuid = Some(*b"0123456789abcdef");
        let pci = Some(Pci { domain: 0x10000, bus: 0xfe, device: 0x1f });
        for identity in [Identity { uuid, pci: None }, Identity { uuid: None, pci }, Identity { uuid, pci }] {
            let kept = IdentityCell::new();
            kept.put(&identity);
            assert_eq!(kept.get(), Some(identity));
        }
    }

    #[test]
    fn texts_end_at_their_nul() {
        assert_eq!(text(b"0000:1B:00.0\0\0xx"), Some("0000:1B:00.0"));
        assert_eq!((text(b"\0x"), text(b""), text(b"\xff\0")), (None, None, None));
    }

    #[test]
    fn an_output_is_changed_once() {
        let mut value = 5;
        // SAFETY: null, or a variable.
        unsafe {
            assert!(!replace(core::ptr::null_mut(), 0));
            assert!(replace(&mut value, 0) && !replace(&mut value, 0));
        }
        assert_eq!(value, 0);
    }
}
