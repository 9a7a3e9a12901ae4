//! The process and its system, as a guest may use them: memory, files, stacks, signals, and loaded objects.
//!
//! Nothing here knows CUDA or imports another module of the crate. The modules, from the lowest layer up; `tests/rooms.rs`
//! checks this:
//!
//! - `arch`, `clock`, `errno`, `every_call`, `line`, `signals`: the processor, and modules that need no other.
//! - `pages`, `valgrind`, `stack`, `arena`, `program_memory`, `aside`: memory and stacks.
//! - `memory`, `repeats`, `guard`: memory for our work, and a guard around it that leaves no trace.
//! - `descriptors`, `opened`, `files`, `allocate`, `shareable`: files.
//! - `environment`, `process`, `life`, `neighbour`: this process and others.
//! - `forks`, `object`, `elf`, `lock`, `panics`: forks and loaded objects.
//! - `unwind`, `python`, `caller`, `book`, `handles`: callers, and facts about handles.

pub mod allocate;
pub mod arch;
pub mod arena;
pub mod aside;
pub mod book;
pub mod caller;
pub mod clock;
pub mod descriptors;
pub mod elf;
pub mod environment;
pub mod errno;
pub mod every_call;
pub mod files;
pub mod forks;
pub mod guard;
pub mod handles;
pub mod life;
pub mod line;
pub mod lock;
pub mod memory;
pub mod neighbour;
pub mod object;
pub mod opened;
pub mod pages;
mod panics;
pub mod process;
pub mod program_memory;
pub mod python;
pub mod repeats;
pub mod shareable;
pub mod signals;
pub mod stack;
pub mod unwind;
mod valgrind;
