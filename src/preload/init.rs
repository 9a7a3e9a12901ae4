//! What runs uninvited: next to nothing when the library is loaded, and a look for escapes when it is
//! unloaded.

use crate::resolve::{dlerror, dlsym, escapes};
use crate::{call, log};

/// Finds libc's own functions while nobody else runs. Calls that come earlier find them themselves.
#[ctor::ctor(unsafe)]
fn at_load() {
    dlsym::find_real();
    dlerror::find();
}

/// Names what escaped. Nothing else depends on it, because many programs end without it.
extern "C" fn at_unload() {
    if log::is_on() {
        call::quietly(escapes::look_through_all);
    }
}

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_UNLOAD: extern "C" fn() = at_unload;
