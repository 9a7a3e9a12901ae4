//! Driver queries about a stream or an event that the driver just refused in a call, so that a query is safe.

use super::queries::{
    cuEventQuery, cuStreamGetCtx, cuStreamGetFlags, cuStreamIsCapturing, device_of, device_of_current_context,
    run_in_relaxed_mode,
};
use cupeer_spec::results::Result;

/// Returns true if the driver knows an event; `None` if the query fails.
pub fn is_event(event: u64) -> Option<bool> {
    if event == 0 {
        return Some(false);
    }
    let result = run_in_relaxed_mode(|| cuEventQuery(event))?;
    Some(result == 0 || result == Result::NOT_READY as i32)
}

/// Returns the device of a stream's context.
pub fn device_of_stream(stream: u64) -> Option<i32> {
    /// Highest handle of a default stream, which belongs to the current context.
    const LAST_DEFAULT: u64 = 2;
    let mut context = core::ptr::null_mut();
    let device = match stream {
        ..=LAST_DEFAULT => device_of_current_context(),
        _ if run_in_relaxed_mode(|| cuStreamGetCtx(stream, &mut context)) == Some(0) => device_of(context as u64),
        _ => -1,
    };
    (device >= 0).then_some(device)
}

/// Returns true if the work of a stream is being captured into a graph.
#[inline(always)]
pub fn is_captured(stream: u64) -> bool {
    let mut status = 0;
    cuStreamIsCapturing(stream, &mut status) == Some(0) && status != 0
}

/// Returns the flags of a stream; 0 if the query fails.
pub fn flags(stream: u64) -> u32 {
    let mut flags = 0;
    match run_in_relaxed_mode(|| cuStreamGetFlags(stream, &mut flags)) {
        Some(0) => flags,
        _ => 0,
    }
}
