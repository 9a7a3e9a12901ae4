//! Fault injection: the one step that may change what the program sees.
//!
//! `arming` tracks the armed faults, `index` finds those that may concern a call, `facts` tests their conditions,
//! `counts` decides whether they fire, `decide` chooses what happens to the call, `act` and `outputs` carry it out,
//! and `told` reports it. The grammar and the definition of a fault are in `cupeer_spec::fault`. Denied pairs of
//! devices are in `crate::fault::deny`.
//!
//! The path of a call: if nothing is armed, it costs one load. If the index of its function shows from the arguments
//! that no fault can concern it, it ends there. Otherwise, it takes the slow path, [`Fault::of`], which tests
//! everything.

mod act;
mod arming;
mod counts;
mod decide;
mod excuses;
mod facts;
mod handles;
mod index;
mod outputs;
mod private;
mod program;
mod shared;
mod told;

pub use arming::{counts, disarm, load, marked, release};
pub use decide::Fault;
pub use excuses::is_excused;
pub use index::Armed;
pub use program::{arm_c, put_counts};

use crate::recorder::export_of;
use crate::sys::every_call::{EVERY_CALL, UNREAD};
use core::sync::atomic::Ordering::Acquire;
use cupeer_spec::effect::Shared;
use cupeer_spec::function::{FnId, MOST_ARGUMENTS};
use cupeer_spec::record::live::{Entry, kind};

/// The arguments of a call in order: numbers without their sign, pointers and handles as they are; of an IPC handle by value
/// the address of its bytes.
pub type ArgumentWords = [u64; MOST_ARGUMENTS];

/// A call as the steps see it that may change it.
pub struct Forward<'a> {
    pub id: FnId,
    pub words: &'a ArgumentWords,
    /// Its return address.
    pub caller: usize,
}

impl Forward<'_> {
    /// What the call is about to open, as its exporter told the job: see [`export_of`].
    pub fn export(&self) -> Option<Entry> {
        export_of(kind::exported(self.id.spec().opens()?.object), self.handle()?)
    }

    /// The handle that it is about to open.
    pub fn handle(&self) -> Option<&[u8; 64]> {
        let function = self.id.spec();
        let Shared { handle, .. } =
            function.opens().filter(|shared| function.args[shared.handle].size() == 64)?;
        // SAFETY: the word of a handle by value is the address of its bytes, which the caller keeps during the call.
        unsafe { (self.words[handle] as *const [u8; 64]).as_ref() }
    }
}

/// The word of an argument: see [`Forward::words`].
#[inline(always)]
pub fn word<T: Copy>(argument: &T) -> u64 {
    let place = core::ptr::from_ref(argument);
    // SAFETY: an argument of the program of as many bytes as are read.
    unsafe {
        match size_of::<T>() {
            1 => u64::from(place.cast::<u8>().read()),
            2 => u64::from(place.cast::<u16>().read()),
            4 => u64::from(place.cast::<u32>().read()),
            8 => place.cast::<u64>().read(),
            _ => place as u64,
        }
    }
}

/// Whether a rule, or a denied pair, may concern a call of a function with these arguments.
#[inline(always)]
pub fn may_concern(id: FnId, words: &dyn Fn(&mut ArgumentWords)) -> bool {
    let armed = EVERY_CALL.armed.load(Acquire);
    if armed == UNREAD {
        return true;
    }
    // SAFETY: what was published there is never freed.
    match unsafe { armed.cast::<Armed>().as_ref() }.and_then(|armed| armed.index(id)) {
        None => false,
        Some(index) => index.may_concern(words),
    }
}
