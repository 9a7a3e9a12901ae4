//! Work that waits: functions of the program, which run in stream order on a thread of the driver, and later work of their
//! streams.
//!
//! Each task follows other tasks, by their numbers, and the thread does the first one that is ready. A task that waits for a
//! value in memory only delays tasks after it. Unless devices are late (`super::late`), work with nothing to wait for is not
//! queued: the calling thread does it before its call returns. So a function of the program delays only the streams that follow
//! it.
//!
//! The thread starts with the first function. A child of fork has neither the thread nor a driver.

use super::answer::{Answer, fail};
use super::driver::{
    Call, Driver, IN_CALL, Kind, LEGACY, Node, Stream, TASK_ADDED, TASK_DONE, Tail, Visibility, Waiting,
    Work, lane,
};
use super::late::{TICK, locked, quietly};
use super::process;
use super::stack;
use core::ffi::c_void;
use cupeer_spec::results::Result as Code;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

/// Pause between two polls of conditions for which streams wait.
const PAUSE: Duration = Duration::from_micros(100);

impl Driver {
    /// Returns the tasks after which a stream is complete.
    pub(crate) fn pending(&self, stream: &Stream) -> Vec<u64> {
        let own = lane(stream);
        self.queue.pending(|lane, tail| {
            *lane == own
                || lane.context == own.context
                    && (own.stream == LEGACY && tail.blocking
                        || lane.stream == LEGACY && stream.is_blocking())
        })
    }

    /// Returns the tasks of all streams of a context.
    pub(crate) fn pending_in(&self, context: u64) -> Vec<u64> {
        self.queue.pending(|lane, _| lane.context == context)
    }

    /// Returns the tasks of all streams.
    pub(crate) fn pending_anywhere(&self) -> Vec<u64> {
        self.queue.pending(|_, _| true)
    }

    /// Returns the tasks that may use the memory at an address: those of its context, and of the current one.
    pub(crate) fn pending_at(&self, address: u64) -> Vec<u64> {
        let allocation = self.memory.containing(address).map(|(_, allocation)| allocation);
        // As recorded, memory of a pool does not wait.
        if self.is_late() && allocation.is_some_and(|allocation| matches!(allocation.kind, Kind::Pool { .. }))
        {
            return Vec::new();
        }
        let owner = allocation.map_or(0, |allocation| allocation.context);
        self.queue.pending(|lane, _| lane.context == owner || lane.context == stack::current())
    }

    /// Makes a stream wait for a task.
    pub(crate) fn follow(&mut self, stream: &Stream, number: u64) {
        if !self.queue.is_pending(number) {
            return;
        }
        if self.is_late() {
            let mut after = self.pending(stream);
            after.push(number);
            self.put_after(Some(stream), after, None, Visibility::Nobody, locked(|_| ()));
            return;
        }
        let blocking = stream.is_blocking();
        let tail = self.queue.tails.entry(lane(stream)).or_insert(Tail { numbers: Vec::new(), blocking });
        tail.numbers.retain(|other| *other != number);
        tail.numbers.push(number);
    }

    /// Adds work to a stream, after the work that is in it.
    fn submit(&mut self, stream: &Stream, seen: Visibility, work: Work) {
        let after = self.pending(stream);
        if self.is_late() {
            self.put_after(Some(stream), after, None, seen, work);
            return;
        }
        let number = self.queue.push(after, work);
        let tail = Tail { numbers: vec![number], blocking: stream.is_blocking() };
        self.queue.tails.insert(lane(stream), tail);
    }

    /// Does work under the driver's lock, in the order of a stream: immediately if the stream is complete.
    pub(crate) fn in_order(&mut self, stream: &Stream, work: impl FnOnce(&mut Driver) + Send + 'static) {
        if self.pending(stream).is_empty() {
            work(self);
        } else {
            self.submit(stream, Visibility::Nobody, locked(work));
        }
    }

    /// Does work without the driver's lock, which may take long, in the order of a stream.
    pub(crate) fn later(&mut self, stream: &Stream, work: impl FnOnce() + Send + 'static) -> Answer {
        if !self.is_late() {
            self.check_thread()?;
        }
        self.submit(stream, Visibility::Host, Work::Unlocked(Box::new(work)));
        Ok(())
    }

    /// Holds a stream until a condition is true: work after it waits, and other streams continue.
    pub(crate) fn hold(&mut self, stream: &Stream, is_true: impl Fn() -> bool + Send + 'static) -> Answer {
        if !self.is_late() {
            if self.pending(stream).is_empty() && is_true() {
                return Ok(());
            }
            self.check_thread()?;
        }
        self.submit(stream, Visibility::Host, Work::Until(Box::new(is_true)));
        Ok(())
    }

    /// Starts the thread of the queue, if it is not running.
    pub(crate) fn check_thread(&mut self) -> Answer {
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
        self.submit(stream, Visibility::Host, Work::Call(call));
        Ok(())
    }

    /// Returns true if a query finds these tasks done.
    pub(crate) fn is_done(&mut self, numbers: &[u64]) -> bool {
        if let (Some(late), Some(last)) = (&mut self.queue.late, numbers.last())
            && late.is_last_answer(*last)
        {
            numbers.iter().for_each(|number| late.want(*number));
            self.advance();
        }
        !numbers.iter().any(|number| self.queue.is_pending(*number))
    }
}

/// Waits until the tasks of these numbers are done.
pub(crate) fn wait(
    mut driver: MutexGuard<'static, Driver>,
    numbers: Vec<u64>,
) -> MutexGuard<'static, Driver> {
    let is_pending = |driver: &Driver| numbers.iter().any(|number| driver.queue.is_pending(*number));
    if is_pending(&driver)
        && let Some(late) = &mut driver.queue.late
    {
        let pause = late.lingers();
        drop(driver);
        std::thread::sleep(pause);
        driver = process::lock();
    }
    for round in 0.. {
        if driver.is_late() {
            driver.force(&numbers, round);
        }
        if !is_pending(&driver) {
            break;
        }
        driver = if driver.is_late() {
            TASK_DONE.wait_timeout(driver, TICK).unwrap_or_else(PoisonError::into_inner).0
        } else {
            TASK_DONE.wait(driver).unwrap_or_else(PoisonError::into_inner)
        };
    }
    driver
}

/// Locks the driver, waits for the tasks that a function returns, and returns the driver.
pub(crate) fn settled(
    first: impl FnOnce(&mut Driver) -> Answer<Vec<u64>>,
) -> Answer<MutexGuard<'static, Driver>> {
    let mut driver = process::enter()?;
    let numbers = first(&mut driver)?;
    Ok(wait(driver, numbers))
}

/// The same as [`settled`], but only late devices wait.
pub(crate) fn settled_if_late(
    first: impl FnOnce(&mut Driver) -> Answer<Vec<u64>>,
) -> Answer<MutexGuard<'static, Driver>> {
    settled(|driver| if driver.is_late() { first(driver) } else { Ok(Vec::new()) })
}

/// Starts the thread.
fn start() -> bool {
    type Start = extern "C" fn(*mut c_void) -> *mut c_void;
    // SAFETY: both are functions of the C convention with the same arguments; that ours may unwind is what
    // pthread_exit asks of a thread's first function, and what C's threads do.
    let start =
        unsafe { core::mem::transmute::<extern "C-unwind" fn(*mut c_void) -> *mut c_void, Start>(work) };
    // SAFETY: all-zero are values of these plain structures, which the calls fill before they are read; the
    // function takes no argument, and the library stays loaded.
    quietly(|| unsafe {
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        let mut thread: libc::pthread_t = core::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let result = libc::pthread_create(&mut thread, &attributes, start, core::ptr::null_mut());
        libc::pthread_attr_destroy(&mut attributes);
        result == 0
    })
}

/// The thread. A function of the program may end it by pthread_exit, so nothing here has a destructor.
extern "C-unwind" fn work(_: *mut c_void) -> *mut c_void {
    loop {
        let (number, call) = next();
        IN_CALL.set(true);
        call.run();
        IN_CALL.set(false);
        done(number);
    }
}

/// Does work of the driver until a function of the program is due.
fn next() -> (u64, Call) {
    loop {
        let mut driver = process::lock();
        let Waiting { number, work, .. } = loop {
            driver = match driver.queue.take() {
                Ok(waiting) => break waiting,
                Err(true) => TASK_ADDED.wait_timeout(driver, PAUSE).unwrap_or_else(PoisonError::into_inner).0,
                Err(false) => TASK_ADDED.wait(driver).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(driver);
        // A panic of the driver costs only this task.
        let _ = match work {
            Work::Call(call) => return (number, call),
            Work::Locked(work) => catch_unwind(AssertUnwindSafe(|| work(&mut *process::lock()))),
            Work::Unlocked(work) => catch_unwind(AssertUnwindSafe(work)),
            Work::Until(_) => Ok(()),
        };
        done(number);
    }
}

fn done(number: u64) {
    let mut driver = process::lock();
    if driver.is_late() {
        driver.finish(number, false);
    } else {
        driver.queue.finish(number);
    }
}
