//! The tests of all pairs: which come when, and what becomes of a way that breaks.
//!
//! Pairs that share no device are tested at the same time. While a rate is measured, nothing else goes over any link.

use super::checks::{Measured, measure, perform};
use super::link::{Holder, Link, Run, untested, verdict_of};
use super::process::{Broken, Environment, Starter, serve};
use super::request::{Device, Pair};
use super::verdict::{Check, Verdict, Way};
use std::sync::{Condvar, Mutex, PoisonError, RwLock};
use std::time::Duration;

/// How often a way may stall before the rest of it is left out.
const STALLS: usize = 2;

/// What came of a way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Tested {
    pub way: Way,
    pub verdict: Verdict,
    pub checks: Vec<(Check, Verdict)>,
    pub measured: Option<Measured>,
}

/// A device and another one whose memory it is to reach.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Direction {
    pub from: usize,
    pub to: usize,
    pub about: Pair,
    /// Empty where the driver calls the other device unreachable.
    pub ways: Vec<Tested>,
}

/// What all pairs are tested with.
pub struct Plan<'a> {
    pub devices: &'a [Device],
    pub pairs: Vec<Direction>,
    pub limit: Duration,
}

impl Plan<'_> {
    /// How many ways there are to test.
    pub fn steps(&self) -> usize {
        Way::ALL.len() * self.pairs.iter().filter(|pair| pair.about.can_access).count()
    }

    /// Tests all pairs; `done` is called after each way.
    pub fn run(self, environment: &Environment, done: impl Fn(&Verdict) + Sync) -> Vec<Direction> {
        let (starter, asked) = Starter::new();
        let count = self.devices.len();
        let queue = Queue { todo: Mutex::new(Todo::of(self.pairs, count)), freed: Condvar::new() };
        let holders: Vec<Mutex<Holder>> = (0..count).map(|_| Mutex::default()).collect();
        let quiet = RwLock::new(());
        let (queue, holders, quiet, done, devices) = (&queue, &holders, &quiet, &done, self.devices);
        std::thread::scope(|scope| {
            for _ in 0..(count / 2).max(1) {
                let run = Run { starter: starter.clone(), limit: self.limit };
                scope.spawn(move || {
                    while let Some(mut pair) = queue.take() {
                        let lock =
                            |device: usize| holders[device].lock().unwrap_or_else(PoisonError::into_inner);
                        let (mut a, mut b) = (lock(pair.from), lock(pair.to));
                        let blocks = 2 * devices[pair.from].multiprocessors.max(1) as u32;
                        let test =
                            Test { run: &run, quiet, blocks, from: pair.from as i32, to: pair.to as i32 };
                        for way in Way::ALL {
                            let tested = test.way(way, &pair.about, &mut a, &mut b);
                            done(&tested.verdict);
                            pair.ways.push(tested);
                        }
                        a.close(&run, pair.to as i32);
                        drop((a, b));
                        queue.give(pair);
                    }
                });
            }
            drop(starter);
            serve(&asked, environment);
        });
        // The processes end with their holders.
        let mut todo = queue.todo.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pairs = std::mem::take(&mut todo.done);
        pairs.sort_by_key(|pair| (pair.from, pair.to));
        pairs
    }
}

/// What is still to be tested, and which devices are busy.
struct Todo {
    left: Vec<Direction>,
    busy: Vec<bool>,
    done: Vec<Direction>,
}

impl Todo {
    fn of(pairs: Vec<Direction>, devices: usize) -> Todo {
        let (left, done) = pairs.into_iter().partition(|pair| pair.about.can_access);
        Todo { left, busy: vec![false; devices], done }
    }
}

struct Queue {
    todo: Mutex<Todo>,
    freed: Condvar,
}

impl Queue {
    /// The next pair whose devices are both free; `None` where none is left.
    fn take(&self) -> Option<Direction> {
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

    fn give(&self, pair: Direction) {
        let mut todo = self.todo.lock().unwrap_or_else(PoisonError::into_inner);
        (todo.busy[pair.from], todo.busy[pair.to]) = (false, false);
        todo.done.push(pair);
        self.freed.notify_all();
    }
}

/// The test of one pair.
struct Test<'a> {
    run: &'a Run,
    quiet: &'a RwLock<()>,
    blocks: u32,
    from: i32,
    to: i32,
}

impl Test<'_> {
    fn way(&self, way: Way, about: &Pair, a: &mut Holder, b: &mut Holder) -> Tested {
        let mut tested = Tested { way, verdict: Verdict::Good, checks: Vec::new(), measured: None };
        let mut stalls = 0;
        while tested.checks.len() < Check::ALL.len() {
            if stalls == STALLS {
                self.rest(&mut tested, &untested("what came before it stalls"));
                break;
            }
            let ready = a.ready(self.run, self.from).and_then(|()| match way {
                Way::Peer => a.ready(self.run, self.to),
                Way::Ipc | Way::Vmm => b.ready(self.run, self.to),
            });
            if let Err(verdict) = ready {
                self.rest(&mut tested, &verdict);
                break;
            }
            let Err((broken, step)) = self.over(way, about, a, b, &mut tested) else { continue };
            // How a process has ended is asked before it is ended.
            let ended = [a.end(), b.end()].into_iter().flatten().next();
            let verdict = verdict_of(broken, step.map_or("opening the way", Check::doc), ended);
            match step {
                Some(check) if tested.checks.iter().all(|(known, _)| *known != check) => {
                    tested.checks.push((check, verdict.clone()));
                }
                Some(_) => {}
                None => self.rest(&mut tested, &verdict),
            }
            stalls += usize::from(matches!(verdict, Verdict::Stalls { .. }));
        }
        // Sums say little of how data goes astray, where other checks show it.
        let data = Verdict::worst(tested.checks.iter().filter(|(c, _)| *c != Check::Atomics).map(|(_, v)| v));
        let all = || Verdict::worst(tested.checks.iter().map(|(_, verdict)| verdict));
        tested.verdict = if data.is_bad() { data } else { all() };
        tested
    }

    /// Says the same of all checks that are left.
    fn rest(&self, tested: &mut Tested, verdict: &Verdict) {
        for check in &Check::ALL[tested.checks.len()..] {
            tested.checks.push((*check, verdict.clone()));
        }
    }

    /// Opens a way, and makes the checks that are left until one breaks it.
    fn over(
        &self,
        way: Way,
        about: &Pair,
        a: &Holder,
        b: &Holder,
        tested: &mut Tested,
    ) -> Result<(), (Broken, Option<Check>)> {
        let link =
            Link::open(self.run, way, (self.from, a), (self.to, b)).map_err(|broken| (broken, None))?;
        for check in &Check::ALL[tested.checks.len()..] {
            if *check == Check::Atomics && !about.has_native_atomics() {
                let reason =
                    "the driver claims no native atomics (CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED)";
                tested.checks.push((*check, untested(reason)));
                continue;
            }
            let verdict = {
                let _others = self.quiet.read().unwrap_or_else(PoisonError::into_inner);
                perform(&link, *check, self.blocks).map_err(|broken| (broken, Some(*check)))?
            };
            let stalls = matches!(verdict, Verdict::Stalls { .. });
            tested.checks.push((*check, verdict));
            if stalls {
                return Err((Broken::Stalled, Some(*check)));
            }
        }
        if tested.checks.iter().all(|(_, verdict)| !verdict.is_bad()) {
            let last = |broken| (broken, Check::ALL.last().copied());
            let _alone = self.quiet.write().unwrap_or_else(PoisonError::into_inner);
            match measure(&link, self.blocks).map_err(last)? {
                Ok(measured) => tested.measured = Some(measured),
                Err(verdict) => {
                    for (_, known) in
                        tested.checks.iter_mut().filter(|(check, _)| *check == Check::KernelWrite)
                    {
                        *known = verdict.clone();
                    }
                }
            }
        }
        link.close().map_err(|broken| (broken, Check::ALL.last().copied()))
    }
}
