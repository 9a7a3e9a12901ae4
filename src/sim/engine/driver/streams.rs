//! Streams, and the tasks that wait in them, each after other tasks. Streams and events are known by the numbers of their last
//! tasks.

use super::super::records::EventRecords;
use super::late::{LateWork, Work};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Condvar;

/// The least and the greatest priority of a stream, as `cuCtxGetStreamPriorityRange` returns them. Lower
/// numbers have precedence.
pub(crate) const PRIORITIES: (i32, i32) = (0, -5);
/// CU_STREAM_LEGACY.
pub(crate) const LEGACY: u64 = 1;
/// CU_STREAM_PER_THREAD.
pub(crate) const PER_THREAD: u64 = 2;
/// CU_STREAM_NON_BLOCKING.
pub(crate) const NON_BLOCKING: u32 = 1;
/// A stream, or a default stream of a context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stream {
    pub context: u64,
    pub flags: u32,
    pub priority: i32,
    /// Number of the stream, unique in the process.
    pub id: u64,
}

/// Bytes of the value of a stream attribute. Attributes have no effect here.
pub(crate) type Attribute = [u8; 64];

impl Stream {
    /// Returns true unless the stream was created with CU_STREAM_NON_BLOCKING: it synchronizes with the
    /// default stream.
    pub(crate) fn is_blocking(&self) -> bool {
        self.flags & NON_BLOCKING == 0
    }
}

/// The streams that the program created.
#[derive(Default, Debug)]
pub(crate) struct Streams {
    pub(in crate::engine) map: HashMap<u64, Stream>,
    /// Values of attributes, by the context of the stream, the number of the stream, and the attribute.
    pub(in crate::engine) attributes: HashMap<(u64, u64, i32), Attribute>,
    pub(in crate::engine) created: u64,
}

/// A task that has not begun, with its number, and the numbers of the tasks that it follows.
pub(crate) struct QueuedTask {
    pub number: u64,
    after: Vec<u64>,
    pub work: Work,
}

/// A sequence of ordered work: a stream that the program created, or a default stream of a context.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct WorkLane {
    pub(in crate::engine) context: u64,
    pub(in crate::engine) stream: u64,
    /// Thread id of the calling thread for CU_STREAM_PER_THREAD; 0 for other streams.
    thread: i32,
}

/// The last tasks of a lane: the lane is complete when they are done.
#[derive(Clone, Debug)]
pub(crate) struct LaneTail {
    pub(in crate::engine) numbers: Vec<u64>,
    /// True if the lane synchronizes with the default stream of its context.
    pub(in crate::engine) blocking: bool,
}

/// The tasks that are not done, and the last tasks of each lane.
#[derive(Default)]
pub(crate) struct TaskQueue {
    pub(in crate::engine) tasks: VecDeque<QueuedTask>,
    pub(in crate::engine) tails: HashMap<WorkLane, LaneTail>,
    /// The number of the last task that was added.
    pub(in crate::engine) last: u64,
    /// The numbers of all tasks that are not done.
    pub(in crate::engine) undone: HashSet<u64>,
    pub(in crate::engine) has_thread: bool,
    pub(in crate::engine) records: EventRecords,
    /// The work of late devices; `None` if devices are not late.
    pub(in crate::engine) late: Option<LateWork>,
}

/// Signal that a task was added.
pub(crate) static TASK_ADDED: Condvar = Condvar::new();
/// Signal that a task is done.
pub(crate) static TASK_DONE: Condvar = Condvar::new();
/// Signal that the thread that watches late work has something to do.
pub(crate) static LATE_CHANGED: Condvar = Condvar::new();

impl TaskQueue {
    /// Adds a task that follows other tasks. Returns its number.
    pub(crate) fn add_task(&mut self, after: Vec<u64>, work: Work) -> u64 {
        self.last += 1;
        self.undone.insert(self.last);
        self.queue_task(self.last, after, work);
        self.last
    }

    /// Gives a task to the thread that runs queued tasks.
    pub(crate) fn queue_task(&mut self, number: u64, after: Vec<u64>, work: Work) {
        self.tasks.push_back(QueuedTask { number, after, work });
        TASK_ADDED.notify_one();
    }

    /// Returns the number that the next task will get.
    pub(crate) fn next_number(&self) -> u64 {
        self.last + 1
    }

    /// Returns true if a task is not done.
    pub(crate) fn is_pending(&self, number: u64) -> bool {
        self.late.as_ref().map_or_else(|| self.undone.contains(&number), |late| late.is_pending(number))
    }

    /// Returns the numbers of the tasks after which all work of certain lanes is done. `of` chooses the
    /// lanes.
    pub(crate) fn pending_tasks(&self, of: impl Fn(&WorkLane, &LaneTail) -> bool) -> Vec<u64> {
        let tails = self.tails.iter().filter(|(lane, tail)| of(lane, tail));
        let mut numbers: Vec<u64> = tails.flat_map(|(_, tail)| tail.numbers.iter().copied()).collect();
        numbers.retain(|number| self.is_pending(*number));
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Removes the first task that is ready, and returns it. If none is ready, the error is true if a task
    /// waits for a condition that must be polled.
    pub(crate) fn take_ready_task(&mut self) -> Result<QueuedTask, bool> {
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

    /// Marks a task as done.
    pub(crate) fn finish_task(&mut self, number: u64) {
        self.undone.remove(&number);
        self.records.finish_records(number);
        if self.undone.is_empty() {
            self.tails.clear();
        }
        TASK_DONE.notify_all();
    }
}

pub(crate) fn lane_of(stream: &Stream) -> WorkLane {
    // SAFETY: gettid has no preconditions. glibc has a function for it since 2.30.
    let tid = || unsafe { libc::syscall(libc::SYS_gettid) } as libc::pid_t;
    let thread = if stream.id == PER_THREAD { tid() } else { 0 };
    WorkLane { context: stream.context, stream: stream.id, thread }
}
