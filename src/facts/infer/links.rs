//! Links from a failed call that no rule explains to the finding or the table of the report about the same memory, handle, or
//! device.

use super::context::Context;
use crate::follow::pending::PendingFinding;
use cupeer_report::model::is_explanation;
use cupeer_rules::{DRIVER_SAYS, NO_CAUSE, Rule, Severity, Tells};

/// Number of explanations that get a link: the first ones. Each has its own function, result, and place.
const MOST_LINKS: usize = 256;

/// Rules about memory that makes kernels fault: no call of the table fails, but the process ends with an error.
const FAULTING: [Rule; 4] = [Rule::UseInKernel, Rule::UseInGraph, Rule::VmmNoAccess, Rule::VmmAccess];

/// Raises notes about memory that makes kernels fault, if their process ended with an error.
pub fn raise_severities(context: &Context, all: &mut [PendingFinding]) {
    // Failures that a fault plan caused do not count.
    let has_failed =
        |process: &usize| context.all.fates[*process].has_failed && context.all.stats[*process].injected == 0;
    let is_one = |found: &&mut PendingFinding| {
        Rule::of(&found.rule).is_some_and(|rule| FAULTING.contains(&rule))
            && found.processes.first().is_some_and(has_failed)
    };
    for found in all.iter_mut().filter(is_one) {
        let said = found.recorded_severity.unwrap_or(Severity::Note);
        found.recorded_severity = Some(said.max(Severity::Warning));
    }
}

/// Adds a sentence to explanations of failed calls that names the finding or the table about the same object.
pub fn add_links(all: &mut [PendingFinding]) {
    let is_one = |found: &PendingFinding| is_explanation(&found.rule) && found.result.is_some_and(|result| result != 0);
    let explanations: Vec<usize> = (0..all.len()).filter(|index| is_one(&all[*index])).take(MOST_LINKS).collect();
    for index in explanations {
        let Some(other) = find_linked(all, &all[index]) else { continue };
        let (rule, message) = (&all[other].rule, &all[other].message);
        let clause = message.split("; ").next().unwrap_or(message);
        let link = format!("; {rule} is about the same memory: {clause}");
        let found = &mut all[index];
        // The sentence is inserted before the driver's message, which must stay last.
        let rest = found.message.find(DRIVER_SAYS).map(|start| found.message.split_off(start));
        found.message.truncate(found.message.find(NO_CAUSE).unwrap_or(found.message.len()));
        found.message += &(link + &rest.unwrap_or_default());
        // A device used memory to which it has no access, as the failure shows.
        let other = &mut all[other];
        if [Rule::VmmAccess, Rule::VmmNoAccess].map(Some).contains(&Rule::of(&other.rule)) {
            other.recorded_severity = Some(Severity::Warning);
        }
    }
}

/// Returns the index of the finding of the same process that is about the same object as a failed call.
fn find_linked(all: &[PendingFinding], failed: &PendingFinding) -> Option<usize> {
    let overlaps =
        |(a, length): (u64, u64), (b, other): (u64, u64)| a < b.saturating_add(other) && b < a.saturating_add(length);
    let is_its = |other: &PendingFinding, about: (u64, u64)| {
        let objects = other.objects.iter().flat_map(|object| {
            let memory = (object.address != 0).then_some((object.address, object.bytes.unwrap_or(1)));
            memory.into_iter().chain(object.fingerprint.map(|handle| (handle, 1)))
        });
        let recorded = other
            .recorded_objects
            .iter()
            .flat_map(|object| [(object.what.address, object.what.bytes.max(1)), (object.what.fingerprint, 1)]);
        let mut its = other.subjects.iter().copied().chain(objects).chain(recorded).filter(|one| one.0 != 0);
        other.processes.first() == failed.processes.first()
            && !other.message.is_empty()
            && !is_explanation(&other.rule)
            // An unclosed handle does not make calls fail.
            && Rule::of(&other.rule).is_none_or(|rule| !rule.spec().states_fact(Tells::OpenAtExit))
            && its.any(|one| overlaps(one, about))
    };
    failed.subjects.iter().find_map(|about| (0..all.len()).find(|index| is_its(&all[*index], *about)))
}
