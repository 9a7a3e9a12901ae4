//! libcupeer.so: the library that is preloaded between a CUDA program and its driver.
//!
//! The life of a call:
//!
//! 1. A program reaches us through an export (`entry::exports`), or through a pointer that a lookup returned in place
//!    of the driver's (`resolve::dlsym`, `resolve::handed_out`).
//! 2. If nothing is switched on for the function, the entry is one load and one jump: to the next definition for a
//!    linked call (`resolve::linked`), to the driver for a looked-up one (`resolve::driver`).
//! 3. Otherwise, `call` runs the steps: apply fault plans and denied pairs (`fault`), record the call (`recorder`),
//!    forward it with no lock held, and finish the record. If the call matters to others, it also queries the driver
//!    (`driver`), judges the call (`check`), and tells the job (`job`). Then it logs the call (`log`).
//!
//! The modules, from the lowest layer up. Each imports only those listed before it; `tests/rooms.rs` checks this:
//!
//! - `sys`: the process and its system, as a guest may use them.
//! - `settings`: the settings from the environment.
//! - `log`: the output: lines of the log, messages on stderr, the page of the launcher.
//! - `resolve`: the function that a call goes to next, and the address that a lookup returns.
//! - `driver`: driver queries and the driver's own log.
//! - `job`: the state that the processes of a job share: the directory, and the live table of open objects.
//! - `recorder`: the record of the process's calls.
//! - `fault`: the steps that may change what the program sees.
//! - `check`: the rules, at the call.
//! - `call`: the path of one call: the order of all steps.
//! - `entry`: the ways in which the program and the loader reach us.
//!
//! We are guests. No panic leaves the library; if we fail, the call is forwarded. A process that never reaches a
//! driver gets no thread, no file, and no output from us.
//!
//! This crate contains only code that must run inside the program. The table and the words are in `cupeer-spec`;
//! everything that can run outside is in the command.

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
compile_error!("libcupeer.so is written for Linux with glibc; its processors stand in src/preload/sys/arch");

mod call;
mod check;
mod driver;
mod entry;
mod fault;
mod job;
mod log;
mod recorder;
mod resolve;
mod settings;
mod sys;

// Version that the command reads before it preloads the library into a program.
#[used]
#[unsafe(link_section = ".note.cupeer")]
static VERSION: cupeer_spec::version::VersionNote = cupeer_spec::version::VersionNote::OWN;
