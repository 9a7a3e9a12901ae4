//! `cupeer run --check`: what it says about programs that break a rule, and that it says nothing about others.
//!
//! What belongs here: whole runs on the simulated driver. What does not: the words of a finding (`src/rules`), and how
//! the report shows it (`tests/report`).

// The programs of tests/programs/rules, and how they are run.
mod record;
pub mod scenes;

// Every rule: the program that breaks it, and the one nearest to it.
mod rules;

// The same of the same calls, at the call and out of the record.
mod differential;

// What was planted in virtual memory is what is found.
mod spaces;

// Allocators that unmap memory which is not exportable, and map it again.
mod asleep;

// The same of two processes that share everything, with threads and ends of contexts.
mod pairs;

// Handles that are given out again.
mod reuse;

// What the options choose, and do about a finding.
mod options;

// The status of a run by what was found.
mod gate;

// What all outputs say is an error.
mod verdict;

// What users met, and our words beside the driver's.
mod cases;

// The other sites of what was found, with their lines.
mod sites;

// Processes that are killed.
mod kills;

// What valgrind says of our own memory.
mod memcheck;

// Failed calls, and what is known of them elsewhere.
mod links;

// Who is told, and how.
mod told;
mod uses;

// What is said of virtual memory.
mod vmm;

// What findings say.
mod wordings;

// What one run says, which must agree with itself.
mod contradictions;

// Which process others wait for.
mod awaited;

// What is expected: answers to probes, and libraries that close late.
mod expected;
