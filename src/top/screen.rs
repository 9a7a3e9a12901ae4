//! The terminal: taken for a while, and given back on every way out.
//!
//! What belongs here: raw mode, the other screen, signals, and which lines are written anew. What the lines say is
//! [`super::draw`]'s.

use super::columns::{Line, Look};
use super::keys::{self, Input, Key};
use crossterm::style::{Attribute, Color, Print, SetAttribute, SetForegroundColor};
use crossterm::terminal::{
    self, BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen,
};
use crossterm::{cursor, execute, queue};
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::low_level::emulate_default_handler;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

/// How late a signal is noticed that comes just before we wait.
const NOTICED: Duration = Duration::from_millis(200);
/// What ends it, and gives the terminal back before.
const ENDING: [i32; 4] = [SIGTERM, SIGHUP, SIGINT, SIGQUIT];

/// Whether the terminal is ours: a panic gives it back, too.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

pub struct Screen {
    is_colored: bool,
    /// What is on it, line by line.
    shown: Vec<Line>,
    size: (u16, u16),
    /// The signal that came last of [`ENDING`], or 0.
    ended_by: Arc<AtomicUsize>,
    is_stopped: Arc<AtomicBool>,
    is_continued: Arc<AtomicBool>,
    is_resized: Arc<AtomicBool>,
    input: Input,
}

/// What has happened.
pub enum Happened {
    Key(Key),
    /// It is to be drawn anew: its size has changed, or it was away.
    Changed,
    /// Nothing, until it was time.
    Nothing,
    /// The terminal is gone.
    HungUp,
}

impl Screen {
    pub fn take(is_colored: bool) -> io::Result<Screen> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                give_back();
                before(panic);
            }));
        });
        let screen = Screen {
            is_colored,
            shown: Vec::new(),
            size: terminal::size()?,
            ended_by: Arc::default(),
            is_stopped: Arc::default(),
            is_continued: Arc::default(),
            is_resized: Arc::default(),
            input: Input::default(),
        };
        for signal in ENDING {
            signal_hook::flag::register_usize(signal, screen.ended_by.clone(), signal as usize)?;
        }
        signal_hook::flag::register(SIGTSTP, screen.is_stopped.clone())?;
        signal_hook::flag::register(SIGCONT, screen.is_continued.clone())?;
        signal_hook::flag::register(SIGWINCH, screen.is_resized.clone())?;
        enter()?;
        Ok(screen)
    }

    /// Columns and rows.
    pub fn size(&self) -> (usize, usize) {
        (self.size.0.into(), self.size.1.into())
    }

    /// Waits for something until it is time.
    pub fn wait(&mut self, until: Instant) -> io::Result<Happened> {
        loop {
            match self.ended_by.load(SeqCst) as i32 {
                0 => {}
                signal => {
                    give_back();
                    emulate_default_handler(signal)?;
                }
            }
            if self.is_stopped.swap(false, SeqCst) {
                self.suspend()?;
                return Ok(Happened::Changed);
            }
            // It was stopped in a way that we cannot notice, and somebody else may have had the terminal.
            if self.is_continued.swap(false, SeqCst) {
                self.enter_again()?;
                return Ok(Happened::Changed);
            }
            if self.is_resized.swap(false, SeqCst) {
                self.size = terminal::size()?;
                self.shown.clear();
                return Ok(Happened::Changed);
            }
            if let Some(key) = self.input.next() {
                return Ok(Happened::Key(key));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Happened::Nothing);
            }
            if self.input.wait(left.min(NOTICED))? == keys::Waited::HungUp {
                return Ok(Happened::HungUp);
            }
        }
    }

    /// Stops as others do by Ctrl-Z, and comes back when it is continued.
    pub fn suspend(&mut self) -> io::Result<()> {
        give_back();
        emulate_default_handler(SIGTSTP)?;
        self.is_continued.store(false, SeqCst);
        self.enter_again()
    }

    fn enter_again(&mut self) -> io::Result<()> {
        self.shown.clear();
        self.size = terminal::size()?;
        // The shell may have set the terminal otherwise.
        let _ = terminal::disable_raw_mode();
        enter()
    }

    /// Shows these lines; those that are there already are not written.
    pub fn draw(&mut self, lines: Vec<Line>) -> io::Result<()> {
        let mut out = io::stdout().lock();
        queue!(out, BeginSynchronizedUpdate)?;
        if self.shown.is_empty() {
            queue!(out, Clear(ClearType::All))?;
        }
        for (row, line) in lines.iter().enumerate() {
            if self.shown.get(row) == Some(line) {
                continue;
            }
            queue!(out, cursor::MoveTo(0, row as u16), Clear(ClearType::UntilNewLine))?;
            line.0.iter().try_for_each(|(look, text)| piece(&mut out, *look, text, self.is_colored))?;
        }
        queue!(out, EndSynchronizedUpdate)?;
        self.shown = lines;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

/// A piece of a line. Without colours, only what is chosen stands out.
pub fn piece(out: &mut impl Write, look: Look, text: &str, is_colored: bool) -> io::Result<()> {
    match look {
        Look::Chosen => queue!(out, SetAttribute(Attribute::Reverse))?,
        _ if !is_colored => {}
        Look::Plain => {}
        Look::Head => queue!(out, SetAttribute(Attribute::Bold))?,
        Look::Dim => queue!(out, SetAttribute(Attribute::Dim))?,
        Look::Bad => queue!(out, SetForegroundColor(Color::DarkRed))?,
        Look::Doubtful => queue!(out, SetForegroundColor(Color::DarkYellow))?,
    }
    queue!(out, Print(text))?;
    let is_marked = look == Look::Chosen || is_colored && look != Look::Plain;
    if is_marked { queue!(out, SetAttribute(Attribute::Reset)) } else { Ok(()) }
}

fn enter() -> io::Result<()> {
    IS_TAKEN.store(true, SeqCst);
    terminal::enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)
}

/// Gives the terminal back as it was, once.
fn give_back() {
    if IS_TAKEN.swap(false, SeqCst) {
        // Where it is gone, nobody can be told.
        let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
        let _ = terminal::disable_raw_mode();
    }
}
