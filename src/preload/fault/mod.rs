//! What may change what the program sees: plans of faults, and pairs of devices that are denied.

pub mod deny;
pub mod inject;
