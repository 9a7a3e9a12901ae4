//! What may change what the program sees: fault plans (`inject`) and denied pairs (`deny`). Whatever changes a call stands in
//! its record.

pub mod deny;
pub mod inject;
