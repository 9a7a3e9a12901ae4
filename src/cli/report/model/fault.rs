//! Fault plans: what each rule did.

use serde::Serialize;

/// A rule of a fault plan, or a pair of devices that was denied, over all processes.
#[derive(Serialize, Clone)]
pub struct Fault {
    /// The name of its plan.
    pub plan: String,
    /// Its own name, which begins with that of the plan: calls say which fault changed them by this.
    pub name: String,
    /// The rule as it was written; `None` of a plan that a program armed itself.
    pub rule: Option<String>,
    /// The calls that met its conditions; `None` of a plan that a program armed itself.
    pub matched: Option<u64>,
    /// Those at which it fired or, in a dry run, would have.
    pub fired: u64,
    /// How many processes were under its plan, or said that it fired.
    pub processes: u64,
    /// Whether it was only tried.
    pub dry_run: bool,
}
