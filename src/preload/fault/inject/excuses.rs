//! Tracks the consequences of faults, for which `crate::check` must not blame the program.

use super::shared;
use crate::settings;
use crate::sys::every_call::follows_plans;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::function::{FnId, Group};
use cupeer_spec::record::slot::MOST_ARGS;
use cupeer_spec::results::Result;

/// Last numbers that faults wrote into outputs. The program may pass them to later calls.
static GIVEN_NUMBERS: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];
static NEXT: AtomicU64 = AtomicU64::new(0);
/// Effects of faults in this process, as the bits below.
static EFFECTS: AtomicU32 = AtomicU32::new(0);
/// Bit: a fault gave the program a number that is not the driver's.
const GIVEN_NUMBER: u32 = 1;
/// Bit: a fault gave the program a null pointer.
const GIVEN_NULL: u32 = 2;
/// Bit: a fault gave the program a wrong answer about access to peers.
const WRONG_PEERS: u32 = 4;
/// Bit: a fault made a release fail.
const FAILED_RELEASE: u32 = 8;

/// Remembers a number that a fault wrote into an output of a call.
pub fn note_written_output(id: FnId, number: u64) {
    if number != 0 {
        GIVEN_NUMBERS[NEXT.fetch_add(1, Relaxed) as usize % GIVEN_NUMBERS.len()].store(number, Release);
    }
    let peers = if id.spec().is_in(Group::Peer) { WRONG_PEERS } else { 0 };
    EFFECTS.fetch_or(peers | if number == 0 { GIVEN_NULL } else { GIVEN_NUMBER }, Release);
}

/// Remembers that a fault made a call fail with a result code. `is_done` is true if the driver did the call's work nevertheless.
pub fn note_failure(id: FnId, code: i32, is_done: bool) {
    let function = id.spec();
    let is_release = function.is_in(Group::Release);
    // The program then knows the wrong state of the access: it enables access again, or disables access that is not enabled.
    let is_told_enabled = code == Result::PEER_ACCESS_ALREADY_ENABLED as i32;
    let is_wrong = is_release || function.is_in(Group::Enable) && (is_done || is_told_enabled);
    let peers = if is_wrong && function.is_in(Group::Peer) { WRONG_PEERS } else { 0 };
    EFFECTS.fetch_or(peers | if is_release { FAILED_RELEASE } else { 0 }, Release);
}

/// Returns true if an earlier fault may be the cause of an error in a call.
pub fn is_excused(id: FnId, args: &[u8; MOST_ARGS]) -> bool {
    if settings::get().damages_handles || follows_plans() {
        // The file lists handles that faults damaged in other processes. It may not be mapped yet, if no fault has concerned this
        // process.
        shared::map_counts();
    }
    let effects = EFFECTS.load(Acquire);
    if effects == 0 && !shared::has_damaged() {
        return false;
    }
    let function = id.spec();
    if function.is_in(Group::Peer) && effects & WRONG_PEERS != 0
        || function.is_in(Group::Release) && effects & FAILED_RELEASE != 0
    {
        return true;
    }
    let mut at = 0;
    function.args().iter().any(|arg| {
        let bytes = args.get(at..at + arg.stored_size().min(8));
        at += arg.stored_size();
        let Some(number) = bytes.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes) else {
            return false;
        };
        // The word of a handle is its fingerprint.
        let is_pointer = matches!(arg.type_word(), "CUdeviceptr" | "CUevent");
        number == 0 && is_pointer && effects & GIVEN_NULL != 0
            || number != 0
                && (GIVEN_NUMBERS.iter().any(|given| given.load(Acquire) == number)
                    || arg.is_ipc_handle() && shared::is_damaged(number))
    })
}
