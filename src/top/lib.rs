//! `cupeer top`: what the processes of this host share, open, and call now.
//!
//! In: recordings, live tables, and NVML, all of them only read: it attaches to no process and takes no lock. Out: a document, as
//! a screen, JSON, or metrics. [`cupeer_recordings::live`] reads the files, `memory` the memory of devices; `assemble` makes the
//! document. Begin with `once` in this file.
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
use columns::Look;
use cupeer_console::{output, status};
use cupeer_nvidia::nvml::memory::Nvml;
use cupeer_recordings::live::{SOME, Watcher};
use cupeer_report::style::{Mark, Style};
use document::Document;
use memory::{Memories, SHARE};
use screen::{Happened, Screen};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use view::{Asked, Page, View};

/// Runs the command; `why` reads what the processes of a recording wait for, as lines.
pub fn command(args: &TopArgs, why: fn(&Path) -> Vec<String>) -> Result<ExitCode> {
    let mut watcher = Watcher::new(&args.directories)?;
    if args.once || !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return once(args, &mut watcher);
    }
    show(args, &mut watcher, why)
}

/// Looks twice, where calls a second are asked for, and prints it.
fn once(args: &TopArgs, watcher: &mut Watcher) -> Result<ExitCode> {
    let first = watcher.look(usize::MAX)?;
    let memory = memory::look(&first.named(), &Nvml::load());
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
    let text: String = lines.iter().map(|line| marked(line, style) + "\n").collect();
    output::print_marked(&text)
}

/// A line with the marks that text has elsewhere.
fn marked(line: &columns::Line, style: Style) -> String {
    let piece = |(look, text): &(Look, String)| match look {
        Look::Head | Look::Chosen => style.mark(Mark::Heading, text),
        Look::Bad => style.mark(Mark::Error, text),
        Look::Doubtful => style.mark(Mark::Warning, text),
        Look::Dim => style.mark(Mark::Note, text),
        Look::Plain => text.clone(),
    };
    let text: String = line.0.iter().map(piece).collect();
    text.trim_end().to_owned()
}

/// Shows it until somebody has seen enough.
fn show(args: &TopArgs, watcher: &mut Watcher, why: fn(&Path) -> Vec<String>) -> Result<ExitCode> {
    let mut view = View::new(args.sort, args.reverse);
    let is_colored = output::stdout_style() == Style::Colored;
    let (mut document, mut before) = (Document::default(), None);
    let memories = Memories::start();
    let mut next = Instant::now();
    let mut screen = Screen::take(is_colored).context("failed to take the terminal")?;
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
                Asked::Quit => return Ok(ExitCode::SUCCESS),
                Asked::Suspend => screen.suspend()?,
                Asked::Why(path) => view.turn_to(Page::Why(why(Path::new(&path)))),
                Asked::Nothing => {}
            },
            Happened::Changed | Happened::Nothing => {}
            Happened::HungUp => return Ok(ExitCode::from(status::OURS)),
        }
    }
}

/// How long after the begin of a look that used so much of a processor the next one begins.
fn pause(interval: Duration, used: Duration) -> Duration {
    interval.max(used * SHARE)
}

/// The processor's time that this thread has used.
fn used() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes the time to where it is pointed.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
