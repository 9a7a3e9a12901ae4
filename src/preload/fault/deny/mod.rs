//! Devices that shall look as if they could not reach each other, the same to every question and every attempt; and
//! contexts that shall not have more than so many peers.
//!
//! What belongs here: which calls are looked at, and what becomes of each. Which devices they are about is found out in
//! `devices`; `opens` is about handles of other processes, `peers` counts the peers of contexts, `nvml` and `links` are
//! what NVML says.
//!
//! A device that cannot be told is not denied anything: what we do not know, the driver answers. Nothing is asked of a
//! library that the program has not called, and nothing is kept of a device but what stays the same: a forked child goes
//! on with it.

mod devices;
mod links;
mod nvml;
mod opens;
mod peers;

use super::inject::Forward;
use crate::driver::questions;
use crate::settings::{self, Deny};
use cupeer_spec::abi::CUdevice_P2PAttribute;
use cupeer_spec::deny::Denied as Pairs;
use cupeer_spec::effect::Object;
use cupeer_spec::function::{FnId, Group, Library};
use cupeer_spec::results::Result;

/// An attempt that was denied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Denied {
    /// What the program gets in place of the call.
    pub result: i32,
    /// Which of the pairs that were given, or the limit: an index into [`names`].
    pub which: usize,
}

/// In place of the call.
fn refused(result: Result, which: usize) -> Denied {
    Denied { result: result as i32, which }
}

fn settings() -> Option<&'static Deny> {
    settings::get().deny.as_ref()
}

/// The pairs that are denied.
fn pairs() -> Option<&'static Pairs> {
    settings()?.pairs.as_ref()
}

/// The most peers of a context, and its index in [`names`].
fn limit() -> Option<(u32, usize)> {
    let deny = settings()?;
    let before = match &deny.pairs {
        None => 0,
        Some(Pairs::All) => 1,
        Some(Pairs::Pairs(pairs)) => pairs.len(),
    };
    Some((deny.limit?, before))
}

/// Whether calls of a function have to be looked at.
pub fn concerns(id: FnId) -> bool {
    let Some(deny) = settings() else { return false };
    let is_in = |group| id.spec().is_in(group);
    let ends_access = is_in(Group::Peer) && is_in(Group::Release);
    let asks = is_in(Group::Query) || is_in(Group::Peer) && !ends_access;
    let ends_contexts =
        matches!(id.spec().ends().map(|end| end.object), Some(Object::Context | Object::Primary));
    let counts =
        is_in(Group::Enable) || ends_access || is_in(Group::IpcMem) && is_in(Group::Open) || ends_contexts;
    deny.pairs.is_some() && (asks || is_in(Group::Open)) || deny.limit.is_some() && counts
}

/// What there is to count, in words: each pair that was given, `all`, the limit of peers.
pub fn names() -> Vec<String> {
    let mut names = pairs().map_or(Vec::new(), Pairs::names);
    if let Some((limit, _)) = limit() {
        names.push(format!("more than {limit} peers"));
    }
    names
}

/// Looks at a call before it is made. What comes back stands in its place.
pub fn before(call: &Forward) -> Option<Denied> {
    match call.id {
        FnId::cuCtxEnablePeerAccess => enable(call.words[0], call.words[1]),
        id if id.spec().is_in(Group::Open) => opens::before(call),
        id if id.spec().library == Library::Nvml => nvml::before(call),
        _ => None,
    }
}

/// Looks at a call that was made and succeeded: changes its outputs, and says which pair was denied where it did.
pub fn after(call: &Forward) -> Option<usize> {
    let [first, second, third, fourth, fifth, ..] = *call.words;
    match call.id {
        FnId::cuDeviceCanAccessPeer => {
            let which = pair(second, third)?;
            // SAFETY: the driver has written there.
            unsafe { devices::replace(first as *mut i32, 0) }.then_some(which)
        }
        FnId::cuDeviceGetP2PAttribute => {
            // One that a newer driver has may mean anything.
            CUdevice_P2PAttribute(second as i32).name()?;
            let which = pair(third, fourth)?;
            // SAFETY: as above.
            unsafe { devices::replace(first as *mut i32, 0) }.then_some(which)
        }
        FnId::cuDeviceGetP2PAtomicCapabilities => {
            let which = pair(fourth, fifth)?;
            let capabilities = first as *mut u32;
            let mut changed = false;
            for i in 0..if capabilities.is_null() { 0 } else { third as usize } {
                // SAFETY: the driver has written so many.
                changed |= unsafe { devices::replace(capabilities.add(i), 0) };
            }
            changed.then_some(which)
        }
        FnId::cuDeviceGetAttribute => {
            /// CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED: reductions over NVLink without peer access.
            const MULTICAST_SUPPORTED: u64 = 132;
            if second != MULTICAST_SUPPORTED {
                return None;
            }
            let which = pairs()?.touches(&devices::of_ordinal(third as i32))?;
            // SAFETY: as above.
            unsafe { devices::replace(first as *mut i32, 0) }.then_some(which)
        }
        FnId::cuCtxEnablePeerAccess => {
            peers::add(questions::context(), questions::device(), questions::device_of(first));
            None
        }
        FnId::cuCtxDisablePeerAccess => {
            peers::remove(questions::context(), questions::device_of(first));
            None
        }
        id if id.spec().ends().map(|end| end.object) == Some(Object::Context) => {
            // A context that is only detached stays current.
            if id != FnId::cuCtxDetach || questions::context() != first {
                peers::forget_context(first);
            }
            None
        }
        id if id.spec().ends().map(|end| end.object) == Some(Object::Primary) => {
            if !questions::is_primary_active(first as i32) {
                peers::forget_device(first as i32);
            }
            None
        }
        id if id.spec().is_in(Group::Open) => {
            opens::after(call);
            None
        }
        id if id.spec().library == Library::Nvml => nvml::after(call),
        _ => None,
    }
}

/// Which pair denies one device of this process the other one.
fn pair(from: u64, to: u64) -> Option<usize> {
    pairs()?.denies(&devices::of_ordinal(from as i32), &devices::of_ordinal(to as i32))
}

/// What the driver would refuse anyway, or not even look at, it shall say itself.
fn enable(peer: u64, flags: u64) -> Option<Denied> {
    let context = questions::context();
    if peer == 0 || flags != 0 || context == 0 || context == peer {
        return None;
    }
    let (from, to) = (questions::device(), questions::device_of(peer));
    if from < 0 || to < 0 {
        return None;
    }
    if let Some(which) = pair(from as u64, to as u64) {
        return Some(refused(Result::PEER_ACCESS_UNSUPPORTED, which));
    }
    peers::refuse(context, from, &devices::of_ordinal(to))
}
