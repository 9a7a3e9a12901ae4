//! What a program cannot be blamed for, because a fault led it there: `crate::check` asks.

use super::shared;
use crate::settings;
use core::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::function::{FnId, Group};
use cupeer_spec::record::slot::ARGS;
use cupeer_spec::results::Result;

/// Numbers that rules have put into outputs: whoever passes one on was given it. The last ones.
static GIVEN: [AtomicU64; 32] = [const { AtomicU64::new(0) }; 32];
static NEXT: AtomicU64 = AtomicU64::new(0);
/// Whether a rule gave a wrong answer about peers.
static WRONG_PEERS: AtomicBool = AtomicBool::new(false);
/// Whether a rule gave the program a null pointer.
static GAVE_NULL: AtomicBool = AtomicBool::new(false);
/// Whether a rule made a call fail that gives something back.
static FAILED_RELEASE: AtomicBool = AtomicBool::new(false);

/// Whether any of this is so in this process.
static ANY: AtomicBool = AtomicBool::new(false);

/// Remembers a number that a rule has put into an output of a call.
pub fn gave(id: FnId, number: u64) {
    ANY.store(true, Release);
    if id.spec().is_in(Group::Peer) {
        WRONG_PEERS.store(true, Release);
    }
    if number == 0 {
        GAVE_NULL.store(true, Release);
    } else {
        GIVEN[NEXT.fetch_add(1, Relaxed) as usize % GIVEN.len()].store(number, Release);
    }
}

/// Remembers that a rule made a call fail, with this code. `is_done` says that the driver did all the same what was asked
/// of it.
pub fn failed(id: FnId, code: i32, is_done: bool) {
    let function = id.spec();
    let is_release = function.is_in(Group::Release);
    if is_release {
        ANY.store(true, Release);
        FAILED_RELEASE.store(true, Release);
    }
    // The program takes access for what it is not: it enables again what is enabled, or disables what is not.
    let is_told_enabled = code == Result::PEER_ACCESS_ALREADY_ENABLED as i32;
    if function.is_in(Group::Peer)
        && (is_release || function.is_in(Group::Enable) && (is_done || is_told_enabled))
    {
        ANY.store(true, Release);
        WRONG_PEERS.store(true, Release);
    }
}

/// Whether what is wrong with a call may be because of what a rule did before.
pub fn is_excused(id: FnId, args: &[u8; ARGS]) -> bool {
    if settings::get().damages_handles {
        // Another process may have handed out what this one was given, while no rule has concerned this one.
        shared::attach();
    }
    if !ANY.load(Acquire) && !shared::has_damaged() {
        return false;
    }
    let function = id.spec();
    if function.is_in(Group::Peer) && WRONG_PEERS.load(Acquire)
        || function.is_in(Group::Release) && FAILED_RELEASE.load(Acquire)
    {
        return true;
    }
    let mut at = 0;
    function.args.iter().any(|arg| {
        let bytes = args.get(at..at + arg.stored.min(8));
        at += arg.stored;
        let Some(number) = bytes.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes) else {
            return false;
        };
        // Of a handle, this is its fingerprint.
        let is_pointer = matches!(arg.type_word(), "CUdeviceptr" | "CUevent");
        number == 0 && is_pointer && GAVE_NULL.load(Acquire)
            || number != 0
                && (GIVEN.iter().any(|given| given.load(Acquire) == number)
                    || arg.is_handle() && shared::is_damaged(number))
    })
}
