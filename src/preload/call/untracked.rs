//! Calls that are recorded only if they fail: most copies, launches, and frees, before and after a process shares memory.

use super::after::{self, CompletedCall};
use super::{
    Arguments, EnteredCall, EntryState, Function, StepInputs, caller_behind_patch, is_nested_call, order,
    resolve_and_run_steps, run_in_shared_code, steps_in_shared_code, through_host,
};
use crate::driver::places;
use crate::fault::forward::ArgumentWords;
use crate::fault::inject;
use crate::job::ledger::{self, BeforeCall};
use crate::job::tombstones;
use crate::recorder::{CallRecord, content};
use crate::resolve::needs::{self, HistoryCondition};
use crate::resolve::{driver, linked};
use crate::settings;
use crate::sys::arch::thread;
use crate::sys::guard::guarded;
use core::sync::atomic::{AtomicU32, Ordering};
use cupeer_rules::RULES;
use cupeer_spec::effect::Launched;
use cupeer_spec::function::{FUNCTIONS, FnId, FnSpec, Group};
use cupeer_spec::results::Result as Code;

/// Returns true if a function orders work, or records an event.
const fn orders_work(function: &FnSpec) -> bool {
    function.is_in(Group::Order) || function.is_in(Group::Event)
}

/// Returns true if calls of a function take the [`fast_path`].
pub const fn has_fast_path(function: &FnSpec) -> bool {
    function.can_skip_most_calls() || orders_work(function)
}

/// Runs a call of a function that has a fast path. Forwards the call at once if its addresses show that it cannot matter, as for
/// most copies and launches of a process that shares memory. Runs the steps of each other call.
///
/// # Safety
///
/// As for [`super::run`].
#[inline(always)]
pub unsafe fn fast_path<F: Function, const EXPORT: bool>(entry: EntryState, arguments: impl Fn() -> F) -> i32 {
    /// Runs the steps of a call. Out of line, so that calls on the fast path do not run through this code.
    #[cold]
    #[inline(never)]
    unsafe fn slow_path<F: Function, const EXPORT: bool>(entry: EntryState, arguments: &F) -> i32 {
        // SAFETY: as promised.
        unsafe { resolve_and_run_steps::<F, EXPORT>(entry, arguments) }
    }
    let passed = arguments();
    // Each callee gets its own copy of the arguments, so that those which need no copy stay in registers.
    let next = match const { orders_work(&FUNCTIONS[F::ID as usize]) } {
        true => stepless_target::<F, EXPORT>(entry),
        false => fast_path_target::<F, EXPORT>(entry, &passed),
    };
    let Some(real) = next else {
        // SAFETY: as promised.
        return unsafe { slow_path::<F, EXPORT>(entry, &arguments()) };
    };
    if order::may_need_note(&passed) {
        // SAFETY: the address is this function's.
        return unsafe { forward_and_note(entry.caller, &arguments(), real) };
    }
    // SAFETY: the address is this function's.
    let result = unsafe { passed.forward(real) };
    if result != 0 && const { reports_failures(&FUNCTIONS[F::ID as usize]) } {
        record_failure(F::ID, real, entry.caller, &arguments(), result);
    }
    result
}

/// Forwards a call that may use shared memory or order such uses, and notes the call if it succeeds.
///
/// # Safety
///
/// `real` is the address of its function.
#[cold]
#[inline(never)]
unsafe fn forward_and_note<F: Function>(caller: usize, arguments: &F, real: usize) -> i32 {
    let since = order::quick_start_if_noted(arguments);
    // SAFETY: as promised.
    let result = unsafe { arguments.forward(real) };
    if result != 0 {
        if const { reports_failures(&FUNCTIONS[F::ID as usize]) } {
            record_failure(F::ID, real, caller, arguments, result);
        }
    } else if since != 0 && !is_nested_call(thread(), F::ID, caller) {
        order::note_call_on_stream(F::ID, caller, arguments, since, order::stream_argument(arguments), None);
    }
    result
}

/// Returns true if failures of a function are recorded. Programs poll streams and events: these queries "fail" until the work is
/// complete.
const fn reports_failures(function: &FnSpec) -> bool {
    function.is_in(Group::Event) || !function.is_in(Group::Order)
}

/// Runs `forward`, which forwards a call of which nothing but its use of shared memory is recorded.
pub fn forward_unrecorded(id: FnId, caller: usize, arguments: &dyn Arguments, forward: impl FnOnce() -> i32) -> i32 {
    let since = start_of_use_if_noted(id, arguments);
    let result = forward();
    if result != 0 {
        record_failed_use(id, caller, arguments, result);
    } else if since != 0 {
        order::note_call(id, caller, arguments, since, None);
    }
    result
}

/// Returns the same time as [`order::start_if_noted`], but 0 for a large copy, which is noted together with its
/// content.
pub fn start_of_use_if_noted(id: FnId, arguments: &dyn Arguments) -> u64 {
    let since = order::start_if_noted(id, arguments);
    if since == 0 || !needs::has_met(HistoryCondition::Shared) {
        return since;
    }
    let mut words = ArgumentWords::default();
    arguments.words(&mut words);
    let is_large = id.spec().host_copy().is_some_and(|copied| words[copied.size] >= content::SMALLEST);
    if is_large { 0 } else { since }
}

/// Returns the address of the driver's function, if the addresses in a call show that the call cannot matter. `None` if the call
/// must take its steps.
#[inline(always)]
fn fast_path_target<F: Function, const EXPORT: bool>(entry: EntryState, arguments: &F) -> Option<usize> {
    if entry.entered != F::ID as u32 + 1 || !needs::is_needed_by_history_only(F::ID) || can_addresses_matter(arguments)
    {
        return None;
    }
    // A large copy takes its steps, which record its content.
    if through_host::large_copy(arguments).is_some() {
        return None;
    }
    driver_target::<F, EXPORT>(entry)
}

/// Returns the address of the driver's function, if the call needs no steps. `None` if the call must take its steps.
#[inline(always)]
pub fn stepless_target<F: Function, const EXPORT: bool>(entry: EntryState) -> Option<usize> {
    // SAFETY: the block belongs to this thread and its signal handlers, which restore the word.
    let is_inside = unsafe { (*thread()).inside } as u32 == F::ID as u32 + 1;
    let is_plain = entry.entered == F::ID as u32 + 1 && !is_inside && needs::is_needed_by_history_only(F::ID);
    if is_plain { driver_target::<F, EXPORT>(entry) } else { None }
}

/// Returns the address of the driver's function; `None` if a tool behind us may call the same function, because only the steps
/// see that both are the same call.
#[inline(always)]
fn driver_target<F: Function, const EXPORT: bool>(entry: EntryState) -> Option<usize> {
    let real = driver::real(F::ID);
    (!EXPORT || linked::known_next_function(F::ID, entry.caller) == Some(real)).then_some(real)
}

/// Returns true if a call may use memory that is gone, or copy from one device to another. Takes a few loads.
#[inline(always)]
fn can_addresses_matter<F: Function>(arguments: &F) -> bool {
    if let Some((by, size, element)) = const { FUNCTIONS[F::ID as usize].only_used_range() } {
        return tombstones::may_range_be_gone(arguments.word(by), arguments.word(size).saturating_mul(element));
    }
    if let Some(copied) = const { FUNCTIONS[F::ID as usize].only_copied_range() } {
        let (to, from, bytes) = (arguments.word(copied.to), arguments.word(copied.from), arguments.word(copied.size));
        return tombstones::may_any_range_be_gone(to, Some(from), bytes)
            || needs::has_met(HistoryCondition::Reach)
                && !(needs::has_met(HistoryCondition::Shared) && places::are_on_one_device(from, to));
    }
    let passes = |Launched { function, parameters, extra }: Launched| {
        let extra = extra.map_or(0, |extra| arguments.word(extra));
        tombstones::may_launch_use_gone(arguments.word(function), arguments.word(parameters), extra)
    };
    // The addresses of rows and batches are not examined here.
    tombstones::has_any() && const { FUNCTIONS[F::ID as usize].launches() }.is_none_or(passes)
}

/// Records the failure of a call that was forwarded at once to `real`.
#[cold]
#[inline(never)]
pub fn record_failure(id: FnId, real: usize, caller: usize, arguments: &dyn Arguments, result: i32) {
    if is_nested_call(thread(), id, caller) {
        return;
    }
    if id.spec().records().is_some() {
        let entered = EnteredCall { real, through: real, caller, is_nested: false };
        finish_failed_event_record(id, &entered, arguments, result);
    } else {
        record_failed_use(id, caller, arguments, result);
    }
}

/// Records a copy, memset, free, or change of a graph that failed and that had no record before. Calls that succeed do not run
/// this code. If a failure repeats and no rule explains it, the rules examine the failure only now and then.
#[cold]
#[inline(never)]
pub fn record_failed_use(id: FnId, caller: usize, arguments: &dyn Arguments, result: i32) {
    /// Number of unexplained failures that the rules examine one by one. A later failure is examined only if its number is a
    /// power of two.
    const MANY: u32 = 64;
    static UNEXPLAINED: AtomicU32 = AtomicU32::new(0);
    static RECORDED: AtomicU32 = AtomicU32::new(0);
    let settings = settings::get();
    // The nodes of a graph are read only if some nodes may use memory that is gone.
    let may_use = || {
        id.spec().uses_or_frees()
            || id.spec().records().is_some()
            || id.spec().graph_argument().is_some() && tombstones::has_any()
    };
    // A call that fails to create a context is recorded only if there is no memory for the context.
    let has_no_room = id.spec().can_lack_context_memory() && result == Code::OUT_OF_MEMORY as i32;
    let is_kept = has_no_room && settings.record.is_some() || id.spec().allocated_memory().is_some();
    if !is_kept && !may_use() || !has_no_room && !settings.is_recorded(id) {
        return;
    }
    let is_due = |known: u32| known < MANY || known.is_power_of_two();
    let is_kept = is_kept && is_due(RECORDED.fetch_add(1, Ordering::Relaxed));
    let known = UNEXPLAINED.load(Ordering::Relaxed);
    let may_be_explained =
        settings.check.is_some() && is_due(known) && RULES.iter().any(|rule| rule.explains(id, result));
    let caller = caller_behind_patch(id, caller);
    let mut record = CallRecord::new(id, arguments);
    let before = BeforeCall::default();
    let call = CompletedCall::without_fault(id, caller, result, arguments, &before);
    let mut is_explained = false;
    if may_be_explained {
        guarded(|| is_explained = after::is_failure_explained(&record, &call));
    }
    if !is_explained && !is_kept {
        UNEXPLAINED.store(known.saturating_add(1), Ordering::Relaxed);
    }
    record.begin(arguments, caller, true, true);
    if record.finish(arguments, result, false) && (is_explained || is_kept) {
        guarded(|| after::run_steps_after_return(&record, &call));
    }
}

/// Runs a call that records an event: forwards the call, and runs its steps only if it failed. If a fault plan may concern the
/// call, or the call is logged, runs the steps as for each other call.
#[inline(never)]
pub fn run_event_record_call(id: FnId, entered: &EnteredCall, arguments: &dyn Arguments) -> i32 {
    let is_planned = inject::may_concern(id, &|words| arguments.words(words));
    if entered.is_nested || is_planned || settings::get().is_logged(id) {
        return run_in_shared_code(id, entered, arguments);
    }
    let began = order::start_if_noted(id, arguments);
    // SAFETY: the address is this function's, as `resolve_and_run_steps` demands.
    let result = unsafe { arguments.forward(entered.through) };
    if result != 0 {
        return finish_failed_event_record(id, entered, arguments, result);
    }
    if began != 0 {
        order::note_call(id, entered.caller, arguments, began, None);
    }
    result
}

/// Runs the steps of a call that was to record an event, and that failed.
fn finish_failed_event_record(id: FnId, entered: &EnteredCall, arguments: &dyn Arguments, result: i32) -> i32 {
    let settings = settings::get();
    if !settings.is_recorded(id) || ledger::is_table_unaffected_by(id) {
        record_failed_use(id, entered.caller, arguments, result);
        return result;
    }
    let call = StepInputs { caller: caller_behind_patch(id, entered.caller), settings, returned: Some(result) };
    steps_in_shared_code(id, entered, call, arguments, None)
}
