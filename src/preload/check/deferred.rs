//! Findings that are deferred because their calls may have been probes, until the next calls of their thread decide.
//!
//! These findings are in the record at once. cupeer prints them when the process ends, unless a follow-up call showed that the program expected
//! the failure.

use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_rules::decide;
use cupeer_rules::probes::FollowUp;

/// Call that would follow a probe: the kind of the call, and the object that it is about.
pub type ProbeKey = (FollowUp, u64);

/// Number of findings that can be deferred at once. Further findings are printed immediately.
const MOST: usize = 32;
/// Maximum length of the text of a deferred finding, in bytes.
const LONGEST: usize = crate::sys::line::LONGEST;

/// States of an entry in the table of deferred findings.
mod state {
    pub const FREE: u32 = 0;
    pub const TAKEN: u32 = 1;
    pub const DEFERRED: u32 = 2;
}

struct DeferredFinding {
    state: AtomicU32,
    /// Pid of the process with the finding: a forked child does not print the findings of its parent.
    pid: AtomicU32,
    tid: AtomicU32,
    follow_up: AtomicU32,
    about: AtomicU64,
    /// 1 if the finding counts for the exit status.
    is_bad: AtomicU32,
    length: AtomicU32,
    text: UnsafeCell<[u8; LONGEST]>,
}
// SAFETY: only the thread that changed the state to `TAKEN` uses the text, until it changes the state again.
unsafe impl Sync for DeferredFinding {}

static DEFERRED: [DeferredFinding; MOST] = [const {
    DeferredFinding {
        state: AtomicU32::new(state::FREE),
        pid: AtomicU32::new(0),
        tid: AtomicU32::new(0),
        follow_up: AtomicU32::new(0),
        about: AtomicU64::new(0),
        is_bad: AtomicU32::new(0),
        length: AtomicU32::new(0),
        text: UnsafeCell::new([0; LONGEST]),
    }
}; MOST];

/// True once any finding was deferred. Most processes end without reading the table.
#[unsafe(link_section = ".data.start")]
static WAS_ANY_DEFERRED: AtomicBool = AtomicBool::new(false);

impl DeferredFinding {
    fn claim(&self, from: u32) -> bool {
        self.state.compare_exchange(from, state::TAKEN, AcqRel, Relaxed).is_ok()
    }

    fn is_own(&self) -> bool {
        self.pid.load(Relaxed) == std::process::id()
    }
}

fn tid() -> u32 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Defers a finding until the next calls of the thread show whether cupeer prints it. Returns false if the table is
/// full or the text is too long.
pub fn defer((follow_up, about): ProbeKey, is_bad: bool, text: &[u8]) -> bool {
    let text = if text.len() <= LONGEST { text } else { return false };
    let Some(place) = DEFERRED.iter().find(|place| place.claim(state::FREE)) else { return false };
    // SAFETY: this thread has taken the place.
    unsafe { (&mut *place.text.get())[..text.len()].copy_from_slice(text) };
    place.length.store(text.len() as u32, Relaxed);
    place.pid.store(std::process::id(), Relaxed);
    place.tid.store(tid(), Relaxed);
    place.follow_up.store(follow_up as u32, Relaxed);
    place.about.store(about, Relaxed);
    place.is_bad.store(is_bad.into(), Relaxed);
    place.state.store(state::DEFERRED, Release);
    WAS_ANY_DEFERRED.store(true, Release);
    true
}

/// Drops the deferred findings of this thread that a call shows to be about a probe.
pub fn drop_findings_of_probe(call: &decide::Call) {
    let Some(follow_up) = FollowUp::of(call) else { return };
    let about = follow_up.subject(call);
    for place in DEFERRED.iter().filter(|place| place.state.load(Acquire) == state::DEFERRED) {
        let is_it = place.follow_up.load(Relaxed) == follow_up as u32 && place.about.load(Relaxed) == about;
        if is_it && place.is_own() && place.tid.load(Relaxed) == tid() && place.claim(state::DEFERRED) {
            place.state.store(state::FREE, Release);
        }
    }
}

/// Hands over the deferred findings that no follow-up call dropped. The flag is true if a finding counts for the exit status.
pub fn take_each_without_follow_up(mut say: impl FnMut(&[u8], bool)) {
    let places: &[DeferredFinding] = if WAS_ANY_DEFERRED.load(Acquire) { &DEFERRED } else { &[] };
    for place in places {
        if place.state.load(Acquire) == state::DEFERRED && place.is_own() && place.claim(state::DEFERRED) {
            let length = place.length.load(Relaxed) as usize;
            // SAFETY: this thread has taken the place.
            let text = unsafe { &(&*place.text.get())[..length] };
            say(text, place.is_bad.load(Relaxed) != 0);
            place.state.store(state::FREE, Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, because all of them use the same table.
    #[test]
    fn findings_without_a_follow_up_call_are_printed_once() {
        let (fabric, pool) = ((FollowUp::OtherHandleType, 0), (FollowUp::SamePool, 7));
        assert!(defer(fabric, true, b"no fabric") && defer(pool, false, b"wrong pool"));
        std::thread::spawn(move || defer(fabric, true, b"of another thread")).join().unwrap();
        assert!(!defer(fabric, true, &[b'x'; LONGEST + 1]));
        let mut said = Vec::new();
        let args = [0; cupeer_spec::record::slot::MOST_ARGS];
        let mut bytes = args;
        let id = cupeer_spec::function::FnId::cuMemCreate;
        let (index, _) = id.spec().find_argument("prop").unwrap();
        bytes[id.spec().argument_byte_range(index)][4] = 1;
        let call = |args| decide::Call { function: id, result: 0, args, shape: !0, elements: &[] };
        // Creating memory without a handle type is not a follow-up call.
        drop_findings_of_probe(&call(&args));
        drop_findings_of_probe(&call(&bytes));
        take_each_without_follow_up(|text, is_bad| said.push((String::from_utf8_lossy(text).into_owned(), is_bad)));
        said.sort();
        assert_eq!(said, [("of another thread".to_owned(), true), ("wrong pool".to_owned(), false)]);
        take_each_without_follow_up(|_, _| panic!("it was said"));
        assert_eq!((0..2 * MOST).filter(|_| defer(pool, false, b"full")).count(), MOST);
        let mut count = 0;
        take_each_without_follow_up(|_, _| count += 1);
        assert_eq!(count, MOST);
    }
}
