//! Rules that the arguments, the thread and the process decide.

use super::facts::Call;
use super::{Report, Verdict};
use crate::driver::questions;
use crate::sys::elf;
use crate::sys::environment;
use cupeer_rules::reason::Reason;
use cupeer_spec::abi::CUdevice_P2PAttribute;
use cupeer_spec::function::FnId;
use cupeer_spec::record::slot::finding::Confidence;
use cupeer_spec::results::Result;

const NOT_INITIALIZED: i32 = Result::NOT_INITIALIZED as i32;

/// The process was forked from one that had initialised the driver.
pub fn used_after_fork(_: &Call, report: Report) -> Verdict {
    let Some((parent, confidence)) = questions::was_initialized_before_fork() else { return Verdict::Held };
    // SAFETY: getpid has no preconditions.
    let pid = unsafe { libc::getpid() as u32 };
    Verdict::broken(report, Reason::UsedAfterFork { pid, parent }, confidence, "")
}

/// cuInit was not called.
pub fn not_initialized(report: Report) -> Verdict {
    match questions::current() {
        (NOT_INITIALIZED, _) => {
            let reason = Reason::NotInitialized { is_forked: elf::is_forked() };
            Verdict::broken(report, reason, Confidence::Certain, "")
        }
        _ => Verdict::Held,
    }
}

/// The current context is not there any more.
pub fn context_destroyed(call: &Call, report: Report) -> Verdict {
    let (result, context) = questions::current();
    // Where no other context is named, the driver can mean this one alone.
    let is_alone = !call.id.spec().args.iter().any(|arg| arg.name == "peerContext");
    let is_gone = result == 0 && context != 0 && (is_alone || questions::is_current_destroyed());
    Verdict::when(is_gone, report, "", Reason::ContextDestroyed { context })
}

/// No context is current.
pub fn no_current_context(report: Report) -> Verdict {
    let (result, context) = questions::current();
    // SAFETY: gettid has no preconditions.
    let tid = unsafe { libc::syscall(libc::SYS_gettid) as u32 };
    let others = questions::has_described();
    Verdict::when(result == 0 && context == 0, report, "", Reason::NoCurrentContext { tid, others })
}

/// A pointer is NULL. That of memory has a rule of its own.
pub fn null_argument(call: &Call, report: Report) -> Verdict {
    let event = (call.id == FnId::cuIpcGetEventHandle && call.number("event") == 0).then_some("event");
    match call.null().or(event) {
        Some(name) => Verdict::when(true, report, name, Reason::NullArgument { name }),
        None => Verdict::Held,
    }
}

/// A device is none.
pub fn device_out_of_range(call: &Call, report: Report) -> Verdict {
    let Some(count) = questions::device_count() else { return Verdict::Unknown };
    let names: [&'static str; 2] =
        if call.id == FnId::cuDeviceCanAccessPeer { ["dev", "peerDev"] } else { ["srcDevice", "dstDevice"] };
    for name in names {
        let device = call.int(name);
        if !(0..count).contains(&device) {
            with_variable(b"CUDA_VISIBLE_DEVICES", |value| {
                let visible = value.and_then(|value| core::str::from_utf8(value).ok());
                let reason = Reason::DeviceOutOfRange { name, device, count, visible };
                Verdict::broken(&mut *report, reason, Confidence::Certain, name);
            });
            return Verdict::Broken;
        }
    }
    Verdict::Held
}

/// Hands over the value of a variable of the environment as it is now; cut where it is long, with question marks for
/// what is not ASCII.
pub fn with_variable(name: &[u8], mut work: impl FnMut(Option<&[u8]>)) {
    let mut kept = [0u8; 128];
    let mut length = None;
    environment::each(|variable| {
        let value = variable.strip_prefix(name).and_then(|rest| rest.strip_prefix(b"="));
        if let (Some(value), None) = (value, length) {
            let fits = value.len().min(kept.len());
            for (place, byte) in kept.iter_mut().zip(value) {
                *place = if byte.is_ascii() { *byte } else { b'?' };
            }
            if fits < value.len() {
                kept[fits - 3..].copy_from_slice(b"...");
            }
            length = Some(fits);
        }
    });
    work(length.map(|length| &kept[..length]));
}

/// The attribute is none.
pub fn attribute_unknown(call: &Call, report: Report) -> Verdict {
    let attribute = call.int("attrib");
    let is_unknown = CUdevice_P2PAttribute(attribute).name().is_none();
    Verdict::when(is_unknown, report, "attrib", Reason::PeerAttributeUnknown { attribute })
}

/// No operations, or one that is none.
pub fn atomic_operations(call: &Call, report: Report) -> Verdict {
    let count = call.number("count") as u32;
    let operation = call.operation;
    let is_broken = count == 0 || operation.is_some() || call.words.contains("CUatomicOperation");
    let argument = if count == 0 { "count" } else { "operations" };
    Verdict::when(is_broken, report, argument, Reason::AtomicOperations { count, operation })
}
