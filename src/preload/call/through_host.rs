//! The steps of a copy between device memory and the host, whose content is recorded.

use super::{Arguments, Entered, Function, behind_patch, order};
use crate::driver::{places, questions};
use crate::fault::{forward::ArgumentWords, inject};
use crate::job::{gone, ledger};
use crate::recorder::{self, Recorded, content};
use crate::settings;
use crate::sys::guard::guarded;
use cupeer_spec::effect::HostCopy;
use cupeer_spec::function::{FUNCTIONS, FnId};
use cupeer_spec::record::slot::detail;

/// What a call copies to or from the host, if that is so much that it is looked into once the process shares memory.
#[inline(always)]
pub fn large_copy<F: Function>(arguments: &F) -> Option<HostCopy> {
    let host_copy = const { FUNCTIONS[F::ID as usize].host_copy() };
    host_copy.filter(|copied| arguments.word(copied.size) >= content::SMALLEST)
}

/// A copy between device memory and the host in a process that shares memory: records what was copied if the call succeeds. Where the
/// memory is gone, or a fault plan may change the copy, nothing is known of that.
#[cold]
#[inline(never)]
pub fn run(
    id: FnId,
    entered: &Entered,
    arguments: &dyn Arguments,
    copied: HostCopy,
    call: &mut dyn FnMut() -> i32,
) -> i32 {
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    let (address, bytes) = (words[copied.device], words[copied.size]);
    let is_noted = settings::get().is_recorded(id)
        && !entered.again
        && !ledger::shares_nothing()
        && !inject::may_concern(id, &|all| *all = words)
        && gone::first(address, bytes).is_none();
    let since = if entered.again { 0 } else { order::since(id, arguments) };
    let start = recorder::clock::now();
    let result = call();
    let note = |record| {
        if since != 0 {
            order::note(id, entered.caller, arguments, since, record);
        }
        result
    };
    if result != 0 {
        return result;
    }
    if !is_noted {
        return note(None);
    }
    let (end, mut known) = (recorder::clock::now(), None);
    guarded(|| {
        known = content::of(words[copied.host], bytes).and_then(|content| {
            let device = questions::relaxed(|| places::device_of_memory(address, ledger::opened_device))?;
            Some((device, content))
        });
    });
    if let Some((device, content)) = known {
        let mut record = Recorded::new(id, arguments);
        let caller = behind_patch(id, entered.caller);
        record.append(caller, start, end);
        if !record.was_kept() {
            return note(None);
        }
        let rest = u64::from(device as u32) | u64::from(content.is_constant) << 32;
        let content = [content.hash, rest].map(u64::to_le_bytes);
        guarded(|| {
            record.add(|detail| {
                detail.item(detail::CONTENT, 0, content.as_flattened());
                detail.frames(caller);
            });
        });
        return note(Some(&record));
    }
    note(None)
}
