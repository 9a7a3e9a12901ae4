//! Streams, and the work that waits in them: one queue, in the order of the calls; a stream, and an event, is a number in that
//! order.

use core::ffi::c_void;
use cupeer_spec::results::Result as Code;
use std::cell::Cell;
use std::collections::{HashMap, VecDeque};
use std::sync::Condvar;

/// The lowest and the highest priority; lower numbers go first.
pub(crate) const PRIORITIES: (i32, i32) = (0, -5);
/// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD.
pub(crate) const LEGACY: u64 = 1;
pub(crate) const PER_THREAD: u64 = 2;
/// CU_STREAM_NON_BLOCKING.
pub(crate) const NON_BLOCKING: u32 = 1;
/// A stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stream {
    pub context: u64,
    pub flags: u32,
    pub priority: i32,
    /// Unique in the process.
    pub id: u64,
}

/// What a program says about a stream, as it lies in C: it changes nothing here.
pub(crate) type Attribute = [u8; 64];

impl Stream {
    /// Whether it is one with the default stream: it was not created with CU_STREAM_NON_BLOCKING.
    pub(crate) fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }
}

/// The streams that the program created.
#[derive(Default, Debug)]
pub(crate) struct Streams {
    pub(in crate::engine) map: HashMap<u64, Stream>,
    /// By context and number of the stream, and attribute.
    pub(in crate::engine) attributes: HashMap<(u64, u64, i32), Attribute>,
    pub(in crate::engine) created: u64,
}

/// A function of the program, with what it gets. It may throw: a thread that ends itself unwinds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Call {
    /// Of `cuLaunchHostFunc`.
    Host(unsafe extern "C-unwind" fn(*mut c_void), u64),
    /// Of `cuStreamAddCallback`, with the stream's handle.
    Stream(unsafe extern "C-unwind" fn(*mut c_void, i32, *mut c_void), u64, u64),
}

impl Call {
    pub(crate) fn run(self) {
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

pub(crate) enum Task {
    Call(Call),
    Ours(Box<dyn FnOnce() + Send>),
}

/// Work in one order: a stream, which for the default ones is one of each context.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Lane {
    pub(in crate::engine) context: u64,
    pub(in crate::engine) stream: u64,
    /// The thread, for CU_STREAM_PER_THREAD.
    thread: i32,
}

/// The last number that a lane has to wait for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tail {
    pub(in crate::engine) number: u64,
    /// Whether it is one with the default stream of its context.
    pub(in crate::engine) blocking: bool,
}

/// What waits.
#[derive(Default)]
pub(crate) struct Queue {
    pub(in crate::engine) tasks: VecDeque<Task>,
    pub(in crate::engine) tails: HashMap<Lane, Tail>,
    /// The number of the last task that came in, and of the last one that is done.
    pub(in crate::engine) last: u64,
    pub(in crate::engine) done: u64,
    pub(in crate::engine) has_thread: bool,
}

/// Something came in; something is done.
pub(crate) static CAME: Condvar = Condvar::new();
pub(crate) static DONE: Condvar = Condvar::new();

thread_local! {
    pub(crate) static IN_CALL: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread runs a function of the program for the driver: it may not call it.
pub(crate) fn in_call() -> bool {
    IN_CALL.get()
}

impl Queue {
    pub(crate) fn push(&mut self, task: Task) -> u64 {
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
    pub(crate) fn pending(&self, of: impl Fn(&Lane, &Tail) -> bool) -> Option<u64> {
        let tails = self.tails.iter().filter(|(lane, tail)| of(lane, tail)).map(|(_, tail)| tail.number);
        tails.max().filter(|number| self.is_pending(*number))
    }
}

pub(crate) fn lane(stream: &Stream) -> Lane {
    // SAFETY: gettid has no preconditions. glibc has a function for it since 2.30.
    let tid = || unsafe { libc::syscall(libc::SYS_gettid) } as libc::pid_t;
    let thread = if stream.id == PER_THREAD { tid() } else { 0 };
    Lane { context: stream.context, stream: stream.id, thread }
}
