//! Reads the record of a job: the directory that libcupeer.so writes to, in the format of
//! [`cupeer_spec::record`].
//!
//! What belongs here: from bytes to calls in the order of time, and nothing that trusts those bytes. What does
//! not: what calls mean together (the command's report).

pub mod event;
pub mod process;
