//! Calls that use shared memory, and those that order such uses: what is noted of them, once they have succeeded.
//!
//! Before a call is forwarded, it is decided whether it concerns anybody, which for most is a load or two. What it changes in
//! [`job::order`](crate::job::order) it changes when it has returned.

use super::{Arguments, Function, behind_patch, ranges};
use crate::driver::{contexts, kernels, parameters, questions, streams};
use crate::fault::forward::ArgumentWords;
use crate::job::nodes::{self, Nodes};
use crate::job::{order, uses};
use crate::recorder::{self, Recorded, Use, clock};
use crate::settings;
use crate::sys::arch::thread;
use crate::sys::guard::guarded;
use cupeer_model::Call;
use cupeer_spec::effect::{Batch, Effect, End, Followed, Launched, Object, Signal, Work};
use cupeer_spec::function::{FUNCTION_COUNT, FUNCTIONS, FnId, FnSpec};
use cupeer_spec::record::slot;

/// What a function has to do with order.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Nothing,
    /// It reads or writes device memory.
    Uses,
    /// It launches kernels: one of them, or those of a graph.
    Launches,
    Completes(Work),
    Records(usize),
    Follows(Followed),
    Drops(usize),
    /// It waits for a value at an address, or writes one.
    Signals(usize),
    /// It does other things in the order of a stream.
    Enqueues,
    /// It ends an event.
    Ends(usize),
    /// It frees memory, and may wait for work.
    Frees,
}

pub(super) const fn part_of(function: &FnSpec) -> Part {
    let mut index = 0;
    while index < function.effects().len() {
        match function.effects()[index] {
            Effect::Copies(_) | Effect::Uses(_) | Effect::UsesEach(_) => return Part::Uses,
            Effect::Launches(_) | Effect::Replays(_) => return Part::Launches,
            Effect::Completes(work) => return Part::Completes(work),
            Effect::Records(event) => return Part::Records(event),
            Effect::Follows(followed) => return Part::Follows(followed),
            Effect::Drops(stream) => return Part::Drops(stream),
            Effect::Awaits(Signal { address, .. }) | Effect::Signals(Signal { address, .. }) => {
                return Part::Signals(address);
            }
            Effect::Posts(_) | Effect::Runs(_) => return Part::Enqueues,
            Effect::Ends(End { object: Object::Event, by, .. }) => return Part::Ends(by),
            Effect::Ends(End { object: Object::Pointer, .. }) if !function.is_asynchronous() => {
                return Part::Frees;
            }
            _ => index += 1,
        }
    }
    Part::Nothing
}

/// What the table says of a function, found out before it is called.
#[derive(Clone, Copy)]
struct Known {
    part: Part,
    /// The argument that names the stream; [`NONE`] if there is none.
    stream: u8,
    is_per_thread: bool,
    /// The argument that names the graph that it launches; [`NONE`] if there is none.
    replays: u8,
    /// It copies to or from the host before it returns.
    waits: bool,
    writes_to_host_later: bool,
    /// It may use memory of the host, by its addresses.
    may_be_of_host: bool,
    /// What it uses is not all in its arguments.
    has_more: bool,
    /// It only gives work to a stream. What comes before that work came before the call, and what the work comes before is told by
    /// later calls: so it is not noted when the call returns.
    only_enqueues: bool,
    /// The arguments that say where the ranges that it uses begin; [`NONE`] behind the last one.
    touches: [u8; 2],
}

const NONE: u8 = u8::MAX;

static KNOWN: [Known; FUNCTION_COUNT] = {
    let nothing = Known {
        part: Part::Nothing,
        stream: NONE,
        is_per_thread: false,
        replays: NONE,
        waits: false,
        writes_to_host_later: false,
        may_be_of_host: false,
        has_more: false,
        only_enqueues: false,
        touches: [NONE; 2],
    };
    let mut all = [nothing; FUNCTION_COUNT];
    let mut index = 0;
    while index < FUNCTION_COUNT {
        let (known, function) = (&mut all[index], &FUNCTIONS[index]);
        known.part = part_of(function);
        if let Some(stream) = function.stream() {
            known.stream = stream as u8;
        }
        known.is_per_thread = function.is_per_thread();
        if let [Effect::Replays(exec)] = function.effects() {
            known.replays = *exec as u8;
        }
        (known.waits, known.writes_to_host_later) =
            (function.host_copy().is_some(), function.writes_to_host_later());
        known.may_be_of_host = known.writes_to_host_later && function.uses_one_range().is_none();
        known.has_more = known.may_be_of_host || function.copies_each().is_some();
        known.only_enqueues = match known.part {
            Part::Uses => function.is_asynchronous(),
            Part::Launches => true,
            _ => false,
        };
        let touches = function.begins();
        if let Some(by) = touches[0] {
            known.touches[0] = by as u8;
        }
        if let Some(by) = touches[1] {
            known.touches[1] = by as u8;
        }
        index += 1;
    }
    all
};

/// CU_STREAM_PER_THREAD.
const PER_THREAD: u64 = 2;
/// In what [`since`] returns: the call uses shared memory itself. No clock goes so far.
const USES: u64 = 1 << 63;

/// The stream that a call is about.
pub(super) enum Stream {
    /// By its handle.
    Named(u64),
    /// The default stream that all threads of a context have in common.
    Common,
    /// The thread's own one.
    Own,
}

impl Stream {
    #[inline]
    pub(super) fn of(id: FnId, words: &ArgumentWords) -> Stream {
        let known = &KNOWN[id as usize];
        let handle = match known.stream {
            NONE if matches!(known.part, Part::Launches) => stream_of_launch(words[0]),
            NONE => 0,
            by => words[by as usize],
        };
        Stream::called(id, handle)
    }

    fn called(id: FnId, handle: u64) -> Stream {
        match (handle, KNOWN[id as usize].is_per_thread) {
            (0, false) | (1, _) => Stream::Common,
            (0, true) | (2, _) => Stream::Own,
            (handle, _) => Stream::Named(handle),
        }
    }

    pub(super) fn name(&self, context: u64) -> u64 {
        match *self {
            Stream::Named(handle) => handle,
            Stream::Common => order::default_stream(context, None),
            Stream::Own => order::default_stream(context, Some(thread().addr())),
        }
    }

    /// Whether it has work pending. The default stream of all threads may wait for all others.
    fn is_pending(&self) -> bool {
        match *self {
            Stream::Named(handle) => order::is_pending(handle),
            Stream::Common => order::is_any_pending(),
            Stream::Own => order::has_any() && order::is_pending(self.name(questions::context())),
        }
    }
}

/// Whether a call may concern anybody. A few loads.
#[inline(always)]
pub fn may_concern<F: Function>(arguments: &F) -> bool {
    match const { part_of(&FUNCTIONS[F::ID as usize]) } {
        Part::Nothing | Part::Ends(_) => false,
        Part::Uses => {
            let waits = const { FUNCTIONS[F::ID as usize].host_copy().is_some() };
            let tells = const {
                let function = &FUNCTIONS[F::ID as usize];
                if function.writes_to_host_later() { function.stream() } else { None }
            };
            let is_pending = |stream: u64| stream <= 2 || order::is_pending(stream);
            let [first, second] = const { FUNCTIONS[F::ID as usize].begins() };
            let touches =
                |by: usize| uses::may_any_be_shared(arguments.word(by), second.map(|by| arguments.word(by)));
            let has_rows = |(by, bytes): (usize, usize)| ranges::may_be_shared(arguments.word(by), bytes);
            let has_copies = |batch: Batch| {
                let [to, from, _, count] = batch.arguments().map(|by| arguments.word(by));
                ranges::batch_may_be_shared(batch, to, from, count)
            };
            let is_alone = !waits && tells.is_none();
            !is_alone && order::has_any() && (waits || tells.is_some_and(|by| is_pending(arguments.word(by))))
                || first.is_some_and(touches)
                || uses::has_any()
                    && (const { FUNCTIONS[F::ID as usize].rows() }.is_some_and(has_rows)
                        || const { FUNCTIONS[F::ID as usize].copies_each() }.is_some_and(has_copies))
        }
        Part::Completes(Work::Stream(by)) => {
            let stream = arguments.word(by);
            order::has_any() && (stream <= 2 || order::is_pending(stream))
        }
        Part::Completes(Work::Event(by)) | Part::Follows(Followed { event: by, .. }) => {
            order::has_events() && order::is_event_pending(arguments.word(by))
        }
        Part::Launches => {
            let (stream, launched) = const {
                let function = &FUNCTIONS[F::ID as usize];
                (function.stream(), function.launches())
            };
            let stream =
                || stream.map_or_else(|| stream_of_launch(arguments.word(0)), |by| arguments.word(by));
            let passes = |Launched { function, parameters, extra }: Launched| {
                let extra = extra.map_or(0, |extra| arguments.word(extra));
                passes_shared(arguments.word(function), arguments.word(parameters), extra)
            };
            order::has_any() && is_to_launch(stream())
                || kernels::has_any() && uses::has_any() && launched.is_some_and(passes)
        }
        Part::Signals(_) | Part::Enqueues => uses::has_any() || order::has_any(),
        Part::Frees => order::has_any(),
        Part::Completes(_) | Part::Records(_) | Part::Drops(_) => order::has_any() || order::has_events(),
    }
}

/// The stream that a `CUlaunchConfig` names.
fn stream_of_launch(config: u64) -> u64 {
    if config == 0 {
        return 0;
    }
    // SAFETY: as cuda.h says of launches, such a structure lies there; the driver reads it as well.
    unsafe { ((config + 32) as *const u64).read_unaligned() }
}

/// Whether a stream may have work pending behind which no launch is recorded yet.
fn is_to_launch(stream: u64) -> bool {
    if stream <= PER_THREAD { order::is_any_pending() } else { order::is_to_launch(stream) }
}

/// Forgets the event that a call ends: the driver may give its handle to another one.
#[inline(always)]
pub fn forget<F: Function>(arguments: &F) {
    if let Part::Ends(by) = const { part_of(&FUNCTIONS[F::ID as usize]) }
        && order::has_events()
    {
        order::event_ends(arguments.word(by));
    }
}

/// As [`since`], for a call that [`may_concern`] somebody: at once if one or two arguments tell all.
#[inline(always)]
pub fn begins<F: Function>(passed: &F) -> u64 {
    let (part, touches, is_alone) = const {
        let function = &FUNCTIONS[F::ID as usize];
        let is_alone = function.host_copy().is_none() && !function.writes_to_host_later();
        (part_of(function), function.begins(), is_alone)
    };
    match (part, touches) {
        (Part::Uses, [Some(first), second]) if is_alone => {
            let first = passed.word(first);
            since_touched(F::ID, first, second.map_or(first, |second| passed.word(second)))
        }
        (Part::Completes(Work::Stream(by)), _) if passed.word(by) > PER_THREAD => {
            since_pending(F::ID, passed.word(by))
        }
        (Part::Records(by), _) if (PER_THREAD + 1..UNREAD).contains(&stream_of(passed)) => {
            since_recorded(F::ID, passed.word(by), stream_of(passed))
        }
        _ => since(F::ID, passed),
    }
}

#[cold]
#[inline(never)]
fn since_touched(id: FnId, first: u64, second: u64) -> u64 {
    let is_use = is_noting(id) && (uses::is_shared(first) || uses::is_shared(second));
    if is_use { clock::now() | USES } else { 0 }
}

#[cold]
#[inline(never)]
fn since_pending(id: FnId, stream: u64) -> u64 {
    if is_noting(id) && order::is_pending(stream) { clock::now() } else { 0 }
}

#[cold]
#[inline(never)]
fn since_recorded(id: FnId, event: u64, stream: u64) -> u64 {
    let is_meant = is_noting(id) && (order::is_pending(stream) || order::is_event_pending(event));
    if is_meant { clock::now() } else { 0 }
}

/// Whether calls of a function are noted now.
#[inline(always)]
fn is_noting(id: FnId) -> bool {
    settings::get().is_recorded(id) && recorder::is_noting()
}

/// When a call begins that is to be noted, on the clock of the record, perhaps with [`USES`]; 0 if it is not.
#[cold]
#[inline(never)]
pub fn since(id: FnId, arguments: &dyn Arguments) -> u64 {
    let is_idle = !uses::has_any() && !order::has_any() && !order::has_events();
    if is_idle || !is_noting(id) {
        return 0;
    }
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    let stream = || Stream::of(id, &words);
    let known = &KNOWN[id as usize];
    let part = known.part;
    let is_use = match part {
        Part::Uses => uses_shared(id, &words, arguments),
        Part::Launches if known.replays != NONE => nodes::use_shared(words[known.replays as usize]),
        Part::Launches => id.spec().launches().is_some_and(|Launched { function, parameters, extra }| {
            passes_shared(words[function], words[parameters], extra.map_or(0, |extra| words[extra]))
        }),
        Part::Signals(address) => uses::is_shared(words[address]),
        _ => false,
    };
    let is_meant = is_use
        || match part {
            Part::Nothing | Part::Ends(_) => false,
            Part::Uses => {
                known.waits && order::is_any_pending() || known.writes_to_host_later && stream().is_pending()
            }
            Part::Launches => order::has_any() && order::is_to_launch(stream().name(questions::context())),
            Part::Completes(Work::Stream(_)) | Part::Enqueues => stream().is_pending(),
            Part::Completes(Work::Event(event)) | Part::Follows(Followed { event, .. }) => {
                order::is_event_pending(words[event])
            }
            Part::Completes(_) | Part::Frees => order::is_any_pending(),
            Part::Records(event) => order::is_event_pending(words[event]) || stream().is_pending(),
            Part::Drops(stream) => order::is_pending(words[stream]),
            Part::Signals(_) => stream().is_pending(),
        };
    if is_meant { clock::now() | if is_use { USES } else { 0 } } else { 0 }
}

/// Whether a copy or a memset uses shared memory.
pub(super) fn uses_shared(id: FnId, words: &ArgumentWords, arguments: &dyn Arguments) -> bool {
    let touches = KNOWN[id as usize].touches;
    if touches[0] != NONE {
        return touches.iter().any(|by| *by != NONE && uses::is_shared(words[*by as usize]));
    }
    if !uses::has_any() {
        return false;
    }
    if let Some((by, bytes)) = id.spec().rows() {
        return ranges::starts(words[by], bytes).into_iter().any(uses::is_shared);
    }
    if id.spec().batch().is_some() {
        let mut is_shared = false;
        ranges::each(id, words, &mut |range| is_shared |= uses::is_shared(range.start));
        return is_shared;
    }
    let args = Recorded::new(id, arguments).arguments(false).bytes;
    let call = Call { function: id, result: 0, args: &args, shape: 0, elements: &[] };
    call.used().any(|(_, start, _)| uses::is_shared(start))
}

/// Whether a parameter of a kernel that is launched is an address of shared memory: by the kernel and the two ways to pass them.
#[inline(never)]
fn passes_shared(kernel: u64, parameters: u64, extra: u64) -> bool {
    let Some(known) = kernels::parameters(kernel).filter(|_| uses::has_any()) else { return false };
    let mut is_shared = false;
    parameters::each_parameter(known, parameters as _, extra as _, |_, word| {
        is_shared |= uses::is_shared(word)
    });
    is_shared
}

/// Notes a call that has succeeded, and that began when [`since`] said. `record` is the call if it is in the record.
pub fn note(id: FnId, caller: usize, arguments: &dyn Arguments, since: u64, record: Option<&Recorded>) {
    note_in(id, caller, arguments, since, UNREAD, record);
}

/// Instead of the handle of a stream: it is among the arguments.
pub const UNREAD: u64 = u64::MAX;

/// The handle of the stream that a call names; [`UNREAD`] if it must be looked for.
#[inline(always)]
pub fn stream_of<F: Function>(passed: &F) -> u64 {
    const { FUNCTIONS[F::ID as usize].stream() }.map_or(UNREAD, |by| passed.word(by))
}

/// The same where the handle of the stream is at hand.
#[cold]
#[inline(never)]
pub fn note_in(
    id: FnId,
    caller: usize,
    arguments: &dyn Arguments,
    since: u64,
    stream: u64,
    record: Option<&Recorded>,
) {
    let end = if KNOWN[id as usize].only_enqueues { since & !USES } else { clock::now() };
    let caller = behind_patch(id, caller);
    // A thread with a stream does nothing here by which it can be cancelled.
    if recorder::has_stream() {
        noted(id, caller, arguments, (since, end), stream, record);
    } else {
        guarded(|| noted(id, caller, arguments, (since, end), stream, record));
    }
}

#[inline(never)]
fn noted(
    id: FnId,
    caller: usize,
    arguments: &dyn Arguments,
    (since, end): (u64, u64),
    stream: u64,
    record: Option<&Recorded>,
) {
    let (is_use, since) = (since & USES != 0, since & !USES);
    let mut used = Use::new();
    if record.is_none() {
        used.take(arguments, true);
    }
    let context = questions::context();
    let is_handle = stream > PER_THREAD && stream != UNREAD;
    let known = &KNOWN[id as usize];
    let (is_whole, current, nodes) = match known.part {
        // Most are such.
        Part::Uses if is_use && is_handle && !known.has_more => {
            let used = order::used(stream, context, end);
            let is_captured = streams::is_captured(stream);
            let is_apart = !is_captured && is_apart(stream, used);
            (used.is_some(), with_bits(context, end, is_apart, is_captured), None)
        }
        Part::Completes(Work::Stream(_)) if is_handle => {
            let known = order::done(stream, since);
            (true, with_bits(context, end, is_apart(stream, known), false), None)
        }
        Part::Records(event) if is_handle => {
            let mut words = ArgumentWords::default();
            arguments.words(&mut words);
            let known = order::known(stream);
            let is_pending = known.is_some_and(order::Stream::is_pending);
            let is_captured = streams::is_captured(stream);
            let is_apart = !is_captured && is_apart(stream, known);
            let is_whole = order::recorded(words[event], stream, is_pending, since);
            (is_whole, with_bits(context, end, is_apart, is_captured), None)
        }
        _ => follow_and_ask(id, arguments, stream, is_use, context, (since, end)),
    };
    let number = match record {
        Some(record) => Some(record.add_current(current)),
        None => used.append(id, caller, (since, end), current),
    };
    if let (Some(nodes), Some(number)) = (nodes, number) {
        nodes.with_bytes(|bytes| recorder::item_of(number, slot::detail::NODES, bytes));
    }
    let batch = number.filter(|_| is_use && known.has_more && id.spec().batch().is_some());
    let is_noted = batch.is_none_or(|number| ranges::record(id, number, arguments));
    if !is_whole || !is_noted {
        recorder::pause();
    }
}

/// Notes what a call has changed, and asks what is current. Returns false if there is no room for the former.
#[inline(never)]
fn follow_and_ask(
    id: FnId,
    arguments: &dyn Arguments,
    stream: u64,
    is_use: bool,
    context: u64,
    (since, end): (u64, u64),
) -> (bool, u64, Option<Nodes>) {
    let mut words = ArgumentWords::default();
    let needs_none = matches!(KNOWN[id as usize].part, Part::Uses | Part::Completes(Work::Stream(_)));
    let stream = if needs_none && stream != UNREAD {
        Stream::called(id, stream)
    } else {
        arguments.words(&mut words);
        Stream::of(id, &words)
    };
    let exec = Some(KNOWN[id as usize].replays).filter(|by| is_use && *by != NONE);
    let nodes = exec.and_then(|by| Nodes::of(words[by as usize]));
    let tells = nodes.as_ref().is_none_or(|nodes| !nodes.are_plain());
    let is_whole = follow(id, &words, &stream, (is_use, tells), context, (since, end));
    let current = current(id, arguments, context, &stream, (end, nodes.is_some()));
    (is_whole, current, nodes)
}

/// The current context and device, as the record has them at a time, with bits that say that the stream of a call does not wait for the
/// legacy default stream, or that it is captured, or that a copy that could use the host's memory does not.
pub(super) fn current(
    id: FnId,
    arguments: &dyn Arguments,
    context: u64,
    stream: &Stream,
    (now, has_nodes): (u64, bool),
) -> u64 {
    let known = &KNOWN[id as usize];
    let part = known.part;
    // A stream that has ended answers nothing; a launch may have failed its context, which the driver would log.
    let asks = has_nodes || !matches!(part, Part::Drops(_) | Part::Launches);
    let is_captured = match *stream {
        _ if !asks || matches!(part, Part::Completes(_)) => false,
        Stream::Named(handle) => streams::is_captured(handle),
        Stream::Own => streams::is_captured(PER_THREAD),
        Stream::Common => false,
    };
    // Of a stream that is captured nothing else can be asked: the driver ends the capture then.
    let is_apart = match *stream {
        Stream::Named(handle) if asks && !is_captured => is_apart(handle, order::known(handle)),
        _ => false,
    };
    let is_of_devices = known.may_be_of_host && !is_captured && ranges::is_of_devices(id, arguments);
    with_bits(context, now, is_apart, is_captured) | (u64::from(is_of_devices) * slot::detail::OF_DEVICES)
}

#[inline(always)]
fn is_apart(handle: u64, known: Option<&order::Stream>) -> bool {
    order::flags(known, || streams::flags(handle)) & 1 != 0
}

#[inline(always)]
fn with_bits(context: u64, now: u64, is_apart: bool, is_captured: bool) -> u64 {
    contexts::with_device(context, now, questions::device)
        | (u64::from(is_apart) * slot::detail::NON_BLOCKING)
        | (u64::from(is_captured) * slot::detail::CAPTURED)
}

/// Notes what a call has changed. Returns false if there is no room for that.
fn follow(
    id: FnId,
    words: &ArgumentWords,
    stream: &Stream,
    (is_use, tells): (bool, bool),
    context: u64,
    (since, end): (u64, u64),
) -> bool {
    let name = stream.name(context);
    let known = &KNOWN[id as usize];
    match known.part {
        // Memory that is copied to or from the host before the call returns leaves nothing to wait for.
        Part::Uses if is_use && !known.waits => return order::used(name, context, end).is_some(),
        Part::Launches => {
            let is_kept = !is_use || order::used(name, context, end).is_some();
            if tells {
                order::launched(name, end);
            }
            return is_kept;
        }
        Part::Completes(Work::Stream(_)) => {
            order::done(name, since);
        }
        Part::Completes(Work::Event(event)) => order::event_done(words[event]),
        Part::Completes(Work::Context(by)) if words[by] != 0 => order::all_done(words[by], since),
        Part::Completes(_) => order::all_done(context, since),
        Part::Records(event) => return order::recorded(words[event], name, stream.is_pending(), since),
        Part::Follows(_) => return order::used(name, context, end).is_some(),
        Part::Signals(_) if is_use => return order::used(name, context, end).is_some(),
        Part::Drops(by) => order::ended(words[by]),
        _ => {}
    }
    true
}
