//! What the driver and the system say when they are asked (`questions`, `nodes`), and what the driver logs of its own accord
//! (`log`); and what it does not say, the program's calls do (`pools`, `contexts`).
//!
//! What does not belong here: which function of the driver a call goes to, which is `resolve`.

pub mod contexts;
pub mod log;
pub mod nodes;
pub mod pools;
pub mod questions;
