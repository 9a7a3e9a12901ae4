//! A question about a line of source, put by a process that has a finding, and answered by the launcher, which reads the
//! debugging information. They lie in the page that both share ([`crate::status`]).
//!
//! A question passes from phase to phase by its `state`, which also counts who had it: a process that is killed leaves its
//! question to the next, and one that was stopped for long finds that it is no longer its own. The answer repeats a hash of
//! what was asked, so that no bytes that two have written between each other's are taken for one.

use core::sync::atomic::{
    AtomicU8, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// The most of a path: longer ones are not asked about.
pub const MOST_PATH: usize = 1024;
/// The most of a build id: as for paths.
pub const MOST_BUILD_ID: usize = 32;
/// The most of a function's name, which is cut.
pub const MOST_FUNCTION: usize = 160;

/// After how long a question is nobody's, in nanoseconds: nobody waits for that long.
const ABANDONED: u64 = 1_000_000_000;

const PHASES: u32 = 4;
const FREE: u32 = 0;
const WRITING: u32 = 1;
const ASKED: u32 = 2;
const ANSWERED: u32 = 3;

/// A question and its answer. All zero is one that nobody has.
#[repr(C)]
pub struct Question {
    /// Its phase, and how often it was taken. A futex.
    pub state: AtomicU32,
    /// The line, or 0 where the answer has none.
    line: AtomicU32,
    /// When it was taken, by CLOCK_MONOTONIC, in nanoseconds.
    since: AtomicU64,
    /// A return address of the library, less its base.
    place: AtomicU64,
    /// Of the question that this is the answer to.
    answers: AtomicU64,
    path: Text<MOST_PATH>,
    build_id: Text<MOST_BUILD_ID>,
    file: Text<MOST_PATH>,
    function: Text<MOST_FUNCTION>,
}

/// What is asked: the line of a return address in a library.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked<'a> {
    /// The library's path.
    pub path: &'a [u8],
    /// Its build id; empty where it has none.
    pub build_id: &'a [u8],
    /// The return address, less the library's base.
    pub place: u64,
}

impl Asked<'_> {
    /// FNV-1a.
    fn hash(&self) -> u64 {
        let parts: [&[u8]; 4] = [self.path, b"\0", self.build_id, &self.place.to_le_bytes()];
        let bytes = parts.into_iter().flatten();
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// What is known of it. Without a file, there is no line, and the function has how far behind its start the place is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Answer<'a> {
    /// The file, as the compiler had it.
    pub file: &'a [u8],
    /// 0 where the compiler says of none.
    pub line: u32,
    /// Empty where not even that is known.
    pub function: &'a [u8],
}

/// Room for what is read of a question.
pub struct Room {
    bytes: [[u8; MOST_PATH]; 2],
}

impl Room {
    /// For another question.
    pub const fn new() -> Room {
        Room { bytes: [[0; MOST_PATH]; 2] }
    }
}

impl Default for Room {
    fn default() -> Room {
        Room::new()
    }
}

impl Question {
    /// Puts a question where nobody has one. Gives back its state, to be waited on; `None` where this one is taken.
    /// `now` is the time by CLOCK_MONOTONIC.
    pub fn put(&self, asked: &Asked, now: u64) -> Option<u32> {
        let state = self.state.load(Acquire);
        let is_free = state % PHASES == FREE;
        if !is_free && now.saturating_sub(self.since.load(Relaxed)) < ABANDONED {
            return None;
        }
        let taken = (state - state % PHASES).wrapping_add(PHASES);
        self.state.compare_exchange(state, taken | WRITING, AcqRel, Relaxed).ok()?;
        self.since.store(now, Relaxed);
        self.place.store(asked.place, Relaxed);
        self.path.put(asked.path);
        self.build_id.put(asked.build_id);
        let asked = taken | ASKED;
        self.state.compare_exchange(taken | WRITING, asked, Release, Relaxed).ok()?;
        Some(asked)
    }

    /// The question in this state, where it waits for an answer.
    pub fn asked<'a>(&self, room: &'a mut Room) -> Option<(u32, Asked<'a>)> {
        let state = self.state.load(Acquire);
        if state % PHASES != ASKED {
            return None;
        }
        let [path, build_id] = &mut room.bytes;
        let (path, build_id) = (self.path.read(path), self.build_id.read(build_id));
        Some((state, Asked { path, build_id, place: self.place.load(Relaxed) }))
    }

    /// Answers the question that was in a state. Whoever calls this must be the only one who does.
    pub fn answer(&self, state: u32, asked: &Asked, answer: &Answer) {
        self.answers.store(asked.hash(), Relaxed);
        self.line.store(answer.line, Relaxed);
        self.file.put(answer.file);
        self.function.put(answer.function);
        // Fails where nobody waits any more.
        let _ = self.state.compare_exchange(state, state - ASKED + ANSWERED, Release, Relaxed);
    }

    /// The answer to a question that was put with this state; `None` where there is none. The question is over.
    pub fn end<'a>(&self, state: u32, asked: &Asked, room: &'a mut Room) -> Option<Answer<'a>> {
        let answered = state - ASKED + ANSWERED;
        let is_answered = self.state.load(Acquire) == answered;
        let [file, function] = &mut room.bytes;
        let answer = is_answered.then(|| Answer {
            file: self.file.read(file),
            line: self.line.load(Relaxed),
            function: self.function.read(function),
        });
        let is_of_this = self.answers.load(Relaxed) == asked.hash();
        let freed = |from| self.state.compare_exchange(from, state - ASKED, AcqRel, Relaxed).is_ok();
        // It may be answered just now, too late.
        let is_own = !is_answered && freed(state) || freed(answered);
        answer.filter(|_| is_own && is_of_this)
    }
}

/// A text that another process may write meanwhile.
#[repr(C)]
struct Text<const N: usize> {
    length: AtomicU32,
    bytes: [AtomicU8; N],
}

impl<const N: usize> Text<N> {
    /// Cut where it is longer.
    fn put(&self, text: &[u8]) {
        self.bytes.iter().zip(text).for_each(|(place, byte)| place.store(*byte, Relaxed));
        self.length.store(text.len().min(N) as u32, Relaxed);
    }

    fn read<'a>(&self, place: &'a mut [u8; MOST_PATH]) -> &'a [u8] {
        let length = (self.length.load(Relaxed) as usize).min(N).min(MOST_PATH);
        place.iter_mut().zip(&self.bytes[..length]).for_each(|(place, byte)| *place = byte.load(Relaxed));
        &place[..length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    const ASKED_HERE: Asked = Asked { path: b"/bin/a", build_id: b"\x01\x02", place: 0x1190 };
    const ANSWER: Answer = Answer { file: b"/src/a.c", line: 17, function: b"exchange" };

    fn new() -> Box<Question> {
        // SAFETY: it has only atomics, of which all zero is a value.
        unsafe { Box::new(core::mem::zeroed()) }
    }

    #[test]
    fn a_question_is_answered_once_and_free_again() {
        let (question, mut room) = (new(), Room::new());
        assert_eq!(question.asked(&mut room), None);
        for _ in 0..3 {
            let state = question.put(&ASKED_HERE, 5).unwrap();
            assert_eq!(question.put(&ASKED_HERE, 6), None);
            let (known, asked) = question.asked(&mut room).unwrap();
            assert_eq!((known, asked), (state, ASKED_HERE));
            question.answer(state, &asked, &ANSWER);
            assert_eq!(question.asked(&mut Room::new()), None);
            assert_eq!(question.end(state, &ASKED_HERE, &mut room), Some(ANSWER));
        }
        let state = question.put(&ASKED_HERE, 7).unwrap();
        assert_eq!(question.end(state, &ASKED_HERE, &mut room), None);
        assert!(question.put(&ASKED_HERE, 8).is_some());
    }

    #[test]
    fn a_late_answer_is_nobodys() {
        let (question, mut room) = (new(), Room::new());
        let state = question.put(&ASKED_HERE, 5).unwrap();
        assert_eq!(question.end(state, &ASKED_HERE, &mut room), None);
        let other = Asked { place: 1, ..ASKED_HERE };
        let next = question.put(&other, 6).unwrap();
        question.answer(state, &ASKED_HERE, &ANSWER);
        assert_eq!(question.end(next, &other, &mut room), None);
        // Nor where the state is right and the bytes are not.
        let next = question.put(&other, 7).unwrap();
        question.answer(next, &ASKED_HERE, &ANSWER);
        assert_eq!(question.end(next, &other, &mut room), None);
    }

    #[test]
    fn what_a_killed_process_has_left_is_taken() {
        let (question, mut room) = (new(), Room::new());
        let state = question.put(&ASKED_HERE, 5).unwrap();
        assert_eq!(question.put(&ASKED_HERE, 5 + ABANDONED - 1), None);
        let next = question.put(&ASKED_HERE, 5 + ABANDONED).unwrap();
        question.answer(next, &ASKED_HERE, &ANSWER);
        assert_eq!(question.end(state, &ASKED_HERE, &mut room), None);
        assert_eq!(question.end(next, &ASKED_HERE, &mut room), Some(ANSWER));
    }

    #[test]
    fn long_texts_are_cut_and_wrong_lengths_are_not_believed() {
        let (question, mut room) = (new(), Room::new());
        let state = question.put(&ASKED_HERE, 5).unwrap();
        question.answer(state, &ASKED_HERE, &Answer { function: &[b'f'; 500], ..ANSWER });
        question.file.length.store(u32::MAX, Relaxed);
        let answer = question.end(state, &ASKED_HERE, &mut room).unwrap();
        assert_eq!((answer.file.len(), answer.function), (MOST_PATH, &[b'f'; MOST_FUNCTION][..]));
    }

    #[test]
    fn many_ask_and_none_gets_the_answer_of_another() {
        let questions = [new(), new()];
        let is_over = AtomicBool::new(false);
        let answered = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut room = Room::new();
                while !is_over.load(Relaxed) {
                    for question in &questions {
                        if let Some((state, asked)) = question.asked(&mut room) {
                            let answer = Answer { line: asked.place as u32, ..ANSWER };
                            question.answer(state, &asked, &answer);
                        }
                    }
                    std::thread::yield_now();
                }
            });
            let ask = |place: u64| {
                let (asked, mut answered) = (Asked { place, ..ASKED_HERE }, 0);
                // Until some were: how many, depends on how the threads take turns.
                for round in 0.. {
                    let question = &questions[round % 2];
                    let Some(state) = question.put(&asked, 0) else { continue };
                    (0..20).for_each(|_| std::thread::yield_now());
                    if let Some(answer) = question.end(state, &asked, &mut Room::new()) {
                        assert_eq!(u64::from(answer.line), place);
                        answered += 1;
                    }
                    if answered == 5 {
                        break;
                    }
                }
                answered
            };
            let askers: Vec<_> = (1..=4).map(|place| scope.spawn(move || ask(place))).collect();
            let answered: u32 = askers.into_iter().map(|asker| asker.join().unwrap()).sum();
            is_over.store(true, Relaxed);
            answered
        });
        assert_eq!(answered, 20);
    }
}
