//! Work that waits: functions of the program, which run in stream order on a thread of ours, and what follows
//! them in their streams.
//!
//! All of it is one queue, in the order of the calls; a stream, and an event, is a number in that order. What
//! has nothing to wait for never gets here: it is done when its call returns, on the calling thread. So a
//! stream that follows no function of the program is never held up by one.
//!
//! The thread starts with the first function. A child of fork has neither it nor a driver, and waits for nothing.

use super::answer::{Answer, fail};
use super::graphs::Node;
use super::process::{self, Driver};
use super::stack;
use super::streams::{LEGACY, PER_THREAD, Stream};
use core::ffi::c_void;
use cupeer_spec::results::Result as Code;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::{Condvar, MutexGuard, PoisonError};

/// A function of the program, with what it gets. It may throw: a thread that ends itself unwinds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    /// Of `cuLaunchHostFunc`.
    Host(unsafe extern "C-unwind" fn(*mut c_void), u64),
    /// Of `cuStreamAddCallback`, with the stream's handle.
    Stream(unsafe extern "C-unwind" fn(*mut c_void, i32, *mut c_void), u64, u64),
}

impl Call {
    fn run(self) {
        // SAFETY: who handed the function to the driver promised that it takes this pointer, on any thread.
        unsafe {
            match self {
                Call::Host(function, data) => function(data as *mut c_void),
                Call::Stream(function, stream, data) => {
                    function(stream as *mut c_void, Code::SUCCESS as i32, data as *mut c_void);
                }
            }
        }
    }
}

enum Task {
    Call(Call),
    Ours(Box<dyn FnOnce() + Send>),
}

/// Work in one order: a stream, which for the default ones is one of each context.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Lane {
    context: u64,
    stream: u64,
    /// The thread, for CU_STREAM_PER_THREAD.
    thread: i32,
}

/// The last number that a lane has to wait for.
#[derive(Clone, Copy, Debug)]
struct Tail {
    number: u64,
    /// Whether it is one with the default stream of its context.
    blocking: bool,
}

/// What waits.
#[derive(Default)]
pub(crate) struct Queue {
    tasks: VecDeque<Task>,
    tails: HashMap<Lane, Tail>,
    /// The number of the last task that came in, and of the last one that is done.
    last: u64,
    done: u64,
    has_thread: bool,
}

/// Something came in; something is done.
static CAME: Condvar = Condvar::new();
static DONE: Condvar = Condvar::new();

thread_local! {
    static IN_CALL: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread runs a function of the program for the driver: it may not call it.
pub(crate) fn in_call() -> bool {
    IN_CALL.get()
}

impl Queue {
    fn push(&mut self, task: Task) -> u64 {
        self.last += 1;
        self.tasks.push_back(task);
        CAME.notify_one();
        self.last
    }

    /// The number of the next task.
    pub(crate) fn upcoming(&self) -> u64 {
        self.last + 1
    }

    /// Whether the task of this number is still to be done.
    pub(crate) fn is_pending(&self, number: u64) -> bool {
        number > self.done
    }

    /// What must be done before everything in these lanes is.
    fn pending(&self, of: impl Fn(&Lane, &Tail) -> bool) -> Option<u64> {
        let tails = self.tails.iter().filter(|(lane, tail)| of(lane, tail)).map(|(_, tail)| tail.number);
        tails.max().filter(|number| self.is_pending(*number))
    }
}

fn lane(stream: &Stream) -> Lane {
    // SAFETY: gettid has no preconditions. glibc has a function for it since 2.30.
    let tid = || unsafe { libc::syscall(libc::SYS_gettid) } as libc::pid_t;
    let thread = if stream.id == PER_THREAD { tid() } else { 0 };
    Lane { context: stream.context, stream: stream.id, thread }
}

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
