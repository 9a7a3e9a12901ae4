//! The addresses of our entries: the parts of each export, which `entry` defines.

use crate::sys::object::{LoadedObject, Symbol, gnu_hash};
use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use cupeer_spec::function::{FUNCTION_COUNT, FUNCTIONS, FnId};

/// Offset, in an export, of the address that lookups return. It is inside the export's symbol, so that `dladdr`, debuggers, and
/// profilers name it as they name the driver's function.
pub const LOOKED_UP: usize = 128;
/// Offset, in an export, of the entry for linked calls that are traced.
pub const TRACED_EXPORT: usize = 224;
/// Offset, in an export, of the entry for looked-up calls that are traced.
pub const TRACED_LOOKED_UP: usize = 288;

/// Addresses of our entries that are not exports, in the order of the table; 0 if not known yet.
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
        /// The exports in the order of the table. The runtime's functions have none: a program may have several runtimes, and
        /// only the loader knows which of them a call goes to.
        static EXPORTS: [Option<unsafe extern "C" fn()>; FUNCTION_COUNT] = [$(export!($library $name),)*];
    };
}
cupeer_spec::intercepted_functions!(exports);

/// Returns the name of the function at an index of the table, as a C string.
pub fn name(index: usize) -> &'static CStr {
    FUNCTIONS[index].c_name()
}

/// Hashes of the functions' names, for lookups in the hash tables of objects.
pub static HASHES: [u32; FUNCTION_COUNT] = {
    let mut hashes = [0; FUNCTION_COUNT];
    let mut index = 0;
    while index < FUNCTION_COUNT {
        hashes[index] = gnu_hash(FUNCTIONS[index].name().as_bytes());
        index += 1;
    }
    hashes
};

/// Returns the indexes of functions that an object may define, judged by the filter of its hash table.
pub fn candidates_in(object: &LoadedObject) -> impl Iterator<Item = usize> {
    object.candidate_indexes(&HASHES)
}

/// Returns the definition of a function by an object itself, not by its dependencies.
pub fn symbol_in(object: &LoadedObject, index: usize) -> Option<Symbol> {
    object.symbol_of_hash(|| name(index), HASHES[index])
}

/// Returns the address of our entry for a function: the export if there is one; 0 if it is not known yet.
#[inline]
pub fn export(index: usize) -> usize {
    EXPORTS[index].map_or_else(|| OTHERS[index].load(Relaxed), |export| export as usize)
}

/// Returns true if our entry for a function is an export, to which the loader may bind other objects.
pub fn is_exported(index: usize) -> bool {
    EXPORTS[index].is_some()
}

/// Sets the address of our entry for a function without an export. Called by our constructor.
pub fn set_entry(id: FnId, entry: usize) {
    OTHERS[id as usize].store(entry, Relaxed);
}

/// Returns the address of our entry for looked-up calls of a function.
pub fn looked_up_entry(index: usize) -> usize {
    export(index) + LOOKED_UP
}

/// Returns the entry for traced linked calls of a function.
pub fn traced_export_address(id: FnId) -> usize {
    export(id as usize) + TRACED_EXPORT
}

/// Returns the entry for traced looked-up calls of a function.
pub fn traced_looked_up_address(id: FnId) -> usize {
    export(id as usize) + TRACED_LOOKED_UP
}
