//! Asks the launcher for the line of source that a call came from, for a live finding. The launcher reads the
//! debugging information outside of the program.
//!
//! No thread waits long: without an answer in time, without a launcher, or if too many threads ask at once, the line
//! is unknown, and the report finds it later.

use super::status;
use crate::sys::caller::Caller;
use crate::sys::clock;
use crate::sys::elf;
use core::ptr;
use core::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed},
};
use cupeer_spec::question::{Answer, Asked, MOST_BUILD_ID, MOST_PATH, Room};
use cupeer_spec::status::{QUESTIONS, Status};

/// How long a question waits for its answer, and all of a process together, in nanoseconds.
const LONGEST: u64 = 100_000_000;
const LONGEST_IN_ALL: u64 = 500_000_000;

/// Asks for the line of a caller. `None` where it is not known.
pub fn line<'a>(caller: &Caller, room: &'a mut Room) -> Option<Answer<'a>> {
    static WAITED: AtomicU64 = AtomicU64::new(0);
    let left = LONGEST_IN_ALL.checked_sub(WAITED.load(Relaxed))?.min(LONGEST);
    let object = elf::containing(caller.address)?;
    let mut note = [0; 64];
    let asked =
        Asked { path: caller.library, build_id: object.build_id(&mut note), place: caller.offset as u64 };
    if !asked.path.starts_with(b"/") || asked.path.len() > MOST_PATH || asked.build_id.len() > MOST_BUILD_ID {
        return None;
    }
    let mut answer = None;
    status::with(|status| {
        if status.answers.load(Acquire) == 0 {
            return;
        }
        let began = clock::now();
        answer = ask(status, &asked, began, left, room);
        WAITED.fetch_add(clock::now().saturating_sub(began), Relaxed);
    });
    answer.filter(|answer| !answer.function.is_empty() || !answer.file.is_empty())
}

fn ask<'a>(status: &Status, asked: &Asked, began: u64, left: u64, room: &'a mut Room) -> Option<Answer<'a>> {
    // SAFETY: getpid has no preconditions.
    let first = unsafe { libc::getpid() } as usize;
    let all = (0..QUESTIONS).map(|i| &status.questions[first.wrapping_add(i) % QUESTIONS]);
    let (question, state) = all.into_iter().find_map(|one| Some((one, one.put(asked, began)?)))?;
    status::ring(status);
    while question.state.load(Acquire) == state {
        let waited = clock::now().saturating_sub(began);
        let Some(rest) = left.checked_sub(waited).filter(|rest| *rest > 0) else { break };
        wait(&question.state, state, rest);
    }
    question.end(state, asked, room)
}

/// Waits until a word is no longer what it was, at most so many nanoseconds. May return before.
fn wait(word: &AtomicU32, value: u32, nanoseconds: u64) {
    let time = libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: the address of a word of the page, which is mapped for good, and that of a time that lives through the call.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, ptr::from_ref(&time));
    }
}
