//! The integration tests: one binary, a topic a file.

// What all of them use: the installed command and libraries, C programs, directories.
#[macro_use]
mod support;

// The C programs of `tests/programs`, and the driver that keeps account of its calls.
#[path = "programs/mod.rs"]
mod programs;

// What is said of programs that break a rule, and of those that do not.
mod blind;
mod check;

// The README and the pages of `docs` against what there is.
mod book;

// No text for users contains a banned phrase.
mod words;

// The command's own options, lists and messages.
mod cli;

// What the doctor finds when it sends data over the links of a machine.
mod doctor_p2p;

// What the doctor says of the driver, of a program and of the machine.
mod doctor;

// What functions do to what processes share, and who has to know.
mod effects;

// What the libraries export.
mod endings;
mod exports;

// The keys of fault plans as they are listed and explained, and their page.
mod faults_listed;

// Who allocates how much device memory.
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

// What `cupeer run` does to and for a program.
mod launcher;

// Records of large jobs.
mod large;

// The lines of the log, and where they cannot go.
mod log;

// NVML: the ways in, and what meeting it alone means.
mod nvml;

// What programs tell NVTX, as marks.
mod nvtx;

// Packed records.
mod pack;

// What is for people's eyes: colours, and how much is said.
mod people;

// The lines of Python that calls come from.
mod python;

// What a record holds, whatever becomes of the program.
mod record;

// Records reduced to small files, on each node.
mod reduce;

// What `cupeer report` says of records.
mod report;
mod rooms;

// The CUDA runtime's own functions.
mod runtime;

// The rules as they are listed and explained, and the options that choose them.
mod rules_listed;

// The simulated driver against what a real one answered.
mod simulator;

// What the processes of a host do, now.
mod top;

// Every way in which a program reaches the driver.
mod ways_in;

// What processes wait in, read from outside.
mod why;
