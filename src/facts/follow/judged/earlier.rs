//! The related sites of a finding: the earlier calls on the same object, and their places.
//!
//! The recording knows them for every finding; the process that found it remembers only some. Sites of its own process
//! are noted while the process is read ([`earlier_calls`]), and those of others after all have been read.
//! [`crate::infer`] builds their rows.

use super::JudgedCall;
use super::world::ProcessFacts;
use crate::follow::ledger::CallSite;
use crate::follow::ledger::follow::OwnHandle;
use crate::follow::ledger::process_history::EarlierCall;
use crate::follow::memory::OwnMapping;
use crate::follow::pending::PendingObject;
use cupeer_record::FindingObject;
use cupeer_report::judged::as_judged_call;
use cupeer_report::places::StackTable;
use cupeer_rules::{Related, Rule};
use cupeer_spec::effect::Object as Kind;
use cupeer_spec::record::slot::finding::role;

/// Returns the earlier calls of the process on the same object that led to the violation.
pub fn earlier_calls(
    rule: Rule,
    made: &JudgedCall,
    facts: ProcessFacts,
    stacks: &mut StackTable,
) -> Vec<PendingObject> {
    let spec = made.function.spec();
    let mut earlier = |role, by: &EarlierCall, address, fingerprint| {
        let stack = stacks.find_or_add(made.index, by.ticks, &by.frames, &by.python);
        let (process, tid, at) = (made.index, Some(by.tid), Some(by.at));
        let stack = Some(stack);
        PendingObject { role, process, tid, at, stack, address, fingerprint, ..PendingObject::default() }
    };
    let of_call =
        |role, call: CallSite, address| PendingObject { address, ..PendingObject::new(role, made.index, call) };
    let related = rule.spec().page().related;
    match related {
        Related::None => Vec::new(),
        Related::OpeningAndClosing => {
            let Some(address) = spec.closes().and_then(|one| made.call.argument_number(one.by)) else {
                return Vec::new();
            };
            let Some(closed) = facts.history.last_closed_at(address) else { return Vec::new() };
            let role = if closed.with_context { role::ENDING } else { role::CLOSING };
            let closing = earlier(role, &closed.by, address, Some(closed.fingerprint));
            opening_call(made, closed.address, &closed.held, facts).into_iter().chain([closing]).collect()
        }
        Related::EndOfContext | Related::EndOfOwnContext => {
            let ended = ended_context(related, made, facts);
            ended.map(|(context, by)| earlier(role::ENDING, by, context, None)).into_iter().collect()
        }
        Related::Enabling => {
            let peer = spec.enables().and_then(|peer| made.call.argument_number(peer.by));
            let contexts = made.call.details.context.zip(peer);
            let by = contexts.and_then(|(from, to)| Some((to, facts.history.enabling_call(from, to)?)));
            by.map(|(to, by)| earlier(role::ENABLING, by, to, None)).into_iter().collect()
        }
        Related::FirstOpening => {
            let address = spec.opens().and_then(|shared| made.call.argument_number(shared.by));
            let held = address.and_then(|at| Some((at, facts.follower.opened.holder(Kind::Pointer, at)?)));
            let first = held.and_then(|(address, held)| opening_call(made, address, held, facts));
            first.into_iter().collect()
        }
        Related::MappingUsed | Related::MappingInRange | Related::MappingCut => {
            let Some(mapping) = related_mapping(related, made, facts) else { return Vec::new() };
            let mapped = mapping.history.mapping_call().map(|call| of_call(role::MAPPING, call, mapping.name));
            let granted = mapping.history.granted.filter(|_| rule == Rule::UseWithoutAccess);
            mapped.into_iter().chain(granted.map(|call| of_call(role::ENABLING, call, mapping.name))).collect()
        }
        Related::Releasing => {
            let handle = spec.allocation_handle_argument().and_then(|by| made.call.argument_number(by));
            let released = handle.and_then(|handle| facts.memory.releasing_call(handle));
            released.map(|call| of_call(role::RELEASING, call, 0)).into_iter().collect()
        }
    }
}

/// Returns the call that ended a range of virtual memory, with its Python lines, and a clause about other ranges. It replaces the
/// object that the process recorded with a finding.
pub fn call_that_ended_range(
    recorded: &mut Vec<FindingObject>,
    made: &JudgedCall,
    facts: ProcessFacts,
    stacks: &StackTable,
) -> Option<(PendingObject, Option<String>)> {
    let asleep = &facts.memory.state.keeper.unmapped_ranges;
    let is_end = |object: &FindingObject| [role::UNMAPPING, role::FREEING].contains(&object.what.role);
    let at = recorded.iter().position(is_end)?;
    let (role, bytes) = (recorded[at].what.role, recorded[at].what.bytes);
    let range = asleep.range_at(recorded[at].what.address).filter(|range| range.bytes <= bytes)?;
    let by = PendingObject::new(role, made.index, range.history.0?);
    recorded.remove(at);
    let ended = PendingObject { address: range.name, bytes: Some(range.bytes), ..by };
    Some((ended, asleep.describe_other_ranges(range, stacks)))
}

/// Returns the context that a call needed (0 if unknown), and the earlier call that ended the context.
fn ended_context<'a>(related: Related, made: &JudgedCall, facts: ProcessFacts<'a>) -> Option<(u64, &'a EarlierCall)> {
    let spec = made.function.spec();
    let peer = spec.enables().or(spec.disables()).and_then(|peer| made.call.argument_number(peer.by));
    let own = made.call.details.context.filter(|context| *context != 0);
    let ending = |context: Option<u64>| Some((context?, facts.history.ending_call(context?)?));
    let had = facts.history.ending_of_last_context(made.call.tid).filter(|_| own.is_none());
    let ended = [ending(own), had, ending(peer)].into_iter().flatten().next();
    // The driver does not always report a destroyed context.
    let only = || facts.history.only_ending().filter(|_| related == Related::EndOfContext);
    ended.or_else(|| only().map(|(context, by)| (context.unwrap_or(0), by)))
}

/// Returns the mapping that a call uses, or the first mapping in the addresses that it names. If a call uses several, returns the
/// mapping with the least access.
fn related_mapping<'a>(related: Related, made: &JudgedCall, facts: ProcessFacts<'a>) -> Option<&'a OwnMapping> {
    let args = made.call.arguments();
    let call = as_judged_call(made.function, made.result().unwrap_or(0), &args, made.call);
    let access = |mapping: &OwnMapping| mapping.history.access.iter().map(|(_, flags)| *flags).sum::<i32>();
    if related == Related::MappingUsed {
        let used = call.used_ranges().flat_map(|(_, start, bytes)| facts.memory.mappings_in((start, bytes)));
        return used.min_by_key(|mapping| (access(mapping), mapping.name));
    }
    let range = call.address_range();
    let is_it = |mapping: &&OwnMapping| related != Related::MappingCut || !mapping.is_within(range);
    facts.memory.mappings_in(range).filter(is_it).min_by_key(|mapping| mapping.name)
}

/// Returns the call by which a process opened a handle at an address.
fn opening_call(made: &JudgedCall, address: u64, held: &OwnHandle, facts: ProcessFacts) -> Option<PendingObject> {
    let entry = &facts.ledger.handles()[held.handle as usize];
    let time = entry.imports.get(held.import as usize)?.times.last()?;
    let opened = PendingObject::new(role::OPENING, made.index, time.first_call());
    Some(PendingObject { address, fingerprint: Some(entry.fingerprint), ..opened })
}
