//! Driver queries about a stream or an event that the driver has just refused in a call, and so has looked at.

use super::questions::{
    cuEventQuery, cuStreamGetCtx, cuStreamGetFlags, cuStreamIsCapturing, device, device_of, relaxed,
};
use cupeer_spec::results::Result;

/// Whether the driver knows an event.
pub fn is_event(event: u64) -> Option<bool> {
    if event == 0 {
        return Some(false);
    }
    let result = relaxed(|| cuEventQuery(event))?;
    Some(result == 0 || result == Result::NOT_READY as i32)
}

/// The device of the context of a stream.
pub fn device_of_stream(stream: u64) -> Option<i32> {
    /// The last stream that is of the current context by its number: the legacy default stream, and that of the thread.
    const LAST_DEFAULT: u64 = 2;
    let mut context = core::ptr::null_mut();
    let device = match stream {
        ..=LAST_DEFAULT => device(),
        _ if relaxed(|| cuStreamGetCtx(stream, &mut context)) == Some(0) => device_of(context as u64),
        _ => -1,
    };
    (device >= 0).then_some(device)
}

/// Whether work that is given to a stream goes into a graph.
#[inline(always)]
pub fn is_captured(stream: u64) -> bool {
    let mut status = 0;
    cuStreamIsCapturing(stream, &mut status) == Some(0) && status != 0
}

/// The flags with which a stream was created; 0 if the driver does not say.
pub fn flags(stream: u64) -> u32 {
    let mut flags = 0;
    match relaxed(|| cuStreamGetFlags(stream, &mut flags)) {
        Some(0) => flags,
        _ => 0,
    }
}
