//! The calls of one process that order GPU work, or by which the process learns that work is done.
//!
//! Streams and events have numbers here, because the driver reuses their handles. All contexts of a process count as one: so some
//! work seems to be ordered that is not, and findings are missed rather than wrong.

mod streams;

pub use streams::{Kind, Name, Streams, is_captured, is_of_devices};

use crate::follow::ledger::CallSite;
use cupeer_model::Names;
use cupeer_record::Call;
use cupeer_report::values;
use cupeer_spec::effect::{Effect, Object, Shared, Work as Awaited};
use cupeer_spec::function::{FnId, Group};
use cupeer_spec::record::slot::nodes;
use cupeer_spec::waits::{self, Scope, Source, Waits, When};
use std::sync::LazyLock;

/// Largest number of stored calls of a process.
const MOST_CALLS: usize = 1 << 16;

/// The work that a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    Stream(usize),
    Event(usize),
    Process(usize),
}

/// The effect of a call on the order of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Orders {
    Records {
        stream: usize,
        event: usize,
    },
    Follows {
        stream: usize,
        event: usize,
    },
    /// The call returned after the work was done; for some calls, that is only possible.
    Completes {
        work: Work,
        perhaps: bool,
    },
    /// Work by which a thread or another stream may learn that the earlier work of its stream is done. `is_meant` is true if
    /// that is its purpose: a value that is written to memory, or a host function.
    Tells {
        stream: usize,
        is_meant: bool,
    },
}

/// A call that orders work, with the times at which it began and returned.
pub struct Ordering {
    pub before: u64,
    pub after: u64,
    pub orders: Orders,
}

/// A call that frees or unmaps memory at an address.
pub struct Freed {
    pub function: FnId,
    pub at: u64,
    /// The stream in which the memory is freed; `None` if the call frees it immediately.
    pub stream: Option<usize>,
}

/// A call that ends the mappings in a range of addresses.
pub struct Unmapped {
    pub address: u64,
    pub bytes: u64,
    pub call: CallSite,
}

impl Unmapped {
    pub fn has(&self, address: u64) -> bool {
        address >= self.address && address - self.address < self.bytes
    }
}

/// All calls of one process that order work, in the order of the record.
#[derive(Default)]
pub struct Order {
    pub all: Vec<Ordering>,
    pub streams: Streams,
    pub freed: Vec<Freed>,
    pub unmapped: Vec<Unmapped>,
    /// Number of events; the next field has the fingerprints of those with an interprocess handle.
    pub events: usize,
    pub handles: Vec<(u64, usize)>,
    /// The addresses of values for which streams wait or that streams write, each with the time of the call.
    pub values: Vec<(u64, u64)>,
    /// Times in which calls may be missing: from, until.
    pub gaps: Vec<(u64, u64)>,
    names: Names<usize>,
    /// Number of recorded uses of memory before the last ordering call.
    uses: usize,
}

/// For each function, the work that it waits for, and true if its calls order work in any way.
static WAITS: LazyLock<Vec<(Option<Waits>, bool)>> = LazyLock::new(|| {
    let of = |function: FnId| {
        let (spec, waits) = (function.spec(), waits::of(function.spec().name()));
        let is_event = |effect: &Effect| match effect {
            Effect::Exports(shared) | Effect::Opens(shared) => shared.object == Object::Event,
            Effect::Ends(end) => end.object == Object::Event,
            _ => false,
        };
        let is_of_streams = spec.is_in(Group::Order) || spec.records().is_some() || may_tell(function);
        let is_waiting =
            waits.is_some_and(|waits| (waits.scope, waits.perhaps) != (Scope::Nothing, Scope::Nothing));
        let frees = spec.frees().is_some();
        (waits, is_of_streams || is_waiting || frees || spec.effects().iter().any(is_event))
    };
    FnId::all().map(of).collect()
});

/// Returns the work that a function waits for; `None` if it is not known.
pub fn waits(function: FnId) -> Option<Waits> {
    WAITS[function as usize].0
}

/// Returns true if a thread may learn from the work of a function that earlier work of the same stream is done.
fn may_tell(function: FnId) -> bool {
    let spec = function.spec();
    spec.runs().is_some()
        || spec.is_in(Group::Launch)
        || spec.replays().is_some()
        || spec.writes_to_host_later()
}

/// The flags of the graph that a call launches, if its uses of shared memory are known.
pub fn graph(call: &Call) -> Option<u64> {
    nodes::read(&call.details.nodes).map(|(flags, _)| flags)
}

/// Returns true if the work of a call is certainly done when the call returns, and `None` if it may be done.
pub fn is_done(function: FnId) -> Option<bool> {
    let waits = waits(function)?;
    match (waits.scope, waits.when) {
        (Scope::Nothing, _) if waits.perhaps == Scope::Nothing || waits.source == Source::Measured => {
            Some(false)
        }
        // The function is not documented to wait, so programs cannot rely on it.
        (Scope::Nothing, _) => Some(false).filter(|_| function.spec().is_asynchronous()),
        (_, When::Always) => Some(true),
        // The function fills host memory, and shared memory is device memory.
        (_, When::FillsHost) => Some(false),
        _ => None,
    }
}

impl Order {
    /// Notes that calls are missing from a time on.
    pub fn is_cut(&mut self, from: u64) {
        if self.gaps.last().is_none_or(|(_, until)| *until != u64::MAX) {
            self.gaps.push((from, u64::MAX));
        }
    }

    /// Notes that calls were missing up to a time.
    pub fn resumes(&mut self, until: u64) {
        if let Some(gap) =
            self.gaps.last_mut().filter(|(_, end)| *end == u64::MAX && self.all.len() < MOST_CALLS)
        {
            gap.1 = until.max(gap.0);
        }
    }

    fn event(&mut self, call: &Call, argument: usize) -> Option<usize> {
        let next = self.events;
        let event = *self.names.bearer_or(Object::Event, call.number(argument)?, || next);
        self.events += usize::from(event == next);
        Some(event)
    }

    /// Adds a call that succeeded, if its function ends mappings.
    pub fn unmaps(&mut self, function: FnId, call: &Call, made: impl FnOnce() -> CallSite) {
        let ends = function.spec().effects().iter().find_map(|effect| match effect {
            Effect::Ends(end) if end.object == Object::Mapping => Some((end.by, end.size?)),
            _ => None,
        });
        let numbers = ends.and_then(|(by, size)| Some((call.number(by)?, call.number(size)?)));
        if let Some((address, bytes)) = numbers.filter(|_| self.unmapped.len() < MOST_CALLS) {
            self.unmapped.push(Unmapped { address, bytes, call: made() });
        }
    }

    /// Adds a call that succeeded, with the times at which it began and returned. `uses` is the number of recorded uses before
    /// the call.
    pub fn call(&mut self, function: FnId, call: &Call, (before, after): (u64, u64), uses: usize) {
        let spec = function.spec();
        if !WAITS[function as usize].1 || is_captured(call) || is_of_devices(call) {
            return;
        }
        for effect in spec.effects() {
            match *effect {
                Effect::Exports(Shared { object: Object::Event, by, handle, .. })
                | Effect::Opens(Shared { object: Object::Event, by, handle, .. }) => {
                    let (Some(event), Some(handle)) = (self.event(call, by), values::handle(call, handle))
                    else {
                        continue;
                    };
                    self.handles.push((handle.0, event));
                }
                Effect::Ends(end) if end.object == Object::Event => {
                    let _ = call.number(end.by).and_then(|handle| self.names.take(Object::Event, handle));
                }
                Effect::Awaits(signal) | Effect::Signals(signal) => {
                    self.values.extend(call.number(signal.address).map(|address| (address, before)));
                }
                _ => {}
            }
        }
        if spec.frees().is_some() {
            let stream = spec.stream().map(|_| self.streams.of_call(function, call));
            self.freed.push(Freed { function, at: before, stream });
        }
        let mut made = [None; 3];
        self.orders(function, call, uses > 0, &mut made);
        for orders in made.into_iter().flatten() {
            let is_again = |known: &Ordering| known.orders == orders && orders.is_of_own_work();
            if self.uses == uses && self.all.last().is_some_and(is_again) {
                continue;
            }
            self.uses = uses;
            if self.all.len() >= MOST_CALLS {
                return self.is_cut(before);
            }
            self.all.push(Ordering { before, after, orders });
        }
    }

    fn orders(&mut self, function: FnId, call: &Call, is_used: bool, made: &mut [Option<Orders>; 3]) {
        let spec = function.spec();
        if let Some(work) = spec.completes() {
            let work = match work {
                Awaited::Stream(_) => Some(Work::Stream(self.streams.of_call(function, call))),
                Awaited::Event(by) => self.event(call, by).map(Work::Event),
                Awaited::Context(_) | Awaited::Current => Some(Work::Process(0)),
            };
            made[0] = work.map(|work| Orders::Completes { work, perhaps: false });
        } else if let Some(by) = spec.records() {
            let event = self.event(call, by);
            let stream = self.streams.of_call(function, call);
            made[0] = event.map(|event| Orders::Records { stream, event });
        } else if let Some(followed) = spec.follows() {
            let event = self.event(call, followed.event);
            let stream = self.streams.of_call(function, call);
            made[0] = event.map(|event| Orders::Follows { stream, event });
        } else if spec.signals().is_some() || spec.posts().is_some() {
            made[0] = Some(Orders::Tells { stream: self.streams.of_call(function, call), is_meant: true });
        } else if may_tell(function) && graph(call) != Some(0) {
            let is_meant = spec.runs().is_some();
            made[0] = Some(Orders::Tells { stream: self.streams.of_call(function, call), is_meant });
        } else if let Some(waits) = waits(function).filter(|_| is_used) {
            let is_sure = matches!(waits.when, When::Always | When::NotPooled | When::Last);
            let mut complete = |scope, perhaps| {
                self.work(scope, function, call).map(|work| Orders::Completes { work, perhaps })
            };
            *made = [complete(waits.scope, !is_sure), None, None];
            if waits.perhaps != waits.scope {
                made[1] = complete(waits.perhaps, true);
            }
            if waits.scope == Scope::Thread {
                made[2] = complete(Scope::Default, !is_sure);
            }
        }
    }

    /// Returns the work that a scope of a call means.
    fn work(&mut self, scope: Scope, function: FnId, call: &Call) -> Option<Work> {
        Some(match scope {
            Scope::Nothing | Scope::Event => return None,
            Scope::Stream | Scope::Thread => Work::Stream(self.streams.of_call(function, call)),
            Scope::Default => Work::Stream(self.streams.legacy()),
            Scope::Context | Scope::Process => Work::Process(0),
        })
    }
}

impl Orders {
    /// Returns true if the effect concerns only work of the same process, so an immediate repetition of it adds nothing.
    fn is_of_own_work(self) -> bool {
        matches!(self, Orders::Completes { work: Work::Stream(_) | Work::Process(_), .. })
    }

    /// Returns the effect with the numbers of streams, events, and the process replaced.
    pub fn numbered(
        self,
        stream: impl Fn(usize) -> usize,
        event: impl Fn(usize) -> usize,
        process: usize,
    ) -> Orders {
        match self {
            Orders::Records { stream: its, event: of } => {
                Orders::Records { stream: stream(its), event: event(of) }
            }
            Orders::Follows { stream: its, event: of } => {
                Orders::Follows { stream: stream(its), event: event(of) }
            }
            Orders::Tells { stream: its, is_meant } => Orders::Tells { stream: stream(its), is_meant },
            Orders::Completes { work, perhaps } => {
                let work = match work {
                    Work::Stream(its) => Work::Stream(stream(its)),
                    Work::Event(of) => Work::Event(event(of)),
                    Work::Process(_) => Work::Process(process),
                };
                Orders::Completes { work, perhaps }
            }
        }
    }
}
