//! The steps after the driver returned, for calls that open or end something, that failed, or whose slot has details elsewhere: query the
//! driver, look for excuses, judge the call, tell the job, and note the time.

use super::{Arguments, early};
use crate::check;
use crate::driver::facts::{self, DriverFacts};
use crate::driver::queries;
use crate::driver::{batches, counted, model};
use crate::fault::inject::{self, CallFaults};
use crate::job::ledger::{self, BeforeCall, CallOrigin};
use crate::job::{tombstones, uses};
use crate::recorder::{self, CallRecord, Detail, StoredArguments, exhausted};
use crate::settings;
use core::cell::Cell;
use core::fmt::Write;
use cupeer_rules::decide;
use cupeer_spec::effect::Object;
use cupeer_spec::function::{FnId, Library};
use cupeer_spec::record::live;
use cupeer_spec::record::slot::{MOST_ARGS, detail};
use cupeer_spec::results::Result as Code;
use cupeer_spec::value::Format;

/// Call with its result, which came from the driver or from a fault.
pub struct CompletedCall<'a> {
    pub id: FnId,
    /// Return address of the call.
    pub caller: usize,
    /// Result that the program gets.
    pub result: i32,
    pub driver_messages: &'a str,
    pub arguments: &'a dyn Arguments,
    pub fault: Option<&'a CallFaults<'a>>,
    pub before: &'a BeforeCall,
    /// True if the rules judged the call before it was forwarded.
    pub is_judged: bool,
}

impl<'a> CompletedCall<'a> {
    /// Returns a call without messages of the driver, without a fault, and with an empty `before`.
    pub fn without_fault(
        id: FnId,
        caller: usize,
        result: i32,
        arguments: &'a dyn Arguments,
        before: &'a BeforeCall,
    ) -> Self {
        CompletedCall { id, caller, result, driver_messages: "", arguments, fault: None, before, is_judged: false }
    }

    /// Returns the call in the form in which the rules decide about it.
    fn call_for_rules<'b>(&self, args: &'b StoredArguments, elements: &'b [u8]) -> decide::Call<'b> {
        decide::Call { function: self.id, result: self.result, args: &args.bytes, shape: args.shape, elements }
    }
}

/// Puts the faults that acted on a call, or are about to act on it, into the record.
#[cold]
#[inline(never)]
pub fn record_faults(fault: &CallFaults, record: &CallRecord) {
    if record.is_recorded() {
        fault.each_unrecorded(|hit, name| record.add_hit(hit, name));
    }
}

/// Runs the steps of a call that follow its return from the driver. Must run inside `guarded`.
#[cold]
#[inline(never)]
pub fn run_steps_after_return(record: &CallRecord, call: &CompletedCall) {
    let &CompletedCall { id, result, fault, before, .. } = call;
    // Driver queries and the table of open objects depend on the result of the driver, not on a result that a fault
    // set.
    let (for_driver, for_job) =
        fault.map_or((result, result), |fault| (fault.result_for_queries(), fault.result_for_ledger()));
    if let Some(fault) = fault {
        record_faults(fault, record);
    }
    let args = record.arguments(result == 0);
    if queries::accepts_device_queries(id, for_driver) {
        recorder::describe_devices();
    }
    let ended = facts::find_ended_context(id, &args.bytes, for_driver, before.context);
    counted::forget_memory_of_context(ended);
    let is_release = result == 0 && fault.is_none() && id.spec().releases_context();
    if is_release && ended == 0 && call.driver_messages.is_empty() {
        if before.context == 0 {
            // The call may have ended a context: in a process that shares nothing, the driver is not asked.
            recorder::note_world_changed();
        }
        recorder::speed::note_moment();
        return;
    }
    let (added, about) = record_details(record, call, &args, for_driver, ended);
    let elements = added.array();
    let is_judged = is_to_judge(call, &args);
    if is_judged {
        run_rule_check(record, call, &args, elements, about, check::judge);
    }
    let has_other_output = fault.is_some_and(|fault| fault.has_other_output);
    let done = decide::Call { result: for_job, ..call.call_for_rules(&args, elements) };
    model::note_effects(&done, about.import_device, !has_other_output);
    if for_job == 0
        && let Some((start, bytes)) = model::mapped_exportable_range(&done)
    {
        uses::watch(start, bytes);
    }
    early::drop_uses_if_call_can_wait(id);
    if recorder::is_tracked(id) && !has_other_output {
        update_job(record, call, &args, for_job, about, is_judged);
    }
    let changes =
        id.spec().shares() || id.spec().is_release() || id.spec().is_virtual_memory_call() || id.spec().changes_pools();
    if for_job == 0 && changes {
        recorder::note_world_changed();
    }
    if result != 0 && fault.is_none() {
        record.note_failure(result, &args);
    }
    recorder::speed::note_moment();
}

/// Adds the details of a call to its record: the rest of its arguments, and the answers and messages of the driver. Returns the
/// details and the driver's answers.
fn record_details(
    record: &CallRecord,
    call: &CompletedCall,
    args: &StoredArguments,
    for_driver: i32,
    ended: u64,
) -> (Detail, DriverFacts) {
    let &CompletedCall { id, caller, result, fault, before, .. } = call;
    let mut about = DriverFacts::default();
    let added = record.add(|detail| {
        let has_stack = record.add_missing_details(result, &args.bytes, detail);
        call.arguments.more(detail, result == 0);
        let note = &mut |tag, bytes: &[u8]| detail.add_item(tag, 0, bytes);
        about = facts::query_about_call(id, &args.bytes, for_driver, (before.context, ended), note);
        let is_real = !fault.is_some_and(|fault| fault.is_altered);
        if result == Code::OUT_OF_MEMORY as i32 && id.spec().library == Library::Cuda {
            exhausted::note_memory(is_real, note);
        }
        if ended != 0 && id.spec().releases_context() && !has_stack {
            // Only a release that ended its context has a call stack.
            detail.add_frames(caller);
        }
        if !call.driver_messages.is_empty() {
            detail.add_item(detail::MESSAGE, 0, call.driver_messages.as_bytes());
        }
    });
    (added, about)
}

/// Returns true if the rules judge a call: a call of a CUDA driver function, with the driver's own result, that no fault excuses.
fn is_to_judge(call: &CompletedCall, args: &StoredArguments) -> bool {
    settings::get().check.is_some()
        && !call.is_judged
        && call.id.spec().library == Library::Cuda
        && (call.result != 0 || recorder::is_tracked(call.id))
        && !call.fault.is_some_and(|fault| fault.is_altered)
        && !inject::is_excused(call.id, &args.bytes)
}

/// Updates the job's knowledge of open and exported objects after a call.
fn update_job(
    record: &CallRecord,
    call: &CompletedCall,
    args: &StoredArguments,
    for_job: i32,
    about: DriverFacts,
    is_judged: bool,
) {
    let (id, exported) = (call.id, call.id.spec().exports());
    let head = match exported.filter(|_| is_judged) {
        Some(shared) if shared.object.needs_granted_access() => descriptor_key(id, shared.handle, &args.bytes),
        Some(_) => args.handle_head_fingerprint(),
        None => 0,
    };
    let origin = CallOrigin { caller: call.caller, start: record.start(), head, about };
    ledger::after_call(id, &args.bytes, for_job, call.before, &origin);
    let is_memory = exported.is_some_and(|shared| matches!(shared.object, Object::Memory | Object::Pointer));
    if let Some(memory) = about.memory.filter(|_| for_job == 0 && is_memory) {
        early::note_uses_before_export(memory, record.start());
    }
}

/// Returns true if a rule explains the failure of a call. Freed memory explains the failure only if the driver confirms that the
/// memory is gone. For use in `guarded`.
pub fn is_failure_explained(record: &CallRecord, call: &CompletedCall) -> bool {
    let args = record.arguments(false);
    let mut is_doubtful = false;
    let mut examine = |_, start, bytes| {
        is_doubtful |=
            tombstones::first_gone_address(start, bytes).is_some() && !tombstones::is_confirmed_gone(start, bytes)
    };
    call.call_for_rules(&args, &[]).used_ranges().for_each(|(argument, start, bytes)| examine(argument, start, bytes));
    if let Some(batch) = call.id.spec().batch() {
        batches::each_range(call.id, &args.bytes, batch, &mut examine);
    }
    !is_doubtful
        && run_rule_check(record, call, &args, &[], DriverFacts::default(), check::is_failure_explained)
        && !inject::is_excused(call.id, &args.bytes)
}

/// Reports a finding about a recorded call before the call is forwarded, if the rules would explain a failure of the call.
/// Returns true if the rules would explain a failure. For use in `guarded`.
pub fn judge_before_forwarding(record: &CallRecord, call: &CompletedCall) -> bool {
    let args = record.arguments(false);
    let is_explained = if call.id.spec().is_virtual_memory_call() {
        let named = call.call_for_rules(&args, &[]);
        model::note_begun_release(&named);
        model::names_released_allocation(&named) && !inject::is_excused(call.id, &args.bytes)
    } else {
        is_failure_explained(record, call)
    };
    if is_explained {
        run_rule_check(record, call, &args, &[], DriverFacts::default(), check::judge);
    }
    is_explained
}

/// Runs `work`, a check of the rules, on a call.
fn run_rule_check<T>(
    record: &CallRecord,
    call: &CompletedCall,
    args: &StoredArguments,
    elements: &[u8],
    about: DriverFacts,
    work: fn(&check::CheckedCall) -> T,
) -> T {
    let &CompletedCall { id, caller, result, before, driver_messages, arguments, .. } = call;
    work(&check::CheckedCall {
        id,
        args: &args.bytes,
        shape: args.shape,
        result,
        now: Cell::new(0),
        caller,
        slot: record.number(),
        taken: before.taken,
        is_closing: before.is_closing(),
        is_closing_the_last: before.is_closing_the_last(),
        begun: if before.begun == 0 && id.spec().opens().is_some() {
            recorder::speed::to_monotonic(record.start())
        } else {
            before.begun
        },
        handle: args.handle,
        elements,
        about,
        driver_messages,
        print: &|out: &mut dyn Write, format: Format| arguments.print(result == 0, out, format),
    })
}

/// Returns the key of the file descriptor that an argument contains; 0 if the number cannot be a file descriptor.
fn descriptor_key(id: FnId, handle: usize, args: &[u8; MOST_ARGS]) -> u64 {
    let bytes = args.get(id.spec().argument_byte_range(handle)).and_then(|bytes| bytes.last_chunk());
    let fd = bytes.map_or(-1, |bytes| i32::from_le_bytes(*bytes));
    if fd < 0 { 0 } else { live::descriptor_head(fd) }
}
