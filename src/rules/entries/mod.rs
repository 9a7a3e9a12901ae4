//! The entries of the rules, a file for each kind.

pub mod driver;
pub mod ipc;
pub mod jobs;
pub mod multicast;
pub mod peer;
pub mod pools;
pub mod unchecked;
pub mod uses;
pub mod vmm;
