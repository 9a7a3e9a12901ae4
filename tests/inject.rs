//! Faults on purpose, from the command line to the call.

// The program that the tests below run.
mod client;

// Which calls a rule hits, against a model.
mod counting;

// What happens to a call.
mod engine;

// What is a plan, what is refused, and what a program gets of it.
mod plans;

// The Python module.
mod python;
