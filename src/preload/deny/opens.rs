//! Handles of other processes: whose device they are of is known from the job's live table, or else from what the driver
//! says once they are open.

use super::{Denied, devices, pairs, peers, refused};
use crate::inject::Forward;
use crate::record::questions;
use crate::resolve::driver;
use cupeer_spec::deny::{Denied as Pairs, Identity};
use cupeer_spec::function::{FnId, Group};
use cupeer_spec::results::Result;

/// The device of what another process has exported under a handle, where that is known.
fn exported(call: &Forward) -> Option<Identity> {
    let export = call.export()?;
    (export.uuid != [0; 16]).then(|| devices::of_uuid(export.uuid))
}

/// What the driver would refuse anyway, it shall say itself.
pub fn before(call: &Forward) -> Option<Denied> {
    /// CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS.
    const LAZY: u64 = 1;
    let is_memory = call.id.spec().is_in(Group::IpcMem);
    if call.words[0] == 0 || is_memory && call.words[2] & LAZY == 0 {
        return None;
    }
    let to = exported(call)?;
    let device = questions::device();
    if device < 0 {
        return None;
    }
    if let Some(which) = pairs().and_then(|pairs| pairs.denies(&devices::of_ordinal(device), &to)) {
        return Some(refused(Result::PEER_ACCESS_UNSUPPORTED, which));
    }
    if is_memory { peers::refuse(questions::context(), device, &to) } else { None }
}

/// Looks at what was opened, and closes it again where it is denied.
pub fn after(call: &Forward) -> Option<Denied> {
    let place = call.words[0] as *const u64;
    if place.is_null() || !call.id.spec().is_in(Group::IpcMem) {
        return None;
    }
    let (context, device) = (questions::context(), questions::device());
    let known = exported(call);
    if let Some(to) = known {
        peers::add_device(context, device, &to);
        return None;
    }
    // SAFETY: not null, and the driver has written there.
    let address = unsafe { place.read_unaligned() };
    let ordinal = questions::device_of_memory(address)?;
    if device < 0 || ordinal == device {
        return None;
    }
    let (from, to) = (devices::of_ordinal(device), devices::of_ordinal(ordinal));
    let denied = match pairs() {
        // A device that this process does not see is another one.
        Some(Pairs::All) if ordinal < 0 => Some(0),
        Some(pairs) => pairs.denies(&from, &to),
        None => None,
    };
    let denied = denied.map(|which| refused(Result::PEER_ACCESS_UNSUPPORTED, which));
    let denied = denied.or_else(|| peers::refuse(context, device, &to));
    match denied {
        Some(denied) if close(address) => Some(denied),
        _ => {
            peers::add_device(context, device, &to);
            None
        }
    }
}

/// Gives back what the call has opened, past ourselves.
fn close(address: u64) -> bool {
    let close = driver::real(FnId::cuIpcCloseMemHandle);
    if close == 0 {
        return false;
    }
    // SAFETY: the address of the driver's function, which has this type; what it is given was opened just now, and
    // nobody else knows of it.
    unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(u64) -> i32>(close)(address) == 0 }
}
