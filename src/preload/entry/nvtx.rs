//! Turns the calls of NVTX by a program into marks.
//!
//! NVTX is a header in the program. At its first call it loads the library that NVTX_INJECTION64_PATH names, and
//! passes it a table of its functions. The library replaces some of them; the others do nothing. `cupeer run --nvtx`
//! names this library, which is already loaded. This module performs that handshake, reads the forms that a name has,
//! and passes each mark, and the start and the end of each range, to [`super::c_api::mark`]. `ranges` tracks which
//! range ends.
//!
//! The numbers and layouts are those of NVTX 3, which keeps them stable.

mod ranges;

use super::c_api::mark;
use crate::sys::environment;
use crate::sys::guard::guarded;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::ptr;
use ranges::Owner;

/// Number of the table [`Callbacks`] among those that NVTX provides.
const CALLBACKS: u32 = 1;
/// Number of the table of functions for the default domain.
const CORE: c_int = 1;
/// Number of the table of functions that take a domain.
const CORE2: c_int = 5;

/// Table of callbacks that NVTX provides. Its function returns NVTX's other tables by their numbers.
#[repr(C)]
struct Callbacks {
    size: usize,
    /// Returns a table of functions by its number: an array of pointers to the places of the functions' addresses, some of them
    /// null, and the length of the array.
    table: Option<unsafe extern "C" fn(c_int, *mut *mut *mut *const c_void, *mut c_uint) -> c_int>,
}

/// The name and other attributes of a mark or a range.
#[repr(C)]
pub struct Attributes {
    version: u16,
    size: u16,
    _others: [u32; 7],
    kind: i32,
    message: *const c_char,
}

/// Form of a name: a text of bytes.
const ASCII: i32 = 1;
/// Form of a name: a text of wide characters.
const WIDE: i32 = 2;
/// Form of a name: a handle that [`nvtx_register_string`] has returned.
const REGISTERED: i32 = 3;

/// Number of bytes that are kept of a name in wide characters.
const MOST_WIDE: usize = 240;

/// Level that is returned for a range if its level is unknown.
const UNCOUNTED: c_int = -2;

/// Replaces functions of an instance of NVTX, which passes the function that returns its tables. Returns 1 if any function was
/// replaced, else 0.
///
/// # Safety
///
/// `tables` is NVTX's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(tables: Option<unsafe extern "C" fn(u32) -> *const c_void>) -> c_int {
    let mut is_taken = false;
    guarded(|| {
        if !is_named_in_environment() {
            return;
        }
        // SAFETY: the caller's promise: it returns NULL or what is in its table of that number.
        let callbacks = tables.map_or(ptr::null(), |tables| unsafe { tables(CALLBACKS) }).cast::<Callbacks>();
        // SAFETY: the caller promises that it is null or such a table, whose size says that all of it is there.
        let callbacks = unsafe { callbacks.as_ref() }.filter(|known| known.size >= size_of::<Callbacks>());
        let Some(table) = callbacks.and_then(|callbacks| callbacks.table) else { return };
        for (module, functions) in [(CORE, core_replacements()), (CORE2, domain_replacements())] {
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

/// Returns true if NVTX was asked to load this library. Some versions of NVTX also search the loaded libraries for
/// [`InitializeInjectionNvtx2`].
fn is_named_in_environment() -> bool {
    let mut is_asked = false;
    environment::each(|variable| {
        is_asked |= variable.starts_with(b"NVTX_INJECTION64_PATH=") && variable.ends_with(b"/libcupeer.so");
    });
    is_asked
}

/// Returns our replacements for functions of the default domain, with their indexes in the table.
fn core_replacements() -> Vec<(usize, *const c_void)> {
    vec![
        (1, nvtx_mark::<Attributes> as *const c_void),
        (2, nvtx_mark::<c_char> as *const c_void),
        (3, nvtx_mark::<u32> as *const c_void),
        (4, nvtx_range_start::<Attributes> as *const c_void),
        (5, nvtx_range_start::<c_char> as *const c_void),
        (6, nvtx_range_start::<u32> as *const c_void),
        (7, nvtx_range_end as *const c_void),
        (8, nvtx_range_push::<Attributes> as *const c_void),
        (9, nvtx_range_push::<c_char> as *const c_void),
        (10, nvtx_range_push::<u32> as *const c_void),
        (11, nvtx_range_pop as *const c_void),
    ]
}

/// Returns our replacements for functions that take a domain, with their indexes in the table.
fn domain_replacements() -> Vec<(usize, *const c_void)> {
    vec![
        (1, nvtx_domain_mark as *const c_void),
        (2, nvtx_domain_range_start as *const c_void),
        (3, nvtx_domain_range_end as *const c_void),
        (4, nvtx_domain_range_push::<Attributes> as *const c_void),
        (5, nvtx_domain_range_pop as *const c_void),
        (10, nvtx_register_string::<c_char> as *const c_void),
        (11, nvtx_register_string::<u32> as *const c_void),
        (12, nvtx_create_domain as *const c_void),
        (13, nvtx_create_domain as *const c_void),
    ]
}

/// Domain of the functions that take no domain.
const DEFAULT: *mut c_void = ptr::null_mut();

/// A form in which the program passes a name: bytes, wide characters, or attributes that contain either.
trait NvtxName {
    /// Calls `work` with the bytes of the name; `None` if there is no name.
    ///
    /// # Safety
    ///
    /// It is null, or the program's; a text ends in NUL.
    unsafe fn with_bytes<R>(name: *const Self, work: impl FnOnce(Option<&[u8]>) -> R) -> R;
}

impl NvtxName for c_char {
    unsafe fn with_bytes<R>(name: *const c_char, work: impl FnOnce(Option<&[u8]>) -> R) -> R {
        // SAFETY: as promised, and not null.
        work((!name.is_null()).then(|| unsafe { CStr::from_ptr(name) }.to_bytes()))
    }
}

impl NvtxName for u32 {
    unsafe fn with_bytes<R>(name: *const u32, work: impl FnOnce(Option<&[u8]>) -> R) -> R {
        if name.is_null() {
            return work(None);
        }
        let (mut bytes, mut length) = ([0; MOST_WIDE], 0);
        for i in 0.. {
            // SAFETY: as promised, and the end was not yet there.
            let character = match unsafe { name.add(i).read_unaligned() } {
                0 => break,
                value => char::from_u32(value).unwrap_or(char::REPLACEMENT_CHARACTER),
            };
            let Some(room) = bytes.get_mut(length..length + character.len_utf8()) else { break };
            character.encode_utf8(room);
            length += character.len_utf8();
        }
        work(Some(&bytes[..length]))
    }
}

impl NvtxName for Attributes {
    unsafe fn with_bytes<R>(name: *const Attributes, work: impl FnOnce(Option<&[u8]>) -> R) -> R {
        // SAFETY: as promised.
        let attributes = unsafe { name.as_ref() };
        let whole = attributes.filter(|known| usize::from(known.size) >= size_of::<Attributes>());
        match whole.map(|known| (known.kind, known.message)) {
            // A registered name is the address of a text that `register` has copied.
            // SAFETY: as promised: a text in this form.
            Some((ASCII | REGISTERED, message)) => unsafe { c_char::with_bytes(message, work) },
            // SAFETY: as promised: a text in this form.
            Some((WIDE, message)) => unsafe { u32::with_bytes(message.cast(), work) },
            _ => work(None),
        }
    }
}

/// Begins a range: writes a mark, and keeps the name for the mark at the end. Returns the number of the range, and the number of
/// ranges around it; `None` if it cannot be kept.
///
/// # Safety
///
/// As for [`NvtxName::with_bytes`].
unsafe fn begin<N: NvtxName>(owner: Owner, name: *const N) -> Option<(u64, usize)> {
    let mut begun = None;
    guarded(|| {
        // SAFETY: as promised.
        begun = unsafe {
            N::with_bytes(name, |name| {
                name.map(mark);
                ranges::begin(owner, name)
            })
        };
    });
    begun
}

/// Ends a range with a mark. Returns the number of ranges that were around it; `None` if that is unknown.
fn end_range(owner: Owner, number: Option<u64>) -> Option<usize> {
    let mut around = None;
    guarded(|| around = ranges::end(owner, number, |text| _ = mark(text)));
    around
}

fn level(around: Option<usize>) -> c_int {
    around.map_or(UNCOUNTED, |around| around as c_int)
}

unsafe extern "C" fn nvtx_mark<N: NvtxName>(name: *const N) {
    guarded(|| {
        // SAFETY: the program's name.
        unsafe { N::with_bytes(name, |name| name.map(mark)) };
    });
}

unsafe extern "C" fn nvtx_range_start<N: NvtxName>(name: *const N) -> u64 {
    // SAFETY: the program's name.
    unsafe { begin(Owner::Process, name) }.map_or(0, |(number, _)| number)
}

unsafe extern "C" fn nvtx_range_end(number: u64) {
    end_range(Owner::Process, Some(number));
}

unsafe extern "C" fn nvtx_range_push<N: NvtxName>(name: *const N) -> c_int {
    // SAFETY: the program's name.
    unsafe { nvtx_domain_range_push(DEFAULT, name) }
}

unsafe extern "C" fn nvtx_range_pop() -> c_int {
    // SAFETY: it only tells domains apart.
    unsafe { nvtx_domain_range_pop(DEFAULT) }
}

unsafe extern "C" fn nvtx_domain_mark(_domain: *mut c_void, attributes: *const Attributes) {
    // SAFETY: the program's attributes.
    unsafe { nvtx_mark(attributes) }
}

unsafe extern "C" fn nvtx_domain_range_start(_domain: *mut c_void, attributes: *const Attributes) -> u64 {
    // SAFETY: the program's attributes.
    unsafe { nvtx_range_start(attributes) }
}

unsafe extern "C" fn nvtx_domain_range_end(_domain: *mut c_void, number: u64) {
    end_range(Owner::Process, Some(number));
}

unsafe extern "C" fn nvtx_domain_range_push<N: NvtxName>(domain: *mut c_void, name: *const N) -> c_int {
    // SAFETY: the program's name.
    level(unsafe { begin(Owner::this_thread(domain as usize), name) }.map(|(_, around)| around))
}

unsafe extern "C" fn nvtx_domain_range_pop(domain: *mut c_void) -> c_int {
    level(end_range(Owner::this_thread(domain as usize), None))
}

/// Copies a text, and returns the address of the copy as a handle by which the program can name the text. The copy is never
/// freed: programs register few texts.
unsafe extern "C" fn nvtx_register_string<N: NvtxName>(_domain: *mut c_void, text: *const N) -> *mut c_char {
    let mut copy = ptr::null_mut();
    guarded(|| {
        // SAFETY: the program's text; strndup reads so many bytes.
        copy = unsafe {
            N::with_bytes(text, |name| {
                name.map_or(ptr::null_mut(), |name| libc::strndup(name.as_ptr().cast(), name.len()))
            })
        };
    });
    copy
}

/// Returns a handle of a domain. The ranges of each domain nest separately; the domain's name is not kept. NVTX takes a null
/// handle to mean that no tool uses the domain. The handle is never freed: programs have few domains.
unsafe extern "C" fn nvtx_create_domain(_name: *const c_void) -> *const c_void {
    static DOMAIN: u8 = 0;
    // SAFETY: malloc has no preconditions. What it gives is only told from others.
    let own = unsafe { libc::malloc(1) };
    if own.is_null() { (&raw const DOMAIN).cast() } else { own }
}

const _: () = assert!(size_of::<Attributes>() == 48 && size_of::<Callbacks>() == 16);
