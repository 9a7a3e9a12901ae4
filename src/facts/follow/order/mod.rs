//! The calls of one process that order GPU work, or by which the process learns that work is done.
//!
//! Streams and events have numbers here, because the driver reuses their handles. All contexts of a process count as one: so some
//! work seems to be ordered that is not, and findings are missed rather than wrong.

mod streams;

pub use streams::{StreamKey, StreamKind, Streams, is_captured, uses_only_device_memory};

use crate::follow::ledger::CallSite;
use cupeer_model::NumberHolders;
use cupeer_record::Call;
use cupeer_report::values;
use cupeer_spec::effect::{Effect, Object, Shared, Work as Awaited};
use cupeer_spec::function::{FnId, Group};
use cupeer_spec::record::slot::nodes;
use cupeer_spec::waits::{self, WaitCondition, WaitScope, WaitSource, Waits};
use std::sync::LazyLock;

/// Number of calls that order work after which a process's later calls are not stored, and count as missing.
const MOST_CALLS: usize = 1 << 16;

/// The work that a call waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AwaitedWork {
    Stream(usize),
    Event(usize),
    Process(usize),
}

/// The effect of a call on the order of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OrderEffect {
    RecordsEvent {
        stream: usize,
        event: usize,
    },
    WaitsForEvent {
        stream: usize,
        event: usize,
    },
    /// The call returned after the work was done; for some calls, that is only possible.
    Completes {
        work: AwaitedWork,
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
pub struct OrderingCall {
    pub before: u64,
    pub after: u64,
    pub orders: OrderEffect,
}

/// A call that frees or unmaps memory at an address.
pub struct FreeingCall {
    pub function: FnId,
    pub at: u64,
    /// The stream in which the memory is freed; `None` if the call frees it immediately.
    pub stream: Option<usize>,
}

/// A call that ends the mappings in a range of addresses.
pub struct UnmappingCall {
    pub address: u64,
    pub bytes: u64,
    pub call: CallSite,
}

impl UnmappingCall {
    pub fn contains(&self, address: u64) -> bool {
        address >= self.address && address - self.address < self.bytes
    }
}

/// All calls of one process that order work, in the order of the recording.
#[derive(Default)]
pub struct OrderingCalls {
    pub all: Vec<OrderingCall>,
    pub streams: Streams,
    pub freed: Vec<FreeingCall>,
    pub unmapped: Vec<UnmappingCall>,
    /// Number of CUDA events that the calls name.
    pub events: usize,
    pub event_handles: Vec<(u64, usize)>,
    /// The addresses of values for which streams wait or that streams write, each with the time of the call.
    pub value_addresses: Vec<(u64, u64)>,
    /// Times in which calls may be missing: from, until.
    pub gaps: Vec<(u64, u64)>,
    names: NumberHolders<usize>,
    /// Number of recorded uses of memory before the last ordering call.
    uses_before: usize,
}

/// For each function, the work that it waits for, and true if its calls order work in any way.
static WAITS: LazyLock<Vec<(Option<Waits>, bool)>> = LazyLock::new(|| {
    let of = |function: FnId| {
        let (spec, waits) = (function.spec(), waits::waits_of(function.spec().name()));
        let is_event = |effect: &Effect| match effect {
            Effect::Exports(shared) | Effect::Opens(shared) => shared.object == Object::Event,
            Effect::Ends(end) => end.object == Object::Event,
            _ => false,
        };
        let is_of_streams = spec.is_in(Group::Order) || spec.records().is_some() || may_signal_progress(function);
        let is_waiting =
            waits.is_some_and(|waits| (waits.scope, waits.perhaps) != (WaitScope::Nothing, WaitScope::Nothing));
        let frees = spec.freed_memory_argument().is_some();
        (waits, is_of_streams || is_waiting || frees || spec.effects().iter().any(is_event))
    };
    FnId::all().map(of).collect()
});

/// Returns the work that a function waits for; `None` if it is not known.
pub fn work_awaited_by(function: FnId) -> Option<Waits> {
    WAITS[function as usize].0
}

/// Returns true if a thread may learn from the work of a function that earlier work of the same stream is done.
fn may_signal_progress(function: FnId) -> bool {
    let spec = function.spec();
    spec.runs().is_some() || spec.is_in(Group::Launch) || spec.replays().is_some() || spec.writes_to_host_later()
}

/// The flags of the graph that a call launches, if its uses of shared memory are known.
pub fn graph_flags(call: &Call) -> Option<u64> {
    nodes::read_nodes(&call.details.nodes).map(|(flags, _)| flags)
}

/// `Some(true)`: the work of a call is certainly done when the call returns; `Some(false)`: nothing guarantees it;
/// `None`: it may be.
pub fn is_done_on_return(function: FnId) -> Option<bool> {
    let waits = work_awaited_by(function)?;
    match (waits.scope, waits.when) {
        (WaitScope::Nothing, _) if waits.perhaps == WaitScope::Nothing || waits.source == WaitSource::Measured => {
            Some(false)
        }
        // The function is not documented to wait, so programs cannot rely on it.
        (WaitScope::Nothing, _) => Some(false).filter(|_| function.spec().is_asynchronous()),
        (_, WaitCondition::Always) => Some(true),
        // The function fills host memory, and shared memory is device memory.
        (_, WaitCondition::FillsHost) => Some(false),
        _ => None,
    }
}

impl OrderingCalls {
    /// Begins a gap: from this time on, calls are missing.
    pub fn note_gap_from(&mut self, from: u64) {
        if self.gaps.last().is_none_or(|(_, until)| *until != u64::MAX) {
            self.gaps.push((from, u64::MAX));
        }
    }

    /// Ends the gap: calls were missing up to this time.
    pub fn note_gap_end(&mut self, until: u64) {
        if let Some(gap) = self.gaps.last_mut().filter(|(_, end)| *end == u64::MAX && self.all.len() < MOST_CALLS) {
            gap.1 = until.max(gap.0);
        }
    }

    fn event_number(&mut self, call: &Call, argument: usize) -> Option<usize> {
        let next = self.events;
        let event = *self.names.holder_or_insert(Object::Event, call.argument_number(argument)?, || next);
        self.events += usize::from(event == next);
        Some(event)
    }

    /// Adds a call that succeeded, if its function ends mappings.
    pub fn add_unmapping(&mut self, function: FnId, call: &Call, made: impl FnOnce() -> CallSite) {
        let ends = function.spec().effects().iter().find_map(|effect| match effect {
            Effect::Ends(end) if end.object == Object::Mapping => Some((end.by, end.size?)),
            _ => None,
        });
        let numbers = ends.and_then(|(by, size)| Some((call.argument_number(by)?, call.argument_number(size)?)));
        if let Some((address, bytes)) = numbers.filter(|_| self.unmapped.len() < MOST_CALLS) {
            self.unmapped.push(UnmappingCall { address, bytes, call: made() });
        }
    }

    /// Adds a call that succeeded, with the times at which it began and returned. `uses` is the number of recorded uses before
    /// the call.
    pub fn add_call(&mut self, function: FnId, call: &Call, (before, after): (u64, u64), uses: usize) {
        let spec = function.spec();
        if !WAITS[function as usize].1 || is_captured(call) || uses_only_device_memory(call) {
            return;
        }
        for effect in spec.effects() {
            match *effect {
                Effect::Exports(Shared { object: Object::Event, by, handle, .. })
                | Effect::Opens(Shared { object: Object::Event, by, handle, .. }) => {
                    let (Some(event), Some(handle)) =
                        (self.event_number(call, by), values::handle_fingerprints(call, handle))
                    else {
                        continue;
                    };
                    self.event_handles.push((handle.0, event));
                }
                Effect::Ends(end) if end.object == Object::Event => {
                    let _ = call.argument_number(end.by).and_then(|handle| self.names.take(Object::Event, handle));
                }
                Effect::Awaits(signal) | Effect::Signals(signal) => {
                    self.value_addresses.extend(call.argument_number(signal.address).map(|address| (address, before)));
                }
                _ => {}
            }
        }
        if spec.freed_memory_argument().is_some() {
            let stream = spec.stream_argument().map(|_| self.streams.stream_of_call(function, call));
            self.freed.push(FreeingCall { function, at: before, stream });
        }
        let mut made = [None; 3];
        self.find_effects(function, call, uses > 0, &mut made);
        for orders in made.into_iter().flatten() {
            let is_again = |known: &OrderingCall| known.orders == orders && orders.is_of_own_work();
            if self.uses_before == uses && self.all.last().is_some_and(is_again) {
                continue;
            }
            self.uses_before = uses;
            if self.all.len() >= MOST_CALLS {
                return self.note_gap_from(before);
            }
            self.all.push(OrderingCall { before, after, orders });
        }
    }

    fn find_effects(&mut self, function: FnId, call: &Call, is_used: bool, made: &mut [Option<OrderEffect>; 3]) {
        let spec = function.spec();
        if let Some(work) = spec.completes() {
            let work = match work {
                Awaited::Stream(_) => Some(AwaitedWork::Stream(self.streams.stream_of_call(function, call))),
                Awaited::Event(by) => self.event_number(call, by).map(AwaitedWork::Event),
                Awaited::Context(_) | Awaited::Current => Some(AwaitedWork::Process(0)),
            };
            made[0] = work.map(|work| OrderEffect::Completes { work, perhaps: false });
        } else if let Some(by) = spec.records() {
            let event = self.event_number(call, by);
            let stream = self.streams.stream_of_call(function, call);
            made[0] = event.map(|event| OrderEffect::RecordsEvent { stream, event });
        } else if let Some(followed) = spec.follows() {
            let event = self.event_number(call, followed.event);
            let stream = self.streams.stream_of_call(function, call);
            made[0] = event.map(|event| OrderEffect::WaitsForEvent { stream, event });
        } else if spec.signals().is_some() || spec.posts().is_some() {
            made[0] = Some(OrderEffect::Tells { stream: self.streams.stream_of_call(function, call), is_meant: true });
        } else if may_signal_progress(function) && graph_flags(call) != Some(0) {
            let is_meant = spec.runs().is_some();
            made[0] = Some(OrderEffect::Tells { stream: self.streams.stream_of_call(function, call), is_meant });
        } else if let Some(waits) = work_awaited_by(function).filter(|_| is_used) {
            let is_sure = matches!(waits.when, WaitCondition::Always | WaitCondition::NotPooled | WaitCondition::Last);
            let mut complete = |scope, perhaps| {
                self.work_of_scope(scope, function, call).map(|work| OrderEffect::Completes { work, perhaps })
            };
            *made = [complete(waits.scope, !is_sure), None, None];
            if waits.perhaps != waits.scope {
                made[1] = complete(waits.perhaps, true);
            }
            if waits.scope == WaitScope::Thread {
                made[2] = complete(WaitScope::Default, !is_sure);
            }
        }
    }

    /// Returns the work that a scope of a call means.
    fn work_of_scope(&mut self, scope: WaitScope, function: FnId, call: &Call) -> Option<AwaitedWork> {
        Some(match scope {
            WaitScope::Nothing | WaitScope::Event => return None,
            WaitScope::Stream | WaitScope::Thread => AwaitedWork::Stream(self.streams.stream_of_call(function, call)),
            WaitScope::Default => AwaitedWork::Stream(self.streams.legacy_stream()),
            WaitScope::Context | WaitScope::Process => AwaitedWork::Process(0),
        })
    }
}

impl OrderEffect {
    /// Returns true if the effect concerns only work of the same process, so an immediate repetition of it adds nothing.
    fn is_of_own_work(self) -> bool {
        matches!(self, OrderEffect::Completes { work: AwaitedWork::Stream(_) | AwaitedWork::Process(_), .. })
    }

    /// Returns the effect with the numbers of streams, events, and the process replaced.
    pub fn renumber(
        self,
        stream: impl Fn(usize) -> usize,
        event: impl Fn(usize) -> usize,
        process: usize,
    ) -> OrderEffect {
        match self {
            OrderEffect::RecordsEvent { stream: its, event: of } => {
                OrderEffect::RecordsEvent { stream: stream(its), event: event(of) }
            }
            OrderEffect::WaitsForEvent { stream: its, event: of } => {
                OrderEffect::WaitsForEvent { stream: stream(its), event: event(of) }
            }
            OrderEffect::Tells { stream: its, is_meant } => OrderEffect::Tells { stream: stream(its), is_meant },
            OrderEffect::Completes { work, perhaps } => {
                let work = match work {
                    AwaitedWork::Stream(its) => AwaitedWork::Stream(stream(its)),
                    AwaitedWork::Event(of) => AwaitedWork::Event(event(of)),
                    AwaitedWork::Process(_) => AwaitedWork::Process(process),
                };
                OrderEffect::Completes { work, perhaps }
            }
        }
    }
}
