//! Filters, counts, records, and reports a finding, passes it to the program's own function, and may stop the program.

use super::c_types::{cupeer_finding, cupeer_finding_callback};
use super::held::{self, Question};
use super::say::{self, FindingText};
use super::world::Call;
use crate::driver::questions;
use crate::job::importers::is_own;
use crate::job::python_line::SourceLine;
use crate::log::{self, message, status};
use crate::recorder::item_of;
use crate::settings::{self, Check, LogForm};
use crate::sys::caller::Caller;
use crate::sys::every_call::epoch;
use crate::sys::guard::guarded;
use crate::sys::line::{Line, Short, Tame};
use crate::sys::{arena, pages};
use core::ffi::{CStr, c_void};
use core::fmt::{self, Write};
use core::mem;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_rules::decide::Violation;
use cupeer_rules::{Cache, Rule, Severity};
use cupeer_spec::env::Level;
use cupeer_spec::record;
use cupeer_spec::record::live::Entry;
use cupeer_spec::record::slot::detail;
use cupeer_spec::record::slot::finding::{Confidence, NO_ARGUMENT, Object};

/// How many findings of one rule and caller are reported in full; further ones are counted.
const MOST_ALIKE: u32 = 10;

/// Memory for the texts of a finding, beside the program's stack, which may be small. All zero is a value of it.
struct Scratch {
    message: Line,
    hint: Short<512>,
    json: Line,
    text: Line,
    item: [u8; 2048],
    python: [SourceLine; 2],
}

impl Scratch {
    /// Does something with new memory; nothing where there is none.
    fn with(work: impl FnOnce(&mut Scratch)) {
        let size = size_of::<Scratch>();
        let Ok(place) = pages::new(size, 0) else { return };
        // SAFETY: new memory, all zero, which is a Scratch: empty lines, whose bytes are not initialised anyway. It is
        // unmapped when nobody uses it any more.
        unsafe {
            work(&mut *place.cast::<Scratch>());
            libc::munmap(place.cast(), size);
        }
    }
}

/// When others than the record hear of a finding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// At once.
    Now,
    /// When the process ends, unless the thread follows the call up.
    Later(Question),
}

/// A rule is broken.
pub fn finding(call: &Call, found: &Violation<Entry>, heard: Heard) {
    let &Violation { ref reason, confidence, argument, objects, cache } = found;
    told(call, reason.rule(), confidence, argument, objects, reason, (&reason.hint(), cache), heard);
}

/// No rule is broken, and the call failed.
pub fn explanation(call: &Call, rule: Rule, words: &dyn fmt::Display, hint: &dyn fmt::Display, heard: Heard) {
    told(call, rule, Confidence::Inferred, None, &[], words, (hint, None), heard);
}

#[allow(clippy::too_many_arguments, reason = "what a finding consists of, in one place")]
fn told(
    call: &Call,
    rule: Rule,
    confidence: Confidence,
    argument: Option<usize>,
    objects: &[(u32, Entry)],
    reason: &dyn fmt::Display,
    (hint, cache): (&dyn fmt::Display, Option<Cache>),
    heard: Heard,
) {
    let Some(check) = &settings::get().check else { return };
    let spec = rule.spec();
    let caller = Caller::of(call.caller, call.id, false);
    if check.ignore.contains(rule, caller.library)
        || check.only.as_ref().is_some_and(|only| !only.contains(rule, caller.library))
    {
        return;
    }
    let usual = spec.usual_for(caller.library);
    // What was not recorded is not followed, either, by this process or by others.
    let lacks_calls =
        spec.scope.rests_on_history() && (crate::recorder::has_losses() || status::is_record_lost());
    let (severity, confidence) = match lacks_calls {
        true => (Severity::Note, Confidence::Inferred),
        false => (spec.severity_in(caller.library, cache), confidence),
    };
    let (key, most) = if spec.is_explanation() {
        (u64::from(call.id as u16) << 32 | u64::from(call.result as u32), 1)
    } else {
        // Where the runtime called, whoever called that.
        (caller.library.as_ptr() as u64 ^ (caller.offset as u64) << 20, MOST_ALIKE)
    };
    // What is by design hides nothing that is not, and what is certain of one call is not said of others.
    let kind = (severity as u64) << 48 ^ u64::from(heard != Heard::Now) << 52 ^ (confidence as u64) << 53;
    let before = count(rule, key ^ kind);
    // Whether anything was found is all that the launcher asks: it may be told once.
    if [0, u32::MAX].contains(&before) && severity > Severity::Note && heard == Heard::Now {
        status::found();
    }
    let head = [confidence as u8, severity as u8, argument.map_or(NO_ARGUMENT, |argument| argument as u8), 0];
    if before >= most {
        let mut line = [0u8; 64];
        item_of(call.slot, detail::FINDING, filled(&mut line, &[&head, spec.name().as_bytes()]));
        return stop(check, rule, &caller, None, heard);
    }
    Scratch::with(|scratch| {
        let Scratch { message, hint: room, json, text, item, python } = scratch;
        let _ = write!(Tame(&mut *message), "{reason}");
        if let Some(usual) = usual {
            let _ = write!(message, "; {} does so: {}", usual.library, usual.why);
        } else if let Some(cache) = cache {
            let _ = write!(message, "; {}", cache.why());
        }
        let message = core::str::from_utf8(message.bytes()).unwrap_or("");
        let hint = match (usual, cache) {
            (Some(_), _) => "Nothing to do: that is known of this library.",
            (None, Some(cache)) => cache.hint(),
            (None, None) => {
                let _ = write!(room, "{hint}");
                room.text()
            }
        };
        let chosen = check.error_on.as_ref();
        let counts_as =
            chosen.map_or(severity, |chosen| chosen.severity(Some(rule), caller.library, severity));
        let is_said = match check.level {
            // What comes again at one place, in this process or another, is in the summary with its count.
            Level { severity: least, is_brief: true } => {
                counts_as >= least && before == 0 && status::is_new(hash(rule, call, &caller))
            }
            Level { severity: least, is_brief: false } => counts_as >= least || spec.is_explanation(),
        };
        let is_heard = is_said || heard == Heard::Now && listener().is_some();
        let said = FindingText {
            call,
            rule: spec,
            severity: counts_as,
            confidence,
            argument,
            message,
            hint,
            objects,
            caller: &caller,
            python: SourceLine::of_user(python),
            is_last: before + 1 == most && !spec.is_explanation(),
        };
        keep(&said, &head, item);
        if is_heard {
            let _ = say::json(&said, json);
            let _ = json.push(b"\0");
        }
        if is_said {
            let (words, is_bad) =
                (rendered(&said, check.level.is_brief, json, text), severity > Severity::Note);
            match heard {
                Heard::Later(question) if held::hold(question, is_bad, words) => {}
                // With too many waiting, one that may have been a probe is better than one that is lost.
                Heard::Later(_) => print_found(words, is_bad),
                Heard::Now => print(words),
            }
        }
        if heard == Heard::Now {
            call_back(&said, json.bytes());
        }
        stop(check, rule, &caller, Some(message), heard);
    });
}

/// Bytes one behind the other, as far as there is room.
fn filled<'a>(place: &'a mut [u8], parts: &[&[u8]]) -> &'a [u8] {
    let mut length = 0;
    for (place, byte) in place.iter_mut().zip(parts.iter().copied().flatten()) {
        *place = *byte;
        length += 1;
    }
    &place[..length]
}

/// Puts a finding into the record.
fn keep(said: &FindingText, head: &[u8; 4], item: &mut [u8]) {
    // A long message loses its end, never a part of a character, and leaves the hint whole.
    let rest = head.len() + said.rule.name().len() + said.hint.len() + 2;
    let message = &said.message[..said.message.floor_char_boundary(item.len().saturating_sub(rest))];
    let parts =
        [&head[..], said.rule.name().as_bytes(), b"\0", message.as_bytes(), b"\0", said.hint.as_bytes()];
    if head[1] > Severity::Note as u8 {
        crate::recorder::show();
    }
    item_of(said.call.slot, detail::FINDING, filled(item, &parts));
    for (role, entry) in said.objects {
        let frames = entry.return_addresses();
        item[..size_of::<Object>()].copy_from_slice(record::bytes(&object(*role, entry)));
        for (place, frame) in item[size_of::<Object>()..].chunks_mut(8).zip(frames) {
            place.copy_from_slice(&frame.to_le_bytes());
        }
        item_of(said.call.slot, detail::OBJECT, &item[..size_of::<Object>() + 8 * frames.len()]);
    }
}

/// An entry of the live table as a record has it.
fn object(role: u32, entry: &Entry) -> Object {
    Object {
        role,
        device: entry.device,
        pid: entry.pid,
        tid: entry.tid,
        image: entry.image,
        rank: entry.rank,
        pid_ns: entry.pid_ns,
        started: entry.started,
        address: entry.address,
        bytes: entry.bytes,
        fingerprint: entry.fingerprint,
        monotonic: entry.monotonic,
        uuid: if is_own(entry) { questions::uuid(entry.device) } else { entry.uuid },
        offset: entry.offset,
        library: entry.library,
    }
}

/// How many pairs of a rule and a caller are counted.
const PLACES: usize = 1024;

static COUNTS: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];

fn count_anew() {
    COUNTS.iter().for_each(|count| count.store(0, Relaxed));
}

/// Returns what a rule, a function, and its caller have in common in all processes that run the same program.
fn hash(rule: Rule, call: &Call, caller: &Caller) -> u64 {
    let start = record::live::mix((rule as u64) << 48 ^ (call.id as u64) << 32 ^ caller.offset as u64);
    caller.library.iter().fold(start, |hash, byte| record::live::mix(hash ^ u64::from(*byte)))
}

/// How often a rule was found broken by a caller before.
fn count(rule: Rule, key: u64) -> u32 {
    static KEYS: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
    static EPOCH: AtomicU64 = AtomicU64::new(0);
    let epoch = epoch();
    if EPOCH.swap(epoch, AcqRel) != epoch {
        // A forked child has counted nothing.
        count_anew();
    }
    let key = record::live::mix(key ^ u64::from(rule as u8 + 1) << 56) | 1;
    for i in 0..16 {
        let place = (key as usize).wrapping_add(i) % PLACES;
        let known = KEYS[place].compare_exchange(0, key, AcqRel, Acquire);
        if known.is_ok() || known == Err(key) {
            return COUNTS[place].fetch_add(1, Relaxed);
        }
    }
    // No room: too many to be told.
    u32::MAX
}

/// What is said of it.
fn rendered<'a>(said: &FindingText, is_brief: bool, json: &'a Line, text: &'a mut Line) -> &'a [u8] {
    if settings::get().log == Some(LogForm::Json) {
        let json = json.bytes();
        return &json[..json.len().saturating_sub(1)];
    }
    let _ = if is_brief { say::brief(said, text) } else { say::paragraph(said, text) };
    text.bytes()
}

/// Says it: in the log where there is one, else on stderr.
fn print(words: &[u8]) {
    match settings::get().log {
        Some(form) => {
            let none = if form == LogForm::Json { "null" } else { "" };
            log::finding(core::str::from_utf8(words).unwrap_or(none));
        }
        None => message::paragraph(words),
    }
}

/// The process ends: says what was held back, and is not taken back any more.
#[unsafe(link_section = ".text.startup")]
pub fn say_held() {
    held::each_left(|words, is_bad| guarded(|| print_found(words, is_bad)));
}

/// Prints a finding that was held back, and counts it for the exit status.
fn print_found(words: &[u8], is_bad: bool) {
    if is_bad {
        status::found();
    }
    print(words);
}

/// Who is told, with what is passed on. Replaced, never freed: another thread may be about to call it.
struct Listener {
    callback: cupeer_finding_callback,
    data: *mut c_void,
}
// SAFETY: the data is the program's, which has promised that any thread may pass it on.
unsafe impl Sync for Listener {}

static LISTENER: AtomicPtr<Listener> = AtomicPtr::new(ptr::null_mut());

/// Tells further findings to a function, or to none. Says whether rules are checked.
pub fn listen(callback: cupeer_finding_callback, data: *mut c_void) -> bool {
    if callback.is_some() {
        // Whoever listens from now on has heard of none.
        count_anew();
        crate::recorder::listened();
    }
    // SAFETY: listeners are never freed.
    let known = unsafe { LISTENER.load(Acquire).as_ref() };
    let is_known = |known: &Listener| {
        known.data == data && known.callback.map(|known| known as usize) == callback.map(|new| new as usize)
    };
    // A test suite gives the same function again for each test: that takes no memory.
    if !known.is_some_and(is_known) {
        let listener = arena::keep(Listener { callback, data });
        let listener = listener.map_or(ptr::null_mut(), |listener| ptr::from_ref(listener).cast_mut());
        LISTENER.store(listener, Release);
    }
    settings::get().check.is_some()
}

/// Who listens.
fn listener() -> Option<(unsafe extern "C-unwind" fn(*const cupeer_finding, *mut c_void), *mut c_void)> {
    // SAFETY: listeners are never freed.
    let listener = unsafe { LISTENER.load(Acquire).as_ref() }?;
    Some((listener.callback?, listener.data))
}

fn call_back(said: &FindingText, json: &[u8]) {
    let Some((callback, data)) = listener() else { return };
    Scratch::with(|texts| {
        let mut text = |word: &str| {
            let at = texts.text.bytes().len();
            let _ = texts.text.push(word.as_bytes()).and_then(|()| texts.text.push(b"\0"));
            CStr::from_bytes_until_nul(&texts.text.bytes()[at..]).unwrap_or_default().as_ptr()
        };
        let finding = cupeer_finding {
            size: size_of::<cupeer_finding>(),
            rule: text(said.rule.name()),
            severity: text(said.severity.word()),
            confidence: text(said.confidence.word()),
            function: text(said.call.id.spec().name()),
            result: said.call.result,
            hint: text(said.hint),
            message: text(said.message),
            json: CStr::from_bytes_until_nul(json).unwrap_or_default().as_ptr(),
        };
        let left = Left;
        // SAFETY: the program gave the function for this, with this data; the texts live through the call. If the function does
        // not return, the unwinder runs `left`, which ends the process.
        unsafe { callback(&finding, data) };
        mem::forget(left);
    });
}

/// Stands for a callback that is left by an exception or the end of its thread. Our frames above it must not be left: the
/// thread could not be canceled any more, and the call would never be finished.
struct Left;

impl Drop for Left {
    fn drop(&mut self) {
        message::line(format_args!(
            "aborting: the callback of cupeer_on_finding did not return, but threw an exception or ended its thread"
        ));
        // SAFETY: ends the process, as the header says.
        unsafe { libc::abort() };
    }
}

/// Ends the program, or stops it for a debugger, where that was asked for.
fn stop(check: &Check, rule: Rule, caller: &Caller, message: Option<&str>, heard: Heard) {
    if heard != Heard::Now {
        return;
    }
    let name = rule.spec().name();
    if check.abort_on.contains(rule, caller.library) {
        message::line(format_args!("aborting at {name}: {}", message.unwrap_or("once more")));
        // SAFETY: ends the process, as was asked for.
        unsafe { libc::abort() };
    }
    if check.stop_on.contains(rule, caller.library) {
        // SAFETY: getpid has no preconditions.
        let pid = unsafe { libc::getpid() };
        message::line(format_args!(
            "process {pid} is stopped at {name}; attach with 'gdb -p {pid}', continue with 'kill -CONT {pid}'"
        ));
        // SAFETY: stops all threads of the process until somebody continues it.
        unsafe { libc::kill(pid, libc::SIGSTOP) };
    }
}
