//! The constructor and the destructor of the library. The constructor does almost nothing; the destructor looks for
//! calls that bypassed cupeer.
//!
//! Most processes that have the library use no GPU, and pay for each page that is touched here. So functions and variables
//! of a start lie side by side: in `.text.startup`, and in `.data.start`, on pages that the loader has written to anyway.

use super::{exec, exit, exports, wait};
use crate::check;
use crate::fault::inject;
use crate::log::status;
use crate::resolve::loader::Dlsym;
use crate::resolve::{bypasses, data_symbols, deep, dlclose, dlerror, loader, reported, runtime};
use crate::sys::elf;
use crate::sys::{arch, descriptors, forks, stack};
use crate::{log, recorder, settings};

/// Prepares the library when it is loaded, while no other thread runs, with a few system calls at most. Calls of our functions
/// before this find the data that they need themselves.
#[ctor::ctor(unsafe)]
#[unsafe(link_section = ".text.startup")]
fn at_load() {
    arch::find_cancel_type();
    Dlsym::of_libc();
    dlerror::find();
    dlclose::find();
    elf::set_dl_find_object(loader::next_of_version(c"_dl_find_object", c"GLIBC_2.35"));
    stack::find_first_thread_stack(loader::next_of_version(c"__libc_stack_end", arch::FIRST_VERSION));
    forks::watch_forks();
    recorder::forked::register_fork_handlers();
    elf::count_start();
    inject::arm_environment_plan();
    log::is_on();
    reported::set_listener(recorder::note_bypass);
    data_symbols::repair_all();
    exports::provide();
    if deep::note_if_anything_is_on() || inject::is_armed() {
        runtime::redirect_new();
    }
    exit::begin();
    exec::begin();
    wait::begin();
    status::report_loaded();
    let settings = settings::get();
    if settings.record.is_some() || settings.log.is_some() {
        descriptors::enlarge_table();
    }
}

#[unsafe(link_section = ".text.startup")]
extern "C" fn at_unload() {
    check::print_deferred();
    status::report_exit();
    exit::report_bypasses(bypasses::may_find_bypass);
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_UNLOAD: extern "C" fn() = at_unload;
