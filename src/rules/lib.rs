//! The rules that `cupeer run --check` and `cupeer report` check.
//!
//! Each rule is one entry in the form of [`RuleSpec`]: its text, source, effect, and fix. `cupeer list rules`, `cupeer
//! explain RULE`, `docs/reference/rules`, the messages, and the tests derive from it. [`decide`] contains the
//! decisions, and [`crate::reason`] the sentences with the values. The facts about the world come from the library
//! (`src/preload/check/world.rs`) and the report (`src/facts/findings`).
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `entries`: the entries, as data.
//! - `rule`: the form of an entry, and the list of all rules.
//! - `causes`, `family`, `words`: other causes of failures, the groups of the pages, and texts of explanations.
//! - `caches`: libraries that close late by design.
//! - `set`, `chosen`: the patterns that select rules.
//! - `reason`: the sentences of findings.
//! - `decide`: the decisions.
//! - `probes`: calls that test for a feature, whose failure is no mistake.

#[macro_use]
mod entries;

mod caches;
mod causes;
mod chosen;
pub mod decide;
mod family;
pub mod probes;
pub mod reason;
mod rule;
mod set;
mod words;

pub use caches::{CACHES, Cache};
pub use causes::{Cause, causes};
pub use chosen::ErrorChoice;
pub use cupeer_spec::record::slot::finding::{Confidence, Severity};
pub use family::{FAMILIES, RuleFamily};
pub use rule::{Basis, Found, RULES, Related, Rule, RulePage, RuleSpec, Scope, Tells, Usual, is_library_named};
pub use set::{RuleSet, check_rule_name, matches_file};
pub use words::{DRIVER_SAYS, NO_CAUSE, message_meaning, object_label};
