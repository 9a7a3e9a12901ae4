//! Faults on purpose, from the command line to the call.

// Plans that are armed while the job is running.
mod running;

// Plans that a program arms by itself.
mod armed;

// Nobody is blamed for what a plan did.
mod blameless;

// The program that the tests below run.
mod client;

// Calls that a rule matches, compared with a model.
mod counting;

// Denied peers.
mod deny;

// Denied peers as they are chosen and told.
mod deny_run;

// Effects on a call.
mod engine;

// Plans: those that are accepted or refused, and those that a program gets.
mod plans;

// The Python module.
pub mod python;

// The plugin for pytest.
pub mod pytest;

// Outputs after a run with a plan, and the end of a hang.
mod report;

// Results that are not documented, and that real drivers return.
mod seen;

// Each call of a program fails, one after the other.
mod sweep;
