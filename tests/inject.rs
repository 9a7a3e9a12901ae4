//! Faults on purpose, from the command line to the call.

// Plans that are armed while the job is running.
mod running;

// Plans that a program arms by itself.
mod armed;

// Nobody is blamed for what a plan did.
mod blameless;

// The program that the tests below run.
mod client;

// Which calls a rule hits, against a model.
mod counting;

// Denied peers.
mod deny;

// Denied peers as they are chosen and told.
mod deny_run;

// What happens to a call.
mod engine;

// What is a plan, what is refused, and what a program gets of it.
mod plans;

// The Python module.
pub mod python;

// The plugin for pytest.
pub mod pytest;

// What is said of it after a run, and what ends a hang.
mod report;

// Results that are not documented, and that real drivers return.
mod seen;

// Each call of a program fails, one after the other.
mod sweep;
