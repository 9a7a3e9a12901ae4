//! Streams, and the tasks that wait in them, each after other tasks. Streams and events are known by the numbers of their last
//! tasks.

use super::super::records::Records;
use super::late::{Late, Work};
use std::collections::{HashMap, HashSet, VecDeque};
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

/// Value of a stream attribute, as bytes. It has no effect here.
pub(crate) type Attribute = [u8; 64];

impl Stream {
    /// Returns true if it synchronizes with the default stream: it was not created with CU_STREAM_NON_BLOCKING.
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

/// A task, its number, and the numbers of the tasks that it follows.
pub(crate) struct Waiting {
    pub number: u64,
    after: Vec<u64>,
    pub work: Work,
}

/// An ordered sequence of work: a stream, or the default stream of a context.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Lane {
    pub(in crate::engine) context: u64,
    pub(in crate::engine) stream: u64,
    /// The thread, for CU_STREAM_PER_THREAD.
    thread: i32,
}

/// The tasks after which a lane is complete.
#[derive(Clone, Debug)]
pub(crate) struct Tail {
    pub(in crate::engine) numbers: Vec<u64>,
    /// It synchronizes with the default stream of its context.
    pub(in crate::engine) blocking: bool,
}

/// Tasks that wait.
#[derive(Default)]
pub(crate) struct Queue {
    pub(in crate::engine) tasks: VecDeque<Waiting>,
    pub(in crate::engine) tails: HashMap<Lane, Tail>,
    /// The number of the last task that came in, and those of all tasks that are not done.
    pub(in crate::engine) last: u64,
    pub(in crate::engine) undone: HashSet<u64>,
    pub(in crate::engine) has_thread: bool,
    pub(in crate::engine) records: Records,
    /// The work of late devices, if the machine has them.
    pub(in crate::engine) late: Option<Late>,
}

/// Signal that a task was added, that a task is done, and that the watching thread has work.
pub(crate) static TASK_ADDED: Condvar = Condvar::new();
pub(crate) static TASK_DONE: Condvar = Condvar::new();
pub(crate) static LATE_CHANGED: Condvar = Condvar::new();

impl Queue {
    /// Adds a task behind others.
    pub(crate) fn push(&mut self, after: Vec<u64>, work: Work) -> u64 {
        self.last += 1;
        self.undone.insert(self.last);
        self.hand_over(self.last, after, work);
        self.last
    }

    /// Hands a task to the thread.
    pub(crate) fn hand_over(&mut self, number: u64, after: Vec<u64>, work: Work) {
        self.tasks.push_back(Waiting { number, after, work });
        TASK_ADDED.notify_one();
    }

    /// The number of the next task.
    pub(crate) fn upcoming(&self) -> u64 {
        self.last + 1
    }

    /// Returns true if a task is not done.
    pub(crate) fn is_pending(&self, number: u64) -> bool {
        self.late.as_ref().map_or_else(|| self.undone.contains(&number), |late| late.is_pending(number))
    }

    /// Returns the tasks after which all work of these lanes is done.
    pub(crate) fn pending(&self, of: impl Fn(&Lane, &Tail) -> bool) -> Vec<u64> {
        let tails = self.tails.iter().filter(|(lane, tail)| of(lane, tail));
        let mut numbers: Vec<u64> = tails.flat_map(|(_, tail)| tail.numbers.iter().copied()).collect();
        numbers.retain(|number| self.is_pending(*number));
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Takes the first task that is ready. Without one, the error is true if a task must be polled.
    pub(crate) fn take(&mut self) -> Result<Waiting, bool> {
        let mut is_asked = false;
        for index in 0..self.tasks.len() {
            let waiting = &self.tasks[index];
            if waiting.after.iter().any(|number| self.undone.contains(number)) {
                continue;
            }
            if waiting.work.is_ready() {
                return self.tasks.remove(index).ok_or(is_asked);
            }
            is_asked = true;
        }
        Err(is_asked)
    }

    /// Ends a task.
    pub(crate) fn finish(&mut self, number: u64) {
        self.undone.remove(&number);
        self.records.finish(number);
        if self.undone.is_empty() {
            self.tails.clear();
        }
        TASK_DONE.notify_all();
    }
}

pub(crate) fn lane(stream: &Stream) -> Lane {
    // SAFETY: gettid has no preconditions. glibc has a function for it since 2.30.
    let tid = || unsafe { libc::syscall(libc::SYS_gettid) } as libc::pid_t;
    let thread = if stream.id == PER_THREAD { tid() } else { 0 };
    Lane { context: stream.context, stream: stream.id, thread }
}
