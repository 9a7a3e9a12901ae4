//! Handles of other processes: whose device they are of is known from the job's live table, or else from the handle itself.

use super::{Denied, devices, pairs, peers, refused};
use crate::driver::questions;
use crate::fault::inject::Forward;
use cupeer_spec::deny::Identity;
use cupeer_spec::function::Group;
use cupeer_spec::results::Result;

/// Where a handle of memory has its GPU: the number on the bus, and the bus. Seen with driver 580, whose handles are
/// otherwise opaque; what stands there counts only where there is a GPU of that address.
const GPU: core::ops::Range<usize> = 32..34;

/// The device of what another process has exported under a handle, where that is known.
fn exported(call: &Forward) -> Option<Identity> {
    if let Some(export) = call.export().filter(|export| export.uuid != [0; 16]) {
        return Some(devices::of_uuid(export.uuid));
    }
    if !call.id.spec().is_in(Group::IpcMem) {
        return None;
    }
    // SAFETY: the word of a handle by value is the address of its bytes.
    let handle = unsafe { (call.words[1] as *const [u8; 64]).as_ref() }?;
    let [device, bus] = handle[GPU] else { return None };
    devices::at(bus, device)
}

/// What the driver would refuse anyway, it shall say itself.
pub fn before(call: &Forward) -> Option<Denied> {
    /// CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.
    const LAZY: u64 = 1;
    let is_memory = call.id.spec().is_in(Group::IpcMem);
    if call.words[0] == 0 || is_memory && call.words[2] & LAZY == 0 {
        return None;
    }
    let device = questions::device();
    if device < 0 {
        return None;
    }
    let to = exported(call)?;
    if let Some(which) = pairs().and_then(|pairs| pairs.denies(&devices::of_ordinal(device), &to)) {
        return Some(refused(Result::PEER_ACCESS_UNSUPPORTED, which));
    }
    if is_memory { peers::refuse(questions::context(), device, &to) } else { None }
}

/// Counts the device of what was opened as a peer.
pub fn after(call: &Forward) {
    if let Some(to) = exported(call).filter(|_| call.id.spec().is_in(Group::IpcMem)) {
        peers::add_device(questions::context(), questions::device(), &to);
    }
}
