//! What may change what the program sees: fault plans and denied pairs.

pub mod deny;
pub mod inject;
