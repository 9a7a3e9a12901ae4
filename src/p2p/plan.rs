//! Tests all pairs: chooses their order, and continues after a link breaks.
//!
//! Pairs that share no device are tested at the same time. During a measurement, no other link is in use.

use super::checks::{Measured, measure_rates, run_check};
use super::link::{DeviceHolder, OpenLink, TestContext, is_unrelated_to_links, untested_because, verdict_for_failure};
use super::nvml::{Kind, Promise};
use super::process::{ProcessCommand, ProcessStarter, RequestFailure, serve_starts};
use super::request::{Device, Pair};
use super::verdict::{Check, SharingMethod, Verdict};
use std::sync::{Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// Number of stalls after which the remaining checks of a method are not run. If no earlier method of the
/// pair stalled, one more stall is allowed.
const MOST_STALLS: usize = 1;

/// The result of a method over one link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MethodResult {
    pub way: SharingMethod,
    pub verdict: Verdict,
    pub checks: Vec<(Check, Verdict)>,
    pub measured: Option<Measured>,
}

/// A direction: a device, and another device whose memory it tries to reach.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Direction {
    pub from: usize,
    pub to: usize,
    pub about: Pair,
    pub promise: Option<Promise>,
    /// Results of the methods; empty if the driver reports no access.
    pub ways: Vec<MethodResult>,
}

impl Direction {
    /// Returns true if the link is NVLink. If NVML does not tell, native atomics decide, which only NVLink
    /// has.
    pub fn is_nvlink(&self) -> bool {
        self.promise.map_or_else(|| self.about.has_native_atomics(), |promise| promise.kind == Kind::Nvlink)
    }
}

/// Numbers of directions by their verdicts. Directions without access do not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectionCounts {
    pub bad: usize,
    pub good: usize,
    pub untested: usize,
}

impl DirectionCounts {
    pub fn count(pairs: &[Direction]) -> DirectionCounts {
        let mut count = DirectionCounts { bad: 0, good: 0, untested: 0 };
        for pair in pairs.iter().filter(|pair| pair.about.can_access) {
            if pair.ways.iter().any(|tested| tested.verdict.is_bad()) {
                count.bad += 1;
            } else if pair.ways.iter().all(|tested| tested.verdict == Verdict::Good) {
                count.good += 1;
            } else {
                count.untested += 1;
            }
        }
        count
    }
}

/// The directions to test, and the options of the test.
pub struct TestPlan<'a> {
    pub devices: &'a [Device],
    pub pairs: Vec<Direction>,
    pub limit: Duration,
    /// True if rates are measured.
    pub measures: bool,
}

impl TestPlan<'_> {
    /// Returns the number of methods to test, over all directions.
    pub fn method_count(&self) -> usize {
        SharingMethod::ALL.len() * self.pairs.iter().filter(|pair| pair.about.can_access).count()
    }

    /// Tests all directions. Calls `done` after each method.
    pub fn test_directions(self, environment: &ProcessCommand, done: impl Fn(&Verdict) + Sync) -> Vec<Direction> {
        let (starter, asked) = ProcessStarter::new();
        let count = self.devices.len();
        let queue =
            DirectionQueue { todo: Mutex::new(QueueState::from_pairs(self.pairs, count)), freed: Condvar::new() };
        let holders: Vec<Mutex<DeviceHolder>> = (0..count).map(|_| Mutex::default()).collect();
        let quiet = RwLock::new(());
        let (queue, holders, quiet, done, devices) = (&queue, &holders, &quiet, &done, self.devices);
        let measures = self.measures;
        std::thread::scope(|scope| {
            for _ in 0..(count / 2).max(1) {
                let run = TestContext { starter: starter.clone(), limit: self.limit };
                scope.spawn(move || {
                    while let Some(mut pair) = queue.take_direction() {
                        let lock = |device: usize| holders[device].lock().unwrap_or_else(PoisonError::into_inner);
                        let (mut a, mut b) = (lock(pair.from), lock(pair.to));
                        let blocks = 2 * devices[pair.from].multiprocessors.max(1) as u32;
                        let test = DirectionTest {
                            run: &run,
                            quiet,
                            blocks,
                            measures,
                            from: pair.from as i32,
                            to: pair.to as i32,
                        };
                        for way in SharingMethod::ALL {
                            let tested = test.test_method(way, &pair, &mut a, &mut b);
                            done(&tested.verdict);
                            pair.ways.push(tested);
                        }
                        a.close_device(&run, pair.to as i32);
                        drop((a, b));
                        queue.finish_direction(pair);
                    }
                });
            }
            drop(starter);
            serve_starts(&asked, environment);
        });
        // The holders were dropped, which ends their processes.
        let mut todo = queue.todo.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pairs = std::mem::take(&mut todo.done);
        pairs.sort_by_key(|pair| (pair.from, pair.to));
        pairs
    }
}

/// The directions that remain, the busy devices, and the directions that are done.
struct QueueState {
    left: Vec<Direction>,
    busy: Vec<bool>,
    done: Vec<Direction>,
}

impl QueueState {
    fn from_pairs(pairs: Vec<Direction>, devices: usize) -> QueueState {
        let (left, done) = pairs.into_iter().partition(|pair| pair.about.can_access);
        QueueState { left, busy: vec![false; devices], done }
    }
}

/// The directions that several threads test, behind a lock.
struct DirectionQueue {
    todo: Mutex<QueueState>,
    freed: Condvar,
}

impl DirectionQueue {
    /// Waits for a direction whose devices are both free, and makes them busy. Returns `None` if no direction
    /// remains.
    fn take_direction(&self) -> Option<Direction> {
        let mut todo = self.todo.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if todo.left.is_empty() {
                return None;
            }
            let is_free = |pair: &Direction| !todo.busy[pair.from] && !todo.busy[pair.to];
            if let Some(at) = todo.left.iter().position(is_free) {
                let pair = todo.left.remove(at);
                (todo.busy[pair.from], todo.busy[pair.to]) = (true, true);
                return Some(pair);
            }
            todo = self.freed.wait(todo).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Adds a direction that is done, and makes its devices free.
    fn finish_direction(&self, pair: Direction) {
        let mut todo = self.todo.lock().unwrap_or_else(PoisonError::into_inner);
        (todo.busy[pair.from], todo.busy[pair.to]) = (false, false);
        todo.done.push(pair);
        self.freed.notify_all();
    }
}

/// Returns the verdict on a method from the verdicts on its checks. Failures of other checks have precedence
/// over a failure of atomics. A check that was not run prevents `Good`, except for atomics that the driver
/// does not claim.
fn combine_verdicts(checks: &[(Check, Verdict)]) -> Verdict {
    let of = |is_sum: bool| {
        checks.iter().filter(move |(check, _)| (*check == Check::Atomics) == is_sum).map(|(_, verdict)| verdict)
    };
    let data = Verdict::worst(of(false));
    let untested = of(false).find(|verdict| matches!(verdict, Verdict::NotTested { .. }));
    match untested {
        _ if data.is_bad() => data,
        Some(untested) => untested.clone(),
        None => Verdict::worst(of(true).chain([&data])),
    }
}

/// The test of one direction.
struct DirectionTest<'a> {
    run: &'a TestContext,
    quiet: &'a RwLock<()>,
    blocks: u32,
    measures: bool,
    from: i32,
    to: i32,
}

impl DirectionTest<'_> {
    /// Tests a method: runs its checks, and starts new processes after a stall.
    fn test_method(
        &self,
        way: SharingMethod,
        pair: &Direction,
        a: &mut DeviceHolder,
        b: &mut DeviceHolder,
    ) -> MethodResult {
        let stalled = |tested: &MethodResult| matches!(tested.verdict, Verdict::Stalls { .. });
        let (about, has_stalled) = (&pair.about, pair.ways.iter().any(stalled));
        let mut tested = MethodResult { way, verdict: Verdict::Good, checks: Vec::new(), measured: None };
        let mut stalls = 0;
        while tested.checks.len() < Check::ALL.len() {
            if stalls == MOST_STALLS + usize::from(!has_stalled) {
                self.fill_remaining_checks(&mut tested, &untested_because("what came before it stalls"));
                break;
            }
            let ready = a.open_device(self.run, self.from).and_then(|()| match way {
                SharingMethod::Peer => a.open_device(self.run, self.to),
                SharingMethod::Ipc | SharingMethod::Vmm => b.open_device(self.run, self.to),
            });
            if let Err(verdict) = ready {
                self.fill_remaining_checks(&mut tested, &verdict);
                break;
            }
            let Err((broken, step)) = self.run_checks(way, about, a, b, &mut tested) else { continue };
            // If a process has ended by itself, `end` returns how.
            let ended = [a.end_process(), b.end_process()].into_iter().flatten().next();
            let verdict = verdict_for_failure(broken, step.map_or("opening the way", Check::description), ended);
            match step {
                Some(check) if tested.checks.iter().all(|(known, _)| *known != check) => {
                    tested.checks.push((check, verdict.clone()));
                }
                Some(_) => {}
                None => self.fill_remaining_checks(&mut tested, &verdict),
            }
            stalls += usize::from(matches!(verdict, Verdict::Stalls { .. }));
        }
        tested.verdict = combine_verdicts(&tested.checks);
        tested
    }

    /// Gives the same verdict to all checks of a method that were not run.
    fn fill_remaining_checks(&self, tested: &mut MethodResult, verdict: &Verdict) {
        for check in &Check::ALL[tested.checks.len()..] {
            tested.checks.push((*check, verdict.clone()));
        }
    }

    /// Opens a link, and runs the remaining checks over it until a check breaks the link.
    fn run_checks(
        &self,
        way: SharingMethod,
        about: &Pair,
        a: &DeviceHolder,
        b: &DeviceHolder,
        tested: &mut MethodResult,
    ) -> Result<(), (RequestFailure, Option<Check>)> {
        let link = OpenLink::open(self.run, way, (self.from, a), (self.to, b)).map_err(|broken| (broken, None))?;
        for check in &Check::ALL[tested.checks.len()..] {
            if *check == Check::Atomics && !about.has_native_atomics() {
                let reason = "the driver claims no native atomics (CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)";
                tested.checks.push((*check, untested_because(reason)));
                continue;
            }
            let verdict = {
                let _others = self.quiet.read().unwrap_or_else(PoisonError::into_inner);
                match run_check(&link, *check, self.blocks) {
                    // Such a refusal harms neither the link nor its processes.
                    Err(RequestFailure::Refused(refusal)) if is_unrelated_to_links(&refusal) => {
                        untested_because(&Verdict::from(refusal).explanation())
                    }
                    done => done.map_err(|broken| (broken, Some(*check)))?,
                }
            };
            let stalls = matches!(verdict, Verdict::Stalls { .. });
            tested.checks.push((*check, verdict));
            if stalls {
                return Err((RequestFailure::Stalled, Some(*check)));
            }
        }
        let is_bad = tested.checks.iter().any(|(_, verdict)| verdict.is_bad());
        let has_kernels =
            tested.checks.iter().any(|(check, verdict)| *check == Check::KernelWrite && *verdict == Verdict::Good);
        if self.measures && has_kernels && !is_bad {
            let last = |broken| (broken, Check::ALL.last().copied());
            let _alone = self.quiet.write().unwrap_or_else(PoisonError::into_inner);
            match measure_rates(&link, self.blocks).map_err(last)? {
                Ok(measured) => tested.measured = Some(measured),
                Err((of, verdict)) => {
                    for (_, known) in tested.checks.iter_mut().filter(|(check, _)| *check == of) {
                        *known = verdict.clone();
                    }
                }
            }
        }
        link.close().map_err(|broken| (broken, Check::ALL.last().copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_that_were_not_run_prevent_good_and_atomics_come_last() {
        let stale = || Verdict::Stale { reason: "late".to_owned() };
        let wrong = || Verdict::Wrong { wrong: 1, words: 2, first_byte: 0, reason: String::new() };
        let with = |copy: Verdict, kernel: Verdict, sums: Verdict| {
            combine_verdicts(&[(Check::CopyWrite, copy), (Check::KernelWrite, kernel), (Check::Atomics, sums)])
        };
        assert_eq!(with(Verdict::Good, Verdict::Good, untested_because("no claim")), Verdict::Good);
        assert_eq!(
            with(Verdict::Good, untested_because("no compiler"), Verdict::Good),
            untested_because("no compiler")
        );
        assert_eq!(with(Verdict::Good, stale(), wrong()), stale());
        assert_eq!(with(Verdict::Good, Verdict::Good, wrong()), wrong());
        assert_eq!(with(wrong(), stale(), Verdict::Good), wrong());
    }
}
