//! The integration tests: one binary, a topic a file.

// Shared code of all topics: the installed command and libraries, C programs, and directories.
#[macro_use]
mod support;

// The C programs of `tests/programs`, and the driver that keeps account of its calls.
#[path = "programs/mod.rs"]
mod programs;

// Findings about programs that break a rule, and none about the others.
mod blind;
mod check;

// The README and the pages of `docs` against what there is.
mod book;

// No text for users contains a banned phrase.
mod words;

// The command's own options, lists and messages.
mod cli;

// The demo: its steps, its page, and its processes.
mod demo;

// The doctor's tests of links, which send data.
mod doctor_p2p;

// The doctor's facts about the driver, a program, and the machine.
mod doctor;

// Effects of functions on shared objects, in all parts that must know them.
mod effects;

// Exports of the libraries.
mod endings;
mod exports;

// The keys of fault plans as they are listed and explained, and their page.
mod faults_listed;

// Owners of device memory, and amounts.
mod memory;

// A record as tables, and the engines that read them.
mod export;

// Programs that have nothing to do with CUDA.
mod guests;

// The first lines over programs that no rule knows.
mod headlines;

// The header is what our C functions are.
mod header;

// Files and directories in which somebody else has put something.
mod hostile;

// Faults on purpose.
mod inject;

// Records at home.
mod home;

// Actions of `cupeer run` for a program.
mod launcher;

// Records of large jobs.
mod large;

// The lines of the log, and where they cannot go.
mod log;

// NVML: the ways in, and what meeting it alone means.
mod nvml;

// NVTX calls of programs, as marks.
mod nvtx;

// C programs from recordings.
mod reproduce;

// Packed records.
mod pack;

// Output for people: colors, and the amount of text.
mod people;

// The lines of Python that calls come from.
mod python;

// Contents of a recording, under all conditions.
mod record;

// Records reduced to small files, on each node.
mod reduce;

// Reports on recordings.
mod report;
mod rooms;

// The CUDA runtime's own functions.
mod runtime;

// The rules as they are listed and explained, and the options that choose them.
mod rules_listed;

// The simulated driver against what a real one answered.
mod simulator;

// Processes of a host while they run.
mod top;

// Every way in which a program reaches the driver.
mod ways_in;

// Waits of processes, read from outside.
mod why;
