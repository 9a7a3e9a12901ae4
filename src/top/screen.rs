//! The terminal: cupeer takes it for a while, and gives it back however the command ends.
//!
//! Sets raw mode, switches screens, handles signals, and rewrites changed lines. [`super::draw`] makes the lines.

use super::columns::Line;
use super::keys::{self, Key, KeyInput};
use crossterm::style::Print;
use crossterm::terminal::{
    self, BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen,
};
use crossterm::{cursor, execute, queue};
use cupeer_report::style::Style;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::low_level::emulate_default_handler;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

/// Maximum delay until a signal is noticed that arrived just before a wait.
const MOST_DELAY: Duration = Duration::from_millis(200);
/// Signals that end the command, which restores the terminal before it ends.
const ENDING: [i32; 4] = [SIGTERM, SIGHUP, SIGINT, SIGQUIT];

/// True while the terminal is in raw mode and shows cupeer's screen. A panic also restores the terminal.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

pub struct Screen {
    style: Style,
    /// Lines that the terminal shows at present.
    shown: Vec<Line>,
    size: (u16, u16),
    /// Last signal from [`ENDING`] that arrived; 0 if none did.
    ended_by: Arc<AtomicUsize>,
    is_stopped: Arc<AtomicBool>,
    is_continued: Arc<AtomicBool>,
    is_resized: Arc<AtomicBool>,
    input: KeyInput,
}

/// Event that ends a wait.
pub enum ScreenEvent {
    Key(Key),
    /// The screen must be redrawn, because its size has changed or another program has used the terminal.
    Changed,
    /// The time is over, and nothing else happened.
    Nothing,
    /// The terminal was closed.
    HungUp,
}

impl Screen {
    pub fn take_terminal(style: Style) -> io::Result<Screen> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                restore_terminal();
                before(panic);
            }));
        });
        let screen = Screen {
            style,
            shown: Vec::new(),
            size: terminal::size()?,
            ended_by: Arc::default(),
            is_stopped: Arc::default(),
            is_continued: Arc::default(),
            is_resized: Arc::default(),
            input: KeyInput::default(),
        };
        for signal in ENDING {
            signal_hook::flag::register_usize(signal, screen.ended_by.clone(), signal as usize)?;
        }
        signal_hook::flag::register(SIGTSTP, screen.is_stopped.clone())?;
        signal_hook::flag::register(SIGCONT, screen.is_continued.clone())?;
        signal_hook::flag::register(SIGWINCH, screen.is_resized.clone())?;
        enter_screen()?;
        Ok(screen)
    }

    /// Returns the size of the terminal: columns and rows.
    pub fn size(&self) -> (usize, usize) {
        (self.size.0.into(), self.size.1.into())
    }

    /// Waits for an event until the time `until`.
    pub fn wait_event(&mut self, until: Instant) -> io::Result<ScreenEvent> {
        loop {
            match self.ended_by.load(SeqCst) as i32 {
                0 => {}
                signal => {
                    restore_terminal();
                    emulate_default_handler(signal)?;
                }
            }
            if self.is_stopped.swap(false, SeqCst) {
                self.suspend()?;
                return Ok(ScreenEvent::Changed);
            }
            // The process was stopped and continued, and another program may have used the terminal while it was
            // stopped.
            if self.is_continued.swap(false, SeqCst) {
                self.enter_again()?;
                return Ok(ScreenEvent::Changed);
            }
            if self.is_resized.swap(false, SeqCst) {
                self.size = terminal::size()?;
                self.shown.clear();
                return Ok(ScreenEvent::Changed);
            }
            if let Some(key) = self.input.next_key() {
                return Ok(ScreenEvent::Key(key));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(ScreenEvent::Nothing);
            }
            if self.input.wait_for_keys(left.min(MOST_DELAY))? == keys::WaitOutcome::HungUp {
                return Ok(ScreenEvent::HungUp);
            }
        }
    }

    /// Stops this process, as Ctrl-Z does, and takes the terminal again when the process is continued.
    pub fn suspend(&mut self) -> io::Result<()> {
        restore_terminal();
        emulate_default_handler(SIGTSTP)?;
        self.is_continued.store(false, SeqCst);
        self.enter_again()
    }

    fn enter_again(&mut self) -> io::Result<()> {
        self.shown.clear();
        self.size = terminal::size()?;
        // The shell may have changed the terminal's modes.
        let _ = terminal::disable_raw_mode();
        enter_screen()
    }

    /// Shows these lines, and writes only the changed ones to the terminal.
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
            let text = Print(line.with_colors(self.style));
            queue!(out, cursor::MoveTo(0, row as u16), Clear(ClearType::UntilNewLine), text)?;
        }
        queue!(out, EndSynchronizedUpdate)?;
        self.shown = lines;
        out.flush()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore_terminal();
    }
}

fn enter_screen() -> io::Result<()> {
    IS_TAKEN.store(true, SeqCst);
    terminal::enable_raw_mode()?;
    execute!(io::stdout(), EnterAlternateScreen, cursor::Hide)
}

/// Restores the terminal if cupeer has it.
fn restore_terminal() {
    if IS_TAKEN.swap(false, SeqCst) {
        // If the terminal was closed, this fails, and nobody can read an error.
        let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
        let _ = terminal::disable_raw_mode();
    }
}
