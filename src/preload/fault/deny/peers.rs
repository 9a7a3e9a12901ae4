//! Counts the peers of each context, as far as the library saw access being granted, for the limit.
//!
//! A peer is a device: opening a handle to its memory counts the same as enabling access to it. The table has a fixed
//! size and no locks; when it is full, nothing more is counted.

use super::devices;
use super::{Denied, denial_with_result, limit};
use core::sync::atomic::{
    AtomicI32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_spec::deny::DeviceIdentity;
use cupeer_spec::fault::fnv_hash;
use cupeer_spec::results::Result;

/// Peer device of a context, as an entry of the table.
struct Peer {
    /// Context with access to the peer; 0 for none, [`CLAIMED`] while a thread writes the other fields.
    context: AtomicU64,
    /// Ordinal of the context's device in this process.
    device: AtomicI32,
    /// Hash of the UUID of the peer device: see [`key`].
    peer: AtomicU64,
}

const CLAIMED: u64 = u64::MAX;

static PEERS: [Peer; 256] =
    [const { Peer { context: AtomicU64::new(0), device: AtomicI32::new(0), peer: AtomicU64::new(0) } }; 256];

/// Returns the hash of a device's UUID, by which this table identifies the device; 0 if the UUID is unknown.
fn key(device: &DeviceIdentity) -> u64 {
    device.uuid.map_or(0, |uuid| fnv_hash(&uuid).max(1))
}

fn peers_of(context: u64) -> impl Iterator<Item = &'static Peer> {
    PEERS.iter().filter(move |peer| context != 0 && peer.context.load(Acquire) == context)
}

/// Denies access to a peer that exceeds the limit of peers of a context. The context is on `device`.
pub fn deny_beyond_limit(context: u64, device: i32, peer: &DeviceIdentity) -> Option<Denied> {
    let (limit, which) = limit()?;
    let is_other = devices::of_ordinal(device).is_same_device(peer) == Some(false);
    let is_new = peers_of(context).all(|known| known.peer.load(Relaxed) != key(peer));
    let is_full = peers_of(context).count() as u64 >= u64::from(limit);
    (is_other && is_new && is_full).then(|| denial_with_result(Result::TOO_MANY_PEERS, which))
}

/// Counts a device as a peer of a context. The context is on `device`; the peer may be a device of any process.
pub fn count_peer(context: u64, device: i32, peer: &DeviceIdentity) {
    let is_other = devices::of_ordinal(device).is_same_device(peer) == Some(false);
    let key = key(peer);
    let is_known = || peers_of(context).any(|known| known.peer.load(Relaxed) == key);
    if limit().is_none() || !is_other || key == 0 || context == 0 || is_known() {
        return;
    }
    let free = PEERS.iter().find(|place| place.context.compare_exchange(0, CLAIMED, AcqRel, Relaxed).is_ok());
    if let Some(place) = free {
        place.device.store(device, Relaxed);
        place.peer.store(key, Relaxed);
        place.context.store(context, Release);
    }
}

/// Removes a device from the peers of a context, after access to the device was disabled.
pub fn remove_peer(context: u64, peer: i32) {
    let key = key(&devices::of_ordinal(peer));
    forget(|known| known.context.load(Acquire) == context && known.peer.load(Relaxed) == key);
}

pub fn forget_context(context: u64) {
    forget(|known| known.context.load(Acquire) == context);
}

/// Removes the peers of all contexts on a device, and the device as a peer of other contexts, after the primary context of the
/// device ended. The contexts that the program created on the device lose their peers as well.
pub fn forget_device(device: i32) {
    let key = key(&devices::of_ordinal(device));
    forget(|known| known.device.load(Relaxed) == device || known.peer.load(Relaxed) == key);
}

fn forget(is_it: impl Fn(&Peer) -> bool) {
    for place in &PEERS {
        let context = place.context.load(Acquire);
        if context != 0 && context != CLAIMED && is_it(place) {
            let _ = place.context.compare_exchange(context, 0, AcqRel, Relaxed);
        }
    }
}
