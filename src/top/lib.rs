//! `cupeer top`: the memory that processes of this host share and open, and their calls, now.
//!
//! In: recordings, live tables, and NVML. The command only reads them: it attaches to no process and takes no lock.
//! Out: a document, as a screen, JSON, or metrics. [`cupeer_recordings::live`] reads the files, and `memory` the
//! memory of devices; `assemble` builds the document. Begin with `once` in this file.
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
use assemble::Before;
use cupeer_console::{output, status};
use cupeer_nvidia::nvml::memory::Nvml;
use cupeer_recordings::live::{SOME, Watcher};
use document::Document;
use memory::{Memories, SHARE};
use screen::{Happened, Screen};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use view::{Page, Request, View};

/// Runs the command; `why` reads what the processes of a recording wait for, as lines.
pub fn command(args: &TopArgs, why: fn(&Path) -> Vec<String>) -> Result<ExitCode> {
    let mut watcher = Watcher::new(&args.directories)?;
    if args.once || !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return once(args, &mut watcher);
    }
    show(args, &mut watcher, why)
}

/// Prints the document once. Takes two samples if the output has calls per second.
fn once(args: &TopArgs, watcher: &mut Watcher) -> Result<ExitCode> {
    let first = watcher.look(usize::MAX)?;
    let memory = memory::read(&first.named(), &Nvml::load());
    if args.format == TopFormat::Prometheus {
        return output::print_as_is(&prometheus::text(&assemble::document(&first, &memory, None)));
    }
    std::thread::sleep(args.interval);
    let before = Before::of(&first);
    let document = assemble::document(&watcher.look(usize::MAX)?, &memory, Some(&before));
    if args.format == TopFormat::Json {
        return output::print_json(&document);
    }
    let view = View::new(args.sort, args.reverse);
    let lines = draw::once(&document, &view, output::terminal_width());
    let style = output::stdout_style();
    let text: String = lines.iter().map(|line| line.marked(style).trim_end().to_owned() + "\n").collect();
    output::print_marked(&text)
}

/// Shows the document on a screen until the user quits.
fn show(args: &TopArgs, watcher: &mut Watcher, why: fn(&Path) -> Vec<String>) -> Result<ExitCode> {
    let mut view = View::new(args.sort, args.reverse);
    let (mut document, mut before) = (Document::default(), None);
    let memories = Memories::start();
    let mut next = Instant::now();
    let mut screen = Screen::take(output::stdout_style()).context("failed to take the terminal")?;
    loop {
        if Instant::now() >= next {
            let (began, used) = (Instant::now(), used());
            if !view.is_paused {
                let reading = watcher.look(SOME)?;
                document = assemble::document(&reading, &memories.ask(reading.named()), before.as_ref());
                before = Some(Before::of(&reading));
            }
            next = began + pause(args.interval, self::used().saturating_sub(used));
        }
        let (columns, rows) = screen.size();
        let drawn = screen.draw(draw::screen(&document, &view, columns, rows));
        drawn.context("failed to write to the terminal")?;
        match screen.wait(next).context("failed to read from the terminal")? {
            Happened::Key(key) => match view.key(key, &document) {
                Request::Quit => return Ok(ExitCode::SUCCESS),
                Request::Suspend => screen.suspend()?,
                Request::Why(path) => view.turn_to(Page::Why(why(Path::new(&path)))),
                Request::Nothing => {}
            },
            Happened::Changed | Happened::Nothing => {}
            Happened::HungUp => return Ok(ExitCode::from(status::OURS)),
        }
    }
}

/// Returns the time from the start of a sample that used this much processor time to the start of the next one.
fn pause(interval: Duration, used: Duration) -> Duration {
    interval.max(used * SHARE)
}

/// Returns the processor time of this thread.
fn used() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time to where it is pointed.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
