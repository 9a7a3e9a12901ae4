//! The libraries whose calls bypass cupeer: each is named once, in the log, on the page of the launcher, and in the record.

use crate::log::{self, status};
use crate::sys::caller::path;
use crate::sys::elf;
use crate::sys::object::LoadedObject;
use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU8, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use cupeer_spec::bypass::Bypass;

#[unsafe(link_section = ".data.start")]
static NAMED: [ReportedBypass; 64] =
    [const { ReportedBypass { hash: AtomicU64::new(0), base: AtomicUsize::new(0), way: AtomicU8::new(0) } }; 64];

struct ReportedBypass {
    /// Hash of the path of the library and the kind of bypass; 0 if the place is free.
    hash: AtomicU64,
    /// Base address of the library, plus 1. Written after `way`.
    base: AtomicUsize,
    way: AtomicU8,
}

/// Address of a function that also receives each bypass, with the path of the library; null if there is none.
#[unsafe(link_section = ".data.start")]
static LISTENER: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
type Listener = fn(&[u8], Bypass);

/// Sets the function that receives each bypass, and calls it with those that were reported before. Called by our constructor.
pub fn set_listener(listener: Listener) {
    LISTENER.store(listener as *mut c_void, SeqCst);
    for named in &NAMED {
        let object = named.base.load(SeqCst).checked_sub(1).and_then(elf::at_base);
        let way = Bypass::ALL.get(usize::from(named.way.load(Relaxed)));
        if let (Some(object), Some(way)) = (object, way) {
            listener(path(&object), *way);
        }
    }
}

/// Reports a library whose calls bypass us, once for each kind of bypass.
pub fn report(object: &LoadedObject, way: Bypass) {
    let hash = (object.path_hash() ^ (way as u64 + 1)) | 1;
    for named in &NAMED {
        match named.hash.compare_exchange(0, hash, Relaxed, Relaxed) {
            Ok(_) => {
                named.way.store(way as u8, Relaxed);
                named.base.store(object.base + 1, SeqCst);
                status::count_bypass(way);
                log::log_bypass(path(object), way);
                let listener = LISTENER.load(SeqCst);
                if !listener.is_null() {
                    // SAFETY: put there by `set_bypass_listener`, as a function of this type.
                    unsafe { core::mem::transmute::<*mut c_void, Listener>(listener)(path(object), way) };
                }
                return;
            }
            Err(named) if named == hash => return,
            Err(_) => {}
        }
    }
}

/// Returns true if any bypass was reported in this process.
pub fn has_any() -> bool {
    NAMED[0].hash.load(Relaxed) != 0
}

/// Objects to report after a walk through the objects of our namespace, when the loader's lock is released. They are stored by
/// their bases, because the stack may be small.
#[derive(Default)]
pub struct FoundObjects([Option<(usize, Bypass)>; 32]);

impl FoundObjects {
    pub fn add(&mut self, object: &LoadedObject, way: Bypass) {
        if let Some(place) = self.0.iter_mut().find(|place| place.is_none()) {
            *place = Some((object.base, way));
        }
    }

    pub fn report_all(&self) {
        for (base, way) in self.0.iter().flatten() {
            if let Some(object) = elf::at_base(*base) {
                report(&object, *way);
            }
        }
    }
}
