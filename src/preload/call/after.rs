//! The steps after the driver returned, for calls that open or end something, that failed, or whose slot has details
//! elsewhere: query the driver, look for excuses, judge the call, tell the job, and note the time.

use super::early;
use crate::check;
use crate::driver::facts::{self, DriverFacts};
use crate::driver::questions;
use crate::driver::{batches, counted, model};
use crate::fault::inject::{self, Fault};
use crate::job::ledger::{self, BeforeCall, CallOrigin};
use crate::job::{gone, uses};
use crate::recorder::{self, Detail, Elements, Recorded, Stored, exhausted};
use crate::settings;
use core::cell::Cell;
use core::fmt::{self, Write};
use cupeer_rules::decide;
use cupeer_spec::effect::Object;
use cupeer_spec::function::{FnId, Library};
use cupeer_spec::record::live;
use cupeer_spec::record::slot::{MOST_ARGS, detail};
use cupeer_spec::results::Result as Code;
use cupeer_spec::value::Format;

/// A call that the driver has answered, or a rule of faults in its place.
pub struct Answered<'a> {
    pub id: FnId,
    /// Its return address.
    pub caller: usize,
    /// What the program gets.
    pub result: i32,
    pub driver_messages: &'a str,
    pub print: &'a dyn Fn(&mut dyn Write, Format) -> fmt::Result,
    /// Adds what of its arguments does not fit into its slot.
    pub more: &'a dyn Fn(&mut Detail),
    pub fault: Option<&'a Fault<'a>>,
    pub before: &'a BeforeCall,
    /// Whether what it breaks was reported before it was forwarded.
    pub is_judged: bool,
}

/// Puts into the record what rules of faults have done to a call, or are about to do.
#[cold]
#[inline(never)]
pub fn tell(fault: &Fault, record: &Recorded) {
    if record.was_kept() {
        fault.each_news(|hit, name| record.hit(hit, name));
    }
}

/// Runs these steps. For use in `guarded`.
#[cold]
#[inline(never)]
pub fn follow(record: &Recorded, call: &Answered) {
    let &Answered { id, caller, result, fault, before, .. } = call;
    // What the driver may be asked follows from what it answered, and so does what is open now.
    let (for_driver, for_ledger) =
        fault.map_or((result, result), |fault| (fault.result_for_driver(), fault.result_for_ledger()));
    if let Some(fault) = fault {
        tell(fault, record);
    }
    let args = record.arguments(result == 0);
    if questions::is_ready(id, for_driver) {
        recorder::describe_devices();
    }
    let ended = facts::ended(id, &args.bytes, for_driver, before.context);
    counted::context_ended(ended);
    let is_release = result == 0 && fault.is_none() && id.spec().releases_context();
    if is_release && ended == 0 && call.driver_messages.is_empty() {
        if before.context == 0 {
            // It may have ended one all the same: where nothing is shared, nobody asks.
            recorder::world_changed();
        }
        recorder::note_time();
        return;
    }
    let (mut elements, mut about) = (Elements::default(), DriverFacts::default());
    record.add(|detail| {
        let has_stack = record.add_rest(result, &args.bytes, detail);
        (call.more)(detail);
        elements = detail.array();
        let note = &mut |tag, bytes: &[u8]| detail.item(tag, 0, bytes);
        about = facts::ask(id, &args.bytes, for_driver, (before.context, ended), note);
        let is_real = !fault.is_some_and(|fault| fault.is_altered);
        if result == Code::OUT_OF_MEMORY as i32 && id.spec().library == Library::Cuda {
            exhausted::look(is_real, note);
        }
        if ended != 0 && id.spec().releases_context() && !has_stack {
            // Of those that changed nothing, nobody wants to know where they were.
            detail.frames(caller);
        }
        if !call.driver_messages.is_empty() {
            detail.item(detail::MESSAGE, 0, call.driver_messages.as_bytes());
        }
    });
    // The rules are about the driver's functions.
    let is_judged = settings::get().check.is_some()
        && !call.is_judged
        && id.spec().library == Library::Cuda
        && (result != 0 || recorder::is_tracked(id))
        && !fault.is_some_and(|fault| fault.is_altered)
        && !inject::is_excused(id, &args.bytes);
    if is_judged {
        check::look(&checked(record, call, &args, elements.bytes(), about));
    }
    let has_other_output = fault.is_some_and(|fault| fault.has_other_output);
    let elements = elements.bytes();
    let done =
        decide::Call { function: id, result: for_ledger, args: &args.bytes, shape: args.shape, elements };
    model::note(&done, about.home, !has_other_output);
    if for_ledger == 0
        && let Some((start, bytes)) = model::mapped_shareable(&done)
    {
        uses::watch(start, bytes);
    }
    early::followed(id);
    if recorder::is_tracked(id) && !has_other_output {
        let exported = id.spec().exports().filter(|_| is_judged);
        let head = match exported {
            Some(shared) if shared.object.is_granted() => descriptor(id, shared.handle, &args.bytes),
            Some(_) => args.head(),
            None => 0,
        };
        ledger::after(
            id,
            &args.bytes,
            for_ledger,
            before,
            &CallOrigin { caller, start: record.start(), head, about },
        );
        let is_memory = |object| matches!(object, Object::Memory | Object::Pointer);
        let exports = for_ledger == 0 && id.spec().exports().is_some_and(|shared| is_memory(shared.object));
        if let Some(memory) = about.memory.filter(|_| exports) {
            early::exported(memory, record.start());
        }
    }
    let changes =
        id.spec().shares() || id.spec().gives_back() || id.spec().is_virtual() || id.spec().changes_pools();
    if for_ledger == 0 && changes {
        recorder::world_changed();
    }
    if result != 0 && fault.is_none() {
        record.failed(result, &args);
    }
    recorder::note_time();
}

/// Whether a rule explains a failed call. Memory that is gone explains it only if the driver confirms that. For use in `guarded`.
pub fn is_explained(record: &Recorded, call: &Answered) -> bool {
    let args = record.arguments(false);
    let mut is_doubtful = false;
    let mut look =
        |_, start, bytes| is_doubtful |= gone::first(start, bytes).is_some() && !gone::is_used(start, bytes);
    let judged = decide::Call {
        function: call.id,
        result: call.result,
        args: &args.bytes,
        shape: args.shape,
        elements: &[],
    };
    judged.used().for_each(|(argument, start, bytes)| look(argument, start, bytes));
    if let Some(batch) = call.id.spec().batch() {
        batches::each_range(call.id, &args.bytes, batch, &mut look);
    }
    if is_doubtful {
        return false;
    }
    let is_excused = || inject::is_excused(call.id, &args.bytes);
    check::is_explained(&checked(record, call, &args, &[], DriverFacts::default())) && !is_excused()
}

/// Reports what would explain a failure of a call that is recorded and not forwarded yet. Returns whether anything does. For use in
/// `guarded`.
pub fn judge_before(record: &Recorded, call: &Answered) -> bool {
    let args = record.arguments(false);
    let is_explained = if call.id.spec().is_virtual() {
        let &Answered { id: function, result, .. } = call;
        let named = decide::Call { function, result, args: &args.bytes, shape: args.shape, elements: &[] };
        model::note_begin(&named);
        model::names_released(&named) && !inject::is_excused(function, &args.bytes)
    } else {
        is_explained(record, call)
    };
    if is_explained {
        check::look(&checked(record, call, &args, &[], DriverFacts::default()));
    }
    is_explained
}

/// A call as the rules look at it.
fn checked<'a>(
    record: &Recorded,
    call: &'a Answered,
    args: &'a Stored,
    elements: &'a [u8],
    about: DriverFacts,
) -> check::Call<'a> {
    let &Answered { id, caller, result, before, driver_messages, print, .. } = call;
    check::Call {
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
        print,
    }
}

/// What tells an exported descriptor by its number; 0 where it is none.
fn descriptor(id: FnId, handle: usize, args: &[u8; MOST_ARGS]) -> u64 {
    let bytes = args.get(id.spec().place(handle)).and_then(|bytes| bytes.last_chunk());
    let fd = bytes.map_or(-1, |bytes| i32::from_le_bytes(*bytes));
    if fd < 0 { 0 } else { live::descriptor_head(fd) }
}
