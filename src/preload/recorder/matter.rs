//! Decides whether to record a call that is rarely recorded.

use super::arguments::{Arguments, Handle, Store};
use crate::driver::{batches, counted, kernels, parameters, places, questions};
use crate::job::{gone, ledger};
use crate::resolve::driver;
use crate::resolve::needs::{self, Needs};
use crate::sys::guard::guarded;
use core::cell::Cell;
use cupeer_model::Call;
use cupeer_spec::function::{FnId, Library};
use cupeer_spec::record::slot::MOST_ARGS;

/// Why a call is recorded that rarely is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Matter {
    Nothing,
    /// It is to be there.
    Call,
    /// It copies from the memory of the first device to that of the second.
    Copy {
        devices: [i32; 2],
        is_gone: bool,
    },
}

/// Whether a call that frees or destroys has to do with anything that is shared; whether one that copies does so between
/// devices; whether one that copies or launches uses memory that is gone; and whether one of another library was made by a
/// process that has met the driver: none gets a record because it looks at its GPUs.
#[cold]
#[inline(never)]
pub fn matter(id: FnId, store: &dyn Store, handle: &Cell<Option<Handle>>) -> Matter {
    let of = |matters| if matters { Matter::Call } else { Matter::Nothing };
    if id.spec().library == Library::Nvml {
        return of(driver::is_any_followed(Library::Cuda));
    }
    let spec = id.spec();
    let allocates = spec.allocates().is_some();
    let is_event = (allocates || spec.frees().is_some()) && counted::is_known_event();
    if is_event || allocates {
        return of(is_event);
    }
    if ledger::is_idle(id) {
        return Matter::Nothing;
    }
    let copied = spec.copies().filter(|_| has_reach(id));
    let mut args = [0; MOST_ARGS];
    store.store(&mut Arguments::new(&mut args, handle), false);
    let mut matter = Matter::Nothing;
    let mut is_gone = false;
    if let Some(event) = spec.records() {
        let mut is_shared = false;
        guarded(|| is_shared = ledger::has_opened(questions::number(id, &args, event)));
        return of(is_shared);
    }
    if spec.is_work() && gone::is_to_look_around() {
        guarded(gone::look_around);
    }
    if spec.is_work() && gone::has_any() {
        let call = Call { function: id, result: 0, args: &args, shape: 0, elements: &[] };
        let mut look = |start, bytes| {
            if gone::first(start, bytes).is_some() {
                guarded(|| is_gone |= gone::is_used(start, bytes));
            }
        };
        call.used().for_each(|(_, start, bytes)| look(start, bytes));
        if let Some(batch) = spec.batch() {
            batches::each_range(id, &args, batch, &mut |_, start, bytes| look(start, bytes));
        }
        if let Some(launched) = spec.launches() {
            parameters::each_word(id, &args, launched, &mut |_, word| look(word, 1));
            is_gone = is_gone && kernels::note_found(questions::number(id, &args, launched.function));
        }
        if let Some(exec) = spec.replays() {
            is_gone = gone::is_used_by_graph(questions::number(id, &args, exec), true);
        }
    }
    if spec.is_work() && copied.is_none() {
        return of(is_gone);
    }
    if let Some(copied) = copied {
        let devices = places::copied(id, &args, copied, ledger::opened_device);
        return devices.map_or(of(is_gone), |devices| Matter::Copy { devices, is_gone });
    }
    guarded(|| matter = of(ledger::matters(id, &args)));
    matter
}

/// Whether a copy can go from one device to another.
fn has_reach(id: FnId) -> bool {
    needs::needs(id) == Needs::Nothing || needs::has_done(Needs::Reach)
}
