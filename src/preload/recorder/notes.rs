//! Adds notes about this process to its record for other modules, and answers their questions about it.

use super::arguments::FINGERPRINT;
use super::current::current;
use super::{about, detail, early, file, process};
use crate::driver::{counted, queries};
use crate::job::live;
use crate::resolve::driver;
use crate::settings;
use crate::sys::every_call::recording_epoch;
use core::sync::atomic::Ordering::Relaxed;
use cupeer_spec::bypass::Bypass;
use cupeer_spec::effect::Object;
use cupeer_spec::function::Library;
use cupeer_spec::record::end::RecordedEnd;
use cupeer_spec::record::live::{Entry, fingerprint_key, kind, process_object_key};

/// Describes the devices of the driver in the record of this process, once per record.
pub fn describe_devices() {
    queries::describe_devices(about::add_driver_description);
}

/// Notes in the record how this process ends. Async-signal-safe, and safe in children of vfork.
pub fn note_end(end: RecordedEnd) {
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
        about::add_exec(file, program);
        file.note_end(RecordedEnd::Executed);
    }
}

/// Returns true if the record of this process lacks calls that could not be recorded.
pub fn has_losses() -> bool {
    current().is_some_and(|file| file.lost_calls().load(Relaxed) > 0)
}

/// Puts a mark of the program into the record, or keeps the mark until the record begins. Returns false if neither was possible.
pub fn mark(text: &[u8]) -> bool {
    if has_or_begins_record() {
        return detail::append_mark(text);
    }
    let is_kept = process::may_begin() && early::keep(text);
    // Another thread may have begun the record in the meantime, and looked for marks before this mark was kept.
    if is_kept && current().is_some() {
        process::join_or_begin_record();
    }
    is_kept
}

/// Adds a library whose calls bypass cupeer to the record.
pub fn note_bypass(library: &[u8], way: Bypass) {
    // Each bypass shows that there is a driver, except a variable that has the name of a driver function.
    let is_there = || way != Bypass::DataSymbol || driver::is_driver_in_any_namespace();
    if settings::get().record.is_some() && is_there() && process::join_or_begin_record() {
        process::give_record_name();
        about::add_bypass(library, way.name());
    }
}

/// Returns true if this process has a record without calls, or has none yet but would have one.
pub fn has_no_calls() -> bool {
    let is_empty = || current().map_or(recording_epoch() == 0, |file| file.has_no_stream() && !counted::is_counting());
    settings::get().record.is_some() && is_empty()
}

/// Returns the live entry of the memory or event that another process of the job exported with a handle, and has not released
/// since; `None` if none is known.
pub fn export_of(kind: u32, handle: &[u8; 64]) -> Option<Entry> {
    if settings::get().record.is_none() || !process::join_or_begin_record() {
        return None;
    }
    let place = live::find(fingerprint_key(kind, FINGERPRINT(handle))).filter(|place| !place.is_own())?;
    // If the export has ended, the driver itself refuses the handle.
    place.read().filter(|export| export.ended == 0)
}

/// Returns the live entry of an object that this process opened under a name (an address or a driver handle), and has not closed
/// since; `None` if none is known.
pub fn find_live_import(object: Object, name: u64) -> Option<Entry> {
    if settings::get().record.is_none() || !process::join_or_begin_record() {
        return None;
    }
    let opened = live::read(process_object_key(live::own_owner_number(), kind::opened_kind(object), name, 0))?;
    live::read(fingerprint_key(kind::exported_kind(object), opened.fingerprint))
}

/// Returns true if this process has a record. Creates one first if the process has met a driver.
fn has_or_begins_record() -> bool {
    settings::get().record.is_some() && driver::is_any_followed(Library::Cuda) && process::join_or_begin_record()
}
