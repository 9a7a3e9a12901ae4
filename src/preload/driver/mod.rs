//! What the driver and the system say when they are asked (`questions`, `nodes`), and what the driver logs of its own accord
//! (`log`).
//!
//! What does not belong here: which function of the driver a call goes to, which is `resolve`.

pub mod log;
pub mod nodes;
pub mod questions;
