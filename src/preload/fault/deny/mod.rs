//! Denial: makes pairs of devices appear unreachable, consistently for every query and every attempt, and limits the
//! number of peers of a context.
//!
//! This module decides which calls are examined and what happens to each. `devices` finds the devices of a call;
//! `opens` handles handles of other processes; `grants` handles access to virtual memory and to pools; `multicast`
//! handles objects that reach memory without such access; `peers` counts the peers of contexts; `nvml` and `links`
//! handle NVML, and `ask` queries it.
//!
//! Invariants: an unknown device is never denied, so the driver decides. No library that the program has not called is
//! queried. Only facts that never change are kept about a device, so that a forked child can continue to use them.

mod ask;
mod devices;
mod grants;
mod links;
mod multicast;
mod nvml;
mod opens;
mod peers;

use crate::driver::queries;
use crate::fault::forward::ForwardedCall;
use crate::settings::{self, Deny};
use cupeer_spec::deny::DeniedPairs as Pairs;
use cupeer_spec::effect::{Effect, End, Made, Named, Object, Query};
use cupeer_spec::function::{FnId, Library};
use cupeer_spec::results::Result;

/// Denied attempt of the program to use a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Denied {
    /// The result that the program gets in place of the call.
    pub result: i32,
    /// Index in [`denied_names`] of the denied pair, or of the limit.
    pub which: usize,
}

fn denial_with_result(result: Result, which: usize) -> Denied {
    Denied { result: result as i32, which }
}

fn settings() -> Option<&'static Deny> {
    settings::get().deny.as_ref()
}

fn pairs() -> Option<&'static Pairs> {
    settings()?.pairs.as_ref()
}

/// Returns the maximum number of peers of a context, and the index of this limit in [`denied_names`].
fn limit() -> Option<(u32, usize)> {
    let deny = settings()?;
    let before = match &deny.pairs {
        None => 0,
        Some(Pairs::All) => 1,
        Some(Pairs::Pairs(pairs)) => pairs.len(),
    };
    Some((deny.limit?, before))
}

/// Returns true if calls of a function must be examined for denial.
pub fn is_function_examined(id: FnId) -> bool {
    settings().is_some_and(|deny| deny.is_function_examined(id))
}

/// Returns the names under which denials are counted, in the order of the counters: the denied pairs in the settings
/// or `all`, and the limit of peers.
pub fn denied_names() -> Vec<String> {
    let mut names = pairs().map_or(Vec::new(), Pairs::entry_texts);
    if let Some((limit, _)) = limit() {
        names.push(format!("more than {limit} peers"));
    }
    names
}

/// Examines a call before it is forwarded. Returns the denial, whose result replaces the call; `None` if the call must be
/// forwarded.
pub fn deny_before_call(call: &ForwardedCall) -> Option<Denied> {
    let function = call.id.spec();
    if let Some(access) = function.enables() {
        return deny_enabling(call, access);
    }
    if let Some(grant) = function.grants() {
        return grants::deny_grant(call, grant);
    }
    if let Some(joined) = function.joins() {
        return multicast::deny_join(call, joined);
    }
    if function.gathers().is_some() {
        return multicast::deny_creation(call);
    }
    match function.opens() {
        Some(shared) => opens::deny_open(call, shared),
        None if function.library == Library::Nvml => nvml::deny_link_query(call),
        None => None,
    }
}

/// Examines a call that the driver completed with success, and changes its outputs. Returns the denied pair if any output
/// changed.
pub fn change_outputs_after_call(call: &ForwardedCall) -> Option<usize> {
    let function = call.id.spec();
    if function.library == Library::Nvml {
        return nvml::change_nvml_outputs(call);
    }
    for effect in function.effects() {
        match *effect {
            Effect::Asks(Query { subject, .. }) if subject.is_own() => {}
            Effect::Asks(question) => return clear_answer(call, question),
            Effect::Enables(Named { by, .. }, _) => {
                let peer = devices::of_ordinal(queries::device_of(call.words[by]));
                peers::count_peer(queries::context(), queries::device_of_current_context(), &peer);
            }
            Effect::Disables(Named { by, .. }) => {
                peers::remove_peer(queries::context(), queries::device_of(call.words[by]));
            }
            // A context with other references stays current.
            Effect::Ends(End { object: Object::Context, by, is_counted, .. })
                if !is_counted || queries::context() != call.words[by] =>
            {
                peers::forget_context(call.words[by]);
            }
            Effect::Ends(End { object: Object::Primary, by, .. })
                if !queries::is_primary_active(call.words[by] as i32) =>
            {
                peers::forget_device(call.words[by] as i32);
            }
            Effect::Opens(shared) => opens::count_opened_device(call, shared),
            Effect::Makes(Made { object: Object::Pool, by, of: Some(of), .. }) => grants::note_pool(call, by, of),
            _ => {}
        }
    }
    None
}

/// Replaces the answer of a query about a denied pair with zeros. Returns the pair if the answer changed.
fn clear_answer(call: &ForwardedCall, question: Query) -> Option<usize> {
    let function = call.id.spec();
    let word = |argument: usize| call.words[argument];
    let which = match (question.peer, question.choice) {
        // An attribute that only a newer driver knows may mean anything.
        (Some(_), Some((choice, _))) if !(function.args()[choice].arg_type().is_named)(word(choice)) => {
            return None;
        }
        (Some(peer), _) => denying_pair(word(question.device), word(peer))?,
        (None, Some((choice, reach))) if word(choice) as i32 == reach => {
            pairs()?.find_entry_with(&devices::of_ordinal(word(question.device) as i32))?
        }
        (None, _) => return None,
    };
    let answer = &function.args()[question.answer];
    let count = answer.count_argument().map_or(1, word);
    let place = word(question.answer) as *mut u8;
    if place.is_null() {
        return None;
    }
    // SAFETY: not null, and after success the driver wrote that many elements there.
    let bytes = unsafe { core::slice::from_raw_parts_mut(place, answer.value_size() * count as usize) };
    let is_changed = bytes.iter().any(|byte| *byte != 0);
    bytes.fill(0);
    is_changed.then_some(which)
}

/// Returns the denied pair because of which a device of this process, `from`, has no access to another device, `to`.
fn denying_pair(from: u64, to: u64) -> Option<usize> {
    pairs()?.find_denial(&devices::of_ordinal(from as i32), &devices::of_ordinal(to as i32))
}

/// Denies an attempt to enable access to a peer. An attempt that the driver refuses or ignores goes to the driver.
fn deny_enabling(call: &ForwardedCall, access: Named) -> Option<Denied> {
    let (peer, context) = (call.words[access.by], queries::context());
    // All other arguments are reserved.
    let is_odd = (0..call.id.spec().args().len()).any(|index| index != access.by && call.words[index] != 0);
    if peer == 0 || is_odd || context == 0 || context == peer {
        return None;
    }
    let (from, to) = (queries::device_of_current_context(), queries::device_of(peer));
    if from < 0 || to < 0 {
        return None;
    }
    if let Some(which) = denying_pair(from as u64, to as u64) {
        return Some(denial_with_result(Result::PEER_ACCESS_UNSUPPORTED, which));
    }
    peers::deny_beyond_limit(context, from, &devices::of_ordinal(to))
}
