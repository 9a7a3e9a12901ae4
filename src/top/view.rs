//! The user's choices on the screen, and the keys that change them.
//!
//! Keeps the choices, and sorts rows by them. It does not draw.

use super::assemble::has_died;
use super::document::{Document, Process, Who};
use super::keys::Key;
use crate::args::Sort;
use clap::ValueEnum;
use std::cmp::Ordering;
use std::path::Path;

/// Duration of a call, in nanoseconds, from which on it counts as hanging.
pub const HANGS: u64 = 1_000_000_000;
/// Number of rows by which a page key moves the choice.
const PAGE_ROWS: usize = 10;

/// Page that the screen shows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Page {
    #[default]
    All,
    /// Details of one process.
    One(Who),
    /// Lines about what the processes of a job wait for.
    Why(Vec<String>),
    Help,
}

#[derive(Clone, Debug, Default)]
pub struct ViewState {
    pub sort: Sort,
    pub reverse: bool,
    pub page: Page,
    /// Text that selects processes by job, name, rank, or pid.
    pub filter: String,
    /// True while pressed keys are added to the filter.
    pub is_typing: bool,
    pub is_paused: bool,
    /// Process that keys act on, as far as the user has chosen one.
    pub chosen: Option<Who>,
    /// Index of the first line that is shown, if not all lines fit.
    pub first: usize,
}

/// Action of the caller after a key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyRequest {
    Nothing,
    Quit,
    Suspend,
    /// Show what the processes of a job wait for. The job is given by its path.
    Why(String),
}

impl ViewState {
    pub fn new(sort: Sort, reverse: bool) -> ViewState {
        ViewState { sort, reverse, ..ViewState::default() }
    }

    /// Returns the processes that pass the filter, in the chosen order.
    pub fn rows<'a>(&self, document: &'a Document) -> Vec<&'a Process> {
        let none_runs = document.processes.iter().all(|process| process.exit.has_ended());
        let mut rows: Vec<&Process> = document
            .processes
            .iter()
            .filter(|process| none_runs || has_row(process))
            .filter(|process| self.passes_filter(process))
            .collect();
        rows.sort_by(|a, b| {
            let order = compare_by_column(self.sort, a, b);
            let order = if self.reverse { order.reverse() } else { order };
            order.then_with(|| compare_ranks(a, b))
        });
        rows
    }

    fn passes_filter(&self, process: &Process) -> bool {
        let Who { job, rank, pid, .. } = &process.who;
        let filter = self.filter.as_str();
        filter.is_empty()
            || pid.to_string() == filter
            || rank.is_some_and(|rank| rank.to_string() == filter || format!("rank {rank}") == filter)
            || filter.parse::<u32>().is_err() && (job.contains(filter) || program_name(process).contains(filter))
    }

    pub fn handle_key(&mut self, key: Key, document: &Document) -> KeyRequest {
        match key {
            Key::Ctrl('c') => return KeyRequest::Quit,
            Key::Ctrl('z') => return KeyRequest::Suspend,
            _ => {}
        }
        if self.is_typing {
            self.type_into_filter(key);
            return KeyRequest::Nothing;
        }
        match key {
            Key::Char('q') => return KeyRequest::Quit,
            Key::Char('w') => {
                let chosen = self.chosen_process(document).map(|who| who.job);
                let job = document.jobs.iter().find(|job| chosen.as_ref().is_none_or(|name| *name == job.name));
                return job.map_or(KeyRequest::Nothing, |job| KeyRequest::Why(job.path.clone()));
            }
            Key::Char('s' | '>') => self.change_sort_column(1),
            Key::Char('S' | '<') => self.change_sort_column(-1),
            Key::Char('r') => self.reverse = !self.reverse,
            Key::Char('p' | ' ') => self.is_paused = !self.is_paused,
            Key::Char('/') => {
                (self.page, self.is_typing) = (Page::All, true);
                self.filter.clear();
            }
            Key::Char('?' | 'h') => self.turn_to(Page::Help),
            Key::Esc if self.page == Page::All => self.filter.clear(),
            Key::Esc | Key::Backspace | Key::Left => self.turn_to(Page::All),
            Key::Enter | Key::Right => {
                if let (Page::All, Some(chosen)) = (&self.page, self.chosen_process(document)) {
                    self.turn_to(Page::One(chosen));
                }
            }
            Key::Up | Key::Char('k') => self.move_by(document, -1),
            Key::Down | Key::Char('j') => self.move_by(document, 1),
            Key::PageUp => self.move_by(document, -(PAGE_ROWS as isize)),
            Key::PageDown => self.move_by(document, PAGE_ROWS as isize),
            Key::Home => self.move_by(document, isize::MIN / 2),
            Key::End => self.move_by(document, isize::MAX / 2),
            _ => {}
        }
        KeyRequest::Nothing
    }

    fn type_into_filter(&mut self, key: Key) {
        match key {
            Key::Enter => self.is_typing = false,
            Key::Esc => {
                self.is_typing = false;
                self.filter.clear();
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Char(c) => self.filter.push(c),
            _ => {}
        }
    }

    pub fn turn_to(&mut self, page: Page) {
        (self.page, self.first) = (page, 0);
    }

    fn change_sort_column(&mut self, step: isize) {
        let all = Sort::value_variants();
        let now = all.iter().position(|sort| *sort == self.sort).unwrap_or(0);
        self.sort = all[(now as isize + step).rem_euclid(all.len() as isize) as usize];
    }

    /// Returns the process that keys act on: the chosen one or, if that is not shown, the first one.
    pub fn chosen_process(&self, document: &Document) -> Option<Who> {
        let rows = self.rows(document);
        let chosen = rows.iter().find(|row| Some(&row.who) == self.chosen.as_ref());
        chosen.or(rows.first()).map(|row| row.who.clone())
    }

    fn move_by(&mut self, document: &Document, by: isize) {
        if self.page != Page::All {
            self.first = self.first.saturating_add_signed(by);
            return;
        }
        let rows = self.rows(document);
        let chosen = self.chosen_process(document);
        let now = rows.iter().position(|row| Some(&row.who) == chosen.as_ref()).unwrap_or(0);
        let next = now.saturating_add_signed(by).min(rows.len().saturating_sub(1));
        self.chosen = rows.get(next).map(|row| row.who.clone());
    }
}

/// Returns true if a process has a row of its own. A process that ended well and left nothing open is only
/// counted.
fn has_row(process: &Process) -> bool {
    !process.exit.has_ended() || has_died(&process.exit) || process.openings + process.exports > 0
}

/// Returns the file name of a process's program.
pub fn program_name(process: &Process) -> String {
    let name = Path::new(&process.program).file_name();
    name.map_or("?".into(), |name| name.to_string_lossy().into_owned())
}

/// Returns the age in nanoseconds of the call in which a process hangs; `None` if it does not hang.
pub fn hanging_age(process: &Process) -> Option<u64> {
    process.oldest_unreturned()?.age_ns.filter(|age| *age >= HANGS)
}

/// Compares two processes by a column, the most important value first.
fn compare_by_column(sort: Sort, a: &Process, b: &Process) -> Ordering {
    let most = |of: fn(&Process) -> u64| of(b).cmp(&of(a));
    match sort {
        Sort::State => {
            let rank = |process: &Process| {
                let ended = process.exit.has_ended();
                (has_died(&process.exit), process.hung.is_some(), hanging_age(process), ended)
            };
            rank(b).cmp(&rank(a))
        }
        Sort::Rank => compare_ranks(a, b),
        Sort::Pid => a.who.pid.cmp(&b.who.pid),
        Sort::Program => program_name(a).cmp(&program_name(b)),
        Sort::Shared => most(|process| process.shared_bytes),
        Sort::Held => most(|process| process.held_bytes),
        Sort::Holds => most(|process| process.holds_bytes),
        Sort::Open => most(|process| process.openings),
        Sort::Calls => b.calls_per_second.unwrap_or(-1.0).total_cmp(&a.calls_per_second.unwrap_or(-1.0)),
        Sort::Failed => most(|process| process.failed.unwrap_or(0)),
    }
}

/// Compares ranks, and then pids of processes without a rank.
fn compare_ranks(a: &Process, b: &Process) -> Ordering {
    let key = |process: &Process| (process.who.rank.is_none(), process.who.rank, process.who.pid);
    key(a).cmp(&key(b)).then_with(|| a.who.cmp(&b.who))
}
