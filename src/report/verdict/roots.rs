//! Finds which findings follow from others: the finding to mend first stands above those.
//!
//! A finding follows from an earlier one about the same memory or handle, if its rule is about a state that the earlier
//! one left behind: a handle that is closed, freed, or still open. A close follows from a failed open of its thread, and an
//! explanation from the finding that it names.

use crate::model::{Finding, Object, Report, is_explanation};
use cupeer_rules::{Severity, Tells};
use cupeer_spec::function::FnId;
use std::cmp::Reverse;

/// Number of findings, the first ones, among which causes are searched. Later findings follow from none.
const MOST_COMPARED: usize = 512;

/// Sets for each finding the finding from which it follows.
pub fn find_roots(findings: &mut [Finding]) {
    findings.iter_mut().for_each(|finding| finding.follows = None);
    let count = findings.len().min(MOST_COMPARED);
    for index in 0..count {
        let (found, severity) = (&findings[index], Severity::from_word(findings[index].severity));
        let is_root = |root: &usize| {
            let other = &findings[*root];
            *root != index
                && other.suppressed_by.is_none()
                && Severity::from_word(other.severity) >= severity
                && follows_from(found, other)
        };
        let root = (0..count).filter(is_root).min_by_key(|root| (time_of_mistake(&findings[*root]), *root));
        findings[index].follows = root.map(|root| root as u32 + 1);
    }
}

/// Returns the time at which a rule was broken. For a leak, it is the end of the recording.
fn time_of_mistake(finding: &Finding) -> u64 {
    if finding.states_fact(Tells::OpenAtExit) { u64::MAX } else { finding.time_ns }
}

fn follows_from(found: &Finding, root: &Finding) -> bool {
    let function = FnId::by_name(&found.function).map(FnId::spec);
    let is_same_thread = (&found.proc, found.tid) == (&root.proc, root.tid);
    let has_failed = root.result.as_deref().is_some_and(|result| result != "CUDA_SUCCESS");
    let opens = FnId::by_name(&root.function).is_some_and(|root| root.spec().opens().is_some());
    let is_close = function.is_some_and(|function| function.closes().is_some());
    if time_of_mistake(root) >= time_of_mistake(found) {
        return false;
    }
    if is_explanation(&found.rule) {
        let link = format!("; {} is about the same memory", root.rule);
        return found.proc == root.proc && found.message.contains(&link);
    }
    if is_close && opens && has_failed && found.objects.is_empty() {
        return is_same_thread;
    }
    !is_explanation(&root.rule)
        && !root.rule.starts_with(USE_PREFIX)
        && (is_close
            || found.rule.starts_with(USE_PREFIX)
            || found.rule.ends_with(WHILE_OPEN_SUFFIX)
            || is_left_open(found))
        && concern_same_object(found, root)
}

/// Prefix of the names of rules about uses of objects that ended.
const USE_PREFIX: &str = "use-after-";
/// Suffix of the names of rules about objects that ended while others had them open.
const WHILE_OPEN_SUFFIX: &str = "-while-open";

fn is_left_open(finding: &Finding) -> bool {
    finding.states_fact(Tells::OpenAtExit)
}

/// Returns true if two findings are about the same handle, or about the same address of a process.
fn concern_same_object(found: &Finding, root: &Finding) -> bool {
    let is_one = |(a, b): (&Object, &Object)| {
        a.fingerprint.is_some() && a.fingerprint == b.fingerprint
            || a.address.is_some() && a.address == b.address && a.proc == b.proc
    };
    found.objects.iter().flat_map(|a| root.objects.iter().map(move |b| (a, b))).any(is_one)
}

/// Sorts findings so that each comes before those that follow from it.
pub fn sort_by_root<'a>(report: &'a Report, findings: Vec<&'a Finding>) -> Vec<&'a Finding> {
    let number = |finding: &Finding| report.findings.iter().position(|other| std::ptr::eq(other, finding));
    let root = |finding: &Finding| {
        let mut at = number(finding).unwrap_or(0);
        while let Some(next) = report.findings[at].follows.map(|next| next as usize - 1) {
            at = next;
        }
        at
    };
    // A root and the findings that follow from it are placed at the first of them.
    let place = |finding: &&Finding| {
        let root = root(finding);
        let first = findings.iter().position(|other| number(other) == Some(root));
        (first.unwrap_or(usize::MAX), Reverse(finding.follows.is_none()))
    };
    if findings.iter().all(|finding| finding.follows.is_none()) {
        return findings;
    }
    let mut ordered: Vec<(_, &Finding)> = findings.iter().map(|finding| (place(finding), *finding)).collect();
    ordered.sort_by_key(|(place, _)| *place);
    ordered.into_iter().map(|(_, finding)| finding).collect()
}
