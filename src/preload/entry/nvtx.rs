//! Turns what a program tells NVTX into marks.
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
use ranges::Whose;

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

/// The forms of a name: bytes, wide characters, and the handle that [`register`] has made.
const ASCII: i32 = 1;
const WIDE: i32 = 2;
const REGISTERED: i32 = 3;

/// The bytes of a name in wide characters that are taken.
const MOST_WIDE: usize = 240;

/// How deep ranges are nested is not known.
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
        // SAFETY: the caller promises that it is null or such a table, whose size says that all of it is there.
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
        (3, mark_wide as *const c_void),
        (4, start_by as *const c_void),
        (5, start_named as *const c_void),
        (6, start_wide as *const c_void),
        (7, end as *const c_void),
        (8, push_by as *const c_void),
        (9, push_named as *const c_void),
        (10, push_wide as *const c_void),
        (11, pop as *const c_void),
    ]
}

/// The same of those that name a domain.
fn of_domains() -> Vec<(usize, *const c_void)> {
    vec![
        (1, mark_in as *const c_void),
        (2, start_in as *const c_void),
        (3, end_in as *const c_void),
        (4, push_in as *const c_void),
        (5, pop_in as *const c_void),
        (10, register as *const c_void),
        (11, register_wide as *const c_void),
        (12, domain as *const c_void),
        (13, domain as *const c_void),
    ]
}

/// The domain of the functions that name none.
const DEFAULT: *mut c_void = ptr::null_mut();

/// A name as the program has it.
enum Name {
    Bytes(*const c_char),
    Wide(*const u32),
}

impl Name {
    /// That of attributes: `Bytes` of null where there is none.
    ///
    /// # Safety
    ///
    /// `attributes` is null, or the program's.
    unsafe fn of(attributes: *const Attributes) -> Name {
        // SAFETY: as promised.
        let attributes = unsafe { attributes.as_ref() };
        let whole = attributes.filter(|known| usize::from(known.size) >= size_of::<Attributes>());
        match whole.map(|known| (known.kind, known.message)) {
            // A registered name is a text that `register` has copied.
            Some((ASCII | REGISTERED, message)) => Name::Bytes(message),
            Some((WIDE, message)) => Name::Wide(message.cast()),
            _ => Name::Bytes(ptr::null()),
        }
    }

    /// Does something with the bytes of it, if there are any.
    ///
    /// # Safety
    ///
    /// It is null, or ends in NUL.
    unsafe fn with<R>(self, work: impl FnOnce(Option<&[u8]>) -> R) -> R {
        match self {
            Name::Bytes(text) if text.is_null() => work(None),
            // SAFETY: as promised, and not null.
            Name::Bytes(text) => work(Some(unsafe { CStr::from_ptr(text) }.to_bytes())),
            Name::Wide(text) if text.is_null() => work(None),
            Name::Wide(text) => {
                let (mut bytes, mut length) = ([0; MOST_WIDE], 0);
                for i in 0.. {
                    // SAFETY: as promised, and the end was not yet there.
                    let character = match unsafe { text.add(i).read_unaligned() } {
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
    }
}

/// A mark.
///
/// # Safety
///
/// The name is null, or ends in NUL.
unsafe fn marked(name: Name) {
    guarded(|| {
        // SAFETY: as promised.
        unsafe { name.with(|name| name.map(mark)) };
    });
}

/// The begin of a range: a mark, and what its end needs. Returns its number and how many are around it.
///
/// # Safety
///
/// The name is null, or ends in NUL.
unsafe fn begun(whose: Whose, name: Name) -> Option<(u64, usize)> {
    let mut begun = None;
    guarded(|| {
        // SAFETY: as promised.
        begun = unsafe {
            name.with(|name| {
                name.map(mark);
                ranges::begin(whose, name)
            })
        };
    });
    begun
}

/// The end of a range: a mark. Returns how many were around it.
fn ended(whose: Whose, number: Option<u64>) -> Option<usize> {
    let mut around = None;
    guarded(|| around = ranges::end(whose, number, |text| _ = mark(text)));
    around
}

fn level(around: Option<usize>) -> c_int {
    around.map_or(UNCOUNTED, |around| around as c_int)
}

/// # Safety
///
/// As for [`begun`].
unsafe fn pushed(domain: *mut c_void, name: Name) -> c_int {
    // SAFETY: as promised.
    level(unsafe { begun(Whose::this_thread(domain as usize), name) }.map(|(_, around)| around))
}

/// # Safety
///
/// As for [`begun`].
unsafe fn started(name: Name) -> u64 {
    // SAFETY: as promised.
    unsafe { begun(Whose::Process, name) }.map_or(0, |(number, _)| number)
}

unsafe extern "C" fn mark_named(name: *const c_char) {
    // SAFETY: the program's text.
    unsafe { marked(Name::Bytes(name)) }
}

unsafe extern "C" fn mark_wide(name: *const u32) {
    // SAFETY: the program's text.
    unsafe { marked(Name::Wide(name)) }
}

unsafe extern "C" fn mark_by(attributes: *const Attributes) {
    // SAFETY: the program's attributes, and the name that they have.
    unsafe { marked(Name::of(attributes)) }
}

unsafe extern "C" fn start_named(name: *const c_char) -> u64 {
    // SAFETY: the program's text.
    unsafe { started(Name::Bytes(name)) }
}

unsafe extern "C" fn start_wide(name: *const u32) -> u64 {
    // SAFETY: the program's text.
    unsafe { started(Name::Wide(name)) }
}

unsafe extern "C" fn start_by(attributes: *const Attributes) -> u64 {
    // SAFETY: the program's attributes, and the name that they have.
    unsafe { started(Name::of(attributes)) }
}

unsafe extern "C" fn end(number: u64) {
    ended(Whose::Process, Some(number));
}

unsafe extern "C" fn push_named(name: *const c_char) -> c_int {
    // SAFETY: the program's text.
    unsafe { pushed(DEFAULT, Name::Bytes(name)) }
}

unsafe extern "C" fn push_wide(name: *const u32) -> c_int {
    // SAFETY: the program's text.
    unsafe { pushed(DEFAULT, Name::Wide(name)) }
}

unsafe extern "C" fn push_by(attributes: *const Attributes) -> c_int {
    // SAFETY: the program's attributes, and the name that they have.
    unsafe { pushed(DEFAULT, Name::of(attributes)) }
}

unsafe extern "C" fn pop() -> c_int {
    level(ended(Whose::this_thread(DEFAULT as usize), None))
}

unsafe extern "C" fn mark_in(_domain: *mut c_void, attributes: *const Attributes) {
    // SAFETY: the program's attributes.
    unsafe { mark_by(attributes) }
}

unsafe extern "C" fn start_in(_domain: *mut c_void, attributes: *const Attributes) -> u64 {
    // SAFETY: the program's attributes.
    unsafe { start_by(attributes) }
}

unsafe extern "C" fn end_in(_domain: *mut c_void, number: u64) {
    ended(Whose::Process, Some(number));
}

unsafe extern "C" fn push_in(domain: *mut c_void, attributes: *const Attributes) -> c_int {
    // SAFETY: the program's attributes, and the name that they have.
    unsafe { pushed(domain, Name::of(attributes)) }
}

unsafe extern "C" fn pop_in(domain: *mut c_void) -> c_int {
    level(ended(Whose::this_thread(domain as usize), None))
}

/// Copies a text that the program will name by the handle that it gets. It stays: the program registers what it has few of.
unsafe extern "C" fn register(_domain: *mut c_void, text: *const c_char) -> *mut c_char {
    // SAFETY: the program's text.
    unsafe { registered(Name::Bytes(text)) }
}

unsafe extern "C" fn register_wide(_domain: *mut c_void, text: *const u32) -> *mut c_char {
    // SAFETY: the program's text.
    unsafe { registered(Name::Wide(text)) }
}

/// # Safety
///
/// The name is null, or ends in NUL.
unsafe fn registered(name: Name) -> *mut c_char {
    let mut copy = ptr::null_mut();
    guarded(|| {
        // SAFETY: as promised; strndup reads so many bytes.
        copy = unsafe {
            name.with(|name| {
                name.map_or(ptr::null_mut(), |name| libc::strndup(name.as_ptr().cast(), name.len()))
            })
        };
    });
    copy
}

/// A domain, whose ranges nest on their own; its name is not kept. It is not null, or the program would take it for one that
/// nobody listens to, and stays: programs have few.
unsafe extern "C" fn domain(_name: *const c_void) -> *const c_void {
    static DOMAIN: u8 = 0;
    // SAFETY: malloc has no preconditions. What it gives is only told from others.
    let own = unsafe { libc::malloc(1) };
    if own.is_null() { (&raw const DOMAIN).cast() } else { own }
}

const _: () = assert!(size_of::<Attributes>() == 48 && size_of::<Callbacks>() == 16);
