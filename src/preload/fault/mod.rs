//! Fault plans (`inject`) and denied pairs (`deny`), the two steps that may change what the program sees. Every change
//! is in the record of its call. Both look at a call as a `forward::ForwardedCall`.

pub mod deny;
pub mod forward;
pub mod inject;
