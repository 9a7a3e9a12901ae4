//! Devices that shall look as if they could not reach each other, the same to every question and every attempt.

use crate::inject::Forward;
use cupeer_spec::function::FnId;

/// What was denied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Denied {
    /// What the program gets in place of the driver's result; `None` where an output was changed and the result stays.
    pub result: Option<i32>,
    /// Which of the pairs that were given, or the limit: an index into [`names`].
    pub which: usize,
}

/// Whether calls of a function have to be looked at.
pub fn concerns(_id: FnId) -> bool {
    false
}

/// What there is to count, in words: each pair that was given, `all`, the limit of peers.
pub fn names() -> Vec<String> {
    Vec::new()
}

/// Looks at a call before it is made. What comes back stands in its place.
pub fn before(_call: &Forward) -> Option<Denied> {
    None
}

/// Looks at a call that was made and succeeded: changes its outputs.
pub fn after(_call: &Forward) -> Option<Denied> {
    None
}
