//! NVTX: what a program says of itself to profilers becomes marks.
//!
//! NVTX is a header in the program. At its first call it loads the library that NVTX_INJECTION64_PATH names, and hands it a
//! table of its functions, to be replaced one by one; those that are left alone do nothing. `cupeer run --nvtx` names this
//! library, which is loaded already. What belongs here: that handshake, and from each mark and the begin of each range to
//! [`super::c_api::mark`]. What does not: ends of ranges, which have no name, and names in wide characters.
//!
//! The numbers and layouts are those of NVTX 3, which keeps them.

use super::c_api::mark;
use crate::sys::environment;
use crate::sys::guard::guarded;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::ptr;

/// The table that has [`Callbacks`].
const CALLBACKS: u32 = 1;
/// Tables of functions: of the default domain, and of all domains.
const CORE: c_int = 1;
const CORE2: c_int = 5;

/// What NVTX hands out: a function that gives its tables of functions.
#[repr(C)]
struct Callbacks {
    size: usize,
    /// The kind of table; its entries, each the place of a function's address, or null; how many there are.
    table: Option<unsafe extern "C" fn(c_int, *mut *mut *mut *const c_void, *mut c_uint) -> c_int>,
}

/// The name of a mark or a range, and what else is said of it.
#[repr(C)]
pub struct Attributes {
    version: u16,
    size: u16,
    _others: [u32; 7],
    kind: i32,
    message: *const c_char,
}

/// Names that are bytes, and names that were registered: [`register`] has made those handles.
const ASCII: i32 = 1;
const REGISTERED: i32 = 3;

/// Nobody keeps count of how deep ranges are nested.
const UNCOUNTED: c_int = -2;

/// Is given a function that knows the tables of an instance of NVTX. Returns 1 if it has taken what it needs, else 0.
///
/// # Safety
///
/// `tables` is NVTX's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(
    tables: Option<unsafe extern "C" fn(u32) -> *const c_void>,
) -> c_int {
    let mut is_taken = false;
    guarded(|| {
        if !is_asked() {
            return;
        }
        // SAFETY: the caller's promise: it returns NULL or what is in its table of that number.
        let callbacks = tables.map_or(ptr::null(), |tables| unsafe { tables(CALLBACKS) }).cast::<Callbacks>();
        // SAFETY: as above; the size says that it is there.
        let callbacks = unsafe { callbacks.as_ref() }.filter(|known| known.size >= size_of::<Callbacks>());
        let Some(table) = callbacks.and_then(|callbacks| callbacks.table) else { return };
        for (module, functions) in [(CORE, of_core()), (CORE2, of_domains())] {
            let (mut entries, mut count) = (ptr::null_mut(), 0);
            // SAFETY: both outputs are writable.
            if unsafe { table(module, &mut entries, &mut count) } == 0 || entries.is_null() {
                continue;
            }
            for (number, function) in functions.into_iter().filter(|(number, _)| *number < count as usize) {
                // SAFETY: it has so many entries.
                let place = unsafe { *entries.add(number) };
                if !place.is_null() {
                    // SAFETY: an entry is the place of the address of a function of this number's type.
                    unsafe { *place = function };
                    is_taken = true;
                }
            }
        }
    });
    c_int::from(is_taken)
}

/// Whether NVTX was told to load this library: some look for whoever is there.
fn is_asked() -> bool {
    let mut is_asked = false;
    environment::each(|variable| {
        is_asked |= variable.starts_with(b"NVTX_INJECTION64_PATH=") && variable.ends_with(b"/libcupeer.so");
    });
    is_asked
}

/// What is taken of the functions of the default domain, by their numbers.
fn of_core() -> Vec<(usize, *const c_void)> {
    vec![
        (1, mark_by as *const c_void),
        (2, mark_named as *const c_void),
        (4, start_by as *const c_void),
        (5, start_named as *const c_void),
        (8, push_by as *const c_void),
        (9, push_named as *const c_void),
    ]
}

/// The same of those that name a domain.
fn of_domains() -> Vec<(usize, *const c_void)> {
    vec![
        (1, mark_in as *const c_void),
        (2, start_in as *const c_void),
        (4, push_in as *const c_void),
        (10, register as *const c_void),
        (12, domain as *const c_void),
    ]
}

unsafe extern "C" fn mark_named(name: *const c_char) {
    guarded(|| {
        if !name.is_null() {
            // SAFETY: not null, and the program's text ends in NUL.
            mark(unsafe { CStr::from_ptr(name) }.to_bytes());
        }
    });
}

unsafe extern "C" fn mark_by(attributes: *const Attributes) {
    // SAFETY: the program's, or null.
    let attributes = unsafe { attributes.as_ref() };
    let whole = attributes.filter(|known| usize::from(known.size) >= size_of::<Attributes>());
    let named = whole.filter(|known| [ASCII, REGISTERED].contains(&known.kind));
    // SAFETY: a text of the program's, or one that `register` has copied; or null.
    unsafe { mark_named(named.map_or(ptr::null(), |known| known.message)) }
}

unsafe extern "C" fn start_named(name: *const c_char) -> u64 {
    // SAFETY: the program's text.
    unsafe { mark_named(name) }
    0
}

unsafe extern "C" fn start_by(attributes: *const Attributes) -> u64 {
    // SAFETY: the program's attributes.
    unsafe { mark_by(attributes) }
    0
}

unsafe extern "C" fn push_named(name: *const c_char) -> c_int {
    // SAFETY: the program's text.
    unsafe { mark_named(name) }
    UNCOUNTED
}

unsafe extern "C" fn push_by(attributes: *const Attributes) -> c_int {
    // SAFETY: the program's attributes.
    unsafe { mark_by(attributes) }
    UNCOUNTED
}

unsafe extern "C" fn mark_in(_domain: *mut c_void, attributes: *const Attributes) {
    // SAFETY: the program's attributes.
    unsafe { mark_by(attributes) }
}

unsafe extern "C" fn start_in(_domain: *mut c_void, attributes: *const Attributes) -> u64 {
    // SAFETY: the program's attributes.
    unsafe { start_by(attributes) }
}

unsafe extern "C" fn push_in(_domain: *mut c_void, attributes: *const Attributes) -> c_int {
    // SAFETY: the program's attributes.
    unsafe { push_by(attributes) }
}

/// Copies a text that the program will name by the handle that it gets. It stays: the program registers what it has few of.
unsafe extern "C" fn register(_domain: *mut c_void, text: *const c_char) -> *mut c_char {
    let mut copy = ptr::null_mut();
    guarded(|| {
        if !text.is_null() {
            // SAFETY: not null, and the program's text ends in NUL.
            copy = unsafe { libc::strdup(text) };
        }
    });
    copy
}

/// All domains are one. It is not null, or the program would take it for one that nobody listens to.
unsafe extern "C" fn domain(_name: *const c_char) -> *const c_void {
    static DOMAIN: u8 = 0;
    (&raw const DOMAIN).cast()
}

const _: () = assert!(size_of::<Attributes>() == 48 && size_of::<Callbacks>() == 16);
