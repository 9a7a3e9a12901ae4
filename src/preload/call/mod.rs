//! The path of one call through the library. [`run_steps`] defines the order: apply fault plans and denied pairs,
//! record the call, forward it, finish the record, replace functions that are handed out, run the steps of `after` if
//! the call needs them, and log.
//!
//! This module owns the order of the steps and the guard against reentry. Each step is implemented elsewhere.
//!
//! A function takes the first path that its entry in the table asks for. Functions that programs call often have the shortest paths:
//!
//! | Functions | Path | Difference |
//! | --- | --- | --- |
//! | Copies, memsets, and functions that order them | [`early::run_and_keep_early_uses`] | Before the first export: keeps the last ones. |
//! | `allocates`, `frees` | [`memory`] | No steps while the memory is small and not shared: it is only counted. |
//! | `can_skip_most_calls` (copies, launches), groups `order` and `event` | [`untracked::fast_path`] | No steps while their addresses cannot matter. Records failures, uses of shared memory, and calls that order these uses. |
//! | Group `event`, beside the fast path | [`untracked::run_event_record_call`] | Forwarded first. Steps only after a failure. |
//! | `changes_kernels`, `changes_graphs`, if rules are checked | [`run_and_track_handles`] | Notes kernels and graphs before and after. |
//! | `created_context` | [`resolve_and_run_steps`] | Notes the context after. |
//! | Large copies to or from the host | [`through_host::run_large_host_copy`] | Records a hash of the content. |
//! | `is_quick` | [`run_quick_function`] | Has its own copy of the steps. |
//! | All others | [`run_in_shared_code`] | Share one copy of the steps. |
//! | Any that a fault plan may concern | [`run_with_faults`] | The plan decides before the steps. |

mod after;
mod early;
mod graphs;
mod inside;
mod memory;
mod order;
mod ranges;
mod through_host;
mod untracked;

use crate::driver::log::DriverLog;
use crate::driver::{contexts, counted, graphs as executable, kernels, places};
use crate::fault::forward::{ArgumentWords, ForwardedCall};
use crate::fault::inject::{self, CallFaults};
use crate::job::ledger::{self, BeforeCall, CallOrigin};
use crate::job::tombstones;
use crate::log::{self, Call, FaultSummary};
use crate::recorder::{self, CallRecord, Store};
use crate::resolve::needs::{self, HistoryCondition};
use crate::resolve::{driver, entries, handed_out, linked, patched, traced};
use crate::settings::{self, Settings};
use crate::sys::arch::{ASYNCHRONOUS, Thread, forward_asynchronously, stack_height, thread};
use crate::sys::caller::Caller;
use crate::sys::clock;
use crate::sys::elf;
use crate::sys::forks;
use crate::sys::guard::{guarded, guarded_waiting};
use crate::sys::object::LoadedObject;
use after::{CompletedCall, record_faults};
use core::fmt::{self, Write};
use core::mem;
use cupeer_spec::abi::FunctionPointer;
use cupeer_spec::function::{FUNCTIONS, FnId, Group};
use cupeer_spec::results::Result as Code;
use cupeer_spec::value::Format;
use inside::ForwardingMark;
use untracked::{fast_path, has_fast_path, record_failed_use};

/// Call that came in through a traced entry, and the addresses to which it can be forwarded.
pub struct EnteredCall {
    /// Address of the function that the call would reach without this library.
    pub real: usize,
    /// Address to call: `real`, or a stub that forwards to `real` and in which the thread can be canceled at any instruction.
    pub through: usize,
    /// Return address of the call in the program; 0 if a call in a signal handler overwrote it.
    caller: usize,
    /// True if our own forwarding of the same function led to this call, because a wrapper behind us looked the function up. Both
    /// are the same call of the program, so this call is not examined again.
    is_nested: bool,
}

/// Returns the return address of a call in the program: `caller`, or the address behind a patch that the call came through.
#[inline(always)]
fn caller_behind_patch(id: FnId, caller: usize) -> usize {
    let mut behind = caller;
    if patched::is_patched(id) {
        guarded(|| behind = patched::caller_behind(id, caller));
    }
    behind
}

/// State of a call at its entry: the words that the entry code left in the thread's block.
#[derive(Clone, Copy)]
struct EntryState {
    /// Return address of the call.
    caller: usize,
    /// Number of the called function, plus one, perhaps with the bit [`ASYNCHRONOUS`].
    entered: u32,
}

impl EntryState {
    /// Reads the state of the call that entered last. Must run before all other code: a signal handler may make a call, which
    /// overwrites the state.
    #[inline(always)]
    fn read() -> Self {
        let thread = thread();
        // SAFETY: the block belongs to this thread and its signal handlers. These may write to it at any time, so no reference to
        // it is made, and each word is read by itself: the caller first, which the entry writes last. If the function is still
        // ours then, no handler called another one in between.
        let (caller, entered) =
            unsafe { ((&raw const (*thread).caller).read_volatile(), (&raw const (*thread).entered).read_volatile()) };
        EntryState { caller, entered }
    }
}

/// Finds the function to which a call is forwarded. The call came through a traced entry.
#[inline(always)]
fn resolve_target<F: Function, const EXPORT: bool>(entry: EntryState) -> EnteredCall {
    // As in `resolve_and_run_steps`, each quick function has its own copy of this code.
    if const { FUNCTIONS[F::ID as usize].is_quick() } {
        resolve_target_inline(F::ID, EXPORT, entry)
    } else {
        resolve_target_shared(F::ID, EXPORT, entry)
    }
}

#[inline(never)]
fn resolve_target_shared(id: FnId, is_export: bool, entry: EntryState) -> EnteredCall {
    resolve_target_inline(id, is_export, entry)
}

#[inline(always)]
fn resolve_target_inline(id: FnId, is_export: bool, EntryState { caller, entered }: EntryState) -> EnteredCall {
    traced::note(id);
    let thread = thread();
    // If a signal handler made a call since the entry, the block has the state of the handler's call.
    let is_plain = entered == id as u32 + 1;
    let is_asynchronous = !is_plain && entered == (id as u32 + 1) | ASYNCHRONOUS;
    let caller = if is_plain || is_asynchronous { caller } else { 0 };
    let real = if is_export { linked::next_function(id, caller) } else { driver::real(id) };
    let mut through = real;
    if is_asynchronous {
        // SAFETY: the block belongs to this thread. A signal handler that forwards in between restores it.
        unsafe { (*thread).target = real };
        through = forward_asynchronously as *const () as usize;
    }
    EnteredCall { real, through, caller, is_nested: is_nested_call(thread, id, caller) }
}

/// Returns true if our own forwarding of a function led to this call of the same function: the library that we called makes the
/// call, or a tool behind that library does. A frame that a longjmp left, and a callback of the program, do not count.
#[inline(always)]
fn is_nested_call(thread: *mut Thread, id: FnId, caller: usize) -> bool {
    // SAFETY: the block belongs to this thread and its signal handlers, which restore these words.
    let (inside, inside_at, inside_real) = unsafe { ((*thread).inside, (*thread).inside_at, (*thread).inside_real) };
    inside as u32 == id as u32 + 1 && stack_height() < inside_at && is_called_library_or_tool(id, caller, inside_real)
}

/// Returns true if the caller is the library that we called for this function, or a wrapper that defines the function or its own dlsym.
#[cold]
#[inline(never)]
fn is_called_library_or_tool(id: FnId, caller: usize, called: usize) -> bool {
    let is_tool = |object: &LoadedObject| {
        let has = |name| object.symbol(name).is_some_and(|symbol| !symbol.is_data);
        !elf::is_ours(object) && (has(entries::name(id as usize)) || has(c"dlsym"))
    };
    elf::is_same_object(caller, called) || elf::containing(caller).as_ref().is_some_and(is_tool)
}

/// Arguments of a call, with the operations on them that the steps of a call need.
pub trait Arguments: Store {
    /// Calls the real function at the address `real`.
    ///
    /// # Safety
    ///
    /// `real` is the address of the function that the arguments are for.
    unsafe fn forward(&self, real: usize) -> i32;

    fn print(&self, succeeded: bool, out: &mut dyn Write, format: Format) -> fmt::Result;

    /// Adds the arguments that do not fit into the slot of the record to `detail`.
    fn more(&self, detail: &mut recorder::Detail, succeeded: bool);

    /// Stores the word of each argument in `words`, for the fault plans.
    fn words(&self, words: &mut ArgumentWords);

    /// Returns the address of the output that receives a function pointer; `None` if the function has no such output.
    fn handed_out(&self) -> Option<*mut FunctionPointer>;
}

/// The arguments of a call of one function, which is known at compile time.
pub trait Function: Arguments {
    const ID: FnId;
    /// Returns the word of the argument with index `wanted`, as [`Arguments::words`] stores it; 0 if there are fewer arguments.
    fn word(&self, wanted: usize) -> u64;
}

/// Runs a call from a traced entry of its function: the exported symbol (`EXPORT`), or the entry that look-ups return.
///
/// # Safety
///
/// The entry is that of this function, and got these arguments.
#[inline(always)]
pub unsafe fn run<F: Function, const EXPORT: bool>(arguments: impl Fn() -> F) -> i32 {
    let entry = EntryState::read();
    early::run_and_keep_early_uses(entry, &arguments, || {
        // SAFETY: as promised.
        if let Some(result) = unsafe { memory::run_memory_call::<F, EXPORT>(entry, &arguments) } {
            return result;
        }
        if const { has_fast_path(&FUNCTIONS[F::ID as usize]) } {
            // SAFETY: as promised.
            return unsafe { fast_path::<F, EXPORT>(entry, &arguments) };
        }
        // SAFETY: as promised.
        unsafe { resolve_and_run_steps::<F, EXPORT>(entry, &arguments()) }
    })
}

/// Finds the function to which a call is forwarded, and runs the steps of the call.
///
/// # Safety
///
/// As for [`run`].
#[inline(always)]
unsafe fn resolve_and_run_steps<F: Function, const EXPORT: bool>(entry: EntryState, arguments: &F) -> i32 {
    let entered = &resolve_target::<F, EXPORT>(entry);
    order::forget_ended_event(arguments);
    // Functions that programs call often have their own copy of the steps.
    let mut run = || {
        let result = match const { FUNCTIONS[F::ID as usize].is_quick() } {
            true => run_quick_function(entered, arguments),
            false => run_in_shared_code(F::ID, entered, arguments),
        };
        if const { FUNCTIONS[F::ID as usize].moves_memory() } {
            places::note_memory_change();
        }
        result
    };
    if const { FUNCTIONS[F::ID as usize].is_in(Group::Event) } {
        return untracked::run_event_record_call(F::ID, entered, arguments);
    }
    let changes = const { FUNCTIONS[F::ID as usize].changes_kernels() || FUNCTIONS[F::ID as usize].changes_graphs() };
    // UCX releases a context with each message, so a release has no extra steps while no kernel or graph is known.
    let is_release = const { FUNCTIONS[F::ID as usize].releases_context() };
    let has_any = || !is_release || kernels::has_any() || executable::has_any();
    if changes && settings::get().check.is_some() && has_any() {
        return run_and_track_handles(F::ID, entered, arguments, &mut run);
    }
    if let Some((context, device)) = const { FUNCTIONS[F::ID as usize].created_context() } {
        let result = run();
        if result == 0 {
            let mut words = ArgumentWords::default();
            arguments.words(&mut words);
            guarded(|| contexts::note_created(words[context], words[device] as i32));
        }
        return result;
    }
    if let Some(copied) = through_host::large_copy(arguments).filter(|_| needs::has_met(HistoryCondition::Shared)) {
        return through_host::run_large_host_copy(F::ID, entered, arguments, copied, &mut run);
    }
    let result = run();
    if const { FUNCTIONS[F::ID as usize].is_in(Group::Init) } && result == 0 {
        forks::note_initialized();
    }
    result
}

/// Runs a call that looks up kernels, makes or changes executable graphs, or ends kernels or graphs.
#[inline(never)]
fn run_and_track_handles(
    id: FnId,
    entered: &EnteredCall,
    arguments: &dyn Arguments,
    run: &mut dyn FnMut() -> i32,
) -> i32 {
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    let found = id.spec().found_kernel_function();
    if found.is_none() {
        guarded(|| {
            kernels::forget_before_call(id, &words);
            executable::forget_before_call(id, &words);
        });
    }
    let result = run();
    if result == 0 && !found.is_some_and(|found| kernels::is_handle_known(found, &words)) {
        let is_planned = inject::may_concern(id, &|all| *all = words);
        guarded(|| kernels::note_after_call(id, &words, is_planned));
        if id.spec().changes_graphs() && !is_planned && !entered.is_nested {
            graphs::run_steps_after_success(id, entered, arguments, &words);
            return result;
        }
    }
    if !entered.is_nested {
        executable::shared::note_possible_change(id, &words);
    }
    result
}

/// Runs the steps of a quick function. Each quick function has one copy of this code, for both of its entries.
#[inline(never)]
fn run_quick_function<F: Function>(entered: &EnteredCall, arguments: &F) -> i32 {
    dispatch(F::ID, entered, arguments, |taken| run_steps(F::ID, entered, taken, arguments, arguments, None))
}

/// Runs the steps of a function whose own work takes long. All of these functions share one copy of the code.
#[inline(never)]
fn run_in_shared_code(id: FnId, entered: &EnteredCall, arguments: &dyn Arguments) -> i32 {
    dispatch(id, entered, arguments, |taken| steps_in_shared_code(id, entered, taken, arguments, None))
}

#[inline(never)]
fn steps_in_shared_code(
    id: FnId,
    entered: &EnteredCall,
    call: StepInputs,
    arguments: &dyn Arguments,
    fault: Option<&mut CallFaults>,
) -> i32 {
    run_steps(id, entered, call, arguments, arguments, fault)
}

/// Values that the steps of a call need in addition to its function and arguments.
#[derive(Clone, Copy)]
struct StepInputs {
    /// Return address of the call in the program.
    caller: usize,
    settings: &'static Settings,
    /// Result of the call, if it was forwarded before its steps.
    returned: Option<i32>,
}

/// Forwards a call that needs no steps, hands a call that a fault plan may concern to [`run_with_faults`], and runs the steps of
/// each other call.
#[inline(always)]
fn dispatch(id: FnId, entered: &EnteredCall, arguments: &dyn Arguments, steps: impl FnOnce(StepInputs) -> i32) -> i32 {
    // SAFETY: the address is this function's, as `resolve_and_run_steps` demands.
    let forward = || unsafe { arguments.forward(entered.through) };
    if entered.is_nested {
        return forward();
    }
    if inject::may_concern(id, &|words| arguments.words(words))
        && let Some(result) = run_with_faults(id, entered, arguments)
    {
        return result;
    }
    let settings = settings::get();
    let is_unrecorded =
        || !settings.is_recorded(id) || ledger::is_table_unaffected_by(id) && !counted::is_about_recorded_memory();
    if !settings.is_logged(id) && arguments.handed_out().is_none() && is_unrecorded() {
        // Only a fault plan names the function, or the call changes no object that cupeer tracks.
        return untracked::forward_unrecorded(id, entered.caller, arguments, forward);
    }
    steps(StepInputs { caller: caller_behind_patch(id, entered.caller), settings, returned: None })
}

/// Runs the steps of a call with the faults that fire at the call. Returns `None`, and does not forward the call, if no fault
/// plan or denied pair concerns the call.
#[cold]
#[inline(never)]
fn run_with_faults(id: FnId, entered: &EnteredCall, arguments: &dyn Arguments) -> Option<i32> {
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    let caller = caller_behind_patch(id, entered.caller);
    let forward = ForwardedCall { id, words: &words, caller };
    let mut fault = None;
    guarded(|| fault = CallFaults::decide(&forward));
    let call = StepInputs { caller, settings: settings::get(), returned: None };
    fault.map(|mut fault| steps_in_shared_code(id, entered, call, arguments, Some(&mut fault)))
}

/// Runs the steps of a call, in their order. `shared` is the same object as `arguments`, for code that all functions share. The
/// faults that fire at the call are decided before.
#[inline(always)]
fn run_steps<A: Arguments + ?Sized>(
    id: FnId,
    entered: &EnteredCall,
    StepInputs { caller, settings, returned }: StepInputs,
    arguments: &A,
    shared: &dyn Arguments,
    mut fault: Option<&mut CallFaults>,
) -> i32 {
    let pointer = arguments.handed_out();
    let is_hit = fault.as_ref().is_some_and(|fault| fault.is_hit_or_denied());
    let mut logged = settings.is_logged(id) || is_hit && settings.log.is_some();
    let mut record = CallRecord::new(id, shared);
    if settings.is_recorded(id) || is_hit && settings.record.is_some() {
        record.begin(arguments, caller, is_hit, fault.is_none());
    }
    let before = record.is_tracked().then(|| take_ending_object(&mut record, caller));
    // The rules judge only recorded calls: not the free of memory that is not shared, for example.
    let is_checked = settings.check.is_some() && record.has_begun();
    let is_judged = is_checked && may_crash(id) && report_before_forwarding(id, &record, caller, shared);
    let driver_log = if is_checked { DriverLog::enabled() } else { DriverLog::disabled() };
    let started = if logged { clock::now() } else { 0 };
    let since_use = untracked::start_of_use_if_noted(id, shared);
    let instead = || fault.as_mut().and_then(|fault| act_before(fault, &|fault| record_faults(fault, &record)));
    let mut result = returned
        .or_else(instead)
        .unwrap_or_else(|| forward_marked(id, entered, arguments, record.number_in_high_half(), &driver_log));
    if let Some(fault) = &mut fault {
        result = act_after(fault, result);
        logged |= fault.is_hit_or_denied() && settings.log.is_some();
        if fault.is_hit_or_denied() && fault.is_altered {
            record.mark_injected();
        }
    }
    let duration = if logged { clock::now().saturating_sub(started) } else { 0 };
    let succeeded = result == 0;
    let has_more = record.finish(arguments, result, succeeded);
    let fault = fault.map(|fault| &*fault);
    if !succeeded && fault.is_none() && !record.is_recorded() {
        record_failed_use(id, entered.caller, shared, result);
    } else if since_use != 0 && succeeded && fault.is_none() {
        order::note_call(id, entered.caller, shared, since_use, record.is_recorded().then_some(&record));
    }
    if let Some(before) = before.as_ref().filter(|before| record.was_counted() && before.has_changed_table()) {
        restore_object(&record, caller, result, before);
    }
    if logged || has_more || pointer.is_some() || fault.is_some() {
        let (before, messages) = (before.unwrap_or_default(), driver_log.text());
        let plain = CompletedCall::without_fault(id, caller, result, shared, &before);
        let call = CompletedCall { driver_messages: messages, fault, is_judged, ..plain };
        let post = RemainingSteps { call, pointer, has_more, logged, started, duration };
        guarded(|| post.run(&record));
    }
    result
}

/// Forwards a call. During the call, the thread is marked with the called function.
#[inline(always)]
fn forward_marked<A: Arguments + ?Sized>(
    id: FnId,
    entered: &EnteredCall,
    arguments: &A,
    half: u64,
    driver_log: &DriverLog,
) -> i32 {
    let mut inside = ForwardingMark::new(id, half);
    inside.mark_thread(entered.real, driver_log.buffer_pointer());
    // SAFETY: the address is this function's, as `resolve_and_run_steps` demands.
    let result = unsafe { arguments.forward(entered.through) };
    inside.unmark_thread();
    // Only an unwinding drops the mark: the code of a normal return has no drop.
    mem::forget(inside);
    result
}

/// Reports, before the driver gets the call, that a copy uses memory that is gone, or that the call names a released handle. A
/// driver takes an unknown address for a host address, and follows a handle as a pointer, so the process would crash. Returns
/// true if a finding was reported.
#[cold]
#[inline(never)]
fn report_before_forwarding(id: FnId, record: &CallRecord, caller: usize, arguments: &dyn Arguments) -> bool {
    let (mut is_reported, before) = (false, BeforeCall::default());
    let call = CompletedCall::without_fault(id, caller, Code::INVALID_VALUE as i32, arguments, &before);
    guarded(|| is_reported = after::judge_before_forwarding(record, &call));
    is_reported
}

/// Completed call, with the values that its remaining steps need.
struct RemainingSteps<'a> {
    call: CompletedCall<'a>,
    pointer: Option<*mut FunctionPointer>,
    /// True if the record of the call still lacks details.
    has_more: bool,
    logged: bool,
    started: u64,
    duration: u64,
}

impl RemainingSteps<'_> {
    /// Runs the remaining steps. For use in `guarded`.
    #[inline(never)]
    fn run(&self, record: &CallRecord) {
        let CompletedCall { id, caller, result, fault, arguments, .. } = self.call;
        let succeeded = result == 0;
        if let (Some(pointer), true) = (self.pointer, succeeded) {
            // SAFETY: after success the driver wrote the pointer, unless the caller passed null, which is checked there.
            unsafe { handed_out::substitute(pointer) };
        }
        if let Some(fault) = fault {
            fault.count_denied();
        }
        if self.has_more || fault.is_some_and(|fault| fault.is_hit_or_denied() && record.is_recorded()) {
            after::run_steps_after_return(record, &self.call);
        }
        if self.logged {
            let hit = fault.filter(|fault| fault.is_hit_or_denied());
            log::log_call(&Call {
                id,
                caller: Caller::of(caller, id, succeeded),
                started: if self.started == 0 { clock::now() } else { self.started },
                duration: self.duration,
                result,
                print: &|out: &mut dyn Write, format| arguments.print(succeeded, out, format),
                fault: hit.map(|fault| FaultSummary { is_altered: fault.is_altered, verb: fault.verb(), names: fault }),
            });
        }
    }
}

/// Returns true if a call may crash the process: a synchronous copy between any addresses while some memory is gone, or a call
/// that names an allocation by its handle.
#[inline]
fn may_crash(id: FnId) -> bool {
    let spec = &FUNCTIONS[id as usize];
    let copies = spec.takes_any_address() && !spec.is_asynchronous() && tombstones::has_any();
    copies || spec.is_virtual_memory_call() && spec.allocation_handle_argument().is_some()
}

/// Takes the object that a call is about to end out of the live table, and returns its state before the call.
#[cold]
#[inline(never)]
fn take_ending_object(record: &mut CallRecord, caller: usize) -> BeforeCall {
    let mut before = BeforeCall::default();
    record.before_call(caller, |id, args| before = ledger::before_call(id, args));
    before
}

/// Restores an object that was taken out of the live table before a call, after the call failed like many before it.
#[cold]
#[inline(never)]
fn restore_object(record: &CallRecord, caller: usize, result: i32, before: &BeforeCall) {
    let origin = CallOrigin { caller, start: record.start(), ..CallOrigin::default() };
    guarded(|| ledger::after_call(record.id(), &record.arguments(false).bytes, result, before, &origin));
}

/// Applies the faults that act before a call. Returns the result in place of the driver's; `None` if the call must be forwarded.
#[cold]
#[inline(never)]
fn act_before(fault: &mut CallFaults, tell: &dyn Fn(&CallFaults)) -> Option<i32> {
    guarded_waiting(|cancelling| fault.apply_before_call(cancelling, tell));
    fault.instead
}

/// Applies the faults that act after a call. Returns the result that the program gets.
#[cold]
#[inline(never)]
fn act_after(fault: &mut CallFaults, result: i32) -> i32 {
    let mut given = result;
    guarded_waiting(|cancelling| given = fault.apply_after_call(cancelling, result));
    given
}

#[inline(never)]
pub fn print_name(separator: &str, name: &str, out: &mut dyn Write, format: Format) -> fmt::Result {
    if format.json { write!(out, "{separator}\"{name}\":") } else { write!(out, "{separator}{name}=") }
}
