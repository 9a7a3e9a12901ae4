//! The steps of a copy between device memory and the host, whose content is recorded.

use super::{Arguments, EnteredCall, Function, caller_behind_patch, order};
use crate::driver::{places, queries};
use crate::fault::{forward::ArgumentWords, inject};
use crate::job::{ledger, tombstones};
use crate::recorder::{self, CallRecord, content};
use crate::settings;
use crate::sys::guard::guarded;
use cupeer_spec::effect::HostCopy;
use cupeer_spec::function::{FUNCTIONS, FnId};
use cupeer_spec::record::slot::detail;

/// Returns the description of a copy to or from the host; `None` if the copy is too small for its content to be recorded, or the
/// function makes no such copy.
#[inline(always)]
pub fn large_copy<F: Function>(arguments: &F) -> Option<HostCopy> {
    let host_copy = const { FUNCTIONS[F::ID as usize].host_copy() };
    host_copy.filter(|copied| arguments.word(copied.size) >= content::SMALLEST)
}

/// Runs a copy between device memory and the host in a process that shares memory, and records a hash of its content if it succeeds. If
/// the memory is gone, or a fault plan may change the copy, the content is not recorded.
#[cold]
#[inline(never)]
pub fn run_large_host_copy(
    id: FnId,
    entered: &EnteredCall,
    arguments: &dyn Arguments,
    copied: HostCopy,
    call: &mut dyn FnMut() -> i32,
) -> i32 {
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    let (address, bytes) = (words[copied.device], words[copied.size]);
    let is_noted = settings::get().is_recorded(id)
        && !entered.is_nested
        && !ledger::shares_nothing()
        && !inject::may_concern(id, &|all| *all = words)
        && tombstones::first_gone_address(address, bytes).is_none();
    let since = if entered.is_nested { 0 } else { order::start_if_noted(id, arguments) };
    let start = recorder::clock::now();
    let result = call();
    if result != 0 {
        return result;
    }
    let record = if is_noted { record_content(id, entered, arguments, copied, start) } else { None };
    if since != 0 {
        order::note_call(id, entered.caller, arguments, since, record.as_ref());
    }
    result
}

/// Records a copy that began at `start` and returned, with a hash of its content. Returns `None` if the content, or the device of
/// the copy, is not known.
fn record_content<'a>(
    id: FnId,
    entered: &EnteredCall,
    arguments: &'a dyn Arguments,
    copied: HostCopy,
    start: u64,
) -> Option<CallRecord<'a>> {
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    let (end, mut known) = (recorder::clock::now(), None);
    guarded(|| {
        known = content::sample(words[copied.host], words[copied.size]).and_then(|content| {
            let device = || places::device_of_memory(words[copied.device], ledger::device_of_opened_memory);
            Some((queries::run_in_relaxed_mode(device)?, content))
        });
    });
    let (device, content) = known?;
    let mut record = CallRecord::new(id, arguments);
    let caller = caller_behind_patch(id, entered.caller);
    record.append(caller, start, end);
    if !record.is_recorded() {
        return None;
    }
    let rest = u64::from(device as u32) | u64::from(content.is_constant) << 32;
    let content = [content.hash, rest].map(u64::to_le_bytes);
    guarded(|| {
        record.add(|detail| {
            detail.add_item(detail::CONTENT, 0, content.as_flattened());
            detail.add_frames(caller);
        });
    });
    Some(record)
}
