//! Tracks the calls of one process that failed because no memory or no addresses were left.
//!
//! It keeps one entry per function, stack, and place: the first of these calls, how many there were, the state at the last one,
//! and whether its thread got memory after that.

use crate::follow::ledger::CallSite;
use crate::follow::memory::{Location, ProcessMemory, UsageSum, book};
use cupeer_model::View;
use cupeer_record::{Call, Outcome};
use cupeer_report::model::Uuid;
use cupeer_report::places::StackNumber;
use cupeer_rules::{Found, RULES, RuleSpec};
use cupeer_spec::argument::ArgSpec;
use cupeer_spec::effect::{Effect, Made, Object};
use cupeer_spec::function::FnId;
use cupeer_spec::results::Result;

/// Number of entries of one process: the first ones; failed calls from further places are dropped.
const MOST_ENTRIES: usize = 64;
/// The free memory of a device when a call failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryLeft {
    pub device: Option<Uuid>,
    pub free: u64,
    pub total: u64,
    /// Small allocations of the process on the device, which are counted but not recorded: total bytes, and number.
    pub small: (u64, u64),
}

/// Failed calls of one function from one place for which no memory or no addresses were left.
pub struct OomCall {
    /// The first of the calls.
    pub first: CallSite,
    /// Time at which the last of the calls began.
    pub last: u64,
    pub count: u64,
    /// Time at which the last of the calls returned.
    pub failed_at: u64,
    /// Number of the last failed call in its stream of events.
    pub seq: u64,
    /// The size that the last call asked for, in bytes.
    pub wanted: Option<u64>,
    /// The device or host whose memory the calls asked for.
    pub location: Location,
    /// The address ranges that the process had reserved at the first of the calls.
    pub reserved: UsageSum,
    /// Free memory of the device after the last call.
    pub left: Option<MemoryLeft>,
    /// For calls that allocate from a pool with a largest size: that size, the bytes in use, and the stack that created the pool.
    pub pool_limit_and_use: Option<(u64, u64, StackNumber)>,
    /// The largest allocation that the same thread made after the last of the calls, in bytes.
    pub allocated_later: Option<u64>,
    /// True if a call from the same place succeeded before the last of the calls.
    pub had_succeeded: bool,
}

/// Returns true if a call failed because no memory or no addresses were left.
#[inline]
pub fn is_oom(function: FnId, call: &Call) -> bool {
    const RESULT: i32 = Result::OUT_OF_MEMORY as i32;
    let explains = |rule: &RuleSpec| rule.found == Found::InRecordings && rule.explains(function, RESULT);
    call.outcome == Outcome::Returned(RESULT) && !call.injected && RULES.iter().any(explains)
}

/// Returns the pool from which a call allocates.
fn pool_of(function: FnId, call: &Call) -> Option<u64> {
    function.spec().effects().iter().find_map(|effect| match *effect {
        Effect::Makes(Made { object: Object::Pointer, of: Some(pool), .. }) => call.argument_number(pool),
        _ => None,
    })
}

/// Returns the location of the memory that a call asks for: from its properties, from its pool, or else the device of its
/// context.
pub fn requested_location(
    function: FnId,
    call: &Call,
    memory: &ProcessMemory,
    uuid: impl Fn(Option<i32>) -> Option<Uuid>,
) -> Location {
    let current = |uuid: &dyn Fn(Option<i32>) -> Option<Uuid>| {
        uuid(call.details.devices.0).map_or(Location::Unknown, Location::Device)
    };
    let Some(pool) = pool_of(function, call) else {
        // cuCtxCreate names the device of the new context.
        let named = function.spec().args().iter().position(ArgSpec::is_device);
        let named = named.and_then(|index| call.argument_number(index));
        let named = named.and_then(|device| uuid(Some(device as i32))).map(Location::Device);
        return Location::requested_by(call, &uuid).or(named).unwrap_or_else(|| current(&uuid));
    };
    match memory.state.pool(pool) {
        Some(pool) if pool.device.is_some() || pool.is_on_host() => Location::of_device(pool.device, uuid),
        _ => Location::Unknown,
    }
}

/// Adds a failed call, with the times at which its last repetition began and returned, and the location of the memory.
pub fn add_failed_call(
    all: &mut Vec<OomCall>,
    call: &Call,
    first: CallSite,
    (last, failed_at): (u64, u64),
    location: Location,
    memory: &ProcessMemory,
    left: Option<MemoryLeft>,
) {
    let CallSite { function, site, .. } = first;
    let key = (function, site.stack, location);
    let is_alike = |known: &&mut OomCall| (known.first.function, known.first.site.stack, known.location) == key;
    let wanted = book::requested_bytes(function, call);
    let keeper = &memory.state.keeper;
    let most_of_pool = pool_of(function, call).and_then(|pool| keeper.book.pool_limit_and_use(pool));
    let had_succeeded = keeper.book.has_allocated_from(site.stack);
    if let Some(known) = all.iter_mut().find(is_alike) {
        known.count = known.count.saturating_add(call.call_count());
        known.last = known.last.max(last);
        (known.failed_at, known.seq, known.wanted) = (failed_at, call.seq, wanted);
        (known.left, known.allocated_later) = (left, None);
        (known.pool_limit_and_use, known.had_succeeded) = (most_of_pool, had_succeeded);
    } else if all.len() < MOST_ENTRIES {
        let (reserved, seq, count) = (keeper.reserved, call.seq, call.call_count());
        all.push(OomCall {
            first,
            last,
            count,
            failed_at,
            seq,
            wanted,
            location,
            reserved,
            left,
            pool_limit_and_use: most_of_pool,
            allocated_later: None,
            had_succeeded,
        });
    }
}

/// Stores the size of a successful allocation in the entries with failed calls of the same thread.
pub fn note_allocation(all: &mut [OomCall], function: FnId, call: &Call) {
    let makes = function.spec().makes().is_some_and(|made| {
        matches!(made.object, Object::Memory | Object::Pointer | Object::Allocation | Object::Context)
    });
    let bytes = if makes { book::requested_bytes(function, call).unwrap_or(0) } else { return };
    for known in all.iter_mut().filter(|known| known.first.site.tid == call.tid) {
        known.allocated_later = known.allocated_later.max(Some(bytes));
    }
}
