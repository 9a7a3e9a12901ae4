//! Filters, counts, records, and reports a finding, passes it to the program's own function, and may stop the program.

use super::c_types::{cupeer_finding, cupeer_finding_callback};
use super::deferred::{self, ProbeKey};
use super::say::{self, FindingText};
use super::world::CheckedCall;
use crate::driver::queries;
use crate::job::importers::is_own;
use crate::job::python_line::SourceLine;
use crate::log::{self, message, status};
use crate::recorder::append_item_to_call;
use crate::settings::{self, Check, LogForm};
use crate::sys::caller::Caller;
use crate::sys::every_call::recording_epoch;
use crate::sys::guard::guarded;
use crate::sys::line::{LineBuffer, Sanitized, ShortText};
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
use cupeer_spec::env::CheckLevel;
use cupeer_spec::record;
use cupeer_spec::record::live::Entry;
use cupeer_spec::record::slot::detail;
use cupeer_spec::record::slot::finding::{Confidence, FindingObject, NO_ARGUMENT};

/// Maximum number of findings per rule and caller that are reported in full. Further findings are only counted.
const MOST_ALIKE: u32 = 10;

/// Memory for the texts of a finding, which is not on the stack because the program's stack may be small. A value of
/// zero bytes is valid.
struct Scratch {
    message: LineBuffer,
    hint: ShortText<512>,
    json: LineBuffer,
    text: LineBuffer,
    item: [u8; 2048],
    python: [SourceLine; 2],
}

impl Scratch {
    /// Runs `work` with newly mapped memory. Does nothing if there is no memory.
    fn with_new_memory(work: impl FnOnce(&mut Scratch)) {
        let size = size_of::<Scratch>();
        let Ok(place) = pages::map_zeroed(size, 0) else { return };
        // SAFETY: new memory, all zero, which is a Scratch: empty lines, whose bytes need no initialization. It is unmapped
        // after its last use.
        unsafe {
            work(&mut *place.cast::<Scratch>());
            libc::munmap(place.cast(), size);
        }
    }
}

/// Time at which a finding is delivered to the user. The finding is recorded at once.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    Now,
    /// Deliver the finding when the process ends, unless the thread makes the call that follows a probe.
    AtExit(ProbeKey),
}

/// Finding whose message and hint are not formatted yet.
pub struct UnwrittenFinding<'a> {
    pub call: &'a CheckedCall<'a>,
    pub rule: Rule,
    pub confidence: Confidence,
    pub argument: Option<usize>,
    pub objects: &'a [(u32, Entry)],
    pub reason: &'a dyn fmt::Display,
    pub hint: &'a dyn fmt::Display,
    pub cache: Option<Cache>,
    pub delivery: Delivery,
}

/// Emits the violation of a rule.
pub fn emit_violation(call: &CheckedCall, found: &Violation<Entry>, delivery: Delivery) {
    let &Violation { ref reason, confidence, argument, objects, cache } = found;
    let (rule, hint) = (reason.rule(), &reason.hint());
    emit(&UnwrittenFinding { call, rule, confidence, argument, objects, reason, hint, cache, delivery });
}

/// Emits a finding, unless the settings exclude it. If the same place in the program had many findings, only counts it.
pub fn emit(emission: &UnwrittenFinding) {
    let &UnwrittenFinding { call, rule, argument, delivery, .. } = emission;
    let Some(check) = &settings::get().check else { return };
    let caller = Caller::of(call.caller, call.id, false);
    let is_excluded = check.ignore.contains(rule, caller.library)
        || check.only.as_ref().is_some_and(|only| !only.contains(rule, caller.library));
    if is_excluded {
        return;
    }
    let (severity, confidence) = emission.severity_and_confidence(&caller);
    let (key, most) = emission.count_key(&caller, severity, confidence);
    let before = count_finding(rule, key);
    // The launcher only needs to know that there is any finding.
    if [0, u32::MAX].contains(&before) && severity > Severity::Note && delivery == Delivery::Now {
        status::count(|status| &status.findings);
    }
    let head = [confidence as u8, severity as u8, argument.map_or(NO_ARGUMENT, |argument| argument as u8), 0];
    if before >= most {
        let mut line = [0u8; 64];
        let item = join_bytes(&mut line, &[&head, rule.spec().name().as_bytes()]);
        append_item_to_call(call.slot, detail::FINDING, item);
        return stop_if_settings_ask(check, rule, &caller, None, delivery);
    }
    Scratch::with_new_memory(|scratch| {
        let Scratch { message, hint, json, text, item, python } = scratch;
        let (message, hint) = emission.write_message_and_hint(&caller, message, hint);
        let chosen = check.error_on.as_ref();
        let counts_as = chosen.map_or(severity, |chosen| chosen.counted_severity(Some(rule), caller.library, severity));
        let finding = FindingText {
            call,
            rule: rule.spec(),
            severity: counts_as,
            confidence,
            argument,
            message,
            hint,
            objects: emission.objects,
            caller: &caller,
            python: SourceLine::of_user(python),
            is_last: before + 1 == most && !rule.spec().is_explanation(),
        };
        record_finding(&finding, &head, item);
        let should_print = emission.should_print(check, &caller, counts_as, before);
        let has_listener = delivery == Delivery::Now && listener().is_some();
        if should_print || has_listener {
            let _ = say::write_finding_json(&finding, json);
            let _ = json.push(b"\0");
        }
        if should_print {
            let words = write_finding(&finding, check.level.is_brief, json, text);
            print_or_defer(words, severity > Severity::Note, delivery);
        }
        if has_listener {
            call_listener(&finding, json.bytes());
        }
        stop_if_settings_ask(check, rule, &caller, Some(message), delivery);
    });
}

impl UnwrittenFinding<'_> {
    fn severity_and_confidence(&self, caller: &Caller) -> (Severity, Confidence) {
        let spec = self.rule.spec();
        // A rule about earlier calls is unsure if this process, or another one, lost some of them.
        let lacks_calls = spec.scope.rests_on_history() && (crate::recorder::has_losses() || status::is_record_lost());
        match lacks_calls {
            true => (Severity::Note, Confidence::Inferred),
            false => (spec.severity_in(caller.library, self.cache), self.confidence),
        }
    }

    /// Returns the key under which the finding is counted, and the maximum number of findings with this key that are reported in
    /// full.
    fn count_key(&self, caller: &Caller, severity: Severity, confidence: Confidence) -> (u64, u32) {
        let call = self.call;
        let (key, most) = if self.rule.spec().is_explanation() {
            (u64::from(call.id as u16) << 32 | u64::from(call.result as u32), 1)
        } else {
            // For a call from the CUDA runtime, the key is the place in the runtime, whatever code called the runtime.
            (caller.library.as_ptr() as u64 ^ (caller.offset as u64) << 20, MOST_ALIKE)
        };
        // Findings are counted per severity and certainty, so that notes do not use up the limit of errors.
        let is_deferred = u64::from(self.delivery != Delivery::Now);
        let kind = (severity as u64) << 48 ^ is_deferred << 52 ^ (confidence as u64) << 53;
        (key ^ kind, most)
    }

    /// Formats the message and the hint of the finding into the given buffers. Returns both texts.
    fn write_message_and_hint<'t>(
        &self,
        caller: &Caller,
        message: &'t mut LineBuffer,
        hint: &'t mut ShortText<512>,
    ) -> (&'t str, &'t str) {
        let _ = write!(Sanitized(&mut *message), "{}", self.reason);
        let usual = self.rule.spec().exemption_for(caller.library);
        if let Some(usual) = usual {
            let _ = write!(message, "; {} does so: {}", usual.library, usual.why);
        } else if let Some(cache) = self.cache {
            let _ = write!(message, "; {}", cache.why);
        }
        let message = core::str::from_utf8(message.bytes()).unwrap_or("");
        let hint = match (usual, self.cache) {
            (Some(_), _) => "Nothing to do: that is known of this library.",
            (None, Some(cache)) => cache.hint,
            (None, None) => {
                let _ = write!(hint, "{}", self.hint);
                hint.text()
            }
        };
        (message, hint)
    }

    fn should_print(&self, check: &Check, caller: &Caller, counts_as: Severity, before: u32) -> bool {
        match check.level {
            // If a finding repeats at one place, in this process or another, only the summary counts the repetitions.
            CheckLevel { severity: least, is_brief: true } => {
                counts_as >= least && before == 0 && status::is_first_print(finding_hash(self.rule, self.call, caller))
            }
            CheckLevel { severity: least, is_brief: false } => counts_as >= least || self.rule.spec().is_explanation(),
        }
    }
}

/// Prints a finding, or defers the printing.
fn print_or_defer(words: &[u8], is_bad: bool, delivery: Delivery) {
    match delivery {
        Delivery::AtExit(key) if deferred::defer(key, is_bad, words) => {}
        // If the table of deferred findings is full, a finding that may be about a probe is better than a lost one.
        Delivery::AtExit(_) => print_and_count_finding(words, is_bad),
        Delivery::Now => print(words),
    }
}

/// Joins byte strings in `place`, up to its length. Returns the joined bytes.
fn join_bytes<'a>(place: &'a mut [u8], parts: &[&[u8]]) -> &'a [u8] {
    let mut length = 0;
    for (place, byte) in place.iter_mut().zip(parts.iter().copied().flatten()) {
        *place = *byte;
        length += 1;
    }
    &place[..length]
}

/// Adds a finding, and the objects that it is about, to the recording, as details of its call.
fn record_finding(finding: &FindingText, head: &[u8; 4], item: &mut [u8]) {
    // A long message is cut between two characters, so that the hint stays complete.
    let rest = head.len() + finding.rule.name().len() + finding.hint.len() + 2;
    let message = &finding.message[..finding.message.floor_char_boundary(item.len().saturating_sub(rest))];
    let parts = [&head[..], finding.rule.name().as_bytes(), b"\0", message.as_bytes(), b"\0", finding.hint.as_bytes()];
    if head[1] > Severity::Note as u8 {
        crate::recorder::process::give_record_name();
    }
    append_item_to_call(finding.call.slot, detail::FINDING, join_bytes(item, &parts));
    for (role, entry) in finding.objects {
        let frames = entry.return_addresses();
        item[..size_of::<FindingObject>()].copy_from_slice(record::plain_bytes(&to_recorded_object(*role, entry)));
        for (place, frame) in item[size_of::<FindingObject>()..].chunks_mut(8).zip(frames) {
            place.copy_from_slice(&frame.to_le_bytes());
        }
        append_item_to_call(finding.call.slot, detail::OBJECT, &item[..size_of::<FindingObject>() + 8 * frames.len()]);
    }
}

/// Converts an entry of the live table to the form of the record.
fn to_recorded_object(role: u32, entry: &Entry) -> FindingObject {
    FindingObject {
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
        uuid: if is_own(entry) { queries::uuid(entry.device) } else { entry.uuid },
        offset: entry.offset,
        library: entry.library,
    }
}

/// Number of pairs of a rule and a caller that have their own count. Findings of further pairs are recorded without a
/// message.
const PLACES: usize = 1024;

static COUNTS: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];

fn reset_counts() {
    COUNTS.iter().for_each(|count| count.store(0, Relaxed));
}

/// Returns a hash of a rule, a function, and the caller. It is the same in all processes that run the same program.
fn finding_hash(rule: Rule, call: &CheckedCall, caller: &Caller) -> u64 {
    let start = record::live::mix_bits((rule as u64) << 48 ^ (call.id as u64) << 32 ^ caller.offset as u64);
    caller.library.iter().fold(start, |hash, byte| record::live::mix_bits(hash ^ u64::from(*byte)))
}

/// Counts a finding under a key, and returns the number of earlier findings with this key; `u32::MAX` if there is no room for the
/// key.
fn count_finding(rule: Rule, key: u64) -> u32 {
    static KEYS: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];
    static EPOCH: AtomicU64 = AtomicU64::new(0);
    let epoch = recording_epoch();
    if EPOCH.swap(epoch, AcqRel) != epoch {
        // A forked child starts with empty counts.
        reset_counts();
    }
    let key = record::live::mix_bits(key ^ u64::from(rule as u8 + 1) << 56) | 1;
    for i in 0..16 {
        let place = (key as usize).wrapping_add(i) % PLACES;
        let known = KEYS[place].compare_exchange(0, key, AcqRel, Acquire);
        if known.is_ok() || known == Err(key) {
            return COUNTS[place].fetch_add(1, Relaxed);
        }
    }
    u32::MAX
}

/// Writes a finding in the form of the log or of stderr. Returns the written bytes.
fn write_finding<'a>(
    finding: &FindingText,
    is_brief: bool,
    json: &'a LineBuffer,
    text: &'a mut LineBuffer,
) -> &'a [u8] {
    if settings::get().log == Some(LogForm::Json) {
        let json = json.bytes();
        return &json[..json.len().saturating_sub(1)];
    }
    let _ =
        if is_brief { say::write_brief_finding(finding, text) } else { say::write_finding_paragraph(finding, text) };
    text.bytes()
}

/// Prints a finding to the log, or without a log to stderr.
fn print(words: &[u8]) {
    match settings::get().log {
        Some(form) => {
            let none = if form == LogForm::Json { "null" } else { "" };
            log::log_finding(core::str::from_utf8(words).unwrap_or(none));
        }
        None => message::print_paragraph(words),
    }
}

/// Prints the deferred findings at the end of the process, when no follow-up call can come any more.
#[unsafe(link_section = ".text.startup")]
pub fn print_deferred() {
    deferred::take_each_without_follow_up(|words, is_bad| guarded(|| print_and_count_finding(words, is_bad)));
}

/// Prints a deferred finding, and counts it for the exit status.
fn print_and_count_finding(words: &[u8], is_bad: bool) {
    if is_bad {
        status::count(|status| &status.findings);
    }
    print(words);
}

/// Function of the program that receives findings. Replaced, but never freed, because another thread may be about to call it.
struct FindingListener {
    callback: cupeer_finding_callback,
    data: *mut c_void,
}
// SAFETY: the data belongs to the program, which promises that any thread may pass it on.
unsafe impl Sync for FindingListener {}

static LISTENER: AtomicPtr<FindingListener> = AtomicPtr::new(ptr::null_mut());

/// Passes all further findings to `callback`, or to none. Returns true if rules are checked.
pub fn set_listener(callback: cupeer_finding_callback, data: *mut c_void) -> bool {
    if callback.is_some() {
        // The new listener has received nothing yet.
        reset_counts();
        crate::recorder::note_listener_added();
    }
    // SAFETY: listeners are never freed.
    let known = unsafe { LISTENER.load(Acquire).as_ref() };
    let is_same = |known: &FindingListener| {
        known.data == data && known.callback.map(|known| known as usize) == callback.map(|new| new as usize)
    };
    // A test suite registers the same function for each test: that must take no memory.
    if !known.is_some_and(is_same) {
        let listener = arena::store_permanently(FindingListener { callback, data });
        let listener = listener.map_or(ptr::null_mut(), |listener| ptr::from_ref(listener).cast_mut());
        LISTENER.store(listener, Release);
    }
    settings::get().check.is_some()
}

fn listener() -> Option<(unsafe extern "C-unwind" fn(*const cupeer_finding, *mut c_void), *mut c_void)> {
    // SAFETY: listeners are never freed.
    let listener = unsafe { LISTENER.load(Acquire).as_ref() }?;
    Some((listener.callback?, listener.data))
}

fn call_listener(finding: &FindingText, json: &[u8]) {
    let Some((callback, data)) = listener() else { return };
    Scratch::with_new_memory(|texts| {
        let mut text = |word: &str| {
            let at = texts.text.bytes().len();
            let _ = texts.text.push(word.as_bytes()).and_then(|()| texts.text.push(b"\0"));
            CStr::from_bytes_until_nul(&texts.text.bytes()[at..]).unwrap_or_default().as_ptr()
        };
        let finding = cupeer_finding {
            size: size_of::<cupeer_finding>(),
            rule: text(finding.rule.name()),
            severity: text(finding.severity.word()),
            confidence: text(finding.confidence.word()),
            function: text(finding.call.id.spec().name()),
            result: finding.call.result,
            hint: text(finding.hint),
            message: text(finding.message),
            json: CStr::from_bytes_until_nul(json).unwrap_or_default().as_ptr(),
        };
        let left = AbortOnUnwind;
        // SAFETY: the program gave the function for this, with this data; the texts live through the call. If the function does
        // not return, the unwinder runs `left`, which ends the process.
        unsafe { callback(&finding, data) };
        mem::forget(left);
    });
}

/// Guard that ends the process if a C++ exception, or the end of the thread, unwinds a callback of the program. Our frames that
/// called the callback must not be unwound: the thread could no longer be canceled, and the call would never be finished.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        message::print_line(format_args!(
            "aborting: the callback of cupeer_on_finding did not return, but threw an exception or ended its thread"
        ));
        // SAFETY: ends the process, as the header says.
        unsafe { libc::abort() };
    }
}

/// Aborts the program, or stops it for a debugger, if the settings ask for that.
fn stop_if_settings_ask(check: &Check, rule: Rule, caller: &Caller, message: Option<&str>, delivery: Delivery) {
    if delivery != Delivery::Now {
        return;
    }
    let name = rule.spec().name();
    if check.abort_on.contains(rule, caller.library) {
        message::print_line(format_args!("aborting at {name}: {}", message.unwrap_or("once more")));
        // SAFETY: ends the process, as the settings ask.
        unsafe { libc::abort() };
    }
    if check.stop_on.contains(rule, caller.library) {
        let pid = std::process::id();
        message::print_line(format_args!(
            "process {pid} is stopped at {name}; attach with 'gdb -p {pid}', continue with 'kill -CONT {pid}'"
        ));
        // SAFETY: stops all threads of the process until a signal continues it.
        unsafe { libc::kill(pid as libc::pid_t, libc::SIGSTOP) };
    }
}
