//! The rules, decided at the call: after the driver has answered, in the thread that called.
//!
//! What belongs here: which rules are asked about a call. What each needs to know is in `facts`; how each is decided, in
//! `arguments`, `pointers`, `handles` and `peers` for calls that failed, in `succeeded` for those that did not. What
//! becomes of a finding is in `emit` and `say`. What a rule is, and every word of it, is in `cupeer_rules`.
//!
//! Nothing here changes what the program sees. A call that succeeds is looked at only where it exports, opens, enables or
//! ends something.

mod arguments;
mod emit;
mod explain;
mod facts;
mod handles;
mod peers;
mod pointers;
mod say;
mod succeeded;

pub use emit::listen;
pub use facts::{Call, importers};

use cupeer_rules::reason::Reason;
use cupeer_rules::{RULES, Rule};
use cupeer_spec::record::live::Entry;
use cupeer_spec::record::slot::finding::Confidence;

/// What was found, for as long as it is looked at.
pub struct Found<'a> {
    /// What, with its values.
    pub reason: Reason<'a>,
    /// How sure it is.
    pub confidence: Confidence,
    /// The argument that it is about; empty for none.
    pub argument: &'static str,
    /// What it is about: the role of each, and what the live table has of it.
    pub objects: &'a [(u32, Entry)],
}

/// What came of asking a rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It is broken, and that was handed over.
    Broken,
    /// It is not.
    Held,
    /// What it depends on is not known.
    Unknown,
}

/// Takes what was found.
pub type Report<'a> = &'a mut dyn FnMut(&Found);

impl Verdict {
    /// Broken, after handing over why.
    pub fn broken(report: Report, reason: Reason, confidence: Confidence, argument: &'static str) -> Self {
        report(&Found { reason, confidence, argument, objects: &[] });
        Verdict::Broken
    }

    /// Held or broken by what is known for sure.
    pub fn when(is_broken: bool, report: Report, argument: &'static str, reason: Reason) -> Self {
        if is_broken { Verdict::broken(report, reason, Confidence::Certain, argument) } else { Verdict::Held }
    }
}

/// Looks at a call that has returned. For where rules are checked.
#[cold]
#[inline(never)]
pub fn look(call: &Call) {
    if call.result == 0 {
        succeeded::look(call, &mut |found| emit::finding(call, found));
        return;
    }
    for rule in RULES.iter().filter(|rule| rule.explains(call.id, call.result)) {
        if decide(rule.id, call, &mut |found| emit::finding(call, found)) == Verdict::Broken {
            return;
        }
    }
    if !call.id.spec().is_over(call.result) {
        explain::failure(call);
    }
}

/// Looks at a close that succeeded, although nothing was open at its address.
#[cold]
#[inline(never)]
pub fn look_at_unknown_close(call: &Call) {
    succeeded::closed_unknown(call, &mut |found| emit::finding(call, found));
}

/// Asks a rule that may explain why the call failed.
fn decide(rule: Rule, call: &Call, report: Report) -> Verdict {
    match rule {
        Rule::UsedAfterFork => arguments::used_after_fork(call, report),
        Rule::NotInitialized => arguments::not_initialized(report),
        Rule::DriverShuttingDown => Verdict::when(true, report, "", Reason::DriverShuttingDown),
        Rule::ContextDestroyed => arguments::context_destroyed(call, report),
        Rule::NoCurrentContext => arguments::no_current_context(report),
        Rule::NullArgument => arguments::null_argument(call, report),
        Rule::DeviceOutOfRange => arguments::device_out_of_range(call, report),
        Rule::PeerAttributeUnknown => arguments::attribute_unknown(call, report),
        Rule::AtomicOperations => arguments::atomic_operations(call, report),
        Rule::PeerSameDevice => peers::same_device(call, report),
        Rule::PeerFlags => {
            let flags = call.number("Flags") as u32;
            Verdict::when(flags != 0, report, "Flags", Reason::PeerFlags { flags })
        }
        Rule::PeerContextInvalid => peers::context_invalid(call, report),
        Rule::PeerAlreadyEnabled => peers::already_enabled(call, report),
        Rule::PeerNotEnabled => peers::not_enabled(call, report),
        Rule::PeerUnreachable => peers::unreachable(call, report),
        Rule::PeerLimit => peers::limit(report),
        Rule::IpcMemoryKind => pointers::memory_kind(call, report),
        Rule::IpcPointerUnknown => pointers::unknown(call, report),
        Rule::IpcReexport => pointers::reexport(call, report),
        Rule::IpcEventFlags => pointers::event_flags(call, report),
        Rule::IpcClosedTwice => pointers::closed_twice(call, report),
        Rule::IpcCloseAddress => pointers::close_address(call, report),
        Rule::IpcFreeImport => pointers::free_import(call, report),
        Rule::IpcFlags => {
            let flags = call.number("Flags") as u32;
            Verdict::when(flags != 1, report, "Flags", Reason::IpcFlags { flags, is_taken: false })
        }
        Rule::IpcOpenInExportingProcess => handles::own(call, report),
        Rule::IpcEqualPids => handles::equal_pids(call, report),
        Rule::IpcHandleKind => handles::kind(call, report),
        Rule::IpcOpenAfterFree => handles::after_free(call, report),
        Rule::IpcExporterGone => handles::exporter_gone(call, report),
        Rule::IpcSecondContext => handles::second_context(call, report),
        Rule::IpcAlreadyMapped => handles::already_mapped(call, report),
        Rule::IpcDeviceHidden => handles::device_hidden(call, report),
        Rule::IpcDevicesApart => handles::devices_apart(call, report),
        Rule::IpcDamagedHandle => handles::damaged(call, report),
        Rule::IpcUnknownHandle => handles::unknown(call, report),
        // These say nothing about a call that failed, or are not checked.
        Rule::IpcInteriorPointer
        | Rule::IpcSecondLibrary
        | Rule::IpcOffsetNotAdded
        | Rule::IpcDeviceOrder
        | Rule::IpcFreedWhileOpen
        | Rule::IpcContextEndedWhileOpen
        | Rule::IpcEventDestroyedWhileOpen
        | Rule::IpcNeverClosed
        | Rule::IpcFallback
        | Rule::RanksDiffer
        | Rule::DriverUndocumented
        | Rule::DriverContradicts
        | Rule::CallFailed
        | Rule::IpcAddressReused
        | Rule::IpcCloseInFlight
        | Rule::PeerOneWay
        | Rule::PeerNeverEnabled
        | Rule::PeerData
        | Rule::VmmAccess
        | Rule::PoolAccess
        | Rule::VmmHandleType
        | Rule::FabricChannel
        | Rule::FdPassing
        | Rule::FabricLifetime
        | Rule::FdLeak => Verdict::Unknown,
    }
}
