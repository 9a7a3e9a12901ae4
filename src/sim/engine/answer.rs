//! The answer of the engine: a value, or a result code with the driver's messages.

use cupeer_spec::results::Result as Code;
use std::borrow::Cow;

/// A failure of a call: the result code, and messages for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// The result code.
    pub code: Code,
    /// Messages for the driver's log, one per line.
    pub messages: Vec<Cow<'static, str>>,
}

/// The result of a function of the engine: a value, or a failure.
pub(crate) type Answer<T = ()> = Result<T, Failure>;

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Failure { code, messages: Vec::new() }
    }
}

/// Returns a failure with a code, and without a message.
pub(crate) fn fail<T>(code: Code) -> Answer<T> {
    Err(code.into())
}

/// Returns the failure of a call that needs a current context, if there is none.
pub(crate) fn no_context<T>() -> Answer<T> {
    refuse(Code::INVALID_CONTEXT, "No CUDA context is current to the calling thread")
}

/// Returns a failure with a code and the message of the driver.
pub(crate) fn refuse<T>(code: Code, message: impl Into<Cow<'static, str>>) -> Answer<T> {
    Err(Failure { code, messages: vec![message.into()] })
}

/// Fails with a code if a condition is true.
pub(crate) fn fail_if(is_wrong: bool, code: Code) -> Answer {
    if is_wrong { fail(code) } else { Ok(()) }
}

/// Fails with a code and the driver's message if a condition is true.
pub(crate) fn refuse_if(is_wrong: bool, code: Code, message: &'static str) -> Answer {
    if is_wrong { refuse(code, message) } else { Ok(()) }
}

/// Returns a failure with INVALID_VALUE and the message of the driver.
pub(crate) fn invalid<T>(message: impl Into<Cow<'static, str>>) -> Answer<T> {
    refuse(Code::INVALID_VALUE, message)
}

/// Fails with INVALID_VALUE and the driver's message if a condition is true.
pub(crate) fn invalid_if(is_wrong: bool, message: &'static str) -> Answer {
    if is_wrong { invalid(message) } else { Ok(()) }
}

/// The value of an attribute of a pointer or a pool, in its width in C.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AttributeValue {
    /// An `int`, an `unsigned int`, an enumeration, or a boolean value, which the driver writes as an `int`.
    Word(u32),
    /// A pointer, a handle, a size or a 64-bit number.
    Wide(u64),
    /// The two 64-bit tokens of CU_POINTER_ATTRIBUTE_P2P_TOKENS.
    Tokens(u64, u64),
}

impl AttributeValue {
    /// Returns the bytes that the value has in memory.
    pub(crate) fn to_bytes(self) -> Vec<u8> {
        match self {
            AttributeValue::Word(value) => value.to_ne_bytes().into(),
            AttributeValue::Wide(value) => value.to_ne_bytes().into(),
            AttributeValue::Tokens(a, b) => [a.to_ne_bytes(), b.to_ne_bytes()].concat(),
        }
    }
}
