//! The addresses of our entries: the parts of each export, which `entry` defines.

use crate::sys::object::{Object, Symbol, gnu_hash};
use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use cupeer_spec::function::{FUNCTION_COUNT, FUNCTIONS, FnId};

/// The offset in an export of the address that look-ups hand out. It is inside the export's symbol, so that `dladdr`,
/// debuggers, and profilers name it as they name the driver's function.
pub const LOOKED_UP: usize = 128;
/// The offset of the entry for linked calls that are traced.
pub const TRACED_EXPORT: usize = 224;
/// The offset of the entry for looked-up calls that are traced.
pub const TRACED_LOOKED_UP: usize = 288;

/// The entries that are no exports, where they are known.
#[unsafe(link_section = ".data.start")]
static OTHERS: [AtomicUsize; FUNCTION_COUNT] = [const { AtomicUsize::new(0) }; FUNCTION_COUNT];

macro_rules! export {
    (Cudart $name:ident) => {
        None
    };
    ($library:ident $name:ident) => {{
        unsafe extern "C" {
            fn $name();
        }
        Some($name as unsafe extern "C" fn())
    }};
}

macro_rules! exports {
    ($(
        #[doc = $doc:literal]
        fn $name:ident($($argument:tt)*) -> $ret:ty { library: $library:ident, $($rest:tt)* }
    )*) => {
        /// The exports, in the order of the table. The runtime's functions have none: a program may have several runtimes, and
        /// only the loader knows which of them a call means.
        static EXPORTS: [Option<unsafe extern "C" fn()>; FUNCTION_COUNT] = [$(export!($library $name),)*];
    };
}
cupeer_spec::intercepted_functions!(exports);

/// The name of a function of the table, for C.
pub fn name(index: usize) -> &'static CStr {
    FUNCTIONS[index].c_name()
}

/// The hashes of the names, for the tables of objects.
static HASHES: [u32; FUNCTION_COUNT] = {
    let mut hashes = [0; FUNCTION_COUNT];
    let mut index = 0;
    while index < FUNCTION_COUNT {
        hashes[index] = gnu_hash(FUNCTIONS[index].name().as_bytes());
        index += 1;
    }
    hashes
};

/// The index of a function by its name, where we export it.
pub fn exported_as(wanted: &CStr) -> Option<usize> {
    let hash = gnu_hash(wanted.to_bytes());
    (0..FUNCTION_COUNT).find(|index| HASHES[*index] == hash && name(*index) == wanted && is_exported(*index))
}

/// The functions whose names an object may define, as indexes.
pub fn may_be_in(object: &Object) -> impl Iterator<Item = usize> {
    object.may_define(&HASHES)
}

/// What an object itself defines under the name of a function.
pub fn symbol_in(object: &Object, index: usize) -> Option<Symbol> {
    object.symbol_of_hash(|| name(index), HASHES[index])
}

/// Our entry of a function, which is our export of it where we have one; 0 where it is not known yet.
#[inline]
pub fn export(index: usize) -> usize {
    EXPORTS[index].map_or_else(|| OTHERS[index].load(Relaxed), |export| export as usize)
}

/// Whether the entry is an export, which the loader may bind others to.
pub fn is_exported(index: usize) -> bool {
    EXPORTS[index].is_some()
}

/// Tells of an entry that is no export. Called by our constructor.
pub fn provide(id: FnId, entry: usize) {
    OTHERS[id as usize].store(entry, Relaxed);
}

/// The address that look-ups hand out.
pub fn looked_up(index: usize) -> usize {
    export(index) + LOOKED_UP
}

/// Where a linked call of a function goes that is traced.
pub fn traced_export(id: FnId) -> usize {
    export(id as usize) + TRACED_EXPORT
}

/// Where a looked-up call of a function goes that is traced.
pub fn traced_looked_up(id: FnId) -> usize {
    export(id as usize) + TRACED_LOOKED_UP
}
