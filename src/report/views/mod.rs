//! The forms of a report. They render rows and the verdict, and decide nothing.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `table`, `pairs`, `limited`, `plans`: parts of what follows.
//! - `diff`, `schema`: the comparison, and the JSON schemas.
//! - `form`: what all forms have in common.
//! - `text`, `summary`: for people.
//! - `html`, `json`, `junit`, `sarif`, `annotations`: for browsers and other tools.
//! - `trace`: the trace, which reads the recording a second time.

pub mod annotations;
pub mod diff;
pub mod form;
pub mod html;
mod json;
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

/// All forms, in the order of the help of `cupeer report --format`.
pub static FORMS: &[&dyn form::Form] = &[
    &text::TextForm,
    &json::JsonForm,
    &trace::TraceForm,
    &sarif::SarifForm,
    &junit::JunitForm,
    &html::HtmlForm,
];
