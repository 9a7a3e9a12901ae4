//! Finds and reports libraries whose calls bypass cupeer, and repairs bindings that would crash.
//!
//! Calls bypass cupeer if the loader binds a library directly to the driver: RTLD_DEEPBIND, a namespace of `dlmopen`,
//! RTLD_NEXT from a library outside the global scope, or a second driver. No sound way exists to intercept them, so
//! they are reported. The same applies to NVML if any of its functions is traced. A library with a *variable* of one
//! of our names (a table of function pointers, as in cuew) is bound to our export instead of its own variable; its
//! references are restored, because it would otherwise write into our code.

use super::{dlsym, driver, entries, linked, patched, traced};
use crate::log::{self, status};
use crate::sys::arch::page_size;
use crate::sys::caller::path;
use crate::sys::elf;
use crate::sys::forks;
use crate::sys::object::{Object, Symbol};
use core::ffi::{CStr, c_void};
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use cupeer_spec::function::{FUNCTIONS, Library};
use cupeer_spec::way::Way;

#[unsafe(link_section = ".data.start")]
static NAMED: [NamedObject; 64] =
    [const { NamedObject { hash: AtomicU64::new(0), base: AtomicUsize::new(0), way: AtomicU8::new(0) } }; 64];

struct NamedObject {
    /// Of library and way.
    hash: AtomicU64,
    /// The library's base address, plus 1; written after the way.
    base: AtomicUsize,
    way: AtomicU8,
}

/// Who is told as well, with the path of the library; null before anybody is.
#[unsafe(link_section = ".data.start")]
static LISTENER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
type Listener = fn(&[u8], Way);

/// Tells somebody of each library that is named, and was named so far. Called by our constructor.
pub fn tell(listener: Listener) {
    LISTENER.store(listener as *mut c_void, SeqCst);
    for named in &NAMED {
        let object = named.base.load(SeqCst).checked_sub(1).and_then(elf::at_base);
        let way = Way::ALL.get(usize::from(named.way.load(Relaxed)));
        if let (Some(object), Some(way)) = (object, way) {
            listener(path(&object), *way);
        }
    }
}

fn name(object: &Object, way: Way) {
    let hash = (object.path_hash() ^ (way as u64 + 1)) | 1;
    for named in &NAMED {
        match named.hash.compare_exchange(0, hash, Relaxed, Relaxed) {
            Ok(_) => {
                named.way.store(way as u8, Relaxed);
                named.base.store(object.base + 1, SeqCst);
                status::escaped(way);
                log::escaped(path(object), way);
                let listener = LISTENER.load(SeqCst);
                if !listener.is_null() {
                    // SAFETY: put there by `tell`.
                    unsafe { core::mem::transmute::<*mut c_void, Listener>(listener)(path(object), way) };
                }
                return;
            }
            Err(named) if named == hash => return,
            Err(_) => {}
        }
    }
}

/// Called where an object that was loaded after us asks for the next definition of a name of the table.
///
/// In the global scope that is a wrapper behind us, which a linked call has reached through us. Outside of
/// it, the next definition is what the object's own dependencies have.
pub fn looked_up_next(object: &Object, wanted: &CStr) {
    if elf::is_ours(object) || is_wrapper_behind_us(object, wanted) {
        return;
    }
    // The object comes first in its own scope, and has some of the functions of the table. Behind it is the driver, where it
    // depends on one.
    let is_nvml = entries::exported_as(wanted).is_some_and(|index| FUNCTIONS[index].library == Library::Nvml);
    let of_driver = if is_nvml { c"nvmlInit_v2" } else { c"cuDriverGetVersion" };
    let behind = if object.symbol(wanted).is_some() { of_driver } else { wanted };
    let Some(found) = linked::in_scope_of(object, behind) else { return };
    if elf::containing(found).is_some_and(|found| is_missed(&found)) {
        name(object, Way::Next);
    }
}

/// Whether an object is a driver, or another library of which calls shall not go past us.
pub fn is_missed(object: &Object) -> bool {
    driver::library_of(object).is_some_and(traced::is_missed)
}

/// Whether our own forwarding of a linked call leads to this object.
fn is_wrapper_behind_us(object: &Object, wanted: &CStr) -> bool {
    object.symbol(wanted).is_some_and(|own| own.address == dlsym::real(libc::RTLD_NEXT, wanted))
}

/// Called where a look-up by handle found something that we do not follow.
pub fn looked_up(found: usize) {
    let Some(object) = elf::containing(found).filter(is_missed) else { return };
    if !driver::is_followed(&object) {
        name(&object, Way::SecondDriver);
    }
}

/// Called where the dlsym of a tool gave a function of its own for one of the driver's.
pub fn diverted(found: usize) {
    if let Some(object) = elf::containing(found) {
        name(&object, Way::Diverts);
    }
}

/// Objects of our namespace that were found, to be named when the walk through them, and with it the loader's lock, is
/// over: by their bases, because the stack may be small.
#[derive(Default)]
struct FoundObjects([Option<(usize, Way)>; 32]);

impl FoundObjects {
    fn add(&mut self, object: &Object, way: Way) {
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some((object.base, way));
        }
    }

    fn name_all(&self) {
        for (base, way) in self.0.iter().flatten() {
            if let Some(object) = elf::at_base(*base) {
                name(&object, *way);
            }
        }
    }
}

/// Puts the references of variables of our names back to them, in objects that came since the last look,
/// and names those objects.
pub fn look_for_data_symbols() {
    static LOOKED: AtomicU64 = AtomicU64::new(0);
    let loads = elf::changes().0;
    if LOOKED.swap(loads, Relaxed) != loads {
        let mut found = FoundObjects::default();
        elf::each(|object| {
            if mend(object) {
                found.add(object, Way::DataSymbol);
            }
            false
        });
        found.name_all();
    }
}

/// The same for all objects that are there, in silence: for our constructor, which runs in processes that
/// never meet a driver.
pub fn mend_data_symbols() {
    let mut program = None;
    elf::each(|object| {
        mend(object);
        program.get_or_insert(*object);
        false
    });
    // What it copies is mended.
    if let Some(program) = program {
        mend_copies(&program);
    }
}

/// A program that refers to such a variable has a copy of it, which the loader made of our code.
fn mend_copies(program: &Object) {
    program.each_slot(|slot| {
        // Few references are copies, so names are compared last.
        let Some(index) = slot.is_copy.then(|| entries::exported_as(slot.name())).flatten() else { return };
        if let Some(own) = program.symbol(slot.name()).filter(|symbol| symbol.size <= 64)
            && let Some(origin) = data_behind_us(entries::name(index))
        {
            // SAFETY: both are variables of that size at least, which nobody uses yet.
            unsafe {
                let size = own.size.min(origin.size);
                ptr::write_bytes(slot.place.cast::<u8>(), 0, own.size);
                ptr::copy_nonoverlapping(origin.address as *const u8, slot.place.cast(), size);
            }
        }
    });
}

/// The first variable of a name behind the program itself.
fn data_behind_us(name: &CStr) -> Option<Symbol> {
    let mut is_behind = false;
    elf::find(|object| {
        is_behind |= elf::is_ours(object);
        object.symbol(name).filter(|symbol| is_behind && symbol.is_data)
    })
}

/// Mends an object that defines data under one of our names. Says whether it does.
#[unsafe(link_section = ".text.startup")]
fn mend(object: &Object) -> bool {
    let data = |index| entries::symbol_in(object, index).filter(|symbol| symbol.is_data);
    let mut likely = entries::may_be_in(object).filter(|index| entries::is_exported(*index)).peekable();
    let is_exempt = || elf::is_ours(object) || driver::library_of(object).is_some();
    if likely.peek().is_none() || is_exempt() || !likely.any(|index| data(index).is_some()) {
        return false;
    }
    object.each_slot(|slot| {
        let Some(index) = entries::exported_as(slot.name()).filter(|_| !slot.is_copy) else { return };
        let Some(own) = data(index) else { return };
        // SAFETY: the place is one that the loader filled.
        if unsafe { *slot.place } == entries::export(index) {
            write(object, slot.place, own.address);
        }
    });
    true
}

/// Writes to a place in which the loader keeps an address.
pub fn write(object: &Object, place: *mut usize, value: usize) {
    let size = page_size();
    let page = (place as usize & !(size - 1)) as *mut c_void;
    let read_only = object.is_read_only(place);
    // SAFETY: the page belongs to an object's table of addresses, and is made read-only again where the
    // loader had made it so.
    unsafe {
        if read_only && libc::mprotect(page, size, libc::PROT_READ | libc::PROT_WRITE) != 0 {
            return;
        }
        place.write(value);
        if read_only {
            libc::mprotect(page, size, libc::PROT_READ);
        }
    }
}

/// The bases of drivers of other namespaces are not ours to look at twice: whether there is one.
static IS_ELSEWHERE: AtomicBool = AtomicBool::new(false);

/// Whether a driver was found in another namespace.
pub fn is_driver_elsewhere() -> bool {
    IS_ELSEWHERE.load(Relaxed)
}

/// Names the libraries of other namespaces that refer to our names, or else the driver there, which is given.
fn look_through_other_namespaces() -> Option<Object> {
    let (mut driver_there, mut named) = (None, false);
    elf::each_in_other_namespaces(|object| {
        if driver::library_of(object).is_some() {
            driver_there = driver_there.or(is_missed(object).then_some(*object));
            IS_ELSEWHERE.fetch_or(driver::is_driver(object), Relaxed);
            return;
        }
        let is_wanted = |index: usize| traced::is_missed(FUNCTIONS[index].library);
        let mut refers = false;
        object.each_slot(|slot| refers |= entries::exported_as(slot.name()).is_some_and(is_wanted));
        if refers {
            name(object, Way::Dlmopen);
            named = true;
        }
    });
    if let Some(driver) = driver_there.filter(|_| !named) {
        name(&driver, Way::Dlmopen);
    }
    driver_there.filter(driver::is_driver)
}

/// Looks through all objects: at exit, when whatever was bound is bound.
///
/// A driver of which no watched call has come to us until now is named as well: without that, a record that is empty could
/// mean both that nothing was called, and that nothing was seen. Not in a child that has it from its parent. Where it came
/// with the program, and nothing else is to be named, it is no more than counted: programs link it that need it in their
/// children. `is_empty` says that the process has no record, or one without an event.
pub fn look_through_all(is_empty: bool) {
    let was_followed = driver::is_any_followed(Library::Cuda);
    let is_silent = !linked::was_called() && (!was_followed || is_empty);
    driver::find_loaded(Library::Cuda);
    look_for_data_symbols();
    let (mut drivers, mut found) = (0, FoundObjects::default());
    elf::each(|object| {
        drivers += usize::from(is_missed(object));
        false
    });
    let elsewhere = look_through_other_namespaces();
    if drivers > 0 {
        look_through_our_namespace(&mut found, was_followed);
    }
    found.name_all();
    if log::is_on() {
        patched::log_all();
    }
    let silent = driver::followed_driver().or(elsewhere).filter(|_| is_silent && !forks::is_forked());
    if let Some(driver) = silent {
        if elf::is_of_start(&driver) && NAMED[0].hash.load(Relaxed) == 0 {
            status::escaped(Way::Unseen);
        } else {
            name(&driver, Way::Unseen);
        }
    }
}

fn look_through_our_namespace(found: &mut FoundObjects, was_followed: bool) {
    let libcs_dlsym = dlsym::find_real();
    let mut is_before = true;
    elf::each(|object| {
        is_before &= !elf::is_ours(object);
        // The runtime is a user of the driver itself.
        if let Some(library) = driver::library_of(object).filter(|library| *library != Library::Cudart) {
            if is_missed(object) && driver::is_any_followed(library) && !driver::is_followed(object) {
                found.add(object, Way::SecondDriver);
            }
            return false;
        }
        if elf::is_ours(object) {
            return false;
        }
        // One of which nothing came through us, before a driver that nobody has looked up with us.
        if is_before && !was_followed && object.symbol(c"dlsym").is_some() {
            found.add(object, Way::Diverts);
        }
        let mut past = None;
        object.each_slot(|slot| {
            // SAFETY: the place is one that the loader filled.
            let bound = unsafe { *slot.place };
            let way = match entries::exported_as(slot.name()).filter(|_| !slot.is_copy) {
                Some(_) => elf::containing(bound)
                    .filter(is_missed)
                    .map(|driver| if elf::is_before_us(&driver) { Way::DriverFirst } else { Way::DeepBind }),
                None => (slot.name() == c"dlsym" && bound == libcs_dlsym).then_some(Way::DeepBind),
            };
            past = past.or(way);
        });
        if let Some(way) = past {
            found.add(object, way);
        }
        false
    });
}
