//! What runs uninvited: next to nothing when the library is loaded, and a look for escapes when it is
//! unloaded.

use crate::resolve::{dlclose, dlerror, dlsym, driver, elf, escapes};
use crate::{call, log, settings};

/// Takes a look round while nobody else runs, without a system call. Calls that come earlier find what they
/// need themselves.
#[ctor::ctor(unsafe)]
fn at_load() {
    dlsym::find_real();
    dlerror::find();
    dlclose::find();
    elf::find_search(dlsym::of_version(c"_dl_find_object", c"GLIBC_2.35"));
    elf::watch_forks();
    elf::count_start();
    settings::get();
    escapes::mend_data_symbols();
}

/// Names what escaped. Nothing else depends on it, because many programs end without it.
extern "C" fn at_unload() {
    let is_heard = log::is_on() || settings::get().record.is_some();
    if is_heard && driver::is_anywhere() {
        call::quietly(escapes::look_through_all);
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_UNLOAD: extern "C" fn() = at_unload;
