//! Facts about the driver: driver queries (`questions`, `streams`, `nodes`), the driver's own log (`log`), facts that only
//! the program's calls show (`model`, `contexts`, `counted` and its `chunks`), and answers that are remembered (`places`).
//!
//! `resolve` decides which function of the driver a call goes to.

pub mod batches;
pub mod chunks;
pub mod contexts;
pub mod counted;
pub mod facts;
pub mod graphs;
pub mod kernels;
pub mod log;
pub mod model;
pub mod nodes;
pub mod parameters;
pub mod places;
pub mod questions;
pub mod streams;
