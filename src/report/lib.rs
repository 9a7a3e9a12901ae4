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
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this, and the same of each folder:
//!
//! - `base`: numbers, times, and text for terminals.
//! - `model`: the rows.
//! - `words`: parts of rows, in words.
//! - `verdict`: the problems.
//! - `asked`: what a report is asked for.
//! - `facts`: what follows from events.
//! - `merged`: the report.
//! - `views`: its forms.

mod asked;
mod base;
mod facts;
mod merged;
pub mod model;
mod verdict;
mod views;
mod words;

pub use asked::keep::Keep;
pub use asked::{filter, suppress};
pub use base::values::handle;
pub use base::{moments, style, terminal};
pub use cupeer_symbols::{self as symbols, beside};
pub use facts::expected::why as why_expected;
pub use facts::faults;
pub use merged::part;
pub use merged::whole::{broken, read, reduce};
pub use views::{
    FORMS, annotations, diff, form, html, junit, plans, sarif, schema, summary, table, text, trace,
};
pub use words::places::{Places, Stack, Stacks};
pub use words::results::is_usual;
pub use words::{endings, names};
