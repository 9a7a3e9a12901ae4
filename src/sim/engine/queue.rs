//! Work that waits: functions of the program, which run in stream order on a thread of ours, and what follows
//! them in their streams.
//!
//! Each task follows others, by their numbers, and the first one that can be done is: a task that waits for a value in memory
//! holds up what follows it, and nothing else. Where devices are not late (`super::late`), what has nothing to wait for never
//! gets here: it is done when its call returns, on the calling thread. So a stream that follows no function of the program is
//! never held up by one.
//!
//! The thread starts with the first function. A child of fork has neither it nor a driver, and waits for nothing.

use super::answer::{Answer, fail};
use super::driver::{
    CAME, Call, DONE, Driver, IN_CALL, Kind, LEGACY, Node, Seen, Stream, Tail, Task, Waiting, Work, lane,
};
use super::late::{TICK, quietly};
use super::process;
use super::stack;
use core::ffi::c_void;
use cupeer_spec::results::Result as Code;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

/// How long the thread does nothing between two looks at what streams wait for.
const PAUSE: Duration = Duration::from_micros(100);

impl Driver {
    /// The numbers of the tasks that a stream has to wait for: none where it is complete.
    pub(crate) fn pending(&self, stream: &Stream) -> Vec<u64> {
        let own = lane(stream);
        self.queue.pending(|lane, tail| {
            *lane == own
                || lane.context == own.context
                    && (own.stream == LEGACY && tail.blocking
                        || lane.stream == LEGACY && stream.is_blocking())
        })
    }

    /// The same for all streams of a context.
    pub(crate) fn pending_in(&self, context: u64) -> Vec<u64> {
        self.queue.pending(|lane, _| lane.context == context)
    }

    /// The same for all streams of all contexts.
    pub(crate) fn pending_anywhere(&self) -> Vec<u64> {
        self.queue.pending(|_, _| true)
    }

    /// The same for what may use the memory at an address: work of its context, and of the current one.
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

    /// Has a stream wait for a number.
    pub(crate) fn follow(&mut self, stream: &Stream, number: u64) {
        if !self.queue.is_pending(number) {
            return;
        }
        if self.is_late() {
            let mut after = self.pending(stream);
            after.push(number);
            self.put_after(Some(stream), after, None, Seen::Nobody, Work::Ours(Box::new(|_| ())));
            return;
        }
        let blocking = stream.is_blocking();
        let tail = self.queue.tails.entry(lane(stream)).or_insert(Tail { numbers: Vec::new(), blocking });
        tail.numbers.retain(|other| *other != number);
        tail.numbers.push(number);
    }

    /// Adds a task to a stream, behind what it has to wait for.
    fn push(&mut self, stream: &Stream, task: Task) {
        let number = self.queue.push(self.pending(stream), task);
        let tail = Tail { numbers: vec![number], blocking: stream.is_blocking() };
        self.queue.tails.insert(lane(stream), tail);
    }

    /// Does something in the order of a stream: at once where that is complete. What is given must not take the
    /// driver's lock where it is done at once, because it is held then.
    pub(crate) fn in_order(&mut self, stream: &Stream, work: impl FnOnce(&mut Driver) + Send + 'static) {
        if self.pending(stream).is_empty() {
            return work(self);
        }
        if self.is_late() {
            return self.put(stream, Seen::Nobody, work);
        }
        self.push(stream, Task::Ours(Box::new(|| work(&mut process::lock()))));
    }

    /// Moves bytes in the order of a stream that is not complete.
    pub(crate) fn enqueue(&mut self, stream: &Stream, work: impl FnOnce() + Send + 'static) {
        if self.is_late() {
            return self.put(stream, Seen::Nobody, |_| work());
        }
        self.push(stream, Task::Ours(Box::new(work)));
    }

    /// Does something in the order of a stream that may take long, on the thread of the queue.
    pub(crate) fn later(&mut self, stream: &Stream, work: impl FnOnce() + Send + 'static) -> Answer {
        if self.is_late() {
            let after = self.pending(stream);
            self.put_after(Some(stream), after, None, Seen::Host, Work::Alone(Box::new(work)));
            return Ok(());
        }
        self.check_thread()?;
        self.enqueue(stream, work);
        Ok(())
    }

    /// Holds a stream until something is true: work behind it waits, and that of other streams goes on.
    pub(crate) fn hold(&mut self, stream: &Stream, is_true: impl Fn() -> bool + Send + 'static) -> Answer {
        let after = self.pending(stream);
        if self.is_late() {
            self.put_after(Some(stream), after, None, Seen::Host, Work::Until(Box::new(is_true)));
            return Ok(());
        }
        if after.is_empty() && is_true() {
            return Ok(());
        }
        self.check_thread()?;
        self.push(stream, Task::Until(Box::new(is_true)));
        Ok(())
    }

    /// Starts the thread of the queue, where there is none.
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
        if self.is_late() {
            let after = self.pending(stream);
            self.put_after(Some(stream), after, None, Seen::Host, Work::Call(call));
            return Ok(());
        }
        self.push(stream, Task::Call(call));
        Ok(())
    }

    /// Whether the answer to a question for these tasks is that they are done.
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
            DONE.wait_timeout(driver, TICK).unwrap_or_else(PoisonError::into_inner).0
        } else {
            DONE.wait(driver).unwrap_or_else(PoisonError::into_inner)
        };
    }
    driver
}

/// The driver, once the tasks are done that are found to come first.
pub(crate) fn settled(
    first: impl FnOnce(&mut Driver) -> Answer<Vec<u64>>,
) -> Answer<MutexGuard<'static, Driver>> {
    let mut driver = process::enter()?;
    let numbers = first(&mut driver)?;
    Ok(wait(driver, numbers))
}

/// The same where only late devices wait for them.
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

/// The thread. A function of the program may end it, by pthread_exit: so nothing here has a destructor.
extern "C-unwind" fn work(_: *mut c_void) -> *mut c_void {
    loop {
        let (number, call) = next();
        IN_CALL.set(true);
        call.run();
        IN_CALL.set(false);
        done(number);
    }
}

/// Does what is ours until a function of the program is due.
fn next() -> (u64, Call) {
    loop {
        let mut driver = process::lock();
        let Waiting { number, task, .. } = loop {
            driver = match driver.queue.take() {
                Ok(waiting) => break waiting,
                Err(true) => CAME.wait_timeout(driver, PAUSE).unwrap_or_else(PoisonError::into_inner).0,
                Err(false) => CAME.wait(driver).unwrap_or_else(PoisonError::into_inner),
            }
        };
        drop(driver);
        match task {
            Task::Call(call) => return (number, call),
            Task::Ours(work) => {
                // A panic of ours costs only this task.
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            }
            Task::Until(_) => {}
        }
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
