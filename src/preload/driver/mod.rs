//! What the driver and the system say about devices when they are asked, and what the driver says of its own accord.

pub mod log;
pub mod nodes;
pub mod questions;
