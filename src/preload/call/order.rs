//! Uses of shared memory, and the calls that order these uses: decides before a call whether it is noted, and notes it once it
//! succeeded.
//!
//! For most calls the decision takes a load or two. A call changes the state in [`job::order`](crate::job::order) only after it
//! returned.

use super::{Arguments, Function, caller_behind_patch, ranges};
use crate::driver::{contexts, kernels, parameters, queries, streams};
use crate::fault::forward::ArgumentWords;
use crate::job::nodes::{self, GraphMemoryUses};
use crate::job::{order, uses};
use crate::recorder::{self, CallRecord, NotedUse, clock};
use crate::settings;
use crate::sys::arch::thread;
use crate::sys::guard::guarded;
use cupeer_model::Call;
use cupeer_spec::effect::{Batch, Effect, End, Followed, Launched, Object, Signal, Work};
use cupeer_spec::function::{FUNCTION_COUNT, FUNCTIONS, FnId, FnSpec};
use cupeer_spec::record::slot;

/// Role of a function in the order of work on streams.
#[derive(Clone, Copy)]
pub(super) enum Role {
    Nothing,
    /// Function that reads or writes device memory.
    Uses,
    /// Function that launches a kernel, or the kernels of a graph.
    Launches,
    /// Function that returns once some work is complete, or shows whether it is.
    Completes(Work),
    /// Function that records the event in the argument with this index.
    Records(usize),
    /// Function that makes a stream wait for an event.
    Follows(Followed),
    /// Function that destroys the stream in the argument with this index.
    Drops(usize),
    /// Function that waits for a value at the address in the argument with this index, or writes a value there.
    Signals(usize),
    /// Function that puts other work on a stream.
    Enqueues,
    /// Function that destroys the event in the argument with this index.
    Ends(usize),
    /// Function that frees memory, and may wait for work.
    Frees,
}

impl Role {
    pub(super) const fn of(function: &FnSpec) -> Role {
        let mut index = 0;
        while index < function.effects().len() {
            match function.effects()[index] {
                Effect::Copies(_) | Effect::Uses(_) | Effect::UsesEach(_) => return Role::Uses,
                Effect::Launches(_) | Effect::Replays(_) => return Role::Launches,
                Effect::Completes(work) => return Role::Completes(work),
                Effect::Records(event) => return Role::Records(event),
                Effect::Follows(followed) => return Role::Follows(followed),
                Effect::Drops(stream) => return Role::Drops(stream),
                Effect::Awaits(Signal { address, .. }) | Effect::Signals(Signal { address, .. }) => {
                    return Role::Signals(address);
                }
                Effect::Posts(_) | Effect::Runs(_) => return Role::Enqueues,
                Effect::Ends(End { object: Object::Event, by, .. }) => return Role::Ends(by),
                Effect::Ends(End { object: Object::Pointer, .. }) if !function.is_asynchronous() => {
                    return Role::Frees;
                }
                _ => index += 1,
            }
        }
        Role::Nothing
    }
}

/// Properties of a function that follow from the table, computed when the library is built.
#[derive(Clone, Copy)]
struct OrderTraits {
    role: Role,
    /// Index of the argument that names the stream.
    stream: Option<u8>,
    /// True if stream 0 is the default stream of the thread.
    is_per_thread: bool,
    /// Index of the argument that names the graph which the function launches.
    replays: Option<u8>,
    /// True if the function copies to or from the host before it returns.
    waits: bool,
    writes_to_host_later: bool,
    /// True if addresses in the arguments may be in host memory.
    may_be_of_host: bool,
    /// True if the arguments do not name all of the memory that the function uses.
    has_more: bool,
    /// True if the function only gives work to a stream. Earlier calls show what precedes the work, and later calls show what
    /// follows it, so the time at which the function returns does not matter.
    only_enqueues: bool,
    /// Indexes of the arguments with the start of each range of memory that the function uses.
    touches: [Option<u8>; 2],
}

impl OrderTraits {
    const fn of(function: &FnSpec) -> OrderTraits {
        const fn narrow(argument: Option<usize>) -> Option<u8> {
            match argument {
                Some(argument) => Some(argument as u8),
                None => None,
            }
        }
        let role = Role::of(function);
        let writes_to_host_later = function.writes_to_host_later();
        let may_be_of_host = writes_to_host_later && function.only_used_range().is_none();
        let [first, second] = function.start_arguments();
        OrderTraits {
            role,
            stream: narrow(function.stream_argument()),
            is_per_thread: function.is_per_thread(),
            replays: match function.effects() {
                [Effect::Replays(exec)] => Some(*exec as u8),
                _ => None,
            },
            waits: function.host_copy().is_some(),
            writes_to_host_later,
            may_be_of_host,
            has_more: may_be_of_host || function.only_batch_copy().is_some(),
            only_enqueues: match role {
                Role::Uses => function.is_asynchronous(),
                Role::Launches => true,
                _ => false,
            },
            touches: [narrow(first), narrow(second)],
        }
    }
}

static TRAITS: [OrderTraits; FUNCTION_COUNT] = {
    let mut all = [OrderTraits::of(&FUNCTIONS[0]); FUNCTION_COUNT];
    let mut index = 1;
    while index < FUNCTION_COUNT {
        all[index] = OrderTraits::of(&FUNCTIONS[index]);
        index += 1;
    }
    all
};

/// Handle of the default stream of the thread: `CU_STREAM_PER_THREAD`.
const PER_THREAD: u64 = 2;
/// Bit in the result of [`start_if_noted`]: the call itself uses shared memory. No time on the clock reaches this bit.
const USES: u64 = 1 << 63;

/// Stream to which a call gives work, or for which it waits.
pub(super) enum Stream {
    /// Stream that the program created, by its handle.
    Named(u64),
    /// Default stream that all threads of a context share.
    Common,
    /// Default stream of the calling thread.
    Own,
}

impl Stream {
    #[inline]
    pub(super) fn of(id: FnId, words: &ArgumentWords) -> Stream {
        let traits = &TRAITS[id as usize];
        let handle = match traits.stream {
            Some(by) => words[by as usize],
            None if matches!(traits.role, Role::Launches) => stream_of_launch(words[0]),
            None => 0,
        };
        Stream::with_handle(id, handle)
    }

    fn with_handle(id: FnId, handle: u64) -> Stream {
        match (handle, TRAITS[id as usize].is_per_thread) {
            (0, false) | (1, _) => Stream::Common,
            (0, true) | (2, _) => Stream::Own,
            (handle, _) => Stream::Named(handle),
        }
    }

    pub(super) fn unique_name(&self, context: u64) -> u64 {
        match *self {
            Stream::Named(handle) => handle,
            Stream::Common => order::default_stream(context, None),
            Stream::Own => order::default_stream(context, Some(thread().addr())),
        }
    }

    /// Returns true if the stream has pending work. The default stream that all threads share may wait for all others, so it has
    /// pending work if any stream has.
    fn is_pending(&self) -> bool {
        match *self {
            Stream::Named(handle) => order::is_pending(handle),
            Stream::Common => order::is_any_pending(),
            Stream::Own => order::has_any() && order::is_pending(self.unique_name(queries::context())),
        }
    }
}

/// Returns true if a call may have to be noted in the recording. Costs a few loads.
#[inline(always)]
pub fn may_need_note<F: Function>(arguments: &F) -> bool {
    let is_pending = |stream: u64| stream <= PER_THREAD || order::is_pending(stream);
    match const { Role::of(&FUNCTIONS[F::ID as usize]) } {
        Role::Nothing | Role::Ends(_) => false,
        Role::Uses => {
            let waits = const { FUNCTIONS[F::ID as usize].host_copy().is_some() };
            let tells = const {
                let function = &FUNCTIONS[F::ID as usize];
                if function.writes_to_host_later() { function.stream_argument() } else { None }
            };
            let [first, second] = const { FUNCTIONS[F::ID as usize].start_arguments() };
            let touches = |by: usize| uses::may_any_be_shared(arguments.word(by), second.map(|by| arguments.word(by)));
            let has_rows = |(by, bytes): (usize, usize)| ranges::may_rows_be_shared(arguments.word(by), bytes);
            let has_copies = |batch: Batch| {
                let [to, from, _, count] = batch.arguments().map(|by| arguments.word(by));
                ranges::batch_may_be_shared(batch, to, from, count)
            };
            let is_alone = !waits && tells.is_none();
            !is_alone && order::has_any() && (waits || tells.is_some_and(|by| is_pending(arguments.word(by))))
                || first.is_some_and(touches)
                || uses::has_any()
                    && (const { FUNCTIONS[F::ID as usize].rows_structure() }.is_some_and(has_rows)
                        || const { FUNCTIONS[F::ID as usize].only_batch_copy() }.is_some_and(has_copies))
        }
        Role::Completes(Work::Stream(by)) => order::has_any() && is_pending(arguments.word(by)),
        Role::Completes(Work::Event(by)) | Role::Follows(Followed { event: by, .. }) => {
            order::has_events() && order::is_event_pending(arguments.word(by))
        }
        Role::Launches => {
            let (stream, launched) = const {
                let function = &FUNCTIONS[F::ID as usize];
                (function.stream_argument(), function.launches())
            };
            let stream = || stream.map_or_else(|| stream_of_launch(arguments.word(0)), |by| arguments.word(by));
            let passes = |Launched { function, parameters, extra }: Launched| {
                let extra = extra.map_or(0, |extra| arguments.word(extra));
                passes_shared_memory(arguments.word(function), arguments.word(parameters), extra)
            };
            order::has_any() && has_work_without_launch(stream())
                || kernels::has_any() && uses::has_any() && launched.is_some_and(passes)
        }
        Role::Signals(_) | Role::Enqueues => uses::has_any() || order::has_any(),
        Role::Frees => order::has_any(),
        Role::Completes(_) | Role::Records(_) | Role::Drops(_) => order::has_any() || order::has_events(),
    }
}

/// Returns the handle of the stream in a `CUlaunchConfig`; 0 if `config` is null.
fn stream_of_launch(config: u64) -> u64 {
    if config == 0 {
        return 0;
    }
    // SAFETY: cuda.h demands that such a structure is there; the driver reads it as well.
    unsafe { ((config + 32) as *const u64).read_unaligned() }
}

/// Returns true if a stream may have pending work that no recorded launch follows yet.
fn has_work_without_launch(stream: u64) -> bool {
    if stream <= PER_THREAD { order::is_any_pending() } else { order::is_launch_to_record(stream) }
}

/// Forgets the event that a call is about to end, because the driver may give the same handle to another event.
#[inline(always)]
pub fn forget_ended_event<F: Function>(arguments: &F) {
    if let Role::Ends(by) = const { Role::of(&FUNCTIONS[F::ID as usize]) }
        && order::has_events()
    {
        order::note_event_ends(arguments.word(by));
    }
}

/// Returns the same time as [`start_if_noted`], for a call for which [`may_need_note`] returned true. Decides at once
/// if one or two arguments suffice.
#[inline(always)]
pub fn quick_start_if_noted<F: Function>(passed: &F) -> u64 {
    let (role, touches, is_alone) = const {
        let function = &FUNCTIONS[F::ID as usize];
        let is_alone = function.host_copy().is_none() && !function.writes_to_host_later();
        (Role::of(function), function.start_arguments(), is_alone)
    };
    let (is_meant, bits) = match (role, touches) {
        (Role::Uses, [Some(first), second]) if is_alone => {
            let mut ranges = [Some(first), second].into_iter().flatten();
            (is_noting_calls_of(F::ID) && ranges.any(|by| uses::is_shared(passed.word(by))), USES)
        }
        (Role::Completes(Work::Stream(by)), _) if passed.word(by) > PER_THREAD => {
            (is_noting_calls_of(F::ID) && order::is_pending(passed.word(by)), 0)
        }
        (Role::Records(by), _) if (PER_THREAD + 1..UNREAD).contains(&stream_argument(passed)) => {
            let is_pending = || order::is_pending(stream_argument(passed)) || order::is_event_pending(passed.word(by));
            (is_noting_calls_of(F::ID) && is_pending(), 0)
        }
        _ => return start_if_noted(F::ID, passed),
    };
    if is_meant { clock::now() | bits } else { 0 }
}

/// Returns true if calls of a function are noted at present.
#[inline(always)]
fn is_noting_calls_of(id: FnId) -> bool {
    settings::get().is_recorded(id) && recorder::is_noting()
}

/// Returns the time at which a call that must be noted begins, on the clock of the record, perhaps with the bit [`USES`]; 0 if
/// the call need not be noted.
#[cold]
#[inline(never)]
pub fn start_if_noted(id: FnId, arguments: &dyn Arguments) -> u64 {
    let is_idle = !uses::has_any() && !order::has_any() && !order::has_events();
    if is_idle || !is_noting_calls_of(id) {
        return 0;
    }
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    let stream = || Stream::of(id, &words);
    let traits = &TRAITS[id as usize];
    let is_use = match (traits.role, traits.replays) {
        (Role::Uses, _) => uses_shared_memory(id, &words, arguments),
        (Role::Launches, Some(exec)) => nodes::does_graph_use_shared(words[exec as usize]),
        (Role::Launches, None) => id.spec().launches().is_some_and(|Launched { function, parameters, extra }| {
            passes_shared_memory(words[function], words[parameters], extra.map_or(0, |extra| words[extra]))
        }),
        (Role::Signals(address), _) => uses::is_shared(words[address]),
        _ => false,
    };
    let is_meant = is_use
        || match traits.role {
            Role::Nothing | Role::Ends(_) => false,
            Role::Uses => {
                traits.waits && order::is_any_pending() || traits.writes_to_host_later && stream().is_pending()
            }
            Role::Launches => order::has_any() && order::is_launch_to_record(stream().unique_name(queries::context())),
            Role::Completes(Work::Stream(_)) | Role::Enqueues | Role::Signals(_) => stream().is_pending(),
            Role::Completes(Work::Event(event)) | Role::Follows(Followed { event, .. }) => {
                order::is_event_pending(words[event])
            }
            Role::Completes(_) | Role::Frees => order::is_any_pending(),
            Role::Records(event) => order::is_event_pending(words[event]) || stream().is_pending(),
            Role::Drops(stream) => order::is_pending(words[stream]),
        };
    if is_meant { clock::now() | if is_use { USES } else { 0 } } else { 0 }
}

/// Returns true if a copy or a memset uses shared memory.
pub(super) fn uses_shared_memory(id: FnId, words: &ArgumentWords, arguments: &dyn Arguments) -> bool {
    let touches = TRAITS[id as usize].touches;
    if touches[0].is_some() {
        return touches.iter().flatten().any(|by| uses::is_shared(words[*by as usize]));
    }
    if !uses::has_any() {
        return false;
    }
    if let Some((by, bytes)) = id.spec().rows_structure() {
        return ranges::row_starts(words[by], bytes).into_iter().any(uses::is_shared);
    }
    if id.spec().batch().is_some() {
        let mut is_shared = false;
        ranges::each_range_of_batch(id, words, &mut |range| is_shared |= uses::is_shared(range.start));
        return is_shared;
    }
    let args = CallRecord::new(id, arguments).arguments(false).bytes;
    let call = Call { function: id, result: 0, args: &args, shape: 0, elements: &[] };
    call.used_ranges().any(|(_, start, _)| uses::is_shared(start))
}

/// Returns true if a parameter of a launched kernel is an address of shared memory. Parameters are passed by `parameters` or by
/// `extra`; the other is null.
#[inline(never)]
fn passes_shared_memory(kernel: u64, parameters: u64, extra: u64) -> bool {
    let Some(known) = kernels::parameters(kernel).filter(|_| uses::has_any()) else { return false };
    let mut is_shared = false;
    parameters::each_word_of_parameters(known, parameters as _, extra as _, |_, word| {
        is_shared |= uses::is_shared(word)
    });
    is_shared
}

/// Records a call that succeeded, and updates the order of work. The call began at the time `since`, which the
/// function [`start_if_noted`] returned. `record` is the record of the call, if it has one already.
pub fn note_call(id: FnId, caller: usize, arguments: &dyn Arguments, since: u64, record: Option<&CallRecord>) {
    note_call_on_stream(id, caller, arguments, since, UNREAD, record);
}

/// Placeholder for the handle of a stream that must be read from the arguments.
pub const UNREAD: u64 = u64::MAX;

/// Returns the handle of the stream in an argument of a call; [`UNREAD`] if no argument is the handle.
#[inline(always)]
pub fn stream_argument<F: Function>(passed: &F) -> u64 {
    const { FUNCTIONS[F::ID as usize].stream_argument() }.map_or(UNREAD, |by| passed.word(by))
}

/// Records a call as [`note_call`] does. `stream` is the handle of the stream, or [`UNREAD`].
#[cold]
#[inline(never)]
pub fn note_call_on_stream(
    id: FnId,
    caller: usize,
    arguments: &dyn Arguments,
    since: u64,
    stream: u64,
    record: Option<&CallRecord>,
) {
    let traits = &TRAITS[id as usize];
    let (is_use, since) = (since & USES != 0, since & !USES);
    let end = if traits.only_enqueues { since } else { clock::now() };
    let caller = caller_behind_patch(id, caller);
    let note = || {
        let mut words = ArgumentWords::default();
        let needs_words = !matches!(traits.role, Role::Uses | Role::Completes(Work::Stream(_)));
        let stream = if needs_words || stream == UNREAD {
            arguments.words(&mut words);
            Stream::of(id, &words)
        } else {
            Stream::with_handle(id, stream)
        };
        let call = CallToNote { id, caller, arguments, words, stream, is_use, since, end };
        call.record_and_update(record);
    };
    // A thread that has a stream of the record reaches no cancellation point here, so it needs no guard.
    if recorder::has_joined_record() { note() } else { guarded(note) }
}

/// Call that succeeded and must be noted.
struct CallToNote<'a> {
    id: FnId,
    caller: usize,
    arguments: &'a dyn Arguments,
    /// Words of the arguments; zeros for a function of which only the stream matters.
    words: ArgumentWords,
    stream: Stream,
    /// True if the call uses shared memory.
    is_use: bool,
    /// Time at which the call began, on the clock of the record.
    since: u64,
    /// Time at which the call returned, on the clock of the record; `since` for a function that only enqueues.
    end: u64,
}

impl CallToNote<'_> {
    fn traits(&self) -> &'static OrderTraits {
        &TRAITS[self.id as usize]
    }

    /// Puts the call into the record, and updates the order of work. If there is no room, pauses the recording of such calls.
    #[inline(never)]
    fn record_and_update(&self, record: Option<&CallRecord>) {
        let &Self { id, caller, arguments, is_use, since, end, .. } = self;
        let traits = self.traits();
        let mut used = NotedUse::new();
        if record.is_none() {
            used.store_arguments(arguments, true);
        }
        let context = queries::context();
        let nodes =
            traits.replays.filter(|_| is_use).and_then(|by| GraphMemoryUses::read_graph(self.words[by as usize]));
        let tells = nodes.as_ref().is_none_or(|nodes| !nodes.has_no_flags());
        let is_whole = self.update_order(context, tells);
        let current = pack_context_and_flags(id, arguments, context, &self.stream, (end, nodes.is_some()));
        let number = match record {
            Some(record) => Some(record.add_current_context(current)),
            None => used.append(id, caller, (since, end), current),
        };
        if let (Some(nodes), Some(number)) = (nodes, number) {
            nodes.with_bytes(|bytes| recorder::append_item_to_call(number, slot::detail::NODES, bytes));
        }
        let batch = number.filter(|_| is_use && traits.has_more && id.spec().batch().is_some());
        let is_noted = batch.is_none_or(|number| ranges::record_batch_ranges(id, number, arguments));
        if !is_whole || !is_noted {
            recorder::pause();
        }
    }

    /// Updates the state of streams and events. Returns false if there is no room for the new state. `tells` is false for a graph
    /// whose work neither waits for other work nor announces its own end.
    fn update_order(&self, context: u64, tells: bool) -> bool {
        let &Self { ref words, ref stream, is_use, since, end, .. } = self;
        let name = stream.unique_name(context);
        let traits = self.traits();
        match traits.role {
            // A copy to or from the host that is over when the call returns leaves nothing to wait for.
            Role::Uses if is_use && !traits.waits => return order::note_used(name, context, end).is_some(),
            Role::Launches => {
                let is_kept = !is_use || order::note_used(name, context, end).is_some();
                if tells {
                    order::note_launched(name, end);
                }
                return is_kept;
            }
            Role::Completes(Work::Stream(_)) => {
                order::note_stream_done(name, since);
            }
            Role::Completes(Work::Event(event)) => order::note_event_done(words[event]),
            Role::Completes(Work::Context(by)) if words[by] != 0 => order::note_all_done(words[by], since),
            Role::Completes(_) => order::note_all_done(context, since),
            Role::Records(event) => {
                return order::note_recorded(words[event], name, stream.is_pending(), since);
            }
            Role::Follows(_) => return order::note_used(name, context, end).is_some(),
            Role::Signals(_) if is_use => return order::note_used(name, context, end).is_some(),
            Role::Drops(by) => order::forget_stream(words[by]),
            _ => {}
        }
        true
    }
}

/// Returns the current context and device in the form of the record, with three bits: the call's stream does not wait for the
/// legacy default stream (`NON_BLOCKING`); the stream is captured (`CAPTURED`); a copy that could use host memory uses only
/// device memory (`OF_DEVICES`).
pub(super) fn pack_context_and_flags(
    id: FnId,
    arguments: &dyn Arguments,
    context: u64,
    stream: &Stream,
    (now, has_nodes): (u64, bool),
) -> u64 {
    let traits = &TRAITS[id as usize];
    let role = traits.role;
    // A stream that ended cannot be queried. A launch may have failed its context, and the driver would log the query.
    let is_queried = has_nodes || !matches!(role, Role::Drops(_) | Role::Launches);
    let is_captured = match *stream {
        _ if !is_queried || matches!(role, Role::Completes(_)) => false,
        Stream::Named(handle) => streams::is_captured(handle),
        Stream::Own => streams::is_captured(PER_THREAD),
        Stream::Common => false,
    };
    // Any other query about a captured stream makes the driver end the capture.
    let is_apart = match *stream {
        Stream::Named(handle) if is_queried && !is_captured => {
            order::flags(order::find_stream(handle), || streams::flags(handle)) & 1 != 0
        }
        _ => false,
    };
    let is_of_devices = traits.may_be_of_host && !is_captured && ranges::uses_only_device_memory(id, arguments);
    contexts::context_and_device(context, now, queries::device_of_current_context)
        | (u64::from(is_apart) * slot::detail::NON_BLOCKING)
        | (u64::from(is_captured) * slot::detail::CAPTURED)
        | (u64::from(is_of_devices) * slot::detail::OF_DEVICES)
}
