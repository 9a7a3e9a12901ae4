//! The forms of a report. They render rows and the verdict, and decide nothing.
//!
//! They depend on the rows and words of `cupeer-report`, and not on how a report is made. [`text`] and [`html`] show it,
//! [`sarif`], [`junit`], and [`annotations`] write it for other tools, and [`diff`] compares it with another.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `table`, `pairs`, `plans`: parts of several forms.
//! - `diff`, `schema`: the comparison, and the JSON schemas.
//! - `form`: the trait that all forms implement.
//! - `text`, `summary`: for people.
//! - `html`, `json`, `junit`, `sarif`, `annotations`: for browsers and other tools.

pub mod annotations;
pub mod diff;
pub mod form;
pub mod html;
mod json;
pub mod junit;
mod pairs;
pub mod plans;
pub mod sarif;
pub mod schema;
pub mod summary;
pub mod table;
pub mod text;

use form::ReportForm;

/// All forms, in the order of the command's help.
pub static FORMS: &[&dyn ReportForm] =
    &[&text::TextForm, &json::JsonForm, &sarif::SarifForm, &junit::JunitForm, &html::HtmlForm];
