//! Groups findings by rule: those of each rule that applies to a recording, and whether their absence means anything.

use super::{Verdict, looked};
use crate::model::Finding;
use cupeer_rules::{RULES, Rule, RuleSpec};
use std::collections::{BTreeMap, BTreeSet};

/// Rule with its findings, each list in the order of the report.
pub struct RuleFindings<'a> {
    /// Name of the rule.
    pub name: &'a str,
    /// Entry of the rule; `None` if this version of cupeer does not know the rule.
    pub rule: Option<&'static RuleSpec>,
    /// Findings that fail a run.
    pub failing: Vec<&'a Finding>,
    /// Findings that a suppression matches.
    pub suppressed: Vec<&'a Finding>,
    /// Findings that neither fail a run nor are suppressed.
    pub others: Vec<&'a Finding>,
    /// Reason why the absence of findings proves nothing; `None` if it proves that no recorded call broke the rule.
    pub reason_unknown: Option<String>,
}

impl<'a> Verdict<'a> {
    /// Returns the rules that apply, and those with findings, each with its findings, in the order of all rules.
    pub fn findings_by_rule(&self) -> Vec<RuleFindings<'a>> {
        let mut found: BTreeMap<&str, Vec<&Finding>> = BTreeMap::new();
        for finding in &self.report.findings {
            found.entry(&finding.rule).or_default().push(finding);
        }
        let applying = RULES.iter().filter(|rule| looked::is_relevant(self.report, rule));
        let names: BTreeSet<&str> = applying.map(|rule| rule.name()).chain(found.keys().copied()).collect();
        let of = |name: &&'a str| {
            let all = found.get(name).into_iter().flatten().copied();
            let (suppressed, counting): (Vec<_>, Vec<_>) = all.partition(|finding| finding.suppressed_by.is_some());
            let (failing, others) = counting.into_iter().partition(|finding: &&Finding| finding.fails);
            let rule = Rule::of(name).map(Rule::spec);
            let unknown = rule.and_then(|rule| looked::why_unknown(self.report, rule));
            RuleFindings { name, rule, failing, suppressed, others, reason_unknown: unknown }
        };
        let mut rules: Vec<RuleFindings> = names.iter().map(of).collect();
        rules.sort_by_key(|of| RULES.iter().position(|rule| rule.name() == of.name).unwrap_or(RULES.len()));
        rules
    }
}
