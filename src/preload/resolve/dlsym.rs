//! `dlsym`: every name but the table's goes on to libc's own, by a jump that leaves the caller the caller.
//!
//! For a name of the table, the result is replaced where it is the driver's function, or NVML's, and left alone where
//! it is anybody else's. RTLD_NEXT is never replaced: the library that asks is itself a wrapper of the
//! function, and finds our export in its place in the order.

use super::{dlclose, dlerror, driver, elf, escapes};
use crate::arch::{Decision, deciding_entry};
use crate::call;
use crate::exports::ENTRIES;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use cupeer_spec::function::{FUNCTION_COUNT, FUNCTIONS};

/// libc's own function.
static REAL: AtomicUsize = AtomicUsize::new(0);

/// The next function in the order of search.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The libc function, interposed.
#[unsafe(no_mangle)]
#[unsafe(naked)]
unsafe extern "C" fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void {
    deciding_entry!(decide)
}

/// Finds a function of a version of libc, where it has that.
pub fn of_version(name: &CStr, version: &CStr) -> usize {
    // SAFETY: both texts end in NUL.
    unsafe { libc::dlvsym(libc::RTLD_NEXT, name.as_ptr(), version.as_ptr()) as usize }
}

/// Finds a function of libc without calling `dlsym`. Sanitizers look their functions up through us before
/// they can run any, so nothing else of libc may be called on this way.
pub fn of_libc(name: &CStr) -> usize {
    // The version in which x86-64's libc was born.
    of_version(name, c"GLIBC_2.2.5")
}

/// Finds libc's own dlsym, once.
pub fn find_real() -> usize {
    match REAL.load(Relaxed) {
        0 => {
            let real = of_libc(c"dlsym");
            REAL.store(real, Relaxed);
            real
        }
        real => real,
    }
}

/// Finds the next dlsym, once: libc's, or that of another tool which is preloaded behind us.
pub fn find_next() -> usize {
    match NEXT.load(Relaxed) {
        0 => {
            let next = match find_real() {
                0 => 0,
                libcs => call(libcs, libc::RTLD_NEXT, c"dlsym"),
            };
            NEXT.store(next, Relaxed);
            next
        }
        next => next,
    }
}

/// Looks a name up with libc's own dlsym, with ourselves as the caller.
pub fn real(handle: *mut c_void, name: &CStr) -> usize {
    call(find_real(), handle, name)
}

/// Looks a name up with the next dlsym, as the program would without us.
fn call_next(handle: *mut c_void, name: &CStr) -> usize {
    call(find_next(), handle, name)
}

fn call(real: usize, handle: *mut c_void, name: &CStr) -> usize {
    if real == 0 {
        return 0;
    }
    // SAFETY: the address of a dlsym, which has this type.
    let real = unsafe {
        core::mem::transmute::<usize, unsafe extern "C" fn(*mut c_void, *const c_char) -> usize>(real)
    };
    // SAFETY: the name ends in NUL, and the handle is one that the loader gave.
    unsafe { real(handle, name.as_ptr()) }
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
    'next: for (index, function) in FUNCTIONS.iter().enumerate() {
        for (i, wanted) in function.name.bytes().enumerate() {
            if byte(i) != wanted {
                continue 'next;
            }
        }
        if byte(function.name.len()) == 0 {
            return Some(index);
        }
    }
    None
}

/// Whether a name, of which each byte is read where the one before was not NUL, is this one.
fn is(name: *const c_char, wanted: &CStr) -> bool {
    wanted.to_bytes_with_nul().iter().enumerate().all(|(i, wanted)| {
        // SAFETY: the name ends in NUL, and no byte after that is read.
        unsafe { name.add(i).cast::<u8>().read_volatile() == *wanted }
    })
}

/// Our own function, where a program asks a library by its handle for one of the loader's that we interpose,
/// and would get libc's: all that it finds with that would go past us.
fn loader_function(handle: *mut c_void, name: *const c_char) -> Option<usize> {
    if name.is_null() || handle == libc::RTLD_NEXT || handle == libc::RTLD_DEFAULT {
        return None;
    }
    let functions: [(&CStr, usize, usize); 3] = [
        (c"dlsym", find_real(), dlsym as *const () as usize),
        (c"dlclose", dlclose::find(), dlclose::dlclose as *const () as usize),
        (c"dlerror", dlerror::find(), dlerror::dlerror as *const () as usize),
    ];
    let (wanted, libcs, ours) = functions.into_iter().find(|(wanted, ..)| is(name, wanted))?;
    (call_next(handle, wanted) == libcs).then_some(ours)
}

const _: () = assert!(FUNCTION_COUNT < 200, "index_of is linear: give it a hash table");

unsafe extern "C" fn decide(handle: *mut c_void, name: *const c_char, caller: usize) -> Decision {
    let go_on = Decision { jump: find_next(), value: 0 };
    let Some(index) = index_of(name) else {
        return match loader_function(handle, name) {
            Some(value) => Decision { jump: 0, value },
            None => go_on,
        };
    };
    let mut decision = go_on;
    call::quietly(|| {
        let answer = if handle == libc::RTLD_NEXT {
            next(index, caller)
        } else if handle == libc::RTLD_DEFAULT {
            by_default(index, caller)
        } else {
            by_handle(handle, index)
        };
        if let Some(value) = answer {
            decision = Decision { jump: 0, value };
        }
    });
    decision
}

/// What RTLD_NEXT gives; `None` where libc shall answer, which is always but where it would find our
/// export and nothing lies behind that.
fn next(index: usize, caller: usize) -> Option<usize> {
    let name = driver::name_of(index);
    let object = elf::containing(caller)?;
    if !elf::is_before_us(&object) {
        escapes::looked_up_next(&object, name);
        return None;
    }
    (real(libc::RTLD_NEXT, name) == 0).then(|| not_found(name, object.path()))
}

/// What RTLD_DEFAULT gives; `None` where libc shall answer.
fn by_default(index: usize, caller: usize) -> Option<usize> {
    let name = driver::name_of(index);
    let ours = ENTRIES[index].export as usize;
    if real(libc::RTLD_DEFAULT, name) != ours {
        return None;
    }
    // Our export is what the program finds. Without us it would find what lies behind it in the global
    // scope, or else in the scope of the caller's own library.
    if real(libc::RTLD_NEXT, name) != 0 {
        return Some(ours);
    }
    let Some(object) = elf::containing(caller) else { return Some(not_found(name, c"")) };
    if elf::is_of_start(&object) {
        return Some(not_found(name, object.path()));
    }
    // SAFETY: the path is the loader's own; RTLD_NOLOAD loads nothing.
    let handle = unsafe { libc::dlopen(object.path().as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
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
fn by_handle(handle: *mut c_void, index: usize) -> Option<usize> {
    let name = driver::name_of(index);
    let ours = ENTRIES[index].export as usize;
    let found = call_next(handle, name);
    if found != ours {
        escapes::look_for_data_symbols();
        let handed_out = driver::handed_out(FUNCTIONS[index].library, found);
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

/// Answers that a name is not there, with the message that the loader has for a look-up in the scope of an
/// object.
fn not_found(name: &CStr, object: &CStr) -> usize {
    unsafe extern "C" {
        static program_invocation_name: *const c_char;
    }
    dlerror::pretend(|out| {
        let object = match object {
            // SAFETY: libc sets it before any constructor runs, to a text that stays.
            path if path.is_empty() => unsafe { CStr::from_ptr(program_invocation_name) },
            path => path,
        };
        out.fill(object.to_bytes());
        out.fill(b": undefined symbol: ");
        out.fill(name.to_bytes());
    });
    0
}
