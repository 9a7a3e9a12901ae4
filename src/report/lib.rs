//! The report of a recording: as a model, as text, HTML, or a trace, and compared with another report.
//!
//! Everything that follows from a recording is here. The source of a recording (a directory, a packed file), and
//! arguments and output, are up to the command. A report is built in three steps. `collect` reads the events and
//! passes them to `functions`, `failures`, `findings`, `ledger`, `virtual_memory`, and `peers`; nothing
//! there grows with the number of events. `assemble` builds the rows of [`model`], which are serialized unchanged.
//! `verdict` decides which findings fail a run, which problems there are, and in which order. The views render rows and
//! verdict: [`text`] and [`html`] show them, and [`sarif`], [`junit`], and [`annotations`] write them for other tools.
//! [`diff`] compares rows, and [`trace`] reads the recording a second time. [`symbols`] names addresses.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `beside`, `durations`, `moments`, `numbered`, `style`, `terminal`, `values`: words and numbers.
//! - `symbols`: the names of addresses.
//! - `model`: the rows.
//! - `names`, `results`, `endings`, `deviation`, `places`, `lives`, `judged`: parts of rows, in words.
//! - `verdict`: the problems.
//! - `suppress`: findings that do not count.
//! - `mark_times`, `filter`: what is asked for.
//! - `functions`, `ledger`, `allocator`, `hits`, `faults`, `runtime`, `peers`, `virtual_memory`, `pools`, `scarce`, `expected`,
//!   `failures`, `callers`, `marks`, `at_calls`: what follows from events.
//! - `collect`: the events.
//! - `leaks`, `findings`: what the whole recording shows.
//! - `reduced`: the parts of a job.
//! - `assemble`, `whole`: the report.
//! - `table`, `pairs`, `limited`, `plans`: parts of the views.
//! - `text`, `summary`, `html`, `annotations`, `sarif`, `junit`, `diff`, `schema`, `trace`: the views.

mod allocator;
pub mod annotations;
mod assemble;
mod at_calls;
pub mod beside;
mod callers;
mod collect;
mod deviation;
pub mod diff;
mod durations;
pub mod endings;
mod expected;
mod failures;
pub mod faults;
pub mod filter;
mod findings;
mod functions;
mod hits;
pub mod html;
mod judged;
pub mod junit;
mod leaks;
mod ledger;
mod limited;
mod lives;
mod mark_times;
mod marks;
pub mod model;
pub mod moments;
pub mod names;
mod numbered;
mod pairs;
mod peers;
mod places;
pub mod plans;
mod pools;
pub mod reduced;
mod results;
mod runtime;
pub mod sarif;
mod scarce;
pub mod schema;
pub mod style;
pub mod summary;
pub mod suppress;
pub mod symbols;
pub mod table;
pub mod terminal;
pub mod text;
pub mod trace;
mod values;
mod verdict;
mod virtual_memory;
mod whole;

pub use collect::Keep;
pub use expected::why as why_expected;
pub use places::{Places, Stack, Stacks};
pub use results::is_usual;
pub use values::handle;
pub use whole::{broken, read, reduce};
