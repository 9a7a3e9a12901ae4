//! The record of this process, in the format of `cupeer_spec::record`, written so that it survives any end.
//!
//! The path of a call: [`Recorded::begin`] writes it into the thread's own window before it is forwarded, and
//! [`Recorded::finish`] adds the result. Both write to memory that no other thread writes to, and make no system call.
//! Everything else is off that path: the file and its windows (`file`, `stream`), facts about the process (`about`,
//! `libraries`), driver queries (`questions`), and what is open in the whole job (`live`, `ledger`).
//!
//! Only PR_SET_TSC makes reading the clock fatal: for the processor's counter, and for the kernel's clock in the vDSO.

pub mod about;
mod arguments;
pub mod clock;
pub mod content;
pub mod counted;
mod current;
pub mod detail;
mod early;
pub mod exhausted;
pub mod file;
pub mod forked;
mod functions_of_python;
mod libraries;
mod matter;
pub mod outlived;
pub mod process;
mod repeats;
pub mod speed;
mod stream;
mod told;
mod used;
mod weight;

pub use arguments::{Arguments, Store, Stored};
pub use detail::{Detail, Elements, item_of};
pub use repeats::{listened, world_changed};
pub use told::*;
pub use used::{Use, has_stream, is_noting, pause};
pub use weight::is_tracked;

use self::arguments::Handle;
use self::matter::{Matter, matter};
use self::repeats::{Join, Joined, Left, Passed};
use self::weight::WEIGHTS;
use crate::driver::questions;
use crate::sys::arch::{Thread, stack_height, thread};
use crate::sys::every_call::{epoch, libraries_generation};
use crate::sys::guard::guarded;
use core::cell::Cell;
use core::ptr;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::hit::Hit;
use cupeer_spec::record::slot::{self, ARGS, MOST_ARGS, Slot, word};

/// The longest name of a rule of faults: longer ones are cut.
const MOST_NAME: usize = 160;
/// The low 48 bits of a word: an address.
const ADDRESS: u64 = (1 << 48) - 1;

/// A call on its way through the record. Lives where it is made: moving it costs as much as recording it.
pub struct Recorded<'a> {
    id: FnId,
    store: &'a dyn Store,
    /// Null before it is in the record, and after it has returned.
    slot: *mut Slot,
    word: u64,
    /// The number of the slot in its stream.
    number: u64,
    epoch: u64,
    /// When a weighty call was forwarded.
    start: u64,
    /// [`slot::INJECTED`] where the program sees something else than the driver gave.
    injected: u8,
    caller: usize,
    /// Where the stack stood.
    height: usize,
    /// The run that it is counted in, while it is in flight there.
    run: Option<Joined>,
    stack: Stack,
    /// It copies between memory that is there: if it succeeds, nobody has to look at it.
    is_plain: bool,
    handle: Cell<Option<Handle>>,
}

/// Whether a call has its stack in the record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stack {
    /// Not yet. It gets one where its kind is due for one.
    Open,
    /// Not yet. It gets one in any case.
    AllocProps,
    Taken,
    /// Neither that nor what is to be said of it before it is forwarded: it was in flight in a run.
    Late,
}

#[cold]
#[inline(never)]
fn begin_slowly() -> bool {
    let mut attached = false;
    guarded(|| {
        attached = process::attach();
        if !attached {
            process::miss();
        }
    });
    attached
}

impl<'a> Recorded<'a> {
    /// A call that is not in the record.
    #[inline(always)]
    pub fn new(id: FnId, store: &'a dyn Store) -> Self {
        Recorded {
            id,
            store,
            slot: ptr::null_mut(),
            word: 0,
            number: 0,
            epoch: 0,
            start: 0,
            injected: 0,
            caller: 0,
            height: 0,
            run: None,
            stack: Stack::Open,
            is_plain: false,
            handle: Cell::new(None),
        }
    }

    /// Whether it is in the record, and has not returned.
    #[inline(always)]
    pub fn has_begun(&self) -> bool {
        !self.slot.is_null() || self.run.is_some()
    }

    /// Whether it is in the record, also after it has returned.
    pub fn was_kept(&self) -> bool {
        self.number != 0 || self.word != 0
    }

    /// Says that the program sees something else than the driver gave.
    pub fn mark_injected(&mut self) {
        self.injected = slot::INJECTED;
    }

    /// Says what a rule of faults has done to it, or is about to do.
    pub fn hit(&self, hit: &Hit, name: &str) {
        let mut bytes = [0; 32 + MOST_NAME];
        let length = name.len().min(MOST_NAME);
        bytes[..32].copy_from_slice(cupeer_spec::record::bytes(hit));
        bytes[32..32 + length].copy_from_slice(&name.as_bytes()[..length]);
        item_of(self.number, slot::detail::HIT, &bytes[..32 + length]);
    }

    /// Puts it into the record. `store` is what `new` was given, by its type; `is_hit` says that it is one even where it ends
    /// nothing that is shared, and `is_own` that nobody but the program has to do with it.
    #[inline(always)]
    pub fn begin<S: Store + ?Sized>(&mut self, store: &S, caller: usize, is_hit: bool, is_own: bool) {
        let (thread, id) = (thread(), self.id);
        // SAFETY: only this thread and its signal handlers use the block.
        let own = || unsafe { (*thread).epoch };
        if own() != epoch() && !begin_slowly() {
            return;
        }
        let matter =
            if WEIGHTS[id as usize].rarely { matter(id, self.store, &self.handle) } else { Matter::Call };
        if matter == Matter::Nothing && !is_hit {
            return;
        }
        // Neither this thread nor any other of the process has recorded a call.
        if own() == 0 && !begin_slowly() {
            return;
        }
        if (WEIGHTS[id as usize].shares || is_hit) && !process::show_before_call() {
            return;
        }
        (self.caller, self.height) = (caller, stack_height());
        // SAFETY: only this thread and its signal handlers use the block, and the word is read at once.
        let runs = unsafe { (*thread).runs };
        if runs >> (id as u32 % u32::BITS) & 1 != 0 && is_own && self.join(thread) {
            return;
        }
        if is_hit {
            self.stack = Stack::AllocProps;
        }
        know(thread, caller);
        let Some(taken) = stream::take(thread, 1) else { return };
        let (slot, number) = (taken.place as *mut Slot, taken.number);
        // SAFETY: only this thread and its signal handlers use the block, and the word is read at once.
        let epoch = unsafe { (*thread).epoch };
        let word = word(slot::PENDING, 1, id as u16, number as u32);
        (self.slot, self.word, self.number, self.epoch) = (slot, word, number, epoch);
        // SAFETY: the slot lies in this thread's window, and nobody else was given it.
        unsafe {
            let mut arguments = Arguments::new(&mut (*slot).args, &self.handle);
            store.store(&mut arguments, false);
            (*slot).caller = caller as u64 & ADDRESS | arguments.shape;
            (*slot).result = 0;
            (*slot).end = 0;
            (*slot).start = clock::now();
            stream::publish(slot, word);
        }
        stream::filled(thread, taken.before);
        if let Matter::Copy { devices, is_gone } = matter {
            self.is_plain = !is_gone;
            self.add_devices(devices);
        }
    }

    /// Has it counted in a run, where it is as the calls of one.
    #[inline(never)]
    fn join(&mut self, thread: *mut Thread) -> bool {
        let mut args = [0; MOST_ARGS];
        let mut arguments = Arguments::new(&mut args, &self.handle);
        self.store.store(&mut arguments, false);
        let shape = arguments.shape;
        let passed = Passed { id: self.id, caller: self.caller, height: self.height, args: &args, shape };
        match repeats::join(thread, &passed) {
            Join::Is(joined) => {
                // SAFETY: only this thread and its signal handlers use the block.
                self.epoch = unsafe { (*thread).epoch };
                (self.number, self.start) = (joined.number, joined.start);
                self.run = Some(joined);
                true
            }
            Join::Example => {
                self.stack = Stack::AllocProps;
                false
            }
            Join::Not => false,
        }
    }

    /// The end of a call that was in flight in a run. Says whether there is more to say about it: it did something else.
    #[cold]
    #[inline(never)]
    fn end_of_run(&mut self, run: Joined, result: i32, succeeded: bool) -> bool {
        let (thread, end) = (thread(), clock::now());
        match run.end(thread, result, end) {
            Left::Counted => return false,
            Left::Gone { is_alike } => {
                self.finish_late(result, succeeded, end);
                if is_alike {
                    return false;
                }
            }
            Left::Apart => {
                self.number = 0;
                let Some(taken) = stream::take(thread, 1) else { return false };
                let slot = taken.place as *mut Slot;
                // SAFETY: the slot lies in this thread's window, and nobody else was given it.
                unsafe {
                    let mut arguments = Arguments::new(&mut (*slot).args, &self.handle);
                    self.store.store(&mut arguments, succeeded);
                    (*slot).caller = self.caller as u64 & ADDRESS | arguments.shape;
                    ((*slot).start, (*slot).end, (*slot).result) = (run.start, end, result);
                    stream::publish(slot, word(slot::RETURNED, 1, self.id as u16, taken.number as u32));
                }
                stream::filled(thread, taken.before);
                self.number = taken.number;
            }
        }
        self.stack = Stack::Late;
        let weight = WEIGHTS[self.id as usize];
        weight.counts || weight.more || !succeeded
    }

    /// Whether it was counted in a run, and nothing else was done for it.
    pub fn was_counted(&self) -> bool {
        self.caller != 0 && self.word == 0 && self.number != 0 && self.stack != Stack::Late
    }

    /// Adds between which devices it copies, and its arguments where the slot has no room for them and nobody else adds them.
    #[cold]
    #[inline(never)]
    fn add_devices(&mut self, devices: [i32; 2]) {
        let bytes = devices.map(i32::to_le_bytes);
        let devices = (slot::detail::DEVICES, bytes.as_flattened());
        if self.is_plain && WEIGHTS[self.id as usize].wide {
            let mut args = [0; MOST_ARGS];
            self.store.store(&mut Arguments::new(&mut args, &self.handle), false);
            detail::short(
                self.number,
                &[devices, (slot::detail::ARGUMENTS, &args[..self.id.spec().stored()])],
            );
        } else {
            detail::short(self.number, &[devices]);
        }
        self.restart();
        if speed::is_due(self.start) {
            guarded(speed::note);
        }
    }

    /// Looks at a weighty call before it is forwarded: adds its frames, and gives its arguments to `note`.
    pub fn weigh(&mut self, caller: usize, note: impl FnOnce(FnId, &[u8; MOST_ARGS])) {
        let weight = WEIGHTS[self.id as usize];
        let mut args = [0; MOST_ARGS];
        if let Some(run) = &mut self.run {
            // One that releases nothing is looked at only if it turns out to be another.
            if !self.id.spec().gives_back() {
                return;
            }
            match run.args() {
                Some(known) => args = known,
                None => self.store.store(&mut Arguments::new(&mut args, &self.handle), false),
            }
            guarded(|| note(self.id, &args));
            run.restart(thread());
            self.start = run.start;
            return;
        }
        if weight.wide {
            self.store.store(&mut Arguments::new(&mut args, &self.handle), false);
        } else {
            // To store a handle takes two fingerprints, which the slot has.
            // SAFETY: the slot is this call's.
            args[..ARGS].copy_from_slice(&unsafe { (*self.slot).args });
        }
        guarded(|| {
            self.take_stack(weight.frames && repeats::is_due(self.id, 0, self.number, (caller, self.height)));
            let has_stack = self.stack == Stack::Taken;
            if has_stack || weight.wide {
                Detail::about(self.number, |detail| {
                    if weight.wide {
                        detail.item(slot::detail::ARGUMENTS, 0, &args[..self.id.spec().stored()]);
                    }
                    if has_stack {
                        detail.frames(caller);
                    }
                });
            }
            note(self.id, &args);
        });
        self.restart();
    }

    /// Notes that the stack is taken, where its kind is due for it or it is wanted.
    fn take_stack(&mut self, is_due: bool) {
        if is_due || self.stack == Stack::AllocProps && WEIGHTS[self.id as usize].frames {
            self.stack = Stack::Taken;
        }
    }

    /// What was done up to here is not the call's time.
    #[cold]
    #[inline(never)]
    fn restart(&mut self) {
        self.start = clock::now();
        let before = stream::fill(thread());
        if self.is_there(thread()) {
            // SAFETY: the slot is this call's.
            unsafe { (*self.slot).start = self.start };
        }
        stream::filled(thread(), before);
    }

    /// Adds the result. Says whether there is more to say about the call.
    #[inline(always)]
    pub fn finish<S: Store + ?Sized>(&mut self, store: &S, result: i32, succeeded: bool) -> bool {
        if self.slot.is_null() {
            let run = self.run.take().filter(|_| self.epoch == epoch());
            return run.is_some_and(|run| self.end_of_run(run, result, succeeded));
        }
        let end = clock::now();
        // A child that was forked in the call has another record.
        if self.epoch != epoch() {
            self.slot = ptr::null_mut();
            return false;
        }
        let weight = WEIGHTS[self.id as usize];
        let counts = weight.counts && !self.is_plain;
        let has_more = counts || weight.more || !succeeded || !questions::has_described();
        // What was added to the call, or a nested one, may have used the window up; no signal handler does from here on.
        let (thread, slot) = (thread(), self.slot);
        let before = stream::fill(thread);
        if !self.is_there(thread) {
            stream::filled(thread, before);
            self.finish_late(result, succeeded, end);
            return has_more;
        }
        // SAFETY: the slot is this call's.
        unsafe {
            if succeeded && weight.writes {
                let mut arguments = Arguments::new(&mut (*slot).args, &self.handle);
                store.store(&mut arguments, true);
                (*slot).caller = (*slot).caller & ADDRESS | arguments.shape;
            }
            (*slot).end = end;
            (*slot).result = result;
            stream::publish(slot, self.word & !0xff | u64::from(slot::RETURNED | self.injected));
        }
        stream::filled(thread, before);
        self.slot = ptr::null_mut();
        has_more
    }

    /// Whether the call still has its slot: a window that was emptied holds its old bytes, and counts on.
    #[inline(always)]
    fn is_there(&self, thread: *mut Thread) -> bool {
        self.epoch == epoch()
            && (stream::window(thread).has(self.slot as usize, self.number)
                || stream::is_in_ring(self.slot, self.number))
    }

    /// An exception or a cancellation goes through the call.
    #[cold]
    #[inline(never)]
    fn unwound(&mut self) {
        let (thread, end) = (thread(), clock::now());
        if let Some(run) = self.run.take() {
            return self.unwound_of_run(run, end);
        }
        let before = stream::fill(thread);
        if self.is_there(thread) {
            // SAFETY: the slot is this call's.
            unsafe {
                (*self.slot).end = end;
                stream::publish(self.slot, self.word & !0xff | u64::from(slot::UNWOUND));
            }
        }
        stream::filled(thread, before);
    }

    fn unwound_of_run(&mut self, run: Joined, end: u64) {
        if self.epoch != epoch() || !matches!(run.leave(thread()), Left::Apart) {
            return;
        }
        let mut args = [0; ARGS];
        let mut arguments = Arguments::new(&mut args, &self.handle);
        self.store.store(&mut arguments, false);
        let shape = arguments.shape;
        guarded(|| {
            stream::append(slot::UNWOUND, self.id as u16, |slot| {
                (slot.start, slot.end, slot.result) = (run.start, end, 0);
                (slot.args, slot.caller) = (args, self.caller as u64 & ADDRESS | shape);
            });
        });
    }

    /// The end of a call that has lost its slot.
    #[cold]
    #[inline(never)]
    fn finish_late(&mut self, result: i32, succeeded: bool, end: u64) {
        self.slot = ptr::null_mut();
        let mut args = [0; ARGS];
        let mut arguments = Arguments::new(&mut args, &self.handle);
        self.store.store(&mut arguments, succeeded);
        let shape = arguments.shape;
        guarded(|| {
            stream::append(slot::LATE_END | self.injected, self.id as u16, |slot| {
                (slot.start, slot.end, slot.result) = (self.number, end, result);
                (slot.args, slot.caller) = (args, shape);
            });
        });
    }

    /// Whether it is in the record, and is to be looked at before and after it.
    #[inline(always)]
    pub fn is_tracked(&self) -> bool {
        is_tracked(self.id) && self.has_begun() && !self.is_plain
    }

    /// When a weighty call was forwarded, on the clock of the record.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The low half of its slot's number, as the upper half of a word; 0 where it has no slot.
    #[inline(always)]
    pub fn half(&self) -> u64 {
        self.word & !u64::from(u32::MAX)
    }

    pub fn id(&self) -> FnId {
        self.id
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// Its arguments, as they are after it.
    pub fn arguments(&self, succeeded: bool) -> Stored {
        let mut stored = Stored { bytes: [0; MOST_ARGS], shape: 0, handle: None };
        let mut arguments = Arguments::new(&mut stored.bytes, &self.handle);
        self.store.store(&mut arguments, succeeded);
        stored.shape = arguments.shape;
        stored.handle = self.handle.get().map(|handle| handle.bytes);
        stored
    }

    /// Adds what else there is to know of it: what `make` puts together. For use in `guarded`.
    pub fn add(&self, make: impl FnOnce(&mut Detail)) {
        Detail::about(self.number, make);
    }

    /// Adds what was left out before the call: its stack, where its kind is due for one and it has none yet, and arguments for
    /// which the slot has no room. Says whether it has its stack now.
    pub fn add_rest(&self, result: i32, args: &[u8; MOST_ARGS], detail: &mut Detail) -> bool {
        let weight = WEIGHTS[self.id as usize];
        if self.stack == Stack::Late && weight.wide {
            detail.item(slot::detail::ARGUMENTS, 0, &args[..self.id.spec().stored()]);
        }
        let due = |carries: bool| {
            carries && repeats::is_due(self.id, result, self.number, (self.caller, self.height))
        };
        let is_due = match self.stack {
            // The call still counts in its kind.
            Stack::Taken => {
                due(result != 0);
                false
            }
            Stack::AllocProps => true,
            Stack::Late => due(weight.frames || result != 0),
            Stack::Open => due(result != 0),
        };
        if is_due {
            detail.frames(self.caller);
        }
        is_due || self.stack == Stack::Taken
    }

    /// Says that it has failed, and all that there is to do for it is done: the next may be counted with it. For use in
    /// `guarded`.
    pub fn failed(&self, result: i32, args: &Stored) {
        let passed = Passed {
            id: self.id,
            caller: self.caller,
            height: self.height,
            args: &args.bytes,
            shape: args.shape,
        };
        repeats::failed(&passed, result, self.number);
    }
}

impl Drop for Recorded<'_> {
    /// An exception or a cancellation goes through the call.
    #[inline(always)]
    fn drop(&mut self) {
        if self.has_begun() {
            self.unwound();
        }
    }
}

/// Says that a call of this thread was left by a jump, where its slot is still there: the one of a function whose slot's number
/// ends with `half`. It ended before now. If it goes on after all, because the program had only put its stack away, its end
/// takes the place of this.
pub fn left(function: u32, half: u32) {
    let thread = thread();
    let pending = word(slot::PENDING, 1, function as u16, half);
    // SAFETY: only this thread and its signal handlers use the block.
    if unsafe { (*thread).epoch } != epoch() {
        return;
    }
    let end = clock::now();
    let before = stream::fill(thread);
    if let Some(slot) = stream::place_of(half) {
        // SAFETY: the slot lies in this thread's window, which is mapped for good, and before the next one.
        unsafe {
            if (*slot).word == pending {
                (*slot).end = end;
                stream::publish(slot, pending & !0xff | u64::from(slot::UNWOUND));
            }
        }
    }
    stream::filled(thread, before);
}

/// Makes sure that the record knows the library of a caller.
#[inline(always)]
fn know(thread: *mut Thread, caller: usize) {
    // SAFETY: the block belongs to this thread and its signal handlers. These may write to it at any time, so no reference to it is
    // made, and each word is read by itself.
    let (start, length, generation, again) = unsafe {
        let known = &raw const (*thread).known;
        let start = || (&raw const (*known).0).read_volatile();
        let length = || (&raw const (*known).1).read_volatile();
        (start(), length(), (&raw const (*thread).known_generation).read_volatile(), start())
    };
    // Where a handler came in between, the start and the length may be of two libraries.
    if caller.wrapping_sub(start) >= length || generation != libraries_generation() || again != start {
        libraries::know_slowly(caller);
    }
}
