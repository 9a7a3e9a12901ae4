//! What the engine answers: a value, or a result code with what the driver says about it.

use cupeer_spec::results::Result as Code;
use std::borrow::Cow;

/// Why a call fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    /// The result code.
    pub code: Code,
    /// What goes to the driver's log, a line each.
    pub messages: Vec<Cow<'static, str>>,
}

/// The answer of the engine.
pub(crate) type Answer<T = ()> = Result<T, Failure>;

impl From<Code> for Failure {
    fn from(code: Code) -> Self {
        Failure { code, messages: Vec::new() }
    }
}

/// Fails with a code only.
pub(crate) fn fail<T>(code: Code) -> Answer<T> {
    Err(code.into())
}

/// Fails for want of a current context.
pub(crate) fn no_context<T>() -> Answer<T> {
    refuse(Code::INVALID_CONTEXT, "No CUDA context is current to the calling thread")
}

/// Fails with a code and what the driver says about it.
pub(crate) fn refuse<T>(code: Code, message: impl Into<Cow<'static, str>>) -> Answer<T> {
    Err(Failure { code, messages: vec![message.into()] })
}
