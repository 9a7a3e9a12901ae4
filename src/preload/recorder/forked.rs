//! The place at which a process was forked after its parent had initialized the driver.
//!
//! The parent notes the place in its own memory right before the fork, and the child puts it into its record, where it has one.
//! Forks before the driver is initialized cost nothing, and a child of vfork or `posix_spawn` never gets here.

use super::file::File;
use super::{about, libraries};
use crate::settings;
use crate::sys::arch::thread;
use crate::sys::clock as system_clock;
use crate::sys::guard::guarded;
use crate::sys::line::Short;
use crate::sys::{elf, forks, pages, python, unwind};
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::record::meta;
use cupeer_spec::record::slot::{Line, detail::MOST_FRAMES};

/// The most lines of Python that are noted, and the longest text of one: its file and its function.
const MOST_PYTHON: usize = 8;
const MOST_TEXT: usize = 384;

/// A fork, in memory that the child has a copy of.
struct Place {
    at: u64,
    frames: [u64; MOST_FRAMES],
    count: usize,
    python: [(Line, u32, Short<MOST_TEXT>); MOST_PYTHON],
    lines: usize,
}

struct Noted(UnsafeCell<Place>);

// SAFETY: of threads that fork at the same time, only the one that has `IS_NOTING` writes to it. A child reads it, and its own
// thread was the last that wrote.
unsafe impl Sync for Noted {}

static PLACE: Noted = Noted(UnsafeCell::new(Place {
    at: 0,
    frames: [0; MOST_FRAMES],
    count: 0,
    python: [const { (Line { function: 0, line: 0, frame: 0 }, 0, Short::EMPTY) }; MOST_PYTHON],
    lines: 0,
}));

/// Held by the thread that notes a place; another one that forks meanwhile goes without.
static IS_NOTING: AtomicBool = AtomicBool::new(false);
/// The thread that was the last to note a place, by its block.
static NOTED_BY: AtomicUsize = AtomicUsize::new(0);
/// Whether the place is that of the fork to which this process owes its being.
static IS_OURS: AtomicBool = AtomicBool::new(false);

/// When the process that initialized the driver ended, on the monotonic clock: a page that its children share with it.
pub static ENDED: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// Notes forks from now on. Called by our constructor.
#[inline(always)]
pub fn watch() {
    extern "C" fn before() {
        if forks::is_late() && settings::get().record.is_some() {
            guarded(note);
        }
    }
    extern "C" fn in_child() {
        // The child of a child has nothing noted of its own, and keeps what it has inherited.
        let by = NOTED_BY.swap(0, Relaxed);
        if by != 0 {
            IS_OURS.store(by == thread() as usize, Relaxed);
        }
    }
    // SAFETY: the functions stay as long as the library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before), None, Some(in_child)) };
}

fn note() {
    if !IS_NOTING.swap(true, Acquire) {
        NOTED_BY.store(thread() as usize, Relaxed);
        note_alone();
        IS_NOTING.store(false, Release);
    }
}

fn note_alone() {
    if ENDED.load(Relaxed).is_null() {
        let page = pages::map(ptr::null_mut(), 4096, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0);
        ENDED.store(page.map_or(ptr::null_mut(), <*mut u8>::cast), Release);
    }
    // SAFETY: this thread has `IS_NOTING`, and nobody else writes.
    let place = unsafe { &mut *PLACE.0.get() };
    (place.at, place.count, place.lines) = (system_clock::now(), 0, 0);
    // The frames of ours, and then those of libc that the fork goes through.
    let mut libc = None;
    unwind::each_frame_from_here(|address| {
        if elf::is_our_code(address) {
            return true;
        }
        let Some(object) = elf::containing(address) else { return false };
        if place.count == 0 && *libc.get_or_insert(object.base) == object.base {
            return true;
        }
        python::meet(&object);
        place.frames[place.count] = address as u64;
        place.count += 1;
        place.count < MOST_FRAMES
    });
    let frames = &place.frames[..place.count];
    let Some(interpreter) = settings::get().python.then(python::native).flatten() else { return };
    python::each_frame(
        MOST_PYTHON,
        |_| false,
        |frame| {
            let Some(texts) = &frame.texts else { return false };
            let function = meta::FORKED_PYTHON + place.lines as u32;
            let line = Line { function, line: frame.line, frame: interpreter.place(frames, frame.run) };
            let text = Short::new(format_args!("{}\0{}", texts.file, texts.function));
            place.python[place.lines] = (line, frame.first_line, text);
            place.lines += 1;
            place.lines < MOST_PYTHON
        },
    );
}

/// Puts the place into the record of this process, which has just begun.
pub fn describe(file: &File) {
    let first = forks::initializer();
    if !forks::is_forked() || first == 0 || forks::has_initialized() {
        return;
    }
    // SAFETY: nobody writes to it in a forked child, which has not initialized the driver.
    let place = unsafe { &*PLACE.0.get() };
    let is_ours = usize::from(IS_OURS.load(Relaxed));
    let (count, lines) = (place.count * is_ours, place.lines * is_ours);
    let (frames, lines) = (&place.frames[..count], &place.python[..lines]);
    frames.iter().for_each(|address| _ = libraries::know(*address as usize));
    let mut bytes = [[0; Line::SIZE]; MOST_PYTHON];
    for ((line, first_line, text), bytes) in lines.iter().zip(&mut bytes) {
        let text = text.text().as_bytes();
        about::entry(file, meta::PYTHON, &[&line.function.to_le_bytes(), &first_line.to_le_bytes(), text]);
        *bytes = line.bytes();
    }
    let addresses = place.frames.map(u64::to_le_bytes);
    let pieces: [&[u8]; 5] = [
        &first.to_le_bytes(),
        &place.at.to_le_bytes(),
        &[count as u8],
        addresses[..count].as_flattened(),
        bytes[..lines.len()].as_flattened(),
    ];
    about::entry(file, meta::FORKED, &pieces);
}
