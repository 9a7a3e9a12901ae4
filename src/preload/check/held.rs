//! Findings that are held back because their calls may have been probes, until the next calls of their thread decide.
//!
//! The record has these findings at once. cupeer prints them when the process ends, unless a follow-up call showed
//! that the program expected the failure.

use core::cell::UnsafeCell;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};
use cupeer_rules::decide;
use cupeer_rules::probes::FollowUp;

/// What a call of this thread asks: what would follow it up, and what that is about.
pub type Question = (FollowUp, u64);

/// How many findings wait at once, and how long their texts may be: as long as any.
const MOST: usize = 32;
const LONGEST: usize = crate::sys::line::LONGEST;

/// What is in a place.
mod state {
    pub const FREE: u32 = 0;
    pub const TAKEN: u32 = 1;
    pub const HELD: u32 = 2;
}

struct Held {
    state: AtomicU32,
    /// The process: a child of fork says nothing of its parent's.
    pid: AtomicU32,
    tid: AtomicU32,
    follow_up: AtomicU32,
    about: AtomicU64,
    /// Whether it counts as found.
    is_bad: AtomicU32,
    length: AtomicU32,
    text: UnsafeCell<[u8; LONGEST]>,
}
// SAFETY: whoever has changed the state to `TAKEN` is alone with the text until the state is another.
unsafe impl Sync for Held {}

static HELD: [Held; MOST] = [const {
    Held {
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

/// Whether anything was ever held here: most processes end without a look at the texts.
#[unsafe(link_section = ".data.start")]
static IS_ANY: AtomicBool = AtomicBool::new(false);

impl Held {
    fn take(&self, from: u32) -> bool {
        self.state.compare_exchange(from, state::TAKEN, AcqRel, Relaxed).is_ok()
    }

    fn is_own(&self) -> bool {
        self.pid.load(Relaxed) == pid()
    }
}

fn pid() -> u32 {
    // SAFETY: getpid has no preconditions.
    unsafe { libc::getpid() as u32 }
}

fn tid() -> u32 {
    // SAFETY: gettid has no preconditions.
    unsafe { libc::syscall(libc::SYS_gettid) as u32 }
}

/// Keeps a text until the thread's next calls show whether cupeer prints it. Returns false if there is no place for it.
pub fn hold((follow_up, about): Question, is_bad: bool, text: &[u8]) -> bool {
    let text = if text.len() <= LONGEST { text } else { return false };
    let Some(place) = HELD.iter().find(|place| place.take(state::FREE)) else { return false };
    // SAFETY: this thread has taken the place.
    unsafe { (&mut *place.text.get())[..text.len()].copy_from_slice(text) };
    place.length.store(text.len() as u32, Relaxed);
    place.pid.store(pid(), Relaxed);
    place.tid.store(tid(), Relaxed);
    place.follow_up.store(follow_up as u32, Relaxed);
    place.about.store(about, Relaxed);
    place.is_bad.store(is_bad.into(), Relaxed);
    place.state.store(state::HELD, Release);
    IS_ANY.store(true, Release);
    true
}

/// A call of this thread has returned: it may be what was waited for.
pub fn answer(call: &decide::Call) {
    let Some(follow_up) = FollowUp::of(call) else { return };
    let about = follow_up.about(call);
    for place in HELD.iter().filter(|place| place.state.load(Acquire) == state::HELD) {
        let is_it = place.follow_up.load(Relaxed) == follow_up as u32 && place.about.load(Relaxed) == about;
        if is_it && place.is_own() && place.tid.load(Relaxed) == tid() && place.take(state::HELD) {
            place.state.store(state::FREE, Release);
        }
    }
}

/// The process ends: hands over what no follow-up came for, and whether it counts as found.
pub fn each_left(mut say: impl FnMut(&[u8], bool)) {
    let places: &[Held] = if IS_ANY.load(Acquire) { &HELD } else { &[] };
    for place in places {
        if place.state.load(Acquire) == state::HELD && place.is_own() && place.take(state::HELD) {
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

    /// In one test: there is one place for all.
    #[test]
    fn what_was_answered_is_not_said_and_what_was_not_is_said_once() {
        let (fabric, pool) = ((FollowUp::OtherHandleType, 0), (FollowUp::SamePool, 7));
        assert!(hold(fabric, true, b"no fabric") && hold(pool, false, b"wrong pool"));
        std::thread::spawn(move || hold(fabric, true, b"of another thread")).join().unwrap();
        assert!(!hold(fabric, true, &[b'x'; LONGEST + 1]));
        let mut said = Vec::new();
        let args = [0; cupeer_spec::record::slot::MOST_ARGS];
        let mut bytes = args;
        let id = cupeer_spec::function::FnId::cuMemCreate;
        let (index, _) = id.spec().argument("prop").unwrap();
        bytes[id.spec().place(index)][4] = 1;
        let call = |args| decide::Call { function: id, result: 0, args, shape: !0, elements: &[] };
        // Memory of no handle type shows nothing.
        answer(&call(&args));
        answer(&call(&bytes));
        each_left(|text, is_bad| said.push((String::from_utf8_lossy(text).into_owned(), is_bad)));
        said.sort();
        assert_eq!(said, [("of another thread".to_owned(), true), ("wrong pool".to_owned(), false)]);
        each_left(|_, _| panic!("it was said"));
        assert_eq!((0..2 * MOST).filter(|_| hold(pool, false, b"full")).count(), MOST);
        let mut count = 0;
        each_left(|_, _| count += 1);
        assert_eq!(count, MOST);
    }
}
