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
    AllocationKind, Driver, IN_CALL, LEGACY, LaneTail, Node, ProgramCall, QueuedTask, Stream, TASK_ADDED, TASK_DONE,
    Visibility, Work, lane_of,
};
use super::late::{TICK, locked_work, with_signals_blocked};
use super::process;
use super::stack;
use core::ffi::c_void;
use cupeer_spec::results::Result as Code;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

/// Pause between two polls of the conditions for which streams wait.
const PAUSE: Duration = Duration::from_micros(100);

impl Driver {
    /// Returns the numbers of the tasks after which a stream is complete.
    pub(crate) fn pending_of_stream(&self, stream: &Stream) -> Vec<u64> {
        let own = lane_of(stream);
        self.queue.pending_tasks(|lane, tail| {
            *lane == own
                || lane.context == own.context
                    && (own.stream == LEGACY && tail.blocking || lane.stream == LEGACY && stream.is_blocking())
        })
    }

    /// Returns the numbers of the tasks after which all streams of a context are complete.
    pub(crate) fn pending_in_context(&self, context: u64) -> Vec<u64> {
        self.queue.pending_tasks(|lane, _| lane.context == context)
    }

    /// Returns the numbers of the tasks after which all streams are complete.
    pub(crate) fn all_pending(&self) -> Vec<u64> {
        self.queue.pending_tasks(|_, _| true)
    }

    /// Returns the numbers of the tasks that may use the memory at an address: those in its context, and in
    /// the current context.
    pub(crate) fn pending_at_address(&self, address: u64) -> Vec<u64> {
        let allocation = self.memory.allocation_at(address).map(|(_, allocation)| allocation);
        // As recorded, a call that frees memory of a pool does not wait for work.
        if self.is_late() && allocation.is_some_and(|allocation| matches!(allocation.kind, AllocationKind::Pool { .. }))
        {
            return Vec::new();
        }
        let owner = allocation.map_or(0, |allocation| allocation.context);
        self.queue.pending_tasks(|lane, _| lane.context == owner || lane.context == stack::current_context())
    }

    /// Makes a stream wait for a task.
    pub(crate) fn follow_task(&mut self, stream: &Stream, number: u64) {
        if !self.queue.is_pending(number) {
            return;
        }
        if self.is_late() {
            let mut after = self.pending_of_stream(stream);
            after.push(number);
            self.add_late_work_after(Some(stream), after, None, Visibility::Nobody, locked_work(|_| ()));
            return;
        }
        let blocking = stream.is_blocking();
        let tail = self.queue.tails.entry(lane_of(stream)).or_insert(LaneTail { numbers: Vec::new(), blocking });
        tail.numbers.retain(|other| *other != number);
        tail.numbers.push(number);
    }

    /// Adds work to a stream, after the earlier work of the stream.
    fn submit_work(&mut self, stream: &Stream, seen: Visibility, work: Work) {
        let after = self.pending_of_stream(stream);
        if self.is_late() {
            self.add_late_work_after(Some(stream), after, None, seen, work);
            return;
        }
        let number = self.queue.add_task(after, work);
        let tail = LaneTail { numbers: vec![number], blocking: stream.is_blocking() };
        self.queue.tails.insert(lane_of(stream), tail);
    }

    /// Does work under the driver's lock in the order of a stream: at once if the stream is complete, and
    /// otherwise after its earlier work.
    pub(crate) fn do_in_order(&mut self, stream: &Stream, work: impl FnOnce(&mut Driver) + Send + 'static) {
        if self.pending_of_stream(stream).is_empty() {
            work(self);
        } else {
            self.submit_work(stream, Visibility::Nobody, locked_work(work));
        }
    }

    /// Adds work that may take long to a stream. The work runs without the driver's lock.
    pub(crate) fn do_later(&mut self, stream: &Stream, work: impl FnOnce() + Send + 'static) -> Answer {
        if !self.is_late() {
            self.ensure_thread()?;
        }
        self.submit_work(stream, Visibility::Host, Work::Unlocked(Box::new(work)));
        Ok(())
    }

    /// Holds a stream until a condition is true: work after it waits, and other streams continue.
    pub(crate) fn hold_until(&mut self, stream: &Stream, is_true: impl Fn() -> bool + Send + 'static) -> Answer {
        if !self.is_late() {
            if self.pending_of_stream(stream).is_empty() && is_true() {
                return Ok(());
            }
            self.ensure_thread()?;
        }
        self.submit_work(stream, Visibility::Host, Work::Until(Box::new(is_true)));
        Ok(())
    }

    /// Starts the thread that runs queued tasks, unless it is running.
    pub(crate) fn ensure_thread(&mut self) -> Answer {
        if !self.queue.has_thread {
            self.queue.has_thread = start_thread();
        }
        if self.queue.has_thread { Ok(()) } else { fail(Code::OPERATING_SYSTEM) }
    }

    /// Adds a call of a function of the program to a stream.
    pub(crate) fn call_in_order(&mut self, stream: &Stream, call: ProgramCall) -> Answer {
        if self.graphs.add_to_capture(stream, || Node::Call(call))? {
            return Ok(());
        }
        self.ensure_thread()?;
        self.submit_work(stream, Visibility::Host, Work::Call(call));
        Ok(())
    }

    /// Returns true if these tasks are done, as far as a query may tell: late devices may answer false a few
    /// times before they do the tasks.
    pub(crate) fn are_tasks_done(&mut self, numbers: &[u64]) -> bool {
        if let (Some(late), Some(last)) = (&mut self.queue.late, numbers.last())
            && late.count_query(*last)
        {
            numbers.iter().for_each(|number| late.request(*number));
            self.do_ready_work();
        }
        !numbers.iter().any(|number| self.queue.is_pending(*number))
    }
}

/// Waits until the tasks with these numbers are done.
pub(crate) fn wait_for_tasks(
    mut driver: MutexGuard<'static, Driver>,
    numbers: Vec<u64>,
) -> MutexGuard<'static, Driver> {
    let is_pending = |driver: &Driver| numbers.iter().any(|number| driver.queue.is_pending(*number));
    if is_pending(&driver)
        && let Some(late) = &mut driver.queue.late
    {
        let pause = late.choose_delay_before_request();
        drop(driver);
        std::thread::sleep(pause);
        driver = process::lock();
    }
    for round in 0.. {
        if driver.is_late() {
            driver.request_tasks(&numbers, round);
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

/// Locks the driver, and waits for the tasks whose numbers `first` returns. Returns the locked driver.
pub(crate) fn lock_when_done(
    first: impl FnOnce(&mut Driver) -> Answer<Vec<u64>>,
) -> Answer<MutexGuard<'static, Driver>> {
    let mut driver = process::enter()?;
    let numbers = first(&mut driver)?;
    Ok(wait_for_tasks(driver, numbers))
}

/// Does the same as [`lock_when_done`] on late devices; on other devices, locks the driver without waiting.
pub(crate) fn lock_when_done_if_late(
    first: impl FnOnce(&mut Driver) -> Answer<Vec<u64>>,
) -> Answer<MutexGuard<'static, Driver>> {
    lock_when_done(|driver| if driver.is_late() { first(driver) } else { Ok(Vec::new()) })
}

/// Starts the thread that runs queued tasks. Returns false on failure.
fn start_thread() -> bool {
    type Start = extern "C" fn(*mut c_void) -> *mut c_void;
    // SAFETY: both are functions of the C convention with the same arguments; that ours may unwind is what
    // pthread_exit asks of a thread's first function, and what C's threads do.
    let start = unsafe { core::mem::transmute::<extern "C-unwind" fn(*mut c_void) -> *mut c_void, Start>(run_thread) };
    // SAFETY: all-zero are values of these plain structures, which the calls fill before they are read; the
    // function takes no argument, and the library stays loaded.
    with_signals_blocked(|| unsafe {
        let mut attributes: libc::pthread_attr_t = core::mem::zeroed();
        let mut thread: libc::pthread_t = core::mem::zeroed();
        libc::pthread_attr_init(&mut attributes);
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        let result = libc::pthread_create(&mut thread, &attributes, start, core::ptr::null_mut());
        libc::pthread_attr_destroy(&mut attributes);
        result == 0
    })
}

/// The main function of the thread that runs queued tasks. A function of the program may end the thread by
/// pthread_exit, so no value here has a destructor.
extern "C-unwind" fn run_thread(_: *mut c_void) -> *mut c_void {
    loop {
        let (number, call) = work_until_call();
        IN_CALL.set(true);
        call.run();
        IN_CALL.set(false);
        finish_task(number);
    }
}

/// Does the work of the driver that is queued, until a function of the program is due. Returns the number of
/// its task, and the function.
fn work_until_call() -> (u64, ProgramCall) {
    loop {
        let mut driver = process::lock();
        let QueuedTask { number, work, .. } = loop {
            driver = match driver.queue.take_ready_task() {
                Ok(waiting) => break waiting,
                Err(true) => TASK_ADDED.wait_timeout(driver, PAUSE).unwrap_or_else(PoisonError::into_inner).0,
                Err(false) => TASK_ADDED.wait(driver).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(driver);
        // After a panic of the driver, only this task is lost.
        let _ = match work {
            Work::Call(call) => return (number, call),
            Work::Locked(work) => catch_unwind(AssertUnwindSafe(|| work(&mut *process::lock()))),
            Work::Unlocked(work) => catch_unwind(AssertUnwindSafe(work)),
            Work::Until(_) => Ok(()),
        };
        finish_task(number);
    }
}

/// Marks a task as done.
fn finish_task(number: u64) {
    let mut driver = process::lock();
    if driver.is_late() {
        driver.finish_piece(number, false);
    } else {
        driver.queue.finish_task(number);
    }
}
