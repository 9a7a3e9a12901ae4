//! Answers what processes of a run ask for a finding as it happens: the line of source that a call came from.
//!
//! What belongs here: the thread that waits for questions, and how much it does for them. How a question passes between
//! two processes stands in [`cupeer_spec::question`], how lines are found in [`cupeer_report::symbols`].

use super::page::{self, Page};
use cupeer_record::Library;
use cupeer_report::places::line_at;
use cupeer_report::symbols::{LONGEST_NAME, Symbols, short};
use cupeer_spec::question::{Answer, Asked, Room};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::SystemTime;

/// How many answers are kept: places that calls come from. Beyond, nothing is known.
const MOST_KEPT: usize = 10_000;

/// The thread that answers, as long as this lives.
pub struct Answers {
    page: Arc<Page>,
    is_over: Arc<AtomicBool>,
}

impl Answers {
    /// Begins to answer what is asked in a page.
    pub fn start(page: &Arc<Page>) -> Option<Answers> {
        let answers = Answers { page: page.clone(), is_over: Arc::default() };
        let (page, is_over) = (page.clone(), answers.is_over.clone());
        let thread = std::thread::Builder::new().name("cupeer-answers".into());
        let began = SystemTime::now();
        let work = move || {
            let mut known = Known { symbols: Symbols::of_running(began), places: HashMap::new() };
            let mut room = Room::new();
            while !is_over.load(Acquire) {
                let heard = page.status().bell.load(Acquire);
                for question in &page.status().questions {
                    if let Some((state, asked)) = question.asked(&mut room) {
                        question.answer(state, &asked, &known.find(&asked).answer());
                        page::wake(&question.state);
                    }
                }
                page::wait(&page.status().bell, heard);
            }
        };
        let started = thread.spawn(work);
        started
            .inspect_err(|error| tracing::debug!("findings as they happen have no lines: {error}"))
            .ok()?;
        answers.page.status().answers.store(1, Release);
        Some(answers)
    }
}

impl Drop for Answers {
    /// Does not wait for the thread, which may be reading a large library.
    fn drop(&mut self) {
        self.page.status().answers.store(0, Relaxed);
        self.is_over.store(true, Release);
        self.page.status().bell.fetch_add(1, Release);
        page::wake(&self.page.status().bell);
    }
}

/// What was found, each place once.
struct Known {
    symbols: Symbols,
    places: HashMap<(Vec<u8>, Vec<u8>, u64), SourceLine>,
}

/// What is at a place. Empty where nothing is known.
#[derive(Default)]
struct SourceLine {
    file: String,
    line: u32,
    function: String,
}

impl Known {
    fn find(&mut self, asked: &Asked) -> &SourceLine {
        static UNKNOWN: SourceLine = SourceLine { file: String::new(), line: 0, function: String::new() };
        let key = (asked.path.to_vec(), asked.build_id.to_vec(), asked.place);
        if self.places.len() >= MOST_KEPT && !self.places.contains_key(&key) {
            return &UNKNOWN;
        }
        let mut look = || {
            let path = String::from_utf8(asked.path.to_vec()).ok()?;
            let build_id = asked.build_id.to_vec();
            let library = Library { base: 0, range: 0..u64::MAX, since: 0, build_id, path };
            let symbol = self.symbols.name(&library, asked.place)?;
            let name = |name: &str| short(name, LONGEST_NAME);
            Some(match line_at(&symbol.lines) {
                Some(source) => SourceLine {
                    function: source.function.as_deref().map(name).unwrap_or_default(),
                    file: source.file.clone(),
                    line: source.line,
                },
                None => SourceLine {
                    function: format!("{}+{:#x}", name(&symbol.function), symbol.offset),
                    ..SourceLine::default()
                },
            })
        };
        self.places.entry(key).or_insert_with(|| look().unwrap_or_default())
    }
}

impl SourceLine {
    fn answer(&self) -> Answer<'_> {
        Answer { file: self.file.as_bytes(), line: self.line, function: self.function.as_bytes() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// What is answered, however long it takes.
    fn ask(page: &Page, asked: &Asked) -> Option<(String, u32, String)> {
        let question = &page.status().questions[0];
        let state = question.put(asked, 0).expect("a free question");
        page.status().bell.fetch_add(1, Release);
        page::wake(&page.status().bell);
        let begun = Instant::now();
        while question.state.load(Acquire) == state {
            assert!(begun.elapsed() < Duration::from_secs(60), "no answer");
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut room = Room::new();
        let answer = question.end(state, asked, &mut room)?;
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        Some((text(answer.file), answer.line, text(answer.function)))
    }

    #[test]
    fn what_cannot_be_known_is_answered_too() {
        let page = Arc::new(Page::new().unwrap());
        let answers = Answers::start(&page).expect("a thread");
        assert_eq!(page.status().answers.load(Acquire), 1);
        let own = std::env::current_exe().unwrap().into_os_string().into_string().unwrap();
        for path in ["/nowhere/at/all", "/dev/zero", "/proc/self/mem", "relative", "", &own, "/\u{7f}\n"] {
            let asked = Asked { path: path.as_bytes(), build_id: &[1; 20], place: 0x1000 };
            assert_eq!(ask(&page, &asked), Some(Default::default()), "{path}");
        }
        let asked = Asked { path: b"/\xff", build_id: &[], place: u64::MAX };
        assert_eq!(ask(&page, &asked), Some(Default::default()));
        drop(answers);
        assert_eq!(page.status().answers.load(Acquire), 0);
    }
}
