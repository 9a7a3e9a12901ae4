//! Facts about this process that other modules add to its record, or query.

use super::arguments::FINGERPRINT;
use super::current::current;
use super::{about, detail, early, file, process, speed};
use crate::driver::{counted, questions};
use crate::job::live;
use crate::resolve::driver;
use crate::settings;
use crate::sys::every_call::epoch;
use cupeer_spec::bypass::Bypass;
use cupeer_spec::effect::Object;
use cupeer_spec::function::Library;
use cupeer_spec::record::end::End;
use cupeer_spec::record::live::{Entry, handle_key, kind, own_key};

/// Describes the driver's devices in the record, once.
pub fn describe_devices() {
    questions::describe_devices(about::describe);
}

/// Says in the record how this process ends. Async-signal-safe, and for children of vfork as well.
pub fn ends(end: End) {
    if let Some(file) = current() {
        file.ends(end);
    }
}

/// Whether this process has a record: a child of vfork only shares the memory of one that has.
pub fn is_own() -> bool {
    current().is_some_and(file::File::is_own)
}

/// Says in the record that this process is about to become another program.
pub fn becomes(program: &[u8]) {
    if let Some(file) = current().filter(|file| file.is_own()) {
        about::becomes(file, program);
        file.ends(End::Executed);
    }
}

/// Whether calls of this process are missing from its record.
pub fn has_losses() -> bool {
    current().is_some_and(file::File::has_losses)
}

/// Keeps this moment, for the speed of the clock.
pub fn note_time() {
    speed::note();
}

/// Puts a mark of the program's into the record, or keeps it for one that has not begun. Says whether it could.
pub fn mark(text: &[u8]) -> bool {
    if has_record() {
        return detail::mark(text);
    }
    let is_kept = process::may_begin() && early::keep(text);
    // Begun meanwhile by another thread, which has looked for marks already.
    if is_kept && current().is_some() {
        process::attach();
    }
    is_kept
}

/// Gives the record of a process of a large job its name: there is something to tell of it, although it shares nothing.
pub fn show() {
    process::show();
}

/// Names a library whose calls go past us.
pub fn escaped(library: &[u8], way: Bypass) {
    // All but a variable of that name shows that there is a driver, whether we have met it or not.
    let is_there = || way != Bypass::DataSymbol || driver::is_anywhere();
    if settings::get().record.is_some() && is_there() && process::attach() {
        process::show();
        about::escaped(library, way.name());
    }
}

/// Whether this process has, or would have, a record in which there is no event.
pub fn is_empty() -> bool {
    let is_empty = || current().map_or(epoch() == 0, |file| file.has_no_stream() && !counted::is_on());
    settings::get().record.is_some() && is_empty()
}

/// What another process of the job has exported under a handle, of memory or an event, and not ended since; `None` where
/// that is not known.
pub fn export_of(kind: u32, handle: &[u8; 64]) -> Option<Entry> {
    if settings::get().record.is_none() || !process::attach() {
        return None;
    }
    let place = live::find(handle_key(kind, FINGERPRINT(handle))).filter(|place| !place.is_own())?;
    // Of what is gone the driver says that it is.
    place.read().filter(|export| export.ended == 0)
}

/// What a process of the job has exported and this one has opened under a name, and not closed since; `None` where that is
/// not known.
pub fn imported(object: Object, name: u64) -> Option<Entry> {
    if settings::get().record.is_none() || !process::attach() {
        return None;
    }
    let opened = live::read(own_key(live::own(), kind::opened(object), name, 0))?;
    live::read(handle_key(kind::exported(object), opened.fingerprint))
}

/// Whether this process has a record, which is made where it has met a driver.
fn has_record() -> bool {
    settings::get().record.is_some() && driver::is_any_followed(Library::Cuda) && process::attach()
}
