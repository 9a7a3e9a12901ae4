//! The steps after the driver returned, for calls that open or end something, that failed, or whose slot has details elsewhere: query the
//! driver, look for excuses, judge the call, tell the job, and note the time.

use super::{Arguments, early};
use crate::check;
use crate::driver::facts::{self, DriverFacts};
use crate::driver::queries;
use crate::driver::{batches, counted, model};
use crate::fault::inject::{self, Fault};
use crate::job::ledger::{self, BeforeCall, CallOrigin};
use crate::job::{tombstones, uses};
use crate::recorder::{self, CallRecord, Detail, Stored, exhausted};
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

/// A call with its result, from the driver or from a fault.
pub struct CompletedCall<'a> {
    pub id: FnId,
    /// Its return address.
    pub caller: usize,
    /// The result that the program gets.
    pub result: i32,
    pub driver_messages: &'a str,
    pub arguments: &'a dyn Arguments,
    pub fault: Option<&'a Fault<'a>>,
    pub before: &'a BeforeCall,
    /// The rules judged it before it was forwarded.
    pub is_judged: bool,
}

impl<'a> CompletedCall<'a> {
    /// A call without messages of the driver and without a fault, whose `before` holds nothing.
    pub fn plain(
        id: FnId,
        caller: usize,
        result: i32,
        arguments: &'a dyn Arguments,
        before: &'a BeforeCall,
    ) -> Self {
        CompletedCall {
            id,
            caller,
            result,
            driver_messages: "",
            arguments,
            fault: None,
            before,
            is_judged: false,
        }
    }

    /// The call in the form in which the rules decide about it.
    fn decided<'b>(&self, args: &'b Stored, elements: &'b [u8]) -> decide::Call<'b> {
        decide::Call {
            function: self.id,
            result: self.result,
            args: &args.bytes,
            shape: args.shape,
            elements,
        }
    }
}

/// Puts into the record what faults did to a call, or are about to do.
#[cold]
#[inline(never)]
pub fn tell(fault: &Fault, record: &CallRecord) {
    if record.is_recorded() {
        fault.each_news(|hit, name| record.add_hit(hit, name));
    }
}

/// Runs these steps. For use in `guarded`.
#[cold]
#[inline(never)]
pub fn follow(record: &CallRecord, call: &CompletedCall) {
    let &CompletedCall { id, result, fault, before, .. } = call;
    // The driver's own result decides what may be asked of the driver, and what is open now.
    let (for_driver, for_job) =
        fault.map_or((result, result), |fault| (fault.result_for_driver(), fault.result_for_ledger()));
    if let Some(fault) = fault {
        tell(fault, record);
    }
    let args = record.arguments(result == 0);
    if queries::is_ready(id, for_driver) {
        recorder::describe_devices();
    }
    let ended = facts::ended(id, &args.bytes, for_driver, before.context);
    counted::context_ended(ended);
    let is_release = result == 0 && fault.is_none() && id.spec().releases_context();
    if is_release && ended == 0 && call.driver_messages.is_empty() {
        if before.context == 0 {
            // It may have ended a context: in a process that shares nothing, the driver is not asked.
            recorder::world_changed();
        }
        recorder::speed::note();
        return;
    }
    let (added, about) = add_details(record, call, &args, for_driver, ended);
    let elements = added.array();
    let is_judged = is_to_judge(call, &args);
    if is_judged {
        with_checked(record, call, &args, elements, about, check::judge);
    }
    let has_other_output = fault.is_some_and(|fault| fault.has_other_output);
    let done = decide::Call { result: for_job, ..call.decided(&args, elements) };
    model::note(&done, about.home, !has_other_output);
    if for_job == 0
        && let Some((start, bytes)) = model::mapped_shareable(&done)
    {
        uses::watch(start, bytes);
    }
    early::followed(id);
    if recorder::is_tracked(id) && !has_other_output {
        update_job(record, call, &args, for_job, about, is_judged);
    }
    let changes =
        id.spec().shares() || id.spec().gives_back() || id.spec().is_virtual() || id.spec().changes_pools();
    if for_job == 0 && changes {
        recorder::world_changed();
    }
    if result != 0 && fault.is_none() {
        record.note_failure(result, &args);
    }
    recorder::speed::note();
}

/// Adds the details of a call to its record: the rest of its arguments, the driver's answers and messages. Returns them, and the
/// answers.
fn add_details(
    record: &CallRecord,
    call: &CompletedCall,
    args: &Stored,
    for_driver: i32,
    ended: u64,
) -> (Detail, DriverFacts) {
    let &CompletedCall { id, caller, result, fault, before, .. } = call;
    let mut about = DriverFacts::default();
    let added = record.add(|detail| {
        let has_stack = record.add_rest(result, &args.bytes, detail);
        call.arguments.more(detail, result == 0);
        let note = &mut |tag, bytes: &[u8]| detail.item(tag, 0, bytes);
        about = facts::ask(id, &args.bytes, for_driver, (before.context, ended), note);
        let is_real = !fault.is_some_and(|fault| fault.is_altered);
        if result == Code::OUT_OF_MEMORY as i32 && id.spec().library == Library::Cuda {
            exhausted::note_memory(is_real, note);
        }
        if ended != 0 && id.spec().releases_context() && !has_stack {
            // Only a release that ended its context has a call stack.
            detail.frames(caller);
        }
        if !call.driver_messages.is_empty() {
            detail.item(detail::MESSAGE, 0, call.driver_messages.as_bytes());
        }
    });
    (added, about)
}

/// True if the rules judge a call: one of the driver's functions, with the driver's own result, that no fault excuses.
fn is_to_judge(call: &CompletedCall, args: &Stored) -> bool {
    settings::get().check.is_some()
        && !call.is_judged
        && call.id.spec().library == Library::Cuda
        && (call.result != 0 || recorder::is_tracked(call.id))
        && !call.fault.is_some_and(|fault| fault.is_altered)
        && !inject::is_excused(call.id, &args.bytes)
}

/// Updates the objects that the job knows to be open or exported.
fn update_job(
    record: &CallRecord,
    call: &CompletedCall,
    args: &Stored,
    for_job: i32,
    about: DriverFacts,
    is_judged: bool,
) {
    let (id, exported) = (call.id, call.id.spec().exports());
    let head = match exported.filter(|_| is_judged) {
        Some(shared) if shared.object.is_granted() => descriptor(id, shared.handle, &args.bytes),
        Some(_) => args.head(),
        None => 0,
    };
    let origin = CallOrigin { caller: call.caller, start: record.start(), head, about };
    ledger::after(id, &args.bytes, for_job, call.before, &origin);
    let is_memory = exported.is_some_and(|shared| matches!(shared.object, Object::Memory | Object::Pointer));
    if let Some(memory) = about.memory.filter(|_| for_job == 0 && is_memory) {
        early::exported(memory, record.start());
    }
}

/// Returns true if a rule explains a failed call. Memory that is gone explains it only if the driver confirms that. For use in
/// `guarded`.
pub fn is_explained(record: &CallRecord, call: &CompletedCall) -> bool {
    let args = record.arguments(false);
    let mut is_doubtful = false;
    let mut examine = |_, start, bytes| {
        is_doubtful |= tombstones::first(start, bytes).is_some() && !tombstones::is_used(start, bytes)
    };
    call.decided(&args, &[]).used().for_each(|(argument, start, bytes)| examine(argument, start, bytes));
    if let Some(batch) = call.id.spec().batch() {
        batches::each_range(call.id, &args.bytes, batch, &mut examine);
    }
    !is_doubtful
        && with_checked(record, call, &args, &[], DriverFacts::default(), check::is_explained)
        && !inject::is_excused(call.id, &args.bytes)
}

/// Reports a finding about a recorded call that is not forwarded yet, if the rules would explain a failure of it. Returns true if they
/// would. For use in `guarded`.
pub fn judge_before(record: &CallRecord, call: &CompletedCall) -> bool {
    let args = record.arguments(false);
    let is_explained = if call.id.spec().is_virtual() {
        let named = call.decided(&args, &[]);
        model::note_begin(&named);
        model::names_released(&named) && !inject::is_excused(call.id, &args.bytes)
    } else {
        is_explained(record, call)
    };
    if is_explained {
        with_checked(record, call, &args, &[], DriverFacts::default(), check::judge);
    }
    is_explained
}

/// Hands a call to the rules.
fn with_checked<T>(
    record: &CallRecord,
    call: &CompletedCall,
    args: &Stored,
    elements: &[u8],
    about: DriverFacts,
    work: fn(&check::Call) -> T,
) -> T {
    let &CompletedCall { id, caller, result, before, driver_messages, arguments, .. } = call;
    work(&check::Call {
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
            recorder::speed::monotonic(record.start())
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

/// Returns the key of an exported file descriptor, by its number; 0 if there is none.
fn descriptor(id: FnId, handle: usize, args: &[u8; MOST_ARGS]) -> u64 {
    let bytes = args.get(id.spec().place(handle)).and_then(|bytes| bytes.last_chunk());
    let fd = bytes.map_or(-1, |bytes| i32::from_le_bytes(*bytes));
    if fd < 0 { 0 } else { live::descriptor_head(fd) }
}
