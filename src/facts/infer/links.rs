//! Links between what is known: a failed call that no rule explains, and the finding or the table that is about the same memory,
//! handle, or device.

use super::context::Context;
use super::objects::in_words;
use crate::follow::exhausted_calls::Scarce;
use crate::follow::functions::Number;
use crate::follow::memory::Location;
use crate::follow::pending::PendingFinding;
use cupeer_report::model::is_explanation;
use cupeer_report::moments::bytes;
use cupeer_rules::{DRIVER_SAYS, NO_CAUSE, Rule, Severity, Tells};
use cupeer_spec::results::Result;
use std::cmp::Reverse;

/// The most explanations that are looked at: each has a function, a result, and a place of its own.
const MOST: usize = 256;
/// The most processes that are named beside a full device.
const MOST_PROCESSES: usize = 3;

/// Adds to explanations of failed calls which finding, or which table, is about the same thing.
pub fn add(context: &Context, all: &mut [PendingFinding]) {
    let is_one = |found: &PendingFinding| {
        is_explanation(&found.rule) && found.result.is_some_and(|result| result != 0)
    };
    let explanations: Vec<usize> = (0..all.len()).filter(|index| is_one(&all[*index])).take(MOST).collect();
    for index in explanations {
        let linked = linked(all, &all[index]);
        let link = match linked {
            Some(other) => {
                let (rule, message) = (&all[other].rule, &all[other].message);
                let clause = message.split("; ").next().unwrap_or(message);
                Some(format!("; {rule} is about the same memory: {clause}"))
            }
            None => full_device(context, &all[index]),
        };
        let Some(link) = link else { continue };
        let found = &mut all[index];
        // Before the driver's words, because lines for people end behind it.
        let rest = found.message.find(DRIVER_SAYS).map(|start| found.message.split_off(start));
        found.message.truncate(found.message.find(NO_CAUSE).unwrap_or(found.message.len()));
        found.message += &(link + &rest.unwrap_or_default());
        // A device used memory to which it has no access, as the failure shows.
        if let Some(other) = linked.map(|other| &mut all[other])
            && [Rule::VmmAccess, Rule::VmmNoAccess].map(Some).contains(&Rule::of(&other.rule))
        {
            other.said = Some(Severity::Warning);
        }
    }
}

/// The finding of the same process that is about what a failed call is about.
fn linked(all: &[PendingFinding], failed: &PendingFinding) -> Option<usize> {
    let overlaps = |(a, length): (u64, u64), (b, other): (u64, u64)| {
        a < b.saturating_add(other) && b < a.saturating_add(length)
    };
    let is_its = |other: &PendingFinding, about: (u64, u64)| {
        let objects = other.objects.iter().flat_map(|object| {
            let memory = (object.address != 0).then_some((object.address, object.bytes.unwrap_or(1)));
            memory.into_iter().chain(object.fingerprint.map(|handle| (handle, 1)))
        });
        let recorded = other.recorded.iter().flat_map(|object| {
            [(object.what.address, object.what.bytes.max(1)), (object.what.fingerprint, 1)]
        });
        let mut its = other.about.iter().copied().chain(objects).chain(recorded).filter(|one| one.0 != 0);
        other.processes.first() == failed.processes.first()
            && !other.message.is_empty()
            && !is_explanation(&other.rule)
            // A handle that is never closed makes no call fail.
            && Rule::of(&other.rule).is_none_or(|rule| !rule.spec().tells(Tells::OpenAtExit))
            && its.any(|one| overlaps(one, about))
    };
    failed.about.iter().find_map(|about| (0..all.len()).find(|index| is_its(&all[*index], *about)))
}

/// Which processes had memory on the device of an allocation that failed.
fn full_device(context: &Context, failed: &PendingFinding) -> Option<String> {
    if failed.result != Some(Result::OUT_OF_MEMORY as i32) {
        return None;
    }
    let (all, process) = (context.all, *failed.processes.first()?);
    let mut scarce = all.tallies[process].scarce.iter();
    let is_it = |scarce: &&Scarce| {
        (scarce.site.stack, scarce.function as Number) == (failed.site.stack, failed.function)
    };
    let scarce = scarce.find(is_it)?;
    let Location::Device(device) = scarce.location else { return None };
    let host = |process: usize| context.job.processes[process].header.boot_id;
    let mut made: Vec<(u64, usize)> = (0..all.tallies.len())
        .filter(|other| host(*other) == host(process))
        .map(|other| (all.virtual_memory.made_at(other, device, scarce.at), other))
        .filter(|(size, _)| *size > 0)
        .collect();
    made.sort_by_key(|(size, other)| (Reverse(*size), *other));
    let named = made.iter().take(MOST_PROCESSES).map(|(size, other)| match *other == process {
        true => format!("this process {}", bytes(*size)),
        false => format!("{} {}", in_words(context.job, *other as u32), bytes(*size)),
    });
    let named: Vec<String> = named.collect();
    let wanted = bytes(scarce.wanted?);
    let then = format!(
        "; {wanted} were asked for, and these had allocated virtual memory on that device: {}",
        named.join(", ")
    );
    (!named.is_empty()).then_some(then)
}
