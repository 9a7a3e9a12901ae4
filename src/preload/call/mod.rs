//! The path of one call through the library. [`steps`] defines the order: apply fault plans and denied pairs, record the call, forward
//! it, finish the record, replace functions that are handed out, run the steps of `after` if the call needs them, and log.
//!
//! This module owns the order of the steps and the guard against reentry. Each step is implemented elsewhere.
//!
//! A function takes the first path that its entry in the table asks for, so that those that are called often do no more than they need:
//!
//! | Functions | Path | Difference |
//! | --- | --- | --- |
//! | `may_go_straight_on`: copies, launches | [`unseen::straight_on`] | No steps while their addresses cannot matter. Failures are recorded, and uses of shared memory. |
//! | Group `order` | [`ordering::run`] | No steps. Recorded if they come behind uses of shared memory. |
//! | `allocates`, `frees` | [`memory`] | No steps while the memory is small and nobody else's: it is only counted. |
//! | Group `event` | [`ordering::run`] | Forwarded first. Steps only after a failure. |
//! | `changes_kernels`, `changes_graphs`, if rules are checked | [`run_with_handles`] | Notes kernels and graphs before and after. |
//! | `creates_context` | [`take_steps`] | Notes the context after. |
//! | Large copies to or from the host | [`through_host::run`] | Reads what is copied. |
//! | `is_quick` | [`run_quickly`] | Has a copy of the steps of its own. |
//! | All others | [`run_shared`] | Share one copy of the steps. |
//! | Copies, memsets, and what orders them, at first | [`early::around`] | Kept until memory is exported. |
//! | Any that a fault plan may concern | [`concerned`] | The plan decides before the steps. |

mod after;
mod early;
mod graphs;
mod inside;
mod memory;
mod order;
mod ordering;
mod ranges;
mod through_host;
mod unseen;

use crate::driver::log::DriverLog;
use crate::driver::{contexts, counted, graphs as executable, kernels, places};
use crate::fault::forward::{ArgumentWords, Forward};
use crate::fault::inject::{self, Fault};
use crate::job::gone;
use crate::job::ledger::{self, BeforeCall, CallOrigin};
use crate::log::{self, Call, FaultSummary};
use crate::recorder::{self, Recorded, Store};
use crate::resolve::needs::{self, Needs};
use crate::resolve::{driver, entries, handed_out, linked, patched, traced};
use crate::settings::{self, Settings};
use crate::sys::arch::{ASYNCHRONOUS, Thread, forward_asynchronously, stack_height, thread};
use crate::sys::caller::Caller;
use crate::sys::clock;
use crate::sys::elf;
use crate::sys::forks;
use crate::sys::guard::{guarded, guarded_waiting};
use crate::sys::object::Object;
use after::{Answered, tell};
use core::fmt::{self, Write};
use core::mem;
use cupeer_spec::abi::FunctionPointer;
use cupeer_spec::function::{FUNCTIONS, FnId, Group};
use cupeer_spec::results::Result as Code;
use cupeer_spec::value::Format;
use inside::Inside;
use unseen::{failed_use, straight_on};

/// What is known when a call enters.
pub struct Entered {
    /// The address of the next function: the one that runs without us.
    pub real: usize,
    /// What to call in its place: that, or what can be cancelled at any instruction meanwhile.
    pub through: usize,
    /// Where the call will return to in the program; 0 where a signal handler's call hid it.
    caller: usize,
    /// Whether this call comes out of our own forwarding of the same function: a wrapper behind us that
    /// looked the function up. It is the same call of the program, so it is not seen again.
    again: bool,
}

/// The program's own caller, if the call came through a patch.
#[inline(always)]
fn behind_patch(id: FnId, caller: usize) -> usize {
    let mut behind = caller;
    if patched::is_patched(id) {
        guarded(|| behind = patched::caller_behind(id, caller));
    }
    behind
}

/// What an entry has noted of a call.
#[derive(Clone, Copy)]
struct Noted {
    /// Where the call will return to.
    caller: usize,
    /// The number of its function and one, perhaps with [`ASYNCHRONOUS`].
    entered: u32,
}

impl Noted {
    /// Of the call that entered last. To be read before all else, because a signal handler may call.
    #[inline(always)]
    fn last() -> Self {
        let thread = thread();
        // SAFETY: the block belongs to this thread and its signal handlers. These may write to it at any time, so no reference to
        // it is made, and each word is read by itself: the caller first, which the entry writes last. The function that was
        // entered is still ours then only if no handler's call of another one came in between.
        let (caller, entered) = unsafe {
            ((&raw const (*thread).caller).read_volatile(), (&raw const (*thread).entered).read_volatile())
        };
        Noted { caller, entered }
    }
}

/// Takes up a call that came through a traced entry.
#[inline(always)]
fn enter<F: Function, const EXPORT: bool>(noted: Noted) -> Entered {
    // As in `take_steps`.
    if const { FUNCTIONS[F::ID as usize].is_quick() } {
        enter_by(F::ID, EXPORT, noted)
    } else {
        enter_shared(F::ID, EXPORT, noted)
    }
}

#[inline(never)]
fn enter_shared(id: FnId, is_export: bool, noted: Noted) -> Entered {
    enter_by(id, is_export, noted)
}

#[inline(always)]
fn enter_by(id: FnId, is_export: bool, Noted { caller, entered }: Noted) -> Entered {
    traced::note(id);
    let thread = thread();
    // A signal handler that called between the entry's note and this line has left its own.
    let is_plain = entered == id as u32 + 1;
    let is_asynchronous = !is_plain && entered == (id as u32 + 1) | ASYNCHRONOUS;
    let caller = if is_plain || is_asynchronous { caller } else { 0 };
    let real = if is_export { linked::real(id, caller) } else { driver::real(id) };
    let mut through = real;
    if is_asynchronous {
        // SAFETY: the block belongs to this thread. A signal handler that forwards in between puts back what it has found.
        unsafe { (*thread).target = real };
        through = forward_asynchronously as *const () as usize;
    }
    Entered { real, through, caller, again: is_again(thread, id, caller) }
}

/// Whether a call is the same function's, from the library that our own forwarding of it has called, or from a tool behind that. A
/// frame that was left by longjmp, and a callback of the program, do not count.
#[inline(always)]
fn is_again(thread: *mut Thread, id: FnId, caller: usize) -> bool {
    // SAFETY: the block belongs to this thread and its signal handlers, which leave these words as they have found them.
    let (inside, inside_at, inside_real) =
        unsafe { ((*thread).inside, (*thread).inside_at, (*thread).inside_real) };
    inside as u32 == id as u32 + 1 && stack_height() < inside_at && is_forwarding(id, caller, inside_real)
}

/// Whether a call of a function comes from who forwards it: the library that we have called for it, or another that has a
/// function of this name itself, or gives its own out by a dlsym of its own.
#[cold]
#[inline(never)]
fn is_forwarding(id: FnId, caller: usize, called: usize) -> bool {
    let is_tool = |object: &Object| {
        let has = |name| object.symbol(name).is_some_and(|symbol| !symbol.is_data);
        !elf::is_ours(object) && (has(entries::name(id as usize)) || has(c"dlsym"))
    };
    elf::is_same_object(caller, called) || elf::containing(caller).as_ref().is_some_and(is_tool)
}

/// The arguments of a call, and what is done with them.
pub trait Arguments: Store {
    /// Calls the real function.
    ///
    /// # Safety
    ///
    /// At `real` lies the function that the arguments are for.
    unsafe fn forward(&self, real: usize) -> i32;

    fn print(&self, succeeded: bool, out: &mut dyn Write, format: Format) -> fmt::Result;

    /// Adds what of them does not fit into the record's slot.
    fn more(&self, detail: &mut recorder::Detail, succeeded: bool);

    /// Gives them to the rules of faults.
    fn words(&self, words: &mut ArgumentWords);

    /// The output that holds a function, where there is one.
    fn handed_out(&self) -> Option<*mut FunctionPointer>;
}

/// The same with the function that they are for.
pub trait Function: Arguments {
    const ID: FnId;
    /// One of the words that [`Arguments::words`] stores; 0 if there are fewer.
    fn word(&self, wanted: usize) -> u64;
}

/// Runs a call from its traced entry: the export's, or that of look-ups.
///
/// # Safety
///
/// The entry is that of this function, and the arguments are what it got.
#[inline(always)]
pub unsafe fn run<F: Function, const EXPORT: bool>(arguments: impl Fn() -> F) -> i32 {
    let noted = Noted::last();
    early::around(noted, &arguments, || {
        // SAFETY: as promised.
        if let Some(result) = unsafe { memory::run::<F, EXPORT>(noted, &arguments) } {
            return result;
        }
        if const { FUNCTIONS[F::ID as usize].may_go_straight_on() } {
            // SAFETY: as promised.
            return unsafe { straight_on::<F, EXPORT>(noted, &arguments) };
        }
        let is_about_order = const {
            FUNCTIONS[F::ID as usize].is_in(Group::Order) || FUNCTIONS[F::ID as usize].is_in(Group::Event)
        };
        if is_about_order {
            // SAFETY: as promised.
            return unsafe { ordering::run::<F, EXPORT>(noted, &arguments) };
        }
        // SAFETY: as promised.
        unsafe { take_steps::<F, EXPORT>(noted, &arguments()) }
    })
}

/// Runs the steps of a call.
///
/// # Safety
///
/// As for [`run`].
#[inline(always)]
unsafe fn take_steps<F: Function, const EXPORT: bool>(noted: Noted, arguments: &F) -> i32 {
    let entered = &enter::<F, EXPORT>(noted);
    order::forget(arguments);
    // What programs call often has steps of its own.
    let mut run = || {
        let result = match const { FUNCTIONS[F::ID as usize].is_quick() } {
            true => run_quickly(entered, arguments),
            false => run_shared(F::ID, entered, arguments),
        };
        if const { FUNCTIONS[F::ID as usize].moves_memory() } {
            places::have_changed();
        }
        result
    };
    if const { FUNCTIONS[F::ID as usize].is_in(Group::Event) } {
        return ordering::run_event(F::ID, entered, arguments);
    }
    let changes =
        const { FUNCTIONS[F::ID as usize].changes_kernels() || FUNCTIONS[F::ID as usize].changes_graphs() };
    // UCX releases a context with each message.
    let is_release = const { FUNCTIONS[F::ID as usize].releases_context() };
    let has_any = || !is_release || kernels::has_any() || executable::has_any();
    if changes && settings::get().check.is_some() && has_any() {
        return run_with_handles(F::ID, entered, arguments, &mut run);
    }
    if let Some((context, device)) = const { FUNCTIONS[F::ID as usize].creates_context() } {
        let result = run();
        if result == 0 {
            let mut words = ArgumentWords::default();
            arguments.words(&mut words);
            guarded(|| contexts::is_created(words[context], words[device] as i32));
        }
        return result;
    }
    if let Some(copied) = through_host::large_copy(arguments).filter(|_| needs::has_done(Needs::Shared)) {
        return through_host::run(F::ID, entered, arguments, copied, &mut run);
    }
    let result = run();
    if const { FUNCTIONS[F::ID as usize].is_in(Group::Init) } && result == 0 {
        forks::initialized();
    }
    result
}

/// A call that finds kernels, makes or changes executable graphs, or ends some of these.
#[inline(never)]
fn run_with_handles(
    id: FnId,
    entered: &Entered,
    arguments: &dyn Arguments,
    run: &mut dyn FnMut() -> i32,
) -> i32 {
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    let found = id.spec().finds_of_kernel();
    if found.is_none() {
        guarded(|| {
            kernels::before(id, &words);
            executable::before(id, &words);
        });
    }
    let result = run();
    if result == 0 && !found.is_some_and(|found| kernels::is_noted(found, &words)) {
        let is_planned = inject::may_concern(id, &|all| *all = words);
        guarded(|| kernels::after(id, &words, is_planned));
        if id.spec().changes_graphs() && !is_planned && !entered.again {
            graphs::follow(id, entered, arguments, &words);
            return result;
        }
    }
    if !entered.again {
        executable::shared::may_have_changed(id, &words);
    }
    result
}

/// Once for each function, not for each of its entries.
#[inline(never)]
fn run_quickly<F: Function>(entered: &Entered, arguments: &F) -> i32 {
    take_up(F::ID, entered, arguments, |taken| steps(F::ID, entered, taken, arguments, arguments, None))
}

/// Calls that take long by themselves: once for all functions.
#[inline(never)]
fn run_shared(id: FnId, entered: &Entered, arguments: &dyn Arguments) -> i32 {
    take_up(id, entered, arguments, |taken| shared_steps(id, entered, taken, arguments, None))
}

#[inline(never)]
fn shared_steps(
    id: FnId,
    entered: &Entered,
    taken: TakenUp,
    arguments: &dyn Arguments,
    fault: Option<&mut Fault>,
) -> i32 {
    steps(id, entered, taken, arguments, arguments, fault)
}

/// A call that takes steps.
#[derive(Clone, Copy)]
struct TakenUp {
    /// The program's own caller.
    caller: usize,
    settings: &'static Settings,
    /// Its result, if it was forwarded before its steps.
    returned: Option<i32>,
}

/// Finds out what is to be done for a call: its steps, or less.
#[inline(always)]
fn take_up(
    id: FnId,
    entered: &Entered,
    arguments: &dyn Arguments,
    steps: impl FnOnce(TakenUp) -> i32,
) -> i32 {
    // SAFETY: the address is this function's, as `take_steps` demands.
    let forward = || unsafe { arguments.forward(entered.through) };
    if entered.again {
        return forward();
    }
    if inject::may_concern(id, &|words| arguments.words(words))
        && let Some(result) = concerned(id, entered, arguments)
    {
        return result;
    }
    let settings = settings::get();
    let is_unseen = || !settings.is_recorded(id) || ledger::is_idle(id) && !counted::is_known_event();
    if !settings.is_logged(id) && arguments.handed_out().is_none() && is_unseen() {
        // It came here because a rule of faults names the function, and that was all; or there is nothing to see.
        return unseen::forward(id, entered.caller, arguments, forward);
    }
    steps(TakenUp { caller: behind_patch(id, entered.caller), settings, returned: None })
}

/// The same for a call that a rule of faults may concern: once for all functions. `None` if none does.
#[cold]
#[inline(never)]
fn concerned(id: FnId, entered: &Entered, arguments: &dyn Arguments) -> Option<i32> {
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    let caller = behind_patch(id, entered.caller);
    let call = Forward { id, words: &words, caller };
    let mut fault = None;
    guarded(|| fault = Fault::of(&call));
    let taken = TakenUp { caller, settings: settings::get(), returned: None };
    fault.map(|mut fault| shared_steps(id, entered, taken, arguments, Some(&mut fault)))
}

/// The steps of a call, in their order. `shared` is the same as `arguments`, for what is there once for all functions. What
/// a rule of faults makes of the call is decided already.
#[inline(always)]
fn steps<A: Arguments + ?Sized>(
    id: FnId,
    entered: &Entered,
    TakenUp { caller, settings, returned }: TakenUp,
    arguments: &A,
    shared: &dyn Arguments,
    mut fault: Option<&mut Fault>,
) -> i32 {
    let pointer = arguments.handed_out();
    let is_hit = fault.as_ref().is_some_and(|fault| fault.is_hit());
    let mut logged = settings.is_logged(id) || is_hit && settings.log.is_some();
    let mut record = Recorded::new(id, shared);
    if settings.is_recorded(id) || is_hit && settings.record.is_some() {
        record.begin(arguments, caller, is_hit, fault.is_none());
    }
    let before = record.is_tracked().then(|| weigh(&mut record, caller));
    // What is not in the record is not judged, either: freeing what nobody shares.
    let is_heard = settings.check.is_some() && record.has_begun();
    let is_judged = is_heard && may_crash(id) && is_said_before(id, &record, caller, shared);
    let driver_log = if is_heard { DriverLog::enabled() } else { DriverLog::disabled() };
    let started = if logged { clock::now() } else { 0 };
    let since_use = unseen::since_use(id, shared);
    let instead = || fault.as_mut().and_then(|fault| act_before(fault, &|fault| tell(fault, &record)));
    let mut result = match returned.or_else(instead) {
        Some(instead) => instead,
        None => {
            let mut inside = Inside::new(id, record.half());
            inside.enter(entered.real, driver_log.messages());
            // SAFETY: the address is this function's, as `take_steps` demands.
            let result = unsafe { arguments.forward(entered.through) };
            inside.leave();
            // Only what unwinds drops it, so that its way is not that of every call.
            mem::forget(inside);
            result
        }
    };
    if let Some(fault) = &mut fault {
        result = act_after(fault, result);
        logged |= fault.is_hit() && settings.log.is_some();
        if fault.is_hit() && fault.is_altered {
            record.mark_injected();
        }
    }
    let duration = if logged { clock::now().saturating_sub(started) } else { 0 };
    let succeeded = result == 0;
    let has_more = record.finish(arguments, result, succeeded);
    let fault = fault.map(|fault| &*fault);
    if !succeeded && fault.is_none() && !record.was_kept() {
        failed_use(id, entered.caller, shared, result);
    } else if since_use != 0 && succeeded && fault.is_none() {
        order::note(id, entered.caller, shared, since_use, record.was_kept().then_some(&record));
    }
    if let Some(before) = before.as_ref().filter(|before| record.was_counted() && before.takes_out()) {
        put_back(&record, caller, result, before);
    }
    if !logged && !has_more && pointer.is_none() && fault.is_none() {
        return result;
    }
    let (before, driver_log) = (before.as_ref(), &driver_log);
    let rest = Rest {
        id,
        caller,
        result,
        pointer,
        fault,
        has_more,
        logged,
        driver_log,
        before,
        is_judged,
        started,
        duration,
    };
    guarded(|| rest.follow(&record, shared));
    result
}

/// Reports that a copy uses memory that is gone, or that a handle was released, before the driver gets it. A driver takes an address that
/// it does not know for one of the host, and follows a handle: the process crashes. Returns true if something was reported.
#[cold]
#[inline(never)]
fn is_said_before(id: FnId, record: &Recorded, caller: usize, arguments: &dyn Arguments) -> bool {
    let mut is_said = false;
    let failure = (id, caller, Code::INVALID_VALUE as i32);
    with_failure(failure, arguments, &mut |call| guarded(|| is_said = after::judge_before(record, call)));
    is_said
}

/// Hands over a call that fails, of which no more is known.
fn with_failure(
    (id, caller, result): (FnId, usize, i32),
    arguments: &dyn Arguments,
    work: &mut dyn FnMut(&Answered),
) {
    work(&Answered {
        id,
        caller,
        result,
        driver_messages: "",
        print: &|out, format| arguments.print(false, out, format),
        more: &|detail| arguments.more(detail, false),
        fault: None,
        before: &BeforeCall::default(),
        is_judged: false,
    });
}

/// What has come of a call for which there is more to do: once for all functions.
struct Rest<'a> {
    id: FnId,
    caller: usize,
    result: i32,
    pointer: Option<*mut FunctionPointer>,
    fault: Option<&'a Fault<'a>>,
    /// There is more to say about it in the record.
    has_more: bool,
    logged: bool,
    driver_log: &'a DriverLog,
    before: Option<&'a BeforeCall>,
    is_judged: bool,
    started: u64,
    duration: u64,
}

impl Rest<'_> {
    /// Does it. For use in `guarded`.
    #[inline(never)]
    fn follow(&self, record: &Recorded, arguments: &dyn Arguments) {
        let Rest { id, caller, result, fault, .. } = *self;
        let succeeded = result == 0;
        let print = |out: &mut dyn Write, format| arguments.print(succeeded, out, format);
        if let (Some(pointer), true) = (self.pointer, succeeded) {
            // SAFETY: after success the driver has written the pointer, unless the caller passed null,
            // which is checked there.
            unsafe { handed_out::substitute(pointer) };
        }
        if let Some(fault) = fault {
            fault.count_denied();
        }
        let nothing = BeforeCall::default();
        if self.has_more || fault.is_some_and(|fault| fault.is_hit() && record.was_kept()) {
            let answered = Answered {
                id,
                caller,
                result,
                driver_messages: self.driver_log.text(),
                print: &print,
                more: &|detail| arguments.more(detail, succeeded),
                fault,
                before: self.before.unwrap_or(&nothing),
                is_judged: self.is_judged,
            };
            after::follow(record, &answered);
        }
        if self.logged {
            let hit = fault.filter(|fault| fault.is_hit());
            log::call(&Call {
                id,
                caller: Caller::of(caller, id, succeeded),
                started: if self.started == 0 { clock::now() } else { self.started },
                duration: self.duration,
                result,
                print: &print,
                fault: hit.map(|fault| FaultSummary {
                    is_altered: fault.is_altered,
                    deed: fault.deed(),
                    names: fault,
                }),
            });
        }
    }
}

/// True if a call may crash: a copy that takes any address, also of the host, and uses it before it returns, if memory is gone; and a
/// call that names an allocation by its handle.
#[inline]
fn may_crash(id: FnId) -> bool {
    let spec = &FUNCTIONS[id as usize];
    let copies = spec.takes_any_address() && !spec.is_asynchronous() && gone::has_any();
    copies || spec.is_virtual() && spec.allocation_handle().is_some()
}

/// What is known before a call is forwarded that opens or ends something.
#[cold]
#[inline(never)]
fn weigh(record: &mut Recorded, caller: usize) -> BeforeCall {
    let mut before = BeforeCall::default();
    record.weigh(caller, |id, args| before = ledger::before(id, args));
    before
}

/// Puts back into the live table what was taken out of it before a call that has failed as many before it did.
#[cold]
#[inline(never)]
fn put_back(record: &Recorded, caller: usize, result: i32, before: &BeforeCall) {
    let origin = CallOrigin { caller, start: record.start(), ..CallOrigin::default() };
    guarded(|| ledger::after(record.id(), &record.arguments(false).bytes, result, before, &origin));
}

/// What rules of faults do before a call: the result in place of it, where there is one.
#[cold]
#[inline(never)]
fn act_before(fault: &mut Fault, tell: &dyn Fn(&Fault)) -> Option<i32> {
    guarded_waiting(|cancelling| fault.before(cancelling, tell));
    fault.instead
}

/// What they do after it: the result that the program gets.
#[cold]
#[inline(never)]
fn act_after(fault: &mut Fault, result: i32) -> i32 {
    let mut given = result;
    guarded_waiting(|cancelling| given = fault.after(cancelling, result));
    given
}

#[inline(never)]
pub fn print_name(separator: &str, name: &str, out: &mut dyn Write, format: Format) -> fmt::Result {
    if format.json { write!(out, "{separator}\"{name}\":") } else { write!(out, "{separator}{name}=") }
}
