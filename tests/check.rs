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

// The report finds exactly the mistakes that were planted in virtual memory.
mod spaces;

// Allocators that unmap memory which is not exportable, and map it again.
mod asleep;

// The same of two processes that share everything, with threads and ends of contexts.
mod pairs;

// Handles that are given out again.
mod reuse;

// Options: the choice of rules, and the reaction to a finding.
mod options;

// The status of a run by what was found.
mod gate;

// All outputs agree about errors.
mod verdict;

// Cases of users, with the messages of cupeer and the driver side by side.
mod cases;

// The other sites of what was found, with their lines.
mod sites;

// Processes that are killed.
mod kills;

// valgrind's findings about the library's own memory.
mod memcheck;

// Failed calls, and what is known of them elsewhere.
mod links;

// Receivers of findings, and their forms.
mod told;
mod uses;

// Findings about virtual memory.
mod vmm;

// Wordings of findings.
mod wordings;

// The outputs of one run agree with each other.
mod contradictions;

// Processes that others wait for.
mod awaited;

// Expected failures: answers to probes, and libraries that close late.
mod expected;
