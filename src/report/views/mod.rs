//! The forms of a report. They render rows and the verdict, and decide nothing.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `table`, `pairs`, `limited`, `plans`: parts of what follows.
//! - `text`, `summary`: for people.
//! - `html`, `junit`, `sarif`, `annotations`: for browsers and other tools.
//! - `diff`, `schema`: the comparison, and the JSON schemas.
//! - `trace`: the trace, which reads the recording a second time.

pub mod annotations;
pub mod diff;
pub mod html;
pub mod junit;
pub mod limited;
pub mod pairs;
pub mod plans;
pub mod sarif;
pub mod schema;
pub mod summary;
pub mod table;
pub mod text;
pub mod trace;
