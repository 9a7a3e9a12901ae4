//! Records calls that have returned already: copies and memsets that used shared memory, and large copies to and from the host.

use super::arguments::Arguments;
use super::{ADDRESS, Recorded, clock, know, process, stream};
use crate::sys::arch::thread;
use crate::sys::every_call::epoch;
use cupeer_spec::record::slot::{self, ARGS, MOST_ARGS};

impl Recorded<'_> {
    /// Puts a call into the record that has succeeded and is no call for anybody: it only used shared memory since `start`. `is_last`
    /// says that later uses of that memory are not recorded. For use in `guarded`.
    pub fn append_use(&self, caller: usize, start: u64, is_last: bool) {
        let thread = thread();
        // SAFETY: only this thread and its signal handlers use the block.
        if unsafe { (*thread).epoch } != epoch() && !process::attach() {
            return;
        }
        let mut args = [0; MOST_ARGS];
        let mut arguments = Arguments::new(&mut args, &self.handle);
        self.store.store(&mut arguments, true);
        let shape = arguments.shape;
        know(thread, caller);
        stream::append(slot::USED, self.id as u16, |slot| {
            (slot.start, slot.end, slot.result) = (start, clock::now(), i32::from(is_last));
            slot.caller = caller as u64 & ADDRESS | shape;
            slot.args.copy_from_slice(&args[..ARGS]);
        });
    }

    /// Puts a call into the record that has succeeded: when it was forwarded, and when it returned.
    pub fn append(&mut self, caller: usize, start: u64, end: u64) {
        let store = self.store;
        self.begin(store, caller, true, false);
        if !self.has_begun() {
            return;
        }
        self.finish(store, 0, true);
        let before = stream::fill(thread());
        if let Some(slot) = stream::place_of(self.number as u32) {
            // SAFETY: the slot is in this thread's window, which is mapped for good, and before the next one.
            unsafe { ((*slot).start, (*slot).end) = (start, end) };
        }
        stream::filled(thread(), before);
    }
}
