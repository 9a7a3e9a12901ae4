//! `dlsym`: every name that is not in the table continues to libc's own, by a jump that keeps the caller.
//!
//! For a name of the table, the result is replaced if it is the driver's function or NVML's, and left alone if it
//! belongs to any other library. RTLD_NEXT is never replaced: the library that asks is itself a wrapper of the
//! function, and finds our export in its place in the order.

use super::{deep, dlclose, dlerror, dlvsym, driver, entries, escapes, linked, loader, runtime};
use crate::sys::arch::{Decision, deciding_entry};
use crate::sys::elf;
use crate::sys::guard::guarded;
use crate::sys::object::is_text;
use core::ffi::{CStr, c_char, c_void};
use core::ptr;
use core::sync::atomic::AtomicUsize;
use cupeer_spec::function::{FUNCTION_COUNT, FUNCTIONS, FnSpec};

#[unsafe(link_section = ".data.start")]
static REAL: AtomicUsize = AtomicUsize::new(0);

/// The next function in the order of search.
#[unsafe(link_section = ".data.start")]
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The libc function, interposed.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    deciding_entry!(decide)
}

/// The same for who asks for libc's own: another tool's, which is preloaded behind us, is passed over.
#[unsafe(naked)]
unsafe extern "C" fn dlsym_of_libc(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    deciding_entry!(decide_as_libc)
}

/// Finds libc's own dlsym, once.
#[unsafe(link_section = ".text.startup")]
pub fn find_real() -> usize {
    loader::own(c"dlsym", &REAL)
}

/// Finds the next dlsym, once: libc's, or that of another tool which is preloaded behind us.
pub fn find_next() -> usize {
    loader::once(&NEXT, || call(find_real(), libc::RTLD_NEXT, c"dlsym"))
}

/// Looks a name up with libc's own dlsym, with ourselves as the caller.
pub fn real(handle: *mut c_void, name: &CStr) -> usize {
    call(find_real(), handle, name)
}

#[unsafe(link_section = ".text.startup")]
fn call(real: usize, handle: *mut c_void, name: &CStr) -> usize {
    if real == 0 {
        return 0;
    }
    type Dlsym = unsafe extern "C" fn(*mut c_void, *const c_char) -> usize;
    // SAFETY: the address of a dlsym, which has this type. The name ends in NUL, and the handle is one that the loader gave.
    unsafe { core::mem::transmute::<usize, Dlsym>(real)(handle, name.as_ptr()) }
}

/// The first bytes of each function's name, with zeros behind a shorter one. Most look-ups are of other names, and these tell
/// them apart.
static HEADS: [u64; FUNCTION_COUNT] = {
    let mut heads = [0; FUNCTION_COUNT];
    let mut index = 0;
    while index < FUNCTION_COUNT {
        let name = FUNCTIONS[index].name().as_bytes();
        let mut i = 0;
        while i < size_of::<u64>() && i < name.len() {
            heads[index] |= (name[i] as u64) << (8 * i);
            i += 1;
        }
        index += 1;
    }
    heads
};

/// A bit for each of these, by their hash: most other names have none.
static HAS_HEAD: [u64; 32] = {
    let mut has = [0; 32];
    let mut index = 0;
    while index < FUNCTION_COUNT {
        let bit = bit_of(HEADS[index]);
        has[bit / 64] |= 1 << (bit % 64);
        index += 1;
    }
    has
};

/// The number of a head's bit.
const fn bit_of(head: u64) -> usize {
    (head.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as usize
}

/// Which function of the table a name is.
///
/// Called for every look-up in the process, also before libc is ready: reads byte by byte, so that no
/// compiler makes a call of strlen or memcmp of it.
fn index_of(name: *const c_char) -> Option<usize> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the name ends in NUL, and no byte after that is read, because each is read only where the
    // one before was not NUL.
    let byte = |i: usize| unsafe { name.add(i).cast::<u8>().read_volatile() };
    let mut head = 0;
    for i in 0..size_of::<u64>() {
        let byte = byte(i);
        if byte == 0 {
            break;
        }
        head |= u64::from(byte) << (8 * i);
    }
    let bit = bit_of(head);
    if HAS_HEAD[bit / 64] >> (bit % 64) & 1 == 0 {
        return None;
    }
    let is_rest = |function: &FnSpec| {
        let rest = || function.name().bytes().enumerate().skip(size_of::<u64>());
        rest().all(|(i, wanted)| byte(i) == wanted) && byte(function.name().len()) == 0
    };
    (0..FUNCTION_COUNT).find(|index| HEADS[*index] == head && is_rest(&FUNCTIONS[*index]))
}

/// The functions of the loader in front of which we stand: its name, libc's own or the next one, and ours.
pub fn function_of_loader(name: *const c_char) -> Option<(&'static CStr, usize, usize)> {
    if name.is_null() {
        return None;
    }
    type Function = (&'static CStr, fn() -> usize, usize);
    let functions: [Function; 4] = [
        (c"dlsym", find_real, dlsym_of_libc as *const () as usize),
        (c"dlvsym", loader::dlvsym, dlvsym::dlvsym as *const () as usize),
        (c"dlclose", dlclose::find, dlclose::dlclose as *const () as usize),
        (c"dlerror", dlerror::find, dlerror::dlerror as *const () as usize),
    ];
    // SAFETY: the name ends in NUL.
    let is_it = |(wanted, ..): &Function| unsafe { is_text(name, wanted) };
    let (wanted, find, ours) = functions.into_iter().find(is_it)?;
    Some((wanted, find(), ours))
}

/// Our own function, where a program asks a library by its handle for one of the loader's that we interpose,
/// and would get libc's: all that it finds with that would go past us.
fn loader_function(next: usize, handle: *mut c_void, name: *const c_char) -> Option<usize> {
    if handle == libc::RTLD_NEXT || handle == libc::RTLD_DEFAULT {
        return None;
    }
    let (wanted, libcs, ours) = function_of_loader(name)?;
    (call(next, handle, wanted) == libcs).then_some(ours)
}

const _: () = assert!(FUNCTION_COUNT < 200, "index_of is linear: give it a hash table");

unsafe extern "C" fn decide(handle: *mut c_void, name: *const c_char, caller: usize) -> Decision {
    decide_before(find_next(), handle, name, caller)
}

unsafe extern "C" fn decide_as_libc(handle: *mut c_void, name: *const c_char, caller: usize) -> Decision {
    decide_before(find_real(), handle, name, caller)
}

/// What a look-up gives that goes on to the dlsym at `next`: the one that the program would have called without us.
fn decide_before(next: usize, handle: *mut c_void, name: *const c_char, caller: usize) -> Decision {
    let go_on = Decision { jump: next, value: 0 };
    let Some(index) = index_of(name) else {
        return match loader_function(next, handle, name) {
            Some(value) => Decision { jump: 0, value },
            None => {
                deep::look(handle);
                go_on
            }
        };
    };
    let mut answer = None;
    guarded(|| {
        answer = match handle {
            libc::RTLD_NEXT => by_next(next, index, caller),
            libc::RTLD_DEFAULT => by_default(next, index, caller),
            _ => by_handle(next, handle, index),
        };
    });
    answer.map_or(go_on, |value| Decision { jump: 0, value })
}

/// What RTLD_NEXT gives; `None` where libc shall answer, which is always but where it would find our
/// export and nothing lies behind that, or a driver that lies before us.
fn by_next(next: usize, index: usize, caller: usize) -> Option<usize> {
    let name = entries::name(index);
    let object = elf::containing(caller)?;
    if !elf::is_before_us(&object) {
        escapes::looked_up_next(&object, name);
        return None;
    }
    // It is the caller's position from which the next one is asked, not ours; where a tool behind us replaces dlsym, its own.
    let definer = elf::next_definer(&object, name)?;
    let (is_ours, is_libcs) = (elf::is_ours(&definer), next == find_real());
    let given =
        if is_ours || !is_libcs { call(next, libc::RTLD_NEXT, name) } else { definer.symbol(name)?.address };
    match given {
        0 if is_ours => Some(not_found(name, object.path())),
        // libc would give our export.
        _ if is_ours && is_libcs => None,
        given => driver::handed_out(FUNCTIONS[index].library, given),
    }
}

/// What RTLD_DEFAULT gives; `None` where libc shall answer.
fn by_default(next: usize, index: usize, caller: usize) -> Option<usize> {
    let name = entries::name(index);
    let ours = entries::export(index);
    let found = real(libc::RTLD_DEFAULT, name);
    if found != ours {
        // A driver that lies before us.
        return driver::handed_out(FUNCTIONS[index].library, found);
    }
    let given = call(next, libc::RTLD_DEFAULT, name);
    if given != 0 && given != ours {
        return diverted(next, libc::RTLD_DEFAULT, index, given);
    }
    // Our export is what the program finds. Without us it would find what lies behind it in the global
    // scope, or else in the scope of the caller's own library.
    if real(libc::RTLD_NEXT, name) != 0 {
        return Some(ours);
    }
    let Some(object) = elf::containing(caller) else { return Some(not_found(name, c"")) };
    let handle = if elf::is_of_start(&object) { ptr::null_mut() } else { driver::open_again(&object) };
    if handle.is_null() {
        return Some(not_found(name, object.path()));
    }
    // SAFETY: gives back the use that dlopen counted; the caller is running.
    unsafe { dlclose::call(handle) };
    // Where this fails, the message names the caller's library, as it would without us.
    let found = real(handle, name);
    Some(driver::handed_out(FUNCTIONS[index].library, found).unwrap_or(found))
}

/// What a handle gives; `None` where libc shall answer.
fn by_handle(next: usize, handle: *mut c_void, index: usize) -> Option<usize> {
    let name = entries::name(index);
    let ours = entries::export(index);
    let found = call(next, handle, name);
    if found != ours {
        escapes::look_for_data_symbols();
        let library = FUNCTIONS[index].library;
        if !entries::is_exported(index) {
            runtime::look();
            return Some(driver::handed_out(library, found).unwrap_or(found));
        }
        let handed_out = driver::handed_out(library, found).or_else(|| diverted(next, handle, index, found));
        driver::hold_pending(None);
        if handed_out.is_none() {
            escapes::looked_up(found);
        }
        return Some(handed_out.unwrap_or(found));
    }
    // The handle of the program itself, which finds whatever is preloaded; or our own.
    // SAFETY: dlsym has just taken the handle.
    let base = unsafe { elf::base_of_handle(handle) };
    if elf::containing(ours).is_some_and(|object| object.base == base) {
        return Some(found);
    }
    if real(libc::RTLD_NEXT, name) != 0 { Some(ours) } else { Some(not_found(name, c"")) }
}

/// Our export, where the dlsym of a tool behind us gave its own function in place of the driver's, and a linked call of
/// ours goes to that one as well. One that is the tool's secret is named.
fn diverted(next: usize, handle: *mut c_void, index: usize, found: usize) -> Option<usize> {
    if found == 0 || next == find_real() {
        return None;
    }
    let libcs = real(handle, entries::name(index));
    if libcs != entries::export(index) {
        // Meets the driver behind it as well.
        driver::handed_out(FUNCTIONS[index].library, libcs)?;
    }
    let ours = linked::in_place_of(found);
    if ours.is_none() {
        escapes::diverted(found);
    }
    ours
}

/// Answers that a name is not there, with the message that the loader has for a look-up in the scope of an
/// object.
fn not_found(name: &CStr, object: &CStr) -> usize {
    unsafe extern "C" {
        static program_invocation_name: *const c_char;
    }
    let object = match object {
        // SAFETY: libc sets it before any constructor runs, to a text that stays.
        path if path.is_empty() => unsafe { CStr::from_ptr(program_invocation_name) },
        path => path,
    };
    dlerror::pretend(&[object.to_bytes(), b": undefined symbol: ", name.to_bytes()]);
    0
}
