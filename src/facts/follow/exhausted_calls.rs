//! Tracks the calls of one process that failed because no memory or no addresses were left.
//!
//! It keeps one entry per function, stack, and place: the first of these calls, and how many there were.

use crate::follow::ledger::Site;
use crate::follow::memory::{Location, Memory, Sum};
use cupeer_model::View;
use cupeer_record::{Call, Outcome};
use cupeer_report::model::Uuid;
use cupeer_rules::{Found, RULES, RuleSpec};
use cupeer_spec::effect::{Effect, Made, Object};
use cupeer_spec::function::FnId;
use cupeer_spec::results::Result;

/// The most entries of one process.
const MOST: usize = 64;

/// Calls of one function from one place that found nothing left.
pub struct Scarce {
    pub function: FnId,
    /// The first of them.
    pub site: Site,
    pub at: u64,
    pub last: u64,
    pub count: u64,
    /// The size that the first one asked for.
    pub wanted: Option<u64>,
    /// The place where it asked for memory.
    pub location: Location,
    /// The addresses that the process had reserved.
    pub reserved: Sum,
}

/// Returns true if a call failed for want of something that others may keep.
#[inline]
pub fn concerns(function: FnId, call: &Call) -> bool {
    const RESULT: i32 = Result::OUT_OF_MEMORY as i32;
    let explains = |rule: &RuleSpec| rule.found == Found::InRecordings && rule.explains(function, RESULT);
    call.outcome == Outcome::Returned(RESULT) && !call.injected && RULES.iter().any(explains)
}

/// Returns the place where a call asks for memory: that of its properties, or that of its pool.
pub fn location_of(
    function: FnId,
    call: &Call,
    memory: &Memory,
    uuid: impl Fn(Option<i32>) -> Option<Uuid>,
) -> Location {
    let pool = function.spec().effects().iter().find_map(|effect| match *effect {
        Effect::Makes(Made { object: Object::Pointer, of: Some(pool), .. }) => call.number(pool),
        _ => None,
    });
    match pool.and_then(|pool| memory.state.pool(pool)) {
        Some(pool) if pool.device.is_some() || pool.is_on_host() => Location::of(pool.device, uuid),
        _ => Location::wanted_by(call, uuid).unwrap_or_default(),
    }
}

/// Adds a call that asked for memory in a place, was made at a time, and last repeated at another one.
pub fn add(
    all: &mut Vec<Scarce>,
    (function, call, site): (FnId, &Call, Site),
    (at, last): (u64, u64),
    location: Location,
    reserved: Sum,
) {
    let key = (function, site.stack, location);
    let is_alike = |known: &&mut Scarce| (known.function, known.site.stack, known.location) == key;
    if let Some(known) = all.iter_mut().find(is_alike) {
        known.count = known.count.saturating_add(call.times());
        known.last = known.last.max(last);
    } else if all.len() < MOST {
        let wanted = function.spec().sized_by().and_then(|size| call.number(size));
        all.push(Scarce { function, site, at, last, count: call.times(), wanted, location, reserved });
    }
}
