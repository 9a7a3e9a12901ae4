//! Calls that use shared memory, and those that order such uses: what is noted of them, once they have succeeded.
//!
//! Before a call is forwarded, it is decided whether it concerns anybody, which for most is a load or two. What it changes in
//! [`job::order`](crate::job::order) it changes when it has returned.

use super::{Arguments, Function, behind_patch};
use crate::driver::{kernels, parameters, questions, streams};
use crate::fault::forward::ArgumentWords;
use crate::job::{order, uses};
use crate::recorder::{self, Recorded, clock};
use crate::settings;
use crate::sys::arch::thread;
use crate::sys::guard::guarded;
use crate::sys::program_memory::copy_value;
use cupeer_model::Call;
use cupeer_spec::effect::{Effect, End, Followed, Launched, Object, Signal, Work};
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

static PARTS: [Part; FUNCTION_COUNT] = {
    let mut parts = [Part::Nothing; FUNCTION_COUNT];
    let mut index = 0;
    while index < FUNCTION_COUNT {
        parts[index] = part_of(&FUNCTIONS[index]);
        index += 1;
    }
    parts
};

/// CU_STREAM_PER_THREAD.
const PER_THREAD: u64 = 2;

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
    pub(super) fn of(id: FnId, words: &ArgumentWords) -> Stream {
        let handle = match (id.spec().stream(), id.spec().launches()) {
            (Some(by), _) => words[by],
            // A structure says it: `CUlaunchConfig`.
            (None, Some(_)) => copy_value((words[0] + 32) as *const u64).unwrap_or(0),
            _ => 0,
        };
        match (handle, id.spec().is_per_thread()) {
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
            let touches = const { FUNCTIONS[F::ID as usize].touches() };
            order::has_any() && (waits || tells.is_some_and(|by| is_pending(arguments.word(by))))
                || touches.iter().flatten().any(|(by, ..)| uses::may_be_shared(arguments.word(*by)))
        }
        Part::Completes(Work::Stream(by)) => {
            let stream = arguments.word(by);
            order::has_any() && (stream <= 2 || order::is_pending(stream))
        }
        Part::Completes(Work::Event(by)) | Part::Follows(Followed { event: by, .. }) => {
            order::has_events() && order::is_event_pending(arguments.word(by))
        }
        Part::Launches | Part::Signals(_) | Part::Enqueues => uses::has_any() || order::has_any(),
        Part::Frees => order::has_any(),
        Part::Completes(_) | Part::Records(_) | Part::Drops(_) => order::has_any() || order::has_events(),
    }
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

/// When a call begins that is to be noted, on the clock of the record; 0 if it is not.
#[inline(never)]
pub fn since(id: FnId, arguments: &dyn Arguments) -> u64 {
    let is_idle = !uses::has_any() && !order::has_any() && !order::has_events();
    if is_idle || !settings::get().is_recorded(id) || !recorder::is_noting() {
        return 0;
    }
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    let stream = || Stream::of(id, &words);
    let is_meant = match PARTS[id as usize] {
        Part::Nothing | Part::Ends(_) => false,
        Part::Uses => {
            uses_shared(id, &words, arguments)
                || id.spec().host_copy().is_some() && order::is_any_pending()
                || id.spec().writes_to_host_later() && stream().is_pending()
        }
        Part::Launches => {
            order::has_any() && order::is_to_launch(stream().name(questions::context()))
                || passes_shared(id, &words)
        }
        Part::Completes(Work::Stream(_)) | Part::Enqueues => stream().is_pending(),
        Part::Completes(Work::Event(event)) | Part::Follows(Followed { event, .. }) => {
            order::is_event_pending(words[event])
        }
        Part::Completes(_) | Part::Frees => order::is_any_pending(),
        Part::Records(event) => order::is_event_pending(words[event]) || stream().is_pending(),
        Part::Drops(stream) => order::is_pending(words[stream]),
        Part::Signals(address) => uses::is_shared(words[address]) || stream().is_pending(),
    };
    if is_meant { clock::now() } else { 0 }
}

/// Whether a copy or a memset uses shared memory.
pub(super) fn uses_shared(id: FnId, words: &ArgumentWords, arguments: &dyn Arguments) -> bool {
    let touches = id.spec().touches();
    if touches[0].is_some() {
        return touches.iter().flatten().any(|(by, ..)| uses::is_shared(words[*by]));
    }
    // Its arrays are the driver's to read: a batch of copies may use anything.
    if id.spec().batch().is_some() {
        return uses::has_any();
    }
    let args = Recorded::new(id, arguments).arguments(false).bytes;
    let call = Call { function: id, result: 0, args: &args, shape: 0, elements: &[] };
    call.used().any(|(_, start, _)| uses::is_shared(start))
}

/// Whether a parameter of a kernel that is launched is an address of shared memory.
fn passes_shared(id: FnId, words: &ArgumentWords) -> bool {
    let Some(Launched { function, parameters: at, extra }) = id.spec().launches() else { return false };
    let Some(known) = kernels::parameters(words[function]).filter(|_| uses::has_any()) else { return false };
    let (mut is_shared, extra) = (false, extra.map_or(0, |extra| words[extra]));
    parameters::each_parameter(known, words[at] as _, extra as _, |_, word| {
        is_shared |= uses::is_shared(word)
    });
    is_shared
}

/// Notes a call that has succeeded, and that began when [`since`] said. `record` is the call if it is in the record.
#[cold]
#[inline(never)]
pub fn note(id: FnId, caller: usize, arguments: &dyn Arguments, since: u64, record: Option<&Recorded>) {
    let end = clock::now();
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    let caller = behind_patch(id, caller);
    guarded(|| {
        let context = questions::context();
        let is_whole = follow(id, &words, arguments, context, (since, end));
        let current = current(context, flags(id, &words));
        match record {
            Some(record) => record.add_current(current),
            None => Recorded::new(id, arguments).append_use(caller, since, end, current),
        }
        if !is_whole {
            recorder::pause();
        }
    });
}

/// Returns the current context and device with the flags of a call, as the record has them.
pub(super) fn current(context: u64, flags: u64) -> u64 {
    context & ((1 << 48) - 1) | ((questions::device() + 1) as u64) << 48 | flags
}

/// Bits that say that the stream of a call does not wait for the legacy default stream, and that it is captured.
pub(super) fn flags(id: FnId, words: &ArgumentWords) -> u64 {
    let (stream, part) = (Stream::of(id, words), PARTS[id as usize]);
    // A stream that has ended answers nothing; a launch may have failed its context, which the driver would log.
    let asks = !matches!(part, Part::Drops(_) | Part::Launches);
    let is_apart = match stream {
        Stream::Named(handle) if asks => order::flags(handle, || streams::flags(handle)) & 1 != 0,
        _ => false,
    };
    let is_captured = match stream {
        _ if !asks || matches!(part, Part::Completes(_)) => false,
        Stream::Named(handle) => streams::is_captured(handle),
        Stream::Own => streams::is_captured(PER_THREAD),
        Stream::Common => false,
    };
    (u64::from(is_apart) * slot::detail::NON_BLOCKING) | (u64::from(is_captured) * slot::detail::CAPTURED)
}

/// Notes what a call has changed. Returns false if there is no room for that.
fn follow(
    id: FnId,
    words: &ArgumentWords,
    arguments: &dyn Arguments,
    context: u64,
    (since, end): (u64, u64),
) -> bool {
    let stream = Stream::of(id, words);
    let name = stream.name(context);
    match PARTS[id as usize] {
        // Memory that is copied to or from the host before the call returns leaves nothing to wait for.
        Part::Uses if id.spec().host_copy().is_none() && uses_shared(id, words, arguments) => {
            return order::used(name, context, end);
        }
        Part::Launches => {
            let is_kept = !passes_shared(id, words) || order::used(name, context, end);
            order::launched(name, end);
            return is_kept;
        }
        Part::Completes(Work::Stream(_)) => order::done(name, since),
        Part::Completes(Work::Event(event)) => order::event_done(words[event]),
        Part::Completes(Work::Context(by)) if words[by] != 0 => order::all_done(words[by], since),
        Part::Completes(_) => order::all_done(context, since),
        Part::Records(event) => return order::recorded(words[event], name, stream.is_pending(), since),
        Part::Follows(_) => return order::used(name, context, end),
        Part::Signals(address) if uses::is_shared(words[address]) => return order::used(name, context, end),
        Part::Drops(by) => order::ended(words[by]),
        _ => {}
    }
    true
}
