//! What a call by itself shows: its result and its arguments.
//!
//! What belongs here: what is certain without a question to the driver, for processes that were not checked while
//! they ran. A result that was of our making is never judged.

use super::super::values;
use super::Made;
use cupeer_record::{Call, Finding, Outcome};
use cupeer_rules::Rule;
use cupeer_rules::reason::{Device, Reason};
use cupeer_spec::function::{Direction, FnId, Group};
use cupeer_spec::record::slot::finding::Confidence;
use cupeer_spec::record::slot::shape;
use cupeer_spec::results::Result;

/// The attributes and the operations that the documentation has.
const ATTRIBUTES: std::ops::RangeInclusive<i32> = 1..=5;
const OPERATIONS: std::ops::RangeInclusive<i32> = 0..=12;

/// The flags of a call that opens memory, where they are not what they must be: drivers take some all the same.
#[inline]
pub fn odd_flags(function: FnId, call: &Call) -> Option<u32> {
    if !matches!(function, FnId::cuIpcOpenMemHandle | FnId::cuIpcOpenMemHandle_v2) {
        return None;
    }
    values::narrow(call, "Flags").map(|flags| flags as u32).filter(|flags| *flags != 1)
}

/// What was found in a call.
pub struct Judged<'a> {
    /// What.
    pub reason: Reason<'a>,
    /// The argument that it is about.
    argument: Option<&'static str>,
}

impl Judged<'_> {
    /// The finding; how bad it is depends on the caller, who is not known yet.
    pub fn finding(&self, function: FnId) -> Finding {
        let rule = self.reason.rule().spec();
        let args = function.spec().args;
        let argument = self.argument.and_then(|name| args.iter().position(|arg| arg.name == name));
        // The result may have another cause.
        let is_inferred = matches!(
            self.reason,
            Reason::PeerUnreachable { .. } | Reason::NotInitialized { is_forked: true }
        );
        Finding {
            confidence: if is_inferred { Confidence::Inferred } else { Confidence::Certain },
            severity: rule.severity,
            argument: argument.map(|argument| argument as u8),
            rule: rule.name.into(),
            message: self.reason.to_string(),
            hint: self.reason.hint().into(),
            objects: Vec::new(),
        }
    }
}

/// The rule that a call breaks: the first one that explains its result, in the order of the rules.
pub fn judge<'a>(made: &Made<'a>, is_forked: bool, driver_knows_more: bool) -> Option<Judged<'a>> {
    let Outcome::Returned(result) = made.call.outcome else { return None };
    if made.call.injected {
        return None;
    }
    if let Some(flags) = odd_flags(made.function, made.call) {
        let is_taken = result == 0;
        if is_taken || Rule::IpcFlags.spec().explains(made.function, result) {
            return Some(Judged { reason: Reason::IpcFlags { flags, is_taken }, argument: Some("Flags") });
        }
    }
    if result == 0 {
        return None;
    }
    let reasons = [
        by_result(made, result, is_forked),
        null(made),
        out_of_range(made),
        same_device(made),
        invalid(made),
        peers(made, result).filter(|_| !driver_knows_more),
    ];
    let explains = |(reason, _): &(Reason, _)| reason.rule().spec().explains(made.function, result);
    let (reason, argument) = reasons.into_iter().flatten().find(explains)?;
    Some(Judged { reason, argument })
}

/// What was found, as [`judge`] hands it on.
type Found<'a> = Option<(Reason<'a>, Option<&'static str>)>;

/// What a result says by itself.
fn by_result<'a>(made: &Made, result: i32, is_forked: bool) -> Found<'a> {
    let is = |known: Result| result == known as i32;
    if is(Result::NOT_INITIALIZED) {
        return Some((Reason::NotInitialized { is_forked }, None));
    }
    if is(Result::DEINITIALIZED) {
        return Some((Reason::DriverShuttingDown, None));
    }
    // Where two contexts take part, it may be the other one.
    let is_one = !made.function.spec().is_in(Group::Peer);
    let context = made.call.details.context.filter(|_| is_one && is(Result::CONTEXT_IS_DESTROYED))?;
    Some((Reason::ContextDestroyed { context }, None))
}

fn null<'a>(made: &Made) -> Found<'a> {
    let args = made.function.spec().args.iter().enumerate();
    let is_pointer = |direction| matches!(direction, Direction::Out | Direction::InOut);
    let mut null = args.filter(|(i, arg)| {
        (is_pointer(arg.direction) || arg.count.is_some()) && made.call.slot.shape(*i) == shape::NULL
    });
    let name = null.next()?.1.name;
    Some((Reason::NullArgument { name }, Some(name)))
}

/// The devices that a question is about: names and numbers.
fn asked(made: &Made) -> Option<[(&'static str, i32); 2]> {
    let names = match made.function {
        FnId::cuDeviceCanAccessPeer => ["dev", "peerDev"],
        FnId::cuDeviceGetP2PAttribute | FnId::cuDeviceGetP2PAtomicCapabilities => ["srcDevice", "dstDevice"],
        _ => return None,
    };
    let [from, to] = names.map(|name| Some((name, values::narrow(made.call, name)?)));
    Some([from?, to?])
}

fn out_of_range<'a>(made: &Made<'a>) -> Found<'a> {
    // Those that the driver had named; if none, it is unknown how many there are.
    let count = made.process.devices.iter().map(|device| device.ordinal + 1).max()?;
    let (name, device) = asked(made)?.into_iter().find(|(_, device)| !(0..count).contains(device))?;
    let visible = made.process.variables.iter().find(|(name, _)| name == "CUDA_VISIBLE_DEVICES");
    let visible = visible.map(|(_, value)| value.as_str());
    Some((Reason::DeviceOutOfRange { name, device, count, visible }, Some(name)))
}

fn same_device<'a>(made: &Made) -> Found<'a> {
    if let Some([(_, from), (to_name, to)]) = asked(made) {
        let device = device(made, Some(to))?;
        return (from == to)
            .then_some((Reason::PeerSameDevice { device, context: None, is_current: false }, Some(to_name)));
    }
    let (current, peer) = made.call.details.devices;
    let context = values::wide(made.call, "peerContext").filter(|_| current == peer);
    let is_current = context == made.call.details.context;
    let device = device(made, peer)?;
    Some((Reason::PeerSameDevice { device, context: Some(context?), is_current }, Some("peerContext")))
}

fn invalid<'a>(made: &Made) -> Found<'a> {
    let number = |name| values::narrow(made.call, name);
    match made.function {
        FnId::cuDeviceGetP2PAttribute => {
            let attribute = number("attrib").filter(|attribute| !ATTRIBUTES.contains(attribute))?;
            Some((Reason::PeerAttributeUnknown { attribute }, Some("attrib")))
        }
        FnId::cuDeviceGetP2PAtomicCapabilities => {
            let count = number("count")? as u32;
            let elements = made.call.details.elements.iter().flat_map(|(_, bytes)| bytes.chunks_exact(4));
            let mut elements = elements.filter_map(|bytes| Some(i32::from_le_bytes(*bytes.first_chunk()?)));
            let operation = elements.find(|operation| !OPERATIONS.contains(operation));
            let argument = if count == 0 { "count" } else { "operations" };
            let is_broken = count == 0 || operation.is_some();
            is_broken.then_some((Reason::AtomicOperations { count, operation }, Some(argument)))
        }
        FnId::cuCtxEnablePeerAccess | FnId::cuCtxDisablePeerAccess => {
            if let Some(flags) = number("Flags").filter(|flags| *flags != 0) {
                return Some((Reason::PeerFlags { flags: flags as u32 }, Some("Flags")));
            }
            let context = values::wide(made.call, "peerContext").filter(|context| *context == 0)?;
            Some((Reason::PeerContextInvalid { context }, Some("peerContext")))
        }
        _ => None,
    }
}

/// What the driver says about two devices.
fn peers<'a>(made: &Made, result: i32) -> Found<'a> {
    let (current, peer) = made.call.details.devices;
    let (from, to) = (device(made, current)?, device(made, peer)?);
    let is = |known: Result| result == known as i32;
    let reason = match made.function {
        FnId::cuCtxEnablePeerAccess if is(Result::PEER_ACCESS_ALREADY_ENABLED) => {
            Reason::PeerAlreadyEnabled { from, to, ago: None }
        }
        FnId::cuCtxEnablePeerAccess if is(Result::PEER_ACCESS_UNSUPPORTED) => {
            Reason::PeerUnreachable { from, to }
        }
        FnId::cuCtxDisablePeerAccess if is(Result::PEER_ACCESS_NOT_ENABLED) => {
            Reason::PeerNotEnabled { from, to, reverse: false }
        }
        _ => return None,
    };
    Some((reason, Some("peerContext")))
}

/// A device of the process; `None` where its number is not known.
fn device(made: &Made, ordinal: Option<i32>) -> Option<Device> {
    let ordinal = ordinal?;
    let uuid = made.process.device(ordinal).map_or([0; 16], |device| device.uuid);
    Some(Device { ordinal, uuid })
}
