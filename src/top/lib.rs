//! `cupeer top`: the memory that processes of this host share and open, and their calls, now.
//!
//! In: recordings, live tables, and NVML. The command only reads them: it attaches to no process and takes no lock.
//! Out: a document, as a screen, JSON, or metrics. [`cupeer_recordings::live`] reads the files, and `memory` the
//! memory of devices; `assemble` builds the document. Begin with `print_once` in this file.
//!
//! The modules, from the lowest layer up; `tests/rooms.rs` checks this:
//!
//! - `args`: the options.
//! - `document`: the document.
//! - `memory`, `assemble`: from files to the document.
//! - `columns`, `keys`, `screen`: the terminal.
//! - `view`, `draw`: the user's choice, and the lines of a screen.
//! - `prometheus`: metrics.

pub mod args;
mod assemble;
mod columns;
mod document;
mod draw;
mod keys;
mod memory;
mod prometheus;
mod screen;
#[cfg(test)]
mod tests;
mod view;

use crate::args::{TopArgs, TopFormat};
use anyhow::{Context, Result};
use assemble::PreviousSample;
use cupeer_console::{output, status};
use cupeer_nvidia::nvml::memory::LoadedNvml;
use cupeer_recordings::live::{BLOCKS_PER_REFRESH, Watcher};
use document::Document;
use memory::{MemoryThread, SHARE};
use screen::{Screen, ScreenEvent};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use view::{KeyRequest, Page, ViewState};

/// Runs the command; `why` reads what the processes of a recording wait for, as lines.
pub fn command(args: &TopArgs, why: fn(&Path) -> Vec<String>) -> Result<ExitCode> {
    let mut watcher = Watcher::new(&args.directories)?;
    if args.once || !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return print_once(args, &mut watcher);
    }
    show_screen(args, &mut watcher, why)
}

/// Prints the document once. Takes two samples if the output has calls per second.
fn print_once(args: &TopArgs, watcher: &mut Watcher) -> Result<ExitCode> {
    let first = watcher.take_sample(usize::MAX)?;
    let memory = memory::read_memory(&first.names_and_paths(), &LoadedNvml::load());
    if args.format == TopFormat::Prometheus {
        return output::print_as_is(&prometheus::format_metrics(&assemble::build_document(&first, &memory, None)));
    }
    std::thread::sleep(args.interval);
    let before = PreviousSample::of(&first);
    let document = assemble::build_document(&watcher.take_sample(usize::MAX)?, &memory, Some(&before));
    if args.format == TopFormat::Json {
        return output::print_json(&document);
    }
    let view = ViewState::new(args.sort, args.reverse);
    let lines = draw::draw_once(&document, &view, output::line_width());
    let style = output::stdout_style();
    let text: String = lines.iter().map(|line| line.with_colors(style).trim_end().to_owned() + "\n").collect();
    output::print_marked(&text)
}

/// Shows the document on a screen until the user quits.
fn show_screen(args: &TopArgs, watcher: &mut Watcher, why: fn(&Path) -> Vec<String>) -> Result<ExitCode> {
    let mut view = ViewState::new(args.sort, args.reverse);
    let (mut document, mut before) = (Document::default(), None);
    let memories = MemoryThread::start();
    let mut next = Instant::now();
    let mut screen = Screen::take_terminal(output::stdout_style()).context("failed to take the terminal")?;
    loop {
        if Instant::now() >= next {
            let (began, used) = (Instant::now(), thread_processor_time());
            if !view.is_paused {
                let reading = watcher.take_sample(BLOCKS_PER_REFRESH)?;
                document =
                    assemble::build_document(&reading, &memories.request(reading.names_and_paths()), before.as_ref());
                before = Some(PreviousSample::of(&reading));
            }
            next = began + pause_after_sample(args.interval, self::thread_processor_time().saturating_sub(used));
        }
        let (columns, rows) = screen.size();
        let drawn = screen.draw(draw::draw_screen(&document, &view, columns, rows));
        drawn.context("failed to write to the terminal")?;
        match screen.wait_event(next).context("failed to read from the terminal")? {
            ScreenEvent::Key(key) => match view.handle_key(key, &document) {
                KeyRequest::Quit => return Ok(ExitCode::SUCCESS),
                KeyRequest::Suspend => screen.suspend()?,
                KeyRequest::Why(path) => view.turn_to(Page::Why(why(Path::new(&path)))),
                KeyRequest::Nothing => {}
            },
            ScreenEvent::Changed | ScreenEvent::Nothing => {}
            ScreenEvent::HungUp => return Ok(ExitCode::from(status::CUPEER_FAILED)),
        }
    }
}

/// Returns the time from the start of a sample to that of the next one. `used` is the processor time of the sample.
fn pause_after_sample(interval: Duration, used: Duration) -> Duration {
    interval.max(used * SHARE)
}

/// Returns the processor time of this thread.
fn thread_processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time to where it is pointed.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
