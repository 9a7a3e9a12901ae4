//! The arguments of a call as JSON and as text, in the form of the log.

use cupeer_record::Call;
use cupeer_spec::effect::Object;
use cupeer_spec::function::{ArgSpec, Direction, FnId};
use cupeer_spec::record::slot::shape;
use cupeer_spec::value::{Format, MOST_ELEMENTS, MOST_TEXT, Shareable, Value as _, write_quoted};
use serde_json::{Map, Value};

/// Output format of arguments: JSON. The fingerprint function is not used, because a recording contains
/// fingerprints instead of handles.
const JSON: Format = Format { json: true, fingerprint: |_| 0 };

/// Returns the arguments of a call by name. An unknown value is `null`: the call failed, or the recording
/// lacks the value.
pub fn args(call: &Call) -> Map<String, Value> {
    let specs = call.function.map_or(&[][..], |function| function.spec().args());
    specs.iter().enumerate().map(|(i, spec)| (spec.name().to_owned(), argument_value(call, i, spec))).collect()
}

fn argument_value(call: &Call, index: usize, spec: &ArgSpec) -> Value {
    match call.slot.shape(index) {
        shape::NULL => return "0x0".into(),
        shape::VALUE => {}
        _ => return Value::Null,
    }
    let mut text = String::new();
    if spec.direction == Direction::String {
        let Some((_, bytes)) = call.details.texts.iter().find(|(i, _)| usize::from(*i) == index) else {
            return Value::Null;
        };
        let _ = write_quoted(bytes, MOST_TEXT, &mut text);
    } else if spec.count_argument().is_some() {
        let Some((_, bytes)) = call.details.elements.iter().find(|(i, _)| usize::from(*i) == index) else {
            return Value::Null;
        };
        let elements = bytes
            .chunks_exact(spec.stored_element_size().max(1))
            .take(MOST_ELEMENTS)
            .map(|element| printed_value(element, spec));
        return elements.collect();
    } else if let Some(bytes) = call.argument(index) {
        return printed_value(bytes, spec);
    }
    parse_json(&text)
}

fn printed_value(bytes: &[u8], spec: &ArgSpec) -> Value {
    let mut text = String::new();
    let _ = (spec.arg_type().print_stored)(bytes, &mut text, JSON);
    parse_json(&text)
}

/// Parses JSON that was printed; `null` if the value could not be printed.
fn parse_json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or(Value::Null)
}

/// Context that a call ended, or would have ended if it had succeeded.
pub struct EndedContext {
    /// The context; `None` if it is unknown.
    pub context: Option<u64>,
    /// Device whose primary context it was, if only that is known, as in older recordings.
    pub device: Option<i32>,
}

impl EndedContext {
    /// Returns the context that a call ends; `None` if the call ends none. A release or a detach may leave
    /// the context to other holders: the recording shows whether it ended.
    pub fn of(function: FnId, call: &Call) -> Option<EndedContext> {
        let recorded = call.details.context;
        let end = function.spec().ended_context()?;
        let (context, device) = match end.object {
            Object::Context if end.is_counted && call.succeeded() => (recorded, None),
            Object::Context => (call.argument_number(end.by), None),
            _ if recorded.is_some() => (recorded, None),
            _ if end.is_counted => (None, call.details.devices.0),
            _ => (None, call.argument_number(end.by).map(|device| device as i32)),
        };
        (context.is_some() || device.is_some()).then_some(EndedContext { context, device })
    }

    /// Returns true if an object of this kind ended with the context. `context` and `device` are those that
    /// were current when the object was created.
    pub fn ends_object(&self, object: Object, context: Option<u64>, device: Option<i32>) -> bool {
        match self.context {
            _ if !object.belongs_to_context() => false,
            Some(_) => self.context == context,
            None => self.device == device,
        }
    }
}

/// Formats arguments as text without the quotes of JSON: `dev=1, peerDev=0`.
pub fn format_arguments(args: &Map<String, Value>) -> String {
    let one = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}={text}"),
        Value::Null => format!("{name}=?"),
        other => format!("{name}={other}"),
    };
    args.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns the number of a shared descriptor, and the identifier of its open file in all processes (0 if
/// unknown).
pub fn shared_descriptor(call: &Call, argument: usize) -> Option<(i32, u64)> {
    let bytes: &[u8; Shareable::STORED] = call.argument(argument)?.try_into().ok()?;
    let (known, fd) = (bytes.first_chunk()?, bytes.last_chunk()?);
    Some((i32::from_le_bytes(*fd), u64::from_le_bytes(*known))).filter(|(fd, _)| *fd >= 0)
}

/// Returns the two fingerprints of a handle: of all its bytes, and of those that the driver checks.
pub fn handle_fingerprints(call: &Call, argument: usize) -> Option<(u64, u64)> {
    let bytes = call.argument(argument)?;
    let half = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    // Without its open file's identifier, a descriptor cannot be told apart from others.
    Some((half(0)?, half(8)?)).filter(|(whole, _)| *whole != 0)
}
