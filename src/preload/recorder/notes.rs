//! Adds notes about this process to its record for other modules, and answers their questions about it.

use super::arguments::FINGERPRINT;
use super::current::current;
use super::{about, detail, early, file, process};
use crate::driver::{counted, queries};
use crate::job::live;
use crate::resolve::driver;
use crate::settings;
use crate::sys::every_call::epoch;
use core::sync::atomic::Ordering::Relaxed;
use cupeer_spec::bypass::Bypass;
use cupeer_spec::effect::Object;
use cupeer_spec::function::Library;
use cupeer_spec::record::end::End;
use cupeer_spec::record::live::{Entry, handle_key, kind, own_key};

/// Describes the devices of the driver in the record of this process, once per record.
pub fn describe_devices() {
    queries::describe_devices(about::describe);
}

/// Notes in the record how this process ends. Async-signal-safe, and safe in children of vfork.
pub fn note_end(end: End) {
    if let Some(file) = current() {
        file.note_end(end);
    }
}

/// Returns true if this process has a record. A child of vfork only shares the memory of a process with a record.
pub fn has_own_record() -> bool {
    current().is_some_and(file::File::is_own)
}

/// Notes in the record that this process is about to execute another program.
pub fn note_exec(program: &[u8]) {
    if let Some(file) = current().filter(|file| file.is_own()) {
        about::exec(file, program);
        file.note_end(End::Executed);
    }
}

/// Returns true if the record of this process lacks calls that could not be recorded.
pub fn has_losses() -> bool {
    current().is_some_and(|file| file.lost().load(Relaxed) > 0)
}

/// Puts a mark of the program into the record, or keeps the mark until the record begins. Returns false if neither was possible.
pub fn mark(text: &[u8]) -> bool {
    if has_record() {
        return detail::mark(text);
    }
    let is_kept = process::may_begin() && early::keep(text);
    // Another thread may have begun the record in the meantime, and looked for marks before this mark was kept.
    if is_kept && current().is_some() {
        process::attach();
    }
    is_kept
}

/// Adds a library whose calls bypass cupeer to the record.
pub fn note_bypass(library: &[u8], way: Bypass) {
    // Each bypass shows that there is a driver, except a variable that has the name of a driver function.
    let is_there = || way != Bypass::DataSymbol || driver::is_anywhere();
    if settings::get().record.is_some() && is_there() && process::attach() {
        process::show();
        about::bypass(library, way.name());
    }
}

/// Returns true if this process has a record without calls, or has none yet but would have one.
pub fn has_no_calls() -> bool {
    let is_empty = || current().map_or(epoch() == 0, |file| file.has_no_stream() && !counted::is_on());
    settings::get().record.is_some() && is_empty()
}

/// Returns the live entry of the memory or event that another process of the job exported with a handle, and has not released
/// since; `None` if none is known.
pub fn export_of(kind: u32, handle: &[u8; 64]) -> Option<Entry> {
    if settings::get().record.is_none() || !process::attach() {
        return None;
    }
    let place = live::find(handle_key(kind, FINGERPRINT(handle))).filter(|place| !place.is_own())?;
    // If the export has ended, the driver itself refuses the handle.
    place.read().filter(|export| export.ended == 0)
}

/// Returns the live entry of an object that this process opened under a name (an address or a driver handle), and has not closed
/// since; `None` if none is known.
pub fn imported(object: Object, name: u64) -> Option<Entry> {
    if settings::get().record.is_none() || !process::attach() {
        return None;
    }
    let opened = live::read(own_key(live::own(), kind::opened(object), name, 0))?;
    live::read(handle_key(kind::exported(object), opened.fingerprint))
}

/// Returns true if this process has a record. Creates one first if the process has met a driver.
fn has_record() -> bool {
    settings::get().record.is_some() && driver::is_any_followed(Library::Cuda) && process::attach()
}
