//! Work that waits: functions of the program, which run in stream order on a thread of ours, and what follows
//! them in their streams.
//!
//! All of it is one queue, in the order of the calls; a stream, and an event, is a number in that order. What
//! has nothing to wait for never gets here: it is done when its call returns, on the calling thread. So a
//! stream that follows no function of the program is never held up by one.
//!
//! The thread starts with the first function. A child of fork has neither it nor a driver, and waits for nothing.

use super::answer::{Answer, fail};
use super::driver::{CAME, Call, DONE, Driver, IN_CALL, LEGACY, Node, Stream, Tail, Task, lane};
use super::process;
use super::stack;
use core::ffi::c_void;
use cupeer_spec::results::Result as Code;
use std::sync::{MutexGuard, PoisonError};

impl Driver {
    /// The number of the task that a stream has to wait for: `None` where it is complete.
    pub(crate) fn pending(&self, stream: &Stream) -> Option<u64> {
        let own = lane(stream);
        self.queue.pending(|lane, tail| {
            *lane == own
                || lane.context == own.context
                    && (own.stream == LEGACY && tail.blocking
                        || lane.stream == LEGACY && stream.is_blocking())
        })
    }

    /// The same for all streams of a context.
    pub(crate) fn pending_in(&self, context: u64) -> Option<u64> {
        self.queue.pending(|lane, _| lane.context == context)
    }

    /// The same for all streams of all contexts.
    pub(crate) fn pending_anywhere(&self) -> Option<u64> {
        self.queue.pending(|_, _| true)
    }

    /// The same for what may use the memory at an address: work of its context, and of the current one.
    pub(crate) fn pending_at(&self, address: u64) -> Option<u64> {
        let owner = self.memory.containing(address).map_or(0, |(_, allocation)| allocation.context);
        self.pending_in(owner).max(self.pending_in(stack::current()))
    }

    /// Has a stream wait for a number.
    pub(crate) fn follow(&mut self, stream: &Stream, number: u64) {
        if self.queue.is_pending(number) {
            let tail = self.queue.tails.entry(lane(stream)).or_insert(Tail { number, blocking: false });
            tail.number = tail.number.max(number);
            tail.blocking = stream.is_blocking();
        }
    }

    /// Does something in the order of a stream: at once where that is complete. What is given must not take the
    /// driver's lock where it is done at once, because it is held then.
    pub(crate) fn in_order(&mut self, stream: &Stream, work: impl FnOnce(&mut Driver) + Send + 'static) {
        if self.pending(stream).is_none() {
            return work(self);
        }
        let number = self.queue.push(Task::Ours(Box::new(|| work(&mut process::lock()))));
        self.follow(stream, number);
    }

    /// Moves bytes in the order of a stream that is not complete.
    pub(crate) fn enqueue(&mut self, stream: &Stream, work: impl FnOnce() + Send + 'static) {
        let number = self.queue.push(Task::Ours(Box::new(work)));
        self.follow(stream, number);
    }

    /// Does something in the order of a stream that may take long, on the thread of the queue.
    pub(crate) fn later(&mut self, stream: &Stream, work: impl FnOnce() + Send + 'static) -> Answer {
        self.check_thread()?;
        self.enqueue(stream, work);
        Ok(())
    }

    /// Starts the thread of the queue, where there is none.
    fn check_thread(&mut self) -> Answer {
        if !self.queue.has_thread {
            self.queue.has_thread = start();
        }
        if self.queue.has_thread { Ok(()) } else { fail(Code::OPERATING_SYSTEM) }
    }

    /// Calls a function of the program in the order of a stream.
    pub(crate) fn call(&mut self, stream: &Stream, call: Call) -> Answer {
        if self.graphs.take(stream, || Node::Call(call))? {
            return Ok(());
        }
        self.check_thread()?;
        let number = self.queue.push(Task::Call(call));
        self.follow(stream, number);
        Ok(())
    }
}

/// Waits until the task of a number is done, where there is one.
pub(crate) fn wait(
    mut driver: MutexGuard<'static, Driver>,
    number: Option<u64>,
) -> MutexGuard<'static, Driver> {
    while number.is_some_and(|number| driver.queue.is_pending(number)) {
        driver = DONE.wait(driver).unwrap_or_else(PoisonError::into_inner);
    }
    driver
}

/// The driver, once the task is done that is found to come first.
pub(crate) fn settled(
    first: impl FnOnce(&mut Driver) -> Answer<Option<u64>>,
) -> Answer<MutexGuard<'static, Driver>> {
    let mut driver = process::enter()?;
    let number = first(&mut driver)?;
    Ok(wait(driver, number))
}

/// Starts the thread. No signal is delivered to it: signals are for threads that know of them.
fn start() -> bool {
    type Start = extern "C" fn(*mut c_void) -> *mut c_void;
    // SAFETY: both are functions of the C convention with the same arguments; that ours may unwind is what
    // pthread_exit asks of a thread's first function, and what C's threads do.
    let start =
        unsafe { core::mem::transmute::<extern "C-unwind" fn(*mut c_void) -> *mut c_void, Start>(work) };
    // SAFETY: all-zero are values of these plain structures, which the calls fill before they are read; the
    // function takes no argument, and the library stays loaded.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = core::mem::zeroed();
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        let mut thread: libc::pthread_t = core::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let result = libc::pthread_create(&mut thread, &attributes, start, core::ptr::null_mut());
        libc::pthread_attr_destroy(&mut attributes);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, core::ptr::null_mut());
        result == 0
    }
}

/// The thread. A function of the program may end it, by pthread_exit: so nothing here has a destructor.
extern "C-unwind" fn work(_: *mut c_void) -> *mut c_void {
    loop {
        let call = next();
        IN_CALL.set(true);
        call.run();
        IN_CALL.set(false);
        done();
    }
}

/// Does what is ours until a function of the program is due.
fn next() -> Call {
    loop {
        let mut driver = process::lock();
        let task = loop {
            match driver.queue.tasks.pop_front() {
                Some(task) => break task,
                None => driver = CAME.wait(driver).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(driver);
        match task {
            Task::Call(call) => return call,
            Task::Ours(work) => {
                // A panic of ours costs only this task.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
                done();
            }
        }
    }
}

fn done() {
    let mut driver = process::lock();
    driver.queue.done += 1;
    if driver.queue.done == driver.queue.last {
        driver.queue.tails.clear();
    }
    DONE.notify_all();
}
