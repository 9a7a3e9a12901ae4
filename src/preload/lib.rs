//! libcupeer.so: stands between a CUDA program and its driver.
//!
//! The life of a call:
//!
//! 1. A program reaches us through an export (`entry::exports`), or through a pointer that a look-up gave it in
//!    place of the driver's (`resolve::dlsym`, `resolve::handed_out`).
//! 2. Where nothing is switched on for the function, the entry is one load and one jump: to the next
//!    definition for a linked call (`resolve::linked`), to the driver for a looked-up one
//!    (`resolve::driver`).
//! 3. Otherwise `call` runs the steps: what a fault plan or a denied pair makes of the call (`fault`), record it
//!    (`record`), forward it with no lock held, finish the record, and where the call has weight ask the driver (`driver`),
//!    judge (`check`) and tell the job (`job`); then log it (`log`).
//!
//! The rooms, from the ground up. Each imports only those named before it, which `tests/rooms.rs` holds us to:
//!
//! - `sys`: the process and its system, as a guest may use them.
//! - `settings`: what the environment asks for.
//! - `log`: what is said: lines of the log, messages on stderr, the page of the launcher.
//! - `resolve`: which function a call goes to next, and which address a look-up gets.
//! - `driver`: what the driver says, when it is asked and of its own accord.
//! - `job`: what the processes of a job share: the directory, and what is open now.
//! - `record`: what the process leaves behind of its calls.
//! - `fault`: what may change what the program sees.
//! - `check`: the rules, at the call.
//! - `call`: one call on its way: the order of all steps.
//! - `entry`: how the program and the loader reach us.
//!
//! We are guests. No panic leaves us; a failure of ours forwards the call. There is no thread, no file
//! and no output in a process that never meets a driver.
//!
//! What belongs in this crate: what must run inside the program. What does not: the table and the words
//! (`cupeer-spec`), and everything that can be done from outside (the command).

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
compile_error!("libcupeer.so is written for Linux with glibc; its processors stand in src/preload/sys/arch");

mod call;
mod check;
mod driver;
mod entry;
mod fault;
mod job;
mod log;
mod record;
mod resolve;
mod settings;
mod sys;

// What the command reads before it leads a program here.
#[used]
#[unsafe(link_section = ".note.cupeer")]
static VERSION: cupeer_spec::version::Note = cupeer_spec::version::Note::OWN;
