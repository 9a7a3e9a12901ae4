//! The related sites of a finding: the earlier calls on the same object, and their places.
//!
//! The recording knows them for every finding; the process that found it remembers only some. Sites of its own process
//! are noted while the process is read ([`sites`]), and those of others after all have been read.
//! [`crate::infer`] builds their rows.

use super::MadeCall;
use super::world::Sight;
use crate::follow::ledger::Site;
use crate::follow::ledger::follow::OwnHandle;
use crate::follow::ledger::own::{By, Closed};
use crate::follow::memory::OwnMapping;
use cupeer_report::judged::judged;
use cupeer_report::places::{Stack, Stacks};
use cupeer_rules::{Related, Rule};
use cupeer_spec::effect::Object;
use cupeer_spec::record::slot::finding::role;

/// What the process of a finding had done.
pub struct Earlier {
    /// As what it counts: [`role`].
    pub role: u32,
    pub tid: u32,
    pub at: u64,
    pub stack: Stack,
    /// What it was done to: an address or a context.
    pub address: u64,
    pub fingerprint: Option<u64>,
}

/// What a process has done to what one of its calls is about, as far as that broke the rule.
pub fn sites(rule: Rule, made: &MadeCall, sight: Sight, stacks: &mut Stacks) -> Vec<Earlier> {
    let spec = made.function.spec();
    let mut earlier = |role, by: &By, address, fingerprint| {
        let stack = stacks.number(made.index, by.ticks, &by.frames, &by.python);
        Earlier { role, tid: by.tid, at: by.at, stack, address, fingerprint }
    };
    let related = rule.spec().page().related;
    match related {
        Related::None => Vec::new(),
        Related::OpeningAndClosing => {
            let Some(address) = spec.closes().and_then(|one| made.call.number(one.by)) else {
                return Vec::new();
            };
            let Some(closed) = sight.own.closed(address) else { return Vec::new() };
            let role = if closed.with_context { role::ENDING } else { role::CLOSING };
            let closing = earlier(role, &closed.by, address, Some(closed.fingerprint));
            opening(closed, sight).into_iter().chain([closing]).collect()
        }
        Related::EndOfContext | Related::EndOfOwnContext => {
            let peer = spec.enables().or(spec.disables()).and_then(|peer| made.call.number(peer.by));
            let own = made.call.details.context.filter(|context| *context != 0);
            let ending = |context: Option<u64>| Some((context?, sight.own.ending(context?)?));
            let had = sight.own.ending_of_last(made.call.tid).filter(|_| own.is_none());
            let mut ended = [ending(own), had, ending(peer)].into_iter().flatten();
            // Of a context that is gone, the driver does not always tell which it was.
            let only = || sight.own.only_ending().filter(|_| related == Related::EndOfContext);
            let ended = ended.next().or_else(|| only().map(|(context, by)| (context.unwrap_or(0), by)));
            ended.map(|(context, by)| earlier(role::ENDING, by, context, None)).into_iter().collect()
        }
        Related::Enabling => {
            let peer = spec.enables().and_then(|peer| made.call.number(peer.by));
            let contexts = made.call.details.context.zip(peer);
            let by = contexts.and_then(|(from, to)| Some((to, sight.own.enabling(from, to)?)));
            by.map(|(to, by)| earlier(role::ENABLING, by, to, None)).into_iter().collect()
        }
        Related::FirstOpening => {
            let address = spec.opens().and_then(|shared| made.call.number(shared.by));
            let held = address.and_then(|at| Some((at, sight.follower.opened.bearer(Object::Pointer, at)?)));
            let first = held.and_then(|(address, held)| opened(address, held, sight));
            first.into_iter().collect()
        }
        Related::MappingUsed => {
            let args = made.call.arguments();
            let call = judged(made.function, made.result().unwrap_or(0), &args, made.call);
            let mapped = |(_, start, bytes)| sight.memory.mapped((start, bytes), |_| true);
            let mapped = call.used().find_map(mapped);
            mapped.map(|(start, site, at)| of_site(role::MAPPING, &site, at, start)).into_iter().collect()
        }
        Related::MappingInRange => mapping(made, sight, |_, _| true),
        Related::MappingCut => mapping(made, sight, |mapping, (at, size)| !mapping.is_within((at, size))),
        Related::Releasing => {
            let named = spec.ends().map(|end| end.by).or(spec.exports().map(|shared| shared.by));
            let named = named.or_else(|| spec.makes().and_then(|made| made.of));
            let handle = named.and_then(|by| made.call.number(by));
            let released = handle.and_then(|handle| sight.memory.released(handle));
            let site = |(site, at)| of_site(role::RELEASING, &site, at, 0);
            released.map(site).into_iter().collect()
        }
    }
}

/// Where the first mapping among the addresses of a call was mapped of which something is true.
fn mapping(made: &MadeCall, sight: Sight, is_it: impl Fn(&OwnMapping, (u64, u64)) -> bool) -> Vec<Earlier> {
    let args = made.call.arguments();
    let range = judged(made.function, made.result().unwrap_or(0), &args, made.call).range();
    let mapped = sight.memory.mapped(range, |mapping| is_it(mapping, range));
    mapped.map(|(start, site, at)| of_site(role::MAPPING, &site, at, start)).into_iter().collect()
}

fn of_site(role: u32, site: &Site, at: u64, address: u64) -> Earlier {
    Earlier { role, tid: site.tid, at, stack: site.stack, address, fingerprint: None }
}

/// Where something was opened that has been closed.
fn opening(closed: &Closed, sight: Sight) -> Option<Earlier> {
    opened(closed.address, &closed.held, sight)
}

/// Where a process opened what it has, or had, at an address.
fn opened(address: u64, held: &OwnHandle, sight: Sight) -> Option<Earlier> {
    let entry = &sight.ledger.handles()[held.handle as usize];
    let time = entry.imports.get(held.import as usize)?.times.last()?;
    Some(Earlier {
        role: role::OPENING,
        tid: time.site.tid,
        at: time.opened,
        stack: time.site.stack,
        address,
        fingerprint: Some(entry.fingerprint),
    })
}
