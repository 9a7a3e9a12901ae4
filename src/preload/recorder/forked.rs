//! Records the code that forked this process after its parent had initialized the driver.
//!
//! The parent notes its stack in its own memory right before the fork. The child copies that to its record, if it has one.
//! Forks before the driver is initialized cost nothing. Children of vfork and `posix_spawn` never get here.

use super::file::File;
use super::{about, libraries};
use crate::settings;
use crate::sys::arch::thread;
use crate::sys::clock as system_clock;
use crate::sys::guard::guarded;
use crate::sys::line::ShortText;
use crate::sys::{elf, forks, pages, python, unwind};
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use cupeer_spec::record::meta;
use cupeer_spec::record::slot::{PythonLine, detail::MOST_FRAMES};

/// Number of Python lines of a fork that are noted: the innermost ones.
const MOST_PYTHON: usize = 8;
/// Longest text of a Python line (its file and its function), in bytes.
const MOST_TEXT: usize = 384;

/// A place in the program that forks, in memory that the child inherits.
struct ForkSite {
    time: u64,
    frames: [u64; MOST_FRAMES],
    count: usize,
    python: [(PythonLine, u32, ShortText<MOST_TEXT>); MOST_PYTHON],
    lines: usize,
}

struct ForkSiteCell(UnsafeCell<ForkSite>);

// SAFETY: if several threads fork at the same time, only the one that has set `IS_NOTING` writes to it. A child reads it only after the
// fork of its own thread.
unsafe impl Sync for ForkSiteCell {}

static SITE: ForkSiteCell = ForkSiteCell(UnsafeCell::new(ForkSite {
    time: 0,
    frames: [0; MOST_FRAMES],
    count: 0,
    python: [const { (PythonLine { function: 0, line: 0, frame: 0 }, 0, ShortText::EMPTY) }; MOST_PYTHON],
    lines: 0,
}));

/// True while a thread notes the place of its fork. Another thread that forks at the same time notes nothing.
static IS_NOTING: AtomicBool = AtomicBool::new(false);
/// Address of the block of the thread that noted its fork last; 0 in a child that has read it.
static NOTED_BY: AtomicUsize = AtomicUsize::new(0);
/// True in a child if the noted place is that of the fork that created this child.
static IS_OURS: AtomicBool = AtomicBool::new(false);

/// Time when the process that initialized the driver ended, in nanoseconds of the monotonic clock. It is in a page that this
/// process shares with its children.
pub static ENDED: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

/// Registers the handlers that note forks. Called by our constructor.
#[inline(always)]
pub fn register_fork_handlers() {
    extern "C" fn before() {
        if forks::note_fork_if_late() && settings::get().record.is_some() {
            guarded(note);
        }
    }
    extern "C" fn in_child() {
        // A grandchild inherits this answer from the child, which notes no fork of its own.
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
    // SAFETY: this thread has set `IS_NOTING`, so nobody else writes.
    let site = unsafe { &mut *SITE.0.get() };
    (site.time, site.count, site.lines) = (system_clock::now(), 0, 0);
    // Leave out our own frames, and those of libc that lead to the fork.
    let mut libc = None;
    unwind::each_frame_from_here(|address| {
        if elf::is_our_code(address) {
            return true;
        }
        let Some(object) = elf::containing(address) else { return false };
        if site.count == 0 && *libc.get_or_insert(object.base) == object.base {
            return true;
        }
        python::note_interpreter(&object);
        site.frames[site.count] = address as u64;
        site.count += 1;
        site.count < MOST_FRAMES
    });
    let frames = &site.frames[..site.count];
    let Some(interpreter) = settings::get().python.then(python::find_native_interpreter).flatten() else {
        return;
    };
    python::each_frame(
        MOST_PYTHON,
        |_| false,
        |frame| {
            let Some(texts) = &frame.texts else { return false };
            let function = meta::FORKED_PYTHON + site.lines as u32;
            let line =
                PythonLine { function, line: frame.line, frame: interpreter.native_frame_index(frames, frame.run) };
            let text = ShortText::new(format_args!("{}\0{}", texts.file, texts.function));
            site.python[site.lines] = (line, frame.first_line, text);
            site.lines += 1;
            site.lines < MOST_PYTHON
        },
    );
}

/// Adds the place of the fork that created this process to its record, which has just begun.
pub fn add_fork_site(file: &File) {
    let first = forks::initializer();
    if !forks::is_forked() || first == 0 || forks::has_initialized() {
        return;
    }
    // SAFETY: nobody writes to it in a forked child, which has not initialized the driver.
    let site = unsafe { &*SITE.0.get() };
    let is_ours = usize::from(IS_OURS.load(Relaxed));
    let (count, lines) = (site.count * is_ours, site.lines * is_ours);
    let (frames, lines) = (&site.frames[..count], &site.python[..lines]);
    frames.iter().for_each(|address| _ = libraries::describe_library_of(*address as usize));
    let mut bytes = [[0; PythonLine::SIZE]; MOST_PYTHON];
    for ((line, first_line, text), bytes) in lines.iter().zip(&mut bytes) {
        let text = text.text().as_bytes();
        about::append_entry(file, meta::PYTHON, &[&line.function.to_le_bytes(), &first_line.to_le_bytes(), text]);
        *bytes = line.to_bytes();
    }
    let addresses = site.frames.map(u64::to_le_bytes);
    let pieces: [&[u8]; 5] = [
        &first.to_le_bytes(),
        &site.time.to_le_bytes(),
        &[count as u8],
        addresses[..count].as_flattened(),
        bytes[..lines.len()].as_flattened(),
    ];
    about::append_entry(file, meta::FORKED, &pieces);
}
