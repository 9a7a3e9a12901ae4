//! Tracks the state that a fault led the program into, for which `crate::check` must not blame the program.

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

/// Numbers that rules have put into outputs: whoever passes one on was given it. The last ones.
static GIVEN: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];
static NEXT: AtomicU64 = AtomicU64::new(0);
/// What rules of this process have led the program to: the bits below.
static LED_TO: AtomicU32 = AtomicU32::new(0);
/// A rule gave it a number that is not the driver's.
const GIVEN_NUMBER: u32 = 1;
/// A rule gave it a null pointer.
const GIVEN_NULL: u32 = 2;
/// A rule gave a wrong answer about peers.
const WRONG_PEERS: u32 = 4;
/// A rule made a call fail that gives something back.
const FAILED_RELEASE: u32 = 8;

/// Remembers a number that a rule has put into an output of a call.
pub fn gave(id: FnId, number: u64) {
    if number != 0 {
        GIVEN[NEXT.fetch_add(1, Relaxed) as usize % GIVEN.len()].store(number, Release);
    }
    let peers = if id.spec().is_in(Group::Peer) { WRONG_PEERS } else { 0 };
    LED_TO.fetch_or(peers | if number == 0 { GIVEN_NULL } else { GIVEN_NUMBER }, Release);
}

/// Remembers that a rule made a call fail, with this code. `is_done` says that the driver did all the same what was asked
/// of it.
pub fn failed(id: FnId, code: i32, is_done: bool) {
    let function = id.spec();
    let is_release = function.is_in(Group::Release);
    // The program takes access for what it is not: it enables again what is enabled, or disables what is not.
    let is_told_enabled = code == Result::PEER_ACCESS_ALREADY_ENABLED as i32;
    let is_wrong = is_release || function.is_in(Group::Enable) && (is_done || is_told_enabled);
    let peers = if is_wrong && function.is_in(Group::Peer) { WRONG_PEERS } else { 0 };
    LED_TO.fetch_or(peers | if is_release { FAILED_RELEASE } else { 0 }, Release);
}

/// Whether what is wrong with a call may be because of what a rule did before.
pub fn is_excused(id: FnId, args: &[u8; MOST_ARGS]) -> bool {
    if settings::get().damages_handles || follows_plans() {
        // Another process may have handed out what this one was given, while no rule has concerned this one.
        shared::attach();
    }
    let led_to = LED_TO.load(Acquire);
    if led_to == 0 && !shared::has_damaged() {
        return false;
    }
    let function = id.spec();
    if function.is_in(Group::Peer) && led_to & WRONG_PEERS != 0
        || function.is_in(Group::Release) && led_to & FAILED_RELEASE != 0
    {
        return true;
    }
    let mut at = 0;
    function.args().iter().any(|arg| {
        let bytes = args.get(at..at + arg.stored().min(8));
        at += arg.stored();
        let Some(number) = bytes.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes) else {
            return false;
        };
        // Of a handle, this is its fingerprint.
        let is_pointer = matches!(arg.type_word(), "CUdeviceptr" | "CUevent");
        number == 0 && is_pointer && led_to & GIVEN_NULL != 0
            || number != 0
                && (GIVEN.iter().any(|given| given.load(Acquire) == number)
                    || arg.is_handle() && shared::is_damaged(number))
    })
}
