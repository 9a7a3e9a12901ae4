//! `cupeer top`: what the processes of this host share, open and call, now.
//!
//! It reads records and live tables, and nothing else: it attaches to no process, writes into no record and takes no lock.
//! [`reading`] looks at the files, [`memory`] at the memory of devices, [`assemble`] makes a [`document`] of what it saw, which is printed as it is, as metrics
//! ([`prometheus`]), or [`draw`]n. [`view`] is what the user has chosen to see of it, [`screen`] the terminal.

mod assemble;
mod columns;
mod document;
mod draw;
mod keys;
mod memory;
mod prometheus;
pub mod reading;
mod screen;
#[cfg(test)]
mod tests;
mod view;

use crate::start::args::{TopArgs, TopFormat};
use crate::start::nvml::memory::Nvml;
use crate::start::{output, status};
use anyhow::{Context, Result};
use assemble::Before;
use columns::Look;
use cupeer_report::style::{Mark, Style};
use document::Document;
use memory::Memories;
use reading::{Reading, SOME, Watcher};
use screen::{Happened, Screen};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use view::{Asked, Page, View};

/// Looking takes at most this fraction of a processor.
const SHARE: u32 = 10;

pub fn command(args: &TopArgs) -> Result<ExitCode> {
    let mut watcher = Watcher::new(&args.directories)?;
    if args.once || !(io::stdin().is_terminal() && io::stdout().is_terminal()) {
        return once(args, &mut watcher);
    }
    show(args, &mut watcher)
}

/// Looks twice, where calls a second are asked for, and prints it.
fn once(args: &TopArgs, watcher: &mut Watcher) -> Result<ExitCode> {
    let mut first = watcher.look(usize::MAX)?;
    first.memory = memory::look(&first.named(), &Nvml::load());
    if args.format == TopFormat::Prometheus {
        return output::print_as_is(&prometheus::text(&assemble::document(&first, None)));
    }
    std::thread::sleep(args.interval);
    let before = Before::of(&first);
    let document =
        assemble::document(&Reading { memory: first.memory, ..watcher.look(usize::MAX)? }, Some(&before));
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
fn show(args: &TopArgs, watcher: &mut Watcher) -> Result<ExitCode> {
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
                let mut reading = watcher.look(SOME)?;
                reading.memory = memories.ask(reading.named());
                document = assemble::document(&reading, before.as_ref());
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
                Asked::Why(path) => view.turn_to(Page::Why(crate::why::lines(Path::new(&path)))),
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
