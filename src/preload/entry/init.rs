//! The constructor and the destructor of the library. The constructor does almost nothing; the destructor looks for
//! calls that bypassed cupeer.
//!
//! Most processes that have the library use no GPU, and pay for each page that is touched here. So functions and variables
//! of a start lie side by side: in `.text.startup`, and in `.data.start`, on pages that the loader has written to anyway.

use super::{exec, exit, exports, wait};
use crate::check;
use crate::fault::inject;
use crate::log::status;
use crate::resolve::{data_symbols, deep, dlclose, dlerror, escapes, loader, named, runtime};
use crate::sys::elf;
use crate::sys::{arch, descriptors, forks, stack};
use crate::{log, recorder, settings};

/// Takes a look round while nobody else runs, with a few system calls at most. Calls that come earlier find what they
/// need themselves.
#[ctor::ctor(unsafe)]
#[unsafe(link_section = ".text.startup")]
fn at_load() {
    arch::find_cancel_type();
    loader::dlsym();
    dlerror::find();
    dlclose::find();
    elf::find_search(loader::next_of_version(c"_dl_find_object", c"GLIBC_2.35"));
    stack::find(loader::next_of_version(c"__libc_stack_end", arch::FIRST_VERSION));
    forks::watch_forks();
    recorder::forked::watch();
    elf::count_start();
    inject::load();
    log::is_on();
    named::tell(recorder::escaped);
    data_symbols::mend_all();
    exports::provide();
    if deep::begin() || inject::is_armed() {
        runtime::look();
    }
    exit::begin();
    exec::begin();
    wait::begin();
    status::loaded();
    let settings = settings::get();
    if settings.record.is_some() || settings.log.is_some() {
        descriptors::make_room();
    }
}

#[unsafe(link_section = ".text.startup")]
extern "C" fn at_unload() {
    check::say_held();
    status::ended();
    exit::name_escapes(escapes::may_be_any);
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_UNLOAD: extern "C" fn() = at_unload;
