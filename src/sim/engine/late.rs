//! Late devices: asynchronous work is done only when something needs it, as late as the rules allow.
//!
//! A thread that waits for work does the work itself, under the driver's lock. The thread of the queue calls functions of the
//! program, and work that may wait for other work has a thread of its own. One more thread watches for work that is due
//! without a call: records of events for which other processes wait, and old work whose results are visible without a call.

use super::driver::{
    ByteUse, Driver, LATE_CHANGED, LaneTail, Remote, Stream, TASK_DONE, TaskQueue, Visibility, Work, WorkPiece, lane_of,
};
use super::process;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::PoisonError;
use std::time::Duration;

/// Pause between two looks at the late work that is due.
pub(crate) const TICK: Duration = Duration::from_millis(1);
/// Number of polls after which a waiting thread assumes that its work waits for other streams.
const PATIENCE: u64 = 100;

/// Wraps a function that needs the driver as [`Work`]. The function takes `dyn Any`, because the module of
/// `Work` cannot name [`Driver`].
pub(crate) fn locked_work(work: impl FnOnce(&mut Driver) + Send + 'static) -> Work {
    Work::Locked(Box::new(|driver: &mut dyn Any| {
        if let Some(driver) = driver.downcast_mut() {
            work(driver);
        }
    }))
}

impl Driver {
    /// Returns true if the devices of the machine are late.
    pub(crate) fn is_late(&self) -> bool {
        self.queue.late.is_some()
    }

    /// Adds work to a late stream. The work runs under the driver's lock.
    pub(crate) fn add_late_work(
        &mut self,
        stream: &Stream,
        seen: Visibility,
        work: impl FnOnce(&mut Driver) + Send + 'static,
    ) {
        self.add_late_work_after(Some(stream), self.pending_of_stream(stream), None, seen, locked_work(work));
    }

    /// Adds work that follows other work: tasks of this process, or a record of an event by another process.
    /// Returns its number.
    pub(crate) fn add_late_work_after(
        &mut self,
        stream: Option<&Stream>,
        after: Vec<u64>,
        remote: Option<Remote>,
        seen: Visibility,
        work: Work,
    ) -> u64 {
        let number = self.queue.next_number();
        let Some(late) = &mut self.queue.late else { return number };
        self.queue.last = number;
        let work = Some(work);
        late.add_piece(number, WorkPiece { after, remote, work, seen, uses: Vec::new() });
        if let Some(stream) = stream {
            self.queue
                .tails
                .insert(lane_of(stream), LaneTail { numbers: vec![number], blocking: stream.is_blocking() });
        }
        late.request_oldest();
        self.do_ready_work();
        number
    }

    /// Does all work that is requested and ready, and lets the watching thread handle the rest.
    pub(crate) fn do_ready_work(&mut self) {
        while let Some((number, work)) = self.queue.late.as_mut().and_then(|late| late.take_next_ready()) {
            match work {
                Work::Locked(work) => {
                    // After a panic of the driver, only this work is lost.
                    let _ = catch_unwind(AssertUnwindSafe(|| work(self)));
                    self.remove_piece(number, false);
                }
                call @ Work::Call(_) => self.queue.queue_task(number, Vec::new(), call),
                Work::Until(_) => self.remove_piece(number, false),
                Work::Unlocked(work) => {
                    let run = move || {
                        let _ = catch_unwind(AssertUnwindSafe(work));
                        process::lock().finish_piece(number, true);
                    };
                    if with_signals_blocked(|| std::thread::Builder::new().spawn(run)).is_err() {
                        self.remove_piece(number, true);
                    }
                }
            }
        }
        if let Some(late) = self.queue.late.as_mut().filter(|late| !late.is_empty()) {
            late.has_watcher =
                late.has_watcher || with_signals_blocked(|| std::thread::Builder::new().spawn(watch_late_work)).is_ok();
            LATE_CHANGED.notify_one();
        }
    }

    /// Sets the memory that new work uses. If the rules allow the work to precede other work with the same
    /// memory, does the work at once, so that a missing dependency in the program has an effect.
    pub(crate) fn set_piece_uses(&mut self, number: u64, uses: Vec<ByteUse>) {
        if let Some(late) = &mut self.queue.late
            && late.set_uses_and_check(number, uses)
        {
            late.request(number);
            self.do_ready_work();
        }
    }

    /// Removes work that is done. `was_alone` is true if it had a thread of its own.
    fn remove_piece(&mut self, number: u64, was_alone: bool) {
        let Some(late) = &mut self.queue.late else { return };
        late.remove_done(number, was_alone);
        self.queue.records.finish_records(number);
        if late.is_empty() {
            self.queue.tails.clear();
        }
        TASK_DONE.notify_all();
    }

    /// Removes work that a thread has done, and does the work that is ready now.
    pub(crate) fn finish_piece(&mut self, number: u64, was_alone: bool) {
        self.remove_piece(number, was_alone);
        self.do_ready_work();
    }

    /// Requests tasks, and does those that are ready. `round` is the number of times that the calling thread
    /// has polled so far.
    pub(crate) fn request_tasks(&mut self, numbers: &[u64], round: u64) {
        if let Some(late) = &mut self.queue.late {
            numbers.iter().for_each(|number| late.request(*number));
            if round > PATIENCE {
                late.request_awaited();
            }
            self.do_ready_work();
        }
    }

    /// Requests all work, and does what is ready, so that the resources of the work are freed. Returns true
    /// if there was any work.
    pub(crate) fn request_all_work(&mut self) -> bool {
        let had_any = self.queue.late.as_mut().is_some_and(|late| late.request_all());
        self.do_ready_work();
        had_any
    }
}

/// Runs the thread that watches for work that is due although no call requests it.
fn watch_late_work() {
    let mut driver = process::lock();
    while let TaskQueue { late: Some(late), records, .. } = &mut driver.queue {
        let has_cares = late.advance_time(records.wanted_tasks());
        driver.do_ready_work();
        if has_cares {
            drop(driver);
            std::thread::sleep(TICK);
            driver = process::lock();
        } else {
            driver = LATE_CHANGED.wait(driver).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Starts a thread by the function `start`. The thread has all signals blocked, because threads of the
/// program handle signals.
pub(crate) fn with_signals_blocked<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: all-zero are values of these plain sets, which the calls fill before they are read.
    unsafe {
        let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = core::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, core::ptr::null_mut());
        started
    }
}

#[cfg(test)]
mod tests {
    use super::super::copies::CopyMode;
    use super::super::driver::{LEGACY, NON_BLOCKING};
    use super::super::transfers::{AddressRole, TransferShape, TransferSide};
    use super::*;
    use cupeer_topology::Topology;
    use std::sync::{Arc, Mutex};

    /// A late driver with a context, and what its work has noted.
    fn late(seed: u64) -> (Driver, Arc<Mutex<String>>) {
        let machine = Topology::parse(&format!("none:1,late:{seed}")).unwrap();
        let mut driver = Driver::new(machine, vec![0]);
        driver.create_context(0, 0).unwrap();
        (driver, Arc::default())
    }

    fn stream(driver: &mut Driver, flags: u32) -> Stream {
        let handle = driver.create_stream(flags, 0).unwrap();
        driver.stream(handle).unwrap()
    }

    fn put(driver: &mut Driver, stream: &Stream, noted: &Arc<Mutex<String>>, letter: char) {
        let noted = Arc::clone(noted);
        driver.add_late_work(stream, Visibility::Nobody, move |_| noted.lock().unwrap().push(letter));
    }

    /// In which order four pieces of two streams are done.
    fn order(seed: u64) -> String {
        let (mut driver, noted) = late(seed);
        let [one, two] = [(); 2].map(|()| stream(&mut driver, NON_BLOCKING));
        for (stream, letter) in [(&one, 'a'), (&two, 'b'), (&one, 'A'), (&two, 'B')] {
            put(&mut driver, stream, &noted, letter);
        }
        assert_eq!(*noted.lock().unwrap(), "");
        let all = driver.all_pending();
        driver.request_tasks(&all, 0);
        noted.lock().unwrap().clone()
    }

    #[test]
    fn a_seed_has_an_order_between_streams_and_none_within() {
        let orders: Vec<String> = (0..100).map(order).collect();
        assert_eq!(orders, (0..100).map(order).collect::<Vec<_>>());
        let in_stream = |order: &String| order.find('a') < order.find('A') && order.find('b') < order.find('B');
        assert!(orders.iter().all(in_stream), "{orders:?}");
        assert_eq!(orders[0], "bBaA");
        assert!(orders.iter().any(|order| order.starts_with('a')), "{orders:?}");
    }

    #[test]
    fn only_what_is_wanted_is_done_and_what_comes_before_it() {
        let (mut driver, noted) = late(0);
        let [free, one, two] = [NON_BLOCKING, 0, 0].map(|flags| stream(&mut driver, flags));
        let legacy = driver.stream(LEGACY).unwrap();
        for (stream, letter) in [(&free, 'f'), (&one, 'a'), (&two, 'b'), (&legacy, 'L'), (&two, 'c')] {
            put(&mut driver, stream, &noted, letter);
        }
        let two = driver.pending_of_stream(&two);
        driver.request_tasks(&two, 0);
        let done = noted.lock().unwrap().clone();
        assert_eq!(done, "baLc");
        assert_eq!((driver.pending_of_stream(&one), driver.pending_of_stream(&free).len()), (Vec::new(), 1));
        assert!(driver.request_all_work() && !driver.request_all_work());
        assert_eq!(noted.lock().unwrap().len(), 5);
    }

    #[test]
    fn unordered_work_is_done_in_the_other_order() {
        let (mut driver, noted) = late(1);
        let streams = [(); 3].map(|()| stream(&mut driver, NON_BLOCKING));
        let mut use_in = |at: usize, letter, is_write| {
            let number = driver.queue.next_number();
            put(&mut driver, &streams[at], &noted, letter);
            driver.set_piece_uses(number, vec![ByteUse { from: 4, to: 8, is_write, file: None }]);
            let noted = noted.lock().unwrap().clone();
            (number, noted)
        };
        assert_eq!(use_in(0, 'a', false).1, "");
        assert_eq!(use_in(1, 'b', false).1, "");
        assert_eq!(use_in(2, 'C', true).1, "C");
        let (written, _) = use_in(0, 'A', true);
        driver.follow_task(&streams[1], written);
        let number = driver.queue.next_number();
        put(&mut driver, &streams[1], &noted, 'B');
        driver.set_piece_uses(number, vec![ByteUse { from: 0, to: 5, is_write: true, file: None }]);
        assert_eq!(*noted.lock().unwrap(), "CaA");
    }

    #[test]
    fn a_copy_of_memory_that_is_freed_in_another_stream_reads_something_else() {
        let (mut driver, _) = late(0);
        let [one, two] = [(); 2].map(|()| stream(&mut driver, NON_BLOCKING));
        let [from, to] = [(); 2].map(|()| driver.allocate_from_pool(0, 512).unwrap());
        let sides = [to, from].map(|at| TransferSide::flat(at, AddressRole::Device));
        let copy = driver.look_up_copy(sides[0], sides[1], TransferShape::flat(512)).unwrap();
        driver.queue_transfer(&one, copy, CopyMode::InStream).unwrap();
        driver.free_in_order(from, &two).unwrap();
        let pending = driver.pending_of_stream(&one);
        driver.request_tasks(&pending, 0);
        let mut byte = 0;
        driver.place_of(to, 1).unwrap().read(std::slice::from_mut(&mut byte)).unwrap();
        assert_eq!(byte, 0xa5);
    }

    #[test]
    fn a_stream_follows_the_event_that_was_recorded_when_it_was_asked_to() {
        let (mut driver, noted) = late(0);
        let [one, two] = [(); 2].map(|()| stream(&mut driver, NON_BLOCKING));
        put(&mut driver, &one, &noted, 'a');
        let recorded = driver.pending_of_stream(&one)[0];
        put(&mut driver, &one, &noted, 'A');
        driver.follow_task(&two, recorded);
        put(&mut driver, &two, &noted, 'b');
        let two = driver.pending_of_stream(&two);
        driver.request_tasks(&two, 0);
        assert_eq!(*noted.lock().unwrap(), "ab");
    }

    #[test]
    fn questions_and_a_long_queue_have_it_done() {
        let (mut driver, noted) = late(5);
        let one = stream(&mut driver, NON_BLOCKING);
        put(&mut driver, &one, &noted, 'a');
        let pending = driver.pending_of_stream(&one);
        let asked = (1..10).find(|_| driver.are_tasks_done(&pending)).unwrap();
        assert!((2..=4).contains(&asked), "{asked}");
        (0..1030).for_each(|_| put(&mut driver, &one, &noted, 'b'));
        assert_eq!(noted.lock().unwrap().len(), 1 + 6);
    }
}
